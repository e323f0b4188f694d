"""Repairs of a history, described for the user."""

from clew.core.normalize.repairs import Repair, describe_repairs


def test_repairs_are_counted_by_kind_and_routine_is_not_told() -> None:
    found = [
        Repair(kind="turn_missing", uuid=None),
        Repair(kind="media_removed", uuid="a"),
        Repair(kind="media_removed", uuid="b"),
    ]
    assert describe_repairs(found) == (
        "repaired for this request (the transcript is unchanged): 2 omitted images or documents"
    )
    assert describe_repairs(found[:1]) == ""
    assert describe_repairs(found[:2]).endswith(": 1 omitted image or document")
