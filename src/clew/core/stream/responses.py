"""Convert streamed responses of OpenAI's Responses API to the Messages API's events.

One output item becomes one block; the finished item itself is the block's `origin`. Items are
identified by `output_index` or else by their ID, because their events may be interleaved and some
servers do not number them. Reasoning without text has no block: its item belongs to the block that
follows it.

Format: the types of `ResponseStreamEvent` in the `openai` package.
Decision: docs/decisions/331-wires.md
"""

from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.stream.converting import ConvertingDecoder, convert_body
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import NO_STAMP, MessageWriter, Stamp, count_of

# The kind of block that each delta belongs to.
DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "tool_use",
}
# The member with the complete text in the event after the last delta.
WHOLES = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.reasoning_summary_text.done": "text",
    "response.reasoning_text.done": "text",
    "response.function_call_arguments.done": "arguments",
}
KINDS = {"message": "text", "reasoning": "thinking", "function_call": "tool_use"}
STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
PARAGRAPH = "\n\n"


class _Item:
    """One output item. `waiting` contains the pieces that arrived before its block could open."""

    __slots__ = ("call", "final", "index", "is_stopped", "kind", "part", "sent", "waiting")

    def __init__(self, item: Json) -> None:
        self.kind = KINDS.get(text_of(item.get("type")), "")
        self.call = item
        self.index: int | None = None
        self.waiting: list[str] = []
        self.sent: list[str] = []
        # The part of a summary that the last piece belongs to.
        self.part: Any = None
        self.final: Json | None = None
        self.is_stopped = False

    @property
    def text(self) -> str:
        return "".join([*self.sent, *self.waiting])


class ResponseEvents:
    """A converter that turns the events of one response into those of the Messages API."""

    __slots__ = ("_items", "_keys", "_out", "_passed", "_stop", "_stopped", "_usage")

    def __init__(self, stamp: Stamp = NO_STAMP) -> None:
        self._out = MessageWriter(stamp)
        self._items: dict[int, _Item] = {}
        self._keys: dict[str, int] = {}
        # The first item that is not open and not finished; later ones wait for it.
        self._passed = 0
        # All items before this one have stopped.
        self._stopped = 0
        self._stop: str | None = None
        self._usage: Json = {}

    @property
    def is_whole(self) -> bool:
        return self._stop is not None

    def take(self, event: Json) -> list[Json]:
        if not self._out.is_over:
            self._take(event)
        return self._out.drain()

    def done(self) -> list[Json]:
        return self._out.drain()

    def _take(self, event: Json) -> None:
        kind = text_of(event.get("type"))
        if event.get("object") == "response":
            self._end(event)  # a response that was not streamed
        elif kind == "error" or (not kind and "error" in event):
            error = event.get("error")
            self._out.fail(error if type(error) is dict else _error_of(event))
        elif kind in ENDS:
            self._end(object_of(event.get("response")))
        elif type(event.get("response")) is dict:
            self._begin(event["response"])
        elif kind == "response.output_item.added":
            self._find(event, object_of(event.get("item")))
            self._advance()
        elif kind == "response.output_item.done":
            self._finish(self._find(event, object_of(event.get("item"))), event.get("item"))
            self._advance()
        elif kind in DELTAS:
            self._piece(self._find(event, {"type": _type_of(DELTAS[kind])}), event)
            self._advance()
        elif kind in WHOLES:
            self._whole(event, event.get(WHOLES[kind]), kind)

    def _begin(self, response: Json) -> None:
        self._out.begin(response.get("id"), response.get("model"))

    def _find(self, event: Json, item: Json) -> _Item:
        """Return the item that an event belongs to; a new item is added at its index."""
        self._begin({})
        name = text_of(event.get("item_id")) or text_of(item.get("id"))
        place = event.get("output_index")
        if type(place) is not int or place < 0:
            key = self._keys.get(name) if name else None
            last = max(self._items, default=-1)
            is_new = text_of(event.get("type")).endswith("added") or last < 0
            place = key if key is not None else last + is_new
        if name:
            self._keys.setdefault(name, place)
        return self._items.setdefault(place, _Item(item))

    def _piece(self, item: _Item, event: Json) -> None:
        piece = event.get("delta")
        if type(piece) is not str or not piece or item.final is not None:
            return
        part = (event.get("summary_index"), event.get("content_index"))
        if item.kind == "thinking" and item.part not in (None, part) and item.text:
            item.waiting.append(PARAGRAPH)
        item.part = part
        item.waiting.append(piece)

    def _whole(self, event: Json, text: Any, kind: str) -> None:
        """Take the full text of a part; add whatever its streamed pieces lack."""
        item = self._find(event, {})
        if type(text) is not str or item.final is not None:
            return
        if kind == "response.function_call_arguments.done":
            self._complete(item, text)
        elif not item.text:
            item.waiting.append(text)
        self._advance()

    def _complete(self, item: _Item, text: str) -> None:
        if text.startswith(item.text):
            item.waiting.append(text[len(item.text) :])
        else:
            self._out.fail(
                {
                    "type": "api_error",
                    "message": "the complete arguments of a call differ from the streamed ones",
                }
            )

    def _finish(self, item: _Item, value: Any) -> None:
        final = object_of(value)
        if item.final is not None:
            return
        item.final = final
        item.kind = KINDS.get(text_of(final.get("type")), item.kind)
        item.call = item.call | final
        if item.kind == "tool_use":
            self._complete(item, text_of(final.get("arguments")) or item.text)
        elif not item.text:
            item.waiting.append(_words_of(final))

    def _advance(self) -> None:
        """Open, extend and stop blocks in the order of the items."""
        while (item := self._items.get(self._passed)) is not None:
            self._forward(item)
            if item.index is None and item.final is None:
                return
            self._passed += 1
        for place in range(self._stopped, self._passed):
            self._forward(self._items[place])
        while self._stopped < self._passed and self._items[self._stopped].is_stopped:
            self._stopped += 1

    def _forward(self, item: _Item) -> None:
        if self._out.is_over or item.is_stopped:
            return
        if item.index is None and not self._open(item):
            return
        assert item.index is not None
        for piece in filter(None, item.waiting):
            item.sent.append(piece)
            if item.kind == "tool_use":
                self._out.add(item.index, "input_json_delta", "partial_json", piece)
            else:
                self._out.say(item.index, item.kind, piece)
        item.waiting.clear()
        if item.final is not None:
            item.is_stopped = True
            is_cut = item.final.get("status") == "incomplete"
            self._out.stop(item.index, [] if is_cut else [item.final])

    def _open(self, item: _Item) -> bool:
        """Open the block of an item. Return False if the item has no block, or no block yet."""
        if item.kind == "tool_use":
            if not item.call.get("name") and item.final is None:
                return False
            item.index = self._out.open_call(item.call.get("call_id"), item.call.get("name"))
        elif item.kind and any(item.waiting):
            item.index = self._out.open_words(item.kind)
        elif item.final is not None:
            item.is_stopped = True
            self._out.carry([item.final])
        return item.index is not None

    def _end(self, response: Json) -> None:
        self._begin(response)
        usage = response.get("usage")
        if type(usage) is dict:
            self._usage = read_usage(usage)
        status = response.get("status")
        if status == "failed" or type(response.get("error")) is dict:
            self._out.fail(_error_of(object_of(response.get("error"))))
            return
        for place, value in enumerate(list_of(response.get("output"))):
            if place not in self._items or self._items[place].final is None:
                # Some servers send items only here. An unfinished call must not run.
                event: Json = {"output_index": place}
                if object_of(value).get("status") in ("completed", None):
                    self._finish(self._find(event, object_of(value)), value)
        self._close_all()
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if not reason and not self._out.block_count and self._items:
            message = "the response contains only reasoning"
            self._out.fail({"type": "api_error", "message": message})
            return
        is_calling = any(item.kind == "tool_use" for item in self._items.values())
        self._stop = STOPS.get(reason, "tool_use" if is_calling else "end_turn")
        self._out.end(self._stop, self._usage)

    def _close_all(self) -> None:
        """Stop the blocks of unfinished items; they are not returned to the service."""
        for place in sorted(self._items):
            item = self._items[place]
            self._forward(item)
            if item.index is not None and not item.is_stopped:
                item.is_stopped = True
                self._out.stop(item.index, [])


