"""The types of the provider protocol: requests and failures are values."""

import msgspec
import pytest

from clew.providers.base import Adaptive, Failure, ModelRequest, Off, ThinkingBudget


def test_a_request_is_a_frozen_value() -> None:
    request = ModelRequest(model="m", messages=[])
    with pytest.raises(AttributeError):
        request.model = "other"


def test_the_ways_to_think_are_told_apart_by_their_wire_word() -> None:
    written = [
        msgspec.to_builtins(t)["type"] for t in (Adaptive(), ThinkingBudget(tokens=1024), Off())
    ]
    assert written == ["adaptive", "enabled", "disabled"]


def test_a_failure_compares_by_value() -> None:
    assert Failure(kind="reset", message="cut") == Failure(kind="reset", message="cut")
