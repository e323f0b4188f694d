"""The published Agent SDK drives clew: queries, a client, callbacks, and sessions read by the host.

Its own end-to-end tests are run by `make compat SDK=CHECKOUT`; see docs/compatibility.md.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookContext,
    HookMatcher,
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

from clew.sdk.options import ClewOptions
from clew.sdk.transport import InProcess
from clew.testing.server import serving
from tests.compat.sdk_plugin import executable
from tests.headless.clew_process import environment

HELLO = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
    ],
}

pytestmark = pytest.mark.e2e


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
