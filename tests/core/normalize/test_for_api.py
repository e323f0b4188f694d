"""The next request after each thing that can happen to a conversation."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG
from clew.core.messages import factories, kinds, text
from clew.core.normalize.for_api import BEGINNING, CONTINUE, Outgoing, for_api
from clew.core.normalize.pairing import MEDIA_FOLLOWS
from clew.core.normalize.repairs import find_media_kinds, find_refused_media
from clew.core.normalize.select import ROLES
from clew.core.normalize.target import Target
from tests.core.normalize.build import (
    answer,
    attachment,
    call,
    result,
    system,
    thought,
    told,
    user,
    words,
)
from tests.core.normalize.generator import deep, png
from tests.requirements import requirement

TARGET = Target()
WHEN = "2026-01-01T00:00:00.000Z"
BOUNDARY = system("compact_boundary", "compacted")


def request(*entries: Any, target: Target = TARGET, **more: Any) -> list[str]:
    made = for_api(entries, target, **more)
    assert made.violations == []
    return told(made.messages)


def repairs(*entries: Any, target: Target = TARGET, **more: Any) -> list[tuple[str, str | None]]:
    return [(r.kind, r.uuid) for r in for_api(entries, target, **more).repairs]


def pic(data: str = png(4, 4), kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


CASES: list[tuple[str, list[Any], list[str]]] = [
    ("talk", [user("hi"), answer("m", "yes"), user("go")], ["u: hi", "a: yes", "u: go"]),
    ("a string", [{"type": "user", "message": {"content": "hi"}}], ["u: hi"]),
    ("several of the user", [user("a"), user("b"), user("c")], ["u: a b c"]),
    ("blocks of one answer", [user("hi"), answer("m", "a"), answer("m", call("1")), user(result("1"))], ["u: hi", "a: a ?1", "u: !1"]),
    ("parallel results in the order they came", [user("hi"), answer("m", call("1")), answer("m", call("2")), user(result("2")), user(result("1"))], ["u: hi", "a: ?1 ?2", "u: !1 !2"]),
    ("parallel results as a tree", [user("hi"), answer("m", call("1")), user(result("1")), answer("m", call("2")), user(result("2"))], ["u: hi", "a: ?1 ?2", "u: !1 !2"]),
    ("parallel calls without a message id", [user("hi"), answer(None, call("1")), answer(None, call("2")), user(result("1")), user(result("2"))], ["u: hi", "a: ?1 ?2", "u: !1 !2"]),
    ("no ids at all", [user("hi"), answer(None, call("1")), user(result("1")), answer(None, call("2")), user(result("2"))], ["u: hi", "a: ?1", "u: !1", "a: ?2", "u: !2"]),
    ("words before a result", [user("hi"), answer("m", call("1")), user("wait"), user(result("1"))], ["u: hi", "a: ?1", "u: !1 wait"]),
    ("a call without a result in the middle", [user("hi"), answer("m", call("1")), user("so?")], ["u: hi", "a: ?1", "u: !1 so?"]),
    ("one of two results missing", [user("hi"), answer("m", call("1"), call("2")), user(result("2")), answer("n", "x"), user("y")], ["u: hi", "a: ?1 ?2", "u: !1 !2", "a: x", "u: y"]),
    ("a call at the end", [user("hi"), answer("m", call("1"))], ["u: hi", "a: ?1", "u: !1"]),
    ("a result without a call", [user("hi"), answer("m", "x"), user(result("9", "found"))], ["u: hi", "a: x", "u: (tool result: found)"]),
    ("a result as the first", [user(result("9", [words("a"), words("b")]))], ["u: (tool result: a\nb)"]),
    ("a result twice", [user("hi"), answer("m", call("1")), user(result("1"), result("1"))], ["u: hi", "a: ?1", "u: !1"]),
    ("two results that differ", [user("hi"), answer("m", call("1")), user(result("1"), result("1", "other"))], ["u: hi", "a: ?1", "u: !1 (tool result: other)"]),
    ("a late result", [user("hi"), answer("m", call("1")), user("no"), answer("n", "ok"), user(result("1"))], ["u: hi", "a: ?1", "u: !1 no", "a: ok", "u: (tool result: done)"]),
    ("an id used again", [user("hi"), answer("m", call("1")), user(result("1")), answer("n", call("1")), user(result("1"))], ["u: hi", "a: ?1", "u: !1", "a: ?1-2", "u: !1-2"]),
    ("an id twice in one answer", [user("hi"), answer("m", call("1"), call("1")), user(result("1", "a"), result("1", "b"))], ["u: hi", "a: ?1 ?1-2", "u: !1 !1-2"]),
    ("an id of another provider", [user("hi"), answer("m", call("call.1:2")), user(result("call.1:2"))], ["u: hi", "a: ?call_1_2", "u: !call_1_2"]),
    ("no id", [user("hi"), answer("m", {"type": "tool_use", "name": "Bash", "input": {}})], ["u: hi", "a: ?call", "u: !call"]),
    ("input that is not an object", [user("hi"), answer("m", call("1") | {"input": "{\"a"})], ["u: hi", "a: (called tool Bash with \"{\\\"a\")", f"u: {CONTINUE}"]),
    ("words behind a call", [user("hi"), answer("m", call("1"), "x"), user(result("1"))], ["u: hi", "a: x ?1", "u: !1"]),
    ("two answers in a row", [user("hi"), answer("m", "a"), answer("n", "b")], ["u: hi", "a: a", f"u: {CONTINUE}", "a: b", f"u: {CONTINUE}"]),
    ("an answer first", [answer("m", "a"), user("b")], [f"u: {BEGINNING}", "a: a", "u: b"]),
    ("nothing", [], [f"u: {BEGINNING}"]),
    ("an API failure", [user("hi"), answer("m", "API Error", isApiErrorMessage=True), user("again")], ["u: hi again"]),
    ("virtual", [user("hi"), user("x", isVirtual=True), answer("m", "y", isVirtual=True)], ["u: hi"]),
    ("meta", [user("hi"), user("x", isMeta=True)], ["u: hi x"]),
    ("progress and unknown kinds", [user("hi"), {"type": "progress", "uuid": "p"}, {"type": "odd", "uuid": "o"}, {"type": 4}], ["u: hi"]),
    ("empty answers", [user("hi"), answer("m"), answer("n", " "), user("x")], ["u: hi x"]),
    ("thinking alone", [user("hi"), answer("m", thought()), user("x")], ["u: hi x"]),
    ("thinking alone, at the end", [user("hi"), answer("m", thought())], ["u: hi"]),
    ("thinking and words of one answer", [user("hi"), answer("m", thought()), answer("m", "x"), user("y")], ["u: hi", "a: <thinking> x", "u: y"]),
    ("thinking alone before another answer", [user("hi"), answer("m", thought()), answer("n", "x"), user("y")], ["u: hi", "a: x", "u: y"]),
    ("thinking behind words", [user("hi"), answer("m", "x"), answer("m", thought()), user("y")], ["u: hi", "a: x", "u: y"]),
    ("one broken thought takes the others along", [user("hi"), answer("m", thought(), thought("", "s"), "x"), user("y")], ["u: hi", "a: x", "u: y"]),
    ("thinking of another family", [user("hi"), answer("m", thought(), "x", model="gpt-5"), user("y")], ["u: hi", "a: x", "u: y"]),
    ("thinking in the user's name", [user(thought(), "x")], ["u: x"]),
    ("a local command", [system("local_command", "<command-name>/cost</command-name>"), user("x")], ["u: <command-name>/cost</command-name> x"]),
    ("a local command for the screen", [system("local_command", "out", isDisplayOnly=True), system("informational", "x"), user("x")], ["u: x"]),
    ("frozen context comes before the words", [user("x"), attachment("A", "B")], ["u: A B x"]),
    ("context between a call and its result", [user("x"), answer("m", call("1")), attachment("A"), user(result("1"))], ["u: x", "a: ?1", "u: !1 A"]),
    ("context between the blocks of one answer", [user("x"), answer("m", "a"), attachment("A"), answer("m", call("1")), user(result("1"))], ["u: x", "a: a ?1", "u: !1 A"]),
    ("frozen blocks", [user("x"), answer("m", call("1")), attachment([result("1"), words("A")])], ["u: x", "a: ?1", "u: !1 A"]),
    ("an attachment nobody froze nor knows", [user("x"), attachment(type="odd"), {"type": "attachment"}, attachment(type=4)], ["u: x"]),
    ("a paused answer", [user("x"), answer("m", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, stop="pause_turn")], ["u: x", "a: <server_tool_use>"]),
    ("a paused answer that went on", [user("x"), answer("m", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), answer("n", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, "so"), user("y")], ["u: x", "a: <server_tool_use> <web_search_tool_result> so", "u: y"]),
    ("a paused answer that nobody took up", [user("x"), answer("m", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), user("stop")], ["u: x", 'a: {"type":"server_tool_use","id":"s","name":"web_search","input":{}}', "u: stop"]),
    ("a server tool's result without its call", [user("x"), answer("m", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, "so"), user("y")], ["u: x", 'a: {"type":"web_search_tool_result","tool_use_id":"s","content":[]} so', "u: y"]),
    ("blocks of other platforms", [user({"type": "guard_content", "text": {"text": "careful"}}, {"type": "cache_point"}, {"type": "video"})], ["u: careful (block of type video)"]),
    ("a call in the user's name", [user(call("1", command="ls"))], ['u: (called tool Bash with {"command":"ls"})']),
    ("a reasoning block", [user("x"), answer("m", {"type": "reasoning", "reasoning_text": {"text": "so"}}), user("y")], ["u: x", "a: so", "u: y"]),
    ("lone surrogates", [user("a\ud800b")], ["u: a\ufffdb"]),
    ("a boundary without its summary", [user("old"), BOUNDARY, user("new")], ["u: old new"]),
    ("a boundary at the end", [user("old"), BOUNDARY], ["u: old"]),
    ("a compaction", [user("old"), answer("m", "x"), BOUNDARY, user("story", isCompactSummary=True), user("new")], ["u: story new"]),
    ("a summary without a boundary", [user("old"), user("story", isCompactSummary=True), user("new")], ["u: old story new"]),
    ("something said between boundary and summary", [user("old"), BOUNDARY, user("x"), user("story", isCompactSummary=True)], ["u: old x story"]),
    ("two compactions", [user("old"), BOUNDARY, user("one", isCompactSummary=True), user("x"), BOUNDARY, user("two", isCompactSummary=True), user("new")], ["u: two new"]),
]  # fmt: skip


@requirement("R037", "R040", "R044", "R093", "R094", "R095", "R096", "V3", "V5", "V6")
@pytest.mark.parametrize(("entries", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_request_says(entries: list[Any], said: list[str]) -> None:
    assert request(*entries) == said


@requirement("W10", "W11")
def test_each_repair_is_said_with_the_entry_it_concerns() -> None:
    assert repairs(user("hi"), answer("m", call("1"), uuid="b")) == [("result_missing", "b")]
    odd = [user("hi"), answer("m", call("1") | {"input": 4}, uuid="b"), user(result("1"), uuid="c")]
    assert repairs(*odd) == [("input_not_object", "b"), ("result_orphaned", "c")]
    assert repairs(user("a\ud800")) == [("not_writable", None)]
    assert repairs(user("hi"), answer("m", "x"), user("y")) == []


def test_a_missing_result_says_so_in_the_words_that_exporters_know() -> None:
    made = for_api([user("hi"), answer("m", call("1"))], TARGET).messages[-1]["content"]
    assert made == [result("1", text.RESULT_MISSING, is_error=True)]


@requirement("R037")
def test_nothing_of_the_log_reaches_the_request_but_role_and_content() -> None:
    made = factories.make_assistant(
        {"id": "m", "model": "claude-x", "role": "assistant", "content": [words("x")], "usage": {}},
        uuids=["1"],
        at=WHEN,
        request_id="r",
    )
    asked = factories.make_user(
        "hi", uuid="0", at=WHEN, permission_mode="plan", origin={"kind": "x"}
    )
    said = factories.make_user("go", uuid="2", at=WHEN, is_meta=True)
    assert for_api([asked, *made, said], TARGET).messages == [
        {"role": "user", "content": [words("hi")]},
        {"role": "assistant", "content": [words("x")]},
        {"role": "user", "content": [words("go")]},
    ]


def test_what_is_in_order_is_passed_on_and_never_changed() -> None:
    entries = [user("hi"), answer("m", call("1")), user(result("1"))]
    made = for_api(entries, TARGET).messages
    assert made[1]["content"][0] is entries[1]["message"]["content"][0]
    before = repr(entries)
    for_api([*entries, user("x", result("1"))], TARGET)
    assert repr(entries) == before


def test_a_notice_is_a_system_message_where_the_model_takes_one_and_a_reminder_elsewhere() -> None:
    entries = [user("hi"), attachment("be brief", role="system"), answer("m", "x"), user("y")]
    able = Target(system_messages=True)
    assert request(*entries, target=able) == ["u: hi", "s: be brief", "a: x", "u: y"]
    reminded = "<system-reminder>\nbe brief\n</system-reminder>"
    assert request(*entries) == [f"u: hi {reminded}", "a: x", "u: y"]
    alone = [user("hi"), answer("m", "x"), attachment("be brief", role="system")]
    assert request(*alone, target=able)[-1] == f"u: {reminded}"
    wrapped = [user("hi"), attachment("<system-reminder>z</system-reminder>", role="system")]
    assert request(*wrapped) == ["u: hi <system-reminder>z</system-reminder>"]


def test_notices_at_the_beginning_are_part_of_the_user_message_that_follows() -> None:
    able = Target(system_messages=True)
    begun = [attachment("be brief", role="system"), user("a summary"), user("y")]
    reminded = "<system-reminder>\nbe brief\n</system-reminder>"
    assert request(*begun, target=able) == [f"u: {reminded} a summary y"]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        # Nothing was sent yet: a prompt in several entries, as other programs write it.
        ((), ["u: hi more", "s: be brief"]),
        # The service may have seen the message, which stays as it was.
        (
            (user("[Request interrupted by user]"),),
            [
                "u: hi", "s: be brief", "a: No response requested.",
                "u: [Request interrupted by user] more",
            ],
        ),
        (
            ({"type": "system", "subtype": "api_error", "uuid": "e"},),
            ["u: hi", "s: be brief", "a: No response requested.", "u: more"],
        ),
    ],
)  # fmt: skip
def test_text_behind_a_system_message_joins_the_prompt_unless_that_was_sent(
    between: tuple[dict[str, Any], ...], expected: list[str]
) -> None:
    begun = [user("hi"), attachment("be brief", role="system"), *between]
    assert request(*begun, user("more"), target=Target(system_messages=True)) == expected


@requirement("R096")
def test_old_attachments_without_frozen_words_are_told_again() -> None:
    def one(**payload: Any) -> str:
        return request(attachment(**payload), user("x"))[0].replace("\n", "|")

    tag = "u: <system-reminder>|{}|</system-reminder> x"
    assert one(type="queued_command", prompt=[words("and b")]) == "u: and b x"
    file = {"displayPath": "a.py", "content": {"file": {"content": "1"}}}
    assert one(type="file", **file) == tag.format("Contents of a.py:|1")
    assert one(type="file", filename="a.py", content=3) == "u: x"
    changed = tag.format("a.py was changed outside this session:|2")
    assert one(type="edited_text_file", filename="a.py", snippet="2") == changed
    assert one(type="hook_additional_context", content=["p", "q"]) == tag.format("p|q")
    assert one(type="hook_success", hookEvent="SessionStart", content="s") == tag.format("s")
    assert one(type="hook_success", hookEvent="Stop", content="s") == "u: x"
    assert one(type="date", date="2026-01-01") == tag.format("Today is 2026-01-01.")
    assert one(type="date") == "u: x"
    rules = [{"path": "A.md", "content": "be kind"}]
    assert one(type="instructions", files=rules) == tag.format("Contents of A.md:||be kind")
    assert one(type="nested_memory", content=rules[0]) == tag.format("Contents of A.md:||be kind")


@requirement("R097", "R260")
@pytest.mark.parametrize(
    ("failure", "left"),
    [
        ({"said": "API Error: image exceeds 5 MB maximum"}, "document"),
        ({"said": "API Error: The PDF is too large"}, "image"),
        ({"said": "x", "apiErrorStatus": 413}, ""),
        ({"said": "x", "apiErrorType": "request_too_large"}, ""),
        ({"said": "x", "errorDetails": "Could not process image"}, "document"),
        ({"said": "API Error: overloaded"}, "image document"),
    ],
)
def test_what_the_service_refused_is_not_sent_again(failure: dict[str, Any], left: str) -> None:
    pdf = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    said = failure.pop("said")
    refused = answer("e", said, uuid="e", isApiErrorMessage=True, **failure)
    entries = [user("look", pic(), pdf), refused, user("well?")]
    made = for_api(entries, TARGET)
    assert made.violations == []
    kept = [b["type"] for b in made.messages[0]["content"] if b["type"] != "text"]
    assert kept == sorted(left.split(), reverse=True)
    inside = [user("x"), answer("m", call("1")), user(result("1", [pic(), pdf])), refused]
    held = for_api(inside, TARGET).messages[-1]["content"][0]["content"]
    assert [b["type"] for b in held if b["type"] != "text"] == sorted(left.split(), reverse=True)


def test_a_refusal_that_stands_takes_the_older_images_too() -> None:
    refused = answer("e", "image exceeds the maximum", isApiErrorMessage=True)
    entries = [user("a", pic()), answer("m", "x"), user("b", pic()), refused, refused]
    assert "image" not in str(
        [b["type"] for m in for_api(entries, TARGET).messages for b in m["content"]]
    )
    elsewhere = [user("a", pic()), answer("m", "x"), user("b"), refused, user("c")]
    assert "image" not in str(
        [b["type"] for m in for_api(elsewhere, TARGET).messages for b in m["content"]]
    )


@pytest.mark.parametrize(
    ("field", "left"),
    [
        (["image"], {"document"}),
        (["document", 1, "text"], {"image"}),
        (None, {"image", "document"}),
    ],
)
def test_a_failed_request_says_which_media_later_ones_omit(field: Any, left: set[str]) -> None:
    pdf = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    refused = {"type": "system", "subtype": "api_error", "uuid": "e", "refusedMedia": field}
    seen = [user("x"), answer("m", call("1")), user(result("1", [pic(), pdf])), refused]
    made = for_api(seen, TARGET)
    assert made.violations == []
    assert find_media_kinds(made.messages) == left


def test_a_refusal_without_words_is_of_nothing() -> None:
    assert find_refused_media({"message": {"content": "image too large"}}) == {"image"}
    assert find_refused_media({}) == frozenset()


@requirement("V8", "R265")
def test_images_the_service_would_refuse_become_words() -> None:
    made = request(user(pic(png(9000, 2)), pic("AAAA"), pic(kind="image/gif"), pic()))
    assert made == ["u: (this image is wider or taller than allowed and is not shown) (this image is not a valid image and is not shown) <image> <image>"]  # fmt: skip
    assert repairs(user(pic(kind="image/gif"))) == [("media_renamed", "u")]
    blind = Target(images=False, documents=False)
    assert "not shown" in request(user(pic()), target=blind)[0]


@requirement("V8")
def test_among_many_images_each_has_fewer_pixels() -> None:
    target = Target(crowd=2)
    large = user(pic(png(3000, 2)), pic())
    assert request(large, target=target) == ["u: <image> <image>"]
    crowded = request(large, user(pic(), uuid="v"), target=target)
    assert (
        "(this image is wider or taller than allowed for a request with this many images"
        in crowded[0]
    )
    assert crowded[0].count("<image>") == 2


@requirement("R265")
@pytest.mark.parametrize(
    "source", [{"type": "url", "url": "https://x/a.png"}, {"type": "file", "file_id": "file_1"}]
)
def test_an_image_held_elsewhere_goes_by_its_reference(source: dict[str, str]) -> None:
    held = {"type": "image", "source": source}
    made = for_api([user(held)], TARGET)
    assert made.messages == [{"role": "user", "content": [held]}]
    assert made.repairs == []
    lost = for_api([user({"type": "image", "source": {"type": "blob", "sha256": "s"}})], TARGET)
    assert "not shown" in told(lost.messages)[0]


@requirement("V8")
def test_too_many_images_leave_in_steps_so_that_most_requests_keep_their_prefix() -> None:
    few = Target(max_images=4)
    entries = [user(str(n), pic()) if n % 2 == 0 else answer(f"m{n}", "ok") for n in range(21)]
    growing = Outgoing(few)
    counts = []
    for entry in entries:
        growing.extend([entry])
        made = growing.request()
        assert made.violations == []
        counts.append(str(made.messages).count("'image'"))
    assert max(counts) == 4
    assert sum(b < a for a, b in pairwise(counts)) == 4
    assert growing.request() == for_api(entries, few)


@requirement("V8")
def test_many_bytes_of_images_leave_too() -> None:
    small = Target(max_body_bytes=8000)
    entries = [user(*[pic(png(4, 4, 2000))] * 5)]
    made = for_api(entries, small)
    assert made.violations == []
    assert str(made.messages).count("'image'") in (1, 2)


@requirement("R098")
def test_tools_that_are_gone_are_handled() -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    found = result("1", [{"type": "tool_reference", "tool_name": "Gone"}, words("x")])
    entries = [user("hi"), answer("m", call("1", "Gone")), user(found)]
    made = for_api(entries, TARGET, tools=tools)
    assert made.violations == []
    assert made.messages[2]["content"][0]["content"][0] == words(
        "(the tool Gone is no longer available)"
    )
    assert [r.kind for r in made.repairs] == ["tool_unknown"]
    assert request(*entries, tools=[])[1:] == ["a: (called tool Gone with {})", 'u: (tool result: {"type":"tool_reference","tool_name":"Gone"}\nx)']  # fmt: skip


def test_another_models_thinking_can_be_told() -> None:
    other = Target(family="gpt", foreign_thinking="text")
    entries = [user("hi"), answer("m", thought("so it is"), "x"), user("y")]
    assert request(*entries, target=other)[1] == "a: (thinking) so it is x"
    assert request(user("hi"), answer("m", {"type": "redacted_thinking", "data": "z"}, "x"), user("y"), target=other)[1] == "a: x"  # fmt: skip


@requirement("V5")
def test_thinking_without_words_goes_back_only_where_the_model_left_them_out() -> None:
    able = Target(blank_thinking=True)
    said = [user("hi"), answer("m", thought(""), "x"), user("y")]
    assert request(*said, target=able)[1] == "a: x"
    said[1]["thinkingDisplay"] = "omitted"
    assert request(*said, target=able)[1] == "a: <thinking> x"
    assert request(*said)[1] == "a: x"


def test_a_target_is_read_from_the_catalog() -> None:
    current, earlier = CATALOG.entry("claude-opus-5-5"), CATALOG.entry("claude-sonnet-4-5")
    assert Target.of(current).system_messages
    assert not Target.of(current).prefill
    assert Target.of(earlier).prefill
    assert not Target.of(earlier).system_messages
    assert Target.of(CATALOG.entry("nobody/knows-it")) == Target(family="knows")


def test_a_result_without_an_id_and_a_mark_for_the_cache_are_cleaned() -> None:
    marked = words("x") | {"cache_control": {"type": "ephemeral"}}
    entries = [user(marked, {"type": "tool_result", "content": "z"})]
    assert request(*entries) == ["u: (tool result: z) x"]
    assert for_api(entries, TARGET).messages[0]["content"][1] == words("x")


def test_a_name_no_tool_may_have_is_changed() -> None:
    made = for_api([user("hi"), answer("m", call("1", "do it"), call("2", ""))], TARGET)
    assert [b["name"] for b in made.messages[1]["content"]] == ["do_it", "unnamed"]
    assert made.violations == []


@pytest.mark.parametrize("levels", [203, 900, 3000])
def test_what_is_nested_too_deeply_is_reported(levels: int) -> None:
    odd = {"type": "tomorrow", "x": deep(levels)}
    assert "nested too deeply" in request(user("x"), answer("m", odd), user("y"))[1]
    content = {"type": "document", "source": {"type": "content", "content": [deep(levels)]}}
    entries = [user("x"), answer("m", call("1")), user(result("1", [content]))]
    assert "nested too deeply" in str(for_api(entries, TARGET).messages[2])
    assert for_api(entries, TARGET).violations == []


def test_fields_that_a_request_may_not_have_fall_away() -> None:
    cited = words("x") | {
        "citations": [{"type": "page_location", "cited_text": "y", "file_id": "f"}]
    }
    odd = words("y") | {"citations": "odd", "extra": 1}
    made = for_api([user("hi"), answer("m", cited, odd), user("z")], TARGET)
    assert made.violations == []
    assert made.messages[1]["content"][0]["citations"] == [
        {"type": "page_location", "cited_text": "y"}
    ]
    assert [r.kind for r in made.repairs] == ["fields_dropped"] * 3


def test_citations_of_a_user_go_only_to_the_earlier_version() -> None:
    cited = words("x") | {"citations": [{"type": "page_location", "cited_text": "y"}]}
    found = {"type": "search_result", "source": "s", "title": "t", "content": [cited]}
    odd = found | {"content": [words("plain"), 7]}
    entries = [
        user(cited, found, odd),
        answer("m", call("1")),
        user(result("1", [found])),
    ]
    later = for_api(entries, TARGET)
    assert "citations" not in str(later.messages)
    assert "plain" in str(later.messages)
    assert [r.kind for r in later.repairs] == ["fields_dropped"] * 3
    earlier = for_api(entries, replace(TARGET, api_version="2023-06-01"))
    assert str(earlier.messages).count("page_location") == 3
    assert earlier.repairs == []
    assert for_api(entries[:2], TARGET).violations == []


def test_every_kind_of_entry_is_decided() -> None:
    assert ROLES.keys() == kinds.KINDS.keys()
    sent = {kind for kind, role in ROLES.items() if role != "never"}
    assert sent == {"user", "assistant", "system", "attachment"}


def test_a_compaction_keeps_what_it_preserved() -> None:
    kept = answer("m", "kept", uuid="k")
    boundary = BOUNDARY | {"compactMetadata": {"preservedMessages": {"uuids": ["k", 3]}}}
    entries = [user("old"), kept, boundary, user("story", isCompactSummary=True), user("new")]
    assert request(*entries) == ["u: story", "a: kept", "u: new"]
    for odd in ({"preservedMessages": 4}, 4, {"preservedMessages": {"uuids": 4}}):
        entries[2] = BOUNDARY | {"compactMetadata": odd}
        assert request(*entries) == ["u: story new"]


def test_a_growing_history_is_cut_by_its_compaction() -> None:
    growing = Outgoing(TARGET)
    growing.extend([user("old"), answer("m", "x"), BOUNDARY])
    growing.extend([user("story", isCompactSummary=True)])
    growing.extend([user("new")])
    assert told(growing.request().messages) == ["u: story new"]


def test_a_result_that_failed_holds_only_text_and_what_it_showed_follows() -> None:
    found = {"type": "search_result", "source": "s", "title": "t", "content": [words("hit")]}
    history = [
        user(words("look")),
        answer("m", call("t1"), call("t2")),
        user(result("t1", [words("no"), pic(), found], is_error=True)),
        user(result("t2", [pic()], is_error=True)),
        user(words("and?")),
    ]
    made = for_api(history, TARGET)
    assert made.violations == []
    one, two, *shown = made.messages[2]["content"]
    assert [block["type"] for block in one["content"]] == ["text", "text"]
    assert two["content"] == MEDIA_FOLLOWS
    assert [block["type"] for block in shown] == ["image", "image", "text"]
    abroad = for_api(history, replace(TARGET, error_media=True))
    assert abroad.violations == []
    assert [len(block["content"]) for block in abroad.messages[2]["content"][:2]] == [3, 1]


def test_an_entry_without_its_message_is_reported() -> None:
    entries = [{"type": "user", "content": "hi"}, {"type": "assistant", "message": "hi"}]
    made = for_api(entries, TARGET)
    assert [(repair.kind, repair.detail) for repair in made.repairs][:2] == [
        ("not_an_entry", "type 'user', no message"),
        ("not_an_entry", "type 'assistant', no message"),
    ]


def test_a_response_without_a_message_is_left_out() -> None:
    odd = {"type": "assistant", "uuid": "a", "message": None}
    assert request(user("hi"), odd, user("more")) == ["u: hi more"]
