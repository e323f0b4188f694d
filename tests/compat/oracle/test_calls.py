"""Calls: permissions, hooks, tools of the host, subagents, background commands."""

import json
from pathlib import Path

import pytest

from tests.compat.oracle.check import check
from tests.compat.oracle.trial import (
    AGAIN,
    ASK,
    BEGIN,
    DONE,
    SKIP,
    HostStep,
    Json,
    Model,
    Trial,
    allow,
    answer,
    bash,
    call,
    control,
    deny,
    hooked,
    late,
    permit,
    refuse,
    say,
    specific,
)

MAKE = answer("TEXT", bash("mkdir made"))
MAKE_OTHER = answer(bash("mkdir other"))
LINES = ("--output-format", "stream-json", "--verbose")
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
MKDIR = {"toolName": "Bash", "ruleContent": "mkdir:*"}
WHICH = {
    "question": "Which?",
    "header": "W",
    "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
    "multiSelect": False,
}


def made_only(asked: Json) -> Json:
    """Deny what concerns the folder `made`, allow the rest."""
    if "made" in str(asked["input"]):
        return {"behavior": "deny", "message": "DENIED"}
    return allow(asked)


def pre(**members: Json | str) -> Json:
    return specific("PreToolUse", **members)


PERMISSIONS = {
    "the host allows": Trial(args=ASK, steps=(BEGIN,), answers=permit(), model=[MAKE, DONE]),
    "the host denies": Trial(args=ASK, steps=(BEGIN,), answers=deny(), model=[MAKE, DONE]),
    "the host denies and interrupts": Trial(
        args=ASK, steps=(BEGIN, AGAIN), answers=deny(interrupt=True), model=[MAKE, DONE]
    ),
    "the host changes the input": Trial(
        args=ASK,
        steps=(BEGIN,),
        answers=permit(updatedInput={"command": "mkdir other"}),
        model=[MAKE, DONE],
    ),
    "the host changes the input to an invalid one": Trial(
        args=ASK, steps=(BEGIN,), answers=permit(updatedInput={"cmd": 5}), model=[MAKE, DONE]
    ),
    "the host's answer is malformed": Trial(
        args=ASK, steps=(BEGIN,), answers={"can_use_tool": lambda _: {"foo": 1}}, model=[MAKE, DONE]
    ),
    "the host adds a rule": Trial(
        args=ASK,
        steps=(BEGIN,),
        answers=permit(
            updatedPermissions=[
                {
                    "type": "addRules",
                    "rules": [MKDIR],
                    "behavior": "allow",
                    "destination": "session",
                }
            ]
        ),
        model=[MAKE, MAKE_OTHER, DONE],
    ),
    "the host changes the mode": Trial(
        args=ASK,
        steps=(BEGIN,),
        answers=permit(
            updatedPermissions=[
                {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
            ]
        ),
        model=[
            answer(call("Write", file_path="one.txt", content="x")),
            answer(call("Write", file_path="two.txt", content="x")),
            DONE,
        ],
    ),
    "the mode changes during the turn": Trial(
        args=ASK,
        steps=(
            say("BEGIN", until="can_use_tool"),
            HostStep(file="started"),
            control("set_permission_mode", until="result", mode="bypassPermissions"),
        ),
        answers=permit(),
        model=[answer(bash("touch started; sleep 1")), MAKE, DONE],
    ),
    "paths are absolute": Trial(
        args=ASK,
        steps=(BEGIN,),
        answers=deny(),
        model=[answer(call("Write", file_path="sub/../new.txt", content="x")), DONE],
    ),
    "an interrupt while the host is asked": Trial(
        args=ASK,
        steps=(say("BEGIN", until="can_use_tool"), control("interrupt", until="result"), AGAIN),
        answers={"can_use_tool": lambda _: None},
        model=[MAKE, DONE],
    ),
    "no one can be asked": Trial(steps=(BEGIN,), model=[MAKE, DONE]),
    "a plan": Trial(
        args=(*ASK, "--permission-mode", "plan"),
        steps=(BEGIN,),
        answers=permit(),
        model=[answer(call("ExitPlanMode", plan="PLAN")), MAKE, DONE],
    ),
    "a question to the user": Trial(
        args=ASK,
        steps=(BEGIN,),
        answers={
            "can_use_tool": lambda asked: {
                "behavior": "allow",
                "updatedInput": asked["input"] | {"answers": {"Which?": "A"}},
            }
        },
        model=[answer(call("AskUserQuestion", questions=[WHICH])), DONE],
    ),
    "allowed tools": Trial(
        args=("--allowedTools", "Bash(mkdir:*),Read"),
        steps=(BEGIN,),
        files={"a.txt": "ALPHA\n"},
        model=[MAKE, answer(bash("touch new")), answer(call("Read", file_path="a.txt")), DONE],
    ),
    "disallowed tools": Trial(
        args=(*SKIP, "--disallowedTools", "Bash(mkdir:*)", "Write"),
        steps=(BEGIN,),
        model=[MAKE, answer(call("Write", file_path="x", content="y")), DONE],
    ),
    "only some tools": Trial(
        args=("--tools", "Read"), steps=(BEGIN,), model=[answer(bash("echo ECHOED")), DONE]
    ),
    "an unknown tool": Trial(args=SKIP, steps=(BEGIN,), model=[answer(call("Nothing", a=1)), DONE]),
    "an invalid input": Trial(
        args=SKIP, steps=(BEGIN,), model=[answer(call("Read", path=5)), DONE]
    ),
    "an input that is not JSON": Trial(
        args=SKIP,
        steps=(BEGIN,),
        model=[answer({"tool": "Read", "input_json": '{"file_path": '}), DONE],
    ),
    "an unread file is edited": Trial(
        args=SKIP,
        steps=(BEGIN,),
        files={"a.txt": "ALPHA\n"},
        model=[
            answer(call("Edit", file_path="a.txt", old_string="ALPHA", new_string="BETA")),
            DONE,
        ],
    ),
}
HOOKS = {
    "PreToolUse denies": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked(
            "PreToolUse",
            pre(permissionDecision="deny", permissionDecisionReason="HOOKED"),
        ),
        model=[MAKE, DONE],
    ),
    "PreToolUse allows another input": Trial(
        args=ASK,
        steps=(BEGIN,),
        **hooked(
            "PreToolUse",
            pre(permissionDecision="allow", updatedInput={"command": "mkdir other"}),
        ),
        model=[MAKE, DONE],
    ),
    "PreToolUse adds context": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked("PreToolUse", pre(additionalContext="HOOKED")),
        model=[MAKE, DONE],
    ),
    "PreToolUse ends the turn": Trial(
        args=SKIP,
        steps=(BEGIN, AGAIN),
        **hooked("PreToolUse", {"continue": False, "stopReason": "HOOKED"}),
        model=[MAKE, DONE],
    ),
    "PostToolUse blocks": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked("PostToolUse", {"decision": "block", "reason": "HOOKED"}),
        model=[MAKE, DONE],
    ),
    "PostToolUse adds context": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked("PostToolUse", specific("PostToolUse", additionalContext="HOOKED")),
        model=[MAKE, DONE],
    ),
    "PostToolUseFailure adds context": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked("PostToolUseFailure", specific("PostToolUseFailure", additionalContext="HOOKED")),
        model=[answer(bash("exit 3")), DONE],
    ),
    "Stop continues the turn": Trial(
        args=SKIP,
        steps=(BEGIN,),
        **hooked(
            "Stop",
            lambda asked: (
                {}
                if asked["input"]["stop_hook_active"]
                else {"decision": "block", "reason": "HOOKED"}
            ),
        ),
        model=[answer("ALPHA"), DONE],
    ),
    "UserPromptSubmit blocks": Trial(
        steps=(BEGIN,),
        **hooked("UserPromptSubmit", {"decision": "block", "reason": "HOOKED"}),
        model=[DONE],
    ),
    "UserPromptSubmit adds context": Trial(
        steps=(BEGIN,),
        **hooked("UserPromptSubmit", specific("UserPromptSubmit", additionalContext="HOOKED")),
        model=[DONE],
    ),
    "SessionStart adds context": Trial(
        steps=(BEGIN,),
        **hooked("SessionStart", specific("SessionStart", additionalContext="HOOKED")),
        model=[DONE],
    ),
    "PermissionRequest denies": Trial(
        args=ASK,
        steps=(BEGIN,),
        **hooked(
            "PermissionRequest",
            specific("PermissionRequest", decision={"behavior": "deny", "message": "HOOKED"}),
        ),
        model=[MAKE, DONE],
    ),
}

