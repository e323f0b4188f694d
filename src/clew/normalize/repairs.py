"""What `for_api` had to change, as values: nothing is put right in silence."""

from typing import Literal, TypeAlias

from msgspec import Struct

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
