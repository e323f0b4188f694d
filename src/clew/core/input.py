"""What a line of input is: a prompt, a command, a line for the shell, a note for the memory file.

Also what a slash command comes to. Pure: it knows no file and no list of commands. Whether a word behind `@` names a file, and whether a
command of that name exists, is for whoever asks. A leading space makes a prompt of anything.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from clew.core.regex import lazy_pattern

# A command changes nothing of the conversation itself: it returns what
# is to be done, and the front or the engine does it.


# A first column that is wider leaves too little for the second in a terminal of eighty columns.
WIDEST = 32


def format_table(rows: Iterable[tuple[str, str]]) -> str:
    """What does not fit the first column stands above its words."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows if len(name) <= WIDEST), default=2)
    return "\n".join(line for name, words in rows for line in _lines(name, words, width))


def _lines(name: str, words: str, width: int) -> Iterator[str]:
    if len(name) <= width or not words:
        yield f"{name:<{width}}  {words}".rstrip()
        return
    yield name
    yield f"{'':<{width}}  {words}"


class Show(Struct, frozen=True, kw_only=True):
    """Words for the person; the model does not see them."""

    text: str
    is_error: bool = False


class SubmitPrompt(Struct, frozen=True, kw_only=True):
    """A prompt, as if the person had typed it; of a stranger's words, no file is named by them.

    `said` is for the person, before it is worked on.
    """

    text: str
    said: str = ""
    by_stranger: bool = False


class Invoke(Struct, frozen=True, kw_only=True):
    """A text that was called by name: the line stands as it was typed, and the text behind it.

    `origin` says in the log whose words the text is.
    """

    name: str
    arguments: str
    text: str
    origin: dict[str, Any]


class Clear(Struct, frozen=True, kw_only=True):
    """A new session from here on; the old one can be resumed."""


class Resume(Struct, frozen=True, kw_only=True):
    """Another session from here on: its id, title or file."""

    session: str


class ExitSession(Struct, frozen=True, kw_only=True):
    """The session ends."""


class PickRow(Struct, frozen=True, kw_only=True):
    """One thing to choose: the line that does it, as if the person had typed it."""

    line: str
    label: str


class Pick(Struct, frozen=True, kw_only=True):
    """Something to choose from; `text` is to be read first. Choosing nothing changes nothing.

    `of` says of what there is more than the rows: a front that can find among all of it may. `at` is
    the row that a front which shows one as current begins with.
    """

    title: str
    rows: tuple[PickRow, ...]
    text: str = ""
    of: Literal["", "sessions", "all sessions"] = ""
    at: int = 0


# Where nobody chooses, so many are enough to say what there is.
LISTED = 200


def as_list(pick: Pick) -> Show:
    """What can be chosen, for where nobody chooses: each with the line that does it."""
    rows = format_table((row.line, row.label) for row in pick.rows[:LISTED])
    rest = len(pick.rows) - LISTED
    note = f"... and {rest} more" if rest > 0 else ""
    return Show(text="\n".join(filter(None, (pick.text, f"{pick.title}:", rows, note))))


class Rewound(Struct, frozen=True, kw_only=True):
    """The conversation stands elsewhere from here on, or files do; `prompt` is what was said there, to
    be said again or otherwise."""

    text: str
    prompt: str = ""


class CompactSession(Struct, frozen=True, kw_only=True):
    """The conversation is to be shortened: all of it, or what stands before or from a message on;
    with `undo`, the last time that was done is to be taken back."""

    focus: str = ""
    up_to: str | None = None
    since: str | None = None
    undo: bool = False


Outcome: TypeAlias = (
    Show | SubmitPrompt | Invoke | Clear | Resume | ExitSession | CompactSession | Pick | Rewound
)


# The slash commands of a session, by name. Open: what else is found (files, servers) is added.


Scene = TypeVar("Scene")


class SlashCommand(Struct, Generic[Scene], frozen=True, kw_only=True):
    """`run` is given what the command may look at, and its arguments as they were typed."""

    name: str
    description: str
    run: Callable[[Scene, str], Awaitable[Outcome]]
    # What arguments it takes, as help shows them.
    hint: str = ""
    aliases: tuple[str, ...] = ()
    # Whether it makes sense only where a person goes on typing.
    is_interactive: bool = False
    # Of one that becomes a prompt: whose words it is, as hooks are told.
    expands: str = ""


class Registry(Generic[Scene]):
    """A name that is added again is the later one's; an alias never hides a name."""

    def __init__(self, commands: Iterable[SlashCommand[Scene]] = ()) -> None:
        self._by_name: dict[str, SlashCommand[Scene]] = {}
        for command in commands:
            self.add(command)

    def add(self, command: SlashCommand[Scene]) -> None:
        self._by_name[command.name] = command

    def __iter__(self) -> Iterator[SlashCommand[Scene]]:
        return iter(sorted(self._by_name.values(), key=lambda command: command.name))

    def find(self, name: str) -> SlashCommand[Scene] | None:
        command = self._by_name.get(name)
        return command or next((c for c in self if name in c.aliases), None)

    def nearest(self, name: str) -> str | None:
        near = get_close_matches(name, self._by_name, n=1)
        return near[0] if near else None


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


def make_placeholder(pasted: Pasted) -> str:
    """What stands for it in the line that a person edits."""
    if pasted.media_type is not None:
        return f"[Image #{pasted.number}]"
    lines = pasted.data.count(b"\n")
    return f"[Pasted text #{pasted.number}{f' +{lines} lines' if lines else ''}]"


def make_content(text: str, pasted: Sequence[Pasted]) -> str | list[dict[str, Any]]:
    """The content of the message: the text with what was pasted in its place, then the images."""
    images: list[dict[str, Any]] = []
    for paste in pasted:
        media_type = paste.media_type
        if media_type is not None:
            data = base64.b64encode(paste.data).decode()
            source = {"type": "base64", "media_type": media_type, "data": data}
            images.append({"type": "image", "source": source})
            continue
        words = paste.data.decode("utf-8", "replace").strip("\n")
        pasted_text = f'<pasted_content id="{paste.number}">\n{words}\n</pasted_content>'
        mark = make_placeholder(paste)
        text = (
            text.replace(mark, pasted_text, 1)
            if mark in text
            else f"{text}\n{pasted_text}".lstrip("\n")
        )
    if not images:
        return text
    return [*([{"type": "text", "text": text}] if text.strip() else []), *images]


# `/usr/bin/env` is a path and `/review` a command; a name may have a namespace.
COMMAND = lazy_pattern(r"/([A-Za-z][\w-]*(?::[\w-]+)*)(?:\s+(.*))?\Z", re.S)
# At the beginning of a word, so that an address of mail names no file.
MENTION = lazy_pattern(
    r"""(?:(?<=[\s(\[{"'`,;])|\A)@(?:"([^"\n]+)"|([^\s"'`<>|]+))""",
)
RANGE = lazy_pattern(r"#L?(\d+)(?:-L?(\d+))?\Z")
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
    results: dict[Mention, None] = {}
    for match in MENTION.finditer(text):
        quoted, bare = match[1], match[2]
        mention = _mention((quoted,)) if quoted else _mention(_readings(bare))
        results[mention] = None
    return tuple(results)[:MAX_MENTIONS]


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
