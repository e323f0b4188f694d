"""Requests for summaries, plain-text records, summaries without a model, and receipts."""

from typing import Any

import pytest

from clew.agent.compaction import boundary as receipt
from clew.agent.compaction import retelling
from clew.core.messages import factories
from clew.core.messages.text import NO_RESPONSE_REQUESTED
from clew.core.normalize.for_api import CONTINUE
from tests.agent.compaction.build import call, fact, result, said, user

Json = dict[str, Any]
QUESTION = {"type": "text", "text": "Sum up."}


def message(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def test_the_question_says_what_is_kept_and_what_matters() -> None:
    plain = retelling.compose_instruction("", keeps=False)
    assert "word for word" not in plain
    assert "last messages, which are kept verbatim" in retelling.compose_instruction("", keeps=True)
    assert retelling.compose_instruction(" the north ", keeps=False).endswith(
        "focus on this: the north"
    )


@pytest.mark.parametrize(
    ("messages", "end", "unshared"),
    [
        ([], [{"role": "user", "content": [QUESTION]}], 1),
        (
            [message("user", "a")],
            [{"role": "user", "content": [{"type": "text", "text": "a"}, QUESTION]}],
            1,
        ),
        (
            [{"role": "user", "content": "a"}],
            [{"role": "user", "content": [{"type": "text", "text": "a"}, QUESTION]}],
            1,
        ),
        ([message("user", CONTINUE)], [{"role": "user", "content": [QUESTION]}], 1),
        (
            [message("assistant", "a")],
            [message("assistant", "a"), {"role": "user", "content": [QUESTION]}],
            1,
        ),
        (
            [message("system", "a")],
            [
                message("system", "a"),
                {"role": "assistant", "content": NO_RESPONSE_REQUESTED},
                {"role": "user", "content": [QUESTION]},
            ],
            2,
        ),
    ],
)
def test_the_question_stands_after_every_end_of_a_request(
    messages: list[Json], end: list[Json], unshared: int
) -> None:
    assert retelling.with_question(messages, "Sum up.") == (end, unshared)


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        ("<summary>" + "word " * 20 + "</summary> bye", ("word " * 20).strip()),
        ("first <summary>" + "word " * 20, ("word " * 20).strip()),
        ("<summary>short</summary>", None),
        ("no tags at all, though it is long enough for one", None),
        ("", None),
    ],
)
def test_a_summary_is_what_stands_between_its_tags(answer: str, summary: str | None) -> None:
    assert retelling.extract_summary(answer) == summary


IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "A" * 9000},
}
TALK = [
    user("p1", "paint the north side"),
    said("a1", "I look", call("t1", command="ls"), {"type": "thinking", "thinking": "hm"}),
    result("r1", "t1", "x" * 5_000),
    user("m1", "go on", is_meta=True),
    user("p2", [IMAGE, {"type": "document", "source": {}}, {"type": "text", "text": "and this"}]),
    fact("f1", "date", "Today"),
    said("a2", "the end of it"),
]


def test_a_record_is_plain_text_without_media_and_long_results() -> None:
    record, lost = retelling.record_of(TALK, 10_000)
    assert lost == [retelling.MEDIA, retelling.LONG]
    assert record.startswith("the user: paint the north side")
    assert '[you called Bash with {"command":"ls"}]' in record
    assert "characters ..." in record
    assert "clew: go on" in record
    assert "[the user attached an image]" in record
    assert "[a document was attached]" in record
    assert record.endswith("you: the end of it")
    assert "AAAA" not in record
    assert "Today" not in record


def test_a_record_that_does_not_fit_loses_its_oldest_part() -> None:
    record, lost = retelling.record_of(TALK, 30)
    assert retelling.EARLIER in lost
    assert record.startswith("(earlier messages omitted)")
    assert record.endswith("you: the end of it")
    one, lost = retelling.record_of([user("p", "word " * 10_000)], 100)
    assert len(one) < 400
    assert lost == [retelling.LONG]


def test_a_record_that_holds_everything_says_that_nothing_is_left_out() -> None:
    pictures = result("r", "t", [{"type": "text", "text": "two of them"}, IMAGE])
    talk = [user("p", "hello"), said("a", "hi", call("t", command="ls")), result("r", "t", "a.txt")]
    assert retelling.record_of(talk, 1_000)[1] == []
    assert retelling.record_of([*talk, pictures], 1_000)[1] == [retelling.MEDIA]


def test_odd_entries_are_told_as_far_as_they_say_anything() -> None:
    odd: list[Json] = [
        {"type": "user"},
        {"type": "user", "message": {"content": 7}},
        {"type": "user", "message": {"content": [7, {"type": "tool_result", "content": None}]}},
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "content": [{"type": "x"}, 7]}]},
        },
        said("a", "failed") | {"isApiErrorMessage": True},
    ]
    assert [list(retelling.told(entry)) for entry in odd] == [
        [],
        [],
        ["[result: ]"],
        ["[result: (x)]"],
        [],
    ]
    assert [retelling.prompt_text(entry) for entry in odd[:3]] == ["", "", ""]


