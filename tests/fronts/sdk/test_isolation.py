"""Results that a program relies on: options are checked, sessions isolated, readers bounded."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any

import pytest

import clew
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment

HELLO = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}


def options(folder: Path, url: str, **more: Any) -> clew.ClewOptions:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return clew.ClewOptions(**{"cwd": work, "env": environment(folder, url)} | more)


async def tell(prompt: str, given: clew.ClewOptions) -> list[clew.Message]:
    async with asyncio.timeout(30):
        return [message async for message in clew.query(prompt, given)]


async def test_a_working_folder_that_is_missing_opens_no_session(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        given = options(tmp_path, server.url, cwd=tmp_path / "gone")
        with pytest.raises(clew.HostError, match="gone: working folder not found") as caught:
            await tell("hi", given)
    assert caught.value.__cause__ is not None
    assert not server.requests


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"effort": "hihg"}, ValueError, r"effort: expected one of low.*did you mean \"high\""),
        ({"session_id": "no"}, ValueError, "session_id: expected a UUID, got 'no'"),
        ({"thinking": "on"}, TypeError, "thinking: expected clew.Adaptive"),
        ({"allowed_tools": "Bash"}, TypeError, "allowed_tools: expected a list, got 'Bash'"),
        ({"setting_sources": ["usr"]}, ValueError, r"setting_sources: .*did you mean \"user\""),
        ({"max_turns": 0}, ValueError, "max_turns: must be at least 1, got 0"),
        ({"max_budget_usd": -1}, ValueError, "max_budget_usd: expected an amount"),
        ({"model": 3}, TypeError, "model: expected"),
        ({"tools": "Bash"}, TypeError, "tools: expected .list . None., got 'Bash'"),
        ({"tools": ["Bsh"]}, ValueError, r"tools: unknown tool \"Bsh\" .did you mean \"Bash\""),
        ({"hooks": [print]}, TypeError, "hooks: expected clew.HookAt items, got <built-in"),
        ({"permission_mode": "wild"}, ValueError, "permission_mode: expected one of default"),
        ({"json_schema": {"type": "objekt"}}, ValueError, "json_schema: "),
        ({"functions": [print]}, TypeError, "functions: expected tools made with @clew.tool"),
        ({"mcp_servers": "a"}, TypeError, "mcp_servers: expected a dict"),
        ({"env": {"A": 1}}, TypeError, "env: A: expected str, got 1"),
        ({"cwd": 5}, TypeError, "cwd: expected a path, got 5"),
        ({"can_use_tool": "yes"}, TypeError, "can_use_tool: expected a function"),
        ({"fork_session": True}, ValueError, "fork_session requires a session"),
        ({"resume": "a", "continue_conversation": True}, ValueError, "can't be combined"),
    ],
)
def test_an_invalid_option_is_named_when_the_options_are_made(
    given: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        clew.ClewOptions(**given)


def test_hooks_and_tools_are_checked_when_they_are_made() -> None:
    anything: Any = 3
    with pytest.raises(ValueError, match=r"'PreTolUse'.*did you mean \"PreToolUse\""):
        clew.HookAt(event="PreTolUse", call=anything)
    with pytest.raises(TypeError, match="call: expected a function"):
        clew.HookAt(event="Stop", call=anything)

    async def odd(of: int, by: asyncio.Queue[int]) -> str:
        return ""

    with pytest.raises(TypeError, match="odd: the type of by has no JSON Schema"):
        clew.tool(odd)
    one = clew.tool(name="a")(answer)
    with pytest.raises(ValueError, match="two tools are named 'a'"):
        clew.ClewOptions(functions=[one, one])
    with pytest.raises(ValueError, match="the name 'program' is reserved"):
        clew.ClewOptions(functions=[one], mcp_servers={"program": {}})


async def answer() -> str:
    return "42"


async def test_a_tool_is_still_a_function() -> None:
    assert await clew.tool(answer)() == "42"

    async def area(side: Annotated[int, "in meters"]) -> int:
        return side * side

    schema = clew.tool(area).listed()["inputSchema"]
    assert schema["properties"]["side"]["description"] == "in meters"


async def test_setting_sources_decide_which_memory_and_servers_a_session_sees(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "CLAUDE.md").write_text("user-words", encoding="utf-8")
    work = tmp_path / "work"
    (work / "below").mkdir(parents=True)
    (work / "CLAUDE.md").write_text("project-words", encoding="utf-8")
    (work / "CLAUDE.local.md").write_text("local-words", encoding="utf-8")
    (work / "below" / "CLAUDE.md").write_text("nested-words", encoding="utf-8")
    (work / "below" / "a.txt").write_text("text", encoding="utf-8")
    servers = {"mcpServers": {"theirs": {"command": "true"}}}
    (work / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    read = {"content": [{"tool": "Read", "input": {"file_path": str(work / "below" / "a.txt")}}]}
    seen = {}
    for sources in ([], ["user"], ["project"], ["local"], None):
        with serving({"scenario": 1, "answers": [read, {"text": "done"}]}) as server:
            given = options(tmp_path, server.url, setting_sources=sources)
            messages = await tell("hi", given)
            body = str(server.requests[-1].body)
        words = [w for w in ("user", "project", "local", "nested") if f"{w}-words" in body]
        seen[str(sources)] = (words, "theirs" in str(messages))
    assert seen == {
        "[]": ([], False),
        "['user']": (["user"], False),
        "['project']": (["project", "nested"], True),
        "['local']": (["local"], False),
        "None": (["user", "project", "local", "nested"], True),
    }


def test_plain_messages_become_a_request_and_the_rest_is_reported() -> None:
    plain = [
        {"role": "user", "content": "hello"},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "bye"}]},
    ]
    made = for_api(plain, Target())
    assert [m["role"] for m in made.messages] == ["user", "assistant", "user"]
    assert (made.repairs, made.violations) == ([], [])
    chat: list[Any] = [{"role": "tool", "content": "x"}, {"type": "odd"}, 5]
    chat.append({"role": "assistant", "content": None, "tool_calls": []})
    made = for_api([*plain, *chat], Target())
    assert [r.detail for r in made.repairs if r.kind == "not_an_entry"] == [
        "role 'tool'", "type 'odd'", "int", "role 'assistant'",
    ]  # fmt: skip
    assert len(made.messages) == 3
    future = {"type": "newer", "uuid": "00000000-0000-4000-8000-000000000000"}
    assert for_api([*plain, future], Target()).repairs == []


async def test_a_slow_reader_makes_the_session_wait_and_the_end_stays_the_end(
    tmp_path: Path,
) -> None:
    size_bytes = 8_000_000
    long = {"text": "x" * size_bytes, "delta_chars": 50_000, "send": {"events_per_s": 2000}}
    with serving({"scenario": 1, "answers": [long]}) as server:
        given = options(tmp_path, server.url, partial_messages=True, persists=False)
        client = clew.ClewClient(given)
        async with client:
            await client.query("hi")
            async with asyncio.timeout(30):
                while client._channel._room.is_set():
                    await client.context_usage()
            for _ in range(50):  # The session is waiting, but still answers.
                await asyncio.wait_for(client.context_usage(), 30)
            assert client._channel._waiting_bytes < size_bytes
            text = ""
            async for message in client.receive_response():
                if isinstance(message, clew.StreamEvent):
                    text += message.event.get("delta", {}).get("text", "")
            assert len(text) == size_bytes
        async with asyncio.timeout(5):
            assert [message async for message in client.receive_messages()] == []
            assert [message async for message in client.receive_messages()] == []


async def test_commands_get_no_keys_of_the_program_unless_the_options_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-host")
    monkeypatch.setenv("PLAIN_WORD", "plain")
    show = {"content": [{"tool": "Bash", "input": {"command": "env | sort"}}]}

    async def printed(**more: Any) -> str:
        with serving({"scenario": 1, "answers": [show, {"text": "done"}]}) as server:
            given = options(tmp_path, server.url, allowed_tools=["Bash"], **more)
            messages = await tell("hi", given)
        return str(next(m for m in messages if isinstance(m, clew.User)).content[0])

    text = await printed()
    assert "PLAIN_WORD=plain" in text
    assert "SLACK_TOKEN=" not in text
    text = await printed(inherit_env=False)
    assert "PLAIN_WORD" not in text
    with serving({"scenario": 1, "answers": [show, {"text": "done"}]}) as server:
        named = environment(tmp_path, server.url) | {"SLACK_TOKEN": os.environ["SLACK_TOKEN"]}
        given = options(tmp_path, server.url, allowed_tools=["Bash"], env=named)
        messages = await tell("hi", given)
    assert "SLACK_TOKEN=xoxb-host" in str(messages)


async def test_a_tenant_has_a_home_of_its_own_everywhere(tmp_path: Path) -> None:
    tenant = tmp_path / "tenant"
    with serving(HELLO) as server:
        given = options(tmp_path, server.url, home=tenant)
        result = (await tell("hi", given))[-1]
    assert isinstance(result, clew.Result)
    work = tmp_path / "work"
    (outline,) = clew.list_sessions(work, home=tenant)
    assert outline.session_id == result.session_id
    assert list(clew.list_sessions(work, home=tmp_path / "config")) == []
    clew.rename_session(result.session_id, "Named", cwd=work, home=tenant)
    clew.tag_session(outline, "t", home=tenant)
    copied = clew.fork_session(outline.path, cwd=work, home=tenant)
    assert {o.title for o in clew.list_sessions(work, home=tenant)} >= {"Named"}
    assert len(clew.session_messages(copied, work, home=tenant)) == len(
        clew.session_messages(outline)
    )


async def test_the_published_sdk_runs_in_this_process_with_its_own_options(tmp_path: Path) -> None:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultDeny

    from clew.adapters.agent_sdk import InProcess

    asked = []

    async def deny(tool: str, *_: Any) -> PermissionResultDeny:
        asked.append(tool)
        return PermissionResultDeny(message="no")

    run = {"content": [{"tool": "Bash", "input": {"command": "mkdir a"}}]}
    (tmp_path / "work").mkdir()
    with serving({"scenario": 1, "answers": [run, {"text": "done"}]}) as server:
        given = ClaudeAgentOptions(
            model="claude-haiku-4-5",
            tools=["Bash"],
            system_prompt="Be brief.",
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            can_use_tool=deny,
        )
        async with ClaudeSDKClient(given, transport=InProcess.of(given)) as client:
            await client.query("hi")
            kinds = [type(m).__name__ async for m in client.receive_response()]
        body = server.requests[0].body
    assert kinds[-1] == "ResultMessage"
    assert asked == ["Bash"]
    assert (body["model"], [t["name"] for t in body["tools"]]) == ("claude-haiku-4-5", ["Bash"])
    assert body["system"][0]["text"] == "Be brief."
    assert not (tmp_path / "work" / "a").exists()


def test_every_public_name_exists_and_only_these_do() -> None:
    assert set(clew.__all__) <= set(dir(clew))
    for name in clew.__all__:
        assert getattr(clew, name) is not None
