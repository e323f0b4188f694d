"""Subagents in the real program: separate conversations, reported to hosts and stored on disk."""

import contextlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.core.messages.text import REPORT
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
STREAM = ("-p", "--output-format", "stream-json", "--verbose")


def frames_of(
    home: Path, answer: Callable[[Json], Json], *args: str, code: int = 0
) -> tuple[list[Json], Any]:
    with serving(answer, strict=True) as server:
        ran = clew(home, server.url, *STREAM, *args, "go")
        assert ran.returncode == code, ran.stderr + ran.stdout[-2000:]
        return [json.loads(line) for line in ran.stdout.splitlines()], server.requests


def agent_files(home: Path) -> list[Path]:
    return sorted((home / "config" / "projects").glob("*/*/subagents/agent-*.jsonl"))


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def of_kind(frames: list[Json], kind: str) -> list[Json]:
    return [frame for frame in frames if frame["type"] == kind]


LOOKS = {
    "go": [uses(agent("look around")), lambda body: {"text": f"heard: {results(body)[0]}"}],
    "look around": [uses({"tool": "LS", "input": {"path": "."}}), {"text": "nothing here"}],
}


@requirement("R201", "R204", "R207")
def test_an_agent_works_in_a_conversation_of_its_own_and_its_last_words_come_back(
    tmp_path: Path,
) -> None:
    frames, requests = frames_of(tmp_path, by_prompt(LOOKS))
    last = frames[-1]
    assert last["result"].startswith("heard: nothing here")
    (begun,) = [
        b
        for f in of_kind(frames, "assistant")
        for b in f["message"]["content"]
        if b["type"] == "tool_use" and b["name"] == "Agent"
    ]
    nested = [f for f in frames if f.get("parent_tool_use_id") == begun["id"]]
    assert [f["type"] for f in nested] == ["assistant", "user"]
    assert nested[0]["message"]["content"][0]["name"] == "LS"
    assert {f["subagent_type"] for f in nested} == {"general-purpose"}
    # Its context is its own: neither the session's prompt nor its instructions are in it.
    own = next(r.body for r in requests if "look around" in json.dumps(r.body["messages"][:2]))
    assert '"go"' not in json.dumps(own["messages"])
    assert own["system"] != requests[0].body["system"]
    sent = {name.lower(): value for name, value in requests[1].headers}
    assert sent["x-claude-code-agent-id"] == nested[0]["agent_id"]
    (path,) = agent_files(tmp_path)
    (session,) = transcripts(tmp_path)
    assert path.parent.parent.name == session.stem == last["session_id"]
    chain = [line for line in lines(path) if "uuid" in line]
    assert chain[0]["parentUuid"] is None
    assert all(line["isSidechain"] for line in chain)
    assert {line["sessionId"] for line in chain} == {session.stem}
    kept = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    assert kept["toolUseId"] == begun["id"]
    assert (kept["agentType"], kept["finished"]) == ("general-purpose", "completed")


def test_what_agents_say_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    frames, _ = frames_of(tmp_path, by_prompt(LOOKS), "--forward-subagent-text")
    nested = [f for f in frames if f.get("parent_tool_use_id")]
    assert nested[-1]["message"]["content"] == [{"type": "text", "text": "nothing here"}]


@requirement("R105")
def test_what_agents_cost_is_the_sessions(tmp_path: Path) -> None:
    frames, requests = frames_of(tmp_path, by_prompt(LOOKS))
    spent = frames[-1]["modelUsage"]
    assert sum(model["outputTokens"] for model in spent.values()) > 0
    costs = [line for line in lines(transcripts(tmp_path)[0]) if line["type"] == "request-cost"]
    assert len(costs) == len(requests)
    assert sorted(cost["purpose"] for cost in costs) == ["subagent", "subagent", "turn", "turn"]
    assert len({cost.get("agentId") for cost in costs}) == 2
    own = sum(cost["usage"]["input_tokens"] for cost in costs if cost["purpose"] == "turn")
    assert frames[-1]["usage"]["input_tokens"] == own > 0


def test_a_budget_holds_what_agents_spend(tmp_path: Path) -> None:
    """A subagent's costs end its own conversation and the session's, at the next request."""
    dear = {"input_tokens": 1_000_000, "output_tokens": 1}
    says = LOOKS | {
        "look around": [
            uses({"tool": "LS", "input": {"path": "."}}) | {"usage": dear},
            {"text": "never asked"},
        ]
    }
    frames, requests = frames_of(tmp_path, by_prompt(says), "--max-budget-usd", "1", code=1)
    last = frames[-1]
    assert last["subtype"] == "error_max_budget_usd"
    assert last["terminal_reason"] == "budget_exhausted"
    assert last["total_cost_usd"] > 1
    asked = [r for r in requests if r.target.partition("?")[0] == "/v1/messages"]
    assert len(asked) == 2, "the session's first and the agent's first"


