"""A real server on this machine: llama.cpp's, with a model that is a transition table.

clew runs tool turns against it over each of its three wires. What the server sent is recorded on the
way, and read by this test alone: no call may be lost, doubled or without a result. `make e2e-local`
builds the server once.
"""

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from scripts.llama_server import SERVER

from tests.fronts.headless.clew_process import command, environment, transcripts, until
from tests.providers.table_model import ANSWER, END, write_model

pytestmark = [pytest.mark.e2e, pytest.mark.local, pytest.mark.timeout(1800)]
TURNS = int(os.environ.get("CLEW_LOCAL_TURNS", "200"))
FILES = 20
TEMPLATE = """\
{%- if tools %}<|system|>Tools:{% for tool in tools %} {{ tool | tojson }}{% endfor %}<|end|>
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}<|answer|>
{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}<|end|>
{%- else %}<|{{ message.role }}|>{{ message.content }}<|end|>
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}<|answer|>{% endif %}"""
THOUGHT, TEXT, LAST = "<think>I should look.</think>", "I look. ", "That is all."


def make_table() -> dict[str, dict[str, float]]:
    """The model thinks or not, says something or not, and calls once, twice or not at all."""
    calls = {
        f'<tool_call>{{"name": "Read", "arguments": {{"file_path": "{n}.txt"}}}}</tool_call>': 1.0
        for n in range(FILES)
    }
    call = dict.fromkeys(calls, 0.85 / FILES)
    begin = call | {LAST: 0.15}
    table = {
        ANSWER: {THOUGHT: 0.4, TEXT: 0.2} | {name: 0.4 * share for name, share in begin.items()},
        THOUGHT: {TEXT: 0.3} | {name: 0.7 * share for name, share in begin.items()},
        TEXT: begin,
        LAST: {END: 1.0},
    }
    again = dict.fromkeys(calls, 0.3 / FILES) | {END: 0.7}
    return table | dict.fromkeys(calls, again)


def find_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    folder = tmp_path_factory.mktemp("llama")
    write_model(folder / "table.gguf", make_table(), template=TEMPLATE)
    port = find_port()
    args = (
        "--model", str(folder / "table.gguf"), "--port", str(port), "--host", "127.0.0.1",
        "--jinja", "--ctx-size", "65536", "--parallel", "1", "--threads", "1",
        "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--no-warmup",
        "--repeat-penalty", "1",
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SERVER, *args], stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text("utf-8", "replace")[-2000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        until(is_ready, within_s=60)
        yield url
    finally:
        process.kill()
        process.wait()


class Witness:
    """A proxy that keeps what the server sent."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.answers: list[tuple[int, bytes]] = []

    @property
    def events(self) -> list[list[dict[str, Any]]]:
        """The events of each answer."""
        return [
            [
                json.loads(line.removeprefix(b"data: "))
                for line in data.split(b"\n")
                if line.startswith(b"data: {")
            ]
            for _, data in self.answers
        ]


@contextmanager
def witnessing(target: str) -> Iterator[Witness]:
    witness = Witness()

    class WitnessHandler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            witness.requests.append(json.loads(body))
            head = {"Content-Type": "application/json"}
            asked = urllib.request.Request(target + self.path, data=body, headers=head)
            data = b""
            try:
                answer = urllib.request.urlopen(asked, timeout=120)
            except urllib.error.HTTPError as refused:
                answer = refused
            with answer:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.end_headers()
                while piece := answer.read1(65536):
                    data += piece
                    self.wfile.write(piece)
                    self.wfile.flush()
            witness.answers.append((answer.status, data))

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), WitnessHandler)
    witness.url = f"http://127.0.0.1:{proxy.server_port}"
    thread = Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield witness
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


def calls_in(wire: str, events: list[dict[str, Any]]) -> list[str]:
    """Return the arguments of the calls in an answer, by the wire's own rules."""
    calls: dict[Any, str] = {}
    for event in events:
        match wire:
            case "messages" if event.get("type") == "content_block_start":
                if event["content_block"]["type"] == "tool_use":
                    calls[event["index"]] = ""
            case "messages" if event.get("delta", {}).get("type") == "input_json_delta":
                calls[event["index"]] += event["delta"]["partial_json"]
            case "chat":
                for choice in event.get("choices", ()):
                    for call in choice["delta"].get("tool_calls", ()):
                        text = call.get("function", {}).get("arguments", "")
                        calls[call["index"]] = calls.get(call["index"], "") + text
            case "responses" if event.get("type") == "response.output_item.done":
                if event["item"]["type"] == "function_call":
                    calls[len(calls)] = event["item"]["arguments"]
    return [json.loads(text)["file_path"] for text in calls.values()]


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
def test_turns_with_tools_against_a_real_server(
    server: str, tmp_path: Path, wire: str, record_property: Any
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(FILES):
        (work / f"{number}.txt").write_text(f"content of {number}\n", "utf-8")
    with witnessing(server) as witness:
        mine = {"like": "llamacpp", "wire": wire, "url": witness.url, "key": "env:MINE"}
        settings = {"services": {"mine": mine}, "models": {"mine/table": {"contextWindow": 65536}}}
        bare = {k: v for k, v in environment(tmp_path, "").items() if "ANTHROPIC" not in k}

        def say(*args: str) -> None:
            done = subprocess.run(
                command("-p", "Look.", "--model", "mine/table", "--tools", "Read",
                        "--system-prompt", "You look.", "--settings", json.dumps(settings), *args),
                cwd=work, env=bare | {"MINE": "key-0123456789"}, stdin=subprocess.DEVNULL,
                capture_output=True, encoding="utf-8", timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout.strip().endswith(LAST)

        sent: list[list[str]] = []
        prompts = 0
        while sum(map(bool, sent)) < TURNS:
            # Some conversations go on for a while, so that requests have a long history.
            say(*(["--continue"] if prompts % 8 else []))
            prompts += 1
            sent = [calls_in(wire, events) for events in witness.events]
    assert {status for status, _ in witness.answers} == {200}
    made, answered = [], set()
    for path in transcripts(tmp_path):
        entries = [json.loads(line) for line in path.read_bytes().splitlines()]
        for entry in entries:
            content = entry.get("message", {}).get("content", ())
            for block in content if isinstance(content, list) else ():
                if block["type"] == "tool_use":
                    made.append(Path(block["input"]["file_path"]).name)
                elif block["type"] == "tool_result":
                    assert not block.get("is_error"), block
                    answered.add((path.name, block["tool_use_id"]))
    assert sorted(made) == sorted(name for calls in sent for name in calls)
    assert len(answered) == len(made)
    assert any(len(calls) > 1 for calls in sent)
    checked = subprocess.run(
        command("sessions", "check"), cwd=work, env=bare, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    record_property(f"tool turns over {wire}", sum(map(bool, sent)))
