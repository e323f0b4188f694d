"""What a history needed, in words that a person can read."""

from clew.core.normalize.repairs import Repair, describe_repairs


def test_repairs_are_counted_by_kind_and_routine_is_not_told() -> None:
    found = [
        Repair(kind="turn_missing", uuid=None),
        Repair(kind="media_removed", uuid="a"),
        Repair(kind="media_removed", uuid="b"),
    ]
    assert describe_repairs(found) == (
        "mended for this request, the log stays as it is: 2 images or documents left out"
    )
    assert describe_repairs(found[:1]) == ""
    assert describe_repairs(found[:2]).endswith(": 1 image or document left out")
