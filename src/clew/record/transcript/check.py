"""The numbered rules for a session's file, and the checks for them. Does no I/O.

A finding names the rule, the line and the details, but never quotes the line. An `error` means that
some reader loses part of the conversation or cannot resume it. A `warning` means that every reader
copes with the damage. A `note` is information about a file without damage.
docs/internals/transcript.md is generated from `RULES`.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from clew.core.messages.encoding import strip_marks
from clew.core.messages.text import format_count
from clew.record.transcript.chain import Chain
from clew.record.transcript.leaf import Marker
from clew.record.transcript.links import ROOT, LinkNote
from clew.record.transcript.policy import find_block_ids

Severity = Literal["error", "warning", "note"]


class FormatRule(msgspec.Struct, frozen=True):
    """A rule; its number never changes and is never reused."""

    number: str
    name: str
    severity: Severity
    broken_when: str


RULES: tuple[FormatRule, ...] = (
    FormatRule("L01", "torn-line", "warning", "the last line is incomplete"),
    FormatRule("L02", "not-an-entry", "warning", "a line is not a JSON object"),
    FormatRule("L03", "spliced", "error", "a line contains several entries, or an entry after an incomplete one"),
    FormatRule("L04", "bad-text", "error", "a line is not valid UTF-8 or contains a lone surrogate; some programs stop reading there"),
    FormatRule("L05", "spaced-json", "warning", "a line is not compact JSON; ccusage ignores it"),
    FormatRule("L06", "odd-timestamp", "error", "an entry's timestamp is missing or not in the form 2026-01-31T12:00:00.000Z"),
    FormatRule("L07", "nul-bytes", "warning", "a line contains NUL bytes, as after a power failure"),
    FormatRule("L08", "marks-around", "error", "an entry shares its line with NUL bytes or a BOM; other programs skip it"),
    FormatRule("C01", "missing-parent", "error", "an entry names a parent that is not in the file"),
    FormatRule("C02", "own-parent", "error", "an entry names itself as its parent"),
    FormatRule("C03", "cycle", "error", "the parents of entries form a cycle"),
    FormatRule("C04", "no-parent-key", "error", "an entry has no parent key"),
    FormatRule("C05", "no-uuid", "error", "an entry has no UUID"),
    FormatRule("C06", "duplicate-uuid", "warning", "a UUID occurs twice; the later line takes the place of the first"),
    FormatRule("C07", "bridged", "error", "a progress entry or an entry of unknown type is a parent in the chain"),
    FormatRule("C08", "second-root", "warning", "an entry in the middle of the file has no parent; the history before it is cut off"),
    FormatRule("C09", "mixed-writers", "warning", "entries of two writers alternate in one file"),
    FormatRule("C10", "nothing-live", "error", "the file has entries but no conversation"),
    FormatRule("B01", "boundary-without-summary", "error", "a compaction boundary has no summary"),
    FormatRule("B02", "double-boundary", "warning", "two compaction boundaries replace the same history"),
    FormatRule("B03", "parent-before-summary", "warning", "an entry after a summary has a parent that the summary replaced"),
    FormatRule("B04", "kept-not-found", "warning", "a compaction boundary keeps entries that are not in the file"),
    FormatRule("T01", "missing-result", "error", "a tool call has no result"),
    FormatRule("T02", "result-without-call", "warning", "a tool result has no matching tool call"),
    FormatRule("T03", "duplicate-result", "warning", "a tool call has two results"),
    FormatRule("T04", "duplicate-call", "warning", "two tool calls have the same ID"),
    FormatRule("M01", "hollow-thinking", "warning", "a thinking block has neither text nor data, or its response contains nothing else"),
    FormatRule("M02", "usage-differs", "warning", "the lines of one response report different token usage; programs that read the file count it incorrectly"),
    FormatRule("M03", "no-request-id", "warning", "a response has no request ID or message ID; programs that read the file count its usage once per line"),
    FormatRule("S01", "wrong-session", "error", "the session ID of entries differs from the one in the file name"),
    FormatRule("S02", "written-ahead", "warning", "entries were written early and, because of a crash, not moved into place"),
    FormatRule("N01", "other-branch", "note", "an entry is on an abandoned branch"),
    FormatRule("N02", "compacted", "note", "an entry is before the last compaction"),
    FormatRule("N03", "sidechain", "note", "a subagent's entry is in the session's own file"),
    FormatRule("N04", "withdrawn", "note", "an entry was withdrawn"),
    FormatRule("N05", "superseded", "note", "an entry was written again later"),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}
ORDER = {rule.name: place for place, rule in enumerate(RULES)}


class BrokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a line violates. `at` is the offset of the line or entry in the file.

    Fields:
        rule: The rule's number.
        name: The rule's name.
        severity: `error`, `warning` or `note`.
        line: The number of the line.
        detail: Details, such as the ID of a call.
    """

    rule: str
    name: str
    severity: Severity
    line: int
    at: int
    detail: str = ""

    def __str__(self) -> str:
        suffix = f": {self.detail}" if self.detail else ""
        return f"line {self.line}: {self.rule} {self.severity}: {BY_NAME[self.name].broken_when}{suffix}"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z")
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


