"""Loopback services for other wires: real HTTP, scripted answers, recorded requests.

An answer is a list of content blocks in the Messages API's format; the service renders them as its
wire does, with the secret state that its wire attaches to them. An answer can also be a status with
a body, or a function of the request's body that returns either. A service must never listen on any
address except 127.0.0.1.

    with serving_wire("responses", [{"type": "text", "text": "Hi."}]) as service:
        service.url
"""

import base64
import json
import struct
from binascii import crc32
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from clew.core.json_object import Json

EVENT_STREAM = "text/event-stream"
FRAMES = "application/vnd.amazon.eventstream"


class WireService:
    """A service that is running. `requests` contains the decoded bodies in order."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def serving_wire(wire: str, *answers: Any) -> Iterator[WireService]:
    """Run a `responses`, `gemini`, `chat`, `converse`, `messages` or `frames` service."""
    service = WireService(list(answers))
    render, media_type = RENDERERS[wire]

    class WireHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(data)
            service.raw.append(data)
            service.requests.append(body)
            service.paths.append(self.path)
            service.headers.append({k.lower(): v for k, v in self.headers.items()})
            nothing = (400, {"error": {"message": "no answers left", "type": "invalid_request"}})
            answer = service.answers.pop(0) if service.answers else nothing
            if callable(answer):
                answer = answer(body)
            if isinstance(answer, tuple):
                self._send(answer[0], "application/json", json.dumps(answer[1]).encode())
            else:
                number = len(service.requests)
                self._send(200, media_type, b"".join(render(answer, number)))

        def _send(self, status: int, media_type: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), WireHandler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def secret_of(wire: str, number: int, place: int) -> str:
    """Return the secret state that a service attaches to a block of an answer."""
    return base64.b64encode(f"secret-{wire}-{number}-{place}".encode()).decode()


def _calls(blocks: list[Json]) -> bool:
    return any(block["type"] == "tool_use" for block in blocks)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _sse(events: list[Json], *, named: bool = False) -> list[bytes]:
    return [
        (f"event: {event['type']}\n" if named else "").encode()
        + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    ]


# OpenAI's responses


def response_items(blocks: list[Json], number: int) -> list[Json]:
    """Return the output items of an answer."""
    items: list[Json] = []
    for place, block in enumerate(blocks):
        name = f"{number}_{place}"
        match block["type"]:
            case "thinking":
                texts = [block["thinking"]] if block["thinking"] else []
                items.append({
                    "id": f"rs_{name}", "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text} for text in texts],
                    "encrypted_content": secret_of("responses", number, place),
                })  # fmt: skip
            case "tool_use":
                items.append({
                    "id": f"fc_{name}", "type": "function_call", "status": "completed",
                    "call_id": block["id"], "name": block["name"],
                    "arguments": json.dumps(block["input"]),
                })  # fmt: skip
            case _:
                part = {
                    "type": "output_text",
                    "text": block["text"],
                    "annotations": [],
                    "logprobs": [],
                }
                items.append({
                    "id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed",
                    "phase": "commentary" if _calls(blocks) else "final_answer", "content": [part],
                })  # fmt: skip
    return items


def response_events(blocks: list[Json], number: int, *, model: str = "gpt-6-sol") -> list[Json]:
    """Return the events of a streamed response."""
    items = response_items(blocks, number)
    whole: Json = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": model,
        "status": "in_progress", "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "output": [], "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0,
        "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    events: list[Json] = [
        {"type": "response.created", "response": whole},
        {"type": "response.in_progress", "response": whole},
    ]
    for index, item in enumerate(items):
        events += _item_events(item, index)
    usage = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120,
    }  # fmt: skip
    done = whole | {"status": "completed", "output": items, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return [event | {"sequence_number": i} for i, event in enumerate(events)]


def _item_events(item: Json, index: int) -> list[Json]:
    at: Json = {"output_index": index, "item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            begun = item | {"summary": []}
            name, member, where = "reasoning_summary_text", "text", {"summary_index": 0}
            text = "".join(part["text"] for part in item["summary"])
        case "function_call":
            begun = item | {"arguments": "", "status": "in_progress"}
            name, member, where = "function_call_arguments", "arguments", {}
            text = item["arguments"]
        case _:
            begun = item | {"content": [], "status": "in_progress"}
            name, member, where = "output_text", "text", {"content_index": 0}
            text = item["content"][0]["text"]
    more: Json = {"logprobs": []} if name == "output_text" else {}
    whole: Json = {"name": item["name"]} if member == "arguments" else {}
    deltas: list[Json] = [
        {"type": f"response.{name}.delta", "delta": half, **at, **where, **more}
        for half in _halves(text)
    ]
    if deltas:
        deltas.append(
            {"type": f"response.{name}.done", member: text, **at, **where, **more, **whole}
        )
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _responses(blocks: list[Json], number: int) -> list[bytes]:
    return _sse(response_events(blocks, number), named=True)


# Gemini


def gemini_chunks(blocks: list[Json], number: int, *, model: str = "gemini-3-pro") -> list[Json]:
    """Return the chunks of a streamed response; the first call carries the signature."""
    chunks: list[list[Json]] = []
    is_signed = False
    for place, block in enumerate(blocks):
        secret = secret_of("gemini", number, place)
        match block["type"]:
            case "thinking":
                chunks += [[{"text": half, "thought": True}] for half in _halves(block["thinking"])]
            case "tool_use":
                call = {"id": block["id"], "name": block["name"], "args": block["input"]}
                part: Json = {"functionCall": call}
                chunks.append([part if is_signed else part | {"thoughtSignature": secret}])
                is_signed = True
            case _:
                chunks += [[{"text": half}] for half in _halves(block["text"])]
                if not _calls(blocks):
                    chunks.append([{"text": "", "thoughtSignature": secret}])
    usage = {
        "promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 15,
        "thoughtsTokenCount": 5, "totalTokenCount": 120,
    }  # fmt: skip
    out: list[Json] = []
    for place, parts in enumerate(chunks):
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
        if place == len(chunks) - 1:
            candidate["finishReason"] = "STOP"
        out.append({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": model,
            "responseId": f"gemini_{number}",
        })  # fmt: skip
    return out


def _gemini(blocks: list[Json], number: int) -> list[bytes]:
    return _sse(gemini_chunks(blocks, number))


# Chat completions


def chat_chunks(blocks: list[Json], number: int, *, model: str = "gpt-9") -> list[Json]:
    """Return the chunks of a streamed completion, with a signature at each call."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    index = 0
    for place, block in enumerate(blocks):
        match block["type"]:
            case "thinking":
                deltas += [{"reasoning_content": half} for half in _halves(block["thinking"])]
            case "tool_use":
                secret = {"google": {"thought_signature": secret_of("chat", number, place)}}
                head = {
                    "index": index,
                    "id": block["id"],
                    "type": "function",
                    "extra_content": secret,
                }
                function = {"name": block["name"], "arguments": ""}
                deltas.append({"tool_calls": [head | {"function": function}]})
                deltas += [
                    {"tool_calls": [{"index": index, "function": {"arguments": half}}]}
                    for half in _halves(json.dumps(block["input"]))
                ]
                index += 1
            case _:
                deltas += [{"content": half} for half in _halves(block["text"])]
    base: Json = {
        "id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model,
    }  # fmt: skip
    finish = "tool_calls" if index else "stop"
    usage = {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
    }  # fmt: skip
    return [
        *(
            base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ),
        base | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        base | {"choices": [], "usage": usage},
    ]


