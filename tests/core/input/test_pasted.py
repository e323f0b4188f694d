"""Pasted content: recognized by its first bytes, and inserted at its place in the prompt."""

import pytest

from clew.core.input import Pasted, lift_pastes, make_content, make_placeholder, name_prompt
from tests.requirements import requirement

PNG = b"\x89PNG\r\n\x1a\n rest"


@requirement("R211")
@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"words", None),
        (b"", None),
    ],
)
def test_the_kind_is_told_by_the_bytes(data: bytes, media_type: str | None) -> None:
    assert Pasted(number=1, data=data).media_type == media_type


def test_long_text_stands_in_its_place_set_apart() -> None:
    log = Pasted(number=2, data=b"one\ntwo\n")
    assert make_placeholder(log) == "[Pasted text #2 +2 lines]"
    said = make_content(f"Why {make_placeholder(log)}?", [log])
    assert said == 'Why <pasted_content id="2">\none\ntwo\n</pasted_content>?'


def test_text_whose_place_was_deleted_comes_after_the_prompt() -> None:
    word = Pasted(number=1, data=b"word")
    assert make_placeholder(word) == "[Pasted text #1]"
    assert make_content("", [word]) == '<pasted_content id="1">\nword\n</pasted_content>'
    assert str(make_content("a", [word])).startswith("a\n<pasted_content")


def test_images_follow_the_text_as_blocks() -> None:
    image = Pasted(number=1, data=PNG)
    assert make_placeholder(image) == "[Image #1]"
    said = make_content("what is [Image #1]", [image])
    assert [block["type"] for block in said if isinstance(block, dict)] == ["text", "image"]
    alone = make_content(" ", [image])
    assert [block["type"] for block in alone if isinstance(block, dict)] == ["image"]


@pytest.mark.parametrize("text", ["a\nb\nc", "one line", "", 'with "quotes" <b>'])
def test_pasted_text_of_a_sent_prompt_becomes_a_placeholder_again(text: str) -> None:
    pastes = (Pasted(number=1, data=text.encode()), Pasted(number=2, data=b"x\ny"))
    typed = f"look at {make_placeholder(pastes[0])} and {make_placeholder(pastes[1])} please"
    sent = make_content(typed, pastes)
    assert isinstance(sent, str)
    assert lift_pastes(sent) == (typed, pastes)
    assert lift_pastes("<pasted_content is only a word") == ("<pasted_content is only a word", ())


def test_lists_show_what_was_typed_or_else_what_was_pasted() -> None:
    paste = Pasted(number=1, data=b"Traceback\nValueError")
    alone = make_content(make_placeholder(paste), (paste,))
    assert name_prompt(str(alone)) == "Traceback\nValueError"
    both = make_content(f"why? {make_placeholder(paste)}", (paste,))
    assert name_prompt(str(both)) == "why? [Pasted text #1 +1 lines]"
    assert name_prompt("<bash-input>ls</bash-input>") == "! ls"
