"""From terminal input to keys, however the bytes are split."""

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from clew.fronts.terminal.typed import ESCAPE, NEWLINE, Typed

SAMPLES: dict[str, list[str]] = {
    "a\x1bb": ["a", "escape", "b"],
    "\x1b[A\x1b[Z": ["up", "s-tab"],
    "\x1b\r": [NEWLINE],
    "\x1b[13;2u\x1b[13u": [NEWLINE, "c-m"],
    "\x1b[27u": [ESCAPE],
    "\x1b[97;5u\x1b[98;3u\x1b[99;2u": ["c-a", "escape", "b", "C"],
    "\x1b[9;2u\x1b[127u": ["s-tab", "c-h"],
    "\x1b[97;1:3u": [],
    "\x1b[27;2;13~": [NEWLINE],
    "\x1b[200~a\rb\x1b[A\x1b[201~c": ["<bracketed-paste>", "c"],
    "\x1b[200~\x1b[201~": ["<bracketed-paste>"],
}


def names(keys: list[KeyPress]) -> list[str]:
    return [key.key.value if isinstance(key.key, Keys) else key.key for key in keys]


def wanted(sample: str) -> list[str]:
    return [key.value if isinstance(key, Keys) else key for key in SAMPLES[sample]]


@pytest.mark.parametrize("sample", SAMPLES)
def test_keys_are_the_same_however_they_are_cut(sample: str) -> None:
    for cut in range(len(sample) + 1):
        typed = Typed(lambda _: None)
        keys = [*typed.feed(sample[:cut]), *typed.feed(sample[cut:]), *typed.flush()]
        assert names(keys) == wanted(sample), cut
    typed = Typed(lambda _: None)
    keys = [key for character in sample for key in typed.feed(character)]
    assert names([*keys, *typed.flush()]) == wanted(sample)


def test_an_escape_alone_is_known_as_soon_as_nothing_follows() -> None:
    typed = Typed(lambda _: None)
    assert typed.feed("\x1b") == []
    assert names(typed.flush()) == [ESCAPE.value]
    assert names(typed.feed("x")) == ["x"]


@pytest.mark.parametrize("reply", ["?62;4c", "?2026;2$y", "I"])
def test_a_reply_whose_first_byte_passed_for_escape_is_no_text(reply: str) -> None:
    replies: list[str] = []
    for cut in range(1, len(reply) + 1):
        typed = Typed(replies.append)
        typed.awaits_replies = True
        sent = f"[{reply}b"
        keys = [
            *typed.feed("a\x1b"),
            *typed.flush(),
            *typed.feed(sent[:cut]),
            *typed.feed(sent[cut:]),
        ]
        assert names([*keys, *typed.flush()]) == ["a", ESCAPE.value, "b"], cut
    assert set(replies) == {reply}


@pytest.mark.parametrize("later", ["[", "]", "[x", "x"])
def test_what_is_typed_after_an_early_escape_is_text(later: str) -> None:
    typed = Typed(lambda _: None)
    typed.awaits_replies = True
    keys = [*typed.feed("\x1b"), *typed.flush(), *typed.feed(later), *typed.flush()]
    assert names(keys) == [ESCAPE.value, *later]
    typed.awaits_replies = False
    assert names([*typed.feed("\x1b"), *typed.flush(), *typed.feed("[")]) == [ESCAPE.value, "["]


def test_a_paste_is_whole_and_its_lines_end_alike() -> None:
    typed = Typed(lambda _: None)
    (paste,) = typed.feed("\x1b[200~one\r\ntwo\rthree\x1b[201~")
    assert paste.data == "one\ntwo\nthree"


def test_a_large_paste_is_gathered_in_pieces() -> None:
    typed, text = Typed(lambda _: None), "0123456789" * 100_000
    sent = f"\x1b[200~{text}\x1b[201~x"
    keys = [key for at in range(0, len(sent), 1000) for key in typed.feed(sent[at : at + 1000])]
    assert keys[0].data == text
    assert names(keys) == ["<bracketed-paste>", "x"]


def told_as(keys: list[KeyPress]) -> list[tuple[str, str]]:
    return list(zip(names(keys), (key.data for key in keys), strict=True))


PASTED = "<bracketed-paste>"


def test_a_paste_whose_end_does_not_come_is_pasted_and_the_keys_are_keys_again() -> None:
    typed = Typed(lambda _: None)
    assert typed.feed("\x1b[200~one\rtwo") == []
    assert typed.is_pasting
    assert told_as(typed.flush()) == [(PASTED, "one\ntwo")]
    assert not typed.is_pasting
    assert names(typed.feed("x")) == ["x"]
    assert names(typed.feed("ls\r")) == ["l", "s", "c-m"]


@pytest.mark.parametrize("key", ["\x03", "\x1b[99;5u"])
def test_ctrl_c_ends_a_paste_that_has_no_end_and_nothing_else(key: str) -> None:
    for sent in (["\x1b[200~one", key], [f"\x1b[200~one{key}"]):
        typed = Typed(lambda _: None)
        keys = [each for part in sent for each in typed.feed(part)]
        assert told_as(keys) == [(PASTED, "one")]
        assert names(typed.feed(key)) == ["c-c"]


@pytest.mark.parametrize(
    ("later", "keys"),
    [
        (["\rthree\r", "four\r\x1b[201~x"], [(PASTED, "\nthree\nfour\n"), ("x", "x")]),
        (["e\x1b[201~", "\r"], [(PASTED, "e"), ("c-m", "\r")]),
        (["\r"], [("c-m", "\r")]),
        (["\x1b[200~new\r\x1b[201~"], [(PASTED, "new\n")]),
        (["end\x1b[201~\x1b[200~new\x1b[201~"], [(PASTED, "end"), (PASTED, "new")]),
    ],
)
def test_lines_of_a_paste_that_come_after_a_halt_are_no_keys(
    later: list[str], keys: list[tuple[str, str]]
) -> None:
    typed = Typed(lambda _: None)
    typed.feed("\x1b[200~one\rtwo")
    assert told_as(typed.flush()) == [(PASTED, "one\ntwo")]
    assert told_as([key for part in later for key in typed.feed(part)]) == keys


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
def test_the_color_of_the_ground_is_no_key_however_slowly_it_comes(end: str) -> None:
    told: list[str] = []
    sent = f"]11;rgb:ffff/0000/00ff{end}"
    for cut in range(1, len(sent)):
        typed = Typed(told.append)
        # It is cut, and nothing follows for a while.
        keys = [*typed.feed(f"a\x1b{sent[: cut + 1]}"), *typed.flush()]
        keys += [*typed.feed(f"{sent[cut + 1 :]}b"), *typed.flush()]
        assert names(keys) == ["a", "b"], cut
    assert set(told) == {"]11;rgb:ffff/0000/00ff"}
    typed = Typed(told.append)
    assert names([*typed.feed("\x1b]"), *typed.flush(), *typed.feed("x")]) == ["escape", "]", "x"]


@pytest.mark.parametrize("reply", ["?62;4c", "?1u", "?2026;2$y", "I", "O"])
def test_answers_of_the_terminal_are_no_keys(reply: str) -> None:
    told: list[str] = []
    for cut in range(len(reply) + 3):
        typed, sent = Typed(told.append), f"a\x1b[{reply}b"
        keys = [*typed.feed(sent[:cut]), *typed.feed(sent[cut:]), *typed.flush()]
        assert names(keys) == ["a", "b"], cut
    assert set(told) == {reply}
