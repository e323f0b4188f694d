"""Modes, protected paths, provenance, and everything else that no rule decides."""

from pathlib import Path

import pytest

from clew.permissions.decide import may_read
from clew.permissions.decision import Ask, NeedsReview, describe_reason
from clew.permissions.modes import (
    MODES,
    RefusedMode,
    apply_review,
    describe_mode,
    enter_mode,
    find_disabled_modes,
)
from clew.permissions.request import ResolvedPath
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import PermissionRule, RuleSet, RuleSource, parse_rule
from clew.permissions.shell import Walk
from clew.permissions.words import Pieces, add_plain
from tests.permissions.world import World
from tests.requirements import requirement


@requirement("R141")
@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        #                                     default acceptEdits plan auto dontAsk bypass
        ("Read", {"file_path": "a.py"}, "allow allow allow allow allow allow"),
        ("Read", {"file_path": "../elsewhere/x"}, "ask ask ask review deny allow"),
        ("Read", {"file_path": "~/.ssh/id_rsa"}, "ask ask ask ask deny ask"),
        ("Grep", {"pattern": "x"}, "allow allow allow allow allow allow"),
        ("Glob", {"pattern": "/etc/*"}, "ask ask ask review deny allow"),
        ("Glob", {"pattern": "src/**"}, "allow allow allow allow allow allow"),
        ("Glob", {"pattern": "*/../../x"}, "ask ask ask ask deny ask"),
        ("Edit", {"file_path": "a.py"}, "ask allow deny review deny allow"),
        ("Write", {"file_path": "../elsewhere/x"}, "ask ask deny review deny allow"),
        ("Write", {"file_path": ".git/config"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": ".claude/settings.json"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": "~/.claude/clew/trust.json"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": "~/.bashrc"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": "~/.config/git/config"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": "/etc/passwd"}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": ".claude/worktrees/x/a.py"}, "ask allow deny review deny allow"),
        ("Write", {}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": 3}, "ask ask deny ask deny ask"),
        ("Write", {"file_path": "~nobody-here/x"}, "ask ask deny ask deny ask"),
        ("Bash", {"command": "ls"}, "allow allow allow allow allow allow"),
        ("Bash", {"command": "make"}, "ask ask deny review deny allow"),
        ("Bash", {"command": "mkdir x"}, "ask allow deny review deny allow"),
        ("Bash", {"command": "mkdir ../x"}, "ask ask deny review deny allow"),
        ("Bash", {"command": "cp a.py .git/hooks/x"}, "ask ask deny ask deny ask"),
        ("Bash", {"command": "mv a.py $X"}, "ask ask deny review deny allow"),
        ("Bash", {"command": "X=1 touch x"}, "ask ask deny review deny allow"),
        ("Bash", {"command": "echo x > a.py"}, "ask allow deny review deny allow"),
        ("Bash", {"command": "rm -rf ~"}, "ask ask deny ask deny ask"),
        ("Bash", {"command": "rm -rf $X/"}, "ask ask deny ask deny ask"),
        ("Bash", {"command": "rm x"}, "ask ask deny review deny allow"),
        ("Bash", {"command": "ls >"}, "ask ask deny ask deny ask"),
        ("Bash", {"command": "$X y"}, "ask ask deny review deny allow"),
        ("Bash", {"command": " "}, "allow allow allow allow allow allow"),
        ("Bash", {}, "ask ask deny ask deny ask"),
        ("WebFetch", {"url": "https://example.com"}, "ask ask ask review deny allow"),
        ("WebSearch", {"query": "x"}, "ask ask ask review deny allow"),
        ("mcp__a__b", {}, "ask ask deny review deny allow"),
        ("Agent", {"subagent_type": "Explore"}, "allow allow allow allow allow allow"),
        ("Skill", {"skill": "x"}, "ask ask deny review deny allow"),
        ("TodoWrite", {}, "allow allow allow allow allow allow"),
        ("AskUserQuestion", {}, "ask ask ask ask deny ask"),
        ("ExitPlanMode", {}, "ask ask ask ask deny ask"),
        ("SomethingNew", {}, "ask ask deny review deny allow"),
    ],
)
def test_what_each_mode_does_where_no_rule_speaks(
    world: World, tool: str, given: dict[str, object], expected: str
) -> None:
    found = [world.verdict(tool, given, None, mode) for mode in MODES]
    assert " ".join(found) == expected


