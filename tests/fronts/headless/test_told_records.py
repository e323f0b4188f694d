"""Requirements about the first request, paths and old files, checked in runs of the program."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json = dict[str, Any]
FINE = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
SESSION = "6a3c5c1e-0f43-4c1c-9d3a-0d4f1f1c8a01"


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def entry(kind: str, number: int, **fields: Any) -> Json:
    return {
        "type": kind,
        "uuid": uid(number),
        "parentUuid": uid(number - 1) if number > 1 else None,
        "sessionId": SESSION,
        "timestamp": f"2026-01-01T10:00:{number:02d}.000Z",
        "version": "1.0.60",
        "isSidechain": False,
        "userType": "external",
        **fields,
    }


def said(kind: str, number: int, content: Any, **fields: Any) -> Json:
    message: Json = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {"input_tokens": 1, "output_tokens": 1}
        message |= {"id": f"msg_{number}", "type": "message", "model": "m", "usage": usage}
        message["content"] = [{"type": "text", "text": content}]
    return entry(kind, number, message=message, **fields)


def left(home: Path, *lines: Json) -> Path:
    """Write the session of another program into the folder of `home/work`."""
    work = home / "work"
    work.mkdir()
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in os.path.realpath(work))
    path = home / "config" / "projects" / name / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    text = "".join(json.dumps(line | {"cwd": str(work)}) + "\n" for line in lines)
    path.write_text(text, "utf-8")
    return path


@requirement("R116", "R117", "R118", "R120", "R121", "R123")
def test_the_first_request_has_the_instructions_of_each_layer_in_their_order(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    layers = {
        tmp_path / "config" / "CLAUDE.md": "of the user",
        work / "CLAUDE.md": "of the project",
        work / "CLAUDE.local.md": "of this copy",
    }
    for path, words in layers.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"These are the rules {words}.\n", "utf-8")
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=work, check=True)
    with serving(FINE, strict=True) as server:
        clew(tmp_path, server.url, "-p", "hi")
        (work / "CLAUDE.md").write_text("These are the new rules.\n", "utf-8")
        clew(tmp_path, server.url, "-p", "again")
        first, second = (json.dumps(r.body["messages"]) for r in server.requests)
        system = json.dumps(server.requests[0].body["system"])
    places = [first.index(f"rules {words}") for words in layers.values()]
    assert places == sorted(places)
    assert "trunk" in first
    assert "rules of the" not in system
    assert "the new rules" in second
    assert "of the project" not in second


@requirement("R161", "R166", "C17")
def test_a_session_lies_in_the_folder_of_the_real_path_however_long_it_is(tmp_path: Path) -> None:
    deep = tmp_path / "work"
    for _ in range(5):
        deep /= "a_folder_with_a_long_name_" * 2
    deep.mkdir(parents=True)
    (tmp_path / "link").symlink_to(deep)
    with serving(FINE, strict=True) as server:
        for place in (deep, tmp_path / "link"):
            subprocess.run(
                command("-p", "hi", "--continue"),
                cwd=place,
                env=environment(tmp_path, server.url) | {"PWD": str(place)},
                stdin=subprocess.DEVNULL,
                check=True,
                capture_output=True,
            )
        told = json.dumps(server.requests[-1].body["messages"])
    (path,) = transcripts(tmp_path)
    assert told.count('"hi"') == 2
    # The published reader cuts at 200 characters and adds a hash.
    assert path.parent.name[200] == "-"
    assert path.parent.name[201:].isalnum()


@requirement("R165")
@pytest.mark.parametrize("name", ["../../escape", "a/b", "..", SESSION + "/../x"])
def test_what_is_no_id_reaches_no_path(name: str, tmp_path: Path) -> None:
    done = clew(tmp_path, "http://127.0.0.1:9", "-p", "hi", "--session-id", name)
    assert done.returncode == 2
    assert "--session-id" in done.stderr
    done = clew(tmp_path, "http://127.0.0.1:9", "-p", "hi", "--resume", name)
    assert done.returncode in (1, 2)
    assert not transcripts(tmp_path)


@requirement("R170", "R251")
def test_an_old_chain_over_progress_continues_with_all_that_was_said(tmp_path: Path) -> None:
    step = {"type": "bash_progress", "output": "x"}
    path = left(
        tmp_path,
        said("user", 1, "ALPHA"),
        said("assistant", 2, "one"),
        entry("progress", 3, toolUseID="t", data=step),
        entry("progress", 4, toolUseID="t", data=step),
        said("user", 5, "BETA"),
        said("assistant", 6, "two"),
    )
    with serving(FINE, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "GAMMA", "--resume", SESSION)
        messages = server.requests[-1].body["messages"]
    assert done.returncode == 0, done.stderr
    told = json.dumps(messages)
    assert [word in told for word in ("ALPHA", "one", "BETA", "two", "GAMMA")] == [True] * 5
    assert "bash_progress" not in told
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert sum(line["type"] == "progress" for line in lines) == 2
    parents = [line.get("parentUuid") for line in lines[6:]]
    assert not {uid(3), uid(4)} & set(parents)


@requirement("R178", "W28")
def test_a_first_prompt_is_what_a_user_wrote(tmp_path: Path) -> None:
    left(
        tmp_path,
        said("user", 1, "<command-name>/init</command-name>"),
        said("user", 2, "[Request interrupted by user]"),
        said("user", 3, "Fix the parser"),
        said("assistant", 4, "done"),
    )
    listed = clew(tmp_path, "http://127.0.0.1:9", "sessions", "list", "--json")
    (row,) = json.loads(listed.stdout)
    assert (row["title"], row["firstPrompt"]) == ("Fix the parser", "Fix the parser")


@requirement("R080")
def test_content_that_is_empty_is_sent_as_something(tmp_path: Path) -> None:
    left(tmp_path, said("user", 1, ""), said("assistant", 2, ""), said("user", 3, []))
    with serving(FINE, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "on", "--resume", SESSION)
        messages = server.requests[-1].body["messages"]
    assert done.returncode == 0, done.stderr
    assert all(message["content"] for message in messages)


@requirement("R259")
def test_a_check_names_a_parent_that_is_progress_and_one_before_a_summary(tmp_path: Path) -> None:
    left(tmp_path, said("user", 1, "x"), entry("progress", 2, data={}), said("user", 3, "y"))
    checked = clew(tmp_path, "http://127.0.0.1:9", "sessions", "check", "--notes", SESSION)
    assert "progress" in checked.stdout


@requirement("R144", "C9")
def test_a_nearer_scope_wins_and_denials_of_every_scope_hold(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for path, settings in (
        (tmp_path / "config" / "settings.json", {"model": "opus", "effortLevel": "low",
            "permissions": {"deny": ["Bash(touch u*)"]}}),
        (work / ".claude" / "settings.json", {"effortLevel": "medium"}),
        (work / ".claude" / "settings.local.json", {"effortLevel": "high"}),
    ):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), "utf-8")
    calls = [{"tool": "Bash", "input": {"command": f"touch {name}"}} for name in ("u1", "v1")]
    plan = {"scenario": 1, "answers": [{"content": calls}, {"text": "Done.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "config", "trust", str(work))
        # The command line is above them all, and takes no denial away.
        clew(tmp_path, server.url, "-p", "go", "--model", "haiku", "--allowedTools", "Bash")
        body = server.requests[0].body
        clew(tmp_path, server.url, "-p", "go")
        below = server.requests[-1].body
    assert "haiku" in body["model"]
    assert "opus" in below["model"]
    assert below["output_config"]["effort"] == "high"
    assert [(work / name).exists() for name in ("u1", "v1")] == [False, True]


@requirement("R140", "R059")
def test_a_call_runs_while_its_answer_still_streams(tmp_path: Path) -> None:
    call = {"tool": "Bash", "input": {"command": "touch started"}}
    answer = {
        "content": [call, "This never ends."],
        "faults": [{"after_events": 6, "stall_s": "forever"}],
    }
    plan = {"scenario": 1, "defaults": {"delta_chars": 400}, "answers": [answer]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        until((tmp_path / "work" / "started").exists)
        assert host.ask("interrupt")["subtype"] == "success"
        assert host.result()["is_error"] is True
    assert len(server.requests) == 1


@requirement("R142")
@pytest.mark.parametrize("is_added", [True, False])
def test_an_added_folder_is_edited_like_ones_own(is_added: bool, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write = {"tool": "Write", "input": {"file_path": str(other / "a.txt"), "content": "x"}}
    plan = {"scenario": 1, "answers": [{"content": [write]}, {"text": "Done."}]}
    more = ("--add-dir", str(other)) if is_added else ()
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--permission-mode", "acceptEdits", *more)
    assert done.stdout == "Done.\n", done.stderr
    assert (other / "a.txt").exists() is is_added


@requirement("V12")
def test_a_call_that_was_whole_before_the_connection_broke_runs_once(tmp_path: Path) -> None:
    call = {"tool": "Bash", "input": {"command": "echo once >> log"}}
    broken = {
        "content": [call, "And more that is cut."],
        "faults": [{"after_events": 6, "cut": "close"}],
    }
    plan = {
        "scenario": 1,
        "defaults": {"delta_chars": 400},
        "answers": [broken, {"text": "Gone on.", "times": "always"}],
    }
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
    assert done.stdout.endswith("Gone on.\n"), done.stderr
    assert (tmp_path / "work" / "log").read_text("utf-8") == "once\n"


@requirement("R135", "R138", "W1")
def test_an_edit_needs_the_file_as_it_was_read_and_the_text_to_replace(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n", "utf-8")

    def edit(old: str) -> Json:
        given = {"file_path": "a.txt", "old_string": old, "new_string": "two"}
        return {"content": [{"tool": "Edit", "input": given}]}

    read = {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]}
    touched = {"content": [{"tool": "Bash", "input": {"command": "echo more >> a.txt"}}]}
    plan = {
        "scenario": 1,
        "answers": [edit("one"), read, edit("three"), touched, edit("one"), {"text": "Done."}],
    }
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash,Edit")
        results = [
            block
            for message in server.requests[-1].body["messages"]
            if message["role"] == "user" and isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
    unread, _, missing, _, changed = results
    assert [bool(r.get("is_error")) for r in (unread, missing, changed)] == [True] * 3
    assert "three" in str(missing["content"]) or "not found" in str(missing["content"])
    assert (work / "a.txt").read_text("utf-8") == "one\nmore\n"