def _chat(blocks: list[Json], number: int) -> list[bytes]:
    return [*_sse(chat_chunks(blocks, number)), b"data: [DONE]\n\n"]


# AWS: frames, Converse, and the Messages API in frames


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Return one frame of AWS's event stream."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + payload
    return message + struct.pack("!I", crc32(message))


def event_frame(kind: str, payload: Json) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps(payload).encode())


def converse_events(blocks: list[Json], number: int) -> list[tuple[str, Json]]:
    """Return the events of a Converse stream, each with its type."""
    events: list[tuple[str, Json]] = [("messageStart", {"role": "assistant"})]
    for index, block in enumerate(blocks):
        at = {"contentBlockIndex": index}
        match block["type"]:
            case "thinking":
                deltas: list[Json] = [
                    {"reasoningContent": {"text": half}} for half in _halves(block["thinking"])
                ]
                secret = secret_of("converse", number, index)
                deltas.append({"reasoningContent": {"signature": secret}})
            case "tool_use":
                use = {"toolUseId": block["id"], "name": block["name"]}
                events.append(("contentBlockStart", {"start": {"toolUse": use}} | at))
                text = json.dumps(block["input"])
                deltas = [{"toolUse": {"input": half}} for half in _halves(text)]
            case _:
                deltas = [{"text": half} for half in _halves(block["text"])]
        events += [("contentBlockDelta", {"delta": delta} | at) for delta in deltas]
        events.append(("contentBlockStop", at))
    reason = "tool_use" if _calls(blocks) else "end_turn"
    usage = {
        "inputTokens": 50, "outputTokens": 20, "totalTokens": 120, "cacheReadInputTokens": 40,
        "cacheWriteInputTokens": 10,
    }  # fmt: skip
    events.append(("messageStop", {"stopReason": reason}))
    events.append(("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    return events


def _converse(blocks: list[Json], number: int) -> list[bytes]:
    return [event_frame(kind, payload) for kind, payload in converse_events(blocks, number)]


def message_events(blocks: list[Json], number: int) -> list[Json]:
    """Return an answer's events in the Messages API."""
    usage = {"input_tokens": 50, "output_tokens": 0}
    head: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    events: list[Json] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(blocks):
        empty = {"text": "", "thinking": "", "input": {}}
        start = {name: empty.get(name, value) for name, value in block.items()}
        if block["type"] == "thinking":
            start["signature"] = ""
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        match block["type"]:
            case "tool_use":
                text = json.dumps(block["input"])
                deltas: list[Json] = [{"type": "input_json_delta", "partial_json": text}]
            case "thinking":
                secret = secret_of("messages", number, index)
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": secret},
                ]
            case _:
                deltas = [{"type": "text_delta", "text": block["text"]}]
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if _calls(blocks) else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 20}})
    return [*events, {"type": "message_stop"}]


def _frames(blocks: list[Json], number: int) -> list[bytes]:
    events = message_events(blocks, number)
    return [event_frame("chunk", {"bytes": _packed(event)}) for event in events]


def _packed(event: Json) -> str:
    return base64.b64encode(json.dumps(event).encode()).decode()


def _messages(blocks: list[Json], number: int) -> list[bytes]:
    events = message_events(blocks, number)
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]


RENDERERS: dict[str, tuple[Callable[[list[Json], int], list[bytes]], str]] = {
    "responses": (_responses, EVENT_STREAM),
    "gemini": (_gemini, EVENT_STREAM),
    "chat": (_chat, EVENT_STREAM),
    "converse": (_converse, FRAMES),
    "frames": (_frames, FRAMES),
    "messages": (_messages, EVENT_STREAM),
}