@pytest.mark.parametrize("mode", MODES)
def test_deny_and_ask_rules_hold_in_every_mode(world: World, mode: str) -> None:
    chosen = next(m for m in MODES if m == mode)
    rules = world.rules(allow=["Bash", "Read"], ask=["Bash(git *)"], deny=["Bash(rm *)"])
    assert world.bash("ls; rm x", rules, chosen) == "deny"
    asked = "deny" if chosen in ("dontAsk", "plan") else "ask"
    assert world.bash("git push", rules, chosen) == asked


def test_plan_mode_may_write_the_plan_and_nothing_else_even_where_a_rule_allows(
    world: World,
) -> None:
    plan = str(world.cwd / "plan.md")
    rules = world.rules(allow=["Edit", "Bash(make *)"])
    write = {"file_path": "plan.md"}
    assert world.verdict("Write", write, world.rules(), "plan", plan_file=plan) == "allow"
    assert world.verdict("Write", {"file_path": "a.py"}, rules, "plan", plan_file=plan) == "deny"
    assert world.bash("make all", rules, "plan", plan_file=plan) == "deny"
    assert world.bash(f"echo more >> {plan}", rules, "plan", plan_file=plan) == "allow"


def test_plan_mode_runs_what_a_server_says_only_reads_under_an_allow_rule(world: World) -> None:
    rules = world.rules(allow=["mcp__a"])
    assert world.verdict("mcp__a__b", {}, rules, "plan") == "deny"
    assert world.verdict("mcp__a__b", {}, rules, "plan", read_only=True) == "allow"


@pytest.mark.parametrize(
    ("word", "root", "sandboxed", "disabled", "expected"),
    [
        ("default", True, False, (), "default"),
        ("manual", True, False, (), "default"),
        ("bypassPermissions", False, False, (), "bypassPermissions"),
        ("bypassPermissions", True, True, (), "bypassPermissions"),
        ("bypassPermissions", True, False, (), "not allowed as root"),
        ("bypassPermissions", False, False, ("bypassPermissions",), "disabled"),
        ("yolo", False, False, (), "unknown mode"),
    ],
)
def test_who_may_enter_which_mode(
    word: str, root: bool, sandboxed: bool, disabled: tuple[str, ...], expected: str
) -> None:
    names = frozenset(m for m in MODES if m in disabled)
    found = enter_mode(word, is_root=root, is_sandboxed=sandboxed, disabled=names)
    if isinstance(found, RefusedMode):
        assert expected in found.why
    else:
        assert found == expected


def test_settings_take_modes_away() -> None:
    assert find_disabled_modes({}) == frozenset()
    assert find_disabled_modes({"permissions": 3}) == frozenset()
    held = {
        "permissions": {"disableBypassPermissionsMode": "disable"},
        "disableAutoMode": "disable",
    }
    assert find_disabled_modes(held) == {"bypassPermissions", "auto"}


def test_the_reviewer_is_asked_in_mode_auto_and_without_one_a_user(world: World) -> None:
    needed = world.decide("Bash", {"command": "make; ls"}, None, "auto")
    assert isinstance(needed, NeedsReview)
    passed = apply_review(needed, "safe")
    assert [f.verdict for f in passed.findings] == ["allow", "allow"]
    assert "approved by the reviewer" in passed.findings[0].reason
    refused = apply_review(needed, "unsafe", "drops tables")
    assert describe_reason(refused).endswith(": drops tables")
    nobody = apply_review(needed, None)
    assert isinstance(nobody, Ask)
    assert describe_reason(nobody).endswith("not reviewed: no reviewer")


