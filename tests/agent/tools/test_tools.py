"""What all tools share.

Schemas and validation from one type, failures, the registry, the limits.
"""

import asyncio
import json
import operator
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from clew.agent.tools.base import (
    Progress,
    Surroundings,
    Tool,
    ToolContext,
    ToolLimits,
    ToolOutcome,
    read_limits,
)
from clew.agent.tools.read import Read, ReadInput
from clew.agent.tools.registry import Toolbox, make_builtin_tools, outlined_tools
from clew.agent.tools.schema import make_definition, parse_input, schema_of
from clew.agent.tools.user_tools import TodoWrite
from clew.core.messages.errors import OutsideError
from clew.system.config.environment import freeze
from clew.testing.server import serving
from tests.agent.tools.workshop import Workshop
from tests.fronts.headless.clew_process import environment
from tests.requirements import requirement

TOOLS = make_builtin_tools()


class NothingInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    how: str


class Odd(Tool[NothingInput]):
    """A tool that ends as its input says."""

    name = "Odd"
    description = "Ends as it is told"
    input_type = NothingInput

    def is_enabled(self, settings: Mapping[str, Any]) -> bool:
        return bool(settings.get("odd"))

    async def call(self, given: NothingInput, ctx: ToolContext) -> ToolOutcome:
        match given.how:
            case "fault":
                raise ZeroDivisionError("by zero")
            case "disk":
                raise OSError(28, "No space left on device")
            case "outside":
                raise OutsideError("the keeper did not answer")
            case "cancel":
                raise asyncio.CancelledError
            case "progress":
                await ctx.emit(Progress(text="half", data={"done": 1}))
        return ToolOutcome(content=f"{given.how} {ctx.surroundings().model}")


@requirement("R126", "R127")
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_is_a_name_a_description_and_a_schema(tool: Tool[Any]) -> None:
    made = make_definition(tool)
    marks = {"defer_loading"} if tool.is_deferred else set()
    assert set(made) == {"name", "description", "input_schema", *marks}
    assert made["description"] == tool.prompt
    schema = made["input_schema"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema.get("required", ())) <= set(schema["properties"])
    assert "$ref" not in json.dumps(schema)
    assert schema_of(tool.input_type) is schema or tool.hidden_fields


@requirement("R126")
def test_a_tool_without_a_prompt_shows_its_description_to_the_model() -> None:
    assert make_definition(Odd())["description"] == "Ends as it is told"


@requirement("R133")
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_definition_is_about_two_kilobytes_at_most(tool: Tool[Any]) -> None:
    assert len(json.dumps(make_definition(tool))) <= 2048


@requirement("R127")
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "missing: file_path"),
        ({"file_path": "/x", "ofset": 3}, "unknown: ofset"),
        ({"file_path": 3}, "file_path: Expected a string, got an integer"),
        ({"file_path": "/x", "limit": "many"}, "limit: Expected an integer, got a string"),
        ({"file_path": "/x", "limit": 0}, "limit: Expected an integer >= 1"),
        ({"file_path": ""}, "file_path: Expected a string of length >= 1"),
        ([], "Expected an object, got a list"),
        (None, "Expected an object, got null"),
    ],
)
def test_an_input_that_does_not_fit_names_the_field_and_what_it_takes(
    workshop: Workshop, raw: Any, says: str
) -> None:
    result = parse_input(Read(), raw)
    assert isinstance(result, ToolOutcome)
    assert result.is_error
    text = str(result.content)
    assert text.startswith("<tool_use_error>Read: invalid input")
    assert says in text
    assert "file_path (string, required), offset (integer), limit (integer), " in text


@requirement("R127")
def test_numbers_booleans_and_null_may_come_as_strings() -> None:
    wanted = ReadInput(file_path="null", offset=3, limit=None)
    assert parse_input(Read(), {"file_path": "null", "offset": "3", "limit": "null"}) == wanted
    assert parse_input(Read(), {"file_path": "null", "offset": 3.0, "limit": None}) == wanted


def test_a_nested_field_is_named_by_its_path() -> None:
    result = parse_input(
        TodoWrite(), {"todos": [{"content": "x", "status": "begun", "activeForm": "y"}]}
    )
    assert isinstance(result, ToolOutcome)
    assert "todos[0].status" in str(result.content)


