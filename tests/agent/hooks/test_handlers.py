"""Hooks in settings: the published examples are parsed unchanged, and errors are reported."""

import json
from typing import Any

import pytest

from clew.agent.hooks.events import EVENTS, Kind
from clew.agent.hooks.handlers import (
    AgentHook,
    CallbackHook,
    CommandHook,
    Handler,
    Hook,
    HookListing,
    HttpHook,
    McpToolHook,
    PromptHook,
    kind_of,
    read_hooks,
    read_layers,
)
from clew.system.config.layers import Layer, Scope
from clew.system.config.load import decoded
from clew.system.config.settings import SettingFault

Json = dict[str, Any]


def layer(hooks: Any, *, scope: Scope = "user", **more: Any) -> Layer:
    data = {"hooks": hooks} | more
    text = json.dumps(data, indent=1)
    return decoded(scope, f"/{scope}.json", "/", text)


def one(handler: Json, *, event: str = "PreToolUse", matcher: str | None = "Bash") -> HookListing:
    group: Json = {"hooks": [handler]} | ({} if matcher is None else {"matcher": matcher})
    return read_layers([layer({event: [group]})])


@pytest.mark.parametrize(
    ("handler", "kind", "title", "timeout_s"),
    [
        (
            {"type": "command", "if": "Bash(rm *)", "command": "${CLAUDE_PROJECT_DIR}/a.sh", "args": []},
            "command",
            "${CLAUDE_PROJECT_DIR}/a.sh",
            600,
        ),
        ({"type": "command", "command": "node", "args": ["a b", "-c"]}, "command", "node a b -c", 600),
        (
            {"type": "http", "url": "http://localhost:8080/h", "timeout": 30, "headers": {"A": "$T"},
             "allowedEnvVars": ["T"]},
            "http",
            "http://localhost:8080/h",
            30,
        ),
        (
            {"type": "mcp_tool", "server": "s", "tool": "scan",
             "input": {"file_path": "${tool_input.file_path}"}},
            "mcp_tool",
            "s: scan",
            600,
        ),
        ({"type": "prompt", "prompt": "May it? $ARGUMENTS"}, "prompt", "prompt: May it? $ARGUMENTS", 30),
        ({"type": "agent", "prompt": "Look", "timeout": 120}, "agent", "agent: Look", 120),
    ],
)  # fmt: skip
def test_each_kind_of_handler_is_read(
    handler: Json, kind: Kind, title: str, timeout_s: float
) -> None:
    found = one(handler)
    assert found.faults == ()
    (hook,) = found.hooks
    assert (hook.kind, hook.handler.title, hook.timeout_s) == (kind, title, timeout_s)
    assert (hook.matcher, hook.source) == ("Bash", "user")
    assert hook.where.startswith("/user.json:")


def test_the_default_time_is_the_shorter_of_the_events_and_the_kinds() -> None:
    def of(event: str, handler: Json) -> float:
        return one(handler, event=event).hooks[0].timeout_s

    command = {"type": "command", "command": "true"}
    assert of("UserPromptSubmit", command) == 30
    assert of("MessageDisplay", command) == 10
    assert of("SessionEnd", command) == 1.5
    assert of("Stop", {"type": "prompt", "prompt": "p"}) == 30
    assert of("Stop", {"type": "agent", "prompt": "p"}) == 60
    assert of("UserPromptSubmit", command | {"timeout": 90}) == 90


@pytest.mark.parametrize("event", [e.name for e in EVENTS])
def test_a_command_can_be_hooked_to_every_event(event: str) -> None:
    found = one({"type": "command", "command": "true"}, event=event, matcher=None)
    assert found.faults == ()
    assert found.hooks[0].event.name == event


def test_a_matcher_where_none_is_held_against_is_ignored() -> None:
    found = one({"type": "command", "command": "true"}, event="Stop", matcher="Bash")
    assert found.hooks[0].matcher == ""
    assert found.faults == ()