@requirement("R142")
def test_further_directories_belong_to_the_workspace(world: World) -> None:
    elsewhere = str(world.cwd.parent / "elsewhere")
    given = {"file_path": "../elsewhere/x"}
    assert world.verdict("Read", given) == "ask"
    assert world.verdict("Read", given, directories=(elsewhere,)) == "allow"
    assert world.verdict("Edit", given, None, "acceptEdits", directories=(elsewhere,)) == "allow"


def test_untrusted_text_before_a_call_can_make_it_ask(world: World) -> None:
    rules = world.rules(
        allow=["Bash(git push *)", "WebFetch", "Edit", "Agent", "mcp__a"],
        askAfterUntrusted=[
            "Bash(git push *)",
            "WebFetch(domain:*)",
            "Edit(src/**)",
            "mcp__a__*",
            "Agent(model:x)",
        ],
    )
    calls = [
        ("Bash", {"command": "git push origin"}),
        ("WebFetch", {"url": "https://example.com"}),
        ("Edit", {"file_path": "src/a.py"}),
        ("Bash", {"command": "echo x > src/*"}),
        ("mcp__a__b", {}),
        ("Agent", {"model": "x"}),
    ]
    for tool, given in calls:
        assert world.verdict(tool, given, rules, untrusted=["web"]) == "ask", given
        if given.get("command") != "echo x > src/*":
            assert world.verdict(tool, given, rules) == "allow", given


def test_rules_say_whether_it_matters_what_stands_before(world: World) -> None:
    assert not world.rules(ask=["Bash(ls *)"]).heeds_untrusted
    assert world.rules(askAfterUntrusted=["Bash(ls *)"]).heeds_untrusted


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "./.env",
        "src/../.env",
        "src//..//.env",
        ".env/",
        "./.env/.",
        "link-to-env",
        "/proc/self/cwd/.env",
        "/proc/self/task/1/cwd/.env",
        "/proc/thread-self/cwd/.env",
        "deep/er/.env",
        "link-to-secrets/key",
        "lib/../secrets/key",
        "~/.ssh/id_rsa",
        "link-to-home/.ssh/id_rsa",
        "~/../home/.ssh/id_rsa",
        "caf\u00e9.txt",
        "cafe\u0301.txt",
    ],
)
def test_every_name_of_a_denied_path_is_denied(world: World, path: str) -> None:
    rules = world.rules(
        allow=["Read", "Bash"],
        deny=["Read(.env)", "Read(secrets/**)", "Read(~/.ssh/**)", "Read(caf\u00e9.txt)"],
    )
    for tool in ("Read", "Edit"):
        assert world.verdict(tool, {"file_path": path}, rules) == "deny"
    assert world.bash(f"cat '{path}'" if "~" not in path else f"cat {path}", rules) == "deny"
    assert (
        world.verdict("Read", {"file_path": str(world.cwd / path)}, rules) == "deny" or "~" in path
    )


def test_a_rule_through_a_link_holds_for_the_real_name(world: World) -> None:
    rules = world.rules(allow=["Read"], deny=["Read(./link-to-secrets/**)"])
    assert world.verdict("Read", {"file_path": "secrets/key"}, rules) == "deny"


def test_names_that_a_file_system_folds_are_one_name(world: World) -> None:
    plain = world.resolve

    def folding(text: str) -> ResolvedPath:
        found = plain(text)
        return ResolvedPath(names=found.names, folds_case=True)

    world.resolve = folding
    try:
        rules = world.rules(deny=["Read(.env)", "Read(*.pem)", "Read(./Secrets/**)"])
        for path in (".ENV", "deep/.Env", "K.PEM", "SECRETS/key"):
            assert world.verdict("Read", {"file_path": path}, rules) == "deny"
    finally:
        world.resolve = plain
    assert world.verdict("Read", {"file_path": ".ENV"}, world.rules(deny=["Read(.env)"])) == "allow"


