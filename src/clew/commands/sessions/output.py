"""Output of `clew sessions` commands: text for users, JSON for programs, a progress bar.

Control characters in a session's text are replaced.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clew.commands.styled import clean
from clew.core.messages.errors import describe_error
from clew.record.transcript import choose
from clew.record.transcript.paths import get_projects_dir
from clew.system.command_groups import argument, switch
from clew.system.config.paths import find_config_home
from clew.system.files import why_closed

if TYPE_CHECKING:
    from clew.record.exchange.others import OtherSessions

# Exit codes: success, problems found, request impossible.
FINE, FOUND, CANNOT = 0, 1, 2
# The most findings listed per rule in text output.
MOST_OF_RULE = 20
SESSION = argument("session", help="ID, title or file")
DRY_RUN = switch("--dry-run", "Show what would be done")
OTHER_AGENTS = switch("--other-agents", "Include the sessions of other agents on this machine")
NONE_HERE = "no sessions in this folder; run clew sessions list --all to include all folders"


class CannotError(Exception):
    """A request that cannot be carried out. The text gives the reason and a remedy."""


def find_home() -> Path:
    return find_config_home(os.environ, Path.cwd())


def find_cwd() -> str:
    return str(Path.cwd())


def find_transcript(name: str) -> Path:
    """Return the file of a session given by ID, title or path."""
    return choose.resolve_session(find_home(), find_cwd(), name)


def find_readable(name: str) -> Path:
    """Return the file of a session to read, which may be a copy of another agent's session."""
    from clew.parts.resuming import find_or_adopt

    return find_or_adopt(find_home(), find_cwd(), name, is_read_only=True)


def find_saved_part(name: str) -> Path:
    """Return the file of a session, and warn if some of its lines are saved elsewhere.

    This is for commands that read only this file.
    """
    path = find_readable(name)
    say_unsaved(path)
    return path


def refresh_others() -> "OtherSessions":
    """Return the copies of other agents' sessions, after updating them."""
    from clew.record.exchange.others import OtherSessions  # loads all importers

    others = OtherSessions(find_home())
    with Bar("reading sessions of other agents") as bar:
        for _, done, total in others.refresh(
            os.environ, Path.home(), Path(find_cwd()), time.monotonic
        ):
            bar(done, total)
    return others


def say_unsaved(path: Path) -> None:
    from clew.record.transcript.agents import find_unsaved_agents
    from clew.record.transcript.light import is_uuid
    from clew.record.transcript.paths import SessionPlace
    from clew.record.transcript.recovery import list_copies

    place = (
        SessionPlace(session_id=path.stem, project_dir=path.parent) if is_uuid(path.stem) else None
    )
    try:
        for file in (path, *(find_unsaved_agents(place, find_home()) if place else ())):
            for copy in list_copies(file, find_home()):
                if copy != file:
                    sys.stderr.write(
                        f"clew sessions: {file} was not writable; later messages are in {copy} and "
                        f"not included here. Once {file.parent} is writable, `clew --resume {path.stem}` restores them\n"
                    )
    except OSError as error:
        why = describe_error(error)
        sys.stderr.write(
            f"clew sessions: {why}, so {path.stem} may have recovery files that clew can't read\n"
        )


def say_waiting(path: Path) -> bool:
    """Warn if a session has recovery files, and return whether it has any.

    A command that changes only the session's file would miss the lines in its recovery files.
    """
    from clew.record.transcript.paths import copy_name, rescue_dirs
    from clew.record.transcript.recovery import list_all_copies

    session = Path(copy_name(path)).stem.rpartition(".")[2]
    closed = next(filter(None, map(why_closed, rescue_dirs(find_home()))), None)
    if closed is not None:
        raise CannotError(f"{closed}, so {session} may have recovery files that clew can't read")
    copies = list_all_copies(find_home()).get(session, [])
    if copies:
        say_copies(session, copies, "the session was not changed")
    return bool(copies)


def say_copies(session: str, copies: list[Path], so: str) -> None:
    from clew.commands.doctor.transcripts import check_unsaved

    finding = check_unsaved(find_home(), find_cwd(), session, copies)
    remedy = f"{finding.remedy[0].upper()}{finding.remedy[1:]}"
    sys.stderr.write(f"clew sessions: {finding.words}; {so}. {remedy}\n")


def say_closed(*, everywhere: bool) -> bool:
    """Warn about unreadable session folders, and return whether there are any."""
    places = [
        get_projects_dir(find_home()),
        *choose.list_folders(find_home(), find_cwd(), everywhere=everywhere),
    ]
    closed = dict.fromkeys(filter(None, map(why_closed, places)))
    for why in closed:
        sys.stderr.write(f"clew sessions: {why}; its sessions are omitted\n")
    return bool(closed)


def say(line: str) -> None:
    """Print a line of text with its control characters replaced."""
    sys.stdout.write(f"{clean(line)}\n")


def format_groups(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the first lines for each rule, then how many more lines each rule has."""
    counts: Counter[str] = Counter()
    for rule, words in pairs:
        counts[rule] += 1
        if counts[rule] <= MOST_OF_RULE:
            yield words
    for rule, count in counts.items():
        if count > MOST_OF_RULE:
            yield f"  {count - MOST_OF_RULE:,} more of {rule}; --json lists all"


def say_json(value: Any) -> None:
    from clew.core.messages.encoding import encode

    sys.stdout.write(encode(msgspec.to_builtins(value)).decode() + "\n")


def parse_moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Bar:
    """A progress bar on standard error, if that is a terminal.

    It appears only after half a second.
    """

    WIDTH = 30

    def __init__(self, what: str) -> None:
        self._what = what
        self._begin_s = time.monotonic()
        self._is_seen = sys.stderr.isatty()
        self._is_drawn = False

    def __call__(self, done: int, total: int) -> None:
        if not self._is_seen or not total or time.monotonic() - self._begin_s < 0.5:
            return
        share = min(1.0, done / total)
        filled = round(share * self.WIDTH)
        line = f"{self._what} {'━' * filled}{'·' * (self.WIDTH - filled)} {share:4.0%}"
        columns = shutil.get_terminal_size().columns
        self._draw(f"\r{line[: columns - 1]}")
        self._is_drawn = True

    def hide(self) -> None:
        """Hide the bar to print a line; the next step draws it again."""
        if self._is_drawn:
            self._draw("\r\x1b[K")
        self._is_drawn = False

    def _draw(self, orders: str) -> None:
        # `sys.stderr` is replaced by a filter that drops control characters.
        terminal = sys.__stderr__ or sys.stderr
        terminal.write(orders)
        terminal.flush()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
