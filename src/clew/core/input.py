"""Parse a line of input as a prompt, a slash command, a shell line or a memory note.

Also defines the outcomes of a slash command. This module reads no files and has no list of
commands. The caller checks whether a word after `@` names a file and whether a command exists. A
leading space turns any line into a prompt.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from clew.core.nearest import find_nearest
from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.core.page import ReportPage

# Slash command outcomes. A command never changes the conversation itself: it returns what to do,
# and the front end or the engine does it.


# A wider first column leaves too little room for the second one in an 80-column terminal.
WIDEST = 32


def format_table(rows: Iterable[tuple[str, str]]) -> str:
    """Format rows in two columns; a name too wide for the first column gets a separate line."""
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
    """Text shown to the user; the model does not see it.

    `is_unknown` means that the line was not understood; it is returned to the prompt for editing. A
    terminal draws `page`, which has the same content, instead of the text.
    """

    text: str
    is_error: bool = False
    is_unknown: bool = False
    # Whether the transcript already contains the text.
    is_recorded: bool = False
    page: "ReportPage | None" = None
    # Whether the text contains unified diffs, which a terminal draws.
    has_diffs: bool = False


class SubmitPrompt(Struct, frozen=True, kw_only=True):
    """A prompt, run as if the user had typed it.

    `said` is shown to the user before the turn begins. `by_stranger` means that the text comes from
    an untrusted source, so its `@` mentions attach no files.
    """

    text: str
    said: str = ""
    by_stranger: bool = False


class Invoke(Struct, frozen=True, kw_only=True):
    """The text that a command expands to; the turn contains the typed line, then this text.

    `origin` records in the transcript where the text came from.
    """

    name: str
    arguments: str
    text: str
    origin: dict[str, Any]


class Clear(Struct, frozen=True, kw_only=True):
    """Start a new session; the old one can still be resumed."""


class Resume(Struct, frozen=True, kw_only=True):
    """Switch to another session, given by ID, title or file."""

    session: str


class ExitSession(Struct, frozen=True, kw_only=True):
    """End the session."""


class PickRow(Struct, frozen=True, kw_only=True):
    """One choice in a list; choosing it runs `line` as if the user had typed it."""

    line: str
    label: str


class Pick(Struct, frozen=True, kw_only=True):
    """A list of choices, with `text`, which may contain unified diffs, above it.

    `of` names the collection that the rows are part of, so that a front end can search the entire
    collection or preview themes. `at` is the index of the row to select first. Cancelling changes
    nothing.
    """

    title: str
    rows: tuple[PickRow, ...]
    text: str = ""
    of: Literal["", "sessions", "all sessions", "themes"] = ""
    at: int = 0


# Maximum number of rows in a front end that prints the list instead of offering a choice.
LISTED = 200


def as_list(pick: Pick) -> Show:
    """Return the choices as text, for a front end without a picker: each label with its command."""
    rows = format_table((row.line, row.label) for row in pick.rows[:LISTED])
    rest = len(pick.rows) - LISTED
    note = f"... and {rest} more" if rest > 0 else ""
    return Show(text="\n".join(filter(None, (pick.text, f"{pick.title}:", rows, note))))


class Rewound(Struct, frozen=True, kw_only=True):
    """The conversation or the files were rewound; `prompt` is the prompt to edit and send again."""

    text: str
    prompt: str = ""


class CompactSession(Struct, frozen=True, kw_only=True):
    """Compact the conversation: all of it, or the part before or after a message.

    If `undo` is true, undo the last compaction instead.
    """

    focus: str = ""
    up_to: str | None = None
    since: str | None = None
    undo: bool = False


Outcome: TypeAlias = (
    Show | SubmitPrompt | Invoke | Clear | Resume | ExitSession | CompactSession | Pick | Rewound
)


# The slash commands of a session by name. Files and MCP servers can add more.


Scene = TypeVar("Scene")


class SlashCommand(Struct, Generic[Scene], frozen=True, kw_only=True):
    """A slash command; `run` receives the session (a `Scene`) and the arguments as typed."""

    name: str
    description: str
    run: Callable[[Scene, str], Awaitable[Outcome]]
    # The arguments, as shown in help.
    hint: str = ""
    aliases: tuple[str, ...] = ()
    # Whether the command makes sense only in an interactive session.
    is_interactive: bool = False
    # For a command that expands to a prompt: the source of the text, as reported to hooks.
    expands: str = ""


class Registry(Generic[Scene]):
    """Slash commands by name.

    A command replaces an earlier one with the same name. Names take precedence over aliases.
    """

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
        return find_nearest(name, self._by_name, cutoff=0.75)


# Pasted content: images become blocks, and long text gets a tag around it.


SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Pasted(Struct, frozen=True, kw_only=True):
    """Pasted content; `number` is the number in its placeholder."""

    number: int
    data: bytes

    @property
    def media_type(self) -> str | None:
        """The media type of an image that the service accepts; None for anything else."""
        if self.data[:4] == b"RIFF" and self.data[8:12] == b"WEBP":
            return "image/webp"
        return next((kind for head, kind in SIGNATURES if self.data.startswith(head)), None)


def make_placeholder(pasted: Pasted) -> str:
    """Return the placeholder for pasted content in the line that the user edits."""
    if pasted.media_type is not None:
        return f"[Image #{pasted.number}]"
    lines = pasted.data.count(b"\n")
    return f"[Pasted text #{pasted.number}{f' +{lines} lines' if lines else ''}]"


def make_content(text: str, pasted: Sequence[Pasted]) -> str | list[dict[str, Any]]:
    """Return the message content: the text with pasted text inserted, then the images."""
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


# `/usr/bin/env` is a path and `/review` a command. A name may have a namespace.
COMMAND = lazy_pattern(r"/([A-Za-z][\w-]*(?::[\w-]+)*)(?:\s+(.*))?\Z", re.S)
# Only at the start of a word, so that an email address does not name a file.
MENTION = lazy_pattern(
    r"""(?:(?<=[\s(\[{"'`,;])|\A)@(?:"([^"\n]+)"|([^\s"'`<>|]+))""",
)
RANGE = lazy_pattern(r"#L?(\d+)(?:-L?(\d+))?\Z")
TRAILING = ".,;:!?)]}…"
MAX_MENTIONS = 50


class Mention(Struct, frozen=True, kw_only=True):
    """A file or folder named in a prompt.

    `paths` are the possible paths, the most likely first: punctuation at the end of the word may
    belong to the sentence instead of the name.
    """

    paths: tuple[str, ...]
    first: int | None = None
    last: int | None = None

    @property
    def is_path(self) -> bool:
        """True if this is almost certainly a path, unlike `@someone` or `@dataclass`."""
        return self.first is not None or any(sign in self.paths[0] for sign in "./ ")


class Prompt(Struct, frozen=True, kw_only=True):
    text: str
    mentions: tuple[Mention, ...] = ()


class TypedCommand(Struct, frozen=True, kw_only=True):
    """A slash command, `/name arguments`; `text` is the line as typed."""

    name: str
    arguments: str
    text: str


class Shell(Struct, frozen=True, kw_only=True):
    """A shell line, `!line`: the shell runs it, and the model sees the output."""

    line: str


class MemoryNote(Struct, frozen=True, kw_only=True):
    """A note, `# text`, to be added to the memory file."""

    words: str


Input: TypeAlias = Prompt | TypedCommand | Shell | MemoryNote


def parse(text: str, *, takes_notes: bool) -> Input:
    """Parse a line of input.

    If `takes_notes` is true, a line that begins with # is a note. In a host's prompt, such a line
    may be a Markdown heading instead.
    """
    command = COMMAND.match(text.rstrip())
    if command is not None:
        return TypedCommand(
            name=command[1], arguments=(command[2] or "").strip(), text=text.strip()
        )
    if text.startswith("!") and text[1:].strip():
        return Shell(line=text[1:].strip())
    if takes_notes and text.startswith("#") and "\n" not in text.strip():
        words = text.lstrip("#").strip()
        if words:
            return MemoryNote(words=words)
    return Prompt(text=text, mentions=mentions(text))


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the first `MAX_MENTIONS` files and folders that a prompt names, without duplicates."""
    results: dict[Mention, None] = {}
    for match in MENTION.finditer(text):
        quoted, bare = match[1], match[2]
        mention = _mention((quoted,)) if quoted else _mention(_readings(bare))
        results[mention] = None
    return tuple(results)[:MAX_MENTIONS]


def _readings(word: str) -> tuple[str, ...]:
    """Return the word without trailing punctuation, then the word as written."""
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


_PASTED = lazy_pattern(r'<pasted_content id="(\d{1,9})">\n(.*?)\n</pasted_content>', re.S)


def lift_pastes(text: str) -> tuple[str, tuple[Pasted, ...]]:
    """Return a prompt with placeholders in place of pasted text, and that text.

    It is the reverse of `make_content`.
    """
    if "<pasted_content" not in text:
        return text, ()
    pasted: list[Pasted] = []

    def place(match: re.Match[str]) -> str:
        pasted.append(Pasted(number=int(match[1]), data=match[2].encode("utf-8", "replace")))
        return make_placeholder(pasted[-1])

    return _PASTED.sub(place, text), tuple(pasted)


def name_prompt(text: str) -> str:
    """Return a prompt as lists show it: what the user typed or, if that is nothing, pasted text."""
    shown, pasted = lift_pastes(as_typed(text))
    if pasted and not _PASTED.sub("", text).strip():
        return pasted[0].data.decode("utf-8", "replace")
    return shown


def as_typed(text: str) -> str:
    """Return the line that the user typed, reconstructed from the tagged text in the transcript."""
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
