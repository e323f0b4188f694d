"""Havoc: a remote session whose processes are killed and whose connections fail, at random moments.

`run_havoc` does what users do (prompts, permission questions with two viewers who answer) while
worker, server, viewer and database are killed, and then compares the transcript, the server's
events, its copy of the transcript, and what the commands did. Also a program:

    python -m tests.fronts.remote.havoc --kills 1000 --seed 1 [--postgres]
"""

import argparse
import asyncio
import itertools
import json
import random
import re
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.core import wire
from clew.fronts.remote.service import ServiceError, SessionService, read_event, session_path
from clew.record.stores.base import HttpStore, StoreError, TranscriptKey
from clew.serve import log
from clew.serve.database import Database
from clew.serve.sqlite import SqliteDatabase
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.server import serving
from tests.fronts.remote.yard import Json, Running, Watching, Yard
from tests.serve.clusters import Cluster
from tests.serve.faults import FaultProxy

DO = re.compile(r"^do (\d+)$")
# How long everything may take to come to rest after the last fault.
REST_S = 120.0


def play(body: dict[str, Any]) -> dict[str, Any]:
    """Call Bash for the prompt "do N", and answer everything else in a word."""
    content = body["messages"][-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in reversed(blocks):
        if block["type"] == "tool_result":
            return {"text": "Done."}
        if block["type"] == "text" and (found := DO.match(block["text"].strip())):
            command = f"echo {found[1]} >> log"
            return {"content": [{"tool": "Bash", "input": {"command": command}}]}
    return {"text": "Yes."}


class Answerer:
    """A viewer that is not killed: it answers each question that it sees, until it is told."""

    def __init__(self, service: SessionService, session: str, *, seed: int) -> None:
        self._service = service
        self._session = session
        self._random = random.Random(seed)
        self.verdicts: dict[str, str] = {}
        self.taken: set[str] = set()
        self.lost_to: Counter[str] = Counter()
        self.seen: dict[int, str] = {}
        # The prompts whose turns have ended.
        self.ended: set[str] = set()

    async def watch(self) -> None:
        path = f"{session_path(self._session)}/events/stream"
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    after = max(self.seen, default=0)
                    async for event in self._service.stream(path, after):
                        about = read_event(event)
                        if isinstance(about.get("sequence_num"), int):
                            self._take(about, group)
                except ServiceError as error:
                    require_passing(error)
                await asyncio.sleep(self._random.uniform(0.05, 0.3))

    def _take(self, about: Json, group: asyncio.TaskGroup) -> None:
        seq, payload = about["sequence_num"], about["payload"]
        assert seq not in self.seen, f"event {seq} came twice"
        assert seq > max(self.seen, default=0), f"event {seq} came late"
        self.seen[seq] = about["event_id"]
        if payload.get("type") == "result":
            self.ended.update(payload.get("user_message_uuids", ()))
        if payload.get("type") != "control_request" or about["source"] != "worker":
            return
        if payload["request"].get("subtype") == "can_use_tool":
            group.create_task(self._answer(payload["request_id"], payload["request"]["input"]))

    async def _answer(self, request: str, given: Json) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.2))
        is_allowed = self._random.random() < 0.7
        verdict: Json = {"behavior": "deny", "message": "not this one"}
        if is_allowed:
            verdict = {"behavior": "allow", "updatedInput": given}
        self.verdicts[request] = verdict["behavior"]
        answer = wire.make_success(request, verdict) | {"uuid": str(uuid.uuid4())}
        for _ in range(1 + (self._random.random() < 0.3)):
            [result] = await self.send(answer)
            if by := result.get("answered_by"):
                self.lost_to[str(by)] += 1
            else:
                self.taken.add(request)

    async def send(self, payload: Json) -> list[Json]:
        """Send a frame until the server has it."""
        while True:
            try:
                return await self._service.send(self._session, [payload])
            except ServiceError as error:
                require_passing(error)
            await asyncio.sleep(self._random.uniform(0.02, 0.3))


