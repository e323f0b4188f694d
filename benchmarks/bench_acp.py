"""clew in an editor: the time of `initialize`, and the delay until text reaches the editor.

Both are wall times: the first from the start of the process, the second from the moment at which a
service on loopback sends the bytes. The peer of the first is a bare interpreter.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fronts.editor.editor import Editor, words
from tests.fronts.headless.clew_process import command, environment

from benchmarks.measure import Figure, process
from clew.testing.server import serving

RUNS = 9
PIECES = 60


def initialize_s(home: Path) -> float:
    """Return the time from the start of the process to the answer."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    begin = time.perf_counter()
    with subprocess.Popen(
        command("acp"),
        cwd=home,
        env=environment(home, "http://127.0.0.1:1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps(asked).encode() + b"\n")
        running.stdin.flush()
        answer = json.loads(running.stdout.readline())
        took = time.perf_counter() - begin
        running.stdin.close()
    assert answer["result"]["protocolVersion"] == 1
    return took


class Service:
    """A Messages API that sends one piece of text at a time and records when."""

    def __init__(self) -> None:
        import socket

        self.sent: list[float] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: Any) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = peer.recv(1 << 16)
            if not data:
                return
            head += data
        head, _, body = head.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        while len(body) < length:
            body += peer.recv(1 << 16)
        peer.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )
        for number, event in enumerate(events()):
            is_piece = event["type"] == "content_block_delta"
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            if is_piece:
                threading.Event().wait(0.02)  # so that each piece arrives separately
                self.sent.append(time.perf_counter())
            peer.sendall(data)
            assert number >= 0
        peer.close()


def events() -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    more = {"model": "claude-sonnet-4-5", "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": message | more}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for number in range(PIECES):
        delta = {"type": "text_delta", "text": f"piece {number} "}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": PIECES}}
    yield {"type": "message_stop"}


def late_s(home: Path) -> list[float]:
    """Return the delay between the service and the editor for each piece of text."""
    service = Service()
    heard: list[float] = []
    with Editor(home, service.url) as editor:

        def note(update: dict[str, Any]) -> None:
            if update["sessionUpdate"] == "agent_message_chunk":
                heard.append(time.perf_counter())

        editor.on_update = note
        editor.initialize()
        editor.ask("session/prompt", sessionId=editor.new(), prompt=[words("talk")])
        editor.end()
    assert len(heard) == len(service.sent) == PIECES, (len(heard), len(service.sent))
    return sorted(end - begin for begin, end in zip(service.sent, heard, strict=True))


def first_answer_s(home: Path) -> float:
    """Return the time from requesting a session until it accepts prompts."""
    with serving({"scenario": 1, "answers": []}) as server, Editor(home, server.url) as editor:
        editor.initialize()
        begin = time.perf_counter()
        editor.new()
        return time.perf_counter() - begin


def figures() -> Iterator[Figure]:
    bare = process([sys.executable, "-c", "pass"])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        began = min(initialize_s(home) for _ in range(RUNS))
        yield Figure(
            name="clew acp answers initialize, wall",
            value=began * 1000,
            unit="ms",
            at_most=150,
            note=f"a bare interpreter: {bare.wall_s * 1000:.0f} ms",
        )
        late = late_s(home)
        yield Figure(
            name="text reaches the editor after clew, median",
            value=late[len(late) // 2] * 1000,
            unit="ms",
            at_most=5,
            note=f"95 of 100: {late[len(late) * 95 // 100] * 1000:.1f} ms; loopback and both processes",
        )
        begun = min(first_answer_s(home) for _ in range(3))
        yield Figure(name="session/new, wall", value=begun * 1000, unit="ms")