def check_line(raw: bytes, number: int, at: int, *, is_last: bool) -> Iterator[LinkNote]:
    """Yield the rules that the bytes of a line violate; `raw` excludes the line ending."""
    if is_last and raw.strip(b"\0 \r\t") and not _ends_object(raw):
        yield LinkNote(rule="torn-line", number=number, at=at)
    if strip_marks(raw) != raw.strip() and strip_marks(raw).startswith(b"{"):
        yield LinkNote(rule="marks-around", number=number, at=at)
    elif b"\0" in raw:
        yield LinkNote(rule="nul-bytes", number=number, at=at)
    if not _is_utf8(raw) or (b"\\u" in raw and _LONE.search(raw.replace(b"\\\\", b""))):
        yield LinkNote(rule="bad-text", number=number, at=at)
    if re.match(rb'\s*\{\s*"[A-Za-z]+"\s*:\s|\s*\{\s+"', raw):
        yield LinkNote(rule="spaced-json", number=number, at=at)


def _ends_object(raw: bytes) -> bool:
    return raw.rstrip(b"\0 \r\t").endswith(b"}")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check(
    chain: Chain,
    messages: Sequence[dict[str, Any]],
    notes: Iterable[LinkNote],
    *,
    session_id: str | None,
    written_ahead: int = 0,
    stands_before_all: bool = False,
    markers: Sequence[Marker] = (),
) -> list[BrokenRule]:
    """Return every finding about a session, in file order.

    `notes` come from reading the lines of the file. `session_id` is None if the file's name does
    not contain it. With `stands_before_all`, the user rewound to before the first message, so no
    message is live. `markers` record where the user rewound; branches that were abandoned there are
    not damage.
    """
    all_notes = [
        *notes,
        *chain.links.notes,
        *chain.notes,
        *_entries(chain, session_id),
        *_roots(chain, [marker.at for marker in markers if marker.is_explicit]),
        *_boundaries(chain),
        *_tools(chain, messages),
        *_answers(chain, messages),
        *chain.left_out(),
    ]
    if written_ahead:
        all_notes.append(
            _of_leaf(chain, "written-ahead", format_count(written_ahead, "entry", "entries"))
        )
    is_lost = not messages and not stands_before_all
    if is_lost and any(node.is_conversation for node in chain.links.nodes):
        all_notes.append(LinkNote(rule="nothing-live", number=1, at=0))
    unique = {(note.rule, note.at): note for note in reversed(all_notes)}
    for at in [at for rule, at in unique if rule == "torn-line"]:
        unique.pop(("not-an-entry", at), None)
    ordered = sorted(unique.values(), key=lambda note: (note.number, ORDER[note.rule]))
    return [_finding(note) for note in ordered]


def _finding(note: LinkNote) -> BrokenRule:
    rule = BY_NAME[note.rule]
    return BrokenRule(
        rule=rule.number,
        name=rule.name,
        severity=rule.severity,
        line=note.number,
        at=note.at,
        detail=note.detail,
    )


def _of_leaf(chain: Chain, rule: str, detail: str) -> LinkNote:
    node = chain.links.nodes[chain.leaf]
    return LinkNote(rule=rule, number=node.number, at=node.at, detail=detail)


def _note(chain: Chain, i: int, rule: str, detail: str = "") -> LinkNote:
    node = chain.links.nodes[i]
    return LinkNote(rule=rule, number=node.number, at=node.at, detail=detail)


def _entries(chain: Chain, session_id: str | None) -> Iterator[LinkNote]:
    for i, node in enumerate(chain.links.nodes):
        if not node.is_conversation:
            continue
        if node.keys.timestamp is None or not _TIME.fullmatch(node.keys.timestamp):
            yield _note(chain, i, "odd-timestamp")
        if session_id and node.keys.session_id not in (None, session_id):
            yield _note(chain, i, "wrong-session")