class Havoc:
    """One session. Before its last prompt, the network is parted for `partition_s`."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        database: Cluster | None = None,
        partition_s: float = 0.0,
    ) -> None:
        self._partition_s = partition_s
        self._random = random.Random(seed)
        self._seed = seed
        self._folder = folder
        self._database = database
        self.kills: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self.prompts: dict[str, str] = {}

    async def run(self, kills: int) -> Json:
        db = "" if self._database is None else self._database.url
        with (
            serving(play) as model,
            Yard(self._folder, model.url, db=db) as yard,
            FaultProxy(yard.address, seed=self._seed) as proxy,
        ):
            yard.use(f"http://{proxy.address}")
            settings = {"sessionStore": f"http://{proxy.address}/v1"}
            (self._folder / "config").mkdir(exist_ok=True)
            (self._folder / "config" / "settings.json").write_text(json.dumps(settings), "utf-8")
            self._yard, self._proxy = yard, proxy
            self._worker: Running = await asyncio.to_thread(yard.worker)
            transport = HttpTransport(Network())
            try:
                return await self._havoc(kills, transport)
            finally:
                await transport.aclose()

    async def _havoc(self, kills: int, transport: HttpTransport) -> Json:
        yard = self._yard
        self._service = SessionService(f"http://{self._proxy.address}", yard.token, transport)
        self._answerers = [
            Answerer(self._service, yard.session, seed=self._seed * 10 + number)
            for number in range(2)
        ]
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(one.watch()) for one in self._answerers]
            # A session without a transcript can't be continued.
            await self._prompt("say 0")
            await self._until_answered("say 0")
            viewer: Watching | None = None
            while sum(self.kills.values()) < kills:
                if viewer is None:
                    viewer = yard.viewer()
                for _ in range(self._random.randint(0, 2)):
                    word = self._random.choice(("say", "do"))
                    await self._prompt(f"{word} {next(self._numbers)}")
                if self._random.random() < 0.2:
                    viewer.type(f"say {next(self._numbers)}")
                await asyncio.sleep(self._random.choice((0, 0.02, 0.1, 0.4)))
                viewer = await self._strike(viewer)
            if self._partition_s:
                await self._prompt(f"do {next(self._numbers)}")
                self._proxy.part()
                await asyncio.sleep(self._partition_s)
                self._proxy.heal()
            self._proxy.chance = 0.0
            await self._prompt("say the last")
            await self._until_answered("say the last")
            self._require_worker()
            self._worker.process.terminate()
            await asyncio.to_thread(self._worker.process.wait, 60)
            found = await self._compare(transport)
            for task in watching:
                task.cancel()
        return found

    async def _strike(self, viewer: Watching) -> Watching | None:
        """Kill one of the processes, or part the network."""
        yard = self._yard
        self._require_worker()
        victims = ["worker", "server", "viewer", "network"]
        if self._database is not None:
            victims.append("database")
        victim = self._random.choice(victims)
        match victim:
            case "worker":
                self._worker.kill()
                self._worker = await asyncio.to_thread(yard.worker, "--resume", yard.session)
            case "server":
                yard.server.kill()
                await asyncio.sleep(self._random.choice((0, 0, 0.5)))
                yard.server = await asyncio.to_thread(yard.serve)
            case "viewer":
                await asyncio.to_thread(viewer.kill)
                self.kills["viewer"] += 1
                return None
            case "database":
                assert self._database is not None
                await asyncio.to_thread(self._database.kill)
                await asyncio.to_thread(self._database.start)
            case _:
                if self._random.random() < 0.5:
                    self._proxy.cut_all()
                else:
                    self._proxy.part()
                    await asyncio.sleep(self._random.uniform(0.2, 1.5))
                    self._proxy.heal()
                return viewer
        self.kills[victim] += 1
        return viewer

    def _require_worker(self) -> None:
        """No fault looks like a takeover: a worker ends only when it is killed."""
        code = self._worker.process.poll()
        assert code is None, f"the worker ended by itself: {code}, {self._worker.rest()}"

    async def _prompt(self, text: str) -> None:
        name = str(uuid.uuid4())
        self.prompts[name] = text
        frame = {"type": "user", "uuid": name, "message": {"role": "user", "content": text}}
        for _ in range(1 + (self._random.random() < 0.2)):  # Some are sent twice.
            await self._answerers[0].send(frame)

    async def _until_answered(self, text: str) -> None:
        """Wait until the transcript has an answer to the prompt, and nothing is open."""

        def is_done() -> bool:
            self._require_worker()
            entries = self._yard.entries() if self._yard.has_transcript else []
            asked = [n for n, e in enumerate(entries) if content_of(e) == text]
            return bool(asked) and any(e["type"] == "assistant" for e in entries[asked[-1] :])

        await until(is_done, f"no answer to {text!r}")

    async def _compare(self, transport: HttpTransport) -> Json:
        """Hold everything that was stored against everything that was done."""
        entries = self._yard.entries()
        await asyncio.to_thread(self._yard.server.kill)
        events = await self._read_events()
        self._yard.server = await asyncio.to_thread(self._yard.serve)
        numbers = [event["sequence_num"] for event in events]
        assert numbers == list(range(1, len(numbers) + 1))
        names = Counter(event["event_id"] for event in events)
        assert max(names.values()) == 1
        # Prompts: each that the server took is in the transcript once, in the same order.
        sent = [
            (event["event_id"], event["payload"]["message"]["content"])
            for event in events
            if event["source"] == "client" and event["event_type"] == "user"
        ]
        done = [
            (entry["uuid"], entry["message"]["content"])
            for entry in entries
            if entry["type"] == "user" and entry.get("origin")
        ]
        assert done == sent, first_difference(done, sent)
        assert {name for name, _ in sent} >= set(self.prompts)
        # Answers: each in the transcript is at the server once and unchanged.
        answers = {e["uuid"]: e["message"]["content"] for e in entries if e["type"] == "assistant"}
        shown = {
            event["event_id"]: event["payload"]["message"]["content"]
            for event in events
            if event["event_type"] == "assistant"
        }
        assert shown == answers, set(shown) ^ set(answers)
        done_by_calls = self._yard.work / "log"
        ran = Counter(done_by_calls.read_text("utf-8").split() if done_by_calls.exists() else [])
        verdicts = compare_verdicts(
            events, entries, ran, self._answerers, lambda given: given["command"].split()[1]
        )
        lines = await self._compare_copy(transport)
        for one in self._answerers:
            for seq, name in one.seen.items():
                assert events[seq - 1]["event_id"] == name
        return {
            "kills": dict(self.kills),
            "faults": dict(self._proxy.counts),
            "prompts": len(sent),
            "events": len(events),
            "lines": lines,
            **verdicts,
        }

    async def _read_events(self) -> list[Json]:
        if self._database is None:
            database: Database = SqliteDatabase(self._folder / "serve.db")
        else:
            from clew.serve.postgres import PostgresDatabase

            database = PostgresDatabase(self._database.url)
        found = await read_events(database, self._yard.session)
        await database.aclose()
        return found

    async def _compare_copy(self, transport: HttpTransport) -> int:
        """The server's copy of the transcript is the file, after a push of the rest."""
        yard = self._yard
        store = HttpStore(f"{yard.url}/v1", transport, token=yard.token)
        key = TranscriptKey(session_id=yard.session)
        data = yard.transcript.read_bytes()
        try:
            copied = b"".join([piece async for piece in store.read(key)])
        except StoreError as error:
            raise AssertionError(str(error)) from None
        assert data.startswith(copied)
        pushed = yard.run("sessions", "push", yard.session)
        assert await asyncio.to_thread(pushed.end) == 0, pushed.lines
        copied = b"".join([piece async for piece in store.read(key)])
        assert copied == data
        return data.count(b"\n")


