"""What a history needed, in words that a person can read."""

from clew.core.normalize.repairs import Repair, in_words


def test_repairs_are_counted_by_kind_and_routine_is_not_told() -> None:
    found = [
        Repair(kind="turn_missing", uuid=None),
        Repair(kind="media_removed", uuid="a"),
        Repair(kind="media_removed", uuid="b"),
    ]
    assert in_words(found) == (
        "mended for this request, the log stays as it is: 2 images or documents left out"
    )
    assert in_words(found[:1]) == ""
    assert in_words(found[:2]).endswith(": 1 image or document left out")
