"""Why the prompt cache missed.

Requested, recorded with the answer, and reported by the real program.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY

Json = dict[str, Any]
ASKING = json.dumps({"cacheDiagnostics": True})
FULL = {"cache_creation_input_tokens": 40_000}
MISSED = {"cache_creation_input_tokens": 41_000}
TOOLS_CHANGED = {
    "cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 40_000}
}


def misses_then(diagnostics: Any, **more: Any) -> Callable[[Json], Json]:
    """A service whose cache is filled by the first request and misses each later one."""

    def answer(body: Json) -> Json:
        if all(message["role"] != "assistant" for message in body["messages"]):
            return {"text": "One.", "usage": FULL, "message": {"diagnostics": None}}
        return {"text": "Two.", "usage": MISSED, "message": {"diagnostics": diagnostics}, **more}

    return answer


def entries(home: Path, kind: str = "assistant") -> list[Json]:
    (path,) = transcripts(home)
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [entry for entry in found if entry["type"] == kind]


def test_each_request_names_the_answer_before_and_the_reason_is_recorded(tmp_path: Path) -> None:
    with serving(misses_then(TOOLS_CHANGED), strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--settings", ASKING)
        done = clew(
            tmp_path, server.url, "-p", "two", "-c", "--settings", ASKING,
            "--output-format", "json",
        )  # fmt: skip
        asked = [request.body["diagnostics"] for request in server.requests]
        first, second = entries(tmp_path)
        assert asked == [
            {"previous_message_id": None},
            {"previous_message_id": first["message"]["id"]},
        ]
    assert second["message"]["diagnostics"] == TOOLS_CHANGED
    assert second["cacheMiss"]["reason"] == "tools_changed"
    assert second["cacheMiss"]["tokens"] == 40_000
    (told,) = json.loads(done.stdout)["cache_misses"]
    assert told == second["cacheMiss"]
    assert told["extraCostUSD"] > 0
    assert "cacheMiss" not in first


def test_another_endpoint_is_not_asked_unless_the_settings_say_so(tmp_path: Path) -> None:
    with serving(misses_then(None), strict=True) as server:
        clew(tmp_path, server.url, "-p", "one")
        assert "diagnostics" not in server.requests[0].body


def test_a_gateway_that_refuses_the_question_is_asked_once_and_never_again(tmp_path: Path) -> None:
    def gateway(body: Json) -> Json:
        if "diagnostics" in body:
            words = "diagnostics: Extra inputs are not permitted"
            return {"status": 400, "error": {"type": "invalid_request_error", "message": words}}
        return {"text": "Fine."}

    with serving(gateway) as server:
        for _ in range(2):
            done = clew(tmp_path, server.url, "-p", "hi", "--settings", ASKING)
            assert (done.stdout, done.stderr) == ("Fine.\n", "")
        assert [(r.status, "diagnostics" in r.body) for r in server.requests] == [
            (400, True),
            (200, False),
            (200, False),
        ]
        kept = json.loads((tmp_path / "config" / "clew" / "api-versions.json").read_text("utf-8"))
        assert list(kept[server.url]) == ["refusedDiagnostics"]


def test_a_host_changes_the_model_and_the_costs_say_why_the_cache_missed(tmp_path: Path) -> None:
    """Without a word of the service: the record of both requests says what changed."""
    with (
        serving(misses_then(None), strict=True) as server,
        Hosted(tmp_path, server.url, "--model", "sonnet") as host,
    ):
        host.say("one")
        host.result()
        host.ask("set_model", model="haiku")
        host.say("two")
        (told,) = host.result()["cache_misses"]
        assert told["reason"] == "model_changed"
        assert told["changed"] == "the model changed from claude-sonnet-5-5 to claude-haiku-5-5"
        shown = host.ask("get_session_cost")["response"]
        assert shown["cacheMisses"] == [told]


def test_the_terminal_says_in_cost_what_changed(tmp_path: Path) -> None:
    with (
        serving(misses_then(TOOLS_CHANGED), strict=True) as server,
        OnScreen(tmp_path, server.url, "--settings", ASKING, columns=140) as screen,
    ):
        screen.expect(READY)
        screen.type("one\r")
        screen.expect("One.")
        screen.type("two\r")
        screen.expect("Two.")
        screen.expect_rest()
        screen.type("/cost\r")
        screen.expect("Cache misses")
        screen.expect("1 request, 40,000 tokens not read from the cache; $")
        screen.expect("the tools changed (40,000 tokens, $")


def test_the_costs_of_sessions_tell_their_misses(tmp_path: Path) -> None:
    with serving(misses_then(TOOLS_CHANGED), strict=True) as server:
        clew(tmp_path, server.url, "-p", "one", "--settings", ASKING)
        clew(tmp_path, server.url, "-p", "two", "-c", "--settings", ASKING)
        shown = clew(tmp_path, server.url, "cost").stdout
        told = json.loads(clew(tmp_path, server.url, "cost", "--json").stdout)
    assert "Prompt cache misses: 1 request, 40,000 tokens not read from the cache; $" in shown
    assert "the tools changed" in shown
    assert [miss["reason"] for miss in told["cacheMisses"]] == ["tools_changed"]
