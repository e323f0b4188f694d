"""A session is assembled completely and releases everything, without a front end."""

import asyncio
import os
from pathlib import Path

from clew.agent.conversation import Speaker
from clew.agent.deps import Question, Refused, Verdict
from clew.agent.events import EngineEvent
from clew.agent.options import Options
from clew.session.build import open_session
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment


async def nobody(_: Question) -> Verdict:
    return Refused(words="nobody is here", by_person=False)


async def unheard(_: EngineEvent) -> None:
    """Events are not what these tests are about."""


async def talk(home: Path, url: str, options: Options, *prompts: str) -> str:
    environ = {**os.environ, **environment(home, url)}
    async with open_session(options, environ, str(home), nobody, entrypoint="cli") as opened:
        for prompt in prompts:
            await opened.conversation.submit(
                prompt,
                unheard,
                said_by=Speaker(source="sdk", mode=opened.mode),
                context=await opened.context(),
            )
        return opened.session_id


def test_a_session_talks_and_the_next_one_continues_with_it(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "One."}, {"text": "Two."}]}
    with serving(plan, strict=True) as server:
        first = asyncio.run(talk(tmp_path, server.url, Options(), "hi"))
        second = asyncio.run(talk(tmp_path, server.url, Options(continues=True), "again"))
        assert second == first
        said = [str(message["content"]) for message in server.requests[-1].body["messages"]]
    assert any("One." in words for words in said[:-1])
    assert "again" in said[-1]
    assert sorted(path.name for path in tmp_path.rglob("*.lock")) == []
