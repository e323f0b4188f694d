"""Text written for the model does not reach an editor's user, live or in a resumed session."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.editor.editor import Editor

TASK = {"subject": "Read the code", "description": "all of it"}
EDIT = {"file_path": "twice.txt", "old_string": "same", "new_string": "other"}
CALLS: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "TaskCreate", "input": TASK}]},
        {"content": [{"tool": "Read", "input": {"file_path": "twice.txt"}}]},
        {"content": [{"tool": "Edit", "input": EDIT}]},
        {"content": [{"tool": "Agent", "input": {"description": "look", "prompt": "look"}}]},
        {"text": "all is calm"},
        {"text": "done"},
    ],
}


def test_an_editor_shows_the_display_form_of_results(tmp_path: Path) -> None:
    with serving(CALLS, strict=True) as server:
        with Editor(tmp_path, server.url) as editor:
            editor.initialize()
            (editor.work / "twice.txt").write_text("same\nsame\n", "utf-8")
            session = editor.new()
            editor.prompt(session, "go")
            live = json.dumps(editor.of("tool_call_update"))
            editor.end()
        with Editor(tmp_path, server.url) as editor:
            editor.initialize()
            editor.ask("session/load", sessionId=session, cwd=str(editor.work), mcpServers=[])
            replayed = json.dumps(editor.of("tool_call_update"))
        answered = json.dumps([request.body for request in server.requests])
    for shown in (live, replayed):
        assert "Added task #1: Read the code" in shown
        assert "old_string occurs 2 times" in shown
        assert "all is calm" in shown
        assert "set replace_all" not in shown
        assert "SendMessage" not in shown
    assert "set replace_all" in answered
    assert "SendMessage" in answered
