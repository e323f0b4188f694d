"""`clew cost` as a process, over sessions of real runs, compared with the server's own numbers."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.requirements import requirement

NOWHERE = "http://127.0.0.1:9"
SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"
FIRST = {"input_tokens": 10, "output_tokens": 7, "cache_creation_input_tokens": 4000}
SECOND = {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 4000}
THIRD = {"input_tokens": 1, "output_tokens": 1}
PLAN = {
    "scenario": 1,
    "answers": [
        {
            "content": [
                "I look.",
                {"tool": "Bash", "input": {"command": "echo one"}},
                {"tool": "Glob", "input": {"pattern": "*"}},
            ],
            "usage": FIRST,
        },
        {"text": "Done.", "usage": SECOND},
        {"text": "More.", "usage": THIRD, "times": "always"},
    ],
}
KEYS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreation5mInputTokens",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with two sessions: one with tool calls, and one with another model."""
    with serving(PLAN, strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "look", "--model", SONNET, "--allowedTools", "Bash(echo:*)"
        )
        clew(tmp_path, server.url, "-p", "more", "--model", HAIKU)
        assert len(server.requests) == 3
    return tmp_path


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def cost(home: Path, *args: str) -> dict[str, Any]:
    done = clew(home, NOWHERE, "cost", "--json", *args)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout, parse_float=Decimal)
    return said


def summed(*usages: dict[str, int]) -> dict[str, int]:
    return {name: sum(usage.get(key, 0) for usage in usages) for key, name in KEYS.items()}


def tokens(said: dict[str, Any]) -> dict[str, int]:
    return {name: said[name] for name in KEYS.values()}


@requirement("R110", "R113", "W13")
def test_the_total_is_what_the_server_counted_and_every_table_adds_up_to_it(home: Path) -> None:
    said = cost(home)
    assert (said["sessions"], said["total"]["requests"]) == (2, 3)
    assert tokens(said["total"]) == summed(FIRST, SECOND, THIRD)
    for rows in said["by"].values():
        for key in said["total"]:
            assert sum(row[key] for row in rows) == said["total"][key]
    models = {row["name"]: tokens(row) for row in said["by"]["model"]}
    assert models == {SONNET: summed(FIRST, SECOND), HAIKU: summed(THIRD)}
    assert {row["name"] for row in said["by"]["tool"]} == {"Bash", "Glob", "(answer)"}
    assert [row["name"] for row in said["by"]["project"]] == [str((home / "work").resolve())]


def test_the_dollars_are_the_ones_of_the_result(home: Path) -> None:
    with serving(PLAN, strict=True) as server:
        done = clew(
            home, server.url, "-p", "x", "--output-format", "json", "--allowedTools", "Bash(echo:*)"
        )
    result = json.loads(done.stdout)
    assert result["total_cost_usd"] == float(cost(home, result["session_id"])["total"]["costUSD"])


def test_a_fork_repeats_what_was_paid_once(home: Path) -> None:
    before = cost(home)
    session = next(path for path in transcripts(home) if SONNET in path.read_text("utf-8")).stem
    last = {"scenario": 1, "answers": [{"text": "x", "usage": THIRD}]}
    with serving(last, strict=True) as server:
        clew(home, server.url, "-p", "on", "--resume", session, "--fork-session", "--model", SONNET)
    after = cost(home)
    assert after["sessions"] == 3
    assert tokens(after["total"]) == {
        key: before["total"][key] + summed(THIRD)[key] for key in KEYS.values()
    }


def test_one_session_a_span_of_days_and_one_table(home: Path) -> None:
    first, second = transcripts(home)
    for path in (first, second):
        assert cost(home, path.stem)["sessions"] == 1
    assert tokens(cost(home, first.stem, str(second))["total"]) == summed(FIRST, SECOND, THIRD)
    assert cost(home, "--until", "2001-01-01")["total"]["requests"] == 0
    assert cost(home, "--since", "2001-01-01")["total"]["requests"] == 3
    assert list(cost(home, "--by", "tool")["by"]) == ["tool"]


def test_another_folders_sessions_are_seen_with_all_only(home: Path) -> None:
    elsewhere = home / "other"
    elsewhere.mkdir()
    (elsewhere / "config").symlink_to(home / "config")
    assert cost(elsewhere)["sessions"] == 0
    assert cost(elsewhere, "--all")["total"]["requests"] == 3


@requirement("W13", "R109")
def test_a_model_without_a_price_is_said_to_have_none(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "x", "usage": THIRD, "times": "always"}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "x", "--model", "somebody/else-1")
    said = cost(tmp_path)["total"]
    assert (said["costUSD"], said["unpricedRequests"], said["inputTokens"]) == (None, 1, 1)
    shown = clew(tmp_path, NOWHERE, "cost").stdout
    assert "1 session, 1 response: unknown" in shown
    assert "somebody/else-1 without a known price" in shown
    assert "$0" not in shown


def test_subagents_side_requests_and_damage_are_counted(home: Path) -> None:
    path = next(path for path in transcripts(home) if SONNET in path.read_text("utf-8"))
    before = cost(home, path.stem)["total"]
    answer = next(entry for entry in entries(path) if entry["type"] == "assistant")
    answer["message"] |= {"id": "msg_agent", "usage": THIRD}
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text(json.dumps(answer | {"isSidechain": True, "agentId": "a1"}) + "\n", "utf-8")
    side = {"type": "request-cost", "sessionId": path.stem, "messageId": "msg_t", "model": HAIKU}
    side |= {"requestId": "r", "usage": THIRD, "purpose": "title", "timestamp": answer["timestamp"]}
    answer["message"] |= {"id": "msg_spliced"}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(side) + "\n")
        file.write('{"type":"user","torn' + json.dumps(answer) + "\n")
        file.write('{"usage": torn\n')
    after = cost(home, path.stem)
    assert after["total"]["requests"] == before["requests"] + 3
    assert after["total"]["inputTokens"] == before["inputTokens"] + 3
    assert after["unreadLines"] == 1
    purposes = {row["name"]: row["requests"] for row in after["by"]["purpose"]}
    assert (purposes["subagent"], purposes["title"]) == (1, 1)


def test_an_answer_that_a_crash_left_written_ahead_is_counted(home: Path) -> None:
    path = next(path for path in transcripts(home) if SONNET in path.read_text("utf-8"))
    cut = next(n for n, entry in enumerate(entries(path)) if entry["type"] == "assistant")
    lines = path.read_text("utf-8").splitlines(keepends=True)[:cut]
    assert any('"tool-started"' in line for line in lines)
    path.write_text("".join(lines), "utf-8")
    said = cost(home, path.stem)["total"]
    assert (said["requests"], said["inputTokens"]) == (1, FIRST["input_tokens"])


def test_people_see_a_table_and_bars(home: Path) -> None:
    shown = clew(home, NOWHERE, "cost").stdout.splitlines()
    assert shown[0].startswith("2 sessions, 3 responses: $0.0")
    assert any(line.startswith(SONNET) and line.endswith("█") for line in shown)
    assert any(line.startswith("day") for line in shown)


@pytest.mark.parametrize("args", [["no such title"], ["missing.jsonl"]])
def test_a_session_that_is_not_there_is_an_error(tmp_path: Path, args: list[str]) -> None:
    done = clew(tmp_path, NOWHERE, "cost", *args)
    assert done.returncode == 2
    assert done.stderr.startswith("clew cost: ")
    assert args[0] in done.stderr
