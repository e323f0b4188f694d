"""A loopback service for chat completions, which rejects what OpenAI's service would reject."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any

from clew.core.normalize.dialects import openai_faults

Json = dict[str, Any]
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ChatService:
    """`answers` in their order, each a list of chunks, or a status and a body, perhaps with headers;
    or a function of the request's body that gives one. `requests` as they came."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-9",
        "choices": [choice],
        **more,
    }


def words(text: str) -> list[Json]:
    usage = {
        "prompt_tokens": 1200,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 1000},
    }
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in text.split(" ")),
        chunk({}, "stop"),
        chunk({}) | {"choices": [], "usage": usage},
    ]


def calls(*wanted: tuple[str, str, Json], saying: str = "") -> list[Json]:
    """Calls whose arguments arrive in interleaved pieces."""
    begun = [
        {"index": i, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        for i, (call_id, name, _) in enumerate(wanted)
    ]
    texts = [json.dumps(given) for _, _, given in wanted]
    halves = [
        {"index": i, "function": {"arguments": part}}
        for cut in (slice(0, 5), slice(5, None))
        for i, text in enumerate(texts)
        if (part := text[cut])
    ]
    return [
        chunk({"reasoning_content": "Hm."}),
        *([chunk({"content": saying})] if saying else []),
        *(chunk({"tool_calls": [one]}) for one in [*begun, *halves]),
        chunk({}, "tool_calls"),
    ]


def refusal(body: Json) -> str:
    """Return what the service would reject in a request."""
    wrong = [str(one) for one in openai_faults(body)]
    known = {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "max_completion_tokens",
        "reasoning_effort",
        "stop",
        "response_format",
    }
    wrong += [
        f"Unrecognized request argument supplied: {name}" for name in body if name not in known
    ]
    return "; ".join(wrong)


@contextmanager
def chat_service(*answers: Any) -> Iterator[ChatService]:
    service = ChatService(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.paths.append(self.path)
            service.requests.append(body)
            service.headers.append({k.lower(): v for k, v in self.headers.items()})
            wrong = refusal(body)
            rule = service.answers[0] if callable(service.answers[0]) else None
            answer = service.answers.pop(0) if rule is None else rule(body)
            if wrong:
                answer = (400, {"error": {"message": wrong, "type": "invalid_request_error"}})
            if isinstance(answer, tuple):
                status, said, *headers = answer
                self.send(status, "application/json", json.dumps(said).encode(), *headers)
            elif body.get("stream"):
                lines = [f"data: {json.dumps(one)}\n\n".encode() for one in answer]
                self.send(200, "text/event-stream", b"".join([*lines, b"data: [DONE]\n\n"]))

        def send(
            self, status: int, kind: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS
        ) -> None:
            self.send_response(status)
            for name, said in headers.items():
                self.send_header(name, said)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
