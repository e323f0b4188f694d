"""Makes a damaged session whole for every reader, without touching a byte that is there.

What only lacks something at its end is appended to, after a copy was laid aside. Anything else is
written anew as a session of its own beside the original: entries linked as the loader links them,
each line readable, each call answered. The original stays as it is; the copy says in its title and its
first line what it is, has the original's subagents and results, and where one is there no second is made. Warnings alone are mended in such a
copy where that is wished; those that tell what happened stay, and it is said why.

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
from clew.record.transcript.copies import find_repaired_copy, header_of, open_staging
from clew.record.transcript.entries import find_entries
from clew.record.transcript.examine import Examination, examine, session_id_of
from clew.record.transcript.files import Files
from clew.record.transcript.leaf import OWED
from clew.record.transcript.links import ROOT, Links, Node
from clew.record.transcript.load import load, read_lines
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPlace, home_of
from clew.record.transcript.record import FORMAT
from clew.record.transcript.siblings import find_block_ids
from clew.record.transcript.source import TranscriptSource
from clew.system.files import is_folder, make_private
from clew.version import VERSION

_APPENDABLE = {"missing-result", "written-ahead", "torn-line"}
_PLACE_KEYS = (
    "isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "agentId",
)  # fmt: skip
_AHEAD = tuple(OWED)  # compared, not hashed: a damaged line's type can be anything
_LONG_AGO = "1970-01-01T00:00:00.000Z"
_PIECE = 1 << 20

Kind = Literal["nothing", "append", "new session", "repaired already", "nothing to rescue"]

# What no copy can mend: it is what happened, or what is not there any more.
TRUTHS = {
    "second-root": "joining the two talks would put words before a prompt that were not there; both are kept",
    "mixed-writers": "both writers' branches are kept; `clew sessions tree` shows them",
    "double-boundary": "two summaries were made; the later one counts",
    "parent-before-summary": "somebody went on from before the summary; what they saw then is what counts",
    "kept-not-found": "what the summary kept is not in the file any more",
    "result-without-call": "its call is not in the file any more; requests leave the result out",
    "duplicate-result": "both results were written; requests carry the first",
    "duplicate-call": "both calls were made under one id; requests give the second one its own",
    "hollow-thinking": "what was thought is not in the file any more; requests leave the block out",
    "nothing-live": "nothing in it is a conversation of its own",
}
# What is damaged in the file itself stays in it, for nothing is rewritten.
STAYS = "nothing is rewritten in the file; a copy without it: clew sessions repair --warnings {}"
MENDABLE = {rule.name for rule in RULES if rule.severity == "warning"} - set(TRUTHS)


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair would do. `target` is the file it would write, or wrote already; `lines` go there."""

    kind: Kind
    source: Path
    target: Path
    lines: list[bytes]
    findings: list[BrokenRule]
    # The subagents that a new session would have too.
    agents: int = 0


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did; `remaining` are the problems that the written file still has."""

    plan: RepairPlan
    backup: Path | None
    remaining: list[BrokenRule]


class HeldError(Exception):
    """Another process writes the session that was to be repaired."""


class WouldLoseError(Exception):
    """The repaired file would not hold the conversation that the original loads as."""


def why_it_stays(finding: BrokenRule, session: str) -> str:
    """Why a problem remains in the file of a session that was repaired."""
    return TRUTHS.get(finding.name) or STAYS.format(session)


def is_needed(examination: Examination) -> bool:
    """Whether there is what a reader stumbles over, and a repair mends."""
    return any(
        finding.severity == "error" or finding.name == "written-ahead"
        for finding in examination.problems
        if finding.name not in TRUTHS
    )


def has_mendable(examination: Examination) -> bool:
    """Whether a copy would be without some of its problems."""
    return is_needed(examination) or any(
        finding.name in MENDABLE for finding in examination.problems
    )


def is_lost(examination: Examination) -> bool:
    """Whether a damaged file has no entry of a conversation left, so that a copy would hold nothing."""
    nodes = examination.loaded.chain.links.nodes
    return bool(examination.problems) and not any(node.is_conversation for node in nodes)


def is_possible(path: Path) -> bool:
    """Whether a repair of a session that needs one would lose nothing of it, and so be made."""
    planned = plan(path)
    return planned.kind != "new session" or _says_all(path, planned.lines)


def plan(
    path: Path, *, warnings: bool = False, new_uuid: Callable[[], str] | None = None
) -> RepairPlan:
    """With `warnings` a copy is made for those alone too."""
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
        # In a shuffled file what is behind it can change the order of what is there.
        kind = "append" if _says_all(path, _longer(path, lines)) else "new session"
    if kind == "new session":
        session_id = new_uuid()
        target = path.with_name(f"{session_id}.jsonl")
        lines = [encode(line) + b"\n" for line in _anew(examination, session_id, new_uuid)]
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
    """Does what was planned.

    Raises `HeldError` if another process writes the session or repairs it, and `WouldLoseError`, with nothing
    written, if the new file read back does not say all that the original does.
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
            raise HeldError(f"{planned.source} is being repaired by another process") from None
    return RepairReport(plan=planned, backup=backup, remaining=examine(planned.target).problems)