def test_a_searching_tool_can_ask_for_each_file_it_found(world: World) -> None:
    rules = world.rules(deny=["Read(.env)"])
    context = world.context()
    for name, expected in (
        ("a.py", True),
        ("deep/er/.env", False),
        ("../elsewhere/x", False),
        ("../home/.ssh/id_rsa", False),
    ):
        searched = world.resolve(".")
        found = may_read(rules, world.resolve(name), context, world.resolve, searched=searched)
        assert found is expected


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com\\@evil.com/",
        "https://example.com@evil.com/",
        "https://evil.com#@example.com",
        "https://evil.com?x=example.com",
        "https://example.com:80:90/",
        "https://exam\tple.com/",
        "https://[::1]/",
        "https://ex%61mple.com/",
        "https://exämple.com/",
        "file:///etc/passwd",
        "example.com",
        "https://",
        "",
    ],
)
def test_an_address_that_can_be_read_two_ways_is_not_allowed_by_its_look(
    world: World, url: str
) -> None:
    rules = world.rules(allow=["WebFetch(domain:example.com)"])
    assert world.verdict("WebFetch", {"url": url}, rules) == "ask"


@pytest.mark.parametrize(
    ("rule", "host", "expected"),
    [
        ("example.com", "www.example.com", "deny"),
        ("www.example.com", "example.com", "deny"),
        ("example.com", "api.example.com", "allow"),
        ("example.com", "wwwexample.com", "allow"),
    ],
)
def test_a_denied_host_is_denied_with_and_without_www(
    world: World, rule: str, host: str, expected: str
) -> None:
    """A redirect between the two is followed without another decision."""
    rules = world.rules(allow=["WebFetch"], deny=[f"WebFetch(domain:{rule})"])
    assert world.verdict("WebFetch", {"url": f"https://{host}/x"}, rules) == expected


@pytest.mark.parametrize(
    ("rule", "hosts"),
    [
        ("*.Example.com.", ["a.example.com", "A.EXAMPLE.COM.", "a.b.example.com:8080"]),
        ("bücher.de", ["bücher.de", "xn--bcher-kva.de", "BÜCHER.de", "www.XN--BCHER-KVA.de."]),
        ("xn--bcher-kva.de", ["bücher.de"]),
        ("93.184.216.34", ["93.184.216.34.", "1572395042", "0x5db8d822", "0135.0270.0330.0042"]),
        ("1572395042", ["93.184.216.34"]),
    ],
)
def test_a_denied_host_is_denied_however_it_is_spelled(
    world: World, rule: str, hosts: list[str]
) -> None:
    rules = world.rules(allow=["WebFetch"], deny=[f"WebFetch(domain:{rule})"])
    for host in hosts:
        assert world.verdict("WebFetch", {"url": f"https://{host}/x"}, rules) == "deny", host


def test_a_host_that_may_be_spelled_in_two_ways_asks(world: World) -> None:
    rules = world.rules(allow=["WebFetch"])
    for host in ("[::ffff:93.184.216.34]", "1.2.3.4.5", "u@x.org", "x.org%2e", "*.org", "x:٣"):
        assert world.verdict("WebFetch", {"url": f"https://{host}/x"}, rules) == "ask", host


def test_an_allowed_host_is_allowed_as_it_is_named(world: World) -> None:
    rules = world.rules(allow=["WebFetch(domain:www.example.com)"])
    assert world.verdict("WebFetch", {"url": "https://example.com"}, rules) == "ask"