def compare_verdicts(
    events: list[Json],
    entries: list[Json],
    ran: Counter[str],
    answerers: Sequence[Answerer],
    number_of: Callable[[Json], str],
) -> Json:
    """Check that an answer takes effect once, or is refused aloud.

    `ran` are the numbers that calls have left behind; `number_of` finds one in the call's input.
    """
    questions = {
        event["payload"]["request_id"]: event["payload"]["request"]
        for event in events
        if event["source"] == "worker"
        and event["event_type"] == "control_request"
        and event["payload"]["request"]["subtype"] == "can_use_tool"
    }
    answered = Counter(
        event["payload"]["response"]["request_id"]
        for event in events
        if event["source"] == "client" and event["event_type"] == "control_response"
    )
    assert set(answered.values()) <= {1}
    taken = [one.taken for one in answerers]
    assert not taken[0] & taken[1]
    assert taken[0] | taken[1] <= set(answered)
    behaviors = {
        event["payload"]["response"]["request_id"]: event["payload"]["response"]["response"][
            "behavior"
        ]
        for event in events
        if event["source"] == "client" and event["event_type"] == "control_response"
    }
    withdrawn = {
        event["payload"]["request_id"]
        for event in events
        if event["event_type"] == "control_cancel_request"
    }
    late = sum("too late" in str(event["payload"].get("content")) for event in events)
    assert max(ran.values(), default=1) == 1, ran.most_common(3)
    results = {
        block["tool_use_id"]: str(block.get("content"))
        for entry in entries
        if entry["type"] == "user" and isinstance(entry["message"]["content"], list)
        for block in entry["message"]["content"]
        if block["type"] == "tool_result"
    }
    effects: Counter[str] = Counter()
    for request, question in questions.items():
        number = number_of(question["input"])
        behavior = behaviors.get(request)
        if behavior == "deny":
            assert number not in ran
        if behavior is None:
            assert request in withdrawn, f"{request} was neither answered nor withdrawn"
            assert number not in ran
            effects["withdrawn"] += 1
        elif "not this one" in results.get(question["tool_use_id"], ""):
            effects["denied"] += 1
        elif number in ran:
            effects["ran"] += 1
        else:
            if request not in withdrawn:
                assert late > 0, f"{request}: the answer was lost in silence"
                late -= 1
            effects["refused aloud"] += 1
    return {"questions": len(questions), "verdicts": dict(effects)}


