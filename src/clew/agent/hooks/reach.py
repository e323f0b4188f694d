"""The services of a session that hooks may use, passed in so that tests can replace them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import OutsideError
from clew.system.process.spawn import Launcher
from clew.system.transport.seam import Transport

# Asks a model or an agent (model name or empty string, prompt) and returns its text.
AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
# Calls an MCP server's tool and returns its text and whether it is an error.
CallTool: TypeAlias = Callable[[str, str, Json], Awaitable[tuple[str, bool]]]


class HookError(OutsideError):
    """Raised if a hook can't run or does not reply; the message is the reason."""


class Reach(Struct, frozen=True, kw_only=True):
    """The services that hooks use.

    `project` is the session's fixed folder, `cwd` the shell's current folder.
    """

    launcher: Launcher
    environment: Callable[[], Mapping[str, str]]
    project: str
    cwd: Callable[[], str]
    transport: Transport | None = None
    ask_model: AskModel | None = None
    ask_agent: AskModel | None = None
    call_tool: CallTool | None = None
    secrets: tuple[str, ...] = ()
    # Saves text that is too long for a conversation. Below: the file with variables for later
    # commands.
    spill: Callable[[str], Path | None] = lambda _: None
    env_file: Path | None = None
    # URL patterns that hooks may post to (None: any), and variables that their headers may use.
    allowed_urls: Callable[[], tuple[str, ...] | None] = lambda: None
    allowed_variables: Callable[[], tuple[str, ...] | None] = lambda: None

    def shorten(self, text: str) -> str:
        """Return short text unchanged, and long text as its beginning and a file's path.

        The file contains the full text.
        """
        if len(text) <= MOST_CHARS:
            return text
        path = self.spill(text)
        where = f"full text in {path}" if path else "the rest could not be saved"
        return f"{text[:PREVIEW_CHARS]}\n[... {len(text):,} characters in total; {where}]"


MOST_CHARS = 10_000
PREVIEW_CHARS = 2_000


# The files watched for hooks: named by FileChanged matchers or by hook replies.


Change: TypeAlias = Literal["change", "add", "unlink"]
Mark: TypeAlias = tuple[int, int, int] | None


class HookFileWatch:
    """Tracks the last known state of each watched file.

    A file that is newly watched is not reported as changed.
    """

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        # Absolute paths that a hook requested; each request replaces the previous one.
        self.also: tuple[str, ...] = ()

    def look(self, matchers: Iterable[str], folder: str) -> list[tuple[str, Change]]:
        """Return the files that changed since the last call; matchers are relative to `folder`."""
        paths = {str(Path(folder, name)) for text in matchers for name in text.split("|") if name}
        paths |= {path for path in self.also if Path(path).is_absolute()}
        changes: list[tuple[str, Change]] = []
        marks = {path: mark(path) for path in sorted(paths)}
        for path, now in marks.items():
            before = self._marks.get(path, now)
            if before != now:
                kind: Change = "add" if before is None else "unlink" if now is None else "change"
                changes.append((path, kind))
        self._marks = marks
        return changes


def mark(path: str) -> Mark:
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
