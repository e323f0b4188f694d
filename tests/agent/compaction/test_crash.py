"""An interrupted compaction loses nothing.

The log is cut at every byte, and the process is killed.
"""

import asyncio
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.agent.compaction import boundary
from clew.agent.story import Story
from clew.core.messages.history import History
from clew.record.transcript.load import load
from clew.testing.server import RecordedRequest, serving
from tests.agent.compaction.test_in_headless import PARAGRAPH, SAID, boundaries, painter, resumed
from tests.agent.compaction.test_laws import Life
from tests.agent.compaction.window import ARGS, Window, answered, is_summary_request, text_of
from tests.fronts.headless.clew_process import until
from tests.fronts.headless.host_process import Hosted
from tests.record.transcript.session import SESSION, Session, uuids


def go_on(home: Path, data: bytes) -> list[str]:
    """Return the conversation of a session with these bytes after another process continued it."""
    session = Session(home)
    path = session.paths.place.transcript
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    loaded = load(path)
    session.recorder.resume(loaded)
    story = Story(session.recorder, History(loaded.messages))
    story.add([session.user("after the crash")])
    here = uuids(list(story.history))
    assert uuids(session.load().messages) == here
    session.close()
    return here[:-1]


def lived(home: Path, keep_tokens: int) -> tuple[Life, list[str]]:
    """Return a session that was compacted once, and its conversation before that."""
    life = Life(home, Random(7))
    for _ in range(2):
        life.talk()
    before = uuids(list(life.story.history))
    life.shorten(boundary.with_tail(list(life.story.history), keep_tokens))
    return life, before


@pytest.mark.crash
@pytest.mark.parametrize("keep_tokens", [0, 400])
def test_a_compaction_cut_at_any_byte_is_done_or_not_begun(
    keep_tokens: int, tmp_path: Path
) -> None:
    life, before = lived(tmp_path / "whole", keep_tokens)
    after = uuids(list(life.story.history))
    loaded = life.session.load()
    data = loaded.path.read_bytes()
    life.session.close()
    begin = data.index(b"compact_boundary")
    begin = data.rindex(b"\n", 0, begin) + 1
    done = data.rindex(b"}") + 1
    for number, end in enumerate(range(begin, len(data) + 1)):
        here = go_on(tmp_path / str(number), data[:end])
        if end >= done:
            assert here == after
        else:
            assert here[: len(before)] == before


@pytest.mark.crash
def test_an_undoing_cut_at_any_byte_shows_everything_or_the_summary(tmp_path: Path) -> None:
    life, before = lived(tmp_path / "whole", 400)
    after = uuids(list(life.story.history))
    compacted = len(life.session.load().path.read_bytes())
    assert asyncio.run(life.story.uncompact()) == ""
    data = life.session.load().path.read_bytes()
    life.session.close()
    for number, end in enumerate(range(compacted, len(data) + 1)):
        here = go_on(tmp_path / str(number), data[:end])
        assert here == after or here[: len(before)] == before
    assert here == before


class Killed:
    """A host's clew that is killed once.

    While the summary is requested, or as soon as it has arrived.
    """

    def __init__(self, step: str) -> None:
        self._step = step
        self._pids: list[int] = []

    @property
    def is_running(self) -> bool:
        return bool(self._pids)

    def heed(self, request: RecordedRequest) -> None:
        """Handle a request to the server, which may be the last one of this clew process."""
        asks = isinstance(request.body, dict) and is_summary_request(request.body)
        if self._step == "asked" and asks and self._pids:
            os.kill(self._pids[0], signal.SIGKILL)

    def in_answer_to(self, host: Hosted, prompt: str) -> None:
        self._pids.append(host.process.pid)
        host.say(prompt)
        if self._step == "told":
            host.until(lambda f: f.get("subtype") == "compact_boundary")
            os.kill(host.process.pid, signal.SIGKILL)
        until(lambda: host.process.poll() is not None)
        self._pids.clear()


@pytest.mark.crash
@pytest.mark.parametrize("step", ["asked", "told"])
def test_a_process_killed_in_the_middle_of_a_compaction_continues(
    step: str, tmp_path: Path
) -> None:
    killed, window = Killed(step), Window(painter)
    with serving(window, strict=True, on_request=killed.heed) as server:
        with Hosted(tmp_path, server.url, "--session-id", SESSION, *ARGS) as host:
            for number in range(3):
                host.say(f"Paint part {number}. " + PARAGRAPH)
                host.result()
            killed.in_answer_to(host, "/compact")
        resumed(tmp_path, server.url, "Go on.")
    sent = text_of(window.asked[-1])
    assert len(boundaries(tmp_path)) == (step == "told")
    assert ("Paint part 0." in sent) == (step == "asked")
    assert ("the north side is done" in sent) == (step == "told")


@pytest.mark.crash
@pytest.mark.parametrize("step", ["asked", "told"])
def test_a_process_killed_in_a_summary_in_the_middle_of_a_turn_continues(
    step: str, tmp_path: Path
) -> None:
    """Calls precede and follow the cut.

    The next process has the user's prompts and every result.
    """
    killed = Killed(step)
    rounds: list[dict[str, Any]] = []

    def part(body: dict[str, Any]) -> dict[str, Any]:
        rounds.append(body)
        if not killed.is_running:
            return answered("All is well.", body)
        call = {"tool": "Bash", "input": {"command": f"echo coat {len(rounds)}"}}
        return answered([PARAGRAPH, call], body)

    window = Window(part)
    with serving(window, strict=True, on_request=killed.heed) as server:
        with Hosted(tmp_path, server.url, "--session-id", SESSION, *ARGS) as host:
            killed.in_answer_to(host, "Paint the lighthouse, coat by coat.")
        assert "All is well." in resumed(tmp_path, server.url, "How far are you?")
        assert "All is well." in resumed(tmp_path, server.url, "Good.")
    assert "Paint the lighthouse, coat by coat." in text_of(
        window.asked[-1] if step == "told" else window.summaries[-1]
    )
    assert SAID in text_of(window.asked[-1])
    # The summary that was on its way is asked for again; the one that was there is not.
    assert len(window.summaries) == (2 if step == "asked" else 1)
    assert len(boundaries(tmp_path)) == 1
    assert not window.refused
