"""clew as a library: the same session, in this process, over a real scripted service."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.fronts.headless.permission import HostError
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import environment, transcripts
from tests.parts.mcp.yard import entry

HELLO = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}]}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
    ],
}
STALLED = {
    "scenario": 1,
    "answers": [{"text": "x" * 50, "faults": [{"after_events": 4, "stall_s": "forever"}]}],
}


def options(home: Path, url: str, **more: Any) -> clew.ClewOptions:
    work = home / "work"
    work.mkdir(exist_ok=True)
    return clew.ClewOptions(cwd=work, env=environment(home, url), **more)


async def said(prompt: str, given: clew.ClewOptions) -> list[Any]:
    return [message async for message in clew.query(prompt, given)]


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys, clew; print('clew.fronts.sdk' in sys.modules, 'typing' in sys.modules)"
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"sys_path = {sys.path!r}; import sys; sys.path = sys_path; {code}",
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.strip() == "False False"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = clew.nothing


async def test_a_query_yields_typed_messages_and_ends_with_its_result(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        system, answer, result = await said("hi", options(tmp_path, server.url))
    assert isinstance(system, clew.System)
    assert isinstance(answer, clew.Assistant)
    assert answer.text == "one"
    assert isinstance(result, clew.Result)
    assert (result.text, result.is_error, result.terminal_reason) == ("one", False, "completed")
    assert [path.stem for path in transcripts(tmp_path)] == [result.session_id]


async def test_a_client_talks_changes_the_model_and_is_continued(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        async with clew.ClewClient(options(tmp_path, server.url, partial_messages=True)) as client:
            await client.query("a")
            first = [message async for message in client.receive_response()]
            await client.set_model("haiku")
            await client.set_permission_mode("plan")
            assert (await client.context_usage())["totalTokens"] > 0
            with pytest.raises(HostError, match="unknown mode"):
                await client.set_permission_mode("wild")
            wrong: Any = b"haiku"
            with pytest.raises(HostError, match="model: expected a JSON value, got bytes"):
                await client.set_model(wrong)
        given = options(tmp_path, server.url, resume=first[-1].session_id)
        second = (await said("b", given))[-1]
    assert any(isinstance(message, clew.StreamEvent) for message in first)
    assert second.session_id == first[-1].session_id
    assert second.text == "two"


async def test_a_function_permits_another_call_and_denies(tmp_path: Path) -> None:
    async def other(call: clew.Call) -> clew.Permit | clew.Deny:
        assert call.input == {"command": "mkdir made"}
        return clew.Permit(input={"command": "mkdir other"})

    async def never(call: clew.Call) -> clew.Permit | clew.Deny:
        return clew.Deny(words="never", stop=True)

    async def broken(call: clew.Call) -> clew.Permit | clew.Deny:
        raise RuntimeError("out of order")

    with serving(MAKES, strict=True) as server:
        await said("go", options(tmp_path, server.url, can_use_tool=other))
    assert (tmp_path / "work" / "other").is_dir()
    with serving(MAKES, strict=True) as server:
        result = (await said("go", options(tmp_path, server.url, can_use_tool=never)))[-1]
    assert (result.is_error, result.terminal_reason) == (True, "aborted_tools")
    with serving(MAKES, strict=True) as server:
        messages = await said("go", options(tmp_path, server.url, can_use_tool=broken))
    told = next(m for m in messages if isinstance(m, clew.User)).content[0]
    assert "RuntimeError: out of order" in told.content
    assert messages[-1].text == "done"


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (asyncio.CancelledError(), "CancelledError"),
        (Unspeakable(), "Unspeakable: <exception str() failed>"),
        (RuntimeError("half \ud800"), "RuntimeError: half \ufffd"),
    ],
)
async def test_whatever_a_function_raises_is_an_answer(
    tmp_path: Path, raised: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reports of parallel tests can't contain the half character of a logged traceback.
    monkeypatch.setattr(logging.getLogger("clew.hooks"), "disabled", True)
    monkeypatch.setattr(logging.getLogger("clew.permissions"), "disabled", True)

    async def raises(*_: Any) -> Any:
        raise raised

    with serving(MAKES, strict=True) as server:
        messages = await said("go", options(tmp_path, server.url, can_use_tool=raises))
    told = next(m for m in messages if isinstance(m, clew.User)).content[0]
    assert told.content.endswith(words)
    assert messages[-1].text == "done"
    at_event = [clew.HookAt(event="Stop", call=raises)]
    with serving(HELLO, strict=True) as server:
        messages = await said("go", options(tmp_path, server.url, hooks=at_event))
    assert messages[-1].text == "one"


@pytest.mark.parametrize(
    "answer", [None, {"behavior": "allow"}, clew.Permit(input={"a": object()})]
)
async def test_what_permits_and_denies_nothing_is_told_and_ends_nothing(
    tmp_path: Path, answer: Any
) -> None:
    async def odd(_: clew.Call) -> Any:
        return answer

    with serving(MAKES, strict=True) as server:
        messages = await said("go", options(tmp_path, server.url, can_use_tool=odd))
    told = next(m for m in messages if isinstance(m, clew.User)).content[0]
    assert "TypeError: " in told.content
    assert messages[-1].text == "done"
    assert not (tmp_path / "work" / "made").exists()


async def test_what_is_no_prompt_is_refused_where_it_is_said(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        async with clew.ClewClient(options(tmp_path, server.url)) as client:
            for blocks in ([{"type": "text", "text": 5}], [{"type": "tool_use"}], [5]):
                with pytest.raises(ValueError, match="invalid prompt: "):
                    await client.query(blocks)
            await client.query("half \ud800")
            assert [m async for m in client.receive_response()][-1].text == "one"
        assert "half \ufffd" in str(server.requests[0].body["messages"])


async def test_who_speaks_where_no_session_is_is_told_so(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        client = clew.ClewClient(options(tmp_path, server.url))
        for begun in (client.query("hi"), client.interrupt()):
            with pytest.raises(RuntimeError, match="no session"):
                await begun
        async with client:
            await client.query("hi")
        for late in (client.query("hi"), client.interrupt()):
            with pytest.raises(HostError, match="the session has ended"):
                await late
        with pytest.raises(RuntimeError, match="entered only once"):
            await client.__aenter__()


async def test_a_function_at_an_event_learns_of_it(tmp_path: Path) -> None:
    heard: list[tuple[str, str | None]] = []

    async def note(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
        heard.append((given["hook_event_name"], tool_use_id))
        return {}

    hooks = [
        clew.HookAt(event="PreToolUse", matcher="Bash", call=note),
        clew.HookAt(event="PreToolUse", matcher="Read", call=note),
        clew.HookAt(event="Stop", call=note),
    ]
    with serving(MAKES, strict=True) as server:
        given = options(tmp_path, server.url, hooks=hooks, allowed_tools=["Bash"])
        assert (await said("go", given))[-1].text == "done"
    assert [event for event, _ in heard] == ["PreToolUse", "Stop"]
    assert heard[0][1]


async def test_an_interrupt_and_a_cancellation_leave_a_session_that_continues(
    tmp_path: Path,
) -> None:
    with serving(STALLED, strict=True) as server:
        given = options(tmp_path, server.url, partial_messages=True)
        async with clew.ClewClient(given) as client:
            await client.query("a")
            async for message in client.receive_messages():
                if isinstance(message, clew.StreamEvent) and "delta" in message.event:
                    await client.interrupt()
                if isinstance(message, clew.Result):
                    assert message.terminal_reason == "aborted_streaming"
                    break
    arrived, loop = asyncio.Event(), asyncio.get_running_loop()
    with serving(
        STALLED, strict=True, on_request=lambda _: loop.call_soon_threadsafe(arrived.set)
    ) as server:
        given = options(tmp_path, server.url)
        task = asyncio.create_task(said("b", given))
        await asyncio.wait_for(arrived.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with serving({"scenario": 1, "answers": [{"text": "here"}]}, strict=True) as server:
        given = options(tmp_path, server.url, continue_conversation=True)
        assert (await said("c", given))[-1].text == "here"


async def test_a_session_that_cannot_be_opened_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="session 'nobody' not found"):
        await said("a", options(tmp_path, "http://127.0.0.1:9", resume="nobody"))


async def test_functions_of_the_program_are_tools_of_its_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "clew.tools")
    seen: list[Any] = []

    @clew.tool
    async def add(a: int, b: int = 2) -> str:
        """Adds two numbers."""
        seen.append((a, b))
        return str(a + b)

    @clew.tool(name="look", description="Looks.")
    async def looks(place: str, deep: bool = False) -> dict[str, Any]:
        return {"place": place, "deep": deep}

    @clew.tool
    async def fails(why: str) -> str:
        raise ValueError(why)

    def calls(name: str, given: Any) -> Any:
        return {"content": [{"tool": f"mcp__program__{name}", "input": given}]}

    plan = {
        "scenario": 1,
        "answers": [
            calls("add", {"a": 1}),
            calls("look", {"place": "here", "deep": True}),
            calls("fails", {"why": "no"}),
            calls("add", {"a": "one"}),
            {"text": "done"},
        ],
    }
    with serving(plan, strict=True) as server:
        given = options(
            tmp_path,
            server.url,
            functions=[add, looks, fails],
            allowed_tools=["mcp__program"],
            json_schema=None,
        )
        messages = await said("go", given)
        first = server.requests[0].body
    told = [m.content[0] for m in messages if isinstance(m, clew.User)]
    assert [(one.is_error, one.content) for one in told[:2]] == [
        (False, [{"type": "text", "text": "3"}]),
        (False, [{"type": "text", "text": '{"place":"here","deep":true}'}]),
    ]
    assert [one.is_error for one in told[2:]] == [True, True]
    assert told[2].content[0]["text"] == "ValueError: no"
    assert told[3].content[0]["text"].startswith("TypeError: invalid arguments: Expected `int`")
    (record,) = [r for r in caplog.records if r.getMessage() == "the function fails failed"]
    assert (record.name, record.exc_info is None) == ("clew.tools", False)
    assert seen == [(1, 2)]
    (offered,) = [one for one in first["tools"] if one["name"] == "mcp__program__add"]
    assert offered["description"] == "Adds two numbers."
    assert offered["input_schema"]["required"] == ["a"]
    assert not offered.get("defer_loading")


def test_what_cannot_be_a_tool_says_so() -> None:
    def plain(a: int) -> int:
        return a

    async def any_number(*numbers: int) -> int:
        return sum(numbers)

    for function, words in ((plain, "an async function"), (any_number, "no JSON Schema")):
        with pytest.raises(TypeError, match=words):
            clew.tool(function)  # type: ignore[arg-type]


async def test_servers_a_shape_and_any_request_are_a_programs_too(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    shaped = {"content": [{"tool": "StructuredOutput", "input": {"ok": True}}]}
    plan = {"scenario": 1, "answers": [shaped, {"text": "There.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        given = options(
            tmp_path,
            server.url,
            mcp_servers={"memo": entry("honest")},
            json_schema=schema,
            name="Shapes",
        )
        async with clew.ClewClient(given) as client:
            await client.query("go")
            messages = [message async for message in client.receive_response()]
            assert messages[-1].structured_output == {"ok": True}
            (one,) = (await client.request("mcp_status"))["mcpServers"]
            assert (one["name"], one["status"]) == ("memo", "connected")
            with pytest.raises(HostError, match="Unsupported"):
                await client.request("nothing_of_the_kind")
    assert '"customTitle":"Shapes"' in transcripts(tmp_path)[0].read_text("utf-8")


async def test_sessions_are_listed_read_named_and_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(HELLO, strict=True) as server:
        first = (await said("first wish", options(tmp_path, server.url)))[-1].session_id
        second = (await said("second wish", options(tmp_path, server.url)))[-1].session_id
    monkeypatch.setenv("CLEW_CONFIG_DIR", str(tmp_path / "config"))
    work = tmp_path / "work"
    listed = list(clew.list_sessions(work))
    assert {one.session_id: one.title for one in listed} == {
        first: "first wish",
        second: "second wish",
    }
    assert list(clew.list_sessions(tmp_path)) == []
    assert len(list(clew.list_sessions(tmp_path, everywhere=True))) == 2
    said_in = clew.session_messages(first)
    assert [one["type"] for one in said_in if one["type"] != "attachment"] == ["user", "assistant"]
    clew.rename_session(first, "The first")
    clew.tag_session("The first", "kept")
    copy = clew.fork_session(first, title="Another")
    titles = {one.session_id: (one.title, one.tag) for one in clew.list_sessions(work)}
    assert titles[first] == ("The first", "kept")
    assert titles[copy][0] == "Another"
    assert len(clew.session_messages(copy)) == len(said_in)
    with serving({"scenario": 1, "answers": [{"text": "on"}]}, strict=True) as server:
        messages = await said("go on", options(tmp_path, server.url, resume=copy))
    assert messages[-1].text == "on"


async def test_a_program_brings_kinds_of_agents_and_hears_them(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", subagent_type="digger")), {"text": "done"}],
        "dig": [{"text": "gold"}],
    }
    digger = {"description": "digs", "prompt": "You dig."}
    with serving(by_prompt(asked), strict=True) as server:
        given = options(tmp_path, server.url, agents={"digger": digger}, agent_text=True)
        heard = await said("go", given)
        assert server.requests[1].body["system"][0]["text"] == "You dig."
    nested = [m for m in heard if getattr(m, "parent_tool_use_id", None)]
    assert [block.text for m in nested for block in m.content] == ["gold"]
    assert heard[-1].text == "done"
