"""What happens before a request is sent, as reported to the user.

Repairs, doubts, counts, charges.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew.agent.response import NOT_SENT
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
SLOW = [{"at": "headers", "stall_s": 1}]
FINE: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
AT = "2026-11-20T10:00:00.000Z"


def entry(n: int, kind: str, **message: Any) -> dict[str, Any]:
    role = {"role": kind, **message}
    if kind == "assistant":
        role |= {"id": f"msg_{n}", "model": "claude-sonnet-5-5", "type": "message"}
    return {
        "type": kind,
        "uuid": f"00000000-0000-4000-8000-{n:012x}",
        "parentUuid": f"00000000-0000-4000-8000-{n - 1:012x}" if n else None,
        "timestamp": AT,
        "sessionId": SESSION,
        "isSidechain": False,
        "requestId": f"req_{n}",
        "message": role,
    }


def left(home: Path, *entries: dict[str, Any]) -> Path:
    """A session that another program left in this folder."""
    (home / "work").mkdir()
    folder = home / "config" / "projects" / str(home / "work").replace("/", "-").replace("_", "-")
    folder.mkdir(parents=True)
    path = folder / f"{SESSION}.jsonl"
    lines = (json.dumps(e, separators=(",", ":")) + "\n" for e in entries)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def lines(home: Path, kind: str) -> list[dict[str, Any]]:
    (path,) = transcripts(home)
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [line for line in found if line["type"] == kind]


def unanswered() -> tuple[dict[str, Any], ...]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    return (
        entry(0, "user", content="look"),
        entry(1, "assistant", content=[call], usage={"input_tokens": 3, "output_tokens": 1}),
        entry(2, "user", content="never mind"),
        entry(3, "assistant", content=[{"type": "text", "text": "All right."}]),
    )


@requirement("R088", "R089", "W10", "W11")
def test_what_a_history_needed_is_said_once_and_recorded_with_its_entries(tmp_path: Path) -> None:
    left(tmp_path, *unanswered())
    with serving(FINE, strict=True) as server:
        first = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        again = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
    assert ": 1 missing tool result\n" in first.stderr
    assert (first.returncode, again.returncode, again.stderr) == (0, 0, "")
    (line,) = lines(tmp_path, "request-repairs")
    assert {
        "kind": "result_missing",
        "uuid": entry(1, "user")["uuid"],
        "detail": "toolu_1",
    } in line["repairs"]


def test_a_line_says_what_was_repaired_since_the_one_before(tmp_path: Path) -> None:
    """Otherwise, a log with one repair per answer would grow with the square of its answers."""
    rounds = [
        {"content": [{"tool": "Bash", "input": {"command": f"echo {n}"}}, "Said behind it."]}
        for n in range(3)
    ]
    plan = {"scenario": 1, "answers": [*rounds, {"text": "Fine.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        first = clew(tmp_path, server.url, "-p", "go", "--session-id", SESSION)
        told = [line["repairs"] for line in lines(tmp_path, "request-repairs")]
        on = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        again = [line["repairs"] for line in lines(tmp_path, "request-repairs")]
    assert first.stderr.count("1 tool call out of order") == 3
    assert [[repair["kind"] for repair in line] for line in told] == [["call_moved"]] * 3
    assert (on.stderr, again) == ("", told)


def test_a_terminal_says_what_was_repaired(tmp_path: Path) -> None:
    left(tmp_path, *unanswered())
    with (
        serving(FINE, strict=True) as server,
        Terminal(tmp_path, server.url, "--resume", SESSION) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("on\n")
        terminal.expect("! repaired for this request")
        terminal.expect("Fine.")


def too_large(home: Path) -> None:
    """A history that fits no request, in a folder where automatic compaction is off."""
    (home / "config").mkdir(exist_ok=True)
    settings = json.dumps({"autoCompactEnabled": False})
    (home / "config" / "settings.json").write_text(settings, "utf-8")
    word = "word " * (34 * 1024 * 1024 // 5)
    left(home, entry(0, "user", content=word))


def test_a_request_that_would_be_refused_is_held_once_and_sent_when_asked_for_again(
    tmp_path: Path,
) -> None:
    too_large(tmp_path)
    with serving(FINE) as server:
        held = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        assert (held.returncode, server.requests) == (1, [])
        assert held.stdout.startswith(f"{NOT_SENT}: messages: ")
        sent = clew(tmp_path, server.url, "-p", "on, I said", "--resume", SESSION)
        assert "clew: request sent, but the API may reject it\n" in sent.stderr
        assert server.requests


def test_a_terminal_says_that_a_request_is_held(tmp_path: Path) -> None:
    too_large(tmp_path)
    with (
        serving(FINE) as server,
        Terminal(tmp_path, server.url, "--resume", SESSION) as terminal,
    ):
        terminal.expect(" more characters)")
        terminal.type("on\n")
        terminal.expect("! Request not sent; the API would reject it: messages: ")


def test_a_prompt_that_fits_into_no_request_never_joins_a_conversation(tmp_path: Path) -> None:
    with serving(FINE) as server:
        done = clew(tmp_path, server.url, "-p", input="x" * (17 * 1024 * 1024))
        assert (done.returncode, server.requests) == (2, [])
    assert "16,777,216" in done.stderr
    assert transcripts(tmp_path) == []


@requirement("W19")
@pytest.mark.parametrize("counted", [199_500, 180_000])
def test_close_to_the_limit_the_service_counts_before_a_request_leaves(
    tmp_path: Path, counted: int
) -> None:
    usage = {"input_tokens": 190_000, "output_tokens": 10}
    plan = {
        "scenario": 1,
        "answers": [{"text": "Long.", "usage": usage}, {"text": "Fine.", "times": "always"}],
        "count_tokens": [{"input_tokens": counted}, {"input_tokens": 900, "times": "always"}],
    }
    with serving(plan, strict=True) as server:
        model = ("--model", "claude-haiku-4-5")
        # Long enough that a summary makes the conversation smaller.
        long = "go on" + " and on" * 10_000
        clew(tmp_path, server.url, "-p", long, *model, "--session-id", SESSION)
        done = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        asked = [request.target.partition("?")[0] for request in server.requests][1:]
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert "/v1/messages/count_tokens" in asked
    assert ("compacting the conversation" in done.stderr) is (counted == 199_500)


def test_an_answer_gets_the_room_that_is_left_where_nothing_may_be_summarised(
    tmp_path: Path,
) -> None:
    usage = {"input_tokens": 190_000, "output_tokens": 10}
    plan = {
        "scenario": 1,
        "answers": [{"text": "Long.", "usage": usage}, {"text": "Fine.", "times": "always"}],
        "count_tokens": [{"input_tokens": 180_000, "times": "always"}],
    }
    args = ("--model", "claude-haiku-4-5", "--settings", '{"autoCompactEnabled": false}')
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", *args, "--session-id", SESSION)
        done = clew(tmp_path, server.url, "-p", "on", *args, "--resume", SESSION)
        body = server.requests[-1].body
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert body["max_tokens"] == 200_000 - 180_000 - 1_000


@requirement("R007", "W17")
def test_every_response_leaves_what_it_cost_and_how_long_it_took_withdrawn_ones_too(
    tmp_path: Path,
) -> None:
    broken = {
        "content": ["This is cut before its block ends."],
        "usage": {"input_tokens": 40},
        "faults": [{"after_events": 3, "cut": "close"}],
    }
    plan = {"scenario": 1, "answers": [broken, {"text": "Fine.", "usage": {"input_tokens": 50}}]}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--output-format", "json")
        cost = clew(tmp_path, server.url, "cost", "--json", "--by", "purpose")
        turns = clew(tmp_path, server.url, "cost", "--by", "turn")
    assert len(server.requests) == 2
    costs = lines(tmp_path, "request-cost")
    assert [(c["purpose"], c["usage"]["input_tokens"]) for c in costs] == [
        ("withdrawn", 40),
        ("turn", 50),
    ]
    assert all(c["durationMs"] >= 0 and c["costUSD"] > 0 for c in costs)
    said = json.loads(done.stdout)
    assert said["modelUsage"]["claude-sonnet-5-5"]["inputTokens"] == 90
    by = json.loads(cost.stdout)["by"]["purpose"]
    assert {row["name"] if "name" in row else row["purpose"] for row in by} == {"withdrawn", "turn"}
    (path,) = transcripts(tmp_path)
    assert f"{path.stem[:8]} 1" in turns.stdout


def test_a_title_is_in_the_total_but_not_in_the_usage_of_the_turn(tmp_path: Path) -> None:
    def says(body: dict[str, Any]) -> dict[str, Any]:
        is_title = "You write titles" in json.dumps(body.get("system", ""))
        if is_title:
            return {"text": "Holes", "usage": {"input_tokens": 1000}}
        # The turn ends after the title was charged.
        return {"text": "Mended.", "usage": {"input_tokens": 10}, "faults": SLOW}

    with serving(says) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        host.say("find the holes in the net, please")
        host.ask("generate_session_title", description="find the holes in the net")
        said = host.result()
    assert said["usage"]["input_tokens"] == 10
    assert sum(row["inputTokens"] for row in said["modelUsage"].values()) == 1010


@requirement("R108")
def test_the_list_of_things_to_do_outlives_its_run(tmp_path: Path) -> None:
    def plan(status: str) -> dict[str, Any]:
        todos = [{"content": "Look", "status": status, "activeForm": "Looking"}]
        return {"tool": "TodoWrite", "input": {"todos": todos}}

    answers = [
        {"content": [plan("pending")]},
        {"text": "Planned."},
        {"content": [plan("in_progress")]},
        {"text": "Going on."},
    ]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "plan", "--session-id", SESSION)
        clew(tmp_path, server.url, "-p", "go on", "--resume", SESSION)
    results = [e["toolUseResult"] for e in lines(tmp_path, "user") if "toolUseResult" in e]
    assert results[1]["oldTodos"] == results[0]["newTodos"]
    assert results[1]["oldTodos"][0]["status"] == "pending"


def test_what_a_change_costs_in_cache_is_said_before_it_is_sent(tmp_path: Path) -> None:
    usage = {"input_tokens": 10_000, "output_tokens": 10}
    plan = {"scenario": 1, "answers": [{"text": "Fine.", "usage": usage, "times": "always"}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--session-id", SESSION)
        other = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION, "--model", "opus")
        words = ("--append-system-prompt", "Rhyme.")
        rhymed = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION, *words)
        as_before = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION, *words)
        models = [request.body["model"] for request in server.requests]
    assert other.stderr.startswith(
        "clew: the model changed since the last request, so the prompt cache can't be used: about 10,010 "
    )
    assert "instead of $" in other.stderr
    assert rhymed.stderr.startswith("clew: the instructions changed since the last request")
    assert as_before.stderr == ""
    assert models[1:] == [models[1]] * 3


def test_where_no_prompt_can_be_kept_the_model_is_not_said_to_be_another(tmp_path: Path) -> None:
    """The log of such a session has no instructions.

    The answers name another model than requested.
    """
    usage = {"input_tokens": 10_000, "output_tokens": 10}
    answer = {"text": "Fine.", "usage": usage, "model": "corp-large", "times": "always"}
    own = tmp_path / "config" / "clew"
    own.mkdir(parents=True)
    (own / "prompts").write_text("in the way", "utf-8")
    with serving({"scenario": 1, "answers": [answer]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--session-id", SESSION)
        again = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        other = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION, "--model", "opus")
    assert not lines(tmp_path, "prompt-hashes")
    assert again.stderr == ""
    assert other.stderr.startswith("clew: the model changed since the last request")


def test_a_gateway_that_signs_with_another_name_changes_no_model(tmp_path: Path) -> None:
    usage = {"input_tokens": 10_000, "output_tokens": 10}
    answer = {"text": "Fine.", "usage": usage, "model": "corp-large", "times": "always"}
    with serving({"scenario": 1, "answers": [answer]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--session-id", SESSION)
        again = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        other = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION, "--model", "opus")
        as_before = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        asked = [request.body["model"] for request in server.requests]
    assert (again.stderr, as_before.stderr) == ("", "")
    assert other.stderr.startswith("clew: the model changed since the last request")
    assert asked[:2] == [asked[0]] * 2
    assert asked[2:] == [asked[2]] * 2
    entries = lines(tmp_path, "assistant")
    assert [e["requestedModel"] for e in entries] == asked
    assert {e["message"]["model"] for e in entries} == {"corp-large"}
    # What a session of before knows is who signed: that is said once.
    (log,) = transcripts(tmp_path)
    old = re.sub(rb',?"requestedModel":"[^"]*"', b"", log.read_bytes())
    log.write_bytes(old)
    with serving({"scenario": 1, "answers": [answer]}, strict=True) as server:
        first, second = (
            clew(tmp_path, server.url, "-p", "on", "--resume", SESSION).stderr for _ in "ab"
        )
    assert first.startswith("clew: the model changed since the last request")
    assert second == ""
