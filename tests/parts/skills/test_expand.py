"""Arguments are inserted where the text says, and are never expanded again."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.parts.skills.expand import ExpansionCommand, Piece, expand, fill_places


def whole(pieces: Sequence[Piece]) -> str:
    return "".join(p if isinstance(p, str) else f"<{p.line}>" for p in pieces)


@pytest.mark.parametrize(
    ("body", "given_", "said"),
    [
        ("Do $ARGUMENTS.", "it now", "Do it now."),
        ("$1 and $2", "a 'b c'", "a and b c"),
        ("$0 and $1", "a b", "a and b"),
        ("$ARGUMENTS[0] and $1", "a b", "a and b"),
        ("$2 stays", "a", "$2 stays"),
        ("costs \\$1", "a", "costs $1\n\nARGUMENTS: a"),
        ("no mark", "a b", "no mark\n\nARGUMENTS: a b"),
        ("no mark", "", "no mark"),
        ("$HOME and ${PATH}", "", "$HOME and ${PATH}"),
        ("in ${DIR}", "", "in /d"),
        ("$1", "an 'open quote", "an"),
        ("$1", "'$2' !`id`", "$2"),
    ],
)
def test_arguments_are_put_in_once(body: str, given_: str, said: str) -> None:
    assert whole(expand(body, given_, places={"DIR": "/d"})) == said


def test_arguments_may_have_names() -> None:
    names = ("file", "why")
    assert whole(expand("$file: $why", "a.py too long by far", names=names)) == (
        "a.py: too long by far"
    )
    assert whole(expand("$file: $why.", "a.py", names=names)) == "a.py: ."


@pytest.mark.parametrize(
    ("body", "given_", "pieces"),
    [
        ("Now: !`git log -1 $1`.", "x", ["Now: ", ExpansionCommand(line="git log -1 x"), "."]),
        ("!`date`", "", [ExpansionCommand(line="date")]),
        ("wow!`no`", "", ["wow!`no`"]),
        ("A\n```!\nls\npwd\n```\nB", "", ["A\n", ExpansionCommand(line="ls\npwd"), "\nB"]),
        ("Say $1", "!`id`", ["Say !`id`"]),
    ],
)
def test_commands_are_those_of_the_file(body: str, given_: str, pieces: list[Piece]) -> None:
    assert expand(body, given_) == pieces


@given(st.text(max_size=30), st.text(max_size=30))
def test_an_argument_never_brings_a_command(before: str, argument: str) -> None:
    plain = before.replace("`", "")
    assert not any(isinstance(piece, ExpansionCommand) for piece in expand(f"{plain} $1", argument))


def test_places_in_rules_are_filled_if_they_are_known() -> None:
    places = {"CLAUDE_PLUGIN_ROOT": "/p", "CLAUDE_SKILL_DIR": ""}
    assert fill_places("Bash(${CLAUDE_PLUGIN_ROOT}/a:*)", places) == "Bash(/p/a:*)"
    # It must not become a rule for the root of the system.
    for rule in ("Bash(${CLAUDE_SKILL_DIR}/a:*)", "Bash(${OTHER}/a)"):
        assert fill_places(rule, places) == rule
