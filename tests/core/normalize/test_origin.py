"""A service's own items return only to that service, in the form that it accepts."""

from typing import Any

import pytest

from clew.core.catalog.quirks import QUIRKS, Quirks, find_quirks
from clew.core.messages.errors import UserError
from clew.core.normalize.dialects import merge_parts, to_openai, without_const
from clew.core.normalize.for_api import for_api
from clew.core.normalize.origin import count_calls, find_own_items, seal_origin, with_origins
from clew.core.normalize.target import Reader, Target, family_of
from clew.core.stream.message_writer import MessageWriter, Stamp
from tests.core.normalize.build import answer, user

READER = Reader(service="mistral", wire="chat", family=family_of("mistral-large"))
RECORD = {
    "service": "mistral",
    "wire": "chat",
    "model": "mistral-large",
    "items": [{"content": "a"}],
}
TEXT = {"type": "text", "text": "a"}


def entry(block: Any, place: int = 0, **more: Any) -> dict[str, Any]:
    sealed = seal_origin(RECORD, block)
    return {"apiBlockIndex": place, "message": {"content": [block]}, "origin": sealed} | more


def test_items_are_the_writers_own_only_while_nothing_of_the_response_was_changed() -> None:
    assert find_own_items([entry(TEXT), entry(TEXT, 1)], READER) == [*RECORD["items"]] * 2
    assert find_own_items([entry(TEXT)], Reader(service="groq", wire="chat", family="x")) is None
    assert find_own_items([entry(TEXT, isAbortedMidStream=True)], READER) is None
    assert find_own_items([entry(TEXT, 1)], READER) is None
    assert (
        find_own_items([entry(TEXT, message={"content": [{**TEXT, "text": "b"}]})], READER) is None
    )
    assert find_own_items([entry({"type": "thinking", "thinking": "t"})], READER) is None
    assert find_own_items([entry(TEXT, message=None)], READER) is None
    assert find_own_items([entry("words")], READER) == RECORD["items"]
    assert seal_origin(None, TEXT) is None
    assert entry({"text": "\ud800"})["origin"]["digest"] == ""
    assert find_own_items([entry({"text": "\ud800"})], READER) is None
    entries = [{"message": {"content": [TEXT]}}, {"message": {"content": [TEXT]}}]
    assert with_origins(entries, [None]) is entries
    assert [("origin" in made) for made in with_origins(entries, [RECORD])] == [True, False]
    assert count_calls([{"message": {"content": [{"type": "tool_use"}, TEXT, "x"]}}]) == 1


def test_a_response_of_the_reader_has_its_items_beside_it_in_the_request() -> None:
    spoken = answer("m", "a")
    own = spoken | {"apiBlockIndex": 0}
    own["origin"] = seal_origin(RECORD, own["message"]["content"][0])
    history = [user("hi"), own, user("on")]
    made = for_api(history, Target(reader=READER))
    assert [message.get("origin") for message in made.messages] == [None, RECORD["items"], None]
    history = [user("hi"), spoken, user("on")]
    assert not any("origin" in m for m in for_api(history, Target(reader=READER)).messages)


def test_quirks_are_found_by_name_or_address_and_can_be_overridden() -> None:
    assert find_quirks("mistral", "") == QUIRKS["mistral"]
    assert find_quirks("", "https://api.groq.com/openai/v1") == QUIRKS["groq"]
    assert find_quirks("mine", "http://localhost:1", {"max_tool_name": 10}).max_tool_name == 10
    with pytest.raises(UserError, match="mine"):
        find_quirks("mine", "http://localhost:1", {"max_tool_name": "ten"})


def test_a_schema_without_const_means_the_same() -> None:
    schema = {"anyOf": [{"const": 1}, True], "properties": {"const": {"const": "x"}}}
    assert without_const(schema) == {
        "anyOf": [{"enum": [1]}, True],
        "properties": {"const": {"enum": ["x"]}},
    }
    tool = {"name": "t", "input_schema": {"const": 1}}
    body = to_openai([], tools=[tool], quirks=Quirks(schema_const=False))
    assert body["tools"][0]["function"]["parameters"] == {"enum": [1]}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
ROUND: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_1", "name": "t", "input": {}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": [TEXT, PICTURE]},
            {"type": "text", "text": "and?"},
        ],
    },
]


def test_results_have_the_form_that_the_service_accepts() -> None:
    quirks = Quirks(exact_call_id=True, max_call_id=9, result_name=True, user_after_results=False)
    call, result, between, shown, later = to_openai(ROUND, quirks=quirks)["messages"]
    assert len(call["tool_calls"][0]["id"]) == 9
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert (result["name"], between["role"]) == ("t", "assistant")
    assert shown["role"] == later["role"] == "user"
    parts = to_openai(ROUND, quirks=Quirks(result_images=True))["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    bare = [
        ROUND[0],
        {"role": "user", "content": [ROUND[1]["content"][0] | {"content": [PICTURE]}]},
    ]
    parts = to_openai(bare, quirks=Quirks(result_images=True))["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["image_url"]


@pytest.mark.parametrize(
    ("form", "parts", "kept"),
    [
        ("reasoning_content", [{"reasoning": "r"}], {"reasoning_content": "r"}),
        ("reasoning", [{"content": "a"}], {}),
        ("reasoning_details", [{"reasoning_details": [{"text": "r"}]}], {"reasoning_details": [{"text": "r"}]}),
        ("reasoning_details", [{"reasoning": "r"}], {"reasoning": "r"}),
        ("reasoning_details", [{"content": "a"}], {}),
        ("none", [{"reasoning": "r"}], {}),
    ],
)  # fmt: skip
def test_reasoning_goes_back_in_the_one_form_that_is_accepted(
    form: Any, parts: list[Any], kept: dict[str, Any]
) -> None:
    message = merge_parts(parts, Quirks(thoughts_back=form))
    assert message is not None
    assert {k: v for k, v in message.items() if k not in ("role", "content")} == kept


def test_parts_of_text_are_joined_or_stay_chunks() -> None:
    chunks = [{"content": "a"}, {"content": [{"type": "text", "text": "b"}]}, {"extra": {"x": 1}}]
    plain = merge_parts(chunks, Quirks())
    kept = merge_parts(chunks, Quirks(thoughts_back="chunks"))
    assert plain is not None
    assert kept is not None
    assert plain["content"] == "ab"
    assert [part["text"] for part in kept["content"]] == ["a", "b"]
    assert merge_parts(["not an object"], Quirks()) is None


def test_items_without_a_block_stay_with_the_response() -> None:
    writer = MessageWriter(Stamp(service="s", wire="w", model="m"))
    writer.begin("id", "m")
    writer.carry([{"thought": 1}])
    writer.end("end_turn", {})
    writer.end("end_turn", {})
    events = writer.drain()
    (stop,) = [event for event in events if event["type"] == "content_block_stop"]
    assert stop["origin"]["items"] == [{"thought": 1}]
    assert sum(event["type"] == "message_stop" for event in events) == 1
    writer.fail({"type": "api_error"})
    assert writer.drain() == []
    plain = MessageWriter()
    plain.begin("id", "m")
    plain.stop(plain.open_words("text"), [{"content": "a"}])
    assert "origin" not in plain.drain()[-1]
