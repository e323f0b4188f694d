"""Errors of services, in the real program: the session continues, or says why not.

The decisions themselves are in the table of `tests/providers/refused.py`.
"""

import base64
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.agent.compaction.window import SUMMARY
from tests.fronts.headless.chat_server import ChatService, chat_service, chunk, words
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.providers.refused import COMPACT, GIVE_UP, REFUSED, Refused
from tests.requirements import requirement
from tests.system.transport.servers import nobody

Json = dict[str, Any]
BY_NAME = {row.name: row for row in REFUSED}
# Too long to be kept behind a summary.
LONG = "the-north-side-is-painted;the-lamp-turns;" * 800


def chat(
    home: Path, service: ChatService, prompt: str, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (home / "work").mkdir(exist_ok=True)
    own = {"CLEW_DIALECT": "chat", "CLEW_BASE_URL": service.url, "CLEW_API_KEY": "sk-chat"}
    return subprocess.run(
        command("-p", prompt, "--model", "gpt-9", *args),
        cwd=home / "work",
        env=environment(home, "http://127.0.0.1:9") | own | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def entries(home: Path) -> list[Json]:
    (path,) = transcripts(home)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def failure(home: Path) -> Json:
    """Return the last failure in the transcript."""
    return [e for e in entries(home) if e.get("isApiErrorMessage")][-1]


def said(row: Refused) -> Any:
    """Return the chat server's answer for a row of the table."""
    if row.stream:
        return list(row.stream)
    return row.status, row.body, row.headers


def asked_for(body: Json) -> str | None:
    """Return the answers to a request for a summary, and to the prompt that fills the window."""
    *_, last = (json.dumps(m["content"]) for m in body["messages"] if m["role"] == "user")
    if "</summary>" in last:
        return SUMMARY
    return LONG if "tell me all" in last and "south side" not in last else None


FULL_WINDOWS = [
    "OpenAI: the input is too long, in the form of `responses`",
    "Gemini: the input is too long",
    "Mistral: the prompt is too long",
    "Ollama: the prompt is too long",
    "llama.cpp: the prompt is too long, with token counts",
    "LM Studio: the prompt is too long, within the stream",
    "OpenAI: one request exceeds the limit per minute",
]


@requirement("W8")
def test_a_full_window_is_compacted_however_the_service_says_it(tmp_path: Path) -> None:
    """One session is rejected with each wording, and continues after each."""
    row = BY_NAME[FULL_WINDOWS[0]]

    def service_says(body: Json) -> Any:
        if (told := asked_for(body)) is not None:
            return words(told)
        sent = json.dumps(body["messages"])
        return said(row) if LONG[:400] in sent else words("Painted.")

    with chat_service(service_says) as service:
        for name in FULL_WINDOWS:
            row = BY_NAME[name]
            assert row.then == COMPACT
            goes_on = ("--continue",) if service.requests else ()
            assert chat(tmp_path, service, "tell me all", *goes_on).returncode == 0
            before = len(service.requests)
            done = chat(tmp_path, service, "and the south side?", "--continue")
            assert done.stdout == "Painted.\n", (name, done.stderr)
            sent = [json.dumps(r["messages"]) for r in service.requests[before:]]
            assert LONG[:400] in sent[0], name
            assert LONG[:400] not in sent[-1]
            assert "lighthouse" in sent[-1], "the summary stands for what was said"
    boundaries = [e for e in entries(tmp_path) if e.get("subtype") == "compact_boundary"]
    assert len(boundaries) >= len(FULL_WINDOWS)
    assert not [e for e in entries(tmp_path) if e.get("isApiErrorMessage")]


@requirement("W8")
def test_bedrocks_wording_is_compacted_on_the_messages_wire(tmp_path: Path) -> None:
    row = BY_NAME["Bedrock: the input is too long"]

    def service_says(body: Json) -> Json:
        if (told := asked_for(body)) is not None:
            return {"text": told}
        if LONG[:400] in json.dumps(body["messages"]):
            return {"status": row.status, "body_json": row.body, "headers": dict(row.headers)}
        return {"text": "Painted."}

    args = ("--model", "opus")
    with serving(service_says, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "tell me all", *args).returncode == 0
        done = clew(tmp_path, server.url, "-p", "and the south side?", "--continue", *args)
    assert done.stdout == "Painted.\n", done.stderr
    assert [e for e in entries(tmp_path) if e.get("subtype") == "compact_boundary"]


@requirement("R076", "W7")
@pytest.mark.parametrize(
    "name",
    [
        "OpenAI: the quota is used up",
        "OpenRouter: no credit",
        "DeepSeek: no credit",
        "Moonshot: no credit",
        "Gemini: daily quota",
    ],
)
def test_without_credit_it_gives_up_at_once_and_says_so(tmp_path: Path, name: str) -> None:
    row = BY_NAME[name]
    assert row.then == GIVE_UP
    with chat_service(said(row), words("Paid.")) as service:
        done = chat(tmp_path, service, "go")
        assert (done.returncode, len(service.requests)) == (1, 1)
        assert row.why in done.stdout + done.stderr
        assert failure(tmp_path)["error"] == "billing_error"
        assert "retrying" not in done.stderr
        again = chat(tmp_path, service, "go on", "--continue")
    assert again.stdout == "Paid.\n", "the session goes on when there is credit again"


def test_no_credit_within_a_stream_ends_the_turn_with_what_came(tmp_path: Path) -> None:
    (refused,) = [said(BY_NAME["OpenAI: the quota is used up"])[1]]
    with chat_service([chunk({"content": "Half an answer"}), refused]) as service:
        done = chat(tmp_path, service, "go")
    assert (done.returncode, len(service.requests)) == (1, 1)
    assert "no credit" in done.stdout + done.stderr
    assert "Half an answer" in json.dumps(entries(tmp_path))


@requirement("R073", "R074")
@pytest.mark.parametrize(
    ("name", "at_least_s"),
    [
        ("OpenAI: rate limit, within the stream", 0.02),
        ("OpenAI: rate limit, `retry-after-ms: 250`", 0.25),
        ("OpenRouter: the upstream service failed, within the stream", 0),
        ("vLLM: server error, within the stream", 0),
        ("Mistral: the answer ends with `error`", 0),
        ("OpenAI: server error, within the stream", 0),
    ],
)
def test_what_passes_is_tried_again(tmp_path: Path, name: str, at_least_s: float) -> None:
    with chat_service(said(BY_NAME[name]), words("Whole.")) as service:
        done = chat(tmp_path, service, "go", "--output-format", "stream-json", "--verbose")
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert frames[-1]["result"] == "Whole.", done.stderr
    (retry,) = [f for f in frames if f.get("subtype") == "api_retry"]
    # What the service asks for, and up to a second of jitter.
    assert at_least_s * 1000 <= retry["retry_delay_ms"] <= at_least_s * 1000 + 1000
    assert len(service.requests) == 2
    assert "Hal" not in json.dumps([e.get("message") for e in entries(tmp_path)])


@pytest.mark.parametrize(
    ("body", "headers", "wait"),
    [
        ({"message": "Please try again in 20m0s.", "code": "rate_limit_exceeded"}, {}, 1200),
        (
            {
                "message": "Quota exceeded",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"retryDelay": "1800s"}],
            },
            {},
            1800,
        ),
        ({"message": "Slow down", "type": "rate_limit_error"}, {"retry-after": "7200"}, 7200),
    ],
)
def test_a_wait_beyond_the_budget_ends_the_turn_with_the_time_to_come_back(
    tmp_path: Path, body: Json, headers: Mapping[str, str], wait: int
) -> None:
    refused = (429, {"error": body}, headers)
    with chat_service(refused, words("Here.")) as service:
        done = chat(tmp_path, service, "go")
        assert (done.returncode, len(service.requests)) == (1, 1)
        told = re.search(
            r"requires a wait of (.+): try again at (\S+ \S+)\)", done.stdout + done.stderr
        )
        assert told is not None, done.stdout + done.stderr
        failed_at = datetime.fromisoformat(failure(tmp_path)["timestamp"]).timestamp()
        until = datetime.fromisoformat(told[2]).timestamp()
        assert -60 <= until - failed_at - wait <= 60
        assert failure(tmp_path)["error"] == "rate_limit"
        assert chat(tmp_path, service, "go on", "--continue").stdout == "Here.\n"


