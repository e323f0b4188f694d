"""Compaction boundaries: where a conversation may be cut, and the entry that records the cut.

A cut never separates a tool call from its result, or the parts of one response. The format of the
boundary is described in docs/internals/transcript.md. This module does no I/O.

Decision: docs/decisions/160-compaction.md
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.compaction.retelling import is_unsent, list_prompts
from clew.core.json_object import Json, object_of
from clew.core.messages import factories
from clew.core.messages.text import format_count
from clew.core.normalize import select
from clew.core.normalize.for_api import for_api
from clew.core.normalize.select import Edits
from clew.core.normalize.target import Target
from clew.core.normalize.tokens import (
    MESSAGE_OVERHEAD,
    estimate_content_tokens,
    estimate_message_tokens,
)
from clew.record.transcript.policy import find_block_ids

# The receipt of a summary: the entries, files and open tasks that it covers.


MAX_NAMED = 200
SHOWN_FILES = 12
# The minimum size of a summary: its text and the text around it.
LEAST_SUMMARY_TOKENS = 150
# Longer conversations are not built as a request just to count their tokens.
LONG_TOKENS = 20_000
FAR = 4
# The prefix of a `leftOut` item that explains why no model wrote the summary.
NO_MODEL = "no model wrote the summary: "


def covers(
    covered: Sequence[Json], *, todos: Sequence[Json], by: str, left_out: Sequence[str] = ()
) -> Json:
    """Return the receipt of a summary, which lists what the summary covers.

    `by` names the author of the summary, and `left_out` lists what the author did not see.
    """
    uuids = [str(entry["uuid"]) for entry in covered if "uuid" in entry]
    read, changed = list_used_files(covered)
    decisions = list(list_decisions(covered))[-MAX_NAMED:]
    return {
        "entries": len(uuids),
        "firstUuid": uuids[0] if uuids else None,
        "lastUuid": uuids[-1] if uuids else None,
        "promptUuids": [str(e.get("uuid")) for e in list_prompts(covered, last=MAX_NAMED)],
        "filesRead": read[:MAX_NAMED],
        "filesChanged": changed[:MAX_NAMED],
        "openTodos": [str(t.get("content")) for t in todos if t.get("status") != "completed"][
            :MAX_NAMED
        ],
        "summaryBy": by,
        "leftOut": list(left_out),
        **({"decisions": decisions} if decisions else {}),
    }


def list_decisions(entries: Sequence[Json]) -> Iterator[Json]:
    """Yield the questions that the user answered, each with the answer."""
    for entry in entries:
        answers = object_of(object_of(entry.get("toolUseResult")).get("answers"))
        for question, answer in answers.items():
            words = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
            yield {"question": question, "answer": words}


def list_used_files(entries: Sequence[Json]) -> tuple[list[str], list[str]]:
    """Return the files that tools read and the files that tools changed, newest first."""
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    for entry in reversed(entries):
        raw = entry.get("toolUseResult")
        if not isinstance(raw, dict):
            continue
        file = raw.get("file")
        if isinstance(file, dict) and isinstance(file.get("filePath"), str):
            read.setdefault(file["filePath"])
        if isinstance(raw.get("filePath"), str):
            changed.setdefault(raw["filePath"])
    return list(read), list(changed)


def in_words(receipt: Json, *, kept_count: int, transcript: str) -> str:
    """Return the receipt as text for the model, to be appended to the summary."""
    changed = receipt["filesChanged"]
    omitted_count = len(changed) - SHOWN_FILES
    file_names = ", ".join(changed[:SHOWN_FILES]) + (
        f" and {omitted_count} more" if omitted_count > 0 else ""
    )
    summarized = format_count(receipt["entries"], "entry", "entries")
    lines = [f"This summary covers {summarized} of the conversation."]
    if kept_count:
        lines.append(f"{format_count(kept_count, 'entry is', 'entries are')} kept verbatim.")
    if file_names:
        lines.append(f"Files changed in the summarized part: {file_names}.")
    lines.append(f"The full conversation is in {transcript}.")
    return " ".join(lines)


def describe_boundary(boundary: Json) -> str:
    """Return a description of a compaction for the user: what was summarized and what was kept."""
    metadata = boundary["compactMetadata"]
    receipt = metadata.get("covers") or {}
    uuids = (metadata.get("preservedMessages") or {}).get("uuids") or []
    lines = [
        f"{metadata['preTokens']:,} tokens before, about {metadata.get('postTokens', 0):,} now; "
        f"{format_count(receipt.get('entries', 0), 'entry', 'entries')} summarized, "
        f"{len(uuids)} kept verbatim"
    ]
    for label, name in (("changed", "filesChanged"), ("read", "filesRead"), ("open", "openTodos")):
        names = receipt.get(name) or []
        if names:
            suffix = f" and {len(names) - SHOWN_FILES} more" if len(names) > SHOWN_FILES else ""
            lines.append(f"{label}: {', '.join(names[:SHOWN_FILES])}{suffix}")
    for words in receipt.get("leftOut") or ():
        lines.append(
            words if words.startswith(NO_MODEL) else f"not covered by the summary: {words}"
        )
    return "\n".join(lines)


def make_summary_entry(words: Sequence[str], *, uuid: str, at: str) -> Json:
    """Return the summary's entry, which replaces the summarized part of the conversation."""
    return factories.compact_summary("\n\n".join(filter(None, words)), uuid=uuid, at=at)


