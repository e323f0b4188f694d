"""What a line of input is: a prompt, a command, a line for the shell, a note for the memory file.

Pure: it knows no file and no list of commands. Whether a word behind `@` names a file, and whether a
command of that name exists, is for whoever asks. A leading space makes a prompt of anything.
"""

import base64
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

# What was pasted into a prompt: images become blocks, long text is set apart so that it reads as one.


SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Pasted(Struct, frozen=True, kw_only=True):
    """Something pasted; `number` is what its placeholder in the prompt says."""

    number: int
    data: bytes

    @property
    def media_type(self) -> str | None:
        """Of an image the service takes; None for everything else."""
        if self.data[:4] == b"RIFF" and self.data[8:12] == b"WEBP":
            return "image/webp"
        return next((kind for head, kind in SIGNATURES if self.data.startswith(head)), None)


def placeholder(pasted: Pasted) -> str:
    """What stands for it in the line that a person edits."""
    if pasted.media_type is not None:
        return f"[Image #{pasted.number}]"
    lines = pasted.data.count(b"\n")
    return f"[Pasted text #{pasted.number}{f' +{lines} lines' if lines else ''}]"


def content(text: str, pasted: Sequence[Pasted]) -> str | list[dict[str, Any]]:
    """The content of the message: the text with what was pasted in its place, then the images."""
    images: list[dict[str, Any]] = []
    for one in pasted:
        media_type = one.media_type
        if media_type is not None:
            data = base64.b64encode(one.data).decode()
            source = {"type": "base64", "media_type": media_type, "data": data}
            images.append({"type": "image", "source": source})
            continue
        words = one.data.decode("utf-8", "replace").strip("\n")
        whole = f'<pasted_content id="{one.number}">\n{words}\n</pasted_content>'
        mark = placeholder(one)
        text = text.replace(mark, whole, 1) if mark in text else f"{text}\n{whole}".lstrip("\n")
    if not images:
        return text
    return [*([{"type": "text", "text": text}] if text.strip() else []), *images]


# `/usr/bin/env` is a path and `/review` a command; a name may have a namespace.
COMMAND = re.compile(r"/([A-Za-z][\w-]*(?::[\w-]+)*)(?:\s+(.*))?\Z", re.S)
# At the beginning of a word, so that an address of mail names no file.
MENTION = re.compile(
    r"""(?:(?<=[\s(\[{"'`,;])|\A)@(?:"([^"\n]+)"|([^\s"'`<>|]+))""",
)
RANGE = re.compile(r"#L?(\d+)(?:-L?(\d+))?\Z")
TRAILING = ".,;:!?)]}…"
MAX_MENTIONS = 50


class Mention(Struct, frozen=True, kw_only=True):
    """A file or folder that a prompt names. `paths` are its readings, the likeliest first: what
    stands at the end of a word may be the sentence's and not the name's."""

    paths: tuple[str, ...]
    first: int | None = None
    last: int | None = None

    @property
    def is_path(self) -> bool:
        """Whether it can hardly be anything but a file's name; `@someone` and `@dataclass` can."""
        return self.first is not None or any(sign in self.paths[0] for sign in "./ ")


class Prompt(Struct, frozen=True, kw_only=True):
    text: str
    mentions: tuple[Mention, ...] = ()


class TypedCommand(Struct, frozen=True, kw_only=True):
    """`/name arguments`; `text` is the line as it was typed."""

    name: str
    arguments: str
    text: str


class Shell(Struct, frozen=True, kw_only=True):
    """`!line`: run by the shell, seen by the model."""

    line: str


class MemoryNote(Struct, frozen=True, kw_only=True):
    """`# words`: kept in the memory file."""

    words: str


Input: TypeAlias = Prompt | TypedCommand | Shell | MemoryNote


def parse(text: str, *, by_person: bool) -> Input:
    """What `text` is. Only a person's line is a note: a program's prompt may begin with a heading."""
    command = COMMAND.match(text.rstrip())
    if command is not None:
        return TypedCommand(
            name=command[1], arguments=(command[2] or "").strip(), text=text.strip()
        )
    if text.startswith("!") and text[1:].strip():
        return Shell(line=text[1:].strip())
    if by_person and text.startswith("#") and "\n" not in text.strip():
        words = text.lstrip("#").strip()
        if words:
            return MemoryNote(words=words)
    return Prompt(text=text, mentions=mentions(text))


def mentions(text: str) -> tuple[Mention, ...]:
    """The files and folders a prompt names, each once, in the order of the text."""
    found: dict[Mention, None] = {}
    for match in MENTION.finditer(text):
        quoted, bare = match[1], match[2]
        mention = _mention((quoted,)) if quoted else _mention(_readings(bare))
        found[mention] = None
    return tuple(found)[:MAX_MENTIONS]


def _readings(word: str) -> tuple[str, ...]:
    """A word without what closes a sentence around it, and as it stands."""
    bare = word.rstrip(TRAILING)
    return tuple(dict.fromkeys(reading for reading in (bare, word) if reading))


def _mention(readings: tuple[str, ...]) -> Mention:
    for reading in readings:
        span = RANGE.search(reading)
        if span is not None and span.start():
            first = max(1, int(span[1]))
            last = max(first, int(span[2] or span[1]))
            return Mention(paths=(reading, reading[: span.start()]), first=first, last=last)
    return Mention(paths=readings)


def as_typed(text: str) -> str:
    """The line that a person typed, where the record keeps it in parts."""
    shell = re.fullmatch("<bash-input>(.*)</bash-input>", text, re.S)
    if shell is not None:
        return f"! {shell[1]}"
    name = (
        re.search("<command-name>(.*?)</command-name>", text)
        if text.startswith("<command-m")
        else None
    )
    if name is None:
        return text
    arguments = re.search("<command-args>(.*)</command-args>", text, re.S)
    return f"{name[1]} {arguments[1] if arguments else ''}".rstrip()
