"""Convert chat completions, as streamed by OpenAI and many others, to the Messages API's events.

All responses then follow one path to a message, with the same checks and IDs. Calls stay open until
the response ends: their pieces may be interleaved, and only the end makes them complete. Data
that must be returned to a service unchanged (signatures, encrypted reasoning, its own text) is
collected as parts of an assistant message, the `origin` of each block; `merge_parts` in
`core.normalize.dialects` combines them again.

Services differ; each deviation handled here has an example stream in
`tests/core/stream/odd_chats.py`.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from typing import Any

import msgspec

from clew.core.catalog.quirks import THOUGHTS
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.stream.converting import ConvertingDecoder, convert_body
from clew.core.stream.events import StreamFault
from clew.core.stream.json_pieces import parse_object
from clew.core.stream.message_writer import NO_STAMP, MessageWriter, Stamp, count_of

STOPS = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "model_context_window_exceeded": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "sensitive": "refusal",
}
# Finish reasons of responses that failed: OpenRouter and Mistral (`error`), DeepSeek, Z.ai.
FAILED = frozenset({"error", "insufficient_system_resource", "network_error"})
_NOT_OF_A_CALL = frozenset({"index", "id", "type", "function"})
# Members of a detail of OpenRouter's `reasoning_details` that are sent in pieces.
_DETAIL_TEXTS = ("text", "summary", "data")


class _Call:
    """A tool call whose pieces are still arriving. `index` is the index of its block, once open."""

    __slots__ = ("arguments", "call_id", "extra", "index", "name", "sent")

    def __init__(self) -> None:
        self.index: int | None = None
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []
        # How many pieces of the arguments were passed on.
        self.sent = 0
        self.extra: Json = {}

    def is_whole(self) -> bool:
        """Return whether the arguments so far are a complete object."""
        return not isinstance(parse_object("".join(self.arguments).encode()), StreamFault)

    def as_item(self) -> Json:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        call: Json = {"id": self.call_id, "type": "function", "function": function}
        return {"tool_calls": [call | self.extra]}


class _Words:
    """A block of text or thinking in progress, and the form in which the service sends it."""

    __slots__ = ("field", "index", "kind", "pieces", "signature")

    def __init__(self, kind: str, index: int, field: str) -> None:
        self.kind = kind
        self.index = index
        self.field = field
        self.pieces: list[str] = []
        self.signature: Json = {}

    def as_item(self) -> Json:
        """Return the block as a field of the service's message.

        Mistral expects `content` to be a list of chunks.
        """
        words = "".join(self.pieces)
        if self.field != "chunks":
            return {self.field: words}
        text = {"type": "text", "text": words}
        chunk = text if self.kind == "text" else {"type": "thinking", "thinking": [text]}
        return {"content": [chunk | self.signature]}


class ChatEvents:
    """A converter that turns the chunks of one response into events and ignores invalid chunks."""

    __slots__ = ("_calls", "_details", "_out", "_places", "_stop", "_usage", "_words")

    def __init__(self, stamp: Stamp = NO_STAMP) -> None:
        self._out = MessageWriter(stamp)
        self._words: _Words | None = None
        self._calls: list[_Call] = []
        # The latest call at each index or under each ID that the service uses.
        self._places: dict[object, _Call] = {}
        self._details: list[Json] = []
        self._stop: str | None = None
        self._usage: Json = {}

    @property
    def is_whole(self) -> bool:
        """True if the service has sent a finish reason."""
        return self._stop is not None

    def take(self, chunk: Json) -> list[Json]:
        self._take(chunk)
        return self._out.drain()

    def _take(self, chunk: Json) -> None:
        if self._out.is_over:
            return
        choice = _first(chunk.get("choices"))
        if (error := _error(chunk, choice)) is not None:
            self._out.fail(error)
            return
        for usage in (
            chunk.get("usage"),
            choice.get("usage"),
            object_of(chunk.get("x_groq")).get("usage"),
        ):
            if type(usage) is dict and usage:
                self._usage = read_usage(usage)
        if not choice and not self._usage:
            return  # Azure's first chunk has neither an ID nor a model.
        self._out.begin(chunk.get("id"), chunk.get("model"))
        if self._stop is not None:
            return
        delta = object_of(choice.get("delta"))
        if not any(delta.values()) and not self._out.block_count:
            # A final chunk may repeat the complete message; use it only if nothing was streamed.
            delta = object_of(choice.get("message")) or delta
        self._delta(delta)
        reason = choice.get("finish_reason")
        if type(reason) is str and reason:
            self._finish(reason)

    def done(self) -> list[Json]:
        """Return the final events, or none if the finish reason is missing.

        The response may then be incomplete.
        """
        if self._stop is not None:
            self._out.end(self._stop, self._usage)
        return self._out.drain()

    def _delta(self, delta: Json) -> None:
        details = [d for d in list_of(delta.get("reasoning_details")) if type(d) is dict]
        field = next((name for name in THOUGHTS if text_of(delta.get(name))), None)
        if field is not None:
            self._say("thinking", field, delta[field])
        else:
            for detail in details:
                self._say("thinking", "", detail.get("text") or detail.get("summary"))
        for detail in details:
            self._detail(detail)
        content = delta.get("content")
        if type(content) is list:
            for chunk in content:
                self._chunk(object_of(chunk))
        else:
            self._say("text", "content", content)
        self._say("text", "content", delta.get("refusal"))
        if type(delta.get("extra_content")) is dict:
            self._out_of_words({"extra_content": delta["extra_content"]})
        for place, call in enumerate(list_of(delta.get("tool_calls"))):
            self._call(object_of(call), place)
        if type(delta.get("function_call")) is dict:
            self._call({"index": "function_call", "function": delta["function_call"]}, 0)

    # Text and thinking

    def _say(self, kind: str, field: str, value: Any) -> None:
        if type(value) is not str or not value:
            return
        words = self._words
        if words is None or words.kind != kind:
            self._close_words()
            words = self._words = _Words(kind, self._out.open_words(kind), field)
        elif field == "chunks" or not words.field:
            words.field = field
        words.pieces.append(value)
        self._out.say(words.index, kind, value)

    def _chunk(self, chunk: Json) -> None:
        """Process one chunk of a content list: text, or thinking in Mistral's format."""
        if chunk.get("type") != "thinking":
            self._say("text", "chunks", chunk.get("text"))
            return
        thoughts = chunk.get("thinking")
        pieces = [thoughts] if type(thoughts) is str else list_of(thoughts)
        for piece in pieces:
            self._say("thinking", "chunks", piece if type(piece) is str else _text(piece))
        words = self._words
        if words is not None and words.kind == "thinking" and text_of(chunk.get("signature")):
            words.signature = {"signature": chunk["signature"]}

    def _detail(self, detail: Json) -> None:
        """Add a piece of OpenRouter's `reasoning_details` to the detail that it continues."""
        last = self._details[-1] if self._details else {}
        same = all(last.get(name) == detail.get(name) for name in ("type", "index"))
        if not last or not same or (detail.get("id") and detail["id"] != last.get("id")):
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in _DETAIL_TEXTS and type(value) is str:
                value = text_of(last.get(name)) + value
            if value is not None:
                last[name] = value

    def _out_of_words(self, item: Json) -> None:
        """Store a part that belongs to the message and not to a block of text or thinking."""
        self._details.append(item)

    def _take_details(self) -> list[Json]:
        """Return the parts that no block has taken yet."""
        details, self._details = self._details, []
        plain = [d for d in details if "extra_content" in d]
        listed = [d for d in details if "extra_content" not in d]
        return [*([{"reasoning_details": listed}] if listed else []), *plain]

    def _close_words(self) -> None:
        words, self._words = self._words, None
        if words is not None:
            own = [words.as_item()] if words.field else []
            self._out.stop(words.index, [*own, *self._take_details()])

    # Tool calls

    def _call(self, piece: Json, place: int) -> None:
        function = object_of(piece.get("function"))
        number = piece.get("index")
        call_id, name = text_of(piece.get("id")), text_of(function.get("name"))
        # Servers that do not number calls send each in one piece, with or without an ID.
        key = number if type(number) in (int, str) else (call_id or place)
        call = self._places.get(key)
        if call is None or _is_another(call, call_id, name, function.get("arguments")):
            call = self._places[key] = _Call()
            self._calls.append(call)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        call.extra |= {k: v for k, v in piece.items() if k not in _NOT_OF_A_CALL and v is not None}
        arguments = function.get("arguments")
        if type(arguments) is dict:
            arguments = msgspec.json.encode(arguments).decode()
        if type(arguments) is str and arguments:
            call.arguments.append(arguments)
        if call.name:
            self._send(call)

    def _send(self, call: _Call) -> None:
        """Emit the known parts of a call."""
        if call.index is None:
            self._close_words()
            call.index = self._out.open_call(call.call_id, call.name)
        for piece in call.arguments[call.sent :]:
            self._out.add(call.index, "input_json_delta", "partial_json", piece)
        call.sent = len(call.arguments)

    def _finish(self, reason: str) -> None:
        stop = STOPS.get(reason.lower(), reason)
        self._stop = "tool_use" if stop == "end_turn" and self._calls else stop
        self._close_words()
        for call in self._calls:
            self._send(call)
            assert call.index is not None
            self._out.stop(call.index, [*self._take_details(), call.as_item()])
        self._out.carry(self._take_details())