class Selection(Struct, frozen=True, kw_only=True):
    """The entries that a compaction summarizes, and those it keeps verbatim.

    The kept entries come after the summary, or before it if `is_before` is set. `is_row` is true if
    they were consecutive, so that the first and the last identify all of them.
    """

    covered: list[Json]
    kept: list[Json]
    is_before: bool = False
    is_row: bool = True


def is_smaller(then: Sequence[Json], now: Sequence[Json]) -> bool:
    """Return whether a request with the entries `then` has fewer tokens than one with `now`."""
    tokens = weigh(then)
    # For a long conversation, a rough sum of its first entries suffices.
    return exceeds(now, FAR * max(tokens, LONG_TOKENS)) or tokens < weigh(now)


def exceeds(entries: Iterable[Json], tokens: int) -> bool:
    """Return whether the entries have more than `tokens` tokens in total."""
    return any(total > tokens for total in accumulate(map(entry_tokens, entries)))


def weigh(entries: Iterable[Json]) -> int:
    """Return the estimated number of tokens that entries take in a request, as sent."""
    return estimate_message_tokens(for_api(entries, Target()).messages)


def entry_tokens(entry: Json) -> int:
    """Return the estimated number of tokens that an entry takes in a request."""
    message = entry.get("message")
    if isinstance(message, dict):
        if is_unsent(entry):
            return 0
        return estimate_content_tokens(message.get("content")) + MESSAGE_OVERHEAD
    return sum(estimate_content_tokens(piece.get("content")) for piece in rendered(entry))


def rendered(entry: Json) -> Iterator[Json]:
    pieces = entry.get("rendered")
    return (
        (piece for piece in pieces if isinstance(piece, dict)) if type(pieces) is list else iter(())
    )


def with_tail(entries: Sequence[Json], keep_tokens: int) -> Selection:
    """Select the entries so that the longest tail that fits is kept; the tail may be empty.

    At least one entry is covered, even if all of them would fit.
    """
    floor = select.find_beginning(entries)
    allowed = cuts(entries)
    cut, at, size = len(entries), len(entries), 0
    while at > max(floor, 1):
        at -= 1
        size += entry_tokens(entries[at])
        if size > keep_tokens:
            break
        cut = at if allowed[at] else cut
    if cut <= floor:
        # Otherwise this compaction would only summarize the previous summary again.
        cut = next((at for at in range(floor + 1, len(entries)) if allowed[at]), len(entries))
    return Selection(covered=_said(entries[:cut]), kept=list(entries[cut:]))


def select_up_to(entries: Sequence[Json], place: int) -> Selection:
    """Select everything before the index `place` for the summary and keep the rest."""
    cut = _allowed(entries, place)
    is_row = cut >= select.find_beginning(entries)
    return Selection(covered=_said(entries[:cut]), kept=list(entries[cut:]), is_row=is_row)


def select_since(entries: Sequence[Json], place: int) -> Selection:
    """Select everything from the index `place` on for the summary and keep what precedes it."""
    cut = _allowed(entries, place)
    kept_entries = _said(entries[:cut])
    return Selection(covered=list(entries[cut:]), kept=kept_entries, is_before=True, is_row=False)


def with_edits(selection: Selection, edits: Edits, *, keeps_pins: bool) -> Selection:
    """Apply the user's edits: drop hidden entries from the summary and keep pinned ones."""
    pins = _with_ties(selection.covered, edits.pinned) if keeps_pins else frozenset()
    pinned = [entry for entry in selection.covered if entry.get("uuid") in pins]
    covered = [entry for entry in selection.covered if entry.get("uuid") not in pins]
    if not pinned:
        return replace(selection, covered=edits.apply(covered))
    parts = (selection.kept, pinned) if selection.is_before else (pinned, selection.kept)
    return replace(
        selection, covered=edits.apply(covered), kept=[*parts[0], *parts[1]], is_row=False
    )