TOOL_RESULTS: dict[str, Json] = {
    "failed": {"content": [{"type": "text", "text": "BROKEN"}], "isError": True},
    "image": {
        "content": [
            {"type": "text", "text": "PICTURE"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
        ]
    },
    "structured": {
        "content": [{"type": "text", "text": '{"a": "VALUE"}'}],
        "structuredContent": {"a": "VALUE"},
    },
    "empty": {"content": []},
    "resource": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "x://y", "text": "RESOURCE", "mimeType": "text/plain"},
            }
        ]
    },
}


def serve_tools(asked: Json) -> Json:
    """Answer a message to the MCP server of the host. A tool without a result is an error."""
    message = asked["message"]
    reply: Json = {"jsonrpc": "2.0", "id": message.get("id", 0)}
    match message["method"]:
        case "initialize":
            reply["result"] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "host", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {}}
            reply["result"] = {
                "tools": [
                    {"name": name, "description": name, "inputSchema": schema}
                    for name in [*TOOL_RESULTS, "raises"]
                ]
            }
        case "tools/call" if message["params"]["name"] in TOOL_RESULTS:
            reply["result"] = TOOL_RESULTS[message["params"]["name"]]
        case "tools/call":
            reply["error"] = {"code": -32000, "message": "RAISED"}
        case _:
            reply["result"] = {}
    return {"mcp_response": reply}