def test_without_a_model_prompts_and_last_words_stand() -> None:
    words = retelling.without_model(TALK)
    assert "- paint the north side" in words
    assert "- and this" in words
    assert "Your last message:\nthe end of it" in words
    assert "Your last message" not in retelling.without_model([user("p", "only this")])
    calls = [user("p", "x"), said("a", call("t"))]
    assert retelling.last_said(calls) == ""
    assert retelling.list_prompts(TALK, last=1) == [TALK[4]]
    many = [user(f"p{n}", f"prompt {n}") for n in range(50)]
    assert "- (10 earlier requests omitted)" in retelling.without_model(many)


def test_an_earlier_summary_and_its_quote_are_handed_on() -> None:
    quote = retelling.quote_request("paint\n</request>\nit", "/x")
    words = "\n\n".join(["The north side is done.", quote, "This summary covers 3 entries."])
    before = factories.compact_summary(words, uuid="s", at="2026-01-01T00:00:00.000Z")
    assert retelling.find_quote([before, said("a", "on it")]) == quote
    again = retelling.without_model([before, said("a", "on it")])
    assert "From an earlier summary:\n" in again
    assert "The north side is done." in again
    assert quote not in again
    assert retelling.find_quote([user("p", "The user's last request")]) == ""
    older = quote.replace(
        "The user's last request, verbatim", "What the person asked last, in their words"
    )
    assert older != quote
    early = factories.compact_summary(older, uuid="s", at="2026-01-01T00:00:00.000Z")
    assert retelling.find_quote([early]) == older
    assert "earlier summary" not in retelling.without_model([user("p", "x")])


def test_a_quote_says_where_the_rest_is() -> None:
    assert retelling.quote_request("a", "").endswith("<request>\na\n</request>")
    assert "full text in /x" in retelling.quote_request("a", "/x")
    assert retelling.cut_middle("abc", 3) == "abc"
    assert "2 characters" in retelling.cut_middle("abcdef", 4)


def test_a_receipt_tells_what_is_covered() -> None:
    read = result("r1", "t1", raw={"file": {"filePath": "/w/a.py"}})
    edit = result("r2", "t2", raw={"filePath": "/w/b.py"})
    odd = result("r3", "t3", raw={"file": "no object"})
    covered = [user("p1"), said("a1", call("t1"), call("t2")), read, edit, odd]
    todos = [{"content": "north", "status": "completed"}, {"content": "south", "status": "pending"}]
    found = receipt.covers(covered, todos=todos, by="model", left_out=["media"])
    assert found == {
        "entries": 5,
        "firstUuid": "p1",
        "lastUuid": "r3",
        "promptUuids": ["p1"],
        "filesRead": ["/w/a.py"],
        "filesChanged": ["/w/b.py"],
        "openTodos": ["south"],
        "summaryBy": "model",
        "leftOut": ["media"],
    }
    words = receipt.in_words(found, kept_count=3, transcript="/t.jsonl")
    assert "3 entries are kept" in words
    assert "/w/b.py" in words
    nothing = receipt.covers([], todos=[], by="record")
    assert nothing["firstUuid"] is None
    bare = receipt.in_words(nothing, kept_count=0, transcript="/t.jsonl")
    assert "covers 0 entries" in bare
    assert "/t.jsonl" in bare
    many = found | {"filesChanged": [f"/w/{n}" for n in range(20)]}
    assert "and 8 more" in receipt.in_words(many, kept_count=0, transcript="")
    boundary = {"compactMetadata": {"preTokens": 9_000, "postTokens": 10, "covers": many}}
    shown = receipt.describe_boundary(boundary)
    assert "9,000 tokens before" in shown
    assert "not covered by the summary: media" in shown
    unwritten = found | {"leftOut": [f"{receipt.NO_MODEL}overloaded"]}
    boundary = {"compactMetadata": {"preTokens": 9, "covers": unwritten}}
    assert receipt.describe_boundary(boundary).endswith("\nno model wrote the summary: overloaded")
    assert "and 8 more" in shown
    foreign = receipt.describe_boundary({"compactMetadata": {"preTokens": 9}})
    assert foreign == "9 tokens before, about 0 now; 0 entries summarized, 0 kept verbatim"


def test_what_nobody_answered_yet_has_nothing_to_tell_of() -> None:
    asked = {"type": "user", "uuid": "u"}
    assert not retelling.is_answered([asked])
    assert retelling.is_answered([asked, {"type": "assistant", "uuid": "a"}])
