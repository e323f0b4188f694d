"""The published schema of host frames: it names every kind that clew writes, and real frames fit it."""

import json
import re
from pathlib import Path
from typing import Any

from clew.agent.tools.json_schema import find_mismatch
from clew.core.frame_kinds import FRAMES
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted

SOURCE = Path(__file__).parents[3] / "src" / "clew"
WRITTEN = re.compile(r'\bsystem\(\s*"(\w+)"|\{\s*"type": "system",\s*"subtype": "(\w+)"')
UNREAD = "http://127.0.0.1:9"


def test_every_system_frame_in_the_source_is_in_the_table() -> None:
    paths = [SOURCE / "core" / "wire.py", *(SOURCE / "fronts" / "headless").glob("*.py")]
    found = {
        first or second
        for path in paths
        for first, second in WRITTEN.findall(path.read_text("utf-8"))
    }
    assert {"init", "status", "task_started", "compact_boundary"} <= found
    assert found - {kind.subtype for kind in FRAMES if kind.type == "system"} == set()


def test_the_frames_of_a_session_fit_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads(clew(tmp_path, UNREAD, "config", "schema", "frames").stdout)
    rules = {
        tuple(part["const"] for part in rule["if"]["properties"].values()): rule["then"]
        for rule in schema["allOf"]
    }
    calls = [
        {"tool": "Bash", "input": {"command": "echo hi"}},
        {"tool": "Bash", "input": {"command": "sleep 0", "run_in_background": True}},
        {"tool": "Read", "input": {"file_path": "missing"}},
        {"tool": "Write", "input": {"file_path": "a.txt", "content": "x"}},
    ]
    busy = {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}}
    done = {"text": "Done.", "times": "always"}
    plan = {"scenario": 1, "answers": [busy, {"content": calls}, done]}
    hook = {"hooks": [{"type": "command", "command": "true"}]}
    settings = json.dumps(
        {"hooks": {"PreToolUse": [hook]}, "permissions": {"deny": ["Edit(a.txt)"]}}
    )
    flags = (
        "--include-partial-messages", "--include-hook-events", "--session-mirror",
        "--dangerously-skip-permissions", "--settings", settings,
    )  # fmt: skip
    environ = {
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "CLEW_EMIT_TOOL_USE_SUMMARIES": "1",
    }
    with serving(plan) as server, Hosted(tmp_path, server.url, *flags, **environ) as host:
        host.ask("initialize")
        host.say("go")
        assert host.result()["subtype"] == "success"
        host.say("/compact")
        host.result()
        host.say("/cost")
        host.result()
        host.say("/clear")
        host.result()
        host.end()
        frames = host.frames
    seen: set[tuple[Any, ...]] = set()
    for frame in frames:
        name = (frame["type"], frame["subtype"]) if "subtype" in frame else (frame["type"],)
        seen.add(name)
        assert name in rules, frame
        assert find_mismatch(frame, rules[name]) == "", frame
    assert {
        ("assistant",), ("user",), ("stream_event",), ("transcript_mirror",), ("result", "success"),
        ("control_response",), ("conversation_reset",), ("tool_use_summary",),
        *(("system", subtype) for subtype in (
            "init", "status", "session_state_changed", "hook_started", "hook_response", "api_retry",
            "task_started", "task_updated", "task_notification", "background_tasks_changed",
            "permission_denied", "local_command_output",
        )),
    } - seen == set()  # fmt: skip