@requirement("R134")
def test_the_door_turns_every_failure_into_a_result_and_lets_cancelling_through(
    workshop: Workshop,
) -> None:
    assert workshop.use(Odd(), how="well").content == "well "
    disk = workshop.use(Odd(), how="disk")
    assert disk.is_error
    assert "No space left on device" in str(disk.content)
    assert workshop.use(Odd(), how="outside").content == "the keeper did not answer"
    fault = workshop.use(Odd(), how="fault")
    assert "ZeroDivisionError: by zero" in str(fault.content)
    # Programs get the error without the hint to the model.
    assert str(fault.tool_use_result).endswith("(ZeroDivisionError: by zero).")
    with pytest.raises(asyncio.CancelledError):
        workshop.use(Odd(), how="cancel")


def test_progress_comes_before_the_result(workshop: Workshop) -> None:
    assert workshop.use(Odd(), how="progress").content == "progress "
    assert workshop.progress == [Progress(text="half", data={"done": 1})]


@requirement("R136")
def test_a_call_sees_how_the_session_stands_at_that_moment(workshop: Workshop) -> None:
    workshop.surroundings = Surroundings(
        model="a-model", permissions={"mode": "plan"}, tools=TOOLS, mcp_clients=("client",),
        max_thinking_tokens=2000, interactive=True, debug=True, verbose=True,
    )  # fmt: skip
    assert workshop.use(Odd(), how="x").content == "x a-model"
    assert workshop.context().surroundings().permissions == {"mode": "plan"}


@requirement("R130")
def test_a_result_is_the_block_that_answers_its_call() -> None:
    assert ToolOutcome(content="text").block("toolu_1") == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "text",
    }
    blocks = [{"type": "text", "text": "x"}]
    assert ToolOutcome(content=blocks, is_error=True).block("t")["content"] == blocks
    assert ToolOutcome(content=blocks, is_error=True).block("t")["is_error"] is True


@requirement("R131")
def test_the_toolbox_holds_what_is_enabled_in_a_fixed_order() -> None:
    box = Toolbox(TOOLS)
    names = [tool.name for tool in box]
    assert {"Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"} <= set(names)
    assert names == sorted(names)
    assert [made["name"] for made in box.definitions()] == names
    assert json.dumps(box.definitions()) == json.dumps(Toolbox(make_builtin_tools()).definitions())
    assert all(map(operator.is_, box.definitions(), box.definitions()))
    assert len(box) == len(names)
    assert box.get("Read") is next(tool for tool in TOOLS if tool.name == "Read")
    assert box.get("read") is None
    assert Toolbox([Odd()]).get("Odd") is None
    assert Toolbox([Odd()], {"odd": True}).get("Odd") is not None
    assert not any(tool.is_mcp for tool in TOOLS)


def test_what_is_written_down_of_a_tool_is_what_the_tool_says(workshop: Workshop) -> None:
    outlined = outlined_tools()
    assert Toolbox(outlined).definitions() == Toolbox(make_builtin_tools()).definitions()
    for known, tool in zip(outlined, make_builtin_tools(), strict=True):
        assert type(known.load()) is type(tool)
        assert known.input_type is tool.input_type
    path = workshop.write("a.txt", "words")
    read = next(tool for tool in outlined if tool.name == "Read")
    assert workshop.use(read, file_path=str(path)).content.endswith("words")


def test_a_headless_prompt_without_a_call_loads_the_code_of_no_tool(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": [{"text": "Hello."}]}) as server:
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "clew", "-p", "hi"],
            env=environment(tmp_path, server.url),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
    assert ran.stdout == "Hello.\n"
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "clew.agent.tools.registry" in loaded
    unwanted = {"bash", "command", "edit", "read", "search", "searching", "tasks", "user_tools"}
    assert loaded.isdisjoint({f"clew.agent.tools.{name}" for name in unwanted})
    assert loaded.isdisjoint({"argparse", "clew.record.rewind.watch", "clew.agent.hooks.executors"})