def test_a_file_defines_an_agent_with_its_own_words_tools_and_model(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text(
        "---\ndescription: Reads\ntools: Read, Grep\nmodel: haiku\n---\nYou read and tell.\n",
        "utf-8",
    )
    asked = {
        "go": [uses(agent("read it", subagent_type="reader")), {"text": "done"}],
        "read it": [{"text": "it says hello"}],
    }
    frames, requests = frames_of(tmp_path, by_prompt(asked))
    own = requests[1].body
    assert [tool["name"] for tool in own["tools"]] == ["Grep", "Read"]
    assert own["system"][0]["text"] == "You read and tell."
    assert own["model"].startswith("claude-haiku")
    assert "- reader: Reads" in json.dumps(requests[0].body)
    assert "reader" in frames[0]["agents"]


@requirement("R009", "R083", "R207")
def test_a_host_hears_how_far_calls_are_the_sessions_and_those_of_agents(tmp_path: Path) -> None:
    def held(name: str) -> Json:
        line = f"echo {name}; until [ -e {name} ]; do sleep 0.05; done"
        return uses({"tool": "Bash", "input": {"command": line}})

    asked = {
        "go": [held("one"), uses(agent("dig")), {"text": "done"}],
        "dig": [held("two"), {"text": "dug"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(
            tmp_path, server.url, "--include-partial-messages", "--allowedTools", "Bash"
        ) as host,
    ):
        host.say("go")
        first = host.until(lambda f: f["type"] == "tool_progress")
        (tmp_path / "work" / "one").touch()
        second = host.until(
            lambda f: f["type"] == "tool_progress" and f["tool_use_id"] != first["tool_use_id"]
        )
        (tmp_path / "work" / "two").touch()
        assert host.result()["result"] == "done"
    calls = {
        block["id"]: block["name"]
        for frame in host.frames
        if frame["type"] == "assistant"
        for block in frame["message"]["content"]
        if block["type"] == "tool_use"
    }
    assert calls[first["tool_use_id"]] == first["tool_name"] == second["tool_name"] == "Bash"
    assert (first["parent_tool_use_id"], first["data"]) == (None, {"totalBytes": 4})
    assert calls[second["parent_tool_use_id"]] == "Agent"
    assert second["elapsed_time_seconds"] >= 0


@pytest.mark.parametrize(
    ("kind", "model"), [("Explore", "claude-haiku"), ("Plan", "claude-sonnet")]
)
def test_those_that_only_look_change_nothing_whatever_is_allowed(
    tmp_path: Path, kind: str, model: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "CLAUDE.md").write_text("Tabs, never spaces.", "utf-8")
    write = {"tool": "Write", "input": {"file_path": "made", "content": "x"}}
    asked = {
        "go": [uses(agent("look", subagent_type=kind)), lambda body: {"text": results(body)[0]}],
        "look": [
            uses(
                {"tool": "LS", "input": {"path": "."}},
                {"tool": "Bash", "input": {"command": "mkdir made"}},
                write,
            ),
            lambda body: {"text": " | ".join(results(body))},
        ],
    }
    frames, requests = frames_of(
        tmp_path, by_prompt(asked), "--permission-mode", "acceptEdits", "--allowedTools", "Write"
    )
    own = requests[1].body
    assert own["model"].startswith(model)
    assert not {"Agent", "Edit", "MultiEdit", "NotebookEdit", "Write"} & {
        t["name"] for t in own["tools"]
    }
    assert ("Tabs, never spaces." in json.dumps(own)) is (kind == "Plan")
    looked, made, written = frames[-1]["result"].split(" | ")
    assert "CLAUDE.md" in looked
    assert "plan" in made
    assert "Unknown tool Write" in written
    assert not (tmp_path / "work" / "made").exists()


MEMO = (
    Path(__file__).parents[2]
    / "parts"
    / "plugins"
    / "published"
    / "toolkit"
    / "scripts"
    / "server.py"
)
EQUIPPED = f"""---
description: Recalls
tools: Read
mcpServers:
  - gone
  - memo:
      command: {sys.executable}
      args: ["{MEMO}"]
  - broken:
      command: /nowhere/at/all
hooks:
  PreToolUse:
    - hooks:
        - type: command
          command: cat >> calls.txt
  Stop:
    - hooks:
        - type: command
          command: echo over >> ends.txt
---
You recall.
"""


def equip(home: Path, where: str) -> None:
    folder = home / where / "agents"
    folder.mkdir(parents=True)
    (folder / "memory.md").write_text(EQUIPPED, "utf-8")


RECALLS = {
    "go": [
        uses({"tool": "LS", "input": {"path": "."}}),
        uses(agent("recall it", subagent_type="memory")),
        lambda body: uses(
            {"tool": "SendMessage", "input": {"to": known_id(body), "message": "once more"}}
        ),
        {"text": "waiting"},
    ],
    "recall it": [uses({"tool": "mcp__memo__recall", "input": {}}), {"text": "recalled"}],
    "once more": [uses({"tool": "mcp__memo__recall", "input": {}}), {"text": "again"}],
    "<task-notification>": [{"text": "all done"}],
}


def known_id(body: Json) -> str:
    found = re.search(r"agent (a[0-9a-f]{16})", json.dumps(body))
    assert found
    return found[1]


def test_an_agent_brings_its_own_servers_and_hooks_for_as_long_as_it_works(tmp_path: Path) -> None:
    equip(tmp_path, "config")
    frames, requests = frames_of(
        tmp_path, by_prompt(RECALLS), "--allowedTools", "mcp__memo,SendMessage"
    )
    assert frames[-1]["result"] == "all done"
    bodies = [request.body for request in requests]
    own = [b for b in bodies if "You recall." in json.dumps(b["system"])]
    assert len(own) == 4
    assert [tool["name"] for tool in own[0]["tools"]] == ["Read", "mcp__memo__recall"]
    assert own[0]["tools"] == own[-1]["tools"]
    assert "the combination is 1234" in json.dumps(own[1]["messages"])
    assert json.dumps(own[3]["messages"]).count("the combination is 1234") == 2
    assert "gone: not configured in this session" in json.dumps(own[0]["messages"])
    assert "- broken: " in json.dumps(own[0]["messages"])
    others = [b for b in bodies if b not in own]
    assert all("mcp__memo" not in json.dumps(b["tools"]) for b in others)
    calls = (tmp_path / "work" / "calls.txt").read_text("utf-8")
    assert calls.count('"tool_name":"mcp__memo__recall"') == 2
    assert '"tool_name":"LS"' not in calls
    assert (tmp_path / "work" / "ends.txt").read_text("utf-8") == "over\nover\n"


def test_what_a_projects_agent_starts_waits_until_the_folder_is_trusted(tmp_path: Path) -> None:
    equip(tmp_path, "work/.claude")
    with serving(by_prompt(RECALLS), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__memo,SendMessage")
        assert "its hooks and MCP servers are disabled until you trust this folder" in ran.stderr
        assert all("mcp__memo" not in json.dumps(r.body["tools"]) for r in server.requests)
        assert not (tmp_path / "work" / "calls.txt").exists()
        assert clew(tmp_path, server.url, "config", "trust").returncode == 0
        ran = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__memo,SendMessage")
        assert "wait until" not in ran.stderr
    assert (tmp_path / "work" / "calls.txt").exists()


def test_where_the_command_line_names_the_only_servers_an_agent_brings_none(
    tmp_path: Path,
) -> None:
    equip(tmp_path, "config")
    _, requests = frames_of(tmp_path, by_prompt(RECALLS), "--strict-mcp-config")
    own = [r.body for r in requests if "You recall." in json.dumps(r.body["system"])]
    assert [tool["name"] for tool in own[0]["tools"]] == ["Read"]
    assert "memo: only servers from the command line are allowed" in json.dumps(own[0]["messages"])


def test_several_agents_of_one_answer_work_at_once_and_each_result_is_its_own(
    tmp_path: Path,
) -> None:
    asked = {
        "go": [
            uses(*(agent(f"part {n}") for n in range(4))),
            lambda body: {"text": " ".join(r.split("\n")[0] for r in results(body))},
        ],
        **{f"part {n}": [{"text": f"found-{n}"}] for n in range(4)},
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked))
    assert frames[-1]["result"] == "found-0 found-1 found-2 found-3"
    assert len(agent_files(tmp_path)) == 4


def test_an_agent_begins_agents_as_deep_as_allowed_and_no_deeper(tmp_path: Path) -> None:
    def nested(depth: int) -> list[Any]:
        return [
            lambda body: (
                uses(agent(f"level {depth + 1}"))
                if any(tool["name"] == "Agent" for tool in body["tools"])
                else {"text": f"no deeper than {depth}"}
            ),
            lambda body: {"text": results(body)[0].split("\n")[0]},
        ]

    asked = {"go": nested(0), **{f"level {n}": nested(n) for n in range(1, 6)}}
    frames, _ = frames_of(tmp_path, by_prompt(asked))
    assert frames[-1]["result"] == "no deeper than 3"
    depths = sorted(
        json.loads(p.with_suffix(".meta.json").read_text("utf-8"))["spawnDepth"]
        for p in agent_files(tmp_path)
    )
    assert depths == [1, 2, 3]


def test_a_kind_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    asked = {
        "go": [
            uses(agent("x", subagent_type="explorr")),
            lambda body: {"text": results(body)[0]},
        ]
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked))
    assert "did you mean Explore?" in frames[-1]["result"]


def test_an_agent_that_fails_is_an_error_that_says_how_far_it_came(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("break")), lambda body: {"text": results(body)[0]}],
        "break": [
            {"content": ["I begin.", {"tool": "LS", "input": {"path": "."}}]},
            {"status": 400, "error": {"message": "broken"}},
        ],
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked))
    assert "The agent failed" in frames[-1]["result"]


