"""Denied files that git stores: which command lines would print them, and which would not."""

from collections.abc import Iterator

import pytest

from clew.permissions.decision import describe_reason
from clew.permissions.git_contents import make_pathspecs
from clew.permissions.request import Context, HeldByGit
from tests.permissions.configurations import CONFIGURATIONS
from tests.permissions.test_corpus import lines
from tests.permissions.world import World
from tests.requirements import requirement

BLOB = "aabbccddeeff00112233445566778899aabbccdd"
KEPT = (".env", "secrets/key", "lib/secrets/key", "deep/er/.env")
DENY = ["Read(.env)", "Read(secrets/**)"]
ALL = "':!.env' ':!secrets' ':!lib' ':!deep'"


@pytest.fixture
def keeping(world: World) -> Iterator[World]:
    """The world, whose git keeps every denied file."""
    before = world.held_by_git
    world.held_by_git = HeldByGit(
        is_known=True, top=str(world.cwd), paths=KEPT, blobs=frozenset([BLOB])
    )
    yield world
    world.held_by_git = before


@requirement("R146")
@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if "deny" in name])
def test_nothing_that_prints_what_git_keeps_runs_unasked(keeping: World, name: str) -> None:
    lists, mode = CONFIGURATIONS[name]
    rules = keeping.rules(**lists)
    run = [line for line in lines("history.txt") if keeping.bash(line, rules, mode) == "allow"]
    assert run == []


def test_no_rule_but_one_for_the_very_line_lets_it_run(keeping: World) -> None:
    for allow in (["Bash"], ["Bash(git *)"], ["Bash(git show:*)"]):
        assert keeping.bash("git show", keeping.rules(deny=DENY, allow=allow)) == "ask"
    exact = keeping.rules(deny=DENY, allow=["Bash(git show)"])
    assert keeping.bash("git show", exact) == "allow"
    broad = keeping.rules(deny=DENY, allow=["Bash"])
    for line in (
        "git -C src show",
        "git --git-dir=x show",
        "git -C $X show",
        "git -C /tmp show",
        "git -c a.b=c -C . show",
        "cd src && git show",
        "cd $X && git show",
        "/usr/bin/git show",
        "git show --textconv HEAD",
    ):
        assert keeping.bash(line, broad) == "ask", line
    # Another program is not judged as git.
    assert keeping.bash("legit show", broad) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "git log",
        "git log --oneline --stat -5",
        "git log -p -- src",
        "git log -p a.py",
        f"git log -p -- . {ALL}",
        f"git show HEAD -- {ALL}",
        f"git show abc1234 -- . {ALL}",
        "git show --stat",
        "git show --stat HEAD",
        "git show -s abc1234",
        "git show --name-only HEAD~3",
        "git show HEAD:src/a.py",
        "git show HEAD^{tree}:a.py",
        "git show stash@{1}:a.py",
        "git show :0:a.py",
        "git show 1111111:other",
        "git diff --stat",
        "git diff --name-only HEAD~1",
        "git diff --quiet",
        "git diff src/a.py",
        "git diff HEAD -- src a.py",
        "git diff HEAD:a.py HEAD~1:a.py",
        "git diff HEAD:a.py b.py",
        "git diff-tree -r HEAD",
        "git status",
        "git status -s",
        "git stash list",
        "git stash show --stat",
        "git cat-file -p HEAD",
        "git cat-file -t 1111111",
        "git cat-file -p HEAD:a.py",
        "git ls-tree HEAD",
        "git blame a.py",
        "git reflog",
        "git reflog show",
        "git branch -v",
    ],
)
def test_what_prints_nothing_of_them_still_runs(keeping: World, line: str) -> None:
    assert keeping.bash(line, keeping.rules(deny=DENY)) == "allow"


def test_nothing_asks_without_a_rule_for_reading_or_without_a_kept_file(world: World) -> None:
    every = lines("history.txt")
    assert world.bash("git show", world.rules(deny=["Edit(.env)"])) == "allow"
    rules = world.rules(deny=DENY)
    asked = [line for line in every if world.bash(line, rules) != "allow"]
    # Some of them ask for another reason: a pattern, a tree, what a submodule keeps.
    assert len(asked) < len(every) / 4, asked
    assert world.bash("git show", rules) == world.bash("git log -p", rules) == "allow"


def test_where_nobody_can_tell_what_git_keeps_it_asks(world: World) -> None:
    rules = world.rules(deny=DENY)
    unknown = {"held_by_git": lambda _: HeldByGit()}
    for line in ("git show", "git diff", "git log -p", "git cat-file -p 1111111"):
        assert world.bash(line, rules, **unknown) == "ask", line
    for line in ("git diff -- src", "git show HEAD:src/a.py", "git log", "git cat-file -p HEAD"):
        assert world.bash(line, rules, **unknown) == "allow", line
    told = world.decide("Bash", {"command": "git show"}, rules, **unknown)
    assert "could not check the files in git's index and history" in describe_reason(told)


