"""The charges of sessions on the disk: every response that their files record, each counted once.

Reads whole files, line by line, and decodes only the lines that speak of usage; branches that were
left cost what they cost. Must never load a conversation, and never write.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.catalog.lookup import Catalog
from clew.messages.encoding import decode
from clew.session.cache_miss import CacheMiss, recorded_misses
from clew.session.ledger import Charge, Ledger, Spend, begins_turn, charges
from clew.transcript import light
from clew.transcript.agents import agents
from clew.transcript.paths import Place
from clew.transcript.salvage import entries_in

_SPEAKS_OF_USAGE = b'"usage"'
_IS_USERS = b'"user"'
_ANSWERS = b'"tool_result"'
_AHEAD = b'"tool-started"'


class SessionCost(Struct, frozen=True, kw_only=True):
    """One session, its subagents included. `unread` lines spoke of usage and could not be read."""

    session_id: str
    title: str
    project: str
    ledger: Ledger
    unread: int = 0
    # Why the service's prompt cache missed.
    misses: tuple[CacheMiss, ...] = ()


class Costs(Struct, frozen=True, kw_only=True):
    """Sessions side by side. A response that several of them hold, as forks do, is in one only."""

    sessions: list[SessionCost]

    @property
    def total(self) -> Spend:
        return sum((one.ledger.total for one in self.sessions), Spend())

    @property
    def unread(self) -> int:
        return sum(one.unread for one in self.sessions)

    @property
    def misses(self) -> list[CacheMiss]:
        """Why the prompt cache missed, oldest first."""
        found = [miss for one in self.sessions for miss in one.misses]
        return sorted(found, key=lambda miss: miss.at)

    def by(self, sums_of: Callable[[SessionCost], dict[str, Spend]]) -> dict[str, Spend]:
        """Sums over all sessions; together they are the total."""
        found: dict[str, Spend] = {}
        for one in self.sessions:
            for name, spend in sums_of(one).items():
                found[name] = found.get(name, Spend()) + spend
        return found


class _Found(Struct, kw_only=True):
    """What a session's files say; `ahead` are answers that may never have come to their end."""

    entries: list[dict[str, Any]] = []
    ahead: list[dict[str, Any]] = []
    unread: int = 0


def gather(
    transcripts: Iterable[Path],
    catalog: Catalog,
    *,
    counts: Callable[[Charge], bool] = lambda _: True,
) -> Costs:
    """What these sessions cost, in the order given; only charges for which `counts` holds."""
    owner: dict[tuple[str, str], int] = {}
    sessions = []
    for number, path in enumerate(transcripts):
        found = _read(path)
        mine = Ledger(
            charge
            for charge in _charges(found, catalog)
            if owner.setdefault(charge.key, number) == number and counts(charge)
        )
        known = {charge.key for charge in mine}
        entries = (entry for entry in found.entries if _key(entry) in known)
        sessions.append(_named(path, mine, found.unread, tuple(recorded_misses(entries))))
    return Costs(sessions=sessions)


def _charges(found: _Found, catalog: Catalog) -> Iterator[Charge]:
    """Answers, and what was written ahead of an answer that a crash kept from coming."""
    begins = [str(e.get("timestamp")) for e in found.entries if begins_turn(e)]
    known = set()
    for charge in charges(found.entries, catalog):
        known.add(charge.message_id)
        yield charge if charge.purpose != "subagent" else _in_time(charge, begins)
    for charge in charges(found.ahead, catalog):
        if charge.message_id not in known:
            yield _in_time(charge, begins)


def _in_time(charge: Charge, begins: list[str]) -> Charge:
    """A charge of another file or of a line ahead: its turn is the one that ran then."""
    return replace(charge, turn=bisect_right(begins, charge.at))


def _key(entry: dict[str, Any]) -> tuple[Any, Any]:
    message = entry.get("message")
    return message.get("id") if isinstance(message, dict) else None, entry.get("requestId")


def _named(path: Path, ledger: Ledger, unread: int, misses: tuple[CacheMiss, ...]) -> SessionCost:
    ends = light.read_ends(path)
    outline = light.outline(path)
    cwd = None if ends is None else light.string_field(ends.head, "cwd")
    return SessionCost(
        session_id=path.stem,
        title=outline.title if outline else "",
        project=cwd or path.parent.name,
        ledger=ledger,
        unread=unread,
        misses=misses,
    )


def _read(transcript: Path) -> _Found:
    found = _Found()
    for path in (transcript, *_agents(transcript)):
        with path.open("rb") as file:
            for line in file:
                if _SPEAKS_OF_USAGE in line or (_IS_USERS in line and _ANSWERS not in line):
                    _take(line, found)
    return found


def _agents(transcript: Path) -> list[Path]:
    """The files of its subagents; a file that is not named as a session has none."""
    if not light.is_uuid(transcript.stem):
        return []
    return agents(Place(session_id=transcript.stem, project_dir=transcript.parent))


def _take(line: bytes, found: _Found) -> None:
    try:
        entry = decode(line)
    except ValueError:
        parts = entries_in(line)
        found.unread += not parts and _SPEAKS_OF_USAGE in line
        found.entries += [decode(line[start:end]) for start, end in parts]
        return
    if type(entry) is not dict:
        found.unread += _SPEAKS_OF_USAGE in line
    elif _AHEAD in line and entry.get("type") == "tool-started":
        owed = entry.get("owed")
        found.ahead += [e for e in owed if type(e) is dict] if type(owed) is list else []
    else:
        found.entries.append(entry)