def rehearse_repair(planned: RepairPlan) -> RepairReport:
    """What would be there if it were done; nothing is written but elsewhere, and that is gone again.

    Raises `WouldLoseError` as doing it would.
    """
    if planned.kind not in ("append", "new session"):
        return RepairReport(plan=planned, backup=None, remaining=examine(planned.target).problems)
    is_longer = planned.kind == "append"
    data = _longer(planned.source, planned.lines) if is_longer else planned.lines
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        # A subagent's file belongs to the session whose folder it lies in.
        place = Path(folder, session_id_of(planned.target))
        _try(planned, data, place)
        remaining = examine(place / planned.target.name).problems
    return RepairReport(plan=planned, backup=None, remaining=remaining)


def _appended(planned: RepairPlan, folder: Path, backups: Path) -> Path:
    log = Log()
    try:
        if not log.claim(planned.source):
            raise HeldError(f"{planned.source} is open in another process")
        _try(planned, _longer(planned.source, planned.lines), folder)
        backup = _copy_aside(planned.source, backups)
        log.append(planned.target, planned.lines)
        for trouble in log.flush().troubles:
            raise OSError(str(trouble))
    finally:
        log.close()
    return backup


def _placed(planned: RepairPlan, folder: Path) -> RepairPlan:
    """Makes the new session, unless somebody has by now; the transcript comes last, for it is what makes one."""
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
    """Whether what is lacking belongs to the last answer, with nothing but results behind it.

    A result appended anywhere else would become the end of the conversation.
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
    """An error result for each call of the live conversation that has none, and its call's entry."""
    by_uuid = {message.get("uuid"): message for message in examination.loaded.messages}
    for result in make_missing_results(
        examination.loaded.messages, RESULT_MISSING, new_uuid=new_uuid, at=_LONG_AGO
    ):
        caller = by_uuid[result["sourceToolAssistantUUID"]]
        place = {key: caller[key] for key in _PLACE_KEYS if key in caller}
        parent = str(caller["uuid"])
        stamp = {"timestamp": caller.get("timestamp", _LONG_AGO)}
        yield parent, {"parentUuid": parent, **place, **result, **stamp}


def _anew(
    examination: Examination, session_id: str, new_uuid: Callable[[], str]
) -> Iterator[dict[str, Any]]:
    """Every entry of the original in its order, linked, stamped and answered, behind a first line of its own."""
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
            continue  # what was written ahead stands in its place now; the copy has its own beginning
        if at not in tree:
            # What was no part of the talk and has an id would be taken for one.
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
        # Where it stood, it stands: results put in may have become leaves.
        leaf = links.nodes[stands_at].uuid
        fields = {"leafUuid": leaf, "boundaryUuid": chain.boundary_uuid}
        marker = {"type": "last-prompt", **fields, "sessionId": session_id}
        yield marker | ({"explicit": True} if stands_at in links.parents else {})


