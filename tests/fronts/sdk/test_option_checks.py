"""Options that would not do what a program expects are refused, in the names of `ClewOptions`."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

import clew
from clew.fronts.sdk.option_words import say_in_python

MANY: Any = "many"


async def hello(request: clew.ModelRequest) -> AsyncIterator[str]:
    yield "hi"


@clew.tool
async def area(width: int) -> str:
    """The area of a rectangle."""
    return str(width)


async def permit(call: clew.Call) -> clew.Permit:
    return clew.Permit()


async def answer(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    return {}


async def leave(messages: list[Any]) -> list[Any]:
    return messages


def stay(*given: Any) -> Any:
    return given


async def not_yielding(request: clew.ModelRequest) -> str:
    return ""


async def positional(x: int, /) -> None: ...


class Guard:
    async def __call__(self, call: clew.Call) -> clew.Permit:
        return clew.Permit()


class Gate:
    def __call__(self, call: clew.Call) -> clew.Permit:
        return clew.Permit()


def options(folder: Path, **more: Any) -> clew.ClewOptions:
    return clew.ClewOptions(
        cwd=folder, home=folder / "home", provider=hello, model="hello", persists=False, **more
    )


async def read_notices(given: clew.ClewOptions) -> list[str]:
    """Return the notices of a session with one turn."""
    return [
        str(message.data["content"])
        async for message in clew.query("hi", given)
        if isinstance(message, clew.System) and "content" in message.data
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"disallowed_tools": ["Bsh(rm:*)"]}, r"disallowed_tools: 'Bsh.*did you mean \"Bash\""),
        ({"disallowed_tools": ["Bash(rm"]}, "disallowed_tools: .* expected Tool or Tool.content"),
        ({"disallowed_tools": [""]}, "disallowed_tools: '': expected Tool"),
        ({"disallowed_tools": ["WebFetch(domain:)"]}, "expected WebFetch.domain:host"),
        ({"allowed_tools": ["Raed"]}, r"allowed_tools: 'Raed': .*did you mean \"Read\""),
        ({"settings": '{"permissions": {"deny": ["Bsh"]}}'}, "settings: permissions.deny: 'Bsh'"),
        ({"settings": "{bad"}, "^settings: Expecting property name"),
        ({"mcp_servers": {"a": {"typ": "x"}}}, r"mcp_servers: a: .*did you mean \"type\""),
        ({"mcp_servers": {"a": 3}}, "mcp_servers: a: expected a dict"),
        ({"mcp_servers": {"a/b": {"command": "x"}}}, "mcp_servers: 'a/b': "),
        ({"mcp_servers": {"a": {"type": "sdk"}}}, "mcp_servers: a: .*as `functions`"),
        ({"agents": {"a": {"prompt": "x"}}}, 'agents: a: "description" is missing'),
        ({"agents": {"a": {"descripton": "x"}}}, r"agents: a: .*did you mean \"description\""),
        ({"agents": {"a": {"hooks": 3, "description": "d", "prompt": "p"}}}, "expected a dict"),
    ],
)
def test_a_definition_that_would_be_ignored_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        clew.ClewOptions(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"disallowed_tools": ["mcp__gthub"]}, "'mcp__gthub': unknown MCP server .*'github'"),
        ({"disallowed_tools": ["mcp__program__ares"]}, "unknown tool .* 'ares' .*'area'"),
        ({"disallowed_tools": ["Agent(Explor)"]}, "unknown agent type 'Explor' .*'Explore'"),
        ({"agent": "Explor"}, r"^agent: unknown agent type Explor \(did you mean Explore"),
        ({"add_dirs": ["gone"]}, "add_dirs: folder not found: 'gone'"),
        ({"plugin_dirs": ["gone"]}, "plugin_dirs: folder not found: 'gone'"),
        ({"settings": "gone.json"}, "^settings: gone.json: "),
    ],
)
async def test_a_name_that_a_session_does_not_know_opens_none(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    servers = {"github": {"command": "/nonexistent"}}
    with pytest.raises(clew.HostError, match=words):
        await read_notices(options(tmp_path, functions=[area], mcp_servers=servers, **given))


async def test_rules_that_match_nothing_here_are_told_by_their_options_names(
    tmp_path: Path,
) -> None:
    denied = ["mcp__elsewhere__x", "mcp__program__area", "Agent(Explore)", "Agent", "Bash(rm:*)"]
    allowed = ["mcp__program__ares", "mcp__program", "mcp__program__*", "Read"]
    notices = await read_notices(
        options(tmp_path, functions=[area], disallowed_tools=denied, allowed_tools=allowed)
    )
    assert notices == [
        "disallowed_tools: 'mcp__elsewhere__x': unknown MCP server 'elsewhere'",
        "allowed_tools: 'mcp__program__ares': unknown tool of the server 'program': 'ares' "
        "(did you mean 'area'?)",
    ]


async def test_notices_of_a_session_name_options_as_python_does(tmp_path: Path) -> None:
    given = options(tmp_path, continue_conversation=True, settings='{"permissons": 1}')
    notices = await read_notices(given)
    assert notices[0].startswith('settings: unknown key "permissons"')
    assert notices[1].startswith("continue_conversation: no session to continue")


def test_commands_in_a_message_keep_their_flags() -> None:
    told = "--add-dir x: see clew --worktree a --resume; raise --max-budget-usd, not --nothing"
    assert say_in_python(told) == (
        "add_dirs x: see clew --worktree a --resume; raise max_budget_usd, not --nothing"
    )


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"can_use_tool": stay}, TypeError, "can_use_tool: expected an async function"),
        ({"can_use_tool": Gate()}, TypeError, "can_use_tool: expected an async function"),
        ({"can_use_tool": partial(stay, 1)}, TypeError, "can_use_tool: expected an async function"),
        ({"compact": stay}, TypeError, "compact: expected an async function"),
        ({"provider": not_yielding}, TypeError, "provider: expected an async generator"),
        ({"prepare": leave}, TypeError, "prepare: expected a plain function"),
        ({"prepare": hello}, TypeError, "prepare: expected a plain function"),
        ({"max_budget_usd": "3"}, TypeError, "max_budget_usd: expected a number of dollars"),
        ({"max_budget_usd": True}, TypeError, "max_budget_usd: expected a number of dollars"),
        ({"inherit_env": "no"}, TypeError, "inherit_env: expected bool, got 'no'"),
        ({"home": ""}, ValueError, "home: must not be empty"),
        ({"model": ""}, ValueError, "model: must not be empty"),
        ({"cwd": "a\0b"}, ValueError, "cwd: must not contain NUL"),
        ({"add_dirs": ["a\0b"]}, ValueError, "add_dirs: must not contain NUL"),
        ({"name": "\ud800"}, ValueError, "name: can't be encoded as UTF-8"),
        ({"system_prompt": "\ud800"}, ValueError, "system_prompt: can't be encoded as UTF-8"),
        ({"env": {"A=B": "c"}}, ValueError, "env: 'A=B': the name must not"),
        ({"env": {"A": "b\0"}}, ValueError, "env: 'A': .* contain NUL"),
        ({"json_schema": {"a": object()}}, TypeError, "json_schema: Encoding objects"),
        ({"thinking": clew.ThinkingBudget(tokens=5)}, ValueError, "at least 1,024 tokens, got 5"),
        ({"thinking": clew.ThinkingBudget(tokens=MANY)}, TypeError, "thinking: Expected `int`"),
    ],
)
def test_a_value_that_would_fail_later_is_refused(
    given: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        clew.ClewOptions(**given)


def test_every_kind_of_async_function_can_decide() -> None:
    functions = (permit, Guard(), partial(permit), AsyncMock(), lambda call: permit(call=call))
    for function in functions:
        clew.ClewOptions(can_use_tool=function)
    clew.ClewOptions(provider=partial(hello), prepare=stay, compact=AsyncMock())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"matcher": "("}, 'the matcher "\\(" is not a valid regular expression'),
        ({"matcher": 3}, "matcher: expected str, got 3"),
        ({"event": "Stop", "matcher": "Bash"}, "matcher: Stop has nothing to match"),
        ({"timeout_s": -1}, "the timeout must be greater than 0 seconds"),
        ({"timeout_s": "1"}, "timeout_s: expected a number of seconds, got '1'"),
        ({"on_failure": "blok"}, 'on_failure: expected one of block, continue .*"block"'),
        ({"event": 3}, "event: unknown hook event 3"),
        ({"call": stay}, "call: expected an async function"),
    ],
)
def test_a_hook_that_could_not_run_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        clew.HookAt(**{"event": "PreToolUse", "call": answer} | given)


def test_decisions_are_checked_when_they_are_made() -> None:
    assert clew.Deny("no") == clew.Deny(words="no")
    wrong: Any = 3
    for make in (
        lambda: clew.Deny(wrong),
        lambda: clew.Deny("", wrong),
        lambda: clew.Permit(wrong),
    ):
        with pytest.raises(TypeError, match=r"expected .*, got 3"):
            make()


async def test_an_export_in_an_unknown_form_is_refused(tmp_path: Path) -> None:
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    session = clew.Session.create(history, home=tmp_path)
    wrong: Any = "htm"
    with pytest.raises(ValueError, match=r"form: expected one of .*did you mean \"html\""):
        session.export(wrong)
    for call in (session.entries, session.messages, lambda since: session.export(since=since)):
        with pytest.raises(ValueError, match="since: expected one of compaction, beginning"):
            call(wrong)
    with pytest.raises(ValueError, match="masks: expected one of secrets, personal, nothing"):
        session.export(masks=wrong)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: clew.ClewOptions(modle="opus"), "ClewOptions: .*'modle' .*\"model\""),
        (lambda: clew.HookAt(event="Stop", cal=answer), "HookAt: .*'cal' .*\"call\""),
        (lambda: clew.Deny(word="no"), "Deny: .*'word' .*\"words\""),
        (lambda: clew.Permit(zzz={}), "Permit: unknown argument 'zzz'$"),
    ],
)
def test_a_misspelt_argument_is_told_with_the_nearest_name(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        make()


def test_options_show_what_was_set_and_no_secrets() -> None:
    given = clew.ClewOptions(
        model="opus",
        add_dirs=["a"],
        env={"TENANT": "hidden-1"},
        mcp_servers={
            "a": {"command": "x", "env": {"KEY": "hidden-2"}, "timeout": 3},
            "b": {"url": "https://me:hidden-3@host", "headers": {"Authorization": "hidden-4"}},
        },
        session_store="redis://me:hidden-5@host",
        settings='{"env": {"A_TOKEN": "hidden-6-abcdefgh"}}',
    )
    shown = repr(given)
    assert shown.startswith("ClewOptions(env={'TENANT': '[masked]'}, mcp_servers={'a': {")
    assert (
        "add_dirs=['a'], model='opus', settings='{\"env\": {\"A_TOKEN\": \"[masked]\"}}'" in shown
    )
    assert "'timeout': 3" in shown
    assert "hidden" not in shown
    assert repr(clew.ClewOptions()) == "ClewOptions()"


async def test_run_sync_in_a_running_loop_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"async for message in clew.query\(...\)"):
        clew.run_sync("hi")


def test_arguments_of_stored_sessions_are_checked(tmp_path: Path) -> None:
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    session = clew.Session.create(history, home=tmp_path)
    wrong: Any = 3
    for call, words in (
        (lambda: clew.Session.create(history, title=wrong, home=tmp_path), "title: expected str"),
        (lambda: session.rename(wrong), "title: expected str, got 3"),
        (lambda: session.tag("\ud800"), "tag: can't be encoded as UTF-8"),
        (lambda: session.graft(wrong, ""), "other: expected clew.Session, got 3"),
        (lambda: session.search(wrong), "words: expected str, got 3"),
        (lambda: session.search("hi", limit=0), "limit: must be at least 1, got 0"),
        (lambda: session.export(subagents=wrong), "subagents: expected bool, got 3"),
        (lambda: list(clew.sessions(since=wrong)), "since: expected datetime, got 3"),
        (lambda: clew.rename_session(session.path, wrong), "title: expected str, got 3"),
        (lambda: clew.tag_session(session.path, wrong), "tag: expected str, got 3"),
        (lambda: clew.ClewClient(wrong), "options: expected clew.ClewOptions, got 3"),
        (lambda: clew.tool(wrong), "3: a tool must be an async function"),
        (lambda: clew.tool(positional), "positional: the parameter x has to be usable by name"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    assert session.title == "hi"
