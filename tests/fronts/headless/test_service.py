"""Variables and settings about the service apply in a session of the real program."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.requirements import requirement

HELLO: dict[str, Any] = {"text": "Hello!", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}


def settings(**values: Any) -> str:
    return json.dumps(values)


def test_a_model_of_ones_own_is_asked_and_priced(tmp_path: Path) -> None:
    mine = {"mine": {"like": "sonnet", "aliases": ["my"], "price": {"input": 2.5, "output": 8}}}
    with serving({"scenario": 1, "answers": [HELLO]}, strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "hi", "--model", "my", "--output-format", "json",
            "--settings", settings(models=mine),
        )  # fmt: skip
        assert server.requests[0].body["model"] == "mine"
    assert json.loads(done.stdout)["total_cost_usd"] == 2.5
    said = [json.loads(line) for line in transcripts(tmp_path)[0].read_text("utf-8").splitlines()]
    assert [e["costUSD"] for e in said if e["type"] == "request-cost"] == [2.5]


def test_a_model_of_ones_own_is_known_to_reports_and_to_a_session_that_continues(
    tmp_path: Path,
) -> None:
    mine = {"mine": {"like": "sonnet", "aliases": ["my"], "price": {"input": 2.5, "output": 8}}}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text(settings(models=mine), "utf-8")
    with serving({"scenario": 1, "answers": [HELLO, HELLO]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "hi", "--model", "my")
        clew(tmp_path, server.url, "-p", "again", "--continue")
        assert {request.body["model"] for request in server.requests} == {"mine"}
        told = json.loads(clew(tmp_path, server.url, "cost", "--json").stdout)
    assert float(told["total"]["costUSD"]) == 5.0


def test_a_model_that_cannot_be_read_is_said_and_the_others_stand(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": [HELLO]}) as server:
        done = clew(
            tmp_path, server.url, "-p", "hi",
            "--settings", settings(models={"mine": {"contextWidow": 1}}, effortLevel="huge"),
        )  # fmt: skip
    assert done.stdout == "Hello!\n"
    assert "models.mine: Object contains unknown field `contextWidow`" in done.stderr
    assert "effort must be one of low" in done.stderr


def test_effort_and_the_room_for_an_answer_are_in_the_request(tmp_path: Path) -> None:
    wanted = {"CLEW_EFFORT": "low", "CLEW_MAX_OUTPUT_TOKENS": "9000", "CLEW_DISABLE_CACHE": "1"}
    with serving({"scenario": 1, "answers": [HELLO]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "hi", "--settings", settings(env=wanted))
        body = server.requests[0].body
    assert body["output_config"]["effort"] == "low"
    assert body["max_tokens"] == 9000
    assert "cache_control" not in json.dumps(body)


@requirement("R071", "C5", "C6")
def test_the_limits_of_patience_and_the_attempts_are_those_of_the_variables(tmp_path: Path) -> None:
    silent = {"text": "x", "faults": [{"at": "headers", "stall_s": "forever"}], "times": "always"}
    patience = {"CLEW_BYTES_TIMEOUT_MS": "300", "CLEW_MAX_RETRIES": "1", "CLEW_WAIT_HINT_MS": "100"}
    with serving({"scenario": 1, "answers": [silent]}) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--settings", settings(env=patience))
        assert len(server.requests) == 2
    assert done.returncode == 1
    assert "no data received for 0.3 s, not even response headers" in done.stderr


def test_a_stream_longer_than_was_allowed_is_given_up(tmp_path: Path) -> None:
    long = {"text": "word " * 5000, "times": "always"}
    with serving({"scenario": 1, "answers": [long]}) as server:
        done = clew(
            tmp_path, server.url, "-p", "hi",
            "--settings", settings(env={"CLEW_MAX_ANSWER_BYTES": "9000", "CLEW_MAX_RETRIES": "0"}),
        )  # fmt: skip
    assert "the response is larger than 9000 bytes" in done.stderr
