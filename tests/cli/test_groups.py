"""Words of the command line that hold others: said alone, they say which."""

from pathlib import Path

import pytest

from tests.headless.clew_process import clew


@pytest.mark.parametrize(
    ("group", "word", "says"),
    [
        ("config", "explain", "what each file says on a key"),
        ("hooks", "events", "every event: when"),
        ("memory", "explain", "which file says what"),
        ("mcp", "approve", "let servers that the project brings along begin"),
        ("permissions", "check", "decide one call"),
        ("plugin", "install", "install a plugin of a marketplace"),
        ("plugin marketplace", "update", "read a marketplace again"),
        ("sessions", "search", "words in all sessions"),
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
