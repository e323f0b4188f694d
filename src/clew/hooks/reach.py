"""What hooks may use of the session they run in: handed in whole, so that a test can hand in its own."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from clew.messages.errors import OutsideError
from clew.process.spawn import Launcher
from clew.transport.seam import Transport

Json: TypeAlias = dict[str, Any]
# A question to a model or an agent, by the model's name or an empty one, answered in words.
AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
# A call of a server's tool: its text, and whether it is an error.
CallTool: TypeAlias = Callable[[str, str, Json], Awaitable[tuple[str, bool]]]


class HookError(OutsideError):
    """A hook that cannot run, or could not answer; the text says why."""


class Reach(Struct, frozen=True, kw_only=True):
    """`project` is where the session began and stays; `cwd` is where its shell is now."""

    launcher: Launcher
    environment: Callable[[], Mapping[str, str]]
    project: str
    cwd: Callable[[], str]
    transport: Transport | None = None
    ask_model: AskModel | None = None
    ask_agent: AskModel | None = None
    call_tool: CallTool | None = None
    secrets: tuple[str, ...] = ()
    # Where texts go that are too long for a conversation, and variables for later commands.
    spill: Callable[[str], Path | None] = lambda _: None
    env_file: Path | None = None
    # Addresses that hooks may post to (None: any), and variables their headers may name.
    allowed_urls: Callable[[], tuple[str, ...] | None] = lambda: None
    allowed_variables: Callable[[], tuple[str, ...] | None] = lambda: None

    def shorten(self, text: str) -> str:
        """The text, or its beginning and where the whole is."""
        if len(text) <= MOST_CHARS:
            return text
        path = self.spill(text)
        where = f"the whole is in {path}" if path else "the rest could not be kept"
        return f"{text[:PREVIEW_CHARS]}\n[... {len(text):,} characters in all; {where}]"


MOST_CHARS = 10_000
PREVIEW_CHARS = 2_000
