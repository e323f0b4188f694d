"""Groups of subcommands: without a subcommand, the error lists them."""

from pathlib import Path

import pytest

from clew.cli import COMMANDS, ELSEWHERE
from tests.fronts.headless.clew_process import clew


@pytest.mark.parametrize(
    ("group", "word", "says"),
    [
        ("config", "explain", "value in each file"),
        ("hooks", "events", "List all events"),
        ("memory", "explain", "memory files"),
        ("mcp", "approve", "Approve servers"),
        ("permissions", "check", "Show the decision on a tool call"),
        ("plugin", "install", "Install a plugin"),
        ("plugin marketplace", "update", "Update a marketplace"),
        ("sessions", "search", "Search all sessions"),
    ],
)
def test_a_group_said_alone_lists_its_words(
    tmp_path: Path, group: str, word: str, says: str
) -> None:
    done = clew(tmp_path, "", *group.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: clew {group} ")
    (line,) = (line for line in done.stderr.splitlines() if line.split()[:1] == [word])
    assert says in line
    assert "error" not in done.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("memory list", 'clew memory: unknown command "list"; expected one of explain (clew memory --help)'),
        ("mcp ls", 'clew mcp: unknown command "ls"; did you mean "list"? (clew mcp --help)'),
        ("config get", "clew config: the following arguments are required: key (clew config get --help)"),
        ("doctor now", "clew doctor: unrecognized arguments: now (clew doctor --help)"),
        ("hooks test Nothing", 'clew hooks: unknown event "Nothing" (run "clew hooks events" for a list)'),
        ("help seesions", 'clew: unknown command "seesions" (did you mean "sessions"?)'),
        ("help resume", 'clew: unknown command "resume" (use clew --resume, or clew --continue for the newest session)'),
        ("help zzz", 'clew: unknown command "zzz" (run "clew --help" for a list)'),
        ("agents", 'clew: unknown command "agents" (use /agents in a session; to send it as a prompt: clew -- agents)'),
    ],
)  # fmt: skip
def test_what_a_word_cannot_be_is_said_in_one_line(tmp_path: Path, line: str, says: str) -> None:
    done = clew(tmp_path, "", *line.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{says}\n")


@pytest.mark.parametrize("words", ["-p --help", "--model opus -h", "-p say this --help"])
def test_help_is_asked_for_after_options_too(tmp_path: Path, words: str) -> None:
    said, meant = clew(tmp_path, "", *words.split()), clew(tmp_path, "", "--help")
    assert (said.returncode, said.stdout, said.stderr) == (0, meant.stdout, "")


@pytest.mark.parametrize("words", ["tasks", "sessions", "mcp add", "sessions show", "help"])
def test_help_of_a_word_is_what_the_word_says_of_itself(tmp_path: Path, words: str) -> None:
    said = clew(tmp_path, "", "help", *words.split())
    meant = clew(tmp_path, "", *words.removeprefix("help").split(), "--help")
    assert (said.returncode, said.stdout, said.stderr) == (0, meant.stdout, "")


def test_every_word_that_is_elsewhere_is_no_command_here() -> None:
    assert not ELSEWHERE.keys() & COMMANDS.keys()


def test_adding_a_server_says_what_it_needs(tmp_path: Path) -> None:
    done = clew(tmp_path, "", "mcp", "add", "one")
    assert done.returncode == 2
    assert "required: URL or PROGRAM (clew mcp add --help)" in done.stderr
    shown = clew(tmp_path, "", "mcp", "add", "--help").stdout
    assert "clew mcp add [OPTION ...] NAME URL\n" in shown
    assert "clew mcp add [OPTION ...] NAME -- PROGRAM [ARG ...]\n" in shown
    done = clew(tmp_path, "", "mcp", "add", "one", "--", "program", "--flag")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("word", "flag"), [("help", "--help"), ("version", "--version")])
def test_a_word_alone_that_means_an_option_is_no_prompt(
    tmp_path: Path, word: str, flag: str
) -> None:
    said, meant = clew(tmp_path, "", word), clew(tmp_path, "", flag)
    assert (said.returncode, said.stdout, said.stderr) == (0, meant.stdout, "")
