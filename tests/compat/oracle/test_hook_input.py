"""The input of command hooks: its members are the same in both programs."""

import json
from pathlib import Path

import pytest

from tests.compat.oracle.programs import Which, observe
from tests.compat.oracle.trial import ASK, BEGIN, DONE, Json, Trial, answer, bash, call, permit, say

EVENTS = (
    "SessionStart", "InstructionsLoaded", "UserPromptSubmit", "UserPromptExpansion", "PreToolUse",
    "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "SubagentStart",
    "SubagentStop", "MessageDisplay", "Stop", "SessionEnd",
)  # fmt: skip
CALLS = (
    call("Read", file_path="a.txt"),
    call("Edit", file_path="a.txt", old_string="ONE", new_string="TWO"),
    call("Agent", description="d", prompt="TASK", subagent_type="worker", run_in_background=False),
    call("Write", file_path="new.txt", content="NEW"),
    bash("mkdir made"),
    bash("false"),
)
# Members that only one program has, by event: those of clew with "+", the reference's with "-".
# clew gives the effort if one is chosen, and the model also at the start of a session.
EFFORT = {"- effort"}
ACCEPTED: dict[str, set[str]] = {
    "SessionStart": {"+ model"},
    "PreToolUse": EFFORT,
    "PermissionRequest": EFFORT,
    "PostToolUse": EFFORT,
    "PostToolUseFailure": EFFORT,
    "PostToolBatch": EFFORT,
    "SubagentStop": EFFORT,
    "Stop": EFFORT,
}


class HookedModel:
    """A model that makes the calls one by one, and answers for the subagent."""

    def __init__(self) -> None:
        self._made = 0

    def __call__(self, _: int, body: Json) -> Json:
        if "WORKER" in json.dumps(body.get("system", "")):
            return answer("FOUND")
        self._made += 1
        return answer(CALLS[self._made - 1]) if self._made <= len(CALLS) else DONE


def inputs_of(which: Which, folder: Path) -> dict[str, Json]:
    """Return the first input of each event's hook."""
    folder.mkdir()
    hooks = {
        event: [{"hooks": [{"type": "command", "command": f"cat >> {folder}/{event}; echo >> {folder}/{event}"}]}]
        for event in EVENTS
    }  # fmt: skip
    worker = {"description": "w", "prompt": "WORKER", "tools": ["Read"]}
    trial = Trial(
        args=(*ASK, "--allowedTools", "Read,Edit,Write,Agent"),
        files={
            "~/settings.json": json.dumps({"hooks": hooks}),
            "a.txt": "ONE\n", "CLAUDE.md": "MEMO\n", ".claude/commands/go.md": "GOGO $ARGUMENTS",
        },
        initialize={"agents": {"worker": worker}},
        steps=(BEGIN, say("/go FAST")),
        answers=permit(),
        model=HookedModel(),
    )  # fmt: skip
    observe(which, trial, folder)
    return {
        event: json.loads((folder / event).read_text("utf-8").splitlines()[0]) for event in EVENTS
    }


@pytest.mark.e2e
def test_hooks_get_the_same_members(tmp_path: Path) -> None:
    reference = inputs_of("reference", tmp_path / "reference")
    ours = inputs_of("clew", tmp_path / "clew")
    different = {
        event: {f"- {name}" for name in reference[event].keys() - ours[event].keys()}
        | {f"+ {name}" for name in ours[event].keys() - reference[event].keys()}
        for event in EVENTS
    }
    assert {event: names for event, names in different.items() if names} == ACCEPTED
    same = {"hook_event_name", "permission_mode", "source", "reason", "command_source", "trigger"}
    same |= {"load_reason", "memory_type", "agent_type", "tool_name", "expansion_type"}
    for event in EVENTS:
        for name in same & reference[event].keys():
            assert ours[event][name] == reference[event][name], (event, name)


@pytest.mark.e2e
@pytest.mark.parametrize("which", ["reference", "clew"])
def test_hooks_for_bash_check_the_commands_of_monitor(tmp_path: Path, which: Which) -> None:
    told = tmp_path / "told"
    handler = {"type": "command", "command": f"cat >> {told}; echo >> {told}"}
    hooks = {
        event: [{"matcher": "Bash", "hooks": [handler]}]
        for event in ("PreToolUse", "PermissionRequest", "PostToolUse")
    }
    watch = {"command": "mkdir made", "description": "WATCH", "timeout_ms": 2000}
    search = call("ToolSearch", query="select:Monitor", max_results=1)
    trial = Trial(
        args=ASK,
        files={"~/settings.json": json.dumps({"hooks": hooks})},
        steps=(BEGIN,),
        answers=permit(),
        model=[answer(search), answer(call("Monitor", **watch)), DONE],
    )
    observe(which, trial, tmp_path)
    seen = [json.loads(line) for line in told.read_text("utf-8").splitlines() if line]
    assert [(one["hook_event_name"], one["tool_name"]) for one in seen] == [
        ("PreToolUse", "Bash"),
        ("PermissionRequest", "Bash"),
    ]
    for one in seen:
        assert one["tool_input"] == {"command": "mkdir made", "description": "WATCH"}
