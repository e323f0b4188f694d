"""The cost of sessions, from all entries of their files and of their subagents' files.

Compacted history is included, and every response is counted once. A response without a known price
is reported as such, never as free.

Decision: docs/decisions/081-cost-from-the-log.md
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.lookup import ModelCatalog
from clew.core.ledger.cache_miss import CacheMiss, find_recorded_misses
from clew.core.ledger.ledger import Charge, Ledger, Spend, begins_turn, find_charges
from clew.core.messages.encoding import decode
from clew.record.exchange.export import list_agent_files
from clew.record.transcript import light
from clew.record.transcript.entries import find_entries

_SPEAKS_OF_USAGE = b'"usage"'
_IS_USERS = b'"user"'
_ANSWERS = b'"tool_result"'
_AHEAD = b'"tool-started"'


class SessionCost(Struct, frozen=True, kw_only=True):
    """The cost of one session with its subagents.

    `unread` is the number of invalid lines that mention usage.
    """

    session_id: str
    title: str
    project: str
    ledger: Ledger
    unread: int = 0
    # The prompt cache misses, with reasons.
    misses: tuple[CacheMiss, ...] = ()


class CostReport(Struct, frozen=True, kw_only=True):
    """The cost of several sessions.

    A response that several forks contain is counted in only one.
    """

    sessions: list[SessionCost]

    @property
    def total(self) -> Spend:
        return sum((session.ledger.total for session in self.sessions), Spend())

    @property
    def unread(self) -> int:
        return sum(session.unread for session in self.sessions)

    @property
    def misses(self) -> list[CacheMiss]:
        """The prompt cache misses of all sessions, oldest first."""
        misses = [miss for session in self.sessions for miss in session.misses]
        return sorted(misses, key=lambda miss: miss.at)

    def by(self, sums_of: Callable[[SessionCost], dict[str, Spend]]) -> dict[str, Spend]:
        """Return sums over all sessions by key. Together they equal the total."""
        totals: dict[str, Spend] = {}
        for session in self.sessions:
            for name, spend in sums_of(session).items():
                totals[name] = totals.get(name, Spend()) + spend
        return totals


class _Found(Struct, kw_only=True):
    """The entries of a session's files.

    `ahead` contains responses that were recorded before they ended; some may never have ended.
    """

    entries: list[dict[str, Any]] = []
    ahead: list[dict[str, Any]] = []
    unread: int = 0


def gather(
    transcripts: Iterable[Path],
    catalog: ModelCatalog,
    *,
    counts: Callable[[Charge], bool] = lambda _: True,
) -> CostReport:
    """Return the cost of these sessions, limited to charges for which `counts` returns true."""
    owner: dict[tuple[str, str], int] = {}
    sessions = []
    for number, path in enumerate(transcripts):
        scan = _read(path)
        mine = Ledger(
            charge
            for charge in _charges(scan, catalog)
            if owner.setdefault(charge.key, number) == number and counts(charge)
        )
        keys = {charge.key for charge in mine}
        entries = (entry for entry in scan.entries if _key(entry) in keys)
        sessions.append(_named(path, mine, scan.unread, tuple(find_recorded_misses(entries))))
    return CostReport(sessions=sessions)


def _charges(scan: _Found, catalog: ModelCatalog) -> Iterator[Charge]:
    """Yield the charges for responses, including those that a crash interrupted."""
    begins = [str(e.get("timestamp")) for e in scan.entries if begins_turn(e)]
    seen_ids = set()
    for charge in find_charges(scan.entries, catalog):
        seen_ids.add(charge.message_id)
        yield charge if charge.purpose != "subagent" else _in_time(charge, begins)
    for charge in find_charges(scan.ahead, catalog):
        if charge.message_id not in seen_ids:
            yield _in_time(charge, begins)


def _in_time(charge: Charge, begins: list[str]) -> Charge:
    """Return a charge with the turn during which it was made.

    The turn is found by its time, because the file that records the charge does not contain it.
    """
    return replace(charge, turn=bisect_right(begins, charge.at))


def _key(entry: dict[str, Any]) -> tuple[Any, Any]:
    message = entry.get("message")
    return message.get("id") if isinstance(message, dict) else None, entry.get("requestId")


def _named(path: Path, ledger: Ledger, unread: int, misses: tuple[CacheMiss, ...]) -> SessionCost:
    ends = light.read_ends(path)
    outline = light.read_outline(path)
    cwd = None if ends is None else light.find_string_field(ends.head, "cwd")
    return SessionCost(
        session_id=path.stem,
        title=outline.title if outline else "",
        project=cwd or path.parent.name,
        ledger=ledger,
        unread=unread,
        misses=misses,
    )


def _read(transcript: Path) -> _Found:
    scan = _Found()
    for path in (transcript, *list_agent_files(transcript)):
        with path.open("rb") as file:
            for line in file:
                if _SPEAKS_OF_USAGE in line or (_IS_USERS in line and _ANSWERS not in line):
                    _take(line, scan)
    return scan


def _take(line: bytes, scan: _Found) -> None:
    try:
        entry = decode(line)
    except ValueError:
        parts = find_entries(line)
        scan.unread += not parts and _SPEAKS_OF_USAGE in line
        scan.entries += [decode(line[start:end]) for start, end in parts]
        return
    if type(entry) is not dict:
        scan.unread += _SPEAKS_OF_USAGE in line
    elif _AHEAD in line and entry.get("type") == "tool-started":
        owed = entry.get("owed")
        scan.ahead += [e for e in owed if type(e) is dict] if type(owed) is list else []
    else:
        scan.entries.append(entry)