@requirement("R131", "R132", "W25")
def test_a_tool_that_says_nothing_is_taken_to_change_the_world() -> None:
    tool, given = Odd(), NothingInput(how="x")
    assert not tool.is_read_only(given)
    assert not tool.is_concurrency_safe(given)
    assert not tool.is_destructive(given)
    assert tool.paths(given) == ()
    assert tool.title(given) == "Odd"


def test_the_list_is_replaced_whole_and_a_finished_one_is_put_away(workshop: Workshop) -> None:
    one = {"content": "Run", "status": "in_progress", "activeForm": "Running"}
    done = {**one, "status": "completed"}
    first = workshop.use(TodoWrite(), todos=[one])
    assert first.tool_use_result == {"oldTodos": [], "newTodos": [one]}
    assert first.content == "List updated: 0 of 1 done."
    assert workshop.session.todos == [one]
    second = workshop.use(TodoWrite(), todos=[done])
    assert second.tool_use_result == {"oldTodos": [one], "newTodos": [done]}
    assert workshop.session.todos == []
    given = TodoWrite().input_type(todos=[])
    assert TodoWrite().is_read_only(given)
    assert not TodoWrite().is_concurrency_safe(given)


def test_limits_come_from_the_frozen_environment() -> None:
    said = {"bash_timeout_ms": 5000, "bash_max_timeout_ms": 1000, "bash_max_output": 10**9}
    limits = read_limits(said.get)
    assert limits == ToolLimits(
        bash_timeout_ms=5000, bash_max_timeout_ms=5000, bash_max_output_chars=150_000
    )
    assert read_limits(lambda _: None) == ToolLimits()


@requirement("R243", "R244")
@pytest.mark.parametrize("prefix", ["", "CLEW_"])
def test_the_limits_of_commands_are_read_in_either_spelling(prefix: str) -> None:
    frozen = freeze(
        {
            f"{prefix}BASH_DEFAULT_TIMEOUT_MS": "3000",
            f"{prefix}BASH_MAX_TIMEOUT_MS": "4000",
            f"{prefix}BASH_MAX_OUTPUT_LENGTH": "5000",
        }
    )
    assert read_limits(frozen.number) == ToolLimits(
        bash_timeout_ms=3000, bash_max_timeout_ms=4000, bash_max_output_chars=5000
    )
    assert read_limits(freeze({}).number) == ToolLimits()


class HangingInput(Struct, frozen=True, kw_only=True):
    in_thread: bool = False


class Hanging(Tool[HangingInput]):
    """A tool that never ends; its thread ends on request."""

    name = "Hanging"
    description = "Hang"
    input_type = HangingInput

    def __init__(self) -> None:
        self.go = threading.Event()

    async def call(self, given: HangingInput, ctx: ToolContext) -> ToolOutcome:
        if given.in_thread:
            await asyncio.to_thread(self.go.wait)
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_tool_that_hangs_is_given_up_and_says_so(in_thread: bool, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    tool = Hanging()
    shop = Workshop(folder, ToolLimits(call_timeouts_s={"Hang*": 0.05}))
    try:
        found = shop.use(tool, in_thread=in_thread)
    finally:
        tool.go.set()
        shop.close()
    assert found.is_error
    assert "Hanging timed out after 0.05 s" in str(found.content)


def test_a_tools_time_is_that_of_the_nearest_pattern_and_some_have_their_own() -> None:
    usual = ToolLimits()
    assert usual.call_timeout_s("Read", owns_its_time=False) == 300
    assert usual.call_timeout_s("Bash", owns_its_time=True) is None
    said = ToolLimits(call_timeouts_s={"*": 9, "Web*": 5, "WebFetch": 2.5, "mcp__a__*": 7})
    assert said.call_timeout_s("Read", owns_its_time=False) == 9
    assert said.call_timeout_s("WebSearch", owns_its_time=False) == 5
    assert said.call_timeout_s("WebFetch", owns_its_time=False) == 2.5
    assert said.call_timeout_s("mcp__a__b", owns_its_time=True) == 7
    assert said.call_timeout_s("mcp__b__b", owns_its_time=True) is None
    own = {tool.name for tool in make_builtin_tools() if tool.owns_its_time}
    assert own == {"Agent", "Bash", "Monitor", "PowerShell", "TaskOutput"}