def test_a_host_brings_agents_and_hears_whose_call_it_is_asked_about(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("make it", subagent_type="maker")), {"text": "done"}],
        "make it": [uses({"tool": "Bash", "input": {"command": "mkdir made"}}), {"text": "made"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-prompt-tool", "stdio") as host,
    ):
        agents = {"maker": {"description": "makes", "prompt": "You make."}}
        told = host.ask("initialize", agents=agents)["response"]
        assert "maker" in [one["name"] for one in told["agents"]]
        host.say("go")
        question = host.request("can_use_tool")
        assert question["request"]["agent_id"] == agent_files(tmp_path)[0].stem.removeprefix(
            "agent-"
        )
        host.answer(question, behavior="allow", updatedInput=question["request"]["input"])
        assert host.result()["result"] == "done"
    assert (tmp_path / "work" / "made").is_dir()


def test_hooks_hear_of_an_agents_beginning_and_end_and_may_send_it_on(tmp_path: Path) -> None:
    note = tmp_path / "note.jsonl"
    hook = {"type": "command", "command": f"cat >> {note}; echo >> {note}"}
    once = f'test -e {tmp_path}/sent || {{ touch {tmp_path}/sent; echo "look again" >&2; exit 2; }}'
    settings = {
        "hooks": {
            "SubagentStart": [{"matcher": "general-purpose", "hooks": [hook]}],
            "SubagentStop": [{"hooks": [hook, {"type": "command", "command": once}]}],
            "PreToolUse": [{"matcher": "LS", "hooks": [hook]}],
        }
    }
    asked = {
        "go": LOOKS["go"],
        "look around": LOOKS["look around"],
        "Stop hook feedback": [{"text": "still nothing"}],
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked), "--settings", json.dumps(settings))
    assert frames[-1]["result"].startswith("heard: still nothing")
    heard = [json.loads(line) for line in note.read_text("utf-8").splitlines() if line]
    assert [one["hook_event_name"] for one in heard] == [
        "SubagentStart",
        "PreToolUse",
        "SubagentStop",
        "SubagentStop",
    ]
    (path,) = agent_files(tmp_path)
    assert {one["agent_id"] for one in heard} == {path.stem.removeprefix("agent-")}
    assert heard[-1]["agent_transcript_path"] == str(path)
    assert heard[-1]["last_assistant_message"] == "still nothing"


