"""Fork, tree, graft, rename and tag, through the real command."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages

from clew.record.transcript.load import load
from tests.commands.sessions.place import Place
from tests.record.transcript.build import (
    SESSION,
    boundary,
    call,
    last_prompt,
    names,
    result,
    said,
    summary,
    talk,
    uid,
    user,
)
from tests.record.transcript.session import OTHER
from tests.record.transcript.test_load_table import TWO_CALLS
from tests.requirements import requirement

BRANCHED = [*talk(3), user("v2", "a1", "another way"), said("b2", "v2"), last_prompt("b2")]


def test_a_fork_begins_as_the_session_does_up_to_any_message(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.write(BRANCHED)
    before = path.read_bytes()
    for end, wanted in (
        (None, "u1 a1 v2 b2"),
        ("a1", "u1 a1"),
        ("a2", "u1 a1 u2 a2"),  # on a branch that was left
        ("u3", "u1 a1 u2 a2 u3"),
    ):
        made = place.json("fork", SESSION, *([uid(end)] if end else []))
        copy = Path(made["path"])
        assert names(load(copy).messages) == wanted
        place.clew("check", str(copy))
        lines = [json.loads(line) for line in copy.read_bytes().splitlines()]
        assert lines[0]["forkedFrom"]["sessionId"] == SESSION
        assert {line["sessionId"] for line in lines} == {made["sessionId"]}
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.home))
        theirs = get_session_messages(made["sessionId"])
        assert names([{"uuid": m.uuid} for m in theirs]) == wanted
    assert path.read_bytes() == before


def test_a_fork_of_parallel_calls_and_of_a_compacted_session_holds_together(place: Place) -> None:
    place.write([*TWO_CALLS, result("r2", "t2", "y"), result("r1", "t1", "x"), said("a2", "r1")])
    made = place.json("fork", SESSION, "--title", "Copy")
    place.clew("check", "Copy")
    assert names(load(Path(made["path"])).messages) == "u1 t1 t2 r2 r1 a2"
    place.write([*talk(2), boundary("b"), summary("s", "b"), *talk(1, first="s", start=3)], OTHER)
    for end, wanted in (("a3", "b s u3 a3"), ("a1", "u1 a1")):
        made = place.json("fork", OTHER, uid(end))
        assert names(load(Path(made["path"])).messages) == wanted
        place.clew("check", made["sessionId"])


def test_a_tree_shows_every_branch_and_every_fork(place: Place) -> None:
    place.write(BRANCHED)
    made = place.json("fork", SESSION, uid("a1"))
    tree = place.json("tree", SESSION)
    shown = [(p["text"], p["depth"], p["live"], p["messages"]) for p in tree["prompts"]]
    assert shown == [
        ("u1", 0, True, 1), ("u2", 1, False, 1), ("u3", 1, False, 1), ("another way", 0, True, 1),
    ]  # fmt: skip
    (fork,) = tree["forks"]
    assert (fork["sessionId"], fork["messageUuid"]) == (made["sessionId"], uid("a1"))
    assert fork["title"] == "u1 (fork)"
    assert place.json("tree", made["sessionId"])["forkedFrom"]["sessionId"] == SESSION
    lines = place.clew("tree", SESSION).splitlines()
    assert lines[1].startswith("│ ○ ")
    assert "forked from" in place.clew("tree", made["sessionId"])


def test_a_tree_goes_on_after_a_summary(place: Place) -> None:
    """A turn that was compacted halfway is one prompt, and its end is after the summary."""
    lines = [
        *talk(2),
        boundary("b"),
        summary("s", "b"),
        said("c2", "s"),
        *talk(1, first="c2", start=3),
        user("w2", "a1", "before the summary"),
        said("x2", "w2"),
        last_prompt("a3"),
    ]
    place.write(lines)
    tree = place.json("tree", SESSION)
    assert [
        (p["text"], p["depth"], p["live"], p["summarized"], p["messages"]) for p in tree["prompts"]
    ] == [
        ("u1", 0, True, True, 1),
        ("u2", 1, True, True, 2),
        ("u3", 1, True, False, 1),
        ("before the summary", 0, False, False, 1),
    ]
    assert "(2 messages, summarized)" in place.clew("tree", SESSION)
    copy = Path(place.json("fork", SESSION, uid("c2"))["path"])
    assert names(load(copy).messages) == "b s c2"


def test_a_tree_of_a_file_whose_lines_are_out_of_order_has_every_prompt(place: Place) -> None:
    lines = [*talk(2), boundary("b"), summary("s", "b"), *talk(1, first="s", start=3)]
    place.write(lines[2:] + lines[:2])
    texts = [p["text"] for p in place.json("tree", SESSION)["prompts"]]
    assert sorted(texts) == ["u1", "u2", "u3"]


def test_two_branches_are_compared_wherever_their_messages_were_copied_to(place: Place) -> None:
    place.write(BRANCHED)
    made = place.json("fork", SESSION, uid("a2"))["sessionId"]
    for other, left in (
        (made, "u2 a2"),
        (f"{SESSION}@{uid('a2')}", "u2 a2"),
        (f"{SESSION}@{uid('u3')}", "u2 a2 u3 a3"),  # a prompt stands for its turn
    ):
        told = place.json("diff", SESSION, other, code=1)
        assert names([{"uuid": uuid} for uuid in told["shared"]]) == "u1 a1"
        assert (names(told["onlyA"]), names(told["onlyB"])) == ("v2 b2", left)
    lines = place.clew("diff", SESSION, made, code=1).splitlines()
    assert lines[0] == f"2 messages in both, up to {uid('a1')[:8]}"
    assert lines[1:3] == [f"- 2 messages only in {SESSION}", "- user: another way"]
    assert lines[4] == f"+ 2 messages only in {made}"
    assert lines[5].startswith("+ user: ")
    assert place.clew("diff", SESSION, SESSION).startswith("4 messages in both")
    assert "not found" in place.clew("diff", SESSION, f"{SESSION}@ffffffff", code=2)
    place.write(_renamed(talk(1)), OTHER)
    first = uid("v2")
    place.json("graft", OTHER, SESSION, first)
    told = place.json("diff", SESSION, OTHER, code=1)
    assert names([{"uuid": uuid} for uuid in told["shared"]]) == "v2 b2"
    assert place.clew("diff", SESSION, OTHER, code=1).startswith("2 messages in both")
    place.write(_renamed(talk(1)), OTHER)
    assert place.clew("diff", SESSION, OTHER, code=1).startswith("0 messages in both\n")


def test_a_graft_brings_a_part_to_the_end_of_another_session(place: Place) -> None:
    target = place.write(talk(1))
    lines = [
        *talk(1),
        user("p", "a1", "look"),
        said("t", "p", call("x")),
        result("r", "t", "x"),
        said("e", "r"),
        *talk(1, first="e", start=9),
    ]
    source = place.write(_renamed(lines), OTHER)
    before = source.read_bytes()
    end = load(source).messages[5]["uuid"]
    first = load(source).messages[2]["uuid"]
    assert place.json("graft", SESSION, OTHER, first, end)["messages"] == 4
    loaded = load(target)
    assert [m["type"] for m in loaded.messages] == ["user", "assistant"] * 3
    assert loaded.messages[2]["graftedFrom"] == {"sessionId": OTHER, "messageUuid": first}
    assert loaded.messages[4]["sourceToolAssistantUUID"] == loaded.messages[3]["uuid"]
    place.clew("check", SESSION)
    assert source.read_bytes() == before
    assert "already contains" in place.clew("graft", SESSION, OTHER, first, end, code=2)


def _renamed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same session under other uuids."""
    keys = ("uuid", "parentUuid", "sourceToolAssistantUUID")
    return [m | {key: "1" * 8 + m[key][8:] for key in keys if m.get(key)} for m in lines]