def _is_another(call: _Call, call_id: str, name: str, arguments: Any) -> bool:
    """Return whether a piece begins another call at the same index.

    Ollama before 0.20.5 numbers all calls 0, and some servers omit IDs as well.
    """
    if not name:
        return False
    if call_id and call.call_id:
        return call_id != call.call_id and bool(call.name)
    return bool(arguments) and bool(call.name) and bool(call.arguments) and call.is_whole()


def _error(chunk: Json, choice: Json) -> Json | None:
    """Return the error that a chunk reports, or None."""
    error = chunk.get("error") or choice.get("error")
    if not error and chunk.get("object") == "error":
        error = {name: value for name, value in chunk.items() if name != "object"}
    reason = choice.get("finish_reason")
    if not error and type(reason) is str and reason in FAILED:
        message = "the service ended its response with an error"
        error = {"type": "api_error", "message": message}
    if not error:
        return None
    return error if type(error) is dict else {"message": error}


class ChatDecoder(ConvertingDecoder):
    """A decoder that turns the bytes of a streamed chat completion into events and faults."""

    __slots__ = ()

    def __init__(self, stamp: Stamp = NO_STAMP, *, max_event_bytes: int | None = None) -> None:
        super().__init__(ChatEvents(stamp), max_event_bytes=max_event_bytes)