DENIES = {"allow": ["Bash"], "deny": ["Read(.env)", "Edit(migrations/**)", "Edit(./build/**)"]}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x > migrations/1.sql", "deny"),
        ("echo x >> lib/migrations/1.sql", "deny"),
        ("tee migrations/1.sql < a.py", "deny"),
        ("cp a.py migrations/1.sql", "deny"),
        ("cp a.py migrations/", "deny"),
        ("cp -t migrations a.py", "deny"),
        ("cp -tmigrations a.py", "deny"),
        ("cp --target-directory=migrations a.py", "deny"),
        ("mv migrations/1.sql x", "deny"),
        ("rm migrations/1.sql", "deny"),
        ("rm -rf migrations", "deny"),
        ("ln -s a.py migrations/x", "deny"),
        ("sed -i s/a/b/ migrations/1.sql", "deny"),
        ("perl -pi -e s/a/b/ migrations/1.sql", "deny"),
        ("truncate -s 0 migrations/1.sql", "deny"),
        ("touch build/x", "deny"),
        ("mkdir -p build/x", "deny"),
        ("dd if=a.py of=build/x", "deny"),
        ("sort -o build/x a.py", "deny"),
        ("sort -obuild/x a.py", "deny"),
        ("sort --output=build/x a.py", "deny"),
        ("uniq a.py build/x", "deny"),
        ("curl -o build/x https://example.com", "deny"),
        ("git checkout -- migrations/1.sql", "deny"),
        ("git rm migrations/1.sql", "deny"),
        ("find migrations -delete", "deny"),
        ("find . -fprint build/x", "deny"),
        ("find migrations -exec rm {} +", "deny"),
        ("cd migrations && rm 1.sql", "deny"),
        ("bash -c 'rm migrations/1.sql'", "deny"),
        ("env rm migrations/1.sql", "deny"),
        ("rm -rf *", "ask"),
        ("rm mig*/x", "ask"),
        ("rm -rf lib", "ask"),
        ("rm $X", "ask"),
        ("cp a.py $X", "ask"),
        ("find . -exec rm {} +", "ask"),
        ("find a $X -exec rm {} +", "ask"),
        ("cat migrations/1.sql", "allow"),
        ("python gen.py migrations", "allow"),
        ("make -C build", "allow"),
        ("cat .env", "deny"),
        ("cat * ", "ask"),
        ("cat .*", "ask"),
        ("grep -r x .", "ask"),
        ("grep -r x src/a.py", "allow"),
        ("grep -r x", "ask"),
        ("find . -newer .env", "deny"),
        ("find . -samefile .env", "deny"),
        ("docker run --env-file=.env x", "deny"),
        ("xargs cat", "ask"),
        ("xargs -a .env echo", "deny"),
        ("cat - < a.py", "allow"),
    ],
)
def test_what_is_denied_to_tools_is_denied_to_commands(
    world: World, command: str, expected: str
) -> None:
    assert world.bash(command, world.rules(**DENIES)) == expected


def test_a_denied_pattern_below_a_searched_folder_asks(world: World) -> None:
    rules = world.rules(allow=["Bash"], deny=["Read(./l?b/**)"])
    assert world.bash("grep -r x .", rules) == "ask"
    assert world.bash("grep -r x src", rules) == "allow"


def test_a_path_that_is_asked_about_is_asked_about_in_commands_too(world: World) -> None:
    rules = world.rules(allow=["Bash", "Read"], ask=["Read(src/**)", "Bash(x:*)"])
    assert world.bash("cat src/a.py", rules) == "ask"
    assert world.bash("cat s*/a.py", rules) == "ask"
    assert world.verdict("Read", {"file_path": "src/a.py"}, rules) == "ask"
    assert world.bash("x y", rules) == "ask"
    assert world.bash("a.out; y", rules) == "allow"


def test_the_real_home_of_another_user_is_found(world: World) -> None:
    assert world.resolve("~root/x").names[0] == str(Path("~root").expanduser() / "x")
    assert not world.resolve("~nobody-here/x").known
    assert not world.resolve("a\0b").known
    assert not world.resolve("/dev/fd/3").known


