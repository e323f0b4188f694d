"""Items for the screen: every block once, and calls with their results and hooks."""

from random import Random
from typing import Any

from clew.core.messages import kinds
from clew.core.normalize.for_display import CUTS, DisplayItem, for_display, split
from tests.core.normalize.build import answer, attachment, call, result, system, user
from tests.core.normalize.generator import history
from tests.requirements import requirement


def hook(event: str, use_id: Any, uuid: str = "h") -> dict[str, Any]:
    return attachment(uuid=uuid, type="hook_success", hookEvent=event, toolUseID=use_id)


def shown(*entries: Any) -> list[str]:
    return [_short(item) for item in for_display(entries)]


def _short(item: DisplayItem) -> str:
    if item.block is None:
        return f"{item.entry['type']} {item.uuid}"
    if not isinstance(item.block, dict):
        return str(item.block)
    kind = item.block.get("type")
    if kind == "text":
        return str(item.block["text"])
    return f"?{item.block['id']}" if kind == "tool_use" else f"!{item.block.get('tool_use_id')}"


@requirement("R100", "R101", "W9")
def test_a_message_of_several_blocks_is_several_items_with_ids_of_their_own() -> None:
    entries = [user("a", "b", uuid="1"), answer("m", "c", uuid="2"), system("turn_duration")]
    assert [item.id for item in for_display(entries)] == [("1", 0), ("1", 1), ("2", 0), ("s", 0)]
    assert [item.id for item in for_display(entries[1:])] == [("2", 0), ("s", 0)]


@requirement("R102", "W24")
def test_a_call_stands_with_its_hooks_and_its_result_whatever_came_first() -> None:
    late = [
        hook("PostToolUse", "1", "post"),
        user(result("1"), uuid="r"),
        hook("PreToolUse", "1", "pre"),
        answer("m", "so", call("1"), call("2")),
        user("and"),
        user(result("2")),
    ]
    assert shown(*late) == [
        "so",
        "?1",
        "attachment pre",
        "!1",
        "attachment post",
        "?2",
        "!2",
        "and",
    ]


@requirement("W24")
def test_what_belongs_to_no_call_stays_where_it_is() -> None:
    odd = [user(result("9")), hook("Stop", "1"), hook("PreToolUse", None), hook("PostToolUse", "7")]
    entries = [*odd, user("x"), {"type": "attachment", "attachment": 3, "uuid": "z"}]
    assert [item.entry for item in for_display(entries)] == entries


def test_an_id_used_twice_keeps_its_results_with_the_first() -> None:
    twice = [answer("m", call("1")), user(result("1")), answer("n", call("1")), user(result("1"))]
    assert shown(*twice) == ["?1", "!1", "!1", "?1"]


def test_progress_of_a_hook_stands_with_its_call() -> None:
    ran = {"type": "progress", "uuid": "p", "toolUseID": "1", "data": {"hookEvent": "PreToolUse"}}
    assert shown(answer("m", call("1")), user("x"), ran) == ["?1", "progress p", "x"]


def test_a_string_is_one_item_and_nothing_is_the_entry() -> None:
    said = {"type": "user", "uuid": "1", "message": {"content": "hi"}}
    empty = [
        {"type": "user", "uuid": "2", "message": {"content": ""}},
        {"type": "user"},
        {"type": 3},
    ]
    items = for_display([said, *empty])
    assert [item.block for item in items] == [{"type": "text", "text": "hi"}, None, None, None]


@requirement("R102", "W24")
def test_whatever_the_history_every_item_is_shown_once() -> None:
    for seed in range(400):
        entries = history(Random(seed))
        before = [(id(i.entry), i.index) for i in split(entries)]
        after = [(id(i.entry), i.index) for i in for_display(entries)]
        assert sorted(before) == sorted(after), seed
        assert all(i.entry in entries for i in for_display(entries))


def test_every_kind_of_entry_is_decided() -> None:
    assert CUTS.keys() == kinds.KINDS.keys()