@pytest.mark.parametrize(
    ("handler", "event", "told"),
    [
        ({"type": "comand", "command": "x"}, "Stop", "Invalid value 'comand': at `type`"),
        ({"type": "command"}, "Stop", "Object missing required field `command`"),
        ({"type": "command", "command": 7}, "Stop", "Expected `str`, got `int`: at `command`"),
        ("x", "Stop", "Expected `object`, got `str`"),
        ({"type": "command", "command": "x", "timeout": 0}, "Stop", "greater than 0 seconds"),
        ({"type": "command", "command": "x", "shell": "powershell"}, "Stop", "PowerShell"),
        ({"type": "command", "command": "x", "if": "Bash(a)"}, "Stop", "requires a tool call, and Stop"),
        ({"type": "command", "command": "x", "if": "B ("}, "PreToolUse", "if: B (: expected"),
        ({"type": "prompt", "prompt": "x"}, "SessionStart", "SessionStart does not support"),
        ({"type": "http", "url": "x"}, "SessionStart", "expected one of command, mcp_tool"),
        ({"type": "command", "command": "x"}, "PreToolUs", 'unknown event (did you mean "PreToolUse"?)'),
        ({"type": "command", "command": "x"}, "Qqq", "unknown event"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_reported_with_its_place(handler: Any, event: str, told: str) -> None:
    found = one(handler, event=event)
    assert found.hooks == ()
    (fault,) = found.faults
    assert told in fault
    assert fault.startswith(("/user.json:", "/user.json"))
    assert f"hooks.{event}[0].hooks[0]" in fault


@pytest.mark.parametrize(
    ("hooks", "told"),
    [
        ({"Stop": {}}, "hooks.Stop: expected an array"),
        ({"Stop": ["x"]}, "hooks.Stop[0]: expected an object with a `hooks` array"),
        ({"Stop": [{"matcher": "x"}]}, "expected an object with a `hooks` array"),
        ({"Stop": [{"matcher": 7, "hooks": []}]}, "hooks.Stop[0].matcher: expected a string"),
        ({"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}]},
         "not a valid regular expression"),
    ],
)  # fmt: skip
def test_settings_of_another_form_are_reported(hooks: Any, told: str) -> None:
    found = read_layers([layer(hooks)])
    assert found.hooks == ()
    assert told in found.faults[0]


def test_hooks_that_are_no_object_are_the_settings_fault() -> None:
    broken = layer([])
    assert broken.faults == () or isinstance(broken.faults[0], SettingFault)
    assert read_hooks(7) == HookListing()
    assert read_hooks(None) == HookListing()


def test_a_part_without_a_file_says_what_it_says_itself() -> None:
    said = {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}], "Nope": [{"hooks": [{}]}]}
    found = read_hooks(said, source="plugin:p", variables=(("CLAUDE_PLUGIN_ROOT", "/p"),))
    (hook,) = found.hooks
    assert (hook.source, hook.where) == ("plugin:p", "")
    assert hook.variables == (("CLAUDE_PLUGIN_ROOT", "/p"),)
    assert found.faults == ("hooks.Nope[0].hooks[0]: unknown event",)


def test_hooks_of_all_layers_add_up_and_the_same_one_runs_once() -> None:
    say: Json = {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}
    other: Json = {"Stop": [{"hooks": [{"type": "command", "command": "b"}]}]}
    found = read_layers([layer(say), layer(say, scope="project"), layer(other, scope="local")])
    assert [hook.handler.title for hook in found.hooks] == ["b", "a"]


def test_settings_without_a_file_say_their_scope() -> None:
    given = Layer(scope="cli", root="/", data={"hooks": {"Nope": [{"hooks": [{}]}]}})
    assert read_layers([given]).faults == ("(cli): hooks.Nope[0].hooks[0]: unknown event",)


SAY: Json = {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}
THEIRS: Json = {"Stop": [{"hooks": [{"type": "command", "command": "managed"}]}]}


@pytest.mark.parametrize(
    ("layers", "run", "off"),
    [
        ([layer(SAY), layer(THEIRS, scope="managed")], ["managed", "mine"], ""),
        ([layer(SAY), layer(THEIRS, scope="managed", allowManagedHooksOnly=True)], ["managed"],
         "only managed hooks run"),
        ([layer(SAY, disableAllHooks=True), layer(THEIRS, scope="managed")], ["managed"],
         "disableAllHooks (user)"),
        ([layer(SAY), layer(THEIRS, scope="managed", disableAllHooks=True)], [],
         "disableAllHooks (managed)"),
        ([layer(SAY, disableAllHooks=True), layer({}, scope="project", disableAllHooks=False)],
         ["mine"], ""),
        ([layer(SAY, disableAllHooks="yes")], ["mine"], ""),
    ],
)  # fmt: skip
def test_who_may_turn_hooks_off(layers: list[Layer], run: list[str], off: str) -> None:
    found = read_layers(layers)
    assert [hook.handler.title for hook in found.hooks] == run
    assert found.off == off


def test_every_kind_has_its_name() -> None:
    async def call() -> None: ...

    every: list[tuple[Handler, Kind]] = [
        (CommandHook(command="x"), "command"),
        (HttpHook(url="x"), "http"),
        (McpToolHook(server="s", tool="t"), "mcp_tool"),
        (PromptHook(prompt="x"), "prompt"),
        (AgentHook(prompt="x"), "agent"),
        (CallbackHook(call=call), "callback"),
    ]
    assert [kind_of(handler) for handler, _ in every] == [kind for _, kind in every]
    callback = CallbackHook(call=call)
    assert callback.title == "callback"
    assert Hook(event=EVENTS[0], handler=callback).timeout_s == 60
