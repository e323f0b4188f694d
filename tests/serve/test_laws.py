"""The five laws of the server's log, whatever arrives twice, late or from a replaced worker."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from clew.core.messages.errors import ClewError
from clew.serve import log, transcripts
from clew.serve.database import Transaction
from clew.serve.log import RefusedError, SentEvent
from clew.serve.sqlite import SqliteTransaction, connect, migrate

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
KEY = (transcripts.make_project(log.OWNER), SESSION, "")
Result = TypeVar("Result")


class Worker:
    """A worker: its file, how much of it the server acknowledged, and its epoch."""

    def __init__(self, lines: list[bytes], epoch: int) -> None:
        self.lines = lines
        self.sent = len(lines)
        self.epoch = epoch


class Sessions(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(self.connection)
        self.do(lambda t: log.create_session(t, SESSION, "", {}, 1))
        self.number = 0
        self.workers: list[Worker] = []
        self.prompts: dict[str, int] = {}
        self.answers: dict[str, str] = {}
        self.asked: list[str] = []
        self.seen: list[list[str]] = [[], []]
        self.after = [0, 0]
        self.take_over()

    def do(self, operation: Callable[[Transaction], Result]) -> Result:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = operation(SqliteTransaction(self.connection))
        except ClewError:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        return result

    def refuses(self, operation: Callable[[Transaction], Any], reason: str) -> None:
        with pytest.raises(RefusedError) as raised:
            self.do(operation)
        assert raised.value.reason == reason

    @property
    def current(self) -> Worker:
        return self.workers[-1]

    def next_id(self) -> str:
        self.number += 1
        return f"id-{self.number}"

    # -- what workers do

    @rule()
    def take_over(self) -> None:
        """Another machine hydrates the session and begins a new epoch."""
        lines = self.do(lambda t: transcripts.read_lines(t, KEY, 0, 10_000))
        token = self.next_id()
        epoch = self.do(lambda t: log.register_worker(t, SESSION, token, None, 1))
        assert epoch == len(self.workers) + 1
        self.workers.append(Worker(lines, epoch))

    @rule(which=st.integers(0, 3), count=st.integers(1, 3))
    def write_lines(self, which: int, count: int) -> None:
        worker = self.workers[which % len(self.workers)]
        worker.lines += [b'{"uuid":"%s"}\n' % self.next_id().encode() for _ in range(count)]

    @rule(which=st.integers(0, 3), is_answer_lost=st.booleans(), back=st.integers(0, 3))
    def send_lines(self, which: int, is_answer_lost: bool, back: int) -> None:
        """Send what is new, with lines before it that were sent already."""
        worker = self.workers[which % len(self.workers)]
        at = max(0, worker.sent - back)
        lines = worker.lines[at:]

        def append(transaction: Transaction) -> tuple[int, bytes]:
            return transcripts.append_lines(
                transaction, KEY, lines, at=at, epoch=worker.epoch, now_ms=1
            )

        if worker is not self.current:
            self.refuses(append, "superseded_by_worker")
            return
        count, chain = self.do(append)
        assert count == len(worker.lines)
        assert chain == chain_of(worker.lines)
        if not is_answer_lost:
            worker.sent = len(worker.lines)

    @rule()
    def send_gap(self) -> None:
        at = len(self.stored()) + 1
        append = self.appends([b"{}\n"], at)
        self.refuses(append, "gap")

    @precondition(lambda self: self.stored())
    @rule()
    def send_other_line(self) -> None:
        self.refuses(self.appends([b'{"other":1}\n'], len(self.stored()) - 1), "differs")

    def appends(self, lines: list[bytes], at: int) -> Callable[[Transaction], Any]:
        epoch = self.current.epoch
        return lambda t: transcripts.append_lines(t, KEY, lines, at=at, epoch=epoch, now_ms=1)

    @rule(is_sent_twice=st.booleans())
    def ask(self, is_sent_twice: bool) -> None:
        request = self.next_id()
        event = SentEvent(id=self.next_id(), kind="control_request", body=b"{}", asks=request)
        for _ in range(1 + is_sent_twice):
            self.sends("worker", event, "worker")
        self.asked.append(request)

    @rule(which=st.integers(0, 3))
    def send_as_replaced(self, which: int) -> None:
        worker = self.workers[which % len(self.workers)]
        event = SentEvent(id=self.next_id(), kind="assistant", body=b"{}")
        if worker is self.current:
            self.sends("worker", event, "worker")
        else:
            self.refuses(
                lambda t: log.append_events(
                    t, SESSION, "worker", [event], by="", epoch=worker.epoch, now_ms=1
                ),
                "superseded_by_worker",
            )

    # -- what viewers do

    @rule(is_sent_twice=st.booleans())
    def prompt(self, is_sent_twice: bool) -> None:
        event = SentEvent(id=self.next_id(), kind="user", body=b"{}")
        for _ in range(1 + is_sent_twice):
            stored = self.sends("client", event, "ada")
            assert self.prompts.setdefault(event.id, stored.seq) == stored.seq

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9), by=st.sampled_from(["ada", "bob"]), is_sent_twice=st.booleans())
    def answer(self, which: int, by: str, is_sent_twice: bool) -> None:
        request = self.asked[which % len(self.asked)]
        event = SentEvent(id=self.next_id(), kind="control_response", body=b"{}", answers=request)
        for _ in range(1 + is_sent_twice):
            stored = self.sends("client", event, by)
            if request in self.answers and not stored.is_duplicate:
                assert stored.answered_by == self.answers[request]
            else:
                assert not stored.answered_by
                self.answers.setdefault(request, by)

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9))
    def fail(self, which: int) -> None:
        """A viewer that can't answer closes no question."""
        request = self.asked[which % len(self.asked)]
        event = SentEvent(
            id=self.next_id(), kind="control_response", body=b"{}", answers=request, is_failure=True
        )
        stored = self.sends("client", event, "eve")
        assert stored.answered_by == self.answers.get(request, "")

    @rule(which=st.integers(0, 1), limit=st.integers(1, 5))
    def read(self, which: int, limit: int) -> None:
        """A viewer that was away asks for what came after its number."""
        events = self.do(lambda t: log.read_events(t, SESSION, self.after[which], limit))
        self.seen[which] += [event.id for event in events]
        self.after[which] = events[-1].seq if events else self.after[which]

    def sends(self, source: log.Source, event: SentEvent, by: str) -> log.StoredEvent:
        [stored] = self.do(
            lambda t: log.append_events(
                t, SESSION, source, [event], by=by, epoch=self.current.epoch, now_ms=1
            )
        )
        return stored

    # -- what always holds

    def stored(self) -> list[bytes]:
        return self.do(lambda t: transcripts.read_lines(t, KEY, 0, 10_000))

    @invariant()
    def lines_are_a_prefix_of_the_writers_file(self) -> None:
        stored = self.stored()
        assert self.current.lines[: len(stored)] == stored
        assert len(set(stored)) == len(stored)

    @invariant()
    def events_are_numbered_without_gaps(self) -> None:
        events = self.do(lambda t: log.read_events(t, SESSION, 0, 10_000))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        names = [event.id for event in events]
        assert len(set(names)) == len(names)
        for seen, after in zip(self.seen, self.after, strict=True):
            assert seen == names[:after]

    def teardown(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


def chain_of(lines: list[bytes]) -> bytes:
    chain = transcripts.NO_LINES
    for line in lines:
        chain = transcripts.extend_chain(chain, line)
    return chain


TestSessions = Sessions.TestCase
TestSessions.settings = settings(stateful_step_count=30)


def test_a_file_keeps_its_tables_when_it_is_opened_again(tmp_path: Path) -> None:
    for _ in range(2):
        connection = connect(tmp_path / "serve.db")
        migrate(connection)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()