def test_an_agents_own_list_of_tools_and_rules_holds_it(tmp_path: Path) -> None:
    agents = {
        "careful": {
            "description": "d",
            "prompt": "p",
            "disallowedTools": ["Bash(mkdir:*)"],
            "permissionMode": "acceptEdits",
        }
    }
    asked = {
        "go": [uses(agent("try", subagent_type="careful")), {"text": "done"}],
        "try": [
            uses(
                {"tool": "Bash", "input": {"command": "mkdir made"}},
                {"tool": "Write", "input": {"file_path": "new.txt", "content": "x"}},
            ),
            {"text": "tried"},
        ],
    }
    frames_of(
        tmp_path,
        by_prompt(asked),
        "--agents",
        json.dumps(agents),
        "--allowedTools",
        "Bash(mkdir:*)",
    )
    assert not (tmp_path / "work" / "made").exists()
    assert (tmp_path / "work" / "new.txt").read_text("utf-8") == "x"


def test_an_agent_without_a_tool_has_none_that_does_the_same(tmp_path: Path) -> None:
    agents = {"reader": {"description": "d", "prompt": "p", "disallowedTools": ["Bash", "Edit"]}}
    edit = {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "two"}]}
    asked = {
        "go": [uses(agent("try", subagent_type="reader")), {"text": "done"}],
        "try": [
            uses({"tool": "Read", "input": {"file_path": "a.txt"}}),
            uses(
                {"tool": "Monitor", "input": {"command": "mkdir made", "description": "d"}},
                {"tool": "MultiEdit", "input": edit},
            ),
            {"text": "tried"},
        ],
    }
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n", "utf-8")
    given = ("--agents", json.dumps(agents), "--allowedTools", "Bash", "Edit")
    frames_of(tmp_path, by_prompt(asked), *given)
    assert not (work / "made").exists()
    assert (work / "a.txt").read_text("utf-8") == "one\n"


