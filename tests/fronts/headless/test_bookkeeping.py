"""System entries that a session records about itself, read from its transcript; no request has them."""

import json
from pathlib import Path
from typing import Any, TypeAlias

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
TIMED = ("--settings", '{"showTurnDuration": true}')
PLAN = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}


def chain(home: Path) -> list[Json]:
    """The entries of the only session, each of which has its parent in the file above it."""
    (path,) = transcripts(home)
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    entries = [entry for entry in found if "uuid" in entry]
    known: set[str | None] = {None}
    for entry in entries:
        assert entry["parentUuid"] in known
        known.add(entry["uuid"])
    checked = clew(home, "http://127.0.0.1:9", "sessions", "check", "--notes", str(path))
    assert checked.returncode == 0, checked.stdout
    return entries


def noted(home: Path, subtype: str) -> list[Json]:
    return [entry for entry in chain(home) if entry.get("subtype") == subtype]


def live(home: Path) -> set[str]:
    """The IDs of the entries that the next run continues from."""
    entries = chain(home)
    by_id = {entry["uuid"]: entry for entry in entries}
    found, at = set(), entries[-1]["uuid"]
    while at is not None:
        found.add(at)
        at = by_id[at]["parentUuid"]
    return found


@requirement("R270")
def test_a_turn_leaves_its_duration_if_a_setting_asks_for_it(tmp_path: Path) -> None:
    streamed = ("--output-format", "stream-json", "--verbose")
    with serving(PLAN, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "quick").stdout == "Done.\n"
        assert noted(tmp_path, "turn_duration") == []
        ran = clew(tmp_path, server.url, "-p", "timed", "--continue", *TIMED, *streamed)
        assert ran.returncode == 0, ran.stderr
        frames = [json.loads(line) for line in ran.stdout.splitlines()]
        assert clew(tmp_path, server.url, "-p", "on", "--continue").stdout == "Done.\n"
        bodies = [request.body for request in server.requests]
    (timed,) = noted(tmp_path, "turn_duration")
    assert 0 < timed["durationMs"] < 60_000
    assert timed["isMeta"] is True
    before = [entry["uuid"] for entry in chain(tmp_path)].index(timed["uuid"])
    assert timed["messageCount"] == before
    assert timed["uuid"] in live(tmp_path)
    assert all(frame.get("subtype") in (None, "init", "success") for frame in frames)
    spoken = [m["role"] for m in bodies[-1]["messages"] if m["role"] != "system"]
    assert spoken == ["user", "assistant", "user", "assistant", "user"]
    assert "durationMs" not in json.dumps(bodies[-1])


@requirement("R272")
def test_the_speed_of_responses_is_recorded_where_a_setting_asks_for_it(tmp_path: Path) -> None:
    measured = ("--settings", '{"apiMetrics": true}')
    look = uses({"tool": "LS", "input": {"path": "."}})
    answers = [{"text": "One."}, {"text": "Two."}, look, {"text": "Three.", "times": "always"}]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "unmeasured")
        assert noted(tmp_path, "api_metrics") == []
        for prompt in ("one response", "two responses"):
            ran = clew(tmp_path, server.url, "-p", prompt, "--continue", *measured)
            assert ran.returncode == 0, ran.stderr
        assert "ttftMs" not in json.dumps([request.body for request in server.requests])
    one, two = noted(tmp_path, "api_metrics")
    assert (one["isP50"], two["isP50"]) == (False, True)
    assert all(entry["ttftMs"] >= 0 and entry["otps"] > 0 for entry in (one, two))
    assert {one["uuid"], two["uuid"]} <= live(tmp_path)


@requirement("R273")
def test_a_saved_memory_leaves_its_file(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, Hosted(tmp_path, server.url) as host:
        # Nothing was said yet: the entry waits for the session's first prompt.
        host.say("/remember Indent with tabs")
        assert host.result()["subtype"] == "success"
        assert transcripts(tmp_path) == []
        host.say("go")
        assert host.result()["result"] == "Done."
        host.say("/remember Tests are in spec/")
        assert host.result()["subtype"] == "success"
        host.say("on")
        assert host.result()["result"] == "Done."
        assert host.end() == 0
        told = json.dumps(server.requests[-1].body["messages"])
    saved = noted(tmp_path, "memory_saved")
    paths = [Path(path) for entry in saved for path in entry["writtenPaths"]]
    assert len(saved) == len(paths) == 2
    assert ["Indent with tabs" in p.read_text("utf-8") for p in paths] == [True, False]
    assert "Tests are in spec/" in paths[1].read_text("utf-8")
    assert {entry["uuid"] for entry in saved} <= live(tmp_path)
    assert "memory_saved" not in told
    assert "Tests are in spec/" in told


@requirement("R277")
def test_a_schedule_that_fires_is_named_before_its_prompt(tmp_path: Path) -> None:
    with serving(PLAN, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/loop 5m --times 1 look at the builds")
        began = host.result()["result"]
        assert host.result()["result"] == "Done."
        assert host.end() == 0
        assert "scheduled_task_fire" not in host.kinds()
        (request,) = server.requests
    entries = chain(tmp_path)
    (fired,) = noted(tmp_path, "scheduled_task_fire")
    assert fired["content"] == "look at the builds"
    assert f"{fired['taskId']}  every 5m" in began
    prompt = entries[[e["uuid"] for e in entries].index(fired["uuid"]) + 1]
    assert prompt["parentUuid"] == fired["uuid"]
    assert "look at the builds" in prompt["message"]["content"]
    assert "scheduled_task_fire" not in json.dumps(request.body)


def endless() -> Any:
    """Works until it is stopped; never the same call twice."""

    def answer(body: Json) -> Json:
        command = f"sleep 0.2; : {len(body['messages'])}"
        return uses({"tool": "Bash", "input": {"command": command}})

    return answer


@requirement("R276")
def test_agents_that_were_stopped_are_named(tmp_path: Path) -> None:
    background = {"run_in_background": True}
    asked = {
        "go": [
            uses(agent("dig", **background), agent("dig on", **background)),
            {"text": "begun"},
        ],
        "dig": [endless()],
        "<task-notification>": [{"text": "heard"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        assert host.result()["result"] == "begun"
        first, second = (t["task_id"] for t in host.ask("background_tasks")["response"]["tasks"])
        host.ask("stop_task", task_id=first)
        assert host.result()["result"] == "heard"
        host.ask("end_session")
        host.end()
        assert not any("agents_killed" in json.dumps(r.body) for r in server.requests)
    stopped = noted(tmp_path, "agents_killed")
    assert [entry["agentIds"] for entry in stopped] == [[first], [second]]
    assert all("some work" in entry["content"] for entry in stopped)
    assert "agents_killed" not in host.kinds()
