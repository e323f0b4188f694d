"""Which facts of a conversation are checked for, and which of them a summary drops."""

from typing import Any

from clew.agent.compaction.boundary import covers, make_boundary, make_summary_entry, with_tail
from clew.agent.compaction.named_facts import find_dropped, list_facts
from tests.agent.compaction.build import AT, fact, result, said, user

Json = dict[str, Any]


def compacted(summary: str, *more: Json) -> list[Json]:
    answered = result("r", "c") | {
        "toolUseResult": {"answers": {"Which color?": "Blue", "Which sides?": ["north", "south"]}}
    }
    changed = result("r2", "d") | {"toolUseResult": {"filePath": "/w/src/paint.py"}}
    entries = [user("u"), said("a", "ok"), answered, changed]
    selection = with_tail(entries, 0)
    receipt = covers(selection.covered, todos=[{"content": "Coat two"}], by="model")
    boundary = make_boundary(
        selection,
        uuid="b",
        summary_uuid="s",
        at=AT,
        trigger="manual",
        pre_tokens=9,
        post_tokens=3,
        dropped_before=0,
        duration_ms=1,
        covers=receipt,
    )
    return [boundary, *more, make_summary_entry([summary], uuid="s", at=AT)]


def test_facts_are_files_tasks_and_answers() -> None:
    receipt = compacted("x")[0]["compactMetadata"]["covers"]
    assert list(list_facts(receipt)) == [
        ("changed file", "/w/src/paint.py", "paint.py"),
        ("open task", "Coat two", "Coat two"),
        ("decision", "Which color? Blue", "Blue"),
        ("decision", "Which sides? north, south", "north, south"),
    ]
    assert list(list_facts({"filesRead": [5], "decisions": ["odd"], "openTodos": 3})) == [
        ("decision", "None ", "")
    ]


def test_what_neither_the_summary_nor_the_facts_beside_it_say_is_dropped() -> None:
    everything = "paint.py, in blue, north, south: coat two is open"
    assert find_dropped(compacted(everything)) == (4, [])
    beside = fact("f", "todo", "- [pending] Coat two")
    found = find_dropped(compacted("It is blue.", beside))
    assert found == (
        4,
        [("changed file", "/w/src/paint.py"), ("decision", "Which sides? north, south")],
    )


def test_without_a_compaction_there_is_nothing_to_check() -> None:
    assert find_dropped([]) is None
    assert find_dropped([user("u")]) is None


def test_blocks_of_a_message_count_as_said() -> None:
    entries = compacted("nothing")
    entries[-1]["message"]["content"] = [{"type": "text", "text": "paint.py"}, "odd"]
    found = find_dropped(entries)
    assert found is not None
    assert ("changed file", "/w/src/paint.py") not in found[1]
