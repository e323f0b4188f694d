"""What hooks may use of the session they run in: handed in whole, so that a test can hand in its own."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import OutsideError
from clew.system.process.spawn import Launcher
from clew.system.transport.seam import Transport

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


# The files that hooks want to know of: named by matchers of FileChanged, or by what hooks answered.


Change: TypeAlias = Literal["change", "add", "unlink"]
Mark: TypeAlias = tuple[int, int, int] | None


class HookFileWatch:
    """Knows each file as it was when it was looked at last; one that is new to it has not changed."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        # Whole paths that a hook asked for, in the place of those it asked for before.
        self.also: tuple[str, ...] = ()

    def look(self, matchers: Iterable[str], folder: str) -> list[tuple[str, Change]]:
        """What became of the files since the last look. A matcher names files of the folder."""
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