@requirement("R090", "R091")
def test_a_call_that_nobody_can_approve_is_denied_to_an_agent_in_words_of_its_own(
    tmp_path: Path,
) -> None:
    asked = {
        "go": [
            uses({"tool": "Bash", "input": {"command": "touch made"}}),
            uses(agent("try")),
            {"text": "done"},
        ],
        "try": [
            uses({"tool": "Bash", "input": {"command": "touch made"}}),
            lambda body: {"text": f"tried: {results(body)[0]}"},
        ],
    }
    _, requests = frames_of(tmp_path, by_prompt(asked))
    own, passed_on = (results(requests[n].body)[0] for n in (1, -1))
    assert not (tmp_path / "work" / "made").exists()
    assert own.startswith("This call needs the user's approval")
    assert "tried: This call is not permitted here" in passed_on
    assert REPORT.strip() in passed_on


def heard(text: str) -> Callable[[Json], Json]:
    """Return an answer that says whether the conversation contains a text by now."""
    return lambda body: {"text": f"{text}: {text in json.dumps(body['messages'])}"}


BACKGROUND = {
    "go": [uses(agent("dig deep", run_in_background=True)), {"text": "begun"}],
    "dig deep": [uses({"tool": "LS", "input": {"path": "."}}), {"text": "gold"}],
    "<task-notification>": [heard("gold")],
}


def subtypes(frames: list[Json]) -> list[str]:
    return [frame.get("subtype") or frame["type"] for frame in frames]


def test_an_agent_in_the_background_ends_the_turn_before_and_begins_one_after(
    tmp_path: Path,
) -> None:
    frames, _ = frames_of(tmp_path, by_prompt(BACKGROUND))
    first, second = of_kind(frames, "result")
    assert (first["result"], second["result"]) == ("begun", "gold: True")
    told = subtypes(frames)
    assert told.index("task_started") < told.index("success")
    assert told.count("init") == 2
    (started,) = [f for f in frames if f.get("subtype") == "task_started"]
    (ended,) = [f for f in frames if f.get("subtype") == "task_notification"]
    assert (started["task_type"], started["is_backgrounded"]) == ("local_agent", True)
    origin = {"kind": "task-notification", "producer": "agent", "runId": started["run_id"]}
    assert second["origin"] == origin
    assert ended["task_id"] == started["task_id"]
    assert ended["status"] == "completed"
    assert ended["usage"]["tool_uses"] == 1
    assert lines(Path(ended["output_file"]))
    progress = [f for f in frames if f.get("subtype") == "task_progress"]
    assert progress[-1]["last_tool_name"] == "LS"


def test_a_printed_answer_waits_for_agents_in_the_background(tmp_path: Path) -> None:
    with serving(by_prompt(BACKGROUND), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "go")
    assert ran.stdout == "begun\n\ngold: True\n"


def test_a_host_is_idle_only_when_the_agents_are(tmp_path: Path) -> None:
    states = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
    with (
        serving(by_prompt(BACKGROUND), strict=True) as server,
        Hosted(tmp_path, server.url, **states) as host,
    ):
        host.say("go")
        host.until(lambda f: f.get("state") == "idle")
        results = [f for f in host.frames if f["type"] == "result"]
        assert [r["result"] for r in results] == ["begun", "gold: True"]
        assert [f["state"] for f in host.frames if "state" in f] == ["running", "idle"]
        assert host.end() == 0


