"""Many permission questions over a connection that repeats, delays, reorders and loses requests.

Several workers ask at the same time, and two viewers of each answer all its questions. Each worker
is killed now and then. Afterwards, what the calls did is compared with the verdicts. Also a program:

    python -m tests.fronts.remote.questions --questions 10000 --seed 1
"""

import argparse
import asyncio
import itertools
import json
import random
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from clew.fronts.remote.service import SessionService
from clew.serve.sqlite import SqliteDatabase
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.server import serving
from tests.fronts.remote.havoc import Answerer, compare_verdicts, read_events, until
from tests.fronts.remote.yard import Json, Running, Yard
from tests.serve.faults import FaultProxy

TOGETHER = 50
KILL_SHARE = 0.1
SERVER = Path(__file__).parent / "counter_server.py"


def play(body: dict[str, Any]) -> dict[str, Any]:
    """For the prompt "count FIRST LAST", call the counter for each number between them."""
    content = body["messages"][-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if any(block["type"] == "tool_result" for block in blocks):
        return {"text": "Done."}
    for block in reversed(blocks):
        words = block.get("text", "").split()
        if words[:1] == ["count"]:
            numbers = range(int(words[1]), int(words[2]))
            calls = [{"tool": "mcp__counter__count", "input": {"number": n}} for n in numbers]
            return {"content": calls}
    return {"text": "Yes."}


class Questioning:
    """One session: its worker, and the two viewers who answer."""

    def __init__(self, yard: Yard, service: SessionService, *, seed: int, folder: Path) -> None:
        self._yard = yard
        self._service = service
        self._random = random.Random(seed)
        config = {
            "counter": {"command": sys.executable, "args": [str(SERVER), str(folder / "log")]}
        }
        self._config = folder / "mcp.json"
        self._config.write_text(json.dumps({"mcpServers": config}), "utf-8")
        self.worker: Running = self._start()
        self.session = yard.session
        self.kills = 0
        self.answerers = [
            Answerer(service, self.session, seed=seed * 10 + number) for number in range(2)
        ]

    def _start(self, *args: str) -> Running:
        return self._yard.worker("--mcp-config", str(self._config), *args)

    async def run(self, share: int) -> None:
        """Send prompts until this session has asked its share of the questions."""
        batches = itertools.count()
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(one.watch()) for one in self.answerers]
            while len(self.answerers[0].verdicts) < share:
                await self._count(next(batches) * TOGETHER)
            for task in watching:
                task.cancel()

    async def _count(self, first: int) -> None:
        name, text = str(uuid.uuid4()), f"count {first} {first + TOGETHER}"
        prompt = {"type": "user", "uuid": name, "message": {"role": "user", "content": text}}
        ended = self.answerers[0].ended
        await self.answerers[0].send(prompt)
        if self._random.random() < KILL_SHARE and self.kills < 5:
            await asyncio.sleep(self._random.uniform(0.2, 1.0))
            self.worker.kill()
            self.kills += 1
            self.worker = await asyncio.to_thread(self._start, "--resume", self.session)
            return
        await until(lambda: name in ended, f"no result for {text!r}")


class Questions:
    def __init__(self, folder: Path, *, questions: int, seed: int, sessions: int) -> None:
        self._folder = folder
        self._questions = questions
        self._seed = seed
        self._sessions = sessions

    async def run(self) -> Json:
        with (
            serving(play) as model,
            Yard(self._folder, model.url) as yard,
            FaultProxy(yard.address, seed=self._seed, is_per_request=True) as proxy,
        ):
            yard.use(f"http://{proxy.address}")
            transport = HttpTransport(Network())
            try:
                service = SessionService(f"http://{proxy.address}", yard.token, transport)
                sessions = []
                for number in range(self._sessions):
                    folder = self._folder / f"session-{number}"
                    folder.mkdir()
                    seed = self._seed * 100 + number
                    sessions.append(Questioning(yard, service, seed=seed, folder=folder))
                async with asyncio.TaskGroup() as group:
                    for one in sessions:
                        group.create_task(one.run(-(-self._questions // self._sessions)))
                proxy.chance = 0.0
                for one in sessions:
                    one.worker.process.terminate()
                    await asyncio.to_thread(one.worker.process.wait, 60)
            finally:
                await transport.aclose()
            await asyncio.to_thread(yard.server.kill)
            return await self._compare(yard, sessions) | {"faults": dict(proxy.counts)}

    async def _compare(self, yard: Yard, sessions: list[Questioning]) -> Json:
        database = SqliteDatabase(self._folder / "serve.db")
        verdicts: Counter[str] = Counter()
        questions, told = 0, 0
        for number, one in enumerate(sessions):
            yard.session = one.session
            events = await read_events(database, one.session)
            log = self._folder / f"session-{number}" / "log"
            ran = Counter(log.read_text("utf-8").split())
            about = compare_verdicts(
                events, yard.entries(), ran, one.answerers, lambda given: str(given["number"])
            )
            questions += about["questions"]
            verdicts.update(about["verdicts"])
            told += sum(answerer.lost_to.total() for answerer in one.answerers)
        await database.aclose()
        return {
            "questions": questions,
            "verdicts": dict(verdicts),
            "told that another viewer was first": told,
            "kills": sum(one.kills for one in sessions),
        }


def ask_questions(folder: Path, *, questions: int, seed: int, sessions: int = 16) -> Json:
    return asyncio.run(Questions(folder, questions=questions, seed=seed, sessions=sessions).run())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        about = ask_questions(
            Path(name), questions=options.questions, seed=options.seed, sessions=options.sessions
        )
    sys.stdout.write(json.dumps(about, indent=1) + "\n")
