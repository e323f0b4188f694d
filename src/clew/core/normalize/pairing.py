"""One exchange: a model response, and everything sent to the model before the next response.

Owns the relation between a response and the message after it: each call has exactly one result,
results come first, no block follows a call, and IDs are unique. Missing results are computed as
calls minus results, so repeating the computation changes nothing.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from clew.core.messages.text import RESULT_MISSING, with_nonce, wrap_in_tag
from clew.core.normalize import shapes
from clew.core.normalize.clean import Block, as_text, as_word, make_text_block
from clew.core.normalize.repairs import RepairKind

Note: TypeAlias = Callable[[RepairKind, str, str | None], None]
Said: TypeAlias = list[tuple[Block, str | None]]  # a block and the uuid of its entry
# A call: its ID in the transcript, the block with its ID in the request, the uuid of its entry.
Use: TypeAlias = tuple[str, Block, str | None]
_REMINDER = "<system-reminder"
# The text of an error result that contained only images or documents.
MEDIA_FOLLOWS = "(the tool failed; its output follows)"


class PairedExchange:
    """The cleaned blocks of an exchange in order of arrival; `finish` builds its messages."""

    __slots__ = (
        "answer",
        "answer_id",
        "before",
        "context",
        "entries",
        "nonce",
        "notices",
        "results",
        "talk",
    )

    def __init__(self, answer: Said, answer_id: str | None, nonce: str = "") -> None:
        # The nonce in clew's own tags.
        self.nonce = nonce
        self.answer = answer
        self.answer_id = answer_id
        # The entries of the response, including those of which no block was sent.
        self.entries: list[dict[str, Any]] = []
        self.results: Said = []
        # Blocks that an earlier request may have contained, so their order is fixed.
        self.before: list[Block] = []
        self.context: list[Block] = []
        self.talk: list[Block] = []
        self.notices: list[Block] = []

    @property
    def has_words(self) -> bool:
        """True if the user messages contain more than tool results."""
        return bool(self.before or self.context or self.talk or self.notices)

    @property
    def is_answered(self) -> bool:
        """True if every call of the response has a result."""
        answered = {block["tool_use_id"] for block, _ in self.results}
        calls = {block["id"] for block, _ in self.answer if block["type"] == "tool_use"}
        return calls <= answered

    def settle(self) -> None:
        """Fix the order of the blocks so far; later blocks come after them."""
        self.before += [*self.context, *self.talk]
        self.before += [make_text_block(reminder(str(b["text"]), self.nonce)) for b in self.notices]
        self.context, self.talk, self.notices = [], [], []


def _is_pause(last: Block) -> bool:
    return last["type"] in shapes.SERVER_USES or last["type"] in shapes.SERVER_RESULTS


class Calls:
    """The call IDs in use. A branch adds its own IDs without changing the original."""

    __slots__ = ("_copies", "_earlier", "_longest", "_taken", "server_open")

    def __init__(self, longest: int, earlier: "Calls | None" = None) -> None:
        self._longest = longest
        self._taken: set[str] = set()
        self._earlier: set[str] = set() if earlier is None else earlier._taken
        self._copies: dict[str, int] = {} if earlier is None else dict(earlier._copies)
        self.server_open: set[str] = set() if earlier is None else set(earlier.server_open)

    def take(self, wanted: str) -> str:
        """Reserve and return `wanted`, or the first free ID derived from it."""
        base = as_word(wanted, self._longest) or "call"
        free_id, count = base, self._copies.get(base, 1)
        while free_id in self._taken or free_id in self._earlier:
            count += 1
            free_id = f"{base[: self._longest - 12]}-{count}"
        if count > 1:
            self._copies[base] = count
        self._taken.add(free_id)
        return free_id

    def is_free(self, wanted: str) -> bool:
        is_id = shapes.is_word(wanted, self._longest)
        return is_id and wanted not in self._taken and wanted not in self._earlier


def finish(
    exchange: PairedExchange,
    calls: Calls,
    note: Note,
    *,
    system_messages: bool,
    filler: str,
    may_pause: bool,
    error_media: bool = False,
) -> tuple[list[Block], list[Block], list[Block]]:
    """Return the contents of the assistant, user and system messages of an exchange.

    If a user message is required but would be empty, `filler` becomes its content. If the last
    response is paused, no user message is required.
    """
    answer, uses, open_here = _answer(exchange, calls, note)
    answered, words = _results(exchange, uses, note)
    if not error_media:
        answered, media = _texts_alone(answered)
        words += media
    words += [*exchange.before, *exchange.context, *exchange.talk]
    notices = exchange.notices
    if notices and not (system_messages and (answered or words)):
        words += [make_text_block(reminder(str(b["text"]), exchange.nonce)) for b in notices]
        notices = []
    if not answered and not words and not (may_pause and answer and _is_pause(answer[-1])):
        note("turn_missing", filler, exchange.answer[-1][1] if exchange.answer else None)
        words = [make_text_block(filler)]
    if open_here and (words or notices):
        answer = _close_server_calls(answer, open_here, calls, note)
    return answer, [*answered, *words], notices


def is_paused(exchange: PairedExchange, calls: Calls) -> bool:
    """Return whether the response is paused for a server tool, to be continued by the next one."""
    if not exchange.answer or exchange.results or exchange.has_words:
        return False
    if not _is_pause(exchange.answer[-1][0]):
        return False
    # A call with a used ID, or a result without a call, becomes text before it is sent.
    answer, uses, _ = _answer(exchange, calls, _unheard)
    return not uses and _is_pause(answer[-1])


def _unheard(kind: RepairKind, detail: str, uuid: str | None) -> None:
    """Ignore a repair in a dry run; the repair is reported once it is applied."""


def reminder(words: str, nonce: str) -> str:
    """Return a notice as a reminder in a user message."""
    is_tagged = words.startswith(_REMINDER)
    return with_nonce(words if is_tagged else wrap_in_tag("system-reminder", f"\n{words}\n"), nonce)


def _answer(
    exchange: PairedExchange, calls: Calls, note: Note
) -> tuple[list[Block], list[Use], set[str]]:
    """Return the assistant's blocks with calls last, the calls, and the open server calls."""
    answer: list[Block] = []
    uses: list[Use] = []
    open_ids: set[str] = set()
    for block, uuid in _without_broken_thinking(exchange.answer, note):
        kind = block["type"]
        if kind == "tool_use":
            uses.append((block["id"], _with_free_id(block, calls, note, uuid), uuid))
            continue
        if uses:
            note("call_moved", str(kind), uuid)
        if kind in shapes.SERVER_USES or kind in shapes.SERVER_RESULTS:
            block = _server_block(block, calls, open_ids, note, uuid)
        answer.append(block)
    while answer and not uses and answer[-1]["type"] in shapes.THINKING:
        note("thinking_dropped", "at the end of a response", exchange.answer[-1][1])
        answer.pop()
    return [*answer, *(block for _, block, _ in uses)], uses, open_ids


