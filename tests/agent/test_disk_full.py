"""A disk that is full for twenty turns: the session continues and reports it, and loses nothing."""

import errno
from pathlib import Path

from clew.agent.events import NotSaved
from clew.core.messages.messages import UserMessage
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from tests.agent.world import Json, World
from tests.record.transcript.disk import Faulty

TURNS = 20


def turn(n: int) -> list[Json]:
    return [{"content": [{"tool": "Write", "input": {"n": n}}]}, {"text": f"Done {n}."}]


async def test_twenty_turns_on_a_full_disk_are_known_when_space_returns(tmp_path: Path) -> None:
    disk = Faulty(1 << 30, under=tmp_path, code=errno.ENOSPC, is_lasting=True)
    log = Log(files=disk, rescue_dirs=[tmp_path / "spare"])
    world = World(*(answer for n in range(TURNS + 2) for answer in turn(n)), home=tmp_path, log=log)
    try:
        await world.submit("before")
        transcript = world.story.recorder.transcript
        before = transcript.read_bytes()
        disk.fail_from_now(1)
        for n in range(TURNS):
            ended = await world.submit(f"prompt {n}")
            assert ended.reason == "completed"
        told = [event for event in world.events if isinstance(event, NotSaved)]
        assert "No space left" in told[0].messages[0]
        assert transcript.read_bytes() == before
        disk.heal()
        await world.submit("after")
        assert (await world.story.durable()).troubles == ()
        held = load(transcript).messages
    finally:
        log.close()
    assert [m["uuid"] for m in held] == [m["uuid"] for m in world.story.history]
    answered = [m for m in held if m["type"] == "user" and "toolUseResult" in m]
    assert len(answered) == TURNS + 2
    prompts = [UserMessage(m).text for m in held if m["type"] == "user" and m not in answered]
    assert prompts == ["before", *(f"prompt {n}" for n in range(TURNS)), "after"]