HOST_SERVER = (
    "--mcp-config",
    json.dumps({"mcpServers": {"host": {"type": "sdk", "name": "host"}}}),
)
HOST_TOOLS = {
    f"a tool of the host: {name}": Trial(
        args=(*SKIP, *HOST_SERVER),
        initialize={"sdkMcpServers": ["host"]},
        steps=(BEGIN,),
        answers={"mcp_message": serve_tools},
        model=[answer(call(f"mcp__host__{name}")), DONE],
    )
    for name in [*TOOL_RESULTS, "raises"]
}

WORKER = {"worker": {"description": "works", "prompt": "WORKER", "tools": ["Bash"]}}


def delegate(*, is_background: bool | None, **last: str) -> Model:
    """Return a model that gives a task to a subagent, which answers with one text."""
    more = {} if is_background is None else {"run_in_background": is_background}

    def model(number: int, body: Json) -> Json:
        if "WORKER" in json.dumps(body.get("system", "")):
            # After the answer of a session that does not wait for it.
            return late(answer("FOUND", **last), 1.5)
        if "tool_result" in json.dumps(body["messages"]):
            return DONE
        task = call("Agent", description="d", prompt="TASK", subagent_type="worker", **more)
        return answer(task)

    return model


AGENTS = {
    "a subagent": Trial(
        args=SKIP,
        initialize={"agents": WORKER},
        steps=(BEGIN,),
        model=delegate(is_background=False),
    ),
    "a subagent that was not told where to work": Trial(
        args=SKIP,
        initialize={"agents": WORKER},
        steps=(BEGIN,),
        model=delegate(is_background=None),
    ),
    "a subagent whose answer is cut": Trial(
        args=SKIP,
        initialize={"agents": WORKER},
        steps=(BEGIN,),
        model=delegate(is_background=False, stop_reason="max_tokens"),
    ),
}


def started(*commands: str) -> list[Json]:
    return [answer(*(bash(command, run_in_background=True) for command in commands)), DONE]


# A command that runs until the host has this result, or the model was asked this many times.
AFTER = "until [ -e ../{} ]; do sleep 0.1; done; "
LATER = AFTER.format("result-1") + "echo ECHOED > ended"
CEILING = {"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "2000"}
BACKGROUND = {
    "a background command of a host": Trial(args=SKIP, steps=(BEGIN,), model=started(LATER)),
    "a background command of -p": Trial(
        args=("-p", "BEGIN", *SKIP, *LINES), is_hosted=False, model=started(LATER)
    ),
    "a background command of -p, in text form": Trial(
        args=("-p", "BEGIN", *SKIP),
        is_hosted=False,
        model=[*started(AFTER.format("request-2") + "sleep 1"), answer("LATER")],
    ),
    "a background command of -p, in JSON": Trial(
        args=("-p", "BEGIN", *SKIP, "--output-format", "json"),
        is_hosted=False,
        model=[*started(AFTER.format("request-2") + "sleep 1"), answer("LATER")],
    ),
    "a turn fails while a background command runs": Trial(
        args=("-p", "BEGIN", *SKIP, *LINES),
        is_hosted=False,
        model=[*started(LATER)[:1], refuse(403, "permission_error", "FORBIDDEN"), DONE],
    ),
    "a schema, and a background command": Trial(
        args=("-p", "BEGIN", *SKIP, *LINES, "--json-schema", '{"type": "object"}'),
        is_hosted=False,
        model=[*started(LATER)[:1], answer(call("StructuredOutput", n=2)), answer("LATER")],
    ),
    "two background commands": Trial(
        args=("-p", "BEGIN", *SKIP, *LINES),
        is_hosted=False,
        model=started(LATER, AFTER.format("result-2") + "echo ECHOED > later"),
    ),
    "a background command longer than the wait": Trial(
        args=SKIP,
        steps=(BEGIN,),
        environ=CEILING,
        model=started("sleep 6; echo ECHOED > ended"),
    ),
    "a background command that fails": Trial(
        args=("-p", "BEGIN", *SKIP, *LINES),
        is_hosted=False,
        model=started(AFTER.format("result-1") + "exit 3"),
    ),
    "the input ends before a background command": Trial(
        args=SKIP,
        steps=(say("BEGIN", until=""), HostStep(closes=True)),
        model=started(LATER),
    ),
}
TRIALS = PERMISSIONS | HOOKS | HOST_TOOLS | AGENTS | BACKGROUND


@pytest.mark.e2e
@pytest.mark.parametrize("name", TRIALS)
def test_calls_are_the_same_in_the_reference_client(name: str, tmp_path: Path) -> None:
    check(name, TRIALS[name], tmp_path)
