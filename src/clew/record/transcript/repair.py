"""Repair a damaged session for every reader, without changing an existing byte.

If only lines at the end are missing, they are appended after a backup is made. Any other damage is
repaired in a new session next to the original: entries are linked as the loader links them, each
line is readable, and each tool call has a result. The original does not change. The copy's title
and first line mark it as repaired, and it gets the original's subagents and tool results. A second
copy is never made. On request, a copy is made for warnings alone too. Warnings about what really
happened stay, and the report says why.

Decision: docs/decisions/053-transcript-repair.md
"""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from clew.core.messages.encoding import decode, encode
from clew.core.messages.history import make_missing_results
from clew.core.messages.text import RESULT_MISSING
from clew.record.transcript import light
from clew.record.transcript.belongings import (
    give_agents,
    give_results,
    give_tasks,
    of_agents,
    write_file,
)
from clew.record.transcript.check import RULES, BrokenRule
from clew.record.transcript.copies import find_repaired_copy, open_staging
from clew.record.transcript.entries import find_entries
from clew.record.transcript.examine import Examination, examine, session_id_of
from clew.record.transcript.files import OPEN_ELSEWHERE, Files
from clew.record.transcript.header import FORMAT, read_header
from clew.record.transcript.leaf import OWED
from clew.record.transcript.links import ROOT, Links, Node
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPlace, home_of
from clew.record.transcript.policy import find_block_ids
from clew.record.transcript.reading import read_lines
from clew.record.transcript.source import TranscriptSource
from clew.system.files import is_folder, make_private
from clew.version import VERSION

UNDER_REPAIR = "is being repaired by another process"

_APPENDABLE = {"missing-result", "written-ahead", "torn-line"}
_PLACE_KEYS = (
    "isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "agentId",
)  # fmt: skip
_AHEAD = tuple(OWED)  # compared, not hashed: a damaged line's type can be any value
_LONG_AGO = "1970-01-01T00:00:00.000Z"
_PIECE = 1 << 20

Kind = Literal["nothing", "append", "new session", "repaired already", "nothing to rescue"]

# Problems that no copy can repair: the lines record what really happened, or the data is gone.
TRUTHS = {
    "second-root": "joining both conversations would put messages before a prompt that did not follow them; both are kept",
    "mixed-writers": "both writers' branches are kept; `clew sessions tree` shows them",
    "double-boundary": "two summaries of the same messages; the later one is used",
    "parent-before-summary": "the session was also continued without the summary; that continuation"
    " is used",
    "kept-not-found": "the entries that the summary kept are no longer in the file",
    "result-without-call": "its tool call is no longer in the file; requests omit the result",
    "duplicate-result": "both results were recorded; requests contain the first",
    "duplicate-call": "both calls have the same ID; requests give the second a new one",
    "hollow-thinking": "the thinking text is no longer in the file; requests omit the block",
    "nothing-live": "the file contains no conversation",
}
# The damage stays in the file itself, because nothing is rewritten.
STAYS = "the file is never rewritten; for a repaired copy, run clew sessions repair --warnings {}"
MENDABLE = {rule.name for rule in RULES if rule.severity == "warning"} - set(TRUTHS)


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned repair.

    `target` is the file that the repair would write or has already written, and `lines` are the
    lines to write.
    """

    kind: Kind
    source: Path
    target: Path
    lines: list[bytes]
    findings: list[BrokenRule]
    # The number of subagents that a new session would get too.
    agents: int = 0


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair; `remaining` are the problems that the written file still has."""

    plan: RepairPlan
    backup: Path | None
    remaining: list[BrokenRule]


class HeldError(Exception):
    """The session to be repaired is already open."""


class WouldLoseError(Exception):
    """The repaired file would load with less of the conversation than the original."""


def why_it_stays(finding: BrokenRule, session: str) -> str:
    """Return why a problem remains in the file of a repaired session."""
    return TRUTHS.get(finding.name) or STAYS.format(session)


