"""What a summary stands for: which entries, which files, which open tasks. Pure.

A receipt is data beside the summary, in the boundary's metadata: nobody has to believe the summary's
prose about what it covers, and whoever wants it back knows what it was.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from clew.compaction.retelling import prompts
from clew.messages import factories
from clew.messages.counts import count_of

Json: TypeAlias = dict[str, Any]

MAX_NAMED = 200
SHOWN_FILES = 12
# How a summary's left-out part begins that says why it is a record only.
NO_MODEL = "no model wrote it: "


def covers(
    covered: Sequence[Json], *, todos: Sequence[Json], by: str, left_out: Sequence[str] = ()
) -> Json:
    """The receipt: `by` is who wrote the summary, `left_out` what it did not see."""
    uuids = [str(entry["uuid"]) for entry in covered if "uuid" in entry]
    read, changed = files(covered)
    return {
        "entries": len(uuids),
        "firstUuid": uuids[0] if uuids else None,
        "lastUuid": uuids[-1] if uuids else None,
        "promptUuids": [str(e.get("uuid")) for e in prompts(covered, last=MAX_NAMED)],
        "filesRead": read[:MAX_NAMED],
        "filesChanged": changed[:MAX_NAMED],
        "openTodos": [str(t.get("content")) for t in todos if t.get("status") != "completed"][
            :MAX_NAMED
        ],
        "summaryBy": by,
        "leftOut": list(left_out),
    }


def files(entries: Sequence[Json]) -> tuple[list[str], list[str]]:
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


def in_words(receipt: Json, *, kept: int, transcript: str) -> str:
    """The receipt as the model reads it, behind the summary."""
    changed = receipt["filesChanged"]
    more = len(changed) - SHOWN_FILES
    named = ", ".join(changed[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
    lines = [f"This summary covers {receipt['entries']} entries of the conversation."]
    if kept:
        lines.append(f"{kept} entries are kept word for word.")
    if named:
        lines.append(f"Files changed in the part it covers: {named}.")
    lines.append(f"Nothing is lost: the whole conversation is in {transcript}.")
    return " ".join(lines)


def shown(boundary: Json) -> str:
    """What a person is told of a compaction: what went, what stayed, how to have it back."""
    metadata = boundary["compactMetadata"]
    receipt = metadata.get("covers") or {}
    kept = (metadata.get("preservedMessages") or {}).get("uuids") or []
    lines = [
        f"{metadata['preTokens']:,} tokens before, about {metadata.get('postTokens', 0):,} now; "
        f"{count_of(receipt.get('entries', 0), 'entry', 'entries')} summarised, {len(kept)} kept word for word"
    ]
    for label, name in (("changed", "filesChanged"), ("read", "filesRead"), ("open", "openTodos")):
        named = receipt.get(name) or []
        if named:
            more = f" and {len(named) - SHOWN_FILES} more" if len(named) > SHOWN_FILES else ""
            lines.append(f"{label}: {', '.join(named[:SHOWN_FILES])}{more}")
    for words in receipt.get("leftOut") or ():
        lines.append(words if words.startswith(NO_MODEL) else f"not seen by the summary: {words}")
    return "\n".join(lines)


def summary_entry(words: Sequence[str], *, uuid: str, at: str) -> Json:
    """The entry that stands for what was covered."""
    return factories.compact_summary("\n\n".join(filter(None, words)), uuid=uuid, at=at)
