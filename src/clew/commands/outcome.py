"""What a slash command comes to. A command changes nothing of the conversation itself: it returns what
is to be done, and the front or the engine does it."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.commands.rows import table


class Show(Struct, frozen=True, kw_only=True):
    """Words for the person; the model does not see them."""

    text: str
    is_error: bool = False


class Ask(Struct, frozen=True, kw_only=True):
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


class Exit(Struct, frozen=True, kw_only=True):
    """The session ends."""


class Row(Struct, frozen=True, kw_only=True):
    """One thing to choose: the line that does it, as if the person had typed it."""

    line: str
    label: str


class Pick(Struct, frozen=True, kw_only=True):
    """Something to choose from; `text` is to be read first. Choosing nothing changes nothing.

    `of` says of what there is more than the rows: a front that can find among all of it may. `at` is
    the row that a front which shows one as current begins with.
    """

    title: str
    rows: tuple[Row, ...]
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


class Compact(Struct, frozen=True, kw_only=True):
    """The conversation is to be shortened: all of it, or what stands before or from a message on;
    with `undo`, the last time that was done is to be taken back."""

    focus: str = ""
    up_to: str | None = None
    since: str | None = None
    undo: bool = False


Outcome: TypeAlias = Show | Ask | Invoke | Clear | Resume | Exit | Compact | Pick | Rewound