def _without_broken_thinking(answer: Said, note: Note) -> Said:
    """Return the response; drop all its thinking if the service would reject any of it."""
    broken = [uuid for block, uuid in answer if len(block) == 1]
    if not broken:
        return answer
    note("thinking_dropped", "unsigned or without text", broken[0])
    return [(b, uuid) for b, uuid in answer if b["type"] not in shapes.THINKING]


def _with_free_id(block: Block, calls: Calls, note: Note, uuid: str | None) -> Block:
    free_id = calls.take(block["id"])
    if free_id == block["id"]:
        return block
    note("id_changed", f"{block['id']!r} changed to {free_id}", uuid)
    return block | {"id": free_id}


def _server_block(
    block: Block, calls: Calls, open_ids: set[str], note: Note, uuid: str | None
) -> Block:
    """Return a server tool's call or result; convert it to text if its counterpart is missing."""
    if block["type"] in shapes.SERVER_USES:
        use_id = block["id"]
        if calls.is_free(use_id):
            calls.take(use_id)
            calls.server_open.add(use_id)
            open_ids.add(use_id)
            return block
    elif block["tool_use_id"] in calls.server_open:
        calls.server_open.discard(block["tool_use_id"])
        open_ids.discard(block["tool_use_id"])
        return block
    note("result_orphaned", str(block["type"]), uuid)
    return make_text_block(as_text(block))


def _close_server_calls(
    answer: list[Block], open_ids: set[str], calls: Calls, note: Note
) -> list[Block]:
    """Convert unanswered server calls to text, because other messages follow them."""
    note("server_call_open", ", ".join(sorted(open_ids)), None)
    calls.server_open -= open_ids
    return [
        make_text_block(as_text(b))
        if b["type"] in shapes.SERVER_USES and b["id"] in open_ids
        else b
        for b in answer
    ]


def _results(
    exchange: PairedExchange, uses: list[Use], note: Note
) -> tuple[list[Block], list[Block]]:
    """Return one result per call in the order of the calls, and unmatched results as text."""
    results: dict[str, Block] = {}  # by the ID in the request
    waiting: dict[str, list[str]] = {}
    for old, block, _ in reversed(uses):
        waiting.setdefault(old, []).append(block["id"])
    last: dict[str, str] = {}
    left_over: list[Block] = []
    for block, uuid in exchange.results:
        old = block["tool_use_id"]
        if waiting.get(old):
            new = last[old] = waiting[old].pop()
            results[new] = block if new == old else block | {"tool_use_id": new}
        elif old in last and _says_the_same(results[last[old]], block):
            note("result_repeated", old, uuid)
        else:
            note("result_orphaned", old, uuid)
            left_over += _told(block)
    for old, block, uuid in uses:
        if block["id"] not in results:
            note("result_missing", old, uuid)
            results[block["id"]] = _missing(block["id"])
    return [results[block["id"]] for _, block, _ in uses], left_over


def _texts_alone(results: list[Block]) -> tuple[list[Block], list[Block]]:
    """Reduce failed results to text; return all results, and the media to send after them."""
    blocks: list[Block] = []
    media: list[Block] = []
    for result in results:
        content = result["content"]
        is_mixed = type(content) is list and any(block["type"] != "text" for block in content)
        if result.get("is_error") is True and is_mixed:
            media += [block for block in content if block["type"] in shapes.MEDIA]
            texts = [
                block if block["type"] == "text" else make_text_block(as_text(block))
                for block in content
                if block["type"] not in shapes.MEDIA
            ]
            result = result | {"content": texts or MEDIA_FOLLOWS}
        blocks.append(result)
    return blocks, media


def _missing(use_id: str) -> Block:
    return {
        "type": "tool_result",
        "tool_use_id": use_id,
        "content": RESULT_MISSING,
        "is_error": True,
    }


def _says_the_same(block: Block, other: Block) -> bool:
    return bool(block.get("content") == other.get("content"))


def _told(result: Block) -> list[Block]:
    """Return an unmatched result as text, followed by its images and documents."""
    content: Any = result["content"]
    media = [b for b in content if b["type"] in shapes.MEDIA] if type(content) is list else []
    return [make_text_block(as_text(result)), *media]
