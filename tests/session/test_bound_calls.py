"""A call is bound once: its input is converted once, and its command line is read once by each reader."""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from clew.agent.conversation import Speaker
from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.events import EngineEvent
from clew.agent.options import Options
from clew.agent.tools.schema import parse_input
from clew.permissions.grammar import read_line
from clew.permissions.shell import split
from clew.session.build import open_session
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment

# Not plain enough for one reading alone: rules that deny commands ask the syntax tree too.
COMMAND = 'echo "one $USER" | tr a-z A-Z && echo two'
OTHER = 'echo "three $USER"'
RULES = {"allow": ["Bash(echo:*)", "Bash(tr:*)"], "deny": ["Bash(rm:*)", "Read(secret/**)"]}
Json = dict[str, Any]


class Readings:
    """How often each text was read, by every thread while it counts."""

    def __init__(self) -> None:
        self.inputs: Counter[str] = Counter()
        self.strict: Counter[str] = Counter()
        self.trees: Counter[str] = Counter()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        if frame.f_code is parse_input.__code__:
            self.inputs[frame.f_locals["raw"]["command"]] += 1
        elif frame.f_code is read_line.__code__:
            self.strict[frame.f_locals["text"]] += 1
        elif frame.f_code is split.__code__:
            self.trees[frame.f_locals["command"]] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        before = sys.getprofile()
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)


async def nobody(_: Question) -> Verdict:
    return Refused(words="nobody is here", by_person=False)


async def someone_changes_it(_: Question) -> Verdict:
    return Granted(input={"command": OTHER})


async def unheard(_: EngineEvent) -> None:
    """Events are not what these tests are about."""


async def read_by(
    home: Path, settings: Json, command: str = COMMAND, ask: Any = nobody
) -> tuple[Readings, Json, str]:
    """Runs one call of Bash in a session of its own; what was read, its result, and all that the model
    was told."""
    folder = home / "config"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    call = {"tool": "Bash", "input": {"command": command}}
    plan = {"scenario": 1, "answers": [{"content": [call]}, {"text": "Done."}]}
    readings = Readings()
    work = home / "work"
    work.mkdir()
    with serving(plan, strict=True) as server:
        environ = {**os.environ, **environment(home, server.url)}
        async with open_session(Options(), environ, str(work), ask, entrypoint="cli") as opened:
            with readings.counting():
                await opened.conversation.submit(
                    "go",
                    unheard,
                    said_by=Speaker(source="sdk", mode=opened.mode),
                    context=await opened.context(),
                )
        (result,) = [
            block
            for message in server.requests[-1].body["messages"]
            for block in message["content"]
            if isinstance(block, dict) and block.get("type") == "tool_result"
        ]
        told = json.dumps(server.requests[-1].body)
    return readings, result, told


def hook(event: str, answer: Json, condition: str = "") -> Json:
    said = {"hookSpecificOutput": {"hookEventName": event} | answer}
    one = {"type": "command", "command": f"echo '{json.dumps(said)}'"}
    return {event: [{"matcher": "Bash", "hooks": [one | ({"if": condition} if condition else {})]}]}


async def test_a_call_of_bash_is_read_once_from_rules_to_record(tmp_path: Path) -> None:
    context = {"additionalContext": "noted"}
    hooks = hook("PreToolUse", context, "Bash(echo *)") | hook("PostToolUse", context, "Bash(tr *)")
    settings = {"permissions": RULES, "hooks": hooks}
    readings, result, told = await read_by(tmp_path, settings)
    assert told.count("noted") == 2
    assert result["content"].endswith("two")
    assert readings.inputs == {COMMAND: 1}
    assert readings.strict == {COMMAND: 1}
    assert readings.trees == {COMMAND: 1}


@pytest.mark.parametrize("by_hook", [True, False])
async def test_another_input_is_another_call_and_read_once_too(
    tmp_path: Path, by_hook: bool
) -> None:
    changed = {"permissionDecision": "allow", "updatedInput": {"command": OTHER}}
    settings: Json = {"permissions": RULES}
    if by_hook:
        settings["hooks"] = hook("PreToolUse", changed)
    command = COMMAND if by_hook else "make all"
    readings, result, _ = await read_by(tmp_path, settings, command, someone_changes_it)
    assert result["content"].startswith("three")
    assert readings.inputs == {command: 1, OTHER: 1}
    assert set(readings.strict) == {command, OTHER}
    assert set(readings.strict.values()) == {1}
    assert set(readings.trees.values()) == {1}


async def test_a_plain_line_is_not_given_to_the_syntax_tree(tmp_path: Path) -> None:
    readings, _, _ = await read_by(tmp_path, {"permissions": RULES}, "echo plain words")
    assert readings.strict == {"echo plain words": 1}
    assert readings.trees == {}
