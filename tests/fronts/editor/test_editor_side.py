"""The editor's own files and terminal, where it offers them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.editor.editor import Editor, chosen, words

Json = dict[str, Any]
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


class Buffers:
    """An editor's open files; what is saved goes to the disk."""

    def __init__(self, editor: Editor) -> None:
        self.texts: dict[str, str] = {}
        self.saved: list[str] = []
        editor.answers["fs/read_text_file"] = self.read
        editor.answers["fs/write_text_file"] = self.write

    def read(self, params: Json) -> Json:
        path = params["path"]
        if path in self.texts:
            return {"content": self.texts[path]}
        return {"error": {"code": -32002, "message": "not open"}}

    def write(self, params: Json) -> Json:
        self.saved.append(params["path"])
        self.texts[params["path"]] = params["content"]
        Path(params["path"]).write_text(params["content"], encoding="utf-8")
        return {}


def editing(path: str = "a.txt") -> Json:
    edit = {"file_path": path, "old_string": "typed", "new_string": "changed"}
    return {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": path}}]},
            {"content": [{"tool": "Edit", "input": edit}]},
            {"text": "done"},
        ],
    }


def test_what_is_not_saved_is_read_and_changed_and_the_editor_gets_it(tmp_path: Path) -> None:
    with (
        serving(editing(), strict=True) as server,
        Editor(tmp_path, server.url, "--permission-mode", "acceptEdits") as editor,
    ):
        editor.initialize(**FILES)
        buffers = Buffers(editor)
        file = editor.work / "a.txt"
        file.write_bytes(b"on the disk\r\nmore\r\n")
        buffers.texts[str(file)] = "typed\nmore\n"
        editor.prompt(editor.new(), "change it")
        assert "typed" in json.dumps(server.requests[1].body["messages"][-1])
        assert file.read_bytes() == b"changed\r\nmore\r\n"
        assert buffers.saved == [str(file)]
        assert editor.of("tool_call_update")[-1]["status"] == "completed"


def test_a_file_the_editor_does_not_know_is_read_from_the_disk(tmp_path: Path) -> None:
    with (
        serving(editing(), strict=True) as server,
        Editor(tmp_path, server.url, "--permission-mode", "acceptEdits") as editor,
    ):
        editor.initialize(**FILES)
        buffers = Buffers(editor)
        editor.answers["fs/write_text_file"] = lambda _: {
            "error": {"code": 1, "message": "no room"}
        }
        (editor.work / "a.txt").write_text("typed\n", encoding="utf-8")
        editor.prompt(editor.new(), "change it")
        assert (editor.work / "a.txt").read_text("utf-8") == "changed\n"
        assert "no room" in json.dumps(server.requests[-1].body["messages"][-1])
        assert buffers.saved == []


class Terminals:
    """An editor's terminals. Without `ends`, the turn is cancelled while a command runs."""

    def __init__(self, editor: Editor, *, ends: bool = True) -> None:
        self.editor = editor
        self.ends = ends
        self.heard: list[str] = []
        self.printed = ""
        self.code = 0
        for name in ("create", "output", "wait_for_exit", "kill", "release"):
            editor.answers[f"terminal/{name}"] = getattr(self, name)

    def create(self, params: Json) -> Json:
        self.heard.append("create")
        if self.ends:
            env = {one["name"]: one["value"] for one in params["env"]}
            ran = subprocess.run(
                [params["command"], *params["args"]],
                cwd=params["cwd"],
                env=env | {"PATH": "/usr/bin:/bin"},
                capture_output=True,
                check=False,
            )
            self.printed, self.code = ran.stdout.decode(), ran.returncode
        return {"terminalId": "t-1"}

    def wait_for_exit(self, params: Json) -> Json:
        self.heard.append("wait")
        if not self.ends:
            self.editor.tell("session/cancel", sessionId=params["sessionId"])
            return {"error": {"code": -32800, "message": "cancelled"}}
        return {"exitCode": self.code, "signal": None}

    def note(self, name: str) -> Json:
        self.heard.append(name)
        return {}

    def output(self, _: Json) -> Json:
        return {"output": self.printed, "truncated": False}

    def kill(self, _: Json) -> Json:
        return self.note("kill")

    def release(self, _: Json) -> Json:
        return self.note("release")


def running(*commands: str) -> Json:
    answers: list[Json] = [
        {"content": [{"tool": "Bash", "input": {"command": command}}]} for command in commands
    ]
    return {"scenario": 1, "answers": [*answers, {"text": "done"}]}


def test_a_command_runs_in_a_terminal_of_the_editor(tmp_path: Path) -> None:
    scenario = running("mkdir -p sub; cd sub; echo made it", "pwd; touch x; exit 3")
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize(terminal=True)
        terminals = Terminals(editor)
        editor.answers["session/request_permission"] = chosen("allow_once")
        editor.prompt(editor.new(), "run it")
        assert terminals.heard == ["create", "wait", "release"] * 2
        shown = [u["content"] for u in editor.of("tool_call_update") if u.get("content")]
        assert [{"type": "terminal", "terminalId": "t-1"}] in shown
        assert "made it" in json.dumps(server.requests[1].body["messages"][-1])
        # The folder carries over, and how a command ended is told.
        last = json.dumps(server.requests[2].body["messages"][-1])
        assert str(editor.work / "sub") in last
        assert "Exit code 3" in last


def test_cancelling_ends_the_command_in_the_terminal(tmp_path: Path) -> None:
    with (
        serving(running("touch x; sleep 100"), strict=True) as server,
        Editor(tmp_path, server.url) as editor,
    ):
        editor.initialize(terminal=True)
        terminals = Terminals(editor, ends=False)
        editor.answers["session/request_permission"] = chosen("allow_once")
        asked = editor.begin("session/prompt", sessionId=editor.new(), prompt=[words("run it")])
        assert editor.answer(asked)["result"] == {"stopReason": "cancelled"}
        assert terminals.heard[-1] == "release"


def test_an_editor_that_opens_no_terminal_is_told_to_the_model(tmp_path: Path) -> None:
    with (
        serving(running("touch hi"), strict=True) as server,
        Editor(tmp_path, server.url) as editor,
    ):
        editor.initialize(terminal=True)
        editor.answers["session/request_permission"] = chosen("allow_once")
        editor.answers["terminal/create"] = lambda _: {"error": {"code": 1, "message": "none left"}}
        editor.prompt(editor.new(), "run it")
        assert "none left" in json.dumps(server.requests[-1].body["messages"][-1])


def test_a_command_that_nobody_was_asked_about_does_not_run_in_the_editors_terminal(
    tmp_path: Path,
) -> None:
    """It runs without a sandbox."""
    with serving(running("echo hi"), strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize(terminal=True)
        terminals = Terminals(editor)
        editor.prompt(editor.new(), "run it")
        assert terminals.heard == []
        assert "hi" in json.dumps(server.requests[-1].body["messages"][-1])
