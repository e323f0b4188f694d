"""How a line of input is classified, and which files it names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.input import (
    MAX_MENTIONS,
    MemoryNote,
    Mention,
    Prompt,
    Shell,
    TypedCommand,
    mentions,
    parse,
)
from tests.requirements import requirement


@requirement("R211")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("hello", Prompt(text="hello")),
        ("/help", TypedCommand(name="help", arguments="", text="/help")),
        ("/model  opus ", TypedCommand(name="model", arguments="opus", text="/model  opus")),
        ("/a:b-c two\nlines", TypedCommand(name="a:b-c", arguments="two\nlines", text="/a:b-c two\nlines")),
        ("/usr/bin/env is there", Prompt(text="/usr/bin/env is there")),
        ("/ is the root", Prompt(text="/ is the root")),
        (" /help", Prompt(text=" /help")),
        ("!ls -l", Shell(line="ls -l")),
        ("! ls", Shell(line="ls")),
        ("!", Prompt(text="!")),
        (" !ls", Prompt(text=" !ls")),
        ("# use tabs", MemoryNote(words="use tabs")),
        ("#use tabs", MemoryNote(words="use tabs")),
        ("#", Prompt(text="#")),
        ("# A plan\n\nwith a heading", Prompt(text="# A plan\n\nwith a heading")),
        ("", Prompt(text="")),
    ],
)  # fmt: skip
def test_a_line_is_what_it_begins_with(text: str, meant: object) -> None:
    assert parse(text, takes_notes=True) == meant


def test_a_heading_in_a_programs_prompt_is_no_note() -> None:
    assert parse("# Task", takes_notes=False) == Prompt(text="# Task")


def test_what_can_hardly_be_anything_but_a_file_is_told_apart() -> None:
    text = '@a.txt @src/a @b#3 @"my file" but @someone. and @dataclass'
    assert [mention.is_path for mention in mentions(text)] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see @src/a.py", [Mention(paths=("src/a.py",))]),
        ("@a and (@b) and @a", [Mention(paths=("a",)), Mention(paths=("b", "b)"))]),
        ("in @a.txt.", [Mention(paths=("a.txt", "a.txt."))]),
        ("lines @a.py#L10-20!", [Mention(paths=("a.py#L10-20", "a.py"), first=10, last=20)]),
        ("@a.py#5 and @a.py#L7-L9", [
            Mention(paths=("a.py#5", "a.py"), first=5, last=5),
            Mention(paths=("a.py#L7-L9", "a.py"), first=7, last=9),
        ]),
        ("backwards @a#9-3", [Mention(paths=("a#9-3", "a"), first=9, last=9)]),
        ("zero @a#0", [Mention(paths=("a#0", "a"), first=1, last=1)]),
        ('@"my file.txt" is it', [Mention(paths=("my file.txt",))]),
        ('@"my file.txt#L2"', [Mention(paths=("my file.txt#L2", "my file.txt"), first=2, last=2)]),
        ("mail me@example.com", []),
        ("just @ here", []),
        ("only @#3", [Mention(paths=("#3",))]),
        ("only @... dots", [Mention(paths=("...",))]),
    ],
)  # fmt: skip
def test_a_prompt_names_files_at_the_beginning_of_a_word(text: str, named: list[Mention]) -> None:
    assert list(mentions(text)) == named


def test_no_more_files_are_named_than_anybody_reads() -> None:
    assert len(mentions(" ".join(f"@f{n}" for n in range(500)))) == MAX_MENTIONS


@given(st.text(), st.booleans())
def test_every_text_means_something_and_a_space_makes_it_a_prompt(
    text: str, takes_notes: bool
) -> None:
    parse(text, takes_notes=takes_notes)
    assert isinstance(parse(f" {text}", takes_notes=takes_notes), Prompt)
