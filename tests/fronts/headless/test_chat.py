"""A chat completions service, used by the real program from the prompt to tool calls and back."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.chat_server import ChatService, calls, chat_service, chunk, words
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

KEY = "sk-chat-0123456789"


def chat(
    home: Path, service: ChatService, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (home / "work").mkdir(exist_ok=True)
    own = {"CLEW_DIALECT": "chat", "CLEW_BASE_URL": service.url, "CLEW_API_KEY": KEY}
    return subprocess.run(
        command("-p", "go", "--model", "gpt-9", *args),
        cwd=home / "work",
        env=environment(home, "http://127.0.0.1:9") | own | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def entries(home: Path) -> list[dict[str, Any]]:
    (path,) = transcripts(home)
    return entries_of(path)


def entries_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_turn_with_tools_goes_through_chat_completions(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n", "utf-8")
    (tmp_path / "work" / "b.txt").write_text("beta\n", "utf-8")
    wanted = calls(
        ("call_a", "Read", {"file_path": "a.txt"}),
        ("call_b", "Read", {"file_path": "b.txt"}),
        saying="I look.",
    )
    with chat_service(wanted, words("Alpha and beta.")) as service:
        done = chat(tmp_path, service, "--output-format", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["result"] == "Alphaandbeta."
    assert said["usage"]["input_tokens"] == 200
    assert said["usage"]["cache_read_input_tokens"] == 1000
    assert service.paths == ["/v1/chat/completions"] * 2
    (first, second) = service.headers
    assert first["authorization"] == f"Bearer {KEY}"
    assert not {"x-api-key", "anthropic-version", "anthropic-beta"} & set(first)
    assert "sk-ant" not in json.dumps([first, second])
    *_, answer, one, two = service.requests[1]["messages"]
    assert answer["content"] == "I look."
    assert [call["id"] for call in answer["tool_calls"]] == ["call_a", "call_b"]
    assert (one["role"], one["tool_call_id"]) == ("tool", "call_a")
    assert "alpha" in one["content"]
    assert "beta" in two["content"]
    assert "Hm." not in json.dumps(service.requests[1]), "thoughts have no place there"
    thoughts = [e for e in entries(tmp_path) if "Hm." in json.dumps(e)]
    assert thoughts, "and stay in the log"
    before, after = (request["messages"] for request in service.requests)
    assert after[: len(before)] == before, "the first request is the beginning of the second"


def test_a_session_goes_from_one_dialect_to_the_other_and_back(tmp_path: Path) -> None:
    wanted = calls(("call_a", "Bash", {"command": "echo from-chat"}))
    with chat_service(wanted, words("Done.")) as service:
        assert chat(tmp_path, service).returncode == 0
    plan = {"scenario": 1, "answers": [{"text": "I see."}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "and now", "--continue", "--model", "opus")
    assert done.stdout == "I see.\n", done.stderr
    assert "from-chat" in json.dumps(server.requests[0].body["messages"])
    with chat_service(words("Again.")) as service:
        done = chat(tmp_path, service, "--continue")
    assert done.stdout == "Again.\n", done.stderr
    sent = json.dumps(service.requests[0]["messages"])
    assert "from-chat" in sent
    assert "I see." in sent


@requirement("R265")
def test_an_image_by_reference_is_kept_and_sent_as_one_by_either_dialect(tmp_path: Path) -> None:
    address = "https://example.org/a.png"
    asked = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "url", "url": address}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    ]
    with serving({"scenario": 1, "answers": [{"text": "Seen."}]}, strict=True) as server:
        with Hosted(tmp_path, server.url) as host:
            host.say(asked)
            assert host.result()["result"] == "Seen."
            assert host.end() == 0
        sent = json.dumps(server.requests[0].body["messages"])
    assert address in sent
    assert "file_1" in sent
    (line,) = [e for e in entries(tmp_path) if address in json.dumps(e) and e["type"] == "user"]
    assert line["message"]["content"][1:] == asked[1:], "the log holds the references"
    with chat_service(words("Again.")) as service:
        assert chat(tmp_path, service, "--continue").stdout == "Again.\n"
    said = json.dumps(service.requests[0]["messages"])
    assert json.dumps({"type": "image_url", "image_url": {"url": address}}) in said
    assert "file_1" not in said
    assert "is not shown" in said, "a file of another service cannot be had there"


def test_what_a_service_signed_returns_to_it_alone(tmp_path: Path) -> None:
    """Through a call, a kill between two runs, a fork, and another service in between."""
    signed = calls(
        ("call_a", "Bash", {"command": "echo one"}), ("call_b", "Bash", {"command": "echo two"})
    )
    for part in signed:
        for call in part["choices"][0]["delta"].get("tool_calls", []):
            if "id" in call:
                call["extra_content"] = {"google": {"thought_signature": "c2lnbmVk"}}
    with chat_service(signed, words("Done."), words("Again."), words("Fork.")) as service:
        assert chat(tmp_path, service).returncode == 0
        assert chat(tmp_path, service, "--continue").returncode == 0
        assert chat(tmp_path, service, "--continue", "--fork-session").returncode == 0
    own = [next(m for m in r["messages"] if m.get("tool_calls")) for r in service.requests[1:]]
    assert json.dumps(own[0]).count("c2lnbmVk") == 2
    assert own[0] == own[1] == own[2], "the same bytes in each request"
    with chat_service(words("Other.")) as other:
        (path, *_) = transcripts(tmp_path)
        done = chat(tmp_path, other, "--resume", path.stem)
        assert done.returncode == 0, done.stderr
    assert "c2lnbmVk" not in json.dumps(other.requests)
    records = [e["origin"] for e in entries_of(path) if e["type"] == "assistant"]
    assert {record["wire"] for record in records} == {"chat"}
    assert all(
        "c2lnbmVk" not in json.dumps(e["message"]) for e in entries_of(path) if "message" in e
    )


def test_a_whole_address_is_taken_as_it_is(tmp_path: Path) -> None:
    with chat_service(words("Yes.")) as service:
        address = f"{service.url}/v1beta/openai/chat/completions"
        done = chat(tmp_path, service, CLEW_BASE_URL=address)
    assert done.stdout == "Yes.\n", done.stderr
    assert service.paths == ["/v1beta/openai/chat/completions"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), "Incorrect API key"),
        ((404, {"error": {"message": "The model gpt-9 does not exist"}}), "does not exist"),
        ((400, {"error": {"message": "no", "code": "unsupported_value"}}), "400 no"),
    ],
)
def test_a_refusal_is_said_in_the_services_words(tmp_path: Path, answer: Any, says: str) -> None:
    with chat_service(answer) as service:
        done = chat(tmp_path, service)
    assert done.returncode == 1
    assert says in done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr


def test_an_answer_that_is_cut_is_asked_for_again(tmp_path: Path) -> None:
    with chat_service([chunk({"content": "Hal"})], words("Whole.")) as service:
        done = chat(tmp_path, service, CLEW_RETRY_BUDGET_MS="60000")
    assert done.stdout == "Whole.\n", done.stderr
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"CLEW_BASE_URL": ""}, "CLEW_BASE_URL must be set"),
        ({"CLEW_DIALECT": "chatt"}, "must be one of messages, chat, responses"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_sent(
    tmp_path: Path, variables: dict[str, str], says: str
) -> None:
    with chat_service() as service:
        done = chat(tmp_path, service, **variables)
    assert done.returncode == 1
    assert says in done.stdout + done.stderr
    assert service.requests == []


def test_thinking_blocks_that_no_wire_takes_back_are_no_repair(tmp_path: Path) -> None:
    rounds = [calls((f"call_{n}", "Bash", {"command": f"echo {n}"})) for n in range(3)]
    with chat_service(*rounds, words("Done.")) as service:
        done = chat(tmp_path, service)
    assert (done.returncode, done.stderr) == (0, "")
    kinds = {entry["type"] for entry in entries(tmp_path)}
    assert "request-repairs" not in kinds
    told = [entry for entry in entries(tmp_path) if "Hm." in json.dumps(entry.get("message"))]
    assert len(told) == 3
