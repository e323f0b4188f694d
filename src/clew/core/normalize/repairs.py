"""What `for_api` had to change, as values: nothing is put right in silence."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.core.normalize.shapes import MEDIA

RepairKind: TypeAlias = Literal[
    "result_missing",  # a call had no result; one that says so was put in
    "result_orphaned",  # a result answers no call here; it became text
    "result_repeated",  # a second result of one call, the same as the first
    "result_moved",  # a result stood behind something else
    "id_changed",  # an id was empty, malformed or taken
    "name_changed",  # a tool's name had characters no name may have
    "input_not_object",  # a call whose input is not an object became text
    "call_moved",  # something stood behind a call in one answer
    "no_tools",  # the request offers no tools; calls and results became text
    "thinking_dropped",  # unsigned, emptied, of another family of models, or at the end
    "thinking_told",  # thinking of another family of models became text
    "thought_unbound",  # what it was made after is not what stands before it now
    "thought_unread",  # another model made it, and the one that is named is not shown it
    "text_empty",
    "block_unknown",  # a block this place does not take became text
    "fields_dropped",  # fields that a request may not have
    "tool_unknown",  # a reference to a tool the request does not have
    "server_call_open",  # a call of a server tool was never answered; it became text
    "media_removed",  # refused by the service, or by its rules; words stand in its place
    "media_renamed",  # an image said another type than it is
    "not_writable",  # lone surrogates became U+FFFD
    "turn_missing",  # two answers in a row, or an answer first or last; words stand between
    "answer_empty",  # an answer of which nothing is left
]


class Repair(Struct, frozen=True, kw_only=True):
    """One change between the log and the request; the log itself keeps what it has."""

    kind: RepairKind
    uuid: str | None  # of the entry
    detail: str = ""


# What happens to whole histories too, and changes nothing that was said.
ROUTINE: frozenset[RepairKind] = frozenset({"fields_dropped", "text_empty", "turn_missing"})
# Thoughts that the service would not show to the model.
WITHHELD: frozenset[RepairKind] = frozenset({"thought_unbound", "thought_unread"})
# One of them, and several.
WORDS: dict[RepairKind, tuple[str, str]] = {
    "result_missing": ("missing result", "missing results"),
    "result_orphaned": ("result without its call", "results without their calls"),
    "result_repeated": ("result given twice", "results given twice"),
    "result_moved": ("result out of place", "results out of place"),
    "id_changed": ("id taken twice", "ids taken twice"),
    "name_changed": ("name of a tool", "names of tools"),
    "input_not_object": ("call whose input cannot be sent", "calls whose input cannot be sent"),
    "call_moved": ("call out of place", "calls out of place"),
    "no_tools": ("call of a tool that is gone", "calls of tools that are gone"),
    "thinking_dropped": ("thought that cannot go back", "thoughts that cannot go back"),
    "thinking_told": ("thought of another model", "thoughts of another model"),
    "thought_unbound": ("thought that no longer fits", "thoughts that no longer fit"),
    "thought_unread": ("thought of another model", "thoughts of another model"),
    "text_empty": ("empty text", "empty texts"),
    "block_unknown": ("block of an unknown kind", "blocks of unknown kinds"),
    "fields_dropped": ("field", "fields"),
    "tool_unknown": ("reference to a tool that is gone", "references to tools that are gone"),
    "server_call_open": ("search without an answer", "searches without an answer"),
    "media_removed": ("image or document left out", "images or documents left out"),
    "media_renamed": (
        "image of another type than it said",
        "images of another type than they said",
    ),
    "not_writable": ("character that cannot be written", "characters that cannot be written"),
    "turn_missing": ("turn without an answer", "turns without an answer"),
    "answer_empty": ("empty answer", "empty answers"),
}


def describe_repairs(repairs: Iterable[Repair]) -> str:
    """One line for a person; empty where nothing was changed that was said."""
    unusual_repairs = [repair for repair in repairs if repair.kind not in ROUTINE]
    counts = Counter(repair.kind for repair in unusual_repairs if repair.kind not in WITHHELD)
    summary = ", ".join(format_count(count, *WORDS[kind]) for kind, count in counts.items())
    mended = f"mended for this request, the log stays as it is: {summary}" if summary else ""
    return "; ".join(filter(None, [mended, _withheld(unusual_repairs)]))


def _withheld(repairs: Iterable[Repair]) -> str:
    """How many thoughts the model is not shown, and each reason once."""
    reasons = [
        f"they are not {repair.detail}'s own" if repair.kind == "thought_unread" else repair.detail
        for repair in repairs
        if repair.kind in WITHHELD
    ]
    if not reasons:
        return ""
    because = " and ".join(dict.fromkeys(reasons))
    are = format_count(len(reasons), "earlier thought is", "earlier thoughts are")
    return f"{are} no longer shown to the model, because {because}"


def from_record(line: dict[str, Any]) -> list[Repair]:
    """The repairs that a line of the log tells of; what is none is passed."""
    items = line.get("repairs")
    kinds = frozenset(get_args(RepairKind))
    return [
        Repair(kind=item["kind"], uuid=item.get("uuid"), detail=item.get("detail", ""))
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict)
        and item.get("kind") in kinds
        and isinstance(item.get("uuid"), str | None)
        and isinstance(item.get("detail", ""), str)
    ]


# What a refused request was refused for, read from the failure that the log keeps.


_TOO_LARGE = 413
_COMPLAINTS = (
    "exceed",
    "too large",
    "too many",
    "could not process",
    "not match",
    "maximum",
    "dimension",
    "invalid",
    "unsupported",
    "password",
)
_SUBJECTS = {"image": ("image",), "document": ("pdf", "document")}


def find_refused_media(entry: dict[str, Any]) -> frozenset[str]:
    """The kinds of block that a failed request's failure complains about; often none."""
    if (
        entry.get("apiErrorStatus") == _TOO_LARGE
        or entry.get("apiErrorType") == "request_too_large"
    ):
        return MEDIA
    words = _words(entry).lower()
    if not any(complaint in words for complaint in _COMPLAINTS):
        return frozenset()
    return frozenset(
        kind for kind, subjects in _SUBJECTS.items() if any(s in words for s in subjects)
    )


_UNKNOWN_KIND = re.compile(r"Input tag '([^']{1,100})'")


def find_refused_kinds(entry: dict[str, Any]) -> frozenset[str]:
    """The kinds of block of which the service says that it knows none; often none."""
    return frozenset(_UNKNOWN_KIND.findall(_words(entry)))


def _words(entry: dict[str, Any]) -> str:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    texts = (
        [b.get("text") for b in content if type(b) is dict] if type(content) is list else [content]
    )
    texts += [entry.get("errorDetails"), entry.get("apiError"), entry.get("error")]
    return "\n".join(words for words in texts if type(words) is str)