def test_a_graft_that_would_be_no_conversation_is_refused(place: Place) -> None:
    place.write(talk(1))
    place.write(
        [*talk(2), boundary("b", "a2"), summary("s", "b"), *talk(1, first="s", start=3)], OTHER
    )
    assert "begin with a prompt" in place.clew("graft", SESSION, OTHER, uid("a3"), code=2)
    assert "is not an ancestor" in place.clew("graft", SESSION, OTHER, uid("u1"), code=2)
    assert "already contains" in place.clew("graft", SESSION, OTHER, uid("u1"), uid("a1"), code=2)
    assert "'nothing' not found" in place.clew("graft", SESSION, OTHER, "nothing", code=2)


@requirement("R175")
def test_a_title_and_a_tag_are_given_and_taken_away(place: Place) -> None:
    path = place.write([*talk(1), b'{"torn'])
    place.clew("rename", SESSION, "Mine \u2028 now")
    place.clew("tag", "Mine \u2028 now", "work")
    (listed,) = place.json("list", "--tag", "work")
    assert (listed["title"], listed["tag"]) == ("Mine \u2028 now", "work")
    assert names(load(path).messages) == "u1 a1"
    place.clew("rename", SESSION, "")
    place.clew("tag", SESSION, "")
    (listed,) = place.json("list")
    assert (listed["title"], listed["customTitle"], listed["tag"]) == ("u1", None, None)
