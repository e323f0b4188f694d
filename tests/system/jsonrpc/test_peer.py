"""One side of a connection: every request ends exactly once, whatever the peer does."""

from typing import Any

import pytest
from msgspec import structs

from clew.system.jsonrpc import wire
from clew.system.jsonrpc.peer import (
    Dialect,
    Ended,
    Event,
    Odd,
    OwedMessage,
    Peer,
    PeerAnswer,
    PeerFailure,
    PeerRequest,
    PeerWithdrawn,
    Progressed,
    Told,
)
from tests.requirements import requirement

DIALECT = Dialect(
    cancel_method="cancel", cancel_key="id", progress_method="progress", progress_key="token"
)


def asking(**times: float) -> tuple[Peer, int]:
    peer = Peer(DIALECT)
    identity = peer.next_id()
    assert peer.ask(identity, "do", {"a": 1}, now_s=10, **times)["method"] == "do"
    return peer, identity


def feed(peer: Peer, now_s: float = 10, **message: Any) -> list[Event]:
    return peer.feed(wire.read_value({"jsonrpc": "2.0", **message}), now_s=now_s)


@requirement("R148")
def test_a_request_ends_with_the_answer_of_its_id_and_only_once() -> None:
    peer, identity = asking()
    assert peer.waiting == 1
    assert feed(peer, id=identity, result=5) == [Ended(id=identity, outcome=PeerAnswer(result=5))]
    (again,) = feed(peer, id=identity, result=6)
    assert isinstance(again, Odd)
    assert peer.waiting == 0


def test_an_error_is_the_peers_refusal_with_its_code() -> None:
    peer, identity = asking()
    (ended,) = feed(peer, id=str(identity), error={"code": -5, "message": "no", "data": {"x": 1}})
    assert ended == Ended(
        id=identity, outcome=PeerFailure(kind="refused", message="no", code=-5, data={"x": 1})
    )


def test_an_error_about_nothing_and_answers_to_nothing_change_nothing() -> None:
    peer, _ = asking()
    assert isinstance(feed(peer, id=None, error={"code": 1, "message": "?"})[0], Odd)
    assert isinstance(feed(peer, id="77", result=1)[0], Odd)
    assert isinstance(feed(peer, id="name", result=1)[0], Odd)
    assert peer.waiting == 1


def test_an_id_that_is_a_text_is_kept_as_one() -> None:
    peer = Peer(DIALECT)
    peer.ask("mine", "do", None, now_s=0)
    (ended,) = feed(peer, id="mine", result=1)
    assert ended == Ended(id="mine", outcome=PeerAnswer(result=1))


@requirement("W26")
def test_a_request_that_is_not_answered_in_time_fails_and_the_peer_is_told() -> None:
    peer, identity = asking(patience_s=5)
    assert peer.due_at() == 15
    assert peer.expire(now_s=14.9) == []
    ended, owed = peer.expire(now_s=15)
    assert isinstance(ended, Ended)
    assert isinstance(ended.outcome, PeerFailure)
    assert ended.outcome.kind == "timeout"
    assert isinstance(owed, OwedMessage)
    assert owed.message == wire.make_notification("cancel", {"id": identity, "reason": "timeout"})
    assert peer.due_at() is None


def test_progress_begins_the_patience_anew_but_not_the_limit() -> None:
    peer, identity = asking(patience_s=5, limit_s=8)
    (step,) = feed(peer, 14, method="progress", params={"token": identity, "n": 1})
    assert step == Progressed(id=identity, params={"token": identity, "n": 1})
    assert peer.due_at() == 18
    without = Peer(DIALECT)
    without.ask(1, "do", None, now_s=0)
    assert len(feed(without, method="progress", params={"token": 1})) == 1
    assert without.due_at() is None


@pytest.mark.parametrize("params", [{"token": 99}, {"token": None}, {}, [1], None])
def test_progress_of_nothing_is_nothing(params: Any) -> None:
    peer, _ = asking()
    assert feed(peer, method="progress", params=params or {}) == []


@requirement("W26")
def test_giving_up_tells_the_peer_once() -> None:
    peer, identity = asking()
    assert peer.give_up(identity, "why") == wire.make_notification(
        "cancel", {"id": identity, "reason": "why"}
    )
    assert peer.give_up(identity, "why") is None


@requirement("W26")
def test_a_lost_line_ends_everything_that_runs() -> None:
    peer, identity = asking()
    feed(peer, id="q", method="ask")
    ended, withdrawn = peer.lost("cut")
    assert ended == Ended(id=identity, outcome=PeerFailure(kind="lost", message="cut"))
    assert withdrawn == PeerWithdrawn(id="q")
    assert peer.lost("again") == []


def test_a_question_is_answered_once() -> None:
    peer, _ = asking()
    assert feed(peer, id=3, method="ask", params={}) == [PeerRequest(id=3, method="ask", params={})]
    owed, odd = feed(peer, id=3, method="ask")
    assert isinstance(owed, OwedMessage)
    assert isinstance(odd, Odd)
    assert peer.answered(3)
    assert not peer.answered(3)


def test_a_question_can_be_taken_back() -> None:
    peer, _ = asking()
    feed(peer, id=3, method="ask")
    assert feed(peer, method="cancel", params={"id": 4}) == []
    assert feed(peer, method="cancel", params={"id": [3]}) == []
    assert feed(peer, method="cancel", params={"id": 3}) == [PeerWithdrawn(id=3)]
    assert not peer.answered(3)


def test_where_the_protocol_wants_it_what_was_taken_back_is_answered_too() -> None:
    peer = Peer(structs.replace(DIALECT, cancelled_code=-32800))
    feed(peer, id=3, method="ask")
    withdrawn, owed = feed(peer, method="cancel", params={"id": 3})
    assert withdrawn == PeerWithdrawn(id=3)
    assert isinstance(owed, OwedMessage)
    assert (owed.message["id"], owed.message["error"]["code"]) == (3, -32800)
    assert not peer.answered(3)


def test_what_is_told_is_handed_on() -> None:
    peer, _ = asking()
    assert feed(peer, method="news", params=[1]) == [Told(method="news", params=[1])]


def test_a_broken_question_is_refused_and_a_broken_answer_ends_its_request() -> None:
    peer, identity = asking()
    owed, odd = feed(peer, id=8, method=5)
    assert isinstance(owed, OwedMessage)
    assert owed.message["error"]["code"] == wire.INVALID_REQUEST
    assert isinstance(odd, Odd)
    ended, _ = feed(peer, id=identity, result=1, error={})
    assert isinstance(ended, Ended)
    assert isinstance(ended.outcome, PeerFailure)
    assert ended.outcome.kind == "invalid"
    assert len(feed(peer, id=99, result=1, error={})) == 1
    assert len(peer.feed(wire.read(b"nonsense"), now_s=0)) == 1
    assert len(feed(peer, id=4)) == 1
    assert peer.fail(identity, PeerFailure(kind="invalid", message="")) == []