def _with_ties(entries: Sequence[Json], uuids: frozenset[str]) -> frozenset[str]:
    """Return the given IDs plus those of entries that can't be separated from them.

    These are the rest of each response, and the matching tool calls and results.
    """
    if not uuids:
        return uuids
    ties: set[tuple[str, object]] = set()
    wanted, size = set(uuids), -1
    while len(wanted) + len(ties) > size:
        size = len(wanted) + len(ties)
        for entry in entries:
            own = set(_ties(entry))
            if entry.get("uuid") in wanted or own & ties:
                wanted.add(str(entry.get("uuid")))
                ties |= own
    return frozenset(wanted)


def _ties(entry: Json) -> Iterator[tuple[str, object]]:
    message = entry.get("message")
    if entry.get("type") == "assistant" and isinstance(message, dict) and message.get("id"):
        yield "answer", str(message["id"])
    for call in find_block_ids(entry, "tool_use", "id"):
        yield "call", call
    for call in find_block_ids(entry, "tool_result", "tool_use_id"):
        yield "call", call


def _said(entries: Sequence[Json]) -> list[Json]:
    """Return the entries without the boundary of an earlier compaction, which has no content."""
    return [entry for entry in entries if not select.is_boundary(entry)]


def _allowed(entries: Sequence[Json], place: int) -> int:
    """Return the nearest index, at or before `place`, where the conversation may be cut."""
    allowed = cuts(entries)
    return next((at for at in range(place, 0, -1) if allowed[at]), 0)


def cuts(entries: Sequence[Json]) -> list[bool]:
    """Return for each index whether the conversation may be cut before that entry.

    A cut requires that a message begins there and that no response or tool call extends across it.
    """
    first: dict[tuple[str, object], int] = {}
    crossed = [0] * (len(entries) + 1)
    begins: list[bool] = []

    def tied(key: tuple[str, object], at: int) -> None:
        above = first.setdefault(key, at)
        if above < at:
            crossed[above + 1] += 1
            crossed[at + 1] -= 1

    for at, entry in enumerate(entries):
        kind, message = entry.get("type"), entry.get("message")
        message = message if type(message) is dict else {}
        content = message.get("content")
        blocks = content if type(content) is list else ()
        is_answer = kind == "assistant"
        is_result = False
        if is_answer and type(message.get("id")) is str:
            tied(("answer", message["id"]), at)
        for block in blocks:
            if type(block) is not dict:
                continue
            if is_answer and block.get("type") == "tool_use" and type(block.get("id")) is str:
                tied(("call", block["id"]), at)
            elif block.get("type") == "tool_result" and type(block.get("tool_use_id")) is str:
                is_result = True
                if ("call", block["tool_use_id"]) in first:
                    tied(("call", block["tool_use_id"]), at)
        begins.append(is_answer or (kind == "user" and not is_result))
    allowed, open_ties = [], 0
    for at, may_begin in enumerate(begins):
        open_ties += crossed[at]
        allowed.append(may_begin and open_ties == 0)
    return allowed


def make_boundary(
    selection: Selection,
    *,
    uuid: str,
    summary_uuid: str,
    at: str,
    trigger: str,
    pre_tokens: int,
    post_tokens: int,
    dropped_before: int,
    duration_ms: float,
    covers: Json,
) -> Json:
    """Return the boundary entry.

    Kept entries follow the summary; if the end of the conversation was summarized, they are between
    the boundary and the summary.
    """
    kept_ids = [str(entry["uuid"]) for entry in selection.kept]
    anchor = uuid if selection.is_before else summary_uuid
    fields: Json = {}
    if kept_ids:
        fields["preservedMessages"] = {
            "anchorUuid": anchor,
            "uuids": kept_ids,
            "allUuids": kept_ids,
        }
    segment = None
    if kept_ids and selection.is_row:
        segment = {"headUuid": kept_ids[0], "anchorUuid": anchor, "tailUuid": kept_ids[-1]}
    return factories.compact_boundary(
        uuid=uuid,
        at=at,
        trigger=trigger,
        pre_tokens=pre_tokens,
        preserved_segment=segment,
        postTokens=post_tokens,
        cumulativeDroppedTokens=dropped_before + max(0, pre_tokens - post_tokens),
        durationMs=round(duration_ms),
        **fields,
        covers=covers,
    )


def count_dropped_tokens(entries: select.Entries) -> int:
    """Return the number of tokens that earlier compactions removed from this conversation."""
    first = entries[0] if len(entries) else {}
    metadata = first.get("compactMetadata") if select.is_boundary(first) else None
    dropped = metadata.get("cumulativeDroppedTokens") if isinstance(metadata, dict) else None
    return dropped if type(dropped) is int else 0
