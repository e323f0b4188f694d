"""From one session to another and back on one screen.

Each has its own file, and hooks get the right one.
"""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [{"text": "First."}, {"text": "Second."}, {"text": "Third."}],
}
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")


def prompts(path: Path) -> list[str]:
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert {e["sessionId"] for e in entries if "sessionId" in e} == {path.stem}
    return [e["message"]["content"] for e in entries if e["type"] == "user"]


@requirement("R254", "R160", "R190", "R191")
def test_each_session_on_a_screen_is_in_its_own_file_and_hooks_are_told_which(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    command = f"cat >> {told}; echo >> {told}"
    hooks = {name: [{"hooks": [{"type": "command", "command": command}]}] for name in EVENTS}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text(json.dumps({"hooks": hooks}), "utf-8")
    with serving(TALK, strict=True) as server, OnScreen(tmp_path, server.url, rows=40) as screen:
        screen.expect(READY)
        screen.type("one\r")
        screen.expect("First.")
        screen.expect_rest()
        (first,) = transcripts(tmp_path)
        screen.type("/clear\r")
        screen.expect("── New session")
        screen.expect_rest()
        before = first.read_bytes()
        screen.type("two\r")
        screen.expect("Second.")
        screen.expect_rest()
        assert first.read_bytes() == before
        (second,) = set(transcripts(tmp_path)) - {first}
        screen.type(f"/resume {first.stem}\r")
        screen.expect("── Resumed session")
        screen.expect_rest()
        before = second.read_bytes()
        screen.type("three\r")
        screen.expect("Third.")
        screen.expect_rest()
        screen.type("\x04")
        assert screen.end() == 0
    assert second.read_bytes() == before
    assert prompts(first) == ["one", "three"]
    assert prompts(second) == ["two"]
    said = [json.loads(line) for line in told.read_bytes().splitlines() if line]
    assert [(each["hook_event_name"], each["transcript_path"]) for each in said] == [
        (event, str(path)) for path in (first, second, first) for event in EVENTS
    ]
    assert all(Path(each["transcript_path"]).stem == each["session_id"] for each in said)
