"""Memories are tidied while the session is idle, as proposals that the user must accept."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from clew.agent.context.notebook import Memo, MemoryNotebook
from clew.agent.tasks.registry import Tasks
from clew.core.messages.errors import SettingsError
from clew.parts.memory.dreaming import Dreamer, proposals, read_idle_s
from clew.providers.base import Failure
from clew.testing.server import serving
from tests.fronts.headless.clew_process import until
from tests.fronts.headless.host_process import Hosted

FOUND = json.dumps([{"title": "Tests", "text": "make test", "replaces": ["tests", "more-tests"]}])


def notebook(folder: Path) -> MemoryNotebook:
    made = MemoryNotebook(folder)
    for title in ("tests", "more tests", "style", "release"):
        made.keep(Memo(title=title, text=f"about {title}", by="person"))
    return made


class Quiet:
    """An idle session; time passes only by sleeping."""

    def __init__(self, book: MemoryNotebook, answer: Any) -> None:
        self.tasks = Tasks()
        self.busy_looks = 0
        self.slept_s = 0.0
        self.answer = answer
        self.dreamer = Dreamer(
            book,
            self.tasks,
            self._ask,
            session_id="s",
            is_busy=self._is_busy,
            moves=lambda: 1,
            sleep=self._sleep,
        )

    async def _ask(self, prompt: str, **_: Any) -> Any:
        assert "about more tests" in prompt
        return self.answer

    def _is_busy(self) -> bool:
        self.busy_looks -= 1
        return self.busy_looks >= 0

    async def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        await asyncio.sleep(0)

    async def dream(self) -> str:
        """Return how the task ended; empty if there was none."""
        self.dreamer.begin(60)
        for _ in range(100):
            await asyncio.sleep(0)
        words = [task.ending.words for task in self.tasks.all() if task.ending is not None]
        await self.dreamer.aclose()
        await self.tasks.aclose()
        assert not self.tasks.has_news()
        return words[0] if words else ""


async def test_what_says_the_same_is_proposed_as_one_and_accepted_in_its_place(
    tmp_path: Path,
) -> None:
    book = notebook(tmp_path)
    quiet = Quiet(book, FOUND)
    quiet.busy_looks = 2
    assert await quiet.dream() == "1 proposal; run /memory review"
    assert quiet.slept_s == 90
    (proposed,) = book.proposals()
    assert proposed.source == "dream in s, replaces tests, more-tests"
    assert {memo.name for memo in book.memos()} == {"tests", "more-tests", "style", "release"}
    book.accept(proposed.name)
    assert {memo.title for memo in book.memos()} == {"Tests", "style", "release"}
    assert "more-tests.md" not in (tmp_path / "MEMORY.md").read_text("utf-8")


async def test_few_memories_are_left_in_peace(tmp_path: Path) -> None:
    book = MemoryNotebook(tmp_path)
    book.keep(Memo(title="one", text="x", by="person"))
    assert await Quiet(book, FOUND).dream() == ""


async def test_a_model_that_cannot_be_asked_changes_nothing(tmp_path: Path) -> None:
    book = notebook(tmp_path)
    failure = Failure(kind="network", message="nobody there")
    assert await Quiet(book, failure).dream() == "nobody there"
    assert book.proposals() == []


def test_only_what_replaces_memories_there_are_is_a_proposal(tmp_path: Path) -> None:
    memos = notebook(tmp_path).memos()
    said = json.dumps(
        [
            3,
            {"title": "x", "text": "y", "replaces": ["tests"]},
            {"title": "x", "text": "y", "replaces": ["gone", "tests"]},
            {"title": "x", "text": " ", "replaces": ["style", "tests"]},
            {"title": "x", "text": "y", "replaces": "style"},
        ]
    )
    assert list(proposals(said, memos, "s")) == []
    assert list(proposals("no list", memos, "s")) == []
    assert list(proposals("{}", memos, "s")) == []


def test_the_setting_is_a_span_or_off() -> None:
    assert [read_idle_s(said) for said in (None, "off", "10m")] == [0, 0, 600]
    for wrong in ("soon", 5):
        with pytest.raises(SettingsError):
            read_idle_s(wrong)


def test_an_idle_session_dreams_when_its_settings_say_so(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"when": {"system": "memories from sessions of one project"}, "text": FOUND},
            {"text": "Done.", "times": "always"},
        ],
    }
    settings = json.dumps({"dreamAfter": "1s"})
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--settings", settings) as host,
    ):
        for title in ("tests", "more tests", "style", "release"):
            host.say(f"/remember {title}")
            host.result()
        host.say("hi")
        host.result()
        until(lambda: any((tmp_path / "config").rglob("proposed/*.md")))
        host.say("/memory review")
        shown = host.result()["result"]
        assert host.end() == 0
    assert "replaces tests, more-tests" in shown