async def read_events(database: Database, session: str) -> list[Json]:
    """Return all events of a session: also the questions that are closed now."""
    found = await database.read(lambda t: log.read_events(t, session, 0, 1_000_000))
    return [
        {
            "sequence_num": event.seq,
            "event_id": event.id,
            "event_type": event.kind,
            "source": event.source,
            "payload": json.loads(event.body),
        }
        for event in found
    ]


def require_passing(error: ServiceError) -> None:
    assert error.is_passing, error


def content_of(entry: Json) -> object:
    return entry["message"]["content"] if entry["type"] == "user" else None


def first_difference(one: list[Any], two: list[Any]) -> str:
    pairs = itertools.zip_longest(one, two)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), -1)
    return f"at {at}: {one[at - 1 : at + 3]} and {two[at - 1 : at + 3]}"


async def until(holds: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + REST_S
    while not holds():
        assert time.monotonic() < deadline, why
        await asyncio.sleep(0.1)


def run_havoc(
    folder: Path, *, kills: int, seed: int, is_postgres: bool = False, partition_s: float = 0.0
) -> Json:
    database = Cluster(folder / "pg") if is_postgres else None
    try:
        havoc = Havoc(folder, seed=seed, database=database, partition_s=partition_s)
        return asyncio.run(havoc.run(kills))
    finally:
        if database is not None:
            database.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        about = run_havoc(
            Path(name), kills=options.kills, seed=options.seed, is_postgres=options.postgres
        )
    sys.stdout.write(json.dumps(about, indent=1) + "\n")
