"""Where a conversation is cut, and the entry that says so.

Pure. A cut never parts a call from its result, nor an answer from itself. The format of the boundary
is in docs/internals/transcript.md.

Decision: docs/decisions/160-compaction.md
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.compaction.retelling import list_prompts
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.text import format_count
from clew.core.normalize import select
from clew.core.normalize.select import Edits
from clew.core.normalize.tokens import MESSAGE_OVERHEAD, estimate_content_tokens
from clew.record.transcript.siblings import find_block_ids

# What a summary stands for: which entries, which files, which open tasks. Pure.


MAX_NAMED = 200
SHOWN_FILES = 12
# How a summary's left-out part begins that says why it is a record only.
NO_MODEL = "no model wrote it: "


def covers(
    covered: Sequence[Json], *, todos: Sequence[Json], by: str, left_out: Sequence[str] = ()
) -> Json:
    """The receipt: `by` is who wrote the summary, `left_out` what it did not see."""
    uuids = [str(entry["uuid"]) for entry in covered if "uuid" in entry]
    read, changed = list_used_files(covered)
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
    }


def list_used_files(entries: Sequence[Json]) -> tuple[list[str], list[str]]:
    """The files that tools read, and those that they changed, newest first."""
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
    """The receipt as the model reads it, behind the summary."""
    changed = receipt["filesChanged"]
    omitted_count = len(changed) - SHOWN_FILES
    file_names = ", ".join(changed[:SHOWN_FILES]) + (
        f" and {omitted_count} more" if omitted_count > 0 else ""
    )
    lines = [f"This summary covers {receipt['entries']} entries of the conversation."]
    if kept_count:
        lines.append(f"{kept_count} entries are kept word for word.")
    if file_names:
        lines.append(f"Files changed in the part it covers: {file_names}.")
    lines.append(f"Nothing is lost: the whole conversation is in {transcript}.")
    return " ".join(lines)


def describe_boundary(boundary: Json) -> str:
    """What a person is told of a compaction: what went, what stayed, how to have it back."""
    metadata = boundary["compactMetadata"]
    receipt = metadata.get("covers") or {}
    uuids = (metadata.get("preservedMessages") or {}).get("uuids") or []
    lines = [
        f"{metadata['preTokens']:,} tokens before, about {metadata.get('postTokens', 0):,} now; "
        f"{format_count(receipt.get('entries', 0), 'entry', 'entries')} summarised, {len(uuids)} kept word for word"
    ]
    for label, name in (("changed", "filesChanged"), ("read", "filesRead"), ("open", "openTodos")):
        names = receipt.get(name) or []
        if names:
            suffix = f" and {len(names) - SHOWN_FILES} more" if len(names) > SHOWN_FILES else ""
            lines.append(f"{label}: {', '.join(names[:SHOWN_FILES])}{suffix}")
    for words in receipt.get("leftOut") or ():
        lines.append(words if words.startswith(NO_MODEL) else f"not seen by the summary: {words}")
    return "\n".join(lines)


def make_summary_entry(words: Sequence[str], *, uuid: str, at: str) -> Json:
    """The entry that stands for what was covered."""
    return factories.compact_summary("\n\n".join(filter(None, words)), uuid=uuid, at=at)


class Selection(Struct, frozen=True, kw_only=True):
    """What a compaction covers and what it keeps word for word: behind its summary, or before it.

    `is_row`: what is kept was said in a row, so that its first and last entry name it all.
    """

    covered: list[Json]
    kept: list[Json]
    is_before: bool = False
    is_row: bool = True


def entry_tokens(entry: Json) -> int:
    """About how much of a request an entry is."""
    message = entry.get("message")
    if isinstance(message, dict):
        if entry.get("isApiErrorMessage") is True:
            return 0
        return estimate_content_tokens(message.get("content")) + MESSAGE_OVERHEAD
    return sum(estimate_content_tokens(piece.get("content")) for piece in rendered(entry))


def rendered(entry: Json) -> Iterator[Json]:
    pieces = entry.get("rendered")
    return (
        (piece for piece in pieces if isinstance(piece, dict)) if type(pieces) is list else iter(())
    )


def with_tail(entries: Sequence[Json], keep_tokens: int) -> Selection:
    """The longest end of the conversation that fits is kept; it may be nothing."""
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
        # Else what was summarised before would be all that is summarised now.
        cut = next((at for at in range(floor + 1, len(entries)) if allowed[at]), len(entries))
    return Selection(covered=_said(entries[:cut]), kept=list(entries[cut:]))


def select_up_to(entries: Sequence[Json], place: int) -> Selection:
    """Everything before a place is covered; from there on all is kept."""
    cut = _allowed(entries, place)
    is_row = cut >= select.find_beginning(entries)
    return Selection(covered=_said(entries[:cut]), kept=list(entries[cut:]), is_row=is_row)


def select_since(entries: Sequence[Json], place: int) -> Selection:
    """Everything from a place on is covered; what stands before it is kept."""
    cut = _allowed(entries, place)
    kept_entries = _said(entries[:cut])
    return Selection(covered=list(entries[cut:]), kept=kept_entries, is_before=True, is_row=False)


def with_edits(selection: Selection, edits: Edits, *, keeps_pins: bool) -> Selection:
    """What a person left out is not summarised either; what is held fast is kept, wherever it stood."""
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
    """These entries and what belongs to them: the rest of an answer, a call's result, its call."""
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
    """The entries without the boundary of an earlier compaction, which stands for nothing itself."""
    return [entry for entry in entries if not select.is_boundary(entry)]


def _allowed(entries: Sequence[Json], place: int) -> int:
    """The nearest place before this one where the conversation may be cut."""
    allowed = cuts(entries)
    return next((at for at in range(place, 0, -1) if allowed[at]), 0)


def cuts(entries: Sequence[Json]) -> list[bool]:
    """For each place whether the conversation may be cut before it: something begins there, and
    nothing that stands above it is answered below."""
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
    """The boundary. What is kept stands behind the summary, or, where its end was summarised,
    between boundary and summary."""
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
    """What earlier compactions of this conversation took out of it, in tokens."""
    first = entries[0] if len(entries) else {}
    metadata = first.get("compactMetadata") if select.is_boundary(first) else None
    dropped = metadata.get("cumulativeDroppedTokens") if isinstance(metadata, dict) else None
    return dropped if type(dropped) is int else 0
