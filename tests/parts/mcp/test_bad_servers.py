"""Servers that lie, hang, flood, print garbage, die or change: the session continues."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew.parts.mcp import client
from clew.parts.mcp.schemas import OPEN
from clew.parts.mcp.tools import UNSURE
from tests.parts.mcp.yard import entry, yard
from tests.requirements import requirement


@requirement("W26")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"command": "/no/such/program"}, "cannot be started"),
        (entry("old"), "1999-01-01"),
        (entry("dies_at_once"), "no configuration found"),
    ],
)
async def test_a_server_that_cannot_be_says_why(
    tmp_path: Path, value: dict[str, Any], words: str
) -> None:
    async with yard(tmp_path, {"one": value}, settle=False) as here:
        async with asyncio.timeout(20):
            while words not in here.server().problem:
                await here.server().moved()
        assert here.server().state in ("failed", "waiting")
        assert here.servers.tools() == ()


async def test_a_server_that_never_begins_holds_nobody_up(tmp_path: Path) -> None:
    entries = {"one": entry("silent"), "two": entry("honest")}
    async with yard(tmp_path, entries, startup_s=2.0, settle=False) as here:
        await here.until("ready", "two")
        assert await here.servers.settled(0) == ("one",)
        async with asyncio.timeout(20):
            while "took longer" not in here.server().problem:
                await here.server().moved()


async def test_garbage_on_standard_output_is_passed_over(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("garbage")}) as here:
        assert here.server().state == "ready"
        assert (await here.use("mcp__one__echo", text="x")).content == "you said x"
        log = "\n".join(here.server().host.log)
        assert "WARNING" in log
        assert "\x1b" not in log


async def test_a_call_that_is_never_answered_ends_and_is_cancelled(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude", timeout=200)}) as here:
        result = await here.use("mcp__one__hang")
        assert result.is_error
        assert "silent for 0.2 s" in str(result.content)
        assert UNSURE in str(result.content)


async def test_a_line_without_end_ends_the_call_and_nothing_else(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        result = await here.use("mcp__one__flood", text="40")
        assert result.is_error
        assert "too large" in str(result.content)
        assert (await here.use("mcp__one__echo", text="x")).content == "you said x"


async def test_a_server_whose_line_never_ends_is_ended_and_begun_again(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        result = await here.use("mcp__one__flood", text="1000000")
        assert result.is_error
        assert "keeps printing output" in str(result.content)
        await here.until("ready")
        assert (await here.use("mcp__one__echo", text="x")).content == "you said x"


async def test_an_answer_that_is_none_and_answers_to_nobody(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        lie = await here.use("mcp__one__lie")
        assert lie.is_error
        assert "not an object" in str(lie.content)
        assert (await here.use("mcp__one__stranger")).content == "after all"


async def test_schemas_that_are_none_never_reach_the_service(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("bad_schemas")}) as here:
        tools = {tool.name: tool for tool in here.servers.tools() if tool.is_mcp}
        assert "mcp__one__sound" in tools
        for name, tool in tools.items():
            if name.startswith("mcp__") and name != "mcp__one__sound":
                assert tool.foreign_schema == OPEN
        assert len(here.server().offers.faults) == 8


async def test_a_list_without_end_is_read_so_far_and_no_further(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("endless_pages")}) as here:
        assert len(here.server().offers.tools) == client.MOST_PAGES


async def test_structured_content_pictures_and_no_pictures(tmp_path: Path) -> None:
    async with yard(tmp_path, {"one": entry("rude")}) as here:
        told = await here.use("mcp__one__structured")
        assert told.content == '{"degrees":21}'
        assert told.mcp_meta == {"structuredContent": {"degrees": 21}}
        seen = await here.use("mcp__one__picture")
        assert isinstance(seen.content, list)
        assert seen.content[0]["source"]["media_type"] == "image/png"
        none = await here.use("mcp__one__picture", text="bm90IGFuIGltYWdl")
        assert "unsupported type" in str(none.content)