def is_needed(examination: Examination) -> bool:
    """Return whether a reader would fail on something that a repair can fix."""
    return any(
        finding.severity == "error" or finding.name == "written-ahead"
        for finding in examination.problems
        if finding.name not in TRUTHS
    )


def has_mendable(examination: Examination) -> bool:
    """Return whether a copy would fix any problem, including warnings."""
    return is_needed(examination) or any(
        finding.name in MENDABLE for finding in examination.problems
    )


def is_lost(examination: Examination) -> bool:
    """Return whether a damaged file has no conversation entry left.

    A copy of such a file would be empty.
    """
    nodes = examination.loaded.chain.links.nodes
    return bool(examination.problems) and not any(node.is_conversation for node in nodes)


def is_possible(path: Path) -> bool:
    """Return whether a repair of a damaged session is possible without loss."""
    planned = plan(path)
    return planned.kind != "new session" or _says_all(path, planned.lines)


def plan(
    path: Path, *, warnings: bool = False, new_uuid: Callable[[], str] | None = None
) -> RepairPlan:
    """Plan the repair of a session; with `warnings`, warnings alone justify a copy too."""
    examination = examine(path)
    new_uuid = new_uuid or (lambda: str(uuid.uuid4()))
    broken_rules = {finding.name for finding in examination.problems}
    if is_lost(examination):
        return RepairPlan(
            kind="nothing to rescue",
            source=path,
            target=path,
            lines=[],
            findings=examination.problems,
        )
    if (
        has_mendable(examination)
        and (copy := find_repaired_copy(path, examination.loaded)) is not None
    ):
        return RepairPlan(
            kind="repaired already",
            source=path,
            target=copy,
            lines=[],
            findings=examination.problems,
        )
    if warnings and broken_rules & MENDABLE:
        kind: Kind = "new session"
    elif not is_needed(examination):
        kind = "nothing"
    elif broken_rules & {f.name for f in examination.errors} <= _APPENDABLE and _ends_with_calls(
        examination
    ):
        kind = "append"
    else:
        kind = "new session"
    target, lines, agents = path, list[bytes](), 0
    if kind == "append":
        lines = [encode(line) + b"\n" for line in _at_the_end(examination, new_uuid)]
        # In a shuffled file, an appended line can change the order of earlier lines.
        kind = "append" if _says_all(path, _longer(path, lines)) else "new session"
    if kind == "new session":
        session_id = new_uuid()
        target = path.with_name(f"{session_id}.jsonl")
        lines = [encode(line) + b"\n" for line in _rewritten(examination, session_id, new_uuid)]
        agents = len(of_agents(path))
    return RepairPlan(
        kind=kind,
        source=path,
        target=target,
        lines=lines,
        findings=examination.problems,
        agents=agents,
    )


def carry_out(planned: RepairPlan, backups: Path) -> RepairReport:
    """Carry out a plan.

    Raise `HeldError` if another process has the session open or is repairing it. Raise
    `WouldLoseError`, with nothing written, if the new file loads with less than the original.
    """
    backup = None
    if planned.kind in ("append", "new session"):
        try:
            with open_staging(planned.source) as folder:
                if planned.kind == "append":
                    backup = _appended(planned, folder, backups)
                else:
                    planned = _placed(planned, folder)
        except BlockingIOError:
            raise HeldError(f"{planned.source} {UNDER_REPAIR}") from None
    return RepairReport(plan=planned, backup=backup, remaining=examine(planned.target).problems)


def rehearse_repair(planned: RepairPlan) -> RepairReport:
    """Return the result that a plan would have, without carrying it out.

    Raise `WouldLoseError` as `carry_out` would.
    """
    if planned.kind not in ("append", "new session"):
        return RepairReport(plan=planned, backup=None, remaining=examine(planned.target).problems)
    is_longer = planned.kind == "append"
    data = _longer(planned.source, planned.lines) if is_longer else planned.lines
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        # The session of a subagent's file is the folder that contains it.
        place = Path(folder, session_id_of(planned.target))
        _try(planned, data, place)
        remaining = examine(place / planned.target.name).problems
    return RepairReport(plan=planned, backup=None, remaining=remaining)


