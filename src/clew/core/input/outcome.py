"""What a slash command comes to. A command changes nothing of the conversation itself: it returns what
is to be done, and the front or the engine does it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

# Rows of two columns, as a command shows them.


# A first column that is wider leaves too little for the second in a terminal of eighty columns.
WIDEST = 32


def table(rows: Iterable[tuple[str, str]]) -> str:
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
    rows = table((row.line, row.label) for row in pick.rows[:LISTED])
    rest = len(pick.rows) - LISTED
    more = f"... and {rest} more" if rest > 0 else ""
    return Show(text="\n".join(filter(None, (pick.text, f"{pick.title}:", rows, more))))


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
        found = self._by_name.get(name)
        return found or next((c for c in self if name in c.aliases), None)

    def nearest(self, name: str) -> str | None:
        near = get_close_matches(name, self._by_name, n=1)
        return near[0] if near else None
