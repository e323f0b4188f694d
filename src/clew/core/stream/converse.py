"""Convert the frames of Bedrock's Converse operation to the Messages API's events.

Text and reasoning have no start event: the first delta of a block opens it. The response ends with
the metadata, which follows the stop reason.

Format: `ConverseStreamOutput` in the service model `bedrock-runtime` of botocore.
Decision: docs/decisions/331-wires.md
"""

from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.stream.aws_frames import FrameEventDecoder
from clew.core.stream.events import StreamFault, make_excerpt
from clew.core.stream.json_pieces import parse_object
from clew.core.stream.message_writer import NO_STAMP, MessageWriter, Stamp, count_of

STOPS = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "model_context_window_exceeded": "model_context_window_exceeded",
}


class ConverseEvents:
    """A converter that turns the events of one response into events of the Messages API."""

    __slots__ = ("_blocks", "_out", "_reason")

    def __init__(self, stamp: Stamp = NO_STAMP) -> None:
        self._out = MessageWriter(stamp)
        # Maps the service's index to the index in the message.
        self._blocks: dict[int, int] = {}
        self._reason = ""

    def take(self, event: Json) -> list[Json]:
        if not self._out.is_over:
            self._take(event)
        return self._out.drain()

    def done(self) -> list[Json]:
        """Return the final events for a service that sent no metadata."""
        if self._reason and not self._out.is_over:
            self._end({})
        return self._out.drain()

    def _take(self, event: Json) -> None:
        self._out.begin("", self._out.stamp.model)
        match event.get("type"):
            case "contentBlockStart":
                use = object_of(object_of(event.get("start")).get("toolUse"))
                if use:
                    index = self._out.open_call(use.get("toolUseId"), use.get("name"))
                    self._blocks[self._at(event)] = index
            case "contentBlockDelta":
                self._add(self._at(event), object_of(event.get("delta")))
            case "contentBlockStop":
                ended = self._blocks.pop(self._at(event), None)
                if ended is not None:
                    self._out.stop(ended, [])
            case "messageStop":
                self._reason = text_of(event.get("stopReason")) or "end_turn"
            case "metadata":
                self._end(object_of(event.get("usage")))

    @staticmethod
    def _at(event: Json) -> int:
        index = event.get("contentBlockIndex")
        return index if type(index) is int else 0

    def _add(self, at: int, delta: Json) -> None:
        use, reasoning = object_of(delta.get("toolUse")), object_of(delta.get("reasoningContent"))
        if "input" in use and at in self._blocks:
            self._out.add(
                self._blocks[at], "input_json_delta", "partial_json", text_of(use["input"])
            )
        elif "text" in delta:
            self._out.say(self._opened(at, "text"), "text", text_of(delta["text"]))
        elif "redactedContent" in reasoning:
            data = {"type": "redacted_thinking", "data": text_of(reasoning["redactedContent"])}
            self._blocks.setdefault(at, self._out.open(data))
        elif reasoning:
            index = self._opened(at, "thinking")
            if text := text_of(reasoning.get("text")):
                self._out.say(index, "thinking", text)
            if signature := text_of(reasoning.get("signature")):
                self._out.add(index, "signature_delta", "signature", signature)

    def _opened(self, at: int, kind: str) -> int:
        if at not in self._blocks:
            self._blocks[at] = self._out.open_words(kind)
        return self._blocks[at]

    def _end(self, usage: Json) -> None:
        for index in self._blocks.values():
            self._out.stop(index, [])
        self._blocks = {}
        counts = {
            "input_tokens": count_of(usage.get("inputTokens")),
            "output_tokens": count_of(usage.get("outputTokens")),
            "cache_read_input_tokens": count_of(usage.get("cacheReadInputTokens")),
            "cache_creation_input_tokens": count_of(usage.get("cacheWriteInputTokens")),
        }
        if self._reason not in STOPS:
            words = f"the model's response was invalid ({self._reason or 'no reason given'})"
            self._out.fail({"type": "api_error", "message": words})
            return
        self._out.end(STOPS[self._reason], counts)


class ConverseDecoder:
    """A decoder that turns the frames of a response into events and faults."""

    __slots__ = ("_events", "_frames")

    def __init__(self, stamp: Stamp = NO_STAMP, *, max_event_bytes: int | None = None) -> None:
        self._frames = FrameEventDecoder(max_frame_bytes=max_event_bytes)
        self._events = ConverseEvents(stamp)

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        return self._converted(self._frames.feed(chunk))

    def close(self) -> list[Json | StreamFault]:
        return [*self._converted(self._frames.close()), *self._events.done()]

    def _converted(self, events: list[Json | StreamFault]) -> list[Json | StreamFault]:
        out: list[Json | StreamFault] = []
        for event in events:
            out += [event] if isinstance(event, StreamFault) else self._events.take(event)
        return out


def events_of_converse(body: bytes, stamp: Stamp = NO_STAMP) -> list[Json | StreamFault]:
    """Convert a response that was not streamed to the events of a stream."""
    answer = parse_object(body)
    if isinstance(answer, StreamFault):
        return [answer]
    message = object_of(object_of(answer.get("output")).get("message"))
    if not message:
        text = "the response is not a Converse response"
        return [StreamFault(kind="malformed_event", message=text, excerpt=make_excerpt(body))]
    events = ConverseEvents(stamp)
    out: list[Json | StreamFault] = []
    for at, block in enumerate(map(object_of, list_of(message.get("content")))):
        for event in _events_of_block(block):
            out += events.take(event | {"contentBlockIndex": at})
    out += events.take({"type": "messageStop", "stopReason": answer.get("stopReason")})
    out += events.take({"type": "metadata", "usage": answer.get("usage")})
    return out


def _events_of_block(block: Json) -> list[Json]:
    """Return the events that would have streamed one block."""
    import msgspec

    deltas: list[Any] = []
    events: list[Json] = []
    if use := object_of(block.get("toolUse")):
        events.append({"type": "contentBlockStart", "start": {"toolUse": use}})
        text = msgspec.json.encode(use.get("input", {})).decode()
        deltas = [{"toolUse": {"input": text}}]
    elif reasoning := object_of(block.get("reasoningContent")):
        inner = reasoning.get("reasoningText", reasoning)
        deltas = [{"reasoningContent": inner}]
    elif "text" in block:
        deltas = [{"text": block["text"]}]
    events += [{"type": "contentBlockDelta", "delta": delta} for delta in deltas]
    return [*events, {"type": "contentBlockStop"}]