def events_of_completion(body: bytes, stamp: Stamp = NO_STAMP) -> list[Json | StreamFault]:
    """Convert a complete chat completion to the events of a stream."""
    return convert_body(body, ChatEvents(stamp), "a chat completion")


def read_usage(usage: Json) -> Json:
    """Return the counts under the Messages API's names; the input excludes cached tokens."""
    prompt = count_of(usage.get("prompt_tokens"))
    details = object_of(usage.get("prompt_tokens_details"))
    # DeepSeek and Moonshot have their own members for tokens that were read from the cache.
    read = (
        count_of(details.get("cached_tokens"))
        or count_of(usage.get("prompt_cache_hit_tokens"))
        or count_of(usage.get("cached_tokens"))
    )
    read = min(read, prompt)
    written = min(count_of(details.get("cache_write_tokens")), prompt - read)
    counts = {
        "input_tokens": prompt - read - written,
        "cache_read_input_tokens": read,
        "output_tokens": count_of(usage.get("completion_tokens")),
    }
    return counts | ({"cache_creation_input_tokens": written} if written else {})


def _first(choices: Any) -> Json:
    """Return the choice with index 0; clew requests only one."""
    for choice in choices if type(choices) is list else ():
        if type(choice) is dict and choice.get("index") in (0, None):
            return choice
    return {}


def _text(part: Any) -> str:
    return text_of(part.get("text")) if type(part) is dict else ""
