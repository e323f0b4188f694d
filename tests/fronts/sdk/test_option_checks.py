"""Options that would not do what a program expects are refused, in the names of `ClewOptions`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.fronts.sdk.option_words import say_in_python


async def hello(request: clew.ModelRequest) -> AsyncIterator[str]:
    yield "hi"


@clew.tool
async def area(width: int) -> str:
    """The area of a rectangle."""
    return str(width)


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
        ({"mcp_servers": {"a/b": {"command": "x"}}}, "mcp_servers: 'a/b': a name has"),
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