def test_a_ring_of_links_is_not_known(world: World, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not world.resolve(str(tmp_path / "a")).known


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("Read(a**b)", "axxb", True),
        ("Read(\\[x\\].py)", "[x].py", True),
        ("Read(\\[x\\].py)", "x.py", False),
        ("Read([z-a])", "z", False),
        ("Read([!z-a])", "z", True),
        ("Read([!a]b)", "cb", True),
        ("Read([!a]b)", "ab", False),
        ("Read(a[b)", "a[b", True),
        ("Read(a\\)", "a\\", True),
        ("Read(" + "{a,b}" * 6 + ")", "aababb", True),
        ("Read({a,b}{a,b}c)", "bac", True),
    ],
)
def test_patterns_of_every_kind_match_as_gitignore_has_it(
    world: World, rule: str, path: str, matches: bool
) -> None:
    assert (
        world.verdict("Read", {"file_path": path}, world.rules(deny=[rule])) == "deny"
    ) is matches


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm .g*/config", "ask"),
        ("rm .q*/config", "allow"),
        ("rm src/*.py", "allow"),
        ("cat .s?h/id", "ask"),
        ("cat .x?h/id", "allow"),
        ("cp a.py ~/.claude/settings.json", "ask"),
        ("dd bs=1 if=a.py of=b.py", "allow"),
        ("chmod -R 700 .", "ask"),
        ("cp -r src x", "allow"),
        ("install a.py ../elsewhere/x", "allow"),
        ("tee /dev/tcp/10.0.0.1/80", "ask"),
    ],
)
def test_protected_paths_ask_in_commands_too(world: World, command: str, expected: str) -> None:
    assert world.bash(command, world.rules(allow=["Bash"])) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("clew permissions remove deny x", "ask"),
        ("python -m clew config trust", "ask"),
        ("./bin/clew login", "ask"),
        ("clew -p hi --settings=x.json", "ask"),
        ("clew -p hi --dangerously-skip-permissions", "ask"),
        ("clew sessions list", "allow"),
        ("clew", "allow"),
    ],
)
def test_clew_s_own_commands_that_change_the_rules_ask(
    world: World, command: str, expected: str
) -> None:
    assert world.bash(command, world.rules(allow=["Bash"])) == expected


def test_a_line_longer_than_anybody_reads_asks(world: World) -> None:
    assert world.bash("ls " + "a" * 20_000, world.rules(allow=["Bash"])) == "ask"


def test_text_that_the_parser_passes_over_asks() -> None:
    walk = Walk(b"ls rm x", (".",))
    walk.gap(7)
    assert walk.problems[0].syntax
    pieces = Pieces()
    add_plain("a;b", pieces)
    assert pieces.dynamic


@pytest.mark.parametrize(
    ("pattern", "is_known"),
    [
        ("*.py", True),
        ("src/*/x", True),
        ("../*/x", True),
        ("/*", True),
        ("src/*/../x", False),
        ("*/../src/*", False),
        ("/proc/self/*/x", False),
        ("/p*/self/cwd/x", False),
        ("/dev/f*/../cwd/x", False),
        ("mine*/cwd/x", False),
        ("min?/*", False),
        ("[x]/a", False),
    ],
)
def test_a_pattern_that_may_lead_by_proc_is_known_to_nobody(
    tmp_path: Path, pattern: str, *, is_known: bool
) -> None:
    """The command finds its own process there, and not clew's."""
    (tmp_path / "mine").symlink_to("/proc/self")
    (tmp_path / "[x]").symlink_to("src")
    resolve = make_resolver(cwd=str(tmp_path.resolve()), home=str(tmp_path))
    assert resolve(pattern).known == is_known


def test_rules_without_a_resolver_stand_on_the_names_they_are_given(world: World) -> None:
    source = RuleSource(scope="user")
    rule = parse_rule("Read(.env)", "deny", root="/p", source=source)
    assert isinstance(rule, PermissionRule)
    rules = RuleSet([rule], anchors=world.rules().anchors)
    assert world.verdict("Read", {"file_path": ".env"}, rules) == "deny"


