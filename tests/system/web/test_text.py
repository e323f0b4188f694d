"""Bodies as text: by byte order mark, header, or declaration."""

import pytest

from clew.system.web_page import decode_page, is_markup, is_textual


@pytest.mark.parametrize(
    ("body", "charset", "shown"),
    [
        ("é".encode(), "", "é"),
        ("é".encode("latin-1"), "iso-8859-1", "é"),
        ("é".encode("latin-1"), "", "é"),
        ("é".encode("latin-1"), "utf-8", "\ufffd"),
        (b"\xef\xbb\xbfx", "", "x"),
        ("é".encode("utf-16"), "", "é"),
        ('<meta charset="windows-1251">ж'.encode("cp1251"), "", '<meta charset="windows-1251">ж'),
        (b"x", "no-such-charset", "x"),
        (b"x", "zip", "x"),
        (b"\xff", "hex", "\ufffd"),
    ],
)
def test_text_is_read_by_what_it_says_of_itself(body: bytes, charset: str, shown: str) -> None:
    assert decode_page(body, charset) == shown


def test_what_is_text_and_what_is_a_page() -> None:
    assert is_markup("text/html", b"")
    assert is_markup("", b"  <!DOCTYPE html><html>")
    assert not is_markup("text/plain", b"<html>")
    assert is_textual("application/json", b"")
    assert is_textual("application/vnd.api+json", b"")
    assert is_textual("text/x-anything", b"")
    assert not is_textual("image/png", b"")
    assert is_textual("", b"plain")
    assert not is_textual("application/octet-stream", b"a\0b")