def _header(examination: Examination, session_id: str) -> dict[str, Any]:
    """As the original's, where it has one; says what the file was made of."""
    first = header_of(examination.path)
    header = examination.loaded.side.current.get("clew-session") or {
        "type": "clew-session",
        "format": FORMAT,
        "version": VERSION,
    }
    made_of = {"sessionId": session_id, "repairedFrom": {"sessionId": examination.path.stem}}
    # Lists tell by the first line that a file is a subagent's.
    return header | made_of | ({"isSidechain": True} if first.get("isSidechain") is True else {})


class _Counted:
    """What readers count answers by: one usage and one pair of ids for all lines of an answer."""

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
        """An entry as its answer's others: the usage that was final, and ids, if it had none."""
        body = entry.get("message")
        if entry.get("type") != "assistant" or not isinstance(body, dict):
            return entry
        if entry.get("isApiErrorMessage"):
            return entry
        answer = body.get("id")
        if not isinstance(answer, str) or not answer:
            # Entries without an id that follow each other are one answer to whoever reads them.
            answer = self._given.get(str(entry.get("parentUuid"))) or f"msg_{entry['uuid']}"
            self._given[entry["uuid"]] = answer
        usage = self._usages.get(answer)
        fixed = {"id": answer} | ({} if usage is None else {"usage": usage})
        request = entry.get("requestId") or self._requests.get(answer) or f"req_{answer}"
        return entry | {"requestId": request, "message": body | fixed}


def _weight(usage: dict[str, Any]) -> int:
    """The final one of several counts says the most: answers only grow."""
    tokens = usage.get("output_tokens")
    return tokens if type(tokens) is int else -1


def _past_void(links: Links, i: int, void: set[int]) -> int:
    """The parent of an entry when boundaries that closed nothing are left out."""
    parent, seen = links.parents[i], {i}
    if parent == ROOT or links.nodes[parent].at not in void:
        return parent
    while parent != ROOT and parent not in seen and links.nodes[parent].at in void:
        seen.add(parent)
        parent = links.past_boundary(parent)
    if parent in seen:
        return ROOT
    # Where every entry hangs on one above it, the walk need not be made.
    is_below = parent > i or links.loose
    return ROOT if is_below and _leads_to(links.parents, parent, i) else parent


def _leads_to(parents: Sequence[int], start: int, goal: int) -> bool:
    """Whether the walk up from `start` meets `goal`."""
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
    """The entries to keep with their offsets: those of the tree, and the lines beside it."""
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
    """A file with lines behind it."""
    with path.open("rb") as file:
        yield from iter(partial(file.read, _PIECE), b"")
    yield b"\n"
    yield from lines


def _try(planned: RepairPlan, data: Iterable[bytes], folder: Path) -> None:
    """What would be there then, in `folder`, synced and read back: it says all that is there now."""
    beside = folder / planned.target.name
    write_file(beside, data)
    if not _says(beside, _live(planned.source)):
        raise WouldLoseError(f"{planned.source} cannot be repaired without loss; it loads as it is")


def _says_all(path: Path, data: Iterable[bytes]) -> bool:
    """Whether a file of `data` would say all that `path` does; looked at elsewhere, nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        trial = Path(folder, path.name)
        with trial.open("wb") as file:
            file.writelines(data)
        return _says(trial, _live(path))


def _says(path: Path, wanted: list[str]) -> bool:
    known_ids = set(wanted)
    return [uuid for uuid in _live(path) if uuid in known_ids] == wanted


def _live(path: Path) -> list[str]:
    """The ids of the conversation, boundaries that close nothing left out."""
    chain = load(path, reads_all=True).chain
    is_open = chain.boundary == ROOT
    return [node.uuid for node in chain.nodes() if not (node.is_boundary and is_open)]