def test_what_a_session_s_own_tools_gave_may_be_read_but_not_written(world: World) -> None:
    folder = world.home / ".claude" / "projects" / "p" / "s" / "tool-results"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(world.home / ".ssh")
    kept, rules = str(folder / "a.txt"), world.rules()

    def verdict(tool: str, path: str, **more: str) -> str:
        return world.verdict(tool, {"file_path": path}, rules, "default", **more)

    assert verdict("Read", kept) == "ask"
    assert verdict("Read", kept, results=(str(folder),)) == "allow"
    assert (
        world.verdict("Bash", {"command": f"tail {kept}"}, rules, results=(str(folder),)) == "allow"
    )
    assert verdict("Edit", kept, results=(str(folder),)) == "ask"
    assert verdict("Read", str(folder.parent / "b"), results=(str(folder),)) == "ask"
    assert verdict("Read", str(folder / "out" / "id_rsa"), results=(str(folder),)) == "ask"
    denied = world.rules(deny=["Read(~/.claude/**)"])
    given = {"file_path": kept}
    assert world.verdict("Read", given, denied, results=(str(folder),)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > a.py",
        "echo x >> $WHERE",
        "ls | tee a.py",
        "cat <<E > a.py\nx\nE",
        "sort -o a.py b.py",
        "echo x > a.py; ls",
        "(ls) 2> a.py",
    ],
)
@pytest.mark.parametrize("rule", ["Bash", "Bash(*)", "Bash(echo *)"])
def test_plan_mode_writes_through_no_redirection_whatever_is_allowed(
    world: World, command: str, rule: str
) -> None:
    assert world.bash(command, world.rules(allow=[rule]), "plan") == "deny"


@pytest.mark.parametrize(
    "command",
    ["git -c alias.x='!touch y' x", "git -c core.pager=evil log", "git --exec-path=. status"],
)
def test_a_rule_for_git_permits_no_settings_that_name_programs(world: World, command: str) -> None:
    assert world.bash(command, world.rules(allow=["Bash(git *)"])) == "ask"
    assert world.bash(command, world.rules(allow=[f"Bash({command})"])) == "allow"
    assert world.bash("git -C src commit -m x", world.rules(allow=["Bash(git *)"])) == "allow"


@pytest.mark.parametrize("text", ["/proc/self/cwd/etc/hosts", "/proc/self/cwd", "etc/hosts", "/"])
def test_in_the_root_a_path_of_the_process_itself_comes_to_an_end(text: str) -> None:
    path = make_resolver(cwd="/", home="/root")(text)
    assert path.real in ("/etc/hosts", "/")
    assert not any(name.startswith("//") for name in path.names)


def test_what_lies_after_a_folder_that_is_not_there_and_back_is_still_looked_at(
    world: World,
) -> None:
    (world.cwd / "secret").write_text("x", "utf-8")
    (world.cwd / "link").symlink_to("secret")
    deny = world.rules(deny=["Read(secret)"], allow=["Bash(cat *)", "Read"])
    for spelled in ("nowhere/../link", "nowhere/deeper/../../link", "./link"):
        assert world.verdict("Read", {"file_path": spelled}, deny) == "deny"
        assert world.bash(f"cat {spelled}", deny) == "deny"


def test_a_pattern_that_ends_at_the_root_is_judged(world: World) -> None:
    assert world.bash("cat /[a]/..") == "ask"


def test_modes_have_names_for_people() -> None:
    assert describe_mode("acceptEdits") == "accept edits"
    assert describe_mode("unheard") == "unheard"


def test_a_blocked_file_outside_is_denied_except_for_plan_and_memory(world: World) -> None:
    outside, memory = world.home.parent / "elsewhere" / "x.py", world.home / "memory"
    plan = str(world.home / "plan.md")
    rules = world.rules(allow=["Write", "Read"])

    def verdict(path: object, tool: str = "Write") -> str:
        return world.verdict(
            tool,
            {"file_path": str(path)},
            rules,
            "bypassPermissions",
            plan_file=plan,
            memory=str(memory),
            blocks_writes_outside=True,
        )

    assert verdict(outside) == "deny"
    assert verdict(world.cwd / "link-to-home" / "y.py") == "deny"
    assert verdict(outside, "Read") == "allow"
    assert [verdict(path) for path in ("a.py", plan, memory / "note.md")] == ["allow"] * 3