class ResponsesDecoder(ConvertingDecoder):
    """A decoder that turns the bytes of a streamed response into events and faults."""

    __slots__ = ()

    def __init__(self, stamp: Stamp = NO_STAMP, *, max_event_bytes: int | None = None) -> None:
        super().__init__(ResponseEvents(stamp), max_event_bytes=max_event_bytes)


def events_of_response(body: bytes, stamp: Stamp = NO_STAMP) -> list[Json | StreamFault]:
    """Convert a complete response to the events of a stream."""
    return convert_body(body, ResponseEvents(stamp), "a response object")


def read_usage(usage: Json) -> Json:
    """Return the counts under the Messages API's names; the input excludes cached tokens."""
    details = object_of(usage.get("input_tokens_details"))
    prompt = count_of(usage.get("input_tokens"))
    read = min(count_of(details.get("cached_tokens")), prompt)
    written = min(count_of(details.get("cache_write_tokens")), prompt - read)
    counts = {
        "input_tokens": prompt - read - written,
        "cache_read_input_tokens": read,
        "output_tokens": count_of(usage.get("output_tokens")),
    }
    return counts | ({"cache_creation_input_tokens": written} if written else {})


def _type_of(kind: str) -> str:
    return next(name for name, of in KINDS.items() if of == kind)


def _error_of(error: Json) -> Json:
    """Return the error with its code as its type, because the type decides about retries."""
    message = text_of(error.get("message")) or "the service failed to respond"
    code = text_of(error.get("code"))
    return {"message": message} | ({"type": code, "code": code} if code else {})


def _words_of(item: Json) -> str:
    """Return the text of a finished message or of reasoning."""
    parts = [*list_of(item.get("summary")), *list_of(item.get("content"))]
    texts = [
        text_of(part.get("text")) or text_of(part.get("refusal"))
        for part in parts
        if type(part) is dict
    ]
    separator = PARAGRAPH if item.get("type") == "reasoning" else ""
    return separator.join(filter(None, texts))
