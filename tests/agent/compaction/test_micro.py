"""Old tool results: which can be removed, what replaces them, and what requests contain."""

from clew.agent.compaction import micro
from clew.core.ledger.breakdown import break_down
from clew.core.normalize.for_api import Outgoing, for_api
from clew.core.normalize.select import TAKEN_OUT, find_references
from clew.core.normalize.target import Target
from tests.agent.compaction.build import AT, call, result, said, user
from tests.requirements import requirement

LONG = "a line of output\n" * 800


def rounds(count: int) -> list[dict[str, object]]:
    entries = [user("p")]
    for n in range(count):
        entries += [
            said(f"a{n}", call(f"t{n}"), answer=f"m{n}"),
            result(f"r{n}", f"t{n}", f"{n} {LONG}"),
        ]
    return entries


def test_the_oldest_long_results_can_go_and_the_last_stay() -> None:
    found = micro.removable(rounds(5), recent=2, least_tokens=100)
    assert [one.tool_use_id for one in found] == ["t0", "t1", "t2"]
    assert [one.tool for one in found] == ["Bash"] * 3
    assert micro.removable(rounds(5), recent=2, least_tokens=10**6) == []


def test_what_is_no_text_or_failed_or_odd_stays() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    entries = [
        result("r1", "t1", [{"type": "text", "text": LONG}, image]),
        result("r2", "t2", LONG, is_error=True),
        {"type": "user", "message": {"content": ["odd", {"type": "tool_result", "content": LONG}]}},
        result("r3", "t3", [{"type": "text", "text": LONG}, {"type": "text", "text": "b"}]),
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t4", "content": 7}]},
        },
        {
            "type": "user",
            "message": {
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t5",
                        "content": [{"type": "text", "text": 7}],
                    }
                ]
            },
        },
    ]
    (found,) = micro.removable(entries, recent=0, least_tokens=100)
    assert found.tool_use_id == "t3"
    assert found.text.endswith("\n\nb")


def test_large_new_results_go_only_where_old_ones_are_not_enough() -> None:
    entries = rounds(8)
    old = micro.select_results(entries, 1)
    assert [one.tool_use_id for one in old] == ["t0", "t1"]
    more = micro.select_results(entries, 10_000)
    assert [one.tool_use_id for one in more] == [f"t{n}" for n in range(8)]
    assert [one.is_recent for one in more] == [False, False] + [True] * 6
    assert [one.tool_use_id for one in micro.select_results(entries, 10**9)] == ["t0", "t1"]


@requirement("R193")
def test_a_request_has_the_way_to_a_result_in_its_place() -> None:
    entries = rounds(3)
    (old,) = micro.removable(entries, recent=2, least_tokens=100)
    words = micro.describe_reference(old, "/kept/x.txt")
    note = micro.make_entry(
        {old.tool_use_id: words}, uuid="n", at=AT, trigger="auto", pre_tokens=9, saved=3
    )
    assert "/kept/x.txt" in words
    assert find_references([note]) == {"t0": words}
    growing = Outgoing(Target())
    growing.extend(entries)
    before = growing.request().messages
    growing.extend([note])
    after = growing.request().messages
    assert after == for_api([*entries, note], Target()).messages
    assert before != after
    assert after[2]["content"][0]["content"] == words
    assert [m["role"] for m in after] == [m["role"] for m in before]
    assert micro.removable([*entries, note], recent=2, least_tokens=100) == []
    recent = micro.select_results(rounds(1), 1)[0]
    assert "It ended:" in micro.describe_reference(recent, "/x")


def test_an_entry_of_another_writer_says_at_least_that_a_result_is_gone() -> None:
    note = {
        "type": "system",
        "subtype": "microcompact_boundary",
        "microcompactMetadata": {"compactedToolIds": ["t0", 7], "references": {"t0": 7}},
    }
    assert find_references([note]) == {"t0": TAKEN_OUT}
    odd = [{"type": "text", "text": "hello"}, 7, {"type": "tool_result", "tool_use_id": 7}]
    entries = [*rounds(1), note, {"type": "user", "uuid": "x", "message": {"content": odd}}]
    assert for_api(entries, Target()).violations == []


def test_what_was_taken_out_is_not_counted_as_filling_the_window() -> None:
    entries = rounds(1)
    note = micro.make_entry({"t0": "in /x"}, uuid="n", at=AT, trigger="auto", pre_tokens=9, saved=3)
    before = next(p.tokens for p in break_down(entries) if p.kind == "tool results")
    after = next(p.tokens for p in break_down([*entries, note]) if p.kind == "tool results")
    assert before > 1_000
    assert after < 10
