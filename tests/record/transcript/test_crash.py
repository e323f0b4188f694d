"""Cuts, kills, failing disks, lost power, two writers: acknowledged data is kept, and it loads.

Short runs are part of the quick suite; `make crash` runs the same at depth.
"""

import asyncio
import json
import random
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages

from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPlace, get_project_dir
from clew.record.transcript.resume import resume
from tests.record.transcript.disk import Faulty, Powered
from tests.record.transcript.session import SESSION, Session, call, text, uuids
from tests.requirements import requirement


def transcript_in(home: Path) -> Path:
    return SessionPlace(session_id=SESSION, project_dir=get_project_dir(home, "/w")).transcript


class Story:
    """A session with calls in parallel, something withdrawn, and if long a compaction.

    `promised` grows at each durable point by what the conversation then has for good.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.promised: list[str] = []
        self.check = lambda: None

    async def turn(self, words: str) -> None:
        session, recorder = self.session, self.session.recorder
        prompt = session.user(words)
        recorder.record([prompt])
        await self._promise([prompt])
        tried = session.answer(text("no"))
        recorder.record(tried)
        recorder.withdraw(uuids(tried))
        answer = session.answer(text(words), call(f"{words}1"), call(f"{words}2"))
        results = [session.result(f"{words}2"), session.result(f"{words}1")]
        recorder.tool_started(f"{words}1", answer[:2])
        await self._promise(answer[:2])
        recorder.tool_started(f"{words}2", answer)
        recorder.tool_finished(f"{words}2", results[0])
        await self._promise([answer[2], results[0]])
        recorder.record([*answer, *results])
        await self._promise(results[1:])
        final = session.answer(text("done"))
        recorder.record(final)
        recorder.last_prompt(words)
        await self._promise(final)

    async def compact(self) -> None:
        session = self.session
        kept = session.user("kept")
        session.recorder.record([kept])
        summary = session.summary()
        segment = {
            "headUuid": kept["uuid"],
            "tailUuid": kept["uuid"],
            "anchorUuid": summary["uuid"],
        }
        boundary = session.boundary(preservedSegment=segment)
        session.recorder.record_compaction([kept], boundary, [summary])
        self.promised = []
        await self._promise([boundary, summary, kept])

    async def tell(self, turns: int) -> None:
        for n in range(turns):
            await self.turn(f"turn{n}")
        if turns > 2:
            await self.compact()
            await self.turn("after")

    async def _promise(self, messages: list[dict[str, Any]]) -> None:
        saved = await self.session.recorder.durable()
        if saved.is_durable:
            self.promised += uuids(messages)
        self.check()


def told(home: Path, turns: int, log: Log | None = None) -> tuple[Session, list[str]]:
    session = Session(home, log=log)
    story = Story(session)
    asyncio.run(story.tell(turns))
    session.close()
    return session, story.promised


def cut_everywhere(tmp_path: Path, turns: int) -> int:
    session, _ = told(tmp_path / "told", turns)
    whole = session.recorder.transcript.read_bytes()
    path = tmp_path / f"{SESSION}.jsonl"
    before: list[str] = []
    conversations = 0
    # Grown byte by byte: a file that is written anew each time costs a flush each time.
    with path.open("ab", buffering=0) as file:
        for size in range(len(whole) + 1):
            found = uuids(load(path).messages)
            if found != before:
                conversations += 1
                if turns < 3:
                    assert before == found[: len(before)] or is_withdrawal(before, found), size
                before = found
            file.write(whole[size : size + 1])
    assert before == uuids(load(session.recorder.transcript).messages)
    return conversations


def is_withdrawal(before: list[str], found: list[str]) -> bool:
    """The line just completed is the tombstone of what was said last."""
    return before[:-1] == found[: len(before) - 1]


@pytest.mark.no_cover
@requirement("W32")
def test_cut_at_every_byte_a_file_loads_as_a_beginning_of_its_conversation(tmp_path: Path) -> None:
    assert cut_everywhere(tmp_path, 1) > 6


@pytest.mark.crash
def test_cut_at_every_byte_a_long_file_with_a_compaction_loads(tmp_path: Path) -> None:
    assert cut_everywhere(tmp_path, 4) > 30


def test_every_beginning_of_a_file_is_still_a_file_to_the_published_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = told(tmp_path, 2)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    whole = session.recorder.transcript.read_bytes()
    for end in [i for i, byte in enumerate(whole) if byte == 10]:
        session.recorder.transcript.write_bytes(whole[: end + 1])
        ours = load(session.recorder.transcript)
        on_chain = set(uuids(ours.messages)) - set(uuids(ours.owed)) - withdrawn(ours)
        assert {m.uuid for m in get_session_messages(SESSION)} >= on_chain


def withdrawn(loaded: LoadedSession) -> set[str]:
    return set(loaded.side.withdrawn)


def fail_everywhere(tmp_path: Path, turns: int, *, is_lasting: bool, short: int | None) -> int:
    probe = Faulty(1 << 30, under=tmp_path / "probe" / "projects")
    told(tmp_path / "probe", turns, Log(files=probe))
    for n in range(1, probe.calls + 1):
        home = tmp_path / str(n)
        disk = Faulty(n, under=home / "projects", is_lasting=is_lasting, short_bytes=short)
        session = Session(home, log=Log(files=disk, rescue_dirs=[home / "spare"]))
        story = Story(session)
        asyncio.run(story.tell(turns))
        # The process dies; the disk is well again; the next one opens the session.
        disk.heal()
        abandon(session)
        following = Session(home)
        assert following.log
        if following.log.claim(following.recorder.transcript) and story.promised:
            resume(following.recorder, following.log, home=home)
        following.recorder.record([session.user("next")])
        found = uuids(following.load().messages)
        missing = [u for u in story.promised if u not in found]
        assert not missing, f"call {n}: {len(missing)} of {len(story.promised)}"
        following.close()
    return probe.calls


def abandon(session: Session) -> None:
    """Takes the file away from a writer as a kill does: nothing more is written."""
    log = session.log
    assert log
    for file in log._open.values():
        file._tail.clear()
        file._release()
    log.close()


@requirement("R258")
def test_an_error_at_the_nth_call_loses_nothing_acknowledged(tmp_path: Path) -> None:
    assert fail_everywhere(tmp_path, 1, is_lasting=True, short=None) > 10


@pytest.mark.crash
@pytest.mark.parametrize("is_lasting", [False, True])
@pytest.mark.parametrize("short", [None, 1, 700])
def test_an_error_at_the_nth_call_of_a_long_session(
    tmp_path: Path, is_lasting: bool, short: int | None
) -> None:
    assert fail_everywhere(tmp_path, 3, is_lasting=is_lasting, short=short) > 40


def lose_power_everywhere(tmp_path: Path, turns: int) -> int:
    disk = Powered()
    session = Session(tmp_path / "home", log=Log(files=disk))
    story = Story(session)
    path = session.recorder.transcript
    probe = tmp_path / f"{SESSION}.jsonl"
    states = 0

    def check() -> None:
        nonlocal states
        for content in disk.after_cut(path):
            states += 1
            probe.write_bytes(content)
            found = set(uuids(load(probe).messages))
            assert found >= set(story.promised)

    story.check = check
    record = session.recorder.record

    def checked(*args: Any, **more: Any) -> str | None:
        answered = record(*args, **more)
        check()
        return answered

    session.recorder.record = checked
    asyncio.run(story.tell(turns))
    session.close()
    return states


@pytest.mark.no_cover
@requirement("W23")
def test_power_lost_at_any_moment_takes_nothing_acknowledged(tmp_path: Path) -> None:
    assert lose_power_everywhere(tmp_path, 1) > 8


@pytest.mark.crash
def test_power_lost_at_any_moment_of_a_long_session(tmp_path: Path) -> None:
    assert lose_power_everywhere(tmp_path, 4) > 100


def start_writer(home: Path, turns: int, *more: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.record.transcript.writer", str(home), str(turns), *more],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def kill_at_random(home: Path, kills: int, seed: int) -> int:
    """Starts, kills and resumes one session again and again; answers how much was promised."""
    chance = random.Random(seed)
    promised: set[str] = set()
    for _ in range(kills):
        child = start_writer(home, 1000)
        assert child.stdin
        assert child.stdout
        with child.stdin, child.stdout as out, selectors.DefaultSelector() as ready:
            for _ in range(chance.randrange(1, 25)):
                promised |= set(out.readline().decode().split()[1:])
            ready.register(out, selectors.EVENT_READ)
            ready.select(chance.random() / 500)
            child.kill()
            child.wait(30)
            for line in out.read().split(b"\n")[:-1]:
                promised |= set(line.decode().split()[1:])
        loaded = load(transcript_in(home))
        missing = promised - set(uuids(loaded.messages))
        assert not missing, f"{len(missing)} of {len(promised)} acknowledged entries are gone"
    return len(promised)


@requirement("W23")
def test_killed_at_random_points_and_resumed_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, 4, seed=1) > 4


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(20))
def test_killed_two_hundred_times(tmp_path: Path, seed: int) -> None:
    assert kill_at_random(tmp_path, 10, seed=seed) > 10


@requirement("W29")
def test_two_processes_on_one_session_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    first = start_writer(tmp_path, 1, "stay")
    assert first.stdin
    assert first.stdout
    with first.stdin, first.stdout:
        for _ in range(6):
            assert first.stdout.readline().startswith(b"ack")
        before = transcript_in(tmp_path).read_bytes()
        second = start_writer(tmp_path, 1)
        said, _ = second.communicate(timeout=60)
        assert second.returncode == 3
        assert f"process {first.pid} (writer)".encode() in said
        assert transcript_in(tmp_path).read_bytes() == before
        first.stdin.close()
        assert first.wait(30) == 0
    third = start_writer(tmp_path, 1)
    third.communicate(timeout=60)
    assert third.returncode == 0
    lines = transcript_in(tmp_path).read_bytes().split(b"\n")[:-1]
    assert all(isinstance(json.loads(line), dict) for line in lines)
