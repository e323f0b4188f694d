"""What a store of sessions is. `clew.testing.conform_store` holds any of them to it.

A store keeps whole lines in the order in which it was given them. It may hold less than the local file, never
something else: the local file is the first truth.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct


class StoreError(Exception):
    """A store did not do what was asked. The text names the kind of failure, and nothing of anybody's."""


class Key(Struct, frozen=True, kw_only=True):
    """A transcript: the session's id, and a subagent's within it."""

    session_id: str
    agent_id: str = ""


class Listed(Struct, frozen=True, kw_only=True):
    """A transcript that a store has, and how many lines of it."""

    key: Key
    lines: int


class SessionStore(Protocol):
    """Every failure is a `StoreError`, whatever happened beneath."""

    async def append(self, key: Key, lines: Sequence[bytes], *, at: int) -> int:
        """Takes whole lines behind the first `at` ones, and answers how many there are now.

        What the store has already of these lines is not taken twice; lines that differ from what it has, or
        that would leave a gap, are refused.
        """
        ...

    def read(self, key: Key) -> AsyncIterator[bytes]:
        """The transcript's bytes from its beginning; nothing for one that is not there."""
        ...

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        """Every transcript, or those of one session, in no particular order."""
        ...