def _appended(planned: RepairPlan, folder: Path, backups: Path) -> Path:
    log = Log()
    try:
        if not log.claim(planned.source):
            raise HeldError(f"{planned.source} {OPEN_ELSEWHERE}")
        _try(planned, _longer(planned.source, planned.lines), folder)
        backup = _copy_aside(planned.source, backups)
        log.append(planned.target, planned.lines)
        for trouble in log.flush().troubles:
            raise OSError(str(trouble))
    finally:
        log.close()
    return backup


def _placed(planned: RepairPlan, folder: Path) -> RepairPlan:
    """Create the new session, unless another process has created one in the meantime.

    The transcript is moved last, because the other files belong to no session without it.
    """
    source, target = planned.source, planned.target
    if (copy := find_repaired_copy(source, load(source, reads_all=True))) is not None:
        return msgspec.structs.replace(planned, kind="repaired already", target=copy, lines=[])
    place = SessionPlace(session_id=target.stem, project_dir=folder)
    _try(planned, planned.lines, folder)
    give_agents(source, place)
    give_results(source, place)
    give_tasks(source.stem, place, home=home_of(source))
    if is_folder(place.folder):
        place.folder.rename(target.with_suffix(""))
    place.transcript.rename(target)
    Files().sync_folder(target.parent)
    return planned


def _ends_with_calls(examination: Examination) -> bool:
    """Return whether everything missing belongs to the last response.

    Only results may follow that response. A result appended after anything else would become the
    end of the conversation.
    """
    nodes = list(examination.loaded.chain.nodes())
    lacking = {finding.at for finding in examination.errors if finding.name == "missing-result"}
    lacking |= {node.at for node in nodes if node.data is not None}
    answer: Any = None
    for node, message in zip(reversed(nodes), reversed(examination.loaded.messages), strict=True):
        if node.keys.type == "assistant":
            body = message.get("message")
            mine = (body.get("id") if isinstance(body, dict) else None) or node.uuid
            answer = answer or mine
            if mine != answer:
                break
        elif not find_block_ids(message, "tool_result", "tool_use_id"):
            break
        lacking.discard(node.at)
    return not lacking


def _at_the_end(examination: Examination, new_uuid: Callable[[], str]) -> Iterator[dict[str, Any]]:
    yield from examination.loaded.owed
    yield from (result for _, result in _results(examination, new_uuid))


