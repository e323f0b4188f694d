"""A session with a hundred tools that nobody has looked for, over the loopback API."""

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clew.agent.conversation import Speaker
from clew.agent.events import EngineEvent, ToolFinished
from clew.agent.options import Options
from clew.core.normalize.tokens import estimate_text_tokens, estimate_tool_tokens
from clew.permissions.request import tool_of
from clew.session.build import open_session
from clew.testing.server import serving
from tests.agent.tools.test_tool_search import Late
from tests.fronts.headless.clew_process import environment
from tests.session.test_build import nobody

HUNDRED = [Late(f"mcp__server{n % 5}__fetch_thing_{n}", f"Fetch thing {n}") for n in range(100)]
WANTED = "mcp__server0__fetch_thing_40"
PLAN = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "ToolSearch", "input": {"query": f"select:{WANTED}"}}]},
        {"content": [{"tool": WANTED, "input": {"question": "why"}}]},
        {"text": "Done."},
        {"text": "Again."},
    ],
}


async def talk(home: Path, url: str, options: Options, prompts: list[str]) -> list[ToolFinished]:
    finished: list[ToolFinished] = []

    async def emit(event: EngineEvent) -> None:
        if isinstance(event, ToolFinished):
            finished.append(event)

    environ = {**os.environ, **environment(home, url)}
    async with open_session(options, environ, str(home), nobody, entrypoint="cli") as opened:
        opened.tools.toolbox.gain(HUNDRED)
        for prompt in prompts:
            await opened.conversation.submit(
                prompt,
                emit,
                said_by=Speaker(source="sdk", mode=opened.mode),
                context=await opened.context(),
            )
    return finished


def bodies(home: Path, model: str) -> tuple[list[dict[str, Any]], list[ToolFinished]]:
    options = Options(model=model, mode="dontAsk", allow=(WANTED,))
    with serving(PLAN, strict=True) as server:
        finished = asyncio.run(talk(home, server.url, options, ["go"]))
        more = Options(model=model, mode="dontAsk", allow=(WANTED,), continues=True)
        asyncio.run(talk(home, server.url, more, ["and"]))
        return [request.body for request in server.requests], finished


def names(body: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


def plain(message: dict[str, Any]) -> Any:
    """A message without cache marks, its text always as blocks."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return message["role"], [
        {key: value for key, value in block.items() if key != "cache_control"} for block in blocks
    ]


@pytest.mark.parametrize("model", ["sonnet", "claude-haiku-4-5"])
def test_a_hundred_tools_are_found_used_and_kept_across_a_resume(
    tmp_path: Path, model: str
) -> None:
    sent, finished = bodies(tmp_path, model)
    assert tool_of(WANTED).family == "mcp"
    assert [event.is_error for event in finished] == [False, False]
    assert f"{WANTED}: why" in str(sent[2]["messages"][-1])
    for shorter, longer in pairwise(sent):
        known = list(map(plain, shorter["messages"]))
        assert list(map(plain, longer["messages"]))[: len(known)] == known
    # What was found before the session ended is offered at once when it goes on.
    assert names(sent[3]) == names(sent[2])


def test_a_service_that_defers_gets_the_same_tools_in_every_request(tmp_path: Path) -> None:
    sent, _ = bodies(tmp_path, "sonnet")
    assert all(body["tools"] == sent[0]["tools"] for body in sent)
    assert sum(1 for tool in sent[0]["tools"] if tool.get("defer_loading")) >= 100


def test_another_gets_no_definition_before_it_was_found(tmp_path: Path) -> None:
    sent, _ = bodies(tmp_path, "claude-haiku-4-5")
    assert [WANTED in names(body) for body in sent] == [False, True, True, True]
    assert sum("server" in name for name in names(sent[3])) == 1


def test_a_hundred_tools_cost_less_than_a_thousand_tokens_until_they_are_used(
    tmp_path: Path,
) -> None:
    sent, _ = bodies(tmp_path, "sonnet")
    search = next(tool for tool in sent[0]["tools"] if tool["name"] == "ToolSearch")
    listing = next(
        block["text"]
        for message in sent[0]["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if "fetch_thing_99" in str(block.get("text"))
    )
    assert estimate_text_tokens(listing) + estimate_tool_tokens(search) < 1000
