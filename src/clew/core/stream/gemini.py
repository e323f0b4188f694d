"""Convert the chunks of a Gemini response to the Messages API's events.

Consecutive parts of one kind become one block, whose `origin` is these parts, unchanged: a thought
signature stays with the part that contained it. A part of an unknown kind belongs to the block
that is open, or else to the next one.

Format: the type `GenerateContentResponse` in the `google-genai` package.
Decision: docs/decisions/331-wires.md
"""

from typing import Any

import msgspec

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.stream.converting import ConvertingDecoder, convert_body
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import NO_STAMP, MessageWriter, Stamp, count_of

# Finish reasons after which the same request may succeed.
FAILED_REASONS = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "OTHER",
    }
)
REFUSED_REASONS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
    }
)


class GeminiEvents:
    """A converter that turns the chunks of one response into events of the Messages API."""

    __slots__ = ("_call_count", "_has_words", "_index", "_kind", "_out", "_parts", "_reason",
                 "_usage", "_why")  # fmt: skip

    def __init__(self, stamp: Stamp = NO_STAMP) -> None:
        self._out = MessageWriter(stamp)
        # The open block, its kind, and its parts so far.
        self._index: int | None = None
        self._kind = ""
        self._parts: list[Json] = []
        self._call_count = 0
        self._has_words = False
        # Why the response ended, once the service has reported it, and the service's explanation.
        self._reason = ""
        self._why = ""
        self._usage: Json = {}

    @property
    def is_whole(self) -> bool:
        return bool(self._reason)

    def take(self, chunk: Json) -> list[Json]:
        if not self._out.is_over:
            self._take(chunk)
        return self._out.drain()

    def done(self) -> list[Json]:
        if self._reason and not self._out.is_over:
            self._end()
        return self._out.drain()

    def _take(self, chunk: Json) -> None:
        if "error" in chunk:
            self._out.fail(_error_of(object_of(chunk["error"])))
            return
        usage = chunk.get("usageMetadata")
        if type(usage) is dict:
            self._usage = read_usage(usage)
        candidates = list_of(chunk.get("candidates"))
        candidate = object_of(candidates[0]) if candidates else {}
        feedback = object_of(chunk.get("promptFeedback"))
        if candidate or feedback:
            self._out.begin(chunk.get("responseId"), chunk.get("modelVersion"))
        if (blocked := text_of(feedback.get("blockReason"))) and not candidate:
            self._reason = "SAFETY"
            self._why = f"the service blocked the request ({blocked})"
        for part in list_of(object_of(candidate.get("content")).get("parts")):
            if type(part) is dict:
                self._add(part)
        if reason := text_of(candidate.get("finishReason")):
            self._reason = reason
            self._why = text_of(candidate.get("finishMessage"))

    def _add(self, part: Json) -> None:
        call, text = part.get("functionCall"), part.get("text")
        if type(call) is dict:
            self._close()
            self._kind, self._parts = "tool_use", [part]
            self._index = self._out.open_call(call.get("id"), call.get("name"))
            self._call_count += 1
            arguments = msgspec.json.encode(object_of(call.get("args"))).decode()
            self._out.add(self._index, "input_json_delta", "partial_json", arguments)
        elif type(text) is str and text:
            kind = "thinking" if part.get("thought") is True else "text"
            if kind != self._kind:
                self._close()
                self._kind, self._index = kind, self._out.open_words(kind)
            assert self._index is not None
            self._has_words = self._has_words or kind == "text"
            self._parts.append(part)
            self._out.say(self._index, kind, text)
        elif self._index is not None:
            self._parts.append(part)
        else:
            self._out.carry([part])

    def _close(self) -> None:
        if self._index is not None:
            self._out.stop(self._index, self._parts)
        self._index, self._kind, self._parts = None, "", []

    def _end(self) -> None:
        self._close()
        if self._reason in FAILED_REASONS:
            self._fail(f"the response ended with {self._reason}")
        elif self._reason in REFUSED_REASONS:
            self._out.end("refusal", self._usage)
        elif self._reason == "MAX_TOKENS":
            self._out.end("max_tokens", self._usage)
        elif self._call_count:
            self._out.end("tool_use", self._usage)
        elif self._has_words:
            self._out.end("end_turn", self._usage)
        else:
            self._fail("the response contains neither text nor a tool call")

    def _fail(self, message: str) -> None:
        text = f"{message}: {self._why}" if self._why else message
        self._out.fail({"type": "api_error", "message": text})


class GeminiDecoder(ConvertingDecoder):
    """A decoder that turns the bytes of a streamed response into events and faults."""

    __slots__ = ()

    def __init__(self, stamp: Stamp = NO_STAMP, *, max_event_bytes: int | None = None) -> None:
        super().__init__(GeminiEvents(stamp), max_event_bytes=max_event_bytes)


def events_of_gemini(body: bytes, stamp: Stamp = NO_STAMP) -> list[Json | StreamFault]:
    """Convert a complete response to the events of a stream."""
    return convert_body(body, GeminiEvents(stamp), "a response with candidates")


def read_usage(usage: Json) -> Json:
    """Return the counts under the Messages API's names; the input excludes cached tokens."""
    prompt = count_of(usage.get("promptTokenCount"))
    read = min(count_of(usage.get("cachedContentTokenCount")), prompt)
    tools = count_of(usage.get("toolUsePromptTokenCount"))
    answer = count_of(usage.get("candidatesTokenCount"))
    return {
        "input_tokens": prompt - read + tools,
        "cache_read_input_tokens": read,
        "output_tokens": answer + count_of(usage.get("thoughtsTokenCount")),
    }


def _error_of(error: Json) -> Json:
    """Return the error with its status as its type, because the type decides about retries."""
    kind: Any = text_of(error.get("status")) or error.get("code")
    message = text_of(error.get("message")) or "the service failed to respond"
    return error | {"message": message} | ({"type": str(kind)} if kind else {})
