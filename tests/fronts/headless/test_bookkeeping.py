"""System entries that a session records about itself, read from its transcript; no request has them."""

import json
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
TIMED = ("--settings", '{"showTurnDuration": true}')
MAIN, OTHER = "claude-opus-4-8", "claude-sonnet-5"
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
    """Work until stopped; never make the same call twice."""

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


def results_of(body: Json) -> dict[str, Any]:
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    return {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}


@requirement("R284")
def test_a_shortened_result_is_named_and_that_of_another_client_is_applied(tmp_path: Path) -> None:
    long = uses({"tool": "Bash", "input": {"command": "seq 1 40000"}})
    short = uses({"tool": "Bash", "input": {"command": "echo short"}})
    plan = {"scenario": 1, "answers": [long, short, {"text": "Done.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "count", "--allowedTools=Bash")
        (path,) = transcripts(tmp_path)
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        (named,) = [line for line in lines if line["type"] == "content-replacement"]
        (item,) = named["replacements"]
        cut = results_of(server.requests[-1].body)[item["toolUseId"]]
        assert item == {
            "kind": "tool-result",
            "toolUseId": item["toolUseId"],
            "replacement": cut,
        }
        assert len(cut) < 31_000
        # The other client's entries hold the whole result.
        for line in lines:
            content = line.get("message", {}).get("content")
            for block in content if isinstance(content, list) else ():
                if block.get("tool_use_id") == item["toolUseId"]:
                    block["content"] = "\n".join(map(str, range(1, 40_001)))
                    del line["toolUseResult"]
        written = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        path.write_text(written, encoding="utf-8")
        assert clew(tmp_path, server.url, "-p", "on", "--continue").stdout == "Done.\n"
        before, after = (results_of(request.body) for request in server.requests[-2:])
    assert after == before


SHIPS = """git init -q . && git config user.name A && git config user.email a@b.c
echo 1 > f; git add f; git commit --dry-run
git -C . commit -qm 'one; git commit'; ./gh pr create --title x; git commit -q --allow-empty -m two"""


@requirement("R281", "R298", "R106", "R107")
def test_commits_and_the_state_of_a_session_are_counted_and_shown(tmp_path: Path) -> None:
    """At the end the model is overloaded, so another one answers."""
    calls = [
        uses({"tool": "Bash", "input": {"command": SHIPS}}),
        uses({"tool": "Bash", "input": {"command": "git commit -m none; true"}}),
        uses({"tool": "Bash", "input": {"command": "echo git commit -m said"}}),
    ]
    busy = {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}}
    given = iter(calls)

    def answer(body: Json) -> Json:
        return next(given, busy) if body["model"] == MAIN else {"text": "Done."}

    program = tmp_path / "work" / "gh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho created\n", encoding="utf-8")
    program.chmod(0o755)
    args = ("--model", MAIN, "--fallback-model", OTHER, "--permission-prompt-tool", "stdio")
    with serving(answer) as server, Hosted(tmp_path, server.url, *args) as host:
        host.say("ship it")
        while (frame := host.until(lambda f: f["type"] in ("control_request", "result")))[
            "type"
        ] == "control_request":
            rule = {"toolName": "Bash"}
            update = {
                "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session",
            }  # fmt: skip
            host.answer(frame, behavior="allow", updatedInput=frame["request"]["input"],
                        updatedPermissions=[update])  # fmt: skip
        assert (frame["commits"], frame["pull_requests"]) == (2, 1)
        state = host.ask("get_session_state")["response"]
        assert state["allowed_tools"] == ["Bash"]
        assert (state["models_used"], state["model"]) == ([MAIN, OTHER], MAIN)
        assert state["is_on_fallback"] is True
        assert state["last_interaction_at"] > state["started_at"]
        assert (state["commits"], state["pull_requests"]) == (2, 1)
        host.end()
    with serving(PLAN) as server:
        shown = clew(tmp_path, server.url, "-p", "/status", "--continue").stdout
        assert "2 commits, 1 pull request" in shown
        assert (
            "2 commits, 1 pull request"
            in clew(tmp_path, server.url, "-p", "/cost", "--continue").stdout
        )
        ran = clew(tmp_path, server.url, "-p", "on", "--continue", "--output-format", "json")
    assert json.loads(ran.stdout)["commits"] == 2


@requirement("R279", "R019")
def test_a_host_that_asks_for_it_is_told_what_each_group_of_calls_did(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a\n", "utf-8")
    reads = [
        {"tool": "Read", "input": {"file_path": name}} for name in ("a.txt", "a.txt", "no.txt")
    ]
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [*reads, {"tool": "Bash", "input": {"command": "true"}}]},
            {"content": [{"tool": "Bash", "input": {"command": "true"}}]},
            {"text": "Done.", "times": "always"},
        ],
    }

    def groups(**environ: str) -> list[tuple[str, int]]:
        with serving(plan) as server, Hosted(tmp_path, server.url, **environ) as host:
            host.say("Look.")
            assert host.result()["result"] == "Done."
            frames = host.frames
        told = [frame for frame in frames if frame["type"] == "tool_use_summary"]
        uses = [
            block["id"]
            for frame in frames
            if frame["type"] == "assistant"
            for block in frame["message"]["content"]
            if block["type"] == "tool_use"
        ]
        ids = [call for frame in told for call in frame["preceding_tool_use_ids"]]
        assert not told or sorted(ids) == sorted(uses)
        return [(frame["summary"], len(frame["preceding_tool_use_ids"])) for frame in told]

    assert groups() == []
    assert groups(CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES="1") == [
        ("Read 1 file, ran 1 command, 1 failed", 4),
        ("Ran 1 command", 1),
    ]


def test_the_session_that_created_a_pull_request_is_resumed_by_its_number_or_address(
    tmp_path: Path,
) -> None:
    address = "https://github.com/acme/tools/pull/42"
    program = tmp_path / "work" / "gh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {address}\n", encoding="utf-8")
    program.chmod(0o755)
    answers = iter([uses({"tool": "Bash", "input": {"command": "./gh pr create --title x"}})])
    with serving(lambda _: next(answers, {"text": "Done."})) as server:

        def run(*args: str) -> "subprocess.CompletedProcess[str]":
            return clew(tmp_path, server.url, "-p", "on", *args)

        run("--allowedTools", "Bash")
        (path,) = transcripts(tmp_path)
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        (link,) = [line for line in lines if line["type"] == "pr-link"]
        assert (link["prUrl"], link["prNumber"], link["prRepository"]) == (
            address,
            42,
            "acme/tools",
        )
        run()
        for name in ("42", "#42", address):
            size = path.stat().st_size
            assert run("--from-pr", name).returncode == 0
            assert path.stat().st_size > size
        missing = run("--from-pr", "43")
        assert missing.returncode == 1
        assert "no session of this folder created pull request #43" in missing.stderr
        assert run("--from-pr", "x").returncode == 2
        assert run("--from-pr", "1", "--continue").returncode == 2