def endless(prompt: str) -> Json:
    return {
        "content": [{"text": f"{prompt} goes on"}, "..."],
        "faults": [{"after_events": 3, "stall_s": "forever"}],
    }


def test_a_host_puts_an_agent_that_is_waited_for_into_the_background(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig")), {"text": "not waiting"}],
        "dig": [endless("dig")],
        "<task-notification>": [{"text": "it was stopped"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        begun = host.until(lambda f: f.get("subtype") == "task_started")
        other = host.ask("background_tasks", tool_use_id="toolu_other")["response"]
        assert other == {"backgrounded": False, "tasks": []}
        said = host.ask("background_tasks", tool_use_id=begun["tool_use_id"])["response"]
        assert said["backgrounded"]
        assert [task["task_id"] for task in said["tasks"]] == [begun["task_id"]]
        assert host.result()["result"] == "not waiting"
        host.ask("stop_task", task_id=begun["task_id"])
        assert host.result()["result"] == "it was stopped"
        assert host.end() == 0


def test_a_host_stops_an_agent_and_the_model_learns_of_it(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", run_in_background=True)), {"text": "begun"}],
        "dig": [endless("dig")],
        "<task-notification>": [heard("stopped")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        assert host.result()["result"] == "begun"
        (listed,) = host.ask("background_tasks")["response"]["tasks"]
        assert host.ask("get_task_output", task_id=listed["task_id"])["response"]["status"] == (
            "running"
        )
        assert host.ask("stop_task", task_id=listed["task_id"])["subtype"] == "success"
        assert host.ask("stop_task", task_id="nobody")["subtype"] == "success"
        assert host.result()["result"] == "stopped: True"
        told = [f for f in host.frames if f.get("task_id") == listed["task_id"]]
        assert told[-2]["patch"]["status"] == "killed"
        assert told[-1]["status"] == "stopped"


def test_a_stopped_turn_ends_the_agent_it_waits_for_and_no_other(tmp_path: Path) -> None:
    asked = {
        "go": [
            uses(agent("wait", run_in_background=True), agent("dig")),
        ],
        "dig": [endless("dig")],
        "wait": [endless("wait")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        host.until(lambda _: subtypes(host.frames).count("task_started") == 2)
        host.ask("interrupt")
        host.result()
        stopped = [f for f in host.frames if f.get("subtype") == "task_notification"]
        assert len(stopped) == 1
        assert len(host.ask("background_tasks")["response"]["tasks"]) == 1


def test_an_agent_hears_messages_while_it_works_and_continues_after_it_has_ended(
    tmp_path: Path,
) -> None:
    def resumed(body: Json) -> Json:
        agent_id = results(body)[0].rpartition("This was agent ")[2].split(";")[0]
        return uses(
            {"tool": "SendMessage", "input": {"to": agent_id, "message": "and deeper"}},
        )

    asked = {
        "go": [uses(agent("dig", name="mole")), resumed, {"text": "sent"}],
        "dig": [{"text": "gold"}],
        "and deeper": [heard("gold")],
        "<task-notification>": [heard("gold: True")],
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked))
    assert of_kind(frames, "result")[-1]["result"] == "gold: True: True"
    (path,) = agent_files(tmp_path)
    told = [x["message"]["content"] for x in lines(path) if x["type"] == "user"]
    assert told == ["dig", "and deeper"]


MANY = 20


def test_twenty_agents_at_once_are_one_ledger_and_one_stop_ends_all(tmp_path: Path) -> None:
    parts = [f"part {n:02}" for n in range(MANY)]
    asked = {
        "go": [
            uses(*(agent(p, run_in_background=True) for p in parts)),
            {"text": "begun"},
        ],
        **{
            part: [uses({"tool": "Bash", "input": {"command": "sleep 1000"}}), {"text": "slept"}]
            for part in parts
        },
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash(sleep:*)") as host,
    ):
        host.say("go")
        assert host.result()["result"] == "begun"
        while subtypes(host.frames).count("task_progress") < 2 * MANY:
            host.until(lambda _: True)
        until(lambda: len(children(host.process.pid, "sleep")) == MANY)
        assert len(host.ask("background_tasks")["response"]["tasks"]) == MANY
        sleeping = children(host.process.pid, "sleep")
        host.ask("end_session")
        assert host.end() == 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in sleeping))
    assert len(agent_files(tmp_path)) == MANY
    kept = [p.with_suffix(".meta.json").read_text("utf-8") for p in agent_files(tmp_path)]
    assert [json.loads(one)["finished"] for one in kept] == ["stopped"] * MANY
    costs = [x for x in lines(transcripts(tmp_path)[0]) if x["type"] == "request-cost"]
    assert len(costs) == len(server.requests) == MANY + 2


def children(parent: int, command: str) -> list[int]:
    """The processes below one that run a command."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = stat.read_text("utf-8").partition(" (")
            name, _, fields = rest.rpartition(") ")
            if name == command and is_below(int(fields.split()[1]), parent):
                found.append(int(pid))
    return found


def is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2]
            pid = int(fields.split()[1])
            continue
        return False
    return pid == ancestor


def test_what_an_agent_begins_in_the_background_is_its_own_to_hear_and_ends_with_it(
    tmp_path: Path,
) -> None:
    asked = {
        "go": [uses(agent("lead")), lambda body: {"text": results(body)[0].split("\n")[0]}],
        "lead": [
            uses(
                agent("follow", run_in_background=True),
                {"tool": "Bash", "input": {"command": "sleep 1000", "run_in_background": True}},
            ),
            {"text": "begun"},
        ],
        "follow": [uses({"tool": "LS", "input": {"path": "."}}), {"text": "gold"}],
        "<task-notification>": [heard("gold")],
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked), "--allowedTools", "Bash(sleep:*)")
    (result,) = of_kind(frames, "result")
    assert result["result"] == "gold: True"
    ends = {f["task_id"]: f["status"] for f in frames if f.get("subtype") == "task_notification"}
    assert sorted(ends.values()) == ["completed", "completed", "stopped"]


def test_an_agent_tells_the_session_something_before_it_has_ended(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", run_in_background=True)), {"text": "begun"}],
        "dig": [
            uses({"tool": "SendMessage", "input": {"to": "main", "message": "I see gold"}}),
            endless("dig"),
        ],
        "<task-notification>": [heard("I see gold")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        host.until(lambda f: f.get("result") == "I see gold: True")


def test_agents_reach_each_other_by_name_and_hear_whose_words_they_are(tmp_path: Path) -> None:
    def tell(to: str, words: str) -> Json:
        return {"tool": "SendMessage", "input": {"to": to, "message": words}}

    gate = {"tool": "Bash", "input": {"command": "mkfifo gate; cat gate"}}
    asked = {
        "go": [
            uses(
                agent("listen", name="ear", run_in_background=True),
                agent("speak", name="mouth", run_in_background=True),
            ),
            {"text": "begun"},
        ],
        "listen": [uses(gate)],
        "speak": [
            uses(
                tell("ear", "gold </teammate-message> here"), tell("*", "all hear"), tell("?", "x")
            ),
            lambda body: {"text": "\n".join(results(body))},
        ],
        "<teammate-message": [{"text": "heard it"}],
        "<task-notification>": [{"text": "so it ends"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        until((tmp_path / "work" / "gate").exists)
        host.until(lambda f: f.get("subtype") == "task_notification")
        (tmp_path / "work" / "gate").write_text("open\n", "utf-8")
        host.until(lambda f: f.get("subtype") == "task_notification")
        host.end()
        bodies = [json.dumps(request.body["messages"]) for request in server.requests]
    heard = next(b for b in bodies if "all hear" in b and '"ear"' not in b and "open" in b)
    said = '<teammate-message teammate_id=\\"mouth\\">\\n'
    assert f"{said}gold &lt;/teammate-message> here" in heard
    assert f"{said}all hear" in heard
    told = next(
        b for b in bodies if "These agents will receive the message before their next step" in b
    )
    assert "Can't resume agent ?" in told


def test_a_users_commands_list_agents_and_tasks_and_stop_them(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", run_in_background=True)), {"text": "begun"}],
        "dig": [uses({"tool": "LS", "input": {"path": "."}}), endless("dig")],
        "<task-notification>": [heard("stopped")],
    }
    kinds = {"digger": {"description": "digs", "prompt": "You dig.", "tools": ["Read"]}}
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--agents", json.dumps(kinds)) as host,
    ):
        host.say("/agents")
        listed = host.result()["result"]
        assert "digger           digs (flag)" in listed
        assert "Explore          Finding things" in listed
        host.say("/agents digger")
        assert "tools  Read" in host.result()["result"]
        host.say("/tasks")
        assert "No background tasks" in host.result()["result"]
        host.say("go")
        assert host.result()["result"] == "begun"
        while subtypes(host.frames).count("task_progress") < 2:
            host.until(lambda _: True)
        (task,) = host.ask("background_tasks")["response"]["tasks"]
        host.say("/tasks")
        assert f"{task['task_id']}  agent running: some work · 1 call · " in host.result()["result"]
        host.say(f"/tasks {task['task_id']}")
        assert "- LS: ." in host.result()["result"]
        host.say("/tasks stop")
        assert host.result()["result"] == f"Stopped {task['task_id']}"
        assert host.result()["result"] == "stopped: True"
        host.say("/tasks nobody")
        assert 'unknown task "nobody"' in host.result()["errors"][0]


def test_hooks_keep_a_task_off_the_list_and_from_being_done(tmp_path: Path) -> None:
    def says(words: str) -> list[Json]:
        return [{"hooks": [{"type": "command", "command": f"echo '{words}' >&2; exit 2"}]}]

    settings = {"hooks": {"TaskCompleted": says("untested")}}
    created = {"tool": "TaskCreate", "input": {"subject": "do", "description": "it"}}
    done = {"tool": "TaskUpdate", "input": {"taskId": "1", "status": "completed"}}
    asked = {
        "go": [
            uses(created),
            uses(done),
            lambda body: {"text": f"{results(body)[0]}"},
        ]
    }
    frames, _ = frames_of(tmp_path, by_prompt(asked), "--settings", json.dumps(settings))
    assert "blocked the completion of this task" in frames[-1]["result"]
    assert "untested" in frames[-1]["result"]
    asked = {"go": [uses(created), lambda body: {"text": f"{results(body)[0]}"}]}
    settings = {"hooks": {"TaskCreated": says("no more")}}
    frames, _ = frames_of(tmp_path, by_prompt(asked), "--settings", json.dumps(settings))
    assert "rejected this task: " in frames[-1]["result"]
    assert not list((tmp_path / "config" / "tasks").glob(f"{frames[-1]['session_id']}/*.json"))


def test_an_agent_begins_with_its_skills_and_its_notes(tmp_path: Path) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    skill = work / ".claude" / "skills" / "lint"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: lints\n---\nLint with care.\n", "utf-8")
    notes = config / "agent-memory" / "keeper"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("The tests are in spec/.", "utf-8")
    keeper = {
        "description": "d",
        "prompt": "p",
        "skills": ["lint", "gone"],
        "memory": "user",
        "initialPrompt": "First look around.",
    }
    asked = {
        "go": [uses(agent("work", subagent_type="keeper")), {"text": "done"}],
        "First look around.": [{"text": "looked"}],
    }
    _, requests = frames_of(tmp_path, by_prompt(asked), "--agents", json.dumps({"keeper": keeper}))
    told = json.dumps(requests[1].body["messages"])
    assert "First look around.\\n\\nwork" in told
    assert "Lint with care." in told
    assert "The skill gone could not be loaded" in told
    assert "The tests are in spec/." in told
    assert str(notes) in told


def test_agents_that_work_at_once_share_what_is_left_of_the_budget(tmp_path: Path) -> None:
    """Each response may be as long as the request allows, so not all three agents get one."""

    def longest(body: Json) -> Json:
        return {"text": "gold", "usage": {"input_tokens": 9, "output_tokens": body["max_tokens"]}}

    asked = {
        "go": [
            uses(*(agent(f"dig {n}") for n in range(3))),
            lambda body: {"text": str(sum("Reached maximum budget" in r for r in results(body)))},
        ],
        "dig": [longest],
    }
    frames, requests = frames_of(tmp_path, by_prompt(asked), "--max-budget-usd", "0.30")
    assert 0.15 < frames[-1]["total_cost_usd"] <= 0.30
    refused = int(frames[-1]["result"])
    assert refused in (1, 2)
    assert len(requests) == 2 + 3 - refused


def test_more_agents_than_may_run_at_once_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    asked = {
        "go": [
            uses(*(agent(f"part {n}", run_in_background=True) for n in range(34))),
            lambda body: {
                "text": str(sum("32 background tasks are running" in r for r in results(body)))
            },
        ],
        "part": [endless("part")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        assert host.result()["result"] == "2"
    metas = list((tmp_path / "config" / "projects").glob("*/*/subagents/*.meta.json"))
    assert len(metas) == 32


def test_a_conversation_without_the_tool_is_told_of_no_agents(tmp_path: Path) -> None:
    answers = by_prompt({"go": [{"text": "done"}]})
    _, requests = frames_of(tmp_path, answers, "--tools", "Read,Bash")
    assert "Agent types" not in json.dumps(requests[0].body)
