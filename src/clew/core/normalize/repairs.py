"""The changes that `for_api` made to a history, as values, so that no repair goes unreported."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.core.normalize.shapes import MEDIA
from clew.core.regex import lazy_pattern

RepairKind: TypeAlias = Literal[
    "result_missing",  # a call had no result, so an error result was added
    "result_orphaned",  # a result had no matching call and became text
    "result_repeated",  # a second, identical result of one call
    "result_moved",  # a result came after other content
    "id_changed",  # an ID was empty, malformed or in use
    "name_changed",  # a tool name had invalid characters
    "input_not_object",  # a call whose input is not an object became text
    "call_moved",  # other content came after a call in one response
    "no_tools",  # the request offers no tools, so calls and results became text
    "thinking_dropped",  # unsigned, without text, of another model family, or at the end
    "thinking_told",  # thinking of another model family became text
    "thought_unbound",  # its prefix has changed
    "thought_unread",  # another model wrote it, and the model in `detail` does not see it
    "text_empty",
    "block_unknown",  # a block that is not allowed here became text
    "fields_dropped",  # fields that are not allowed in a request
    "tool_unknown",  # a reference to a tool that the request does not offer
    "server_call_open",  # an unanswered call of a server tool became text
    "media_removed",  # rejected by the service or its rules, and replaced by text
    "media_renamed",  # an image had the wrong media type
    "not_writable",  # lone surrogates became U+FFFD
    "turn_missing",  # a message was inserted between two responses, or before or after one
    "answer_empty",  # a response with nothing left to send
    "not_an_entry",  # neither an entry of a known type nor a message of the API
]


class Repair(Struct, frozen=True, kw_only=True):
    """One difference between the transcript and the request; the transcript is not changed.

    Fields:
        kind: The kind of repair.
        uuid: The uuid of the entry, or None if it has none.
        detail: Further information, such as the ID of a call.
    """

    kind: RepairKind
    uuid: str | None  # the entry's uuid
    detail: str = ""


# Common in normal histories, and without effect on the content.
ROUTINE: frozenset[RepairKind] = frozenset({"fields_dropped", "text_empty", "turn_missing"})
# Thinking blocks that the service would not show to the model.
WITHHELD: frozenset[RepairKind] = frozenset({"thought_unbound", "thought_unread"})
# Singular and plural.
WORDS: dict[RepairKind, tuple[str, str]] = {
    "result_missing": ("missing tool result", "missing tool results"),
    "result_orphaned": ("tool result without a call", "tool results without a call"),
    "result_repeated": ("duplicate tool result", "duplicate tool results"),
    "result_moved": ("tool result out of order", "tool results out of order"),
    "id_changed": ("invalid or duplicate call ID", "invalid or duplicate call IDs"),
    "name_changed": ("invalid tool name", "invalid tool names"),
    "input_not_object": ("tool call with invalid input", "tool calls with invalid input"),
    "call_moved": ("tool call out of order", "tool calls out of order"),
    "no_tools": ("call to an unavailable tool", "calls to unavailable tools"),
    "thinking_dropped": (
        "thinking block that cannot be sent back",
        "thinking blocks that cannot be sent back",
    ),
    "thinking_told": ("thinking block from another model", "thinking blocks from another model"),
    "thought_unbound": (
        "thinking block that does not match the conversation",
        "thinking blocks that do not match the conversation",
    ),
    "thought_unread": ("thinking block from another model", "thinking blocks from another model"),
    "text_empty": ("empty text block", "empty text blocks"),
    "block_unknown": ("block of an unknown type", "blocks of unknown types"),
    "fields_dropped": ("field", "fields"),
    "tool_unknown": ("reference to an unavailable tool", "references to unavailable tools"),
    "server_call_open": ("unanswered search", "unanswered searches"),
    "media_removed": ("omitted image or document", "omitted images or documents"),
    "media_renamed": (
        "image with the wrong media type",
        "images with the wrong media type",
    ),
    "not_writable": ("invalid character", "invalid characters"),
    "turn_missing": ("missing message between turns", "missing messages between turns"),
    "answer_empty": ("empty response", "empty responses"),
    "not_an_entry": ("item that is not an entry", "items that are not entries"),
}


def describe_repairs(repairs: Iterable[Repair]) -> str:
    """Summarize the repairs in one line for the user; empty if no content was affected."""
    unusual_repairs = [repair for repair in repairs if repair.kind not in ROUTINE]
    counts = Counter(repair.kind for repair in unusual_repairs if repair.kind not in WITHHELD)
    summary = ", ".join(format_count(count, *WORDS[kind]) for kind, count in counts.items())
    mended = (
        f"repaired for this request (the transcript is unchanged): {summary}" if summary else ""
    )
    return "; ".join(filter(None, [mended, _withheld(unusual_repairs)]))


def _withheld(repairs: Iterable[Repair]) -> str:
    """Describe how many thinking blocks the model does not see, with each reason once."""
    reasons = [
        f"written by a model other than {repair.detail}"
        if repair.kind == "thought_unread"
        else repair.detail
        for repair in repairs
        if repair.kind in WITHHELD
    ]
    if not reasons:
        return ""
    because = " and ".join(dict.fromkeys(reasons))
    are = format_count(len(reasons), "earlier thinking block is", "earlier thinking blocks are")
    return f"{are} no longer shown to the model: {because}"


def from_record(line: dict[str, Any]) -> list[Repair]:
    """Return the repairs recorded in a transcript line, skipping invalid ones."""
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


# Finds out what content the service rejected, from the API error in the transcript.


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
    "not valid",
    "unsupported",
    "password",
)
_SUBJECTS = {"image": ("image",), "document": ("pdf", "document")}


def find_refused_media(entry: dict[str, Any]) -> frozenset[str]:
    """Return the media kinds that an API error complains about; usually none."""
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


def read_refused_media(entry: dict[str, Any]) -> frozenset[str]:
    """Return the media kinds that later requests must omit, from the entry of a failed one."""
    kinds = entry.get("refusedMedia")
    if type(kinds) is not list:
        return frozenset()
    return MEDIA & frozenset(kind for kind in kinds if type(kind) is str)


def find_media_kinds(content: Any) -> frozenset[str]:
    """Return the kinds of media in messages or blocks, including those in tool results."""
    kinds: set[str] = set()
    for item in content if type(content) is list else ():
        kinds |= {item.get("type")} & MEDIA
        kinds |= find_media_kinds(item.get("content"))
    return frozenset(kinds)


_UNKNOWN_KIND = lazy_pattern(r"Input tag '([^']{1,100})'")


def find_refused_kinds(entry: dict[str, Any]) -> frozenset[str]:
    """Return the block kinds that the service reported as unknown; usually none."""
    return frozenset(_UNKNOWN_KIND.findall(_words(entry)))


def _words(entry: dict[str, Any]) -> str:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    texts = (
        [b.get("text") for b in content if type(b) is dict] if type(content) is list else [content]
    )
    texts += [entry.get("errorDetails"), entry.get("apiError"), entry.get("error")]
    return "\n".join(words for words in texts if type(words) is str)
