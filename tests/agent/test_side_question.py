"""A question to a small model outside the conversation: its answer, its cost, its failures."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from clew.agent.side_question import SideQuestions
from clew.core.ledger.ledger import Charge, Spend
from clew.core.ledger.state import SessionState, SessionTracker
from clew.core.messages import factories
from clew.providers.answer import Answering
from clew.providers.base import Failure
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.testing.scenario import from_value
from clew.testing.scripted import ScriptedProvider
from tests.agent.world import SESSION_ID, World


class Asker:
    def __init__(self, home: Path, *answers: dict[str, Any], log: Log | None = None) -> None:
        self.provider = ScriptedProvider(from_value({"scenario": 1, "answers": list(answers)}))
        paths = SessionPaths(home=home, cwd="/", session_id=SESSION_ID)
        writer = Writer(session_id=SESSION_ID, cwd="/", version="0.1.0")
        self.recorder = Recorder(paths=paths, log=log, writer=writer, now=World.now)
        state = SessionState(
            session_id=SESSION_ID, original_cwd="/", started_at="", initial_model="x"
        )
        self.session = SessionTracker(state)
        self.told: list[Any] = []
        self.session.listen(lambda *event: self.told.append(event))
        self.side = SideQuestions(
            answer=lambda: Answering(self.provider, new_tool_id=lambda: f"toolu_{uuid4().hex}"),
            models={"small": "haiku"},
            session=self.session,
            recorder=self.recorder,
            now=World.now,
            monotonic_s=time.monotonic,
        )


async def test_the_small_model_answers_and_the_ledger_knows_what_for(tmp_path: Path) -> None:
    asker = Asker(tmp_path, {"text": "Blue."})
    answer = await asker.side.ask_model("Which color?", system="Be brief.", purpose="web")
    assert answer == "Blue."
    body = asker.provider.transport.heard[0].body
    assert (body["model"], body["system"]) == (
        "claude-haiku-5-5",
        [{"type": "text", "text": "Be brief."}],
    )
    assert "tools" not in body
    assert "cache_control" not in str(body)
    (charge,) = (event for event, _ in asker.told if isinstance(event, Charge))
    assert (charge.purpose, charge.model) == ("web", "claude-haiku-5-5")
    assert asker.session.ledger.total.usd == charge.usd
    assert charge.usd


async def test_another_model_is_asked_by_its_own_name(tmp_path: Path) -> None:
    asker = Asker(tmp_path, {"text": "Yes."})
    assert await asker.side.ask_model("?", model="claude-opus-5-5") == "Yes."
    assert asker.provider.transport.heard[0].body["model"] == "claude-opus-5-5"


async def test_a_refusal_is_a_value_and_costs_nothing(tmp_path: Path) -> None:
    asker = Asker(tmp_path, {"status": 400})
    answer = await asker.side.ask_model("?")
    assert isinstance(answer, Failure)
    assert answer.status == 400
    assert asker.session.ledger.total == Spend()


async def test_an_answer_without_words_is_a_failure(tmp_path: Path) -> None:
    asker = Asker(tmp_path, {"content": []})
    answer = await asker.side.ask_model("?")
    assert isinstance(answer, Failure)


async def test_the_cost_is_in_the_log_where_no_answer_shows_it(tmp_path: Path) -> None:
    log = Log()
    asker = Asker(tmp_path, {"text": "Blue."}, log=log)
    asker.recorder.record([factories.make_user("hi", uuid=str(uuid4()), at=World.now())])
    await asker.side.ask_model("Which color?", purpose="review")
    await asker.recorder.durable()
    log.close()
    words = asker.recorder.transcript.read_text("utf-8")
    assert '"purpose":"review"' in words
    assert not load(asker.recorder.transcript).is_empty
