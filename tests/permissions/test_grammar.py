"""The strict grammar: what it accepts it reads as bash does, and it accepts nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.permissions.decision import verdict
from clew.permissions.grammar import Unread, is_same_reading, is_sure, read_line
from clew.permissions.shell import MAX_CHARACTERS, split
from tests.permissions.world import World

READ = [
    ("ls -la src", [["ls", "-la", "src"]]),
    ("ls|wc -l&&pwd||true;date", [["ls"], ["wc", "-l"], ["pwd"], ["true"], ["date"]]),
    ("ls |& cat", [["ls"], ["cat"]]),
    ("ls\n\n  pwd\n", [["ls"], ["pwd"]]),
    ("ls && # why\n\n pwd # and so on\nls", [["ls"], ["pwd"], ["ls"]]),
    ("ls #(rm x)", [["ls"]]),
    ("echo a#b x!y", [["echo", "a#b", "x!y"]]),
    ("echo 'a;b' \"c|d\" e\\ f", [["echo", "a;b", "c|d", "e f"]]),
    ('grep "a\\|b\\$\\"\\\\" x', [["grep", 'a\\|b$"\\', "x"]]),
    ("grep 'a'\"b\"c x", [["grep", "abc", "x"]]),
    ('grep "x$" a$', [["grep", "x$", "a$"]]),
    ("find . \\( -name a -o -name {} \\)", [["find", ".", "(", "-name", "a", "-o", "-name", "{}", ")"]]),
    ("git show HEAD~2 HEAD^ HEAD@{1} HEAD^{tree}", [["git", "show", "HEAD~2", "HEAD^", "HEAD@{1}", "HEAD^{tree}"]]),
    ("ls ~ ~/x", [["ls", "~", "~/x"]]),
    ("! ls", [["ls"]]),
    ("X=1 y='a b' ls", [["ls"]]),
    ("X=1", []),
    (">/dev/null", []),
    ("ls 2>&1 >/dev/null 2>> x <y >| z", [["ls"]]),
    ("ls 2>&- <&0", [["ls"]]),
    ("ls &>/dev/null", [["ls"]]),
    ("a2>f", [["a2"]]),
    ("cat <<< 'a b'", [["cat"]]),
    ("cat <<'EOF' | wc\n$(rm x) `y`\nEOF\nls", [["cat"], ["wc"], ["ls"]]),
    ('cat <<"E"\nx\nE', [["cat"]]),
    ("cat <<'E' &&\nx\nE\nls", [["cat"], ["ls"]]),
    ("git commit -m \"$(cat <<'E'\nit's a\n\n- b\n\nE\n)\" -q; ls", [["git", "commit", "-m", "it's a\n\n- b", "-q"], ["cat"], ["ls"]]),
    ("[ -f a ]", [["[", "-f", "a", "]"]]),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("line", "commands"), READ, ids=[line for line, _ in READ])
def test_plain_lines_are_read(line: str, commands: list[list[str]]) -> None:
    read = read_line(line)
    assert not isinstance(read, Unread), read
    assert [[word.text for word in command.words] for command in read.commands] == commands


def test_what_a_word_holds_is_known() -> None:
    read = read_line('cat $HOME/a "$HOME/b" x$HOME $PWD *.py [ab] "$X" ${Y}z $? ~/c')
    assert not isinstance(read, Unread)
    words = read.commands[0].words[1:]
    assert [(w.text, w.dynamic, w.glob, w.tilde) for w in words] == [
        ("~/a", True, False, True),
        ("~/b", False, False, True),
        ("x", True, False, False),
        (".", True, False, False),
        ("*.py", False, True, False),
        ("[ab]", False, True, False),
        ("", True, False, False),
        ("z", True, False, False),
        ("", True, False, False),
        ("~/c", False, False, True),
    ]
    assert words[6].variables == ("X",)


def test_redirections_and_assignments_are_known() -> None:
    read = read_line("A=1 B='x y' cat <in 2>>err >| out")
    assert not isinstance(read, Unread)
    assert [(a.name, a.raw) for a in read.assignments] == [("A", "A=1"), ("B", "B='x y'")]
    assert [(r.word.text, r.reads, r.writes) for r in read.redirects] == [
        ("in", True, False),
        ("err", False, True),
        ("out", False, True),
    ]


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        ("cd src && cat a", ("src",)),
        ("cd src && ls && cat a", ("src",)),
        ("ls && cd src && cat a", ("src",)),
        ("ls; cd src && cat a", ("src",)),
        ("cd && cat a", ("~",)),
        ("cd a && cd b && cat c", ("a/b",)),
        ("cd src; cat a", (".", "src")),
        ("cd src\ncat a", (".", "src")),
        ("cd src || cat a", (".", "src")),
        ("cd src | cat a", (".", "src")),
        ("ls || cd src && cat a", (".", "src")),
        ("ls | cd src && cat a", (".", "src")),
        ("! cd src && cat a", (".", "src")),
        ("cd src && ls; cat a", (".", "src")),
        ("cd - && cat a", ()),
        ("cd $X && cat a", ()),
        ("cd $X; cd src && cat a", ()),
        ("eval cd x; cat a", ()),
        ("; ".join(f"cd d{n}" for n in range(9)) + "; cat a", ()),
    ],
)
def test_where_a_command_runs_is_known_or_all_that_may_be(
    line: str, folders: tuple[str, ...]
) -> None:
    read = read_line(line)
    assert not isinstance(read, Unread)
    assert set(read.commands[-1].folders) == set(folders)


def test_git_reads_the_repository_of_the_session_from_wherever_it_is_named(world: World) -> None:
    cwd = world.cwd
    assert world.bash(f"cd {cwd} && git status") == "allow"
    assert world.bash(f"cd {cwd}/ && git log --oneline | head -3") == "allow"
    assert world.bash(f"cd {cwd} && git log", world.rules(allow=["Bash(git log *)"])) == "allow"
    assert world.bash(f"cd {cwd}/src && git status") == "ask"
    assert world.bash(f"cd src; cd {cwd} && git status") == "allow"
    assert world.bash("cd $X && git status") == "ask"


UNREAD = [
    # substitutions, expansions, arithmetic
    "echo $(x)", "echo `x`", 'echo "$(x)"', 'echo "`x`"', 'echo "\\`"', "echo ${x:-y}", "echo ${#x}",
    "echo $((1))", "echo $[1]", "echo $'x'", 'echo $"x"', "echo $1", "echo $@", "echo $$", "cat <(x)",
    "x > >(y)", 'echo "${v:-$(x)}"', 'echo "$',
    # groups and keywords
    "(ls)", "{ ls; }", "if ls; then x; fi", "for x in a; do ls; done", "while x; do y; done",
    "case x in x) y;; esac", "[[ a ]]", "((1))", "f() { x; }", "function f", "coproc x", "ls;; ls",
    "select x in a", "! ! ls", "!", "! # x", "! if x",
    # operators
    "ls &", "ls & x", "ls |", "ls &&", "| ls", "&& ls", "; ls", "ls | ; x", "ls && \n",
    # words
    "ls \\\n-la", "ls ⏎\\\nx", "ls {a,b}", "ls a{1..2}", "ls }", "ls {a", "ls ~root", "ls a=~/x", "ls a:~",
    "ls 'a", 'ls "a', "ls é", "ls a\\", "x[0]=1 ls", "x+=1", "x=(1)", "x=$y", "x=*", "PATH+=: ls",
    # redirections
    "ls 3>x", "ls 12>&1", "ls {}x", "ls >&x", "ls &>x", "ls &>>x", "ls <>x", "{fd}<x ls", "ls >", "ls > \n", "ls > $X",
    "ls > *", "cat <<< $X", "ls 2>&198", "ls > # x",
    # here-documents
    "cat <<E\nx\nE", "cat <<-'E'\nx\nE", "cat <<'E'", "cat <<'E'\nx", "cat <<'E F'\nx\nE F",
    "cat <<'A' <<'B'\nx\nA\ny\nB", "cat <<'E' 'a\nb'\nx\nE", 'cat <<\'E\' "a\nb"\nx\nE', "cat <<\\E\nx\nE",
    # signs
    "ls\r", "ls\x00", "ls\u00a0x", "ls\u2028x", "echo '\u202e'", "x" * (MAX_CHARACTERS + 1), "ls \udc80",
]  # fmt: skip


@pytest.mark.parametrize("line", UNREAD)
def test_everything_else_is_not_read_and_asks(world: World, line: str) -> None:
    read = read_line(line)
    assert isinstance(read, Unread)
    assert read.why.endswith(("which always requires approval", "so it requires approval"))
    assert "\n" not in read.text
    if "\udc80" not in line:
        assert world.bash(line, world.rules(allow=["Bash(ls *)", "Bash(echo *)"])) == "ask"


@pytest.mark.parametrize("line", ["echo $(date)", "ls (x", "cat <<E\nx\nE"])
def test_an_unread_line_is_allowed_by_exactly_its_text(world: World, line: str) -> None:
    assert world.bash(line, world.rules(allow=["Bash(echo *)", "Bash(cat *)"])) == "ask"
    exact = world.rules(allow=[f"Bash({line})"], deny=["Read(.env)"])
    assert world.bash(line, exact) == "allow"


def test_a_rule_for_every_command_needs_no_reading_unless_others_restrain(world: World) -> None:
    assert world.bash("echo $(date)", world.rules(allow=["Bash"])) == "allow"
    for deny in ("Read(.env)", "Bash(git push *)"):
        assert world.bash("echo $(date)", world.rules(allow=["Bash"], deny=[deny])) == "ask"


def test_readings_that_differ_are_told_apart() -> None:
    ours = read_line("ls a")
    assert not isinstance(ours, Unread)
    assert is_same_reading(ours, split("ls  a"))
    for other in ("ls b", "ls a; ls", "ls a > x", "X=1; ls a", "ls 'a"):
        assert not is_same_reading(ours, split(other))


def test_a_line_that_can_be_read_in_two_ways_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny = world.rules(deny=["Read(.env)"])
    test = world.rules(allow=["Bash(npm test *)"])
    assert world.bash("ls a*", deny) == world.bash("npm test  x", test) == "allow"
    monkeypatch.setattr("clew.permissions.command_line.is_same_reading", lambda *_: False)
    for decision in (
        world.decide("Bash", {"command": "ls a*"}, deny),
        world.decide("Bash", {"command": "npm test  x"}, test),
        world.decide("Bash", {"command": "ls a*"}, has_walls=False),
        world.decide("Bash", {"command": "ls a*"}),
        world.decide("Bash", {"command": "touch  x"}, mode="acceptEdits"),
    ):
        assert verdict(decision) == "ask"
        assert "two ways" in str(decision.findings)
    # A rule with exactly the text of the line allows it, however it is read.
    assert world.bash("ls a*", world.rules(allow=["Bash(ls a*)"])) == "ask"
    assert world.bash("npm  test", world.rules(allow=["Bash(npm  test)"])) == "allow"
    # A line of plain words is too plain to be read in two ways.
    assert world.bash("ls a", deny) == "allow"


SURE = [
    "git log --oneline -5",
    "cd src && npm run test -- --watch=false 2>&1 | tail -20",
    "cat a; echo 'b c' || grep -n \"x y\" z.txt",
]
UNSURE = [
    *(
        "ls  a",
        "ls\ta",
        "ls;ls",
        "ls a|cat",
        "a=b ls",
        "ls a=b",
        "if true; then ls",
        "ls; if x",
        "time ls",
    ),
    *(
        "ls a*",
        "ls $A",
        "ls ~",
        "ls 'a$b'",
        'ls "a',
        "ls 'a'b",
        "ls > a",
        "ls &",
        "ls \\a",
        "ls #a",
        "ls {a,b}",
    ),
    *("ls\nls", "! ls", "2>&1 ls", "ls é", "ls `a`", "[ a ]", "(ls)", "", "ls |", "| ls"),
]


@pytest.mark.parametrize("line", SURE)
def test_plain_words_need_no_second_reading(line: str) -> None:
    assert is_sure(line)
    ours = read_line(line)
    assert not isinstance(ours, Unread)
    assert is_same_reading(ours, split(line))


@pytest.mark.parametrize("line", UNSURE)
def test_all_else_is_read_twice(line: str) -> None:
    assert not is_sure(line)


NAMES = st.sampled_from(
    ["ls", "./a", "test", "cd", "export", "then", "time", "[", "2", "x.y", "command"]
)
WORDS = st.sampled_from(
    [
        "a",
        "-n",
        "--x=y",
        "2>&1",
        "'a b'",
        '"a b"',
        "''",
        "a,b",
        "@",
        "^",
        "%1",
        "-",
        "--",
        "in",
        "case",
        "!",
    ]
)
COMMANDS = st.builds(
    lambda name, words: " ".join([name, *words]), NAMES, st.lists(WORDS, max_size=5)
)


@given(
    COMMANDS,
    st.lists(st.tuples(st.sampled_from([" | ", " && ", " || ", "; "]), COMMANDS), max_size=3),
)
def test_what_needs_no_second_reading_has_one_reading(
    first: str, more: list[tuple[str, str]]
) -> None:
    line = first + "".join(operator + command for operator, command in more)
    if not is_sure(line):
        return
    ours = read_line(line)
    assert not isinstance(ours, Unread)
    assert is_same_reading(ours, split(line))
