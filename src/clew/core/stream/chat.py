"""Convert chat completions, as streamed by OpenAI and many others, to the Messages API's events.

All responses then follow one path to a message, with the same checks and IDs. Calls stay open until
the response ends: their pieces may be interleaved, and only the end makes them complete.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from typing import Any

import msgspec

from clew.core.json_object import Json, object_of
from clew.core.stream.events import StreamFault, make_excerpt
from clew.core.stream.json_pieces import parse_object
from clew.core.stream.sse import SseDecoder

DONE = b"[DONE]"
STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
# OpenRouter and Mistral use this finish reason for a response that failed: see OpenRouter's
# streaming errors, and CompletionResponseStreamChoiceFinishReason in the `mistralai` package.
FAILED = "error"
# The fields that servers use for a model's thinking.
THOUGHTS = ("reasoning_content", "reasoning")
_HEAD_BYTES = 800


class ChatEvents:
    """A converter that turns the chunks of one response into events and ignores invalid chunks."""

    __slots__ = ("_calls", "_growing", "_is_over", "_next", "_started", "_stop", "_usage")

    def __init__(self) -> None:
        self._started = False
        self._is_over = False
        # The type and index of the open text or thinking block.
        self._growing: tuple[str, int] | None = None
        self._calls: dict[object, int] = {}
        self._next = 0
        self._stop: str | None = None
        self._usage: Json = {}

    @property
    def is_whole(self) -> bool:
        """True if the service has sent a finish reason."""
        return self._stop is not None

    def take(self, chunk: Json) -> list[Json]:
        if self._is_over:
            return []
        choice = _first(chunk.get("choices"))
        error = chunk.get("error") or choice.get("error")
        if not error and choice.get("finish_reason") == FAILED:
            error = {"type": "api_error", "message": "the service ended its response with an error"}
        if error:
            self._is_over = True
            return [
                {"type": "error", "error": error if type(error) is dict else {"message": error}}
            ]
        usage = chunk.get("usage")
        if type(usage) is dict:
            self._usage = _usage(usage)
        events = [] if self._started else [self._start(chunk)]
        if self._stop is not None:
            return events
        delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
        for name in THOUGHTS:
            events += self._words("thinking", "thinking_delta", delta.get(name))
        events += self._words("text", "text_delta", _text(delta.get("content")))
        events += self._words("text", "text_delta", delta.get("refusal"))
        calls = delta.get("tool_calls")
        for place, call in enumerate(calls if type(calls) is list else ()):
            events += self._call(object_of(call), place)
        reason = choice.get("finish_reason")
        return [*events, *self._finish(reason)] if type(reason) is str else events

    def done(self) -> list[Json]:
        """Return the final events, or none if the finish reason is missing.

        The response may then be incomplete.
        """
        if self._stop is None or self._is_over:
            return []
        self._is_over = True
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        return [
            {"type": "message_delta", "delta": delta, "usage": self._usage},
            {"type": "message_stop"},
        ]

    def _start(self, chunk: Json) -> Json:
        self._started = True
        message: Json = {
            "id": chunk.get("id") or "",
            "type": "message",
            "role": "assistant",
            "model": chunk.get("model") or "",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return {"type": "message_start", "message": message}

    def _words(self, kind: str, delta: str, value: Any) -> list[Json]:
        if type(value) is not str or not value:
            return []
        events: list[Json] = []
        if self._growing is None or self._growing[0] != kind:
            events = self._close_words()
            block: Json = {"type": kind, kind: ""}
            if kind == "thinking":
                block["signature"] = ""
            events.append(self._open(block))
            self._growing = (kind, self._next - 1)
        _, index = self._growing
        piece = {"type": delta, kind: value}
        return [*events, {"type": "content_block_delta", "index": index, "delta": piece}]

    def _open(self, block: Json) -> Json:
        self._next += 1
        return {
            "type": "content_block_start",
            "index": self._next - 1,
            "content_block": block,
        }

    def _close_words(self) -> list[Json]:
        if self._growing is None:
            return []
        _, index = self._growing
        self._growing = None
        return [{"type": "content_block_stop", "index": index}]

    def _call(self, call: Json, place: int) -> list[Json]:
        function = object_of(call.get("function"))
        number = call.get("index")
        # Servers that do not number calls send each in one piece, with or without an ID.
        key = number if type(number) is int else (call.get("id") or place)
        events: list[Json] = []
        if key not in self._calls:
            block: Json = {
                "type": "tool_use",
                "id": call.get("id") or "",
                "name": function.get("name") or "",
                "input": {},
            }
            events = [*self._close_words(), self._open(block)]
            self._calls[key] = self._next - 1
        arguments = function.get("arguments")
        if type(arguments) is dict:
            arguments = msgspec.json.encode(arguments).decode()
        if type(arguments) is str and arguments:
            delta = {"type": "input_json_delta", "partial_json": arguments}
            index = self._calls[key]
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        return events

    def _finish(self, reason: str) -> list[Json]:
        stop = STOPS.get(reason, reason)
        self._stop = "tool_use" if stop == "end_turn" and self._calls else stop
        stops = [{"type": "content_block_stop", "index": i} for i in self._calls.values()]
        return [*self._close_words(), *stops]


class ChatDecoder:
    """A decoder that turns the bytes of a streamed chat completion into events and faults."""

    __slots__ = ("_any_event", "_events", "_head", "_sse")

    def __init__(self, *, max_event_bytes: int | None = None) -> None:
        self._sse = SseDecoder(max_event_bytes=max_event_bytes)
        self._events = ChatEvents()
        self._any_event = False
        self._head = b""

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        if not self._any_event:
            self._head = (self._head + chunk[:_HEAD_BYTES])[:_HEAD_BYTES]
        out: list[Json | StreamFault] = []
        for event in self._sse.feed(chunk):
            self._any_event = True
            if isinstance(event, StreamFault):
                out.append(event)
            elif event.data.strip() == DONE:
                out += self._events.done()
            elif event.data.strip():
                value = parse_object(event.data)
                out += [value] if isinstance(value, StreamFault) else self._events.take(value)
        return out

    def close(self) -> list[Json | StreamFault]:
        """Handle the end of the bytes; some servers omit the `[DONE]` marker."""
        faults = [event for event in self._sse.close() if isinstance(event, StreamFault)]
        if self._events.is_whole:
            return list[Json | StreamFault](self._events.done())
        if self._any_event or not self._head:
            return list[Json | StreamFault](faults)
        message = "the response is not an event stream"
        return [StreamFault(kind="no_message", message=message, excerpt=make_excerpt(self._head))]


def events_of_completion(body: bytes) -> list[Json | StreamFault]:
    """Convert a complete chat completion to the events of a stream."""
    value = parse_object(body)
    if isinstance(value, StreamFault):
        return [value]
    events = ChatEvents()
    first_events = events.take(value)
    if not events.is_whole and first_events[0]["type"] != "error":
        message = "the response is not a chat completion"
        return [StreamFault(kind="malformed_event", message=message, excerpt=make_excerpt(body))]
    return [*first_events, *events.done()]


def _usage(usage: Json) -> Json:
    """Return the counts under the Messages API's names; the input excludes cached tokens."""
    prompt, cached = _count(usage.get("prompt_tokens")), 0
    details = usage.get("prompt_tokens_details")
    if type(details) is dict:
        cached = min(_count(details.get("cached_tokens")), prompt)
    return {
        "input_tokens": prompt - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(usage.get("completion_tokens")),
    }


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _first(choices: Any) -> Json:
    """Return the choice with index 0; clew requests only one."""
    for choice in choices if type(choices) is list else ():
        if type(choice) is dict and choice.get("index") in (0, None):
            return choice
    return {}


def _text(content: Any) -> Any:
    """Return content as text; some servers send the text as a list of parts."""
    if type(content) is not list:
        return content
    texts = [part.get("text") for part in content if type(part) is dict]
    return "".join(text for text in texts if type(text) is str)
