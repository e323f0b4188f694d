"""Requirements about tools, checked in runs: what calls access, what they know, how they end."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, asked, uses
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

Json = dict[str, Any]
FILES, FILE_BYTES = 16, 7_000_000
DONE = {"text": "Done.", "times": "always"}


def bash(line: str) -> Json:
    return {"tool": "Bash", "input": {"command": line}}


def results(body: Json) -> list[Json]:
    return [b for b in body["messages"][-1]["content"] if b["type"] == "tool_result"]


@requirement("R131", "W25")
def test_what_a_call_may_do_depends_on_its_input_and_its_file(tmp_path: Path) -> None:
    """Only reads run without asking, and a rule for a file applies to each tool that uses it."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("open.txt", "shut.txt"):
        (work / name).write_text(f"{name} says\n", "utf-8")
    edit = {"file_path": "shut.txt", "old_string": "says", "new_string": "said"}
    calls = [
        bash("cat open.txt"), bash("cat open.txt > made"), bash("rm open.txt"), bash("cat shut.txt"),
        {"tool": "Read", "input": {"file_path": "open.txt"}},
        {"tool": "Read", "input": {"file_path": "shut.txt"}},
        {"tool": "Edit", "input": edit},
        {"tool": "mcp__memo__echo", "input": {"text": "hey"}},
    ]  # fmt: skip
    config = json.dumps({"mcpServers": {"memo": entry("honest")}})
    options = (
        "--mcp-config",
        config,
        "--disallowedTools",
        "Read(shut.txt)",
        "--disallowedTools",
        "Glob",
    )
    with serving({"scenario": 1, "answers": [{"content": calls}, DONE]}, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", *options)
        first, second = (request.body for request in server.requests)
    assert done.returncode == 0, done.stderr
    ended = results(second)
    assert [not r.get("is_error") for r in ended] == [
        True, False, False, False, True, False, False, False,
    ]  # fmt: skip
    assert "open.txt says" in ended[0]["content"]
    assert "mcp__memo__echo" in json.dumps(ended[-1])
    names = [tool["name"] for tool in first["tools"]]
    assert ("Read" in names, "Glob" in names) == (True, False)
    assert (work / "open.txt").exists()


@requirement("R134")
def test_an_interrupt_reaches_every_tool_that_runs(tmp_path: Path) -> None:
    note = tmp_path / "note"
    config = json.dumps({"mcpServers": {"rude": entry("rude", str(note))}})
    calls = {
        "one": bash("touch one; sleep 100"),
        "two": {"tool": "mcp__rude__hang", "input": {}},
        "three": agent("dig"),
    }
    stalled = {"text": "Long.", "faults": [{"at": "headers", "stall_s": "forever"}]}

    def answer(body: Json) -> Json:
        prompt, _ = asked(body["messages"])
        return uses(calls[prompt]) if prompt in calls else stalled

    options = ("--mcp-config", config, "--allowedTools", "Bash,mcp__rude,Agent")
    with serving(answer) as server, Hosted(tmp_path, server.url, *options) as host:
        has_begun = (
            (host.work / "one").exists,
            lambda: note.exists() and note.read_text("utf-8") == "hangs",
            lambda: len(server.requests) == len(calls) + 1,
        )
        for prompt, holds in zip(calls, has_begun, strict=True):
            host.say(prompt)
            until(holds)
            assert host.ask("interrupt")["subtype"] == "success"
            assert host.result()["is_error"] is True
    (path,) = transcripts(tmp_path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    ended = [line["message"]["content"][0] for line in lines if "toolUseResult" in line]
    assert [each["is_error"] for each in ended] == [True] * len(calls)


@requirement("R136")
def test_a_call_knows_the_models_tools_and_servers_of_its_session(tmp_path: Path) -> None:
    """A subagent works like its session: with the same model, tools and permissions."""
    config = json.dumps({"mcpServers": {"memo": entry("honest")}})
    script: Mapping[str, list[Json]] = {
        "go": [uses(agent("dig", subagent_type="general-purpose")), {"text": "Done."}],
        "dig": [
            uses(bash("touch made"), {"tool": "mcp__memo__echo", "input": {"text": "hey"}}),
            {"text": "Dug."},
        ],
    }

    def answer(body: Json) -> Json:
        prompt, number = asked(body["messages"])
        return script[prompt][number]

    options = (
        "--mcp-config", config, "--allowedTools", "mcp__memo", "--model", "claude-sonnet-4-20250514",
    )  # fmt: skip
    with serving(answer) as server:
        done = clew(tmp_path, server.url, "-p", "go", *options)
        bodies = [request.body for request in server.requests]
    assert done.stdout == "Done.\n", done.stderr
    main = bodies[0]
    dug = [body for body in bodies if "dig" in json.dumps(body["messages"][0])]
    assert len(dug) == 2
    for body in dug:
        assert body["model"] == main["model"] == "claude-sonnet-4-20250514"
        assert "mcp__memo" in json.dumps([body["tools"], body["messages"]])
    refused, echoed = results(dug[1])
    assert refused["is_error"] is True
    assert "you said hey" in json.dumps(echoed)
    assert not (tmp_path / "work" / "made").exists()


def peak_bytes(home: Path, count: int) -> int:
    """Return the peak memory of a run that reads this many large files and then edits the first."""
    work = home / "work"
    work.mkdir(parents=True)
    text = "first\n" + "wool\n" * (FILE_BYTES // 5)
    reads = []
    for number in range(count):
        (work / f"{number}.txt").write_text(text, "utf-8")
        reads.append({"tool": "Read", "input": {"file_path": f"{number}.txt", "limit": 1}})
    edit = {"file_path": "0.txt", "old_string": "first", "new_string": "FIRST"}
    calls = [*reads, {"tool": "Edit", "input": edit}]
    answers = [*({"content": [call]} for call in calls), DONE]
    with (
        serving({"scenario": 1, "answers": answers}) as server,
        subprocess.Popen(
            command("-p", "go", "--permission-mode", "acceptEdits"),
            cwd=work,
            env=environment(home, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.read() == b"Done.\n"
        _, process.returncode, usage = os.wait4(process.pid, 0)
    assert (work / "0.txt").read_text("utf-8").startswith("FIRST")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@requirement("R230")
def test_files_that_were_read_leave_the_memory_and_can_still_be_edited(tmp_path: Path) -> None:
    one, many = peak_bytes(tmp_path / "one", 1), peak_bytes(tmp_path / "many", FILES)
    assert many - one < FILES * FILE_BYTES // 2