def _results(
    examination: Examination, new_uuid: Callable[[], str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an error result for each live tool call without one, with the UUID of its entry."""
    by_uuid = {message.get("uuid"): message for message in examination.loaded.messages}
    for result in make_missing_results(
        examination.loaded.messages, RESULT_MISSING, new_uuid=new_uuid, at=_LONG_AGO
    ):
        caller = by_uuid[result["sourceToolAssistantUUID"]]
        place = {key: caller[key] for key in _PLACE_KEYS if key in caller}
        parent = str(caller["uuid"])
        stamp = {"timestamp": caller.get("timestamp", _LONG_AGO)}
        yield parent, {"parentUuid": parent, **place, **result, **stamp}


def _rewritten(
    examination: Examination, session_id: str, new_uuid: Callable[[], str]
) -> Iterator[dict[str, Any]]:
    """Yield a new header and the original's entries in order.

    The entries are linked and stamped, and every call has a result.
    """
    links = examination.loaded.chain.links
    void = {f.at for f in examination.findings if f.name == "boundary-without-summary"}
    results: dict[str, list[dict[str, Any]]] = {}
    for call, result in _results(examination, new_uuid):
        results.setdefault(call, []).append(result | {"sessionId": session_id})
    yield _header(examination, session_id)
    time = _LONG_AGO
    tree = {node.at: i for i, node in enumerate(links.nodes)}
    entries = list(_in_order(examination))
    counted = _Counted(entry for _, entry in entries)
    for at, entry in entries:
        if entry.get("type") in (*_AHEAD, "clew-session"):
            continue  # The owed entries are in place now, and the copy has its own header.
        if at not in tree:
            # A side entry with an ID would be mistaken for part of the conversation.
            if "uuid" not in entry:
                yield _renamed(entry, session_id)
            continue
        i = tree[at]
        node = links.nodes[i]
        if not node.is_conversation or at in void:
            continue
        time = _time_of(node) or time
        parent = _past_void(links, i, void)
        is_first = node.is_boundary or parent == ROOT
        fixed = {"parentUuid": None if is_first else links.nodes[parent].uuid}
        rest = {key: value for key, value in entry.items() if key != "parentUuid"}
        stamped = fixed | rest | {"uuid": node.uuid, "sessionId": session_id, "timestamp": time}
        yield counted.mended(stamped)
        yield from (result | {"timestamp": time} for result in results.get(node.uuid, []))
    outline = light.read_outline(examination.path)
    if outline is not None:
        title = f"{outline.title} (repaired)"
        yield {"type": "custom-title", "customTitle": title, "sessionId": session_id}
    chain = examination.loaded.chain
    stands_at = chain.leaf if chain.leaf in chain.live else next(iter(chain.live[-1:]), ROOT)
    if stands_at != ROOT:
        # Keep the leaf, because inserted results may have become leaves.
        leaf = links.nodes[stands_at].uuid
        fields = {"leafUuid": leaf, "boundaryUuid": chain.boundary_uuid}
        marker = {"type": "last-prompt", **fields, "sessionId": session_id}
        yield marker | ({"explicit": True} if stands_at in links.parents else {})


def _header(examination: Examination, session_id: str) -> dict[str, Any]:
    """Return the header of the copy, which names the original session.

    If the original has a header, the copy's is based on that.
    """
    first = read_header(examination.path)
    header = examination.loaded.side.current.get("clew-session") or {
        "type": "clew-session",
        "format": FORMAT,
        "version": VERSION,
    }
    made_of = {"sessionId": session_id, "repairedFrom": {"sessionId": examination.path.stem}}
    # Lists recognize a subagent's file by its first line.
    return header | made_of | ({"isSidechain": True} if first.get("isSidechain") is True else {})


class _Counted:
    """The usage and IDs of responses; readers expect all lines of a response to agree."""

    def __init__(self, entries: Iterable[dict[str, Any]]) -> None:
        self._usages: dict[str, dict[str, Any]] = {}
        self._requests: dict[str, str] = {}
        self._given: dict[str, str] = {}
        for entry in entries:
            body = entry.get("message")
            if entry.get("type") != "assistant" or not isinstance(body, dict):
                continue
            answer = body.get("id")
            if not isinstance(answer, str) or not answer:
                continue
            usage, request = body.get("usage"), entry.get("requestId")
            if isinstance(usage, dict) and _weight(usage) >= _weight(self._usages.get(answer, {})):
                self._usages[answer] = usage
            if isinstance(request, str) and request:
                self._requests.setdefault(answer, request)

    def mended(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry with its response's final usage, with IDs added if missing."""
        body = entry.get("message")
        if entry.get("type") != "assistant" or not isinstance(body, dict):
            return entry
        if entry.get("isApiErrorMessage"):
            return entry
        answer = body.get("id")
        if not isinstance(answer, str) or not answer:
            # Readers take consecutive entries without an ID for one response.
            answer = self._given.get(str(entry.get("parentUuid"))) or f"msg_{entry['uuid']}"
            self._given[entry["uuid"]] = answer
        usage = self._usages.get(answer)
        fixed = {"id": answer} | ({} if usage is None else {"usage": usage})
        request = entry.get("requestId") or self._requests.get(answer) or f"req_{answer}"
        return entry | {"requestId": request, "message": body | fixed}


def _weight(usage: dict[str, Any]) -> int:
    """Rank a usage by its output tokens; the highest is final, because responses only grow."""
    tokens = usage.get("output_tokens")
    return tokens if type(tokens) is int else -1


def _past_void(links: Links, i: int, void: set[int]) -> int:
    """Return an entry's parent, skipping boundaries that closed nothing."""
    parent, seen = links.parents[i], {i}
    if parent == ROOT or links.nodes[parent].at not in void:
        return parent
    while parent != ROOT and parent not in seen and links.nodes[parent].at in void:
        seen.add(parent)
        parent = links.past_boundary(parent)
    if parent in seen:
        return ROOT
    # The walk is unnecessary if the parent of every entry is above it.
    is_below = parent > i or links.loose
    return ROOT if is_below and _leads_to(links.parents, parent, i) else parent


def _leads_to(parents: Sequence[int], start: int, goal: int) -> bool:
    """Return whether the walk up from `start` reaches `goal`."""
    seen: set[int] = set()
    while start not in (ROOT, goal) and start not in seen:
        seen.add(start)
        start = parents[start]
    return start == goal


def _renamed(entry: dict[str, Any], session_id: str) -> dict[str, Any]:
    return entry | {"sessionId": session_id} if "sessionId" in entry else entry


def _time_of(node: Node) -> str | None:
    time = node.keys.timestamp
    is_written_well = time is not None and len(time) in (20, 24) and time.endswith("Z")
    return time if is_written_well else None


def _in_order(examination: Examination) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the entries to keep with their offsets: tree entries and side lines."""
    nodes = examination.loaded.chain.links.nodes
    ahead = [(node.at, node.data) for node in nodes if node.data is not None]
    wanted = {node.at: node.size for node in nodes if node.data is None}
    with examination.path.open("rb", buffering=0) as file:
        source = TranscriptSource(file.fileno())
        kept_positions = {node.at for node in read_lines(source, 0).nodes} | {at for at, _ in ahead}
        entries: list[tuple[int, int]] = list(wanted.items())
        for _, at, raw in source.lines(0):
            spans = [(0, len(raw))] if _is_object(raw) else find_entries(raw)
            entries += [(at + a, b - a) for a, b in spans if at + a not in kept_positions]
        found_entries = [(at, decode(source.read(at, size))) for at, size in sorted(entries)]
    yield from sorted([*found_entries, *ahead], key=lambda pair: pair[0])


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(decode(raw), dict)
    except ValueError:
        return False


def _copy_aside(path: Path, backups: Path) -> Path:
    make_private(backups)
    count = len(list(backups.glob(f"{session_id_of(path)}*")))
    copy = backups / f"{session_id_of(path)}.{count + 1}.jsonl"
    shutil.copy2(path, copy)
    copy.chmod(0o600)
    return copy


def _longer(path: Path, lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield a file's content followed by additional lines."""
    with path.open("rb") as file:
        yield from iter(partial(file.read, _PIECE), b"")
    yield b"\n"
    yield from lines


def _try(planned: RepairPlan, data: Iterable[bytes], folder: Path) -> None:
    """Write the new file to `folder`.

    Raise `WouldLoseError` unless it loads with the same messages as the original.
    """
    beside = folder / planned.target.name
    write_file(beside, data)
    if not _says(beside, _live(planned.source)):
        raise WouldLoseError(
            f"{planned.source} can't be repaired without loss; it loads without a repair"
        )


def _says_all(path: Path, data: Iterable[bytes]) -> bool:
    """Return whether a file with this content would load with all of the original's messages."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        trial = Path(folder, path.name)
        with trial.open("wb") as file:
            file.writelines(data)
        return _says(trial, _live(path))


def _says(path: Path, wanted: list[str]) -> bool:
    known_ids = set(wanted)
    return [uuid for uuid in _live(path) if uuid in known_ids] == wanted


def _live(path: Path) -> list[str]:
    """Return the UUIDs of the entire conversation in order.

    If the conversation does not begin with a boundary, its boundaries closed nothing and are
    omitted.
    """
    chain = load(path, reads_all=True).chain
    is_open = chain.boundary == ROOT
    return [node.uuid for node in chain.nodes() if not (node.is_boundary and is_open)]