def test_the_question_names_the_file_the_rule_and_how_to_leave_it_out(keeping: World) -> None:
    def why(line: str, **lists: list[str]) -> str:
        return describe_reason(keeping.decide("Bash", {"command": line}, keeping.rules(**lists)))

    told = why("git show", deny=["Read(./.env)"])
    assert "could show .env, which is stored in git and which Read(./.env) denies" in told
    assert "\"-- . ':!.env' ':!secrets/key'" not in told
    keeping.held_by_git = HeldByGit(is_known=True, top=str(keeping.cwd), paths=(".env",))
    assert "\"-- . ':!.env'\" to exclude it)" in why("git show", deny=["Read(.env)"])
    assert ":!.env" not in why("git show -- .", deny=["Read(.env)"])
    assert "which Read(.env) asks about" in why("git show", ask=["Read(.env)"])
    # The repository may lie around the session's folder, and no rule may name the file any more.
    above = str(keeping.cwd.parent)
    keeping.held_by_git = HeldByGit(is_known=True, top=above, paths=("x y",))
    told = why("git diff", deny=["Read(.env)"])
    assert "could show x y, which is stored in git and which a rule denies" in told
    assert ":!.env" not in told
    assert why("git diff -- . ':!x'", deny=["Read(.env)"])


def test_a_repository_around_the_folder_is_judged_by_the_ends_of_paths(keeping: World) -> None:
    above = str(keeping.cwd.parent)
    keeping.held_by_git = HeldByGit(is_known=True, top=above, paths=("work/conf/key",))
    rules = keeping.rules(deny=DENY)
    assert keeping.bash("git diff -- conf", rules) == "ask"
    assert keeping.bash("git diff -- . ':!conf'", rules) == "allow"
    assert keeping.bash("git show HEAD:work/conf/key", rules) == "ask"
    assert keeping.bash("git diff -- src", rules) == "allow"


@pytest.mark.parametrize(
    ("rule", "specs"),
    [
        ("Read(.env)", {"**/.env", "**/.env/**"}),
        ("Read(./.env)", {".env", ".env/**"}),
        ("Read(./a/b/**)", {"a/b/**", "a/b/**/**"}),
        ("Read(**.env)", {"**/**", "**/**/**"}),
        ("Read(./[ab]*/x)", {"**/x", "**/x/**"}),
        ("Read(./geheim-ä)", {"geheim-*", "geheim-*/**"}),
        ("Read(//etc/passwd)", set()),
        ("Read(//)", {"**", "**/**"}),
        ("Read(//**/*.pem)", {"**/*.pem", "**/*.pem/**"}),
        ("Edit(.env)", set()),
    ],
)
def test_rules_become_pathspecs_that_name_no_less(world: World, rule: str, specs: set[str]) -> None:
    made = make_pathspecs(world.rules(deny=[rule]), str(world.cwd))
    assert made is not None
    assert {each.removeprefix(":(top,glob,icase)") for each in made} >= specs
    assert bool(made) is bool(specs)


def test_too_many_rules_are_not_searched_for(world: World) -> None:
    assert (
        make_pathspecs(world.rules(deny=[f"Read(x{i})" for i in range(300)]), str(world.cwd))
        is None
    )
    assert make_pathspecs(world.rules(deny=["Read(./**)"]), str(world.cwd / "src")) is not None
    assert make_pathspecs(world.rules(deny=["Read(./.)"]), str(world.cwd)) == (":(top)",)


def test_a_context_for_which_nobody_searched_knows_nothing() -> None:
    assert not Context(cwd="/work", home="/home").held_by_git("/work").is_known


def test_a_diff_of_folders_outside_of_a_repository_asks_where_it_could_show_denied_files(
    world: World,
) -> None:
    before = world.held_by_git
    rules = world.rules(deny=DENY, allow=["Bash(mkdir:*)"])
    shows = (
        "git diff lib deep", "git diff . deep", "git diff -- lib deep", "git diff a.py lib/secrets",
        "git -P diff deep lib", "git diff -p --stat src deep", "git diff l* deep",
    )  # fmt: skip
    try:
        world.held_by_git = HeldByGit(is_known=True)
        for line in shows:
            assert world.bash(line, rules) != "allow", line
            assert world.bash(f"mkdir x; {line}", rules) != "allow", line
        for line in ("git diff a.py b.py", "git diff --stat lib deep", "git diff"):
            assert world.bash(line, rules) == "allow", line
        # A folder outside of the repository has the same effect.
        world.held_by_git = HeldByGit(is_known=True, top=str(world.cwd / "src"))
        assert world.bash("git diff src lib", rules) == "ask"
        world.held_by_git = HeldByGit(is_known=True, top=str(world.cwd))
        assert world.bash("git diff src lib", rules) == "allow"
    finally:
        world.held_by_git = before
