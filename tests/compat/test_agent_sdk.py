"""The published Agent SDK drives clew: queries, a client, callbacks, and sessions read by the host.

`make compat` runs these tests, and with SDK=CHECKOUT also the end-to-end tests of its repository.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookContext,
    HookMatcher,
    InMemorySessionStore,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultError,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
    create_sdk_mcp_server,
    get_session_messages,
    list_sessions,
    query,
    tool,
)

from clew.adapters.agent_sdk import InProcess
from clew.fronts.sdk.options import ClewOptions
from clew.testing.server import serving
from tests.compat.sdk_plugin import executable
from tests.fronts.headless.clew_process import environment, until

HELLO = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
    ],
}

PROGRAM = "claude-agent-sdk"
pytestmark = [pytest.mark.e2e, pytest.mark.compat]


def options(home: Path, url: str, **more: Any) -> ClaudeAgentOptions:
    work = home / "work"
    work.mkdir(exist_ok=True)
    env = environment(home, url) | {"CLAUDE_CONFIG_DIR": str(home / "config")}
    return ClaudeAgentOptions(cli_path=executable(), cwd=work, env=env, **more)


async def messages(prompt: str, given: ClaudeAgentOptions) -> list[Any]:
    return [message async for message in query(prompt=prompt, options=given)]


def test_a_query_is_answered_and_its_session_is_read_by_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    with serving(HELLO, strict=True) as server:
        first = asyncio.run(messages("hi", options(tmp_path, server.url)))[-1]
        assert isinstance(first, ResultMessage)
        given = options(tmp_path, server.url, resume=first.session_id)
        second = asyncio.run(messages("more", given))[-1]
        given = options(tmp_path, server.url, resume=first.session_id, fork_session=True)
        third = asyncio.run(messages("aside", given))[-1]
    assert (first.result, second.result, third.result) == ("one", "two", "three")
    assert second.session_id == first.session_id != third.session_id
    work = str(tmp_path / "work")
    told = get_session_messages(first.session_id, directory=work)
    assert [m.type for m in told] == ["user", "assistant", "user", "assistant"]
    sessions = {s.session_id: s for s in list_sessions(directory=work)}
    assert set(sessions) == {first.session_id, third.session_id}
    assert sessions[first.session_id].first_prompt == "hi"


async def asked(given: ClaudeAgentOptions) -> list[Any]:
    async with ClaudeSDKClient(given) as client:
        await client.query("go")
        return [message async for message in client.receive_response()]


def test_a_callback_permits_changes_and_denies(tmp_path: Path) -> None:
    async def other(
        _: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow:
        assert context.suggestions
        return PermissionResultAllow(updated_input={"command": "mkdir other"})

    async def never(
        _: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultDeny:
        return PermissionResultDeny(message="never", interrupt=True)

    with serving(MAKES, strict=True) as server:
        asyncio.run(asked(options(tmp_path, server.url, can_use_tool=other)))
    assert (tmp_path / "work" / "other").is_dir()
    with serving(MAKES, strict=True) as server:
        given = options(tmp_path, server.url, can_use_tool=never)
        last = asyncio.run(asked(given))[-1]
    assert last.subtype == "error_during_execution"
    assert last.permission_denials


def test_a_client_changes_model_and_mode_and_asks_about_the_window(tmp_path: Path) -> None:
    async def talk(given: ClaudeAgentOptions) -> int:
        async with ClaudeSDKClient(given) as client:
            await client.query("a")
            assert any([isinstance(m, StreamEvent) async for m in client.receive_response()])
            await client.set_model("haiku")
            await client.set_permission_mode("plan")
            await client.interrupt()
            await client.query("b")
            heard = [m async for m in client.receive_response()]
            models = [m.model for m in heard if isinstance(m, AssistantMessage)]
            assert models[0].startswith("claude-haiku")
            used: int = (await client.get_context_usage())["totalTokens"]
            return used

    with serving(HELLO, strict=True) as server:
        given = options(tmp_path, server.url, include_partial_messages=True)
        assert asyncio.run(talk(given)) > 0


def test_a_failure_of_the_service_is_the_hosts_error(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": [{"status": 400}]}) as server:
        with pytest.raises(ResultError) as raised:
            asyncio.run(messages("hi", options(tmp_path, server.url)))
        assert raised.value.terminal_reason == "api_error"


def test_the_sdk_talks_to_clew_in_its_own_process(tmp_path: Path) -> None:
    async def talk(url: str) -> list[Any]:
        work = tmp_path / "work"
        work.mkdir()
        given = ClewOptions(cwd=work, env=environment(tmp_path, url))
        asked: list[str] = []

        async def permit(
            name: str, given: dict[str, Any], _: ToolPermissionContext
        ) -> PermissionResultAllow:
            asked.append(name)
            return PermissionResultAllow()

        client = ClaudeSDKClient(
            ClaudeAgentOptions(can_use_tool=permit), transport=InProcess(given, asks_host=True)
        )
        async with client:
            await client.query("go")
            heard = [m async for m in client.receive_response()]
        assert asked == ["Bash"]
        return heard

    with serving(MAKES, strict=True) as server:
        assert asyncio.run(talk(server.url))[-1].result == "done"
    assert (tmp_path / "work" / "made").is_dir()


def test_tools_and_hooks_of_the_hosts_own_process_are_called(tmp_path: Path) -> None:
    heard: list[str] = []

    @tool("echo", "Says it back", {"text": str})
    async def echo(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"heard {given['text']}"}]}

    async def note(given: Any, _: str | None, __: HookContext) -> Any:
        heard.append(given["hook_event_name"])
        return {}

    async def talk(given: ClaudeAgentOptions) -> tuple[list[Any], Any]:
        async with ClaudeSDKClient(given) as client:
            await client.query("go")
            messages = [m async for m in client.receive_response()]
            return messages, await client.get_mcp_status()

    name = "mcp__near__echo"
    plan = {
        "scenario": 1,
        "answers": [{"content": [{"tool": name, "input": {"text": "me"}}]}, {"text": "done"}],
    }
    with serving(plan, strict=True) as server:
        given = options(
            tmp_path,
            server.url,
            mcp_servers={"near": create_sdk_mcp_server("near", tools=[echo])},
            allowed_tools=[name],
            hooks={
                event: [HookMatcher(hooks=[note])]
                for event in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
            },
        )
        messages, status = asyncio.run(talk(given))
        assert "heard me" in str(server.requests[1].body["messages"][-1])
    assert messages[-1].result == "done"
    assert heard == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
    (near,) = status["mcpServers"]
    assert (near["name"], near["status"]) == ("near", "connected")
    assert [t["name"] for t in near["tools"]] == ["echo"]


def uses(name: str, **given: Any) -> dict[str, Any]:
    return {"content": [{"tool": name, "input": given}]}


def test_every_event_that_the_sdk_knows_reaches_its_callback(tmp_path: Path) -> None:
    """All ten: around calls that work, fail and are asked about, agents, a summary, a notification."""
    heard: dict[str, Any] = {}

    async def note(given: Any, _: str | None, __: HookContext) -> Any:
        heard.setdefault(given["hook_event_name"], given)
        return {}

    is_notified = asyncio.Event()

    async def notified(given: Any, _: str | None, __: HookContext) -> Any:
        is_notified.set()
        return await note(given, _, __)

    async def permit(
        _: str, given: dict[str, Any], __: ToolPermissionContext
    ) -> PermissionResultAllow:
        async with asyncio.timeout(60):
            await is_notified.wait()
        return PermissionResultAllow()

    async def talk(given: ClaudeAgentOptions) -> None:
        async with ClaudeSDKClient(given) as client:
            for prompt in ("go", "/compact"):
                await client.query(prompt)
                async for _ in client.receive_response():
                    pass

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        said = str(body["messages"])
        rounds = sum(message["role"] == "assistant" for message in body["messages"])
        if "dig here" in said and "'go'" not in said:
            return {"text": "dug"}
        steps = [
            uses("Bash", command="mkdir made"),
            uses("Read", file_path="nowhere"),
            uses("Agent", description="dig", prompt="dig here", run_in_background=False),
        ]
        return steps[rounds] if rounds < len(steps) else {"text": "<summary>done</summary>"}

    events = (
        "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStart",
        "SubagentStop", "PreCompact", "Notification", "PermissionRequest",
    )  # fmt: skip
    with serving(answer) as server:
        given = options(
            tmp_path,
            server.url,
            can_use_tool=permit,
            hooks={event: [HookMatcher(hooks=[note])] for event in events}
            | {"Notification": [HookMatcher(hooks=[notified])]},
        )
        asyncio.run(talk(given))
    assert sorted(heard) == sorted(events)
    assert heard["Notification"]["notification_type"] == "permission_prompt"
    assert heard["PreToolUse"]["tool_input"] == {"command": "mkdir made"}
    assert "nowhere" in heard["PostToolUseFailure"]["error"]
    assert heard["PermissionRequest"]["tool_name"] == "Bash"
    assert heard["SubagentStop"]["last_assistant_message"] == "dug"
    assert heard["PreCompact"]["trigger"] == "manual"
    for given_to in heard.values():
        assert {"session_id", "transcript_path", "cwd"} <= set(given_to)


STALLS = [{"after_events": 4, "stall_s": "forever"}]


@pytest.mark.parametrize("point", ["idle", "streaming", "tool", "asking", "hook"])
def test_an_interrupt_at_any_point_ends_the_turn_and_the_session_continues(
    tmp_path: Path, point: str
) -> None:
    there = asyncio.Event()
    work = tmp_path / "work"

    async def held(*_: Any) -> Any:
        there.set()
        await asyncio.Event().wait()

    plans: dict[str, list[dict[str, Any]]] = {
        "idle": [],
        "streaming": [{"text": "x" * 200, "faults": STALLS}],
        "tool": [uses("Bash", command="touch begun; sleep 300")],
        "asking": [uses("Bash", command="mkdir never")],
        "hook": [uses("Bash", command="mkdir never")],
    }
    more: dict[str, Any] = {"include_partial_messages": True}
    if point == "asking":
        more["can_use_tool"] = held
    else:
        more["allowed_tools"] = ["Bash"]
    if point == "hook":
        more["hooks"] = {"PreToolUse": [HookMatcher(hooks=[held])]}

    async def reached(client: ClaudeSDKClient) -> None:
        if point == "streaming":
            async for message in client.receive_messages():
                if isinstance(message, StreamEvent) and "delta" in message.event["type"]:
                    return
        elif point == "tool":
            await asyncio.to_thread(until, (work / "begun").exists)
        else:
            await there.wait()

    async def talk(given: ClaudeAgentOptions) -> tuple[ResultMessage | None, Any]:
        ended = None
        async with ClaudeSDKClient(given) as client:
            if point == "idle":
                await client.interrupt()
            else:
                await client.query("first")
                await reached(client)
                await client.interrupt()
                ended = [m async for m in client.receive_response()][-1]
            await client.query("second")
            return ended, [m async for m in client.receive_response()][-1]

    with serving({"scenario": 1, "answers": [*plans[point], {"text": "again"}]}) as server:
        ended, last = asyncio.run(asyncio.wait_for(talk(options(tmp_path, server.url, **more)), 60))
    assert last.result == "again"
    assert not (work / "never").exists()
    if point != "idle":
        assert ended is not None
        assert (ended.subtype, ended.is_error) == ("error_during_execution", True)


def test_a_session_is_continued_copied_and_taken_up_earlier(tmp_path: Path) -> None:
    def ask(prompt: str, **more: Any) -> tuple[list[Any], ResultMessage]:
        found = asyncio.run(messages(prompt, options(tmp_path, server.url, **more)))
        return [m for m in found if isinstance(m, AssistantMessage)], found[-1]

    with serving({"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}) as server:
        first, begun = ask("one")
        _, same = ask("two", resume=begun.session_id)
        _, copied = ask("three", resume=begun.session_id, fork_session=True)
        _, newest = ask("four", continue_conversation=True)
        said: list[str] = []
        back = {"resume_session_at": first[0].uuid}
        _, earlier = ask("five", resume=begun.session_id, **back)
        said = [str(request.body["messages"]) for request in server.requests]
    assert same.session_id == begun.session_id == earlier.session_id
    assert copied.session_id == newest.session_id != begun.session_id
    assert all(word in said[3] for word in ("one", "two", "three", "four"))
    assert "one" in said[4]
    assert not any(word in said[4] for word in ("two", "three"))


def test_an_answer_has_the_shape_and_stays_within_its_bounds(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    shaped = [uses("StructuredOutput", ok=True), {"text": "There."}]
    with serving({"scenario": 1, "answers": shaped}) as server:
        given = options(
            tmp_path, server.url, output_format={"type": "json_schema", "schema": schema}
        )
        assert asyncio.run(asked(given))[-1].structured_output == {"ok": True}
    looks = {**uses("Bash", command="true"), "times": "always"}
    bounds: tuple[tuple[dict[str, Any], str], ...] = (
        ({"max_turns": 2}, "error_max_turns"),
        ({"max_budget_usd": 0.000001}, "error_max_budget_usd"),
    )
    for bound, subtype in bounds:
        with (
            serving({"scenario": 1, "answers": [looks]}) as server,
            pytest.raises(ResultError) as raised,
        ):
            asyncio.run(
                messages("go", options(tmp_path, server.url, allowed_tools=["Bash"], **bound))
            )
        assert raised.value.subtype == subtype


def test_big_and_odd_output_reaches_the_host(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    odd = "snow \u2603, an astral \U0001f9f6, a line\u2028end, nul \x01 and \x1b[31mred"
    (work / "odd.txt").write_text(odd, "utf-8")
    (work / "bytes.bin").write_bytes(bytes(range(256)) * 8)
    plan = [
        uses("Bash", command="head -c 3000000 /dev/zero | tr '\\0' x"),
        uses("Bash", command="cat odd.txt bytes.bin"),
        {"text": f"{odd} " + "y" * 900_000},
    ]
    with serving({"scenario": 1, "answers": plan}) as server:
        given = options(tmp_path, server.url, allowed_tools=["Bash"], include_partial_messages=True)
        heard = asyncio.run(messages("go", given))
    last = heard[-1]
    assert not last.is_error
    assert last.result.startswith("snow \u2603, an astral \U0001f9f6")
    said = "".join(
        m.event["delta"].get("text", "")
        for m in heard
        if isinstance(m, StreamEvent) and m.event["type"] == "content_block_delta"
    )
    assert said.startswith(odd)
    assert len(said) > 900_000


def test_an_agent_of_the_hosts_is_heard_and_its_words_are_read(tmp_path: Path) -> None:
    kinds = {"digger": AgentDefinition(description="digs", prompt="You dig.", tools=["Read"])}

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if "You dig." in str(body.get("system")):
            return {"text": "dug"}
        if len(body["messages"]) > 2 or "tool_result" in str(body["messages"]):
            return {"text": "done"}
        call = {"description": "dig", "prompt": "dig", "subagent_type": "digger"}
        return uses("Agent", **call, run_in_background=False)

    with serving(answer) as server:
        heard = asyncio.run(asked(options(tmp_path, server.url, agents=kinds)))
    assert heard[-1].result == "done"
    kinds_heard = {type(m).__name__ for m in heard}
    assert "TaskStartedMessage" in kinds_heard


def test_a_store_of_the_hosts_has_the_session_and_gives_it_back(tmp_path: Path) -> None:
    store = InMemorySessionStore()

    def kept(**more: Any) -> ClaudeAgentOptions:
        found = options(tmp_path, server.url, session_store=store, **more)
        # The SDK says with the other variable where it has put the session.
        del found.env["CLEW_CONFIG_DIR"]
        return found

    with serving(HELLO) as server:
        first = asyncio.run(asked(kept()))[-1]
        # Nothing of it is on this disk any more.
        shutil.rmtree(tmp_path / "config")
        last = asyncio.run(messages("second", kept(resume=first.session_id)))[-1]
        assert last.result == "two"
        assert "go" in str(server.requests[-1].body["messages"])
        assert "one" in str(server.requests[-1].body["messages"])
