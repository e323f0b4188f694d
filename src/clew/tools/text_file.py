"""Text in files: which encoding, which mark at the front, which line ends; and back, byte for byte."""

from msgspec import Struct

MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
LOOK_BYTES = 8192
# Bytes that text in an eight-bit encoding does not hold; tab, line ends, form feed and escape do.
NOT_TEXT = bytes(set(range(32)) - {9, 10, 12, 13, 27})


class Text(Struct, frozen=True, kw_only=True):
    """A file's text and what it takes to write it back as it was."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def is_crlf(self) -> bool:
        return is_crlf(self.text)

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError when the file's encoding has no such character."""
        return self.mark + text.encode(self.encoding)


def is_binary(start: bytes) -> bool:
    return len(start.translate(None, NOT_TEXT)) != len(start)


def decode(data: bytes) -> Text | None:
    """The text of a file; None when it is no text."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
            return Text(text=text, encoding=encoding, mark=mark)
    if is_binary(data[:LOOK_BYTES]):
        return None
    try:
        return Text(text=data.decode("utf-8"))
    except UnicodeDecodeError:
        # Every byte has a character there and goes back as it came.
        return Text(text=data.decode("latin-1"), encoding="latin-1")


def is_crlf(text: str) -> bool:
    """Whether every line ends in CRLF."""
    ends = text.count("\n")
    return ends > 0 and text.count("\r\n") == ends


def crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def lines_of(text: str) -> list[str]:
    """The lines as editors and grep count them: ended by LF, a last one without it counts too."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))
