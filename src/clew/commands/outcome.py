"""What a slash command comes to. A command changes nothing of the conversation itself: it returns what
is to be done, and the front or the engine does it."""

from typing import TypeAlias

from msgspec import Struct


class Show(Struct, frozen=True, kw_only=True):
    """Words for the person; the model does not see them."""

    text: str
    is_error: bool = False


class Ask(Struct, frozen=True, kw_only=True):
    """A prompt, as if the person had typed it; of a stranger's words, no file is named by them."""

    text: str
    by_stranger: bool = False


class Clear(Struct, frozen=True, kw_only=True):
    """A new session from here on; the old one can be resumed."""


class Resume(Struct, frozen=True, kw_only=True):
    """Another session from here on: its id, title or file."""

    session: str


class Exit(Struct, frozen=True, kw_only=True):
    """The session ends."""


Outcome: TypeAlias = Show | Ask | Clear | Resume | Exit
