"""The life cycle of a server over real pipes: started, used, lost, restarted, closed."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from clew.core.messages.errors import ClewError
from clew.parts.mcp.catalogue import ResourceOffer
from clew.parts.mcp.resource_tools import find_children
from clew.parts.mcp.tools import UNSURE, McpTool
from tests.parts.mcp.yard import entry, until, yard
from tests.requirements import requirement


@requirement("R149", "R150")
async def test_a_servers_tools_are_tools_of_the_session(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        names = [tool.name for tool in here.servers.tools()]
        assert names == [
            "mcp__one__ask_roots",
            "mcp__one__echo",
            "mcp__one__environment",
            "mcp__one__fail",
            "ListMcpResourcesTool",
            "ReadMcpResourceTool",
            "ReadMcpResourceDir",
            "RefreshMcpTools",
        ]
        result = await here.use("mcp__one__echo", text="hey")
        assert (result.content, result.is_error) == ("you said hey", False)
        assert result.tool_use_result == [{"type": "text", "text": "you said hey"}]
        broken = await here.use("mcp__one__fail")
        assert (broken.content, broken.is_error) == ("it broke", True)
        server = here.server()
        assert server.instructions == "Use echo to be heard."
        assert server.agreement is not None
        assert server.agreement.version == "2025-11-25"


@requirement("R149")
async def test_a_server_learns_the_folders_and_nothing_that_is_not_offered(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        roots = await here.use("mcp__one__ask_roots")
        assert json.loads(str(roots.content)) == {
            "roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]
        }
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        said = json.loads(str((await here.use("mcp__one__elicit")).content))
        assert said["code"] == -32601


async def test_resources_are_listed_and_read(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        listed = await here.use("ListMcpResourcesTool")
        assert "memo://one" in str(listed.content)
        assert "memo://{name}" in str(listed.content)
        read = await here.use("ReadMcpResourceTool", server="one", uri="memo://one")
        assert read.content == "[resource memo://one]\nthe memo"
        wrong = await here.use("ReadMcpResourceTool", server="two", uri="memo://one")
        assert wrong.is_error
        assert "available: one" in str(wrong.content)


def test_the_children_of_a_folder_are_the_resources_one_level_below_it() -> None:
    uris = ("docs://a/one.md", "docs://a/b/two.md", "docs://a/b/three.md", "docs://ab/four.md")
    offers = [ResourceOffer(server="s", uri=uri, name=uri[-6:]) for uri in uris]
    found = [(row["uri"], row.get("mimeType")) for row in find_children(offers, "docs://a")]
    assert found == [("docs://a/one.md", None), ("docs://a/b", "inode/directory")]


async def test_tools_are_listed_again_on_request(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        told = json.loads(str((await here.use("RefreshMcpTools", server="one")).content))
        assert (told["status"], told["toolCount"], told["added"]) == ("refreshed", 4, [])
        none = await here.use("ReadMcpResourceDir", server="one", uri="memo://nothing")
        assert none.is_error


@requirement("W26")
async def test_annotations_are_hints_that_let_nothing_run(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        echo, fail = here.tool("mcp__one__echo"), here.tool("mcp__one__fail")
        assert isinstance(echo, McpTool)
        given = echo.input_type(values={})
        assert echo.is_concurrency_safe(given)
        assert not fail.is_concurrency_safe(given)
        assert fail.is_destructive(given)
        assert echo.title(given) == "mcp__one__echo {}"


@requirement("W26")
async def test_a_server_that_is_lost_is_begun_again_and_the_call_says_what_is_not_known(
    tmp_path: Path,
) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        died = await here.use("mcp__one__die")
        assert died.is_error
        assert "code 3" in str(died.content)
        assert UNSURE in str(died.content)
        again = await here.use("mcp__one__echo", text="back")
        assert again.content == "you said back"


@requirement("W26")
async def test_a_list_that_changed_is_asked_for_again(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        before = here.tool("mcp__one__echo")
        await here.use("mcp__one__change")
        now = ["mcp__one__echo", "mcp__one__new_one"]
        await here.changed(
            lambda: [t.name for t in here.servers.tools() if isinstance(t, McpTool)] == now
        )
        assert here.tool("mcp__one__echo") is not before


@requirement("W26")
async def test_a_cancelled_call_is_cancelled_at_the_server_too(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with yard(tmp_path, {"one": entry("rude", str(note))}) as here:
        task = asyncio.create_task(here.use("mcp__one__wait"))
        await until(lambda: note.exists() and '"wait"' in note.read_text("utf-8"))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await until(lambda: "notifications/cancelled" in note.read_text("utf-8"))


async def test_progress_is_told_while_a_call_runs(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        assert (await here.use("mcp__one__progress")).content == "done"
        assert here.progress[-1].text == "2 of 3 on it"


@requirement("W26")
async def test_all_that_a_server_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = entry("honest")
    words = " ".join([program["command"], *program["args"]])
    script = f"sleep 1000 & echo $! > {note}; {words}"
    async with yard(tmp_path, {"one": {"command": "sh", "args": ["-c", script]}}) as here:
        await here.until("ready")
        pid = int(note.read_text("utf-8"))
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_server_is_turned_off_on_and_begun_again_on_demand(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("honest")}) as here:
        await here.servers.toggle("one", enabled=False)
        assert here.server().state == "disabled"
        assert here.servers.tools() == ()
        await here.servers.toggle("one", enabled=True)
        await here.until("ready")
        await here.servers.reconnect("one")
        await here.until("ready")
        assert (await here.use("mcp__one__echo", text="x")).content == "you said x"
        await here.servers.remove("one")
        assert len(here.servers) == 0


async def test_names_that_read_alike_are_refused(tmp_path: Path) -> None:
    async with yard(tmp_path, {"a b": entry("honest")}) as here:
        (wrong,) = here.servers.add([here.server("a b").config])
        assert "conflicts with a b" in wrong


def test_the_errors_of_a_line_are_errors_of_clew() -> None:
    from clew.parts.mcp.line import CannotReachError, UnauthorizedError

    assert issubclass(CannotReachError, ClewError)
    assert issubclass(UnauthorizedError, ClewError)
