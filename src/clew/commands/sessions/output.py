"""How the words speak: lines for people, JSON for programs, a bar for who waits.

What a session says is shown without the control characters in it.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from clew.core.messages.errors import describe_error
from clew.record.transcript import choose
from clew.record.transcript.paths import get_projects_dir
from clew.system.command_groups import argument, switch
from clew.system.config.paths import find_config_home
from clew.system.files import why_closed

# Exit codes: fine, something found, cannot do what was asked.
FINE, FOUND, CANNOT = 0, 1, 2
# How many lines that break one rule are listed for people.
MOST_OF_RULE = 20
SESSION = argument("session", help="id, title or file")
DRY_RUN = switch("--dry-run", "say what would be done")
NONE_HERE = "no session of this folder yet; clew sessions list --all shows every folder's"


class CannotError(Exception):
    """What was asked cannot be done; the text says why and what to do."""


def find_home() -> Path:
    return find_config_home(os.environ, Path.cwd())


def find_cwd() -> str:
    return str(Path.cwd())


def find_transcript(name: str) -> Path:
    """The file that an id, a title or a path means."""
    return choose.resolve_session(find_home(), find_cwd(), name)


def find_saved_part(name: str) -> Path:
    """The file, for a word that reads it alone; says which emergency copies hold what it does not tell."""
    path = find_transcript(name)
    say_unsaved(path)
    return path


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
                        f"clew sessions: {file} could not be written; what was said since is in {copy} and not "
                        f"told of here. When {file.parent} takes it, `clew --resume {path.stem}` brings it home\n"
                    )
    except OSError as error:
        why = describe_error(error)
        sys.stderr.write(f"clew sessions: {why}; so what else {path.stem} holds is not known\n")


def say_waiting(path: Path) -> bool:
    """Says of a session what waits in emergency copies and how it is brought home; whether something does.
    What were done to its file alone would not be done to them."""
    from clew.record.transcript.paths import copy_name, rescue_dirs
    from clew.record.transcript.recovery import list_all_copies

    session = Path(copy_name(path)).stem.rpartition(".")[2]
    closed = next(filter(None, map(why_closed, rescue_dirs(find_home()))), None)
    if closed is not None:
        raise CannotError(f"{closed}; so what else {session} holds is not known")
    copies = list_all_copies(find_home()).get(session, [])
    if copies:
        say_copies(session, copies, "so it stays as it is")
    return bool(copies)


def say_copies(session: str, copies: list[Path], so: str) -> None:
    from clew.commands.doctor.transcripts import check_unsaved

    finding = check_unsaved(find_home(), find_cwd(), session, copies)
    sys.stderr.write(f"clew sessions: {finding.words}; {so}. {finding.remedy}\n")


def say_closed(*, everywhere: bool) -> bool:
    """Says where nobody may look for this folder's sessions, or for those of every one; whether that is so."""
    places = [
        get_projects_dir(find_home()),
        *choose.list_folders(find_home(), find_cwd(), everywhere=everywhere),
    ]
    closed = dict.fromkeys(filter(None, map(why_closed, places)))
    for why in closed:
        sys.stderr.write(f"clew sessions: {why}; the sessions in it are left out\n")
    return bool(closed)


def say(line: str) -> None:
    """A line for people; a session's text cannot move the cursor or colour the rest."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in line)
    sys.stdout.write(clean.encode("utf-8", "replace").decode("utf-8") + "\n")


def format_groups(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Of lines that each stand under a rule the first ones, and how many more there are under it."""
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
    """Progress of long work, on standard error and only for who looks at a terminal.

    Appears after half a second: what is quick is not spoken of.
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
        """Makes room for a line; the next step draws it again."""
        if self._is_drawn:
            self._draw("\r\x1b[K")
        self._is_drawn = False

    def _draw(self, orders: str) -> None:
        # Of what is said on it, `sys.stderr` lets words through alone.
        terminal = sys.__stderr__ or sys.stderr
        terminal.write(orders)
        terminal.flush()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
