"""What a peer sends is read without trusting it; what breaks the rules is a value."""

from typing import Any

import pytest

from clew.system.jsonrpc import wire
from clew.system.jsonrpc.wire import (
    MalformedMessage,
    Notification,
    RpcFault,
    RpcRefusal,
    RpcRequest,
    Success,
)
from tests.requirements import requirement


@requirement("R148")
@pytest.mark.parametrize("identity", [7, "seven", 0, ""])
def test_a_request_has_an_id_of_either_kind(identity: int | str) -> None:
    message = {"jsonrpc": "2.0", "id": identity, "method": "do", "params": {"a": 1}}
    assert wire.read_value(message) == [RpcRequest(id=identity, method="do", params={"a": 1})]
    assert wire.request(identity, "do", {"a": 1}) == message


@requirement("R148")
def test_a_notification_has_no_id() -> None:
    assert wire.read(b'{"jsonrpc":"2.0","method":"m","params":[1]}') == [
        Notification(method="m", params=[1])
    ]
    assert "id" not in wire.make_notification("m", None)
    assert wire.make_notification("m", {}) == {"jsonrpc": "2.0", "method": "m", "params": {}}


@pytest.mark.parametrize("holder", [list, dict])
def test_what_is_nested_deeper_than_anybody_reads_is_no_message(holder: type) -> None:
    def nested(levels: int) -> Any:
        value: Any = "end"
        for _ in range(levels):
            value = [value] if holder is list else {"a": value}
        return value

    # The message itself is one of the levels.
    assert wire.read_value(wire.make_success(1, nested(wire.MOST_DEEP - 1)))[0] == Success(
        id=1, result=nested(wire.MOST_DEEP - 1)
    )
    for levels in (wire.MOST_DEEP, 100_000):
        (found,) = wire.read_value(wire.make_success(1, nested(levels)))
        assert isinstance(found, MalformedMessage)
        assert (found.kind, found.answer_to) == ("response", 1)
        assert found.why == "nested more than 200 levels deep"
        (found,) = wire.read_value(wire.request(2, "do", {"a": nested(levels)}))
        assert isinstance(found, MalformedMessage)
        assert (found.kind, found.answer_to) == ("request", 2)


@requirement("R148")
def test_an_answer_is_a_result_or_an_error_with_code_message_and_data() -> None:
    assert wire.read_value(wire.make_success(1, None)) == [Success(id=1, result=None)]
    fault = RpcFault(code=-3, message="no", data=[1])
    assert wire.read_value(wire.make_refusal("a", fault)) == [RpcRefusal(id="a", fault=fault)]
    assert wire.make_refusal(None, RpcFault(code=1, message="x")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": 1, "message": "x"},
    }


def test_a_number_that_some_writers_give_a_point_is_the_same_id() -> None:
    assert wire.read(b'{"jsonrpc":"2.0","id":4.0,"result":1}') == [Success(id=4, result=1)]


@requirement("W26")
@pytest.mark.parametrize(
    ("message", "why", "kind", "answer_to"),
    [
        ({"id": 1, "method": "m"}, "jsonrpc", "request", 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 3}, "not a string", "request", 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": 3}, "params", "request", 1),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, "the id", "request", None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, "the id", "request", None),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "m", "result": 1},
            "both a call",
            "request",
            1,
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "result": 1, "error": {}},
            "both result and error",
            "response",
            1,
        ),
        ({"jsonrpc": "2.0", "id": 1}, "no method", "other", None),
        ({"jsonrpc": "2.0", "result": 1}, "without an id", "response", None),
        ({"jsonrpc": "2.0", "id": [], "error": {}}, "the id", "response", None),
        (3, "not an object", "other", None),
        ("x" * 500, "not an object", "other", None),
    ],
)
def test_what_breaks_the_rules_says_how(
    message: Any, why: str, kind: str, answer_to: int | None
) -> None:
    (found,) = wire.read_value(message)
    assert isinstance(found, MalformedMessage)
    assert why in found.why
    assert (found.kind, found.answer_to) == (kind, answer_to)
    assert len(found.excerpt) <= wire.EXCERPT + 1


def test_an_error_that_is_none_is_read_as_far_as_it_goes() -> None:
    for error, code, message in (
        ("odd", wire.INTERNAL_ERROR, "odd"),
        ({"code": "x", "message": 3}, wire.INTERNAL_ERROR, "an error without a message"),
    ):
        (found,) = wire.read_value({"jsonrpc": "2.0", "id": 1, "error": error})
        assert found == RpcRefusal(id=1, fault=RpcFault(code=code, message=message))


def test_batches_are_read_where_the_version_has_them() -> None:
    two = b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]'
    assert [m.method for m in wire.read(two, batches=True) if isinstance(m, Notification)] == [
        "a",
        "b",
    ]
    (refused,) = wire.read(two)
    assert isinstance(refused, MalformedMessage)
    (empty,) = wire.read(b"[]", batches=True)
    assert isinstance(empty, MalformedMessage)


def test_what_is_no_json_is_a_parse_error() -> None:
    (found,) = wire.read(b"\xff{nonsense")
    assert isinstance(found, MalformedMessage)
    assert found.code == wire.PARSE_ERROR
    assert isinstance(wire.read_value({}, batches=True)[0], MalformedMessage)
