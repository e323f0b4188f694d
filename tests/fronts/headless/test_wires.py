"""Each wire in the real program: thinking, parallel calls, images, a kill, and another service."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from clew.testing.wires import WireService, secret_of, serving_wire
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.wire_judges import JUDGES, history, own_parts

KEY = "sk-wire-0123456789"
SECRET = secret_of("", 0, 0)[:8]
WIRES = {"responses": "gpt-6-sol", "chat": "gpt-9", "gemini": "gemini-3-pro"}
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
CALLS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "I look at both."},
    {"type": "text", "text": "Looking."},
    {"type": "tool_use", "id": "call_a1", "name": "Read", "input": {"file_path": "a.txt"}},
    {"type": "tool_use", "id": "call_b2", "name": "Read", "input": {"file_path": "p.png"}},
    {"type": "tool_use", "id": "call_c3", "name": "Read", "input": {"file_path": "missing.txt"}},
]


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def variables(wire: str, service: WireService) -> dict[str, str]:
    return {
        "CLEW_DIALECT": wire,
        "CLEW_BASE_URL": service.url,
        "CLEW_API_KEY": KEY,
        "CLEW_MODEL": WIRES[wire],
    }


def run(
    home: Path, wire: str, service: WireService, *args: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("-p", *args),
        cwd=home / "work",
        env=environment(home, "http://127.0.0.1:9") | variables(wire, service),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("wire", WIRES)
def test_a_wire_from_prompt_to_tools_and_through_a_kill_and_another_service(
    tmp_path: Path, wire: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("alpha\n", "utf-8")
    (work / "p.png").write_bytes(PNG)
    killed = threading.Event()

    def until_killed(_: Any) -> Any:
        killed.wait(30)
        return words("Never seen.")

    with serving_wire(wire, CALLS, until_killed, words("Alpha."), words("Again.")) as service:
        with subprocess.Popen(
            command("-p", "go"),
            cwd=work,
            env=environment(tmp_path, "http://127.0.0.1:9") | variables(wire, service),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as first:
            until(lambda: len(service.requests) == 2)
            first.kill()
        killed.set()
        done = run(tmp_path, wire, service, "and now", "--continue", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["result"] == "Alpha."
        # Gemini does not report cache writes.
        assert result["usage"]["input_tokens"] == (60 if wire == "gemini" else 50)
        assert result["usage"]["cache_read_input_tokens"] == 40
        assert result["usage"]["output_tokens"] == 20
        if wire in JUDGES:
            assert [JUDGES[wire](body) for body in service.requests] == [[]] * 3
        one, two, three = service.requests
        sent = json.dumps(two)
        assert "alpha" in sent
        assert "Error" in sent or "is_error" in sent or '"error"' in sent, "a failure is said"
        assert KEY not in sent
        assert "iVBOR" in json.dumps(three), "the image goes along"
        assert history(wire, two)[: len(history(wire, one))] == history(wire, one)
        assert history(wire, three)[: len(history(wire, two))] == history(wire, two), "a prefix"
        own = own_parts(wire, two)
        assert secret_of(wire, 1, 0) in json.dumps(own) or secret_of(wire, 1, 2) in json.dumps(own)
        assert own_parts(wire, three)[: len(own)] == own, "the service gets its own words back"

        plan = {"scenario": 1, "answers": [{"text": "I see."}]}
        with serving(plan, strict=True) as server:
            other = clew(tmp_path, server.url, "-p", "you", "--continue", "--model", "opus")
            assert other.stdout == "I see.\n", other.stderr
        assert SECRET not in json.dumps(server.requests[0].body)
        assert "Alpha." in json.dumps(server.requests[0].body)

        done = run(tmp_path, wire, service, "back", "--continue", "--model", WIRES[wire])
        assert done.stdout == "Again.\n", done.stderr
        four = service.requests[3]
        assert history(wire, four)[: len(history(wire, three))] == history(wire, three)
        assert own_parts(wire, four)[: len(own)] == own
        assert "I see." in json.dumps(four)
    (path,) = transcripts(tmp_path)
    for line in path.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("type") == "assistant" and "origin" in entry:
            assert SECRET not in json.dumps(entry["message"])