def _roots(chain: Chain, taken_back: Sequence[int]) -> Iterator[LinkNote]:
    """Yield notes on a root that cuts off earlier messages, and on branches written alternately."""
    links = chain.links
    live = set(chain.live)
    talking = [i for i in range(len(links.nodes)) if _talks(chain, i)]

    cuts = sorted(taken_back)

    def is_taken_back(i: int, j: int) -> bool:
        return _is_between(cuts, links.nodes[i].at, links.nodes[j].at)

    for j in chain.live[:1]:
        cut_off = [i for i in talking if i < j and i not in live]
        is_root = links.parents[j] == ROOT and not links.nodes[j].is_boundary
        if is_root and _talks(chain, j) and cut_off and not is_taken_back(cut_off[-1], j):
            yield _note(chain, j, "second-root")
    later = [i for i in talking if chain.boundary == ROOT or i > chain.boundary]
    between = [
        j
        for i, j in pairwise(later)
        if (i in live) != (j in live)
        and links.nodes[j].keys.prompt_source is None
        and not is_taken_back(i, j)
        and _said_before(chain, j) != i
    ]
    if len(between) > 1:
        yield _note(chain, between[0], "mixed-writers", format_count(len(between), "change"))


def _is_between(ordered: Sequence[int], low: int, high: int) -> bool:
    """Return whether any of these sorted offsets lies between `low` and `high`."""
    place = bisect_right(ordered, low)
    return place < len(ordered) and ordered[place] < high


def _said_before(chain: Chain, i: int) -> int:
    """Return the last user or assistant entry before this one in the same branch."""
    i = chain.links.parents[i]
    while i != ROOT and not _talks(chain, i):
        i = chain.links.parents[i]
    return i


def _talks(chain: Chain, i: int) -> bool:
    node = chain.links.nodes[i]
    is_main = not node.keys.is_sidechain and chain.links.is_shown(i)
    return is_main and node.keys.type in ("user", "assistant")


def _boundaries(chain: Chain) -> Iterator[LinkNote]:
    links = chain.links
    # A withdrawn boundary closes nothing.
    standing = [i for i, node in enumerate(links.nodes) if node.is_boundary and links.is_shown(i)]
    for last, i in pairwise(standing):
        if not any(_talks(chain, j) for j in range(last + 1, i)):
            yield _note(chain, i, "double-boundary")
    live = set(chain.live)
    closed = [i for i in standing if i not in live] if chain.boundary == ROOT else []
    for i in chain.live:
        parent = links.parents[i]
        if parent != ROOT and _is_between(closed, parent, i):
            yield _note(chain, i, "parent-before-summary")
    if chain.boundary != ROOT and chain.is_kept_missing:
        yield _note(chain, chain.boundary, "kept-not-found")


def _tools(chain: Chain, messages: Sequence[dict[str, Any]]) -> Iterator[LinkNote]:
    calls: dict[str, int] = {}
    results: Counter[str] = Counter()
    for i, message in zip(chain.live, messages, strict=True):
        for call in find_block_ids(message, "tool_use", "id"):
            if call in calls:
                yield _note(chain, i, "duplicate-call", call)
            calls.setdefault(call, i)
        for result in find_block_ids(message, "tool_result", "tool_use_id"):
            results[result] += 1
            if results[result] > 1:
                yield _note(chain, i, "duplicate-result", result)
            elif result not in calls:
                yield _note(chain, i, "result-without-call", result)
    for call, i in calls.items():
        if call not in results:
            yield _note(chain, i, "missing-result", call)


def _answers(chain: Chain, messages: Sequence[dict[str, Any]]) -> Iterator[LinkNote]:
    """Yield findings about responses; a response is the entries that share a message ID."""
    first: dict[str, tuple[int, Any]] = {}
    kinds: dict[str, list[str]] = {}
    differing: set[str] = set()
    for i, message in zip(chain.live, messages, strict=True):
        body = message.get("message")
        if message.get("type") != "assistant" or not isinstance(body, dict):
            continue
        answer = body.get("id")
        if not answer or not message.get("requestId"):
            if not message.get("isApiErrorMessage"):
                yield _note(chain, i, "no-request-id")
            continue
        first.setdefault(str(answer), (i, body.get("usage")))
        if first[str(answer)][1] != body.get("usage"):
            differing.add(str(answer))
        for block in body.get("content") or [] if isinstance(body.get("content"), list) else []:
            kind = _kind(block)
            # Its record of origin has the encrypted reasoning of another service.
            is_sealed = kind == "hollow" and "origin" in message
            kinds.setdefault(str(answer), []).append("sealed" if is_sealed else kind)
    for answer, (i, _) in first.items():
        if answer in differing:
            yield _note(chain, i, "usage-differs")
        if "hollow" in kinds.get(answer, []) or set(kinds.get(answer, ["-"])) == {"thinking"}:
            yield _note(chain, i, "hollow-thinking")


def _kind(block: Any) -> str:
    if not isinstance(block, dict):
        return "?"
    if block.get("type") == "thinking":
        return "thinking" if block.get("thinking") or block.get("signature") else "hollow"
    return str(block.get("type"))