def overloaded(times: int) -> Callable[[Json], Json]:
    """A service that is overloaded this many times, and requests no pause."""
    left = [times]

    def says(_: Json) -> Json:
        left[0] -= 1
        if left[0] < 0:
            return {"text": "At last."}
        busy = {"type": "overloaded_error", "message": "Overloaded"}
        return {"status": 529, "error": busy, "headers": {"retry-after-ms": "1"}}

    return says


@requirement("C6")
def test_an_overload_outlasts_ten_attempts(tmp_path: Path) -> None:
    with serving(overloaded(12), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--output-format", "json")
        assert len(server.requests) == 13
    assert json.loads(done.stdout)["result"] == "At last.", done.stderr


def test_retries_that_were_asked_for_bound_an_overload(tmp_path: Path) -> None:
    bounded = environment(tmp_path, "") | {"CLEW_MAX_RETRIES": "1"}
    with serving(overloaded(12), strict=True) as server:
        bounded["ANTHROPIC_BASE_URL"] = server.url
        (tmp_path / "work").mkdir()
        done = subprocess.run(
            command("-p", "go"),
            cwd=tmp_path / "work",
            env=bounded,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert len(server.requests) == 2
    assert "529" in done.stdout + done.stderr
    assert failure(tmp_path)["errorDetails"] == "2 attempts failed"
    assert failure(tmp_path)["error"] == "overloaded"


def test_credit_for_a_shorter_answer_is_used(tmp_path: Path) -> None:
    row = BY_NAME["OpenRouter: credit for a shorter answer only"]
    with chat_service(said(row), words("Short.")) as service:
        done = chat(tmp_path, service, "go")
    assert done.stdout == "Short.\n", done.stderr
    assert service.requests[1]["max_completion_tokens"] == row.limit


def failed(home: Path) -> list[Json]:
    return [e for e in entries(home) if e.get("subtype") == "api_error"]


@requirement("R271", "R093", "R072")
def test_each_failed_request_stands_in_the_transcript_and_in_no_request(tmp_path: Path) -> None:
    busy = {"status": 503, "error": {"type": "api_error", "message": "No"}}
    answers = [
        busy | {"headers": {"retry-after-ms": "40", "request-id": "req_a"}},
        {"text": "cut", "faults": [{"after_events": 1, "cut": "close"}]},
        {"text": "At last."},
        {"status": 401, "error": {"type": "authentication_error", "message": "bad key"}},
        {"text": "Gone on."},
    ]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
        assert done.stdout == "At last.\n", done.stderr
        assert clew(tmp_path, server.url, "-p", "and?", "--continue").returncode == 1
        assert clew(tmp_path, server.url, "-p", "again", "--continue").stdout == "Gone on.\n"
        assert "bad key" not in json.dumps(server.requests[-1].body["messages"])
    refused, broken, given_up = failed(tmp_path)
    assert refused["error"]["status"] == 503
    assert refused["error"]["requestId"] == "req_a"
    assert (refused["source"], refused["retryAttempt"]) == ("request_retry", 1)
    assert 40 <= refused["retryInMs"] <= 1040
    assert refused["maxRetries"] == 10
    assert (broken["source"], broken["retryAttempt"]) == ("connection_retry", 2)
    assert broken["error"]["connection"]["code"] == "truncated"
    assert given_up["error"]["status"] == 401
    assert "retryInMs" not in given_up
    chain = [e["uuid"] for e in entries(tmp_path) if "parentUuid" in e]
    assert {e["uuid"] for e in (refused, broken, given_up)} <= set(chain)
    checked = clew(
        tmp_path, "http://127.0.0.1:9", "sessions", "check", str(transcripts(tmp_path)[0])
    )
    assert checked.returncode == 0, checked.stdout


def test_a_local_server_that_is_not_running_is_said_soon_with_what_to_do(tmp_path: Path) -> None:
    with nobody() as url:
        done = clew(tmp_path, url, "-p", "hi")
        place = url.removeprefix("http://")
        assert done.returncode == 1
        assert done.stderr.count("retrying in") == 2
        assert (
            f"{place} (Connection refused). No server is running there. Start the server"
            in done.stdout
        )
        done = clew(tmp_path, "", "-p", "hi", "--model", "ollama/x", environ={"OLLAMA_HOST": place})
        assert "Start Ollama" in done.stdout
        # Someone who set a number of retries gets them.
        done = clew(tmp_path, url, "-p", "hi", environ={"CLEW_MAX_RETRIES": "3"})
        assert done.stderr.count("retrying in") == 3


HTML = {"content-type": "text/html"}
ADVISED: list[tuple[str, Json, tuple[str, ...]]] = [
    ("a key that was revoked", {"status": 401}, ("API Error: 401", "clew login")),
    (
        "a model that does not exist",
        {"status": 404, "error": {"type": "not_found_error", "message": "model: opux"}},
        ("404 model: opux. Choose another model", "clew models"),
    ),
    (
        "an address without the API",
        {"status": 404, "body": "404 page not found"},
        ("API Error: 404 page not found. Check the base URL http://127.0.0.1", "Messages API"),
    ),
    (
        "the login page of a proxy",
        {"body": "<title>Sign in</title>", "headers": HTML},
        ("text/html instead of an API response: Sign in. Check the base URL",),
    ),
    (
        "the error page of a proxy",
        {"status": 502, "body": "<title>502 Bad Gateway</title>", "headers": HTML},
        ("API Error: 502 Bad Gateway\n",),
    ),
    (
        "bytes that mean nothing",
        {"body_base64": base64.b64encode(bytes(range(128, 256))).decode()},
        ("API response: data that is not text",),
    ),
]


@pytest.mark.parametrize(("_", "answer", "words"), ADVISED, ids=[row[0] for row in ADVISED])
def test_an_error_says_once_what_failed_and_what_to_do(
    tmp_path: Path, _: str, answer: Json, words: tuple[str, ...]
) -> None:
    with serving({"scenario": 1, "answers": [answer | {"times": "always"}]}) as server:
        done = clew(tmp_path, server.url, "-p", "hi", environ={"CLEW_MAX_RETRIES": "1"})
    assert done.returncode == 1
    for text in words:
        assert text in done.stdout
    assert "in 0 s" not in done.stderr
