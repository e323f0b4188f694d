"""Views name the fields of any object, never raise, and change nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages import blocks, factories, kinds, messages, records
from clew.core.messages import records as events
from clew.core.messages.errors import MisuseError
from clew.core.messages.history import History
from clew.core.messages.views import Field, Usage, View, complete_usage, fields, make_zero_usage
from tests.requirements import requirement

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
VIEWS = [k.view for k in kinds.KINDS.values()] + [messages.UnknownEntry, blocks.UnknownBlock, Usage]
VIEWS += list(blocks.BLOCKS.values())


def read_everything(view: View) -> dict[str, Any]:
    """Read every public name of a view."""
    names = [n for n in dir(type(view)) if not n.startswith("_") and n not in ("tag", "roles")]
    read = {name: getattr(view, name) for name in names}
    return {name: list(v()) if callable(v) else v for name, v in read.items()}


@given(view_class=st.sampled_from(VIEWS), data=st.data())
def test_every_field_of_every_view_reads_anything_without_raising(
    view_class: type[View], data: st.DataObject
) -> None:
    keys = [f.key for f in fields(view_class).values()]
    keys += [f.inside for f in fields(view_class).values() if f.inside]
    keys += ["type", "text", "content", "message", "usage", "cache_creation", "isSynthetic"]
    inner = st.dictionaries(st.sampled_from([*keys, "id", "model"]), values, max_size=4)
    drawn = data.draw(st.dictionaries(st.sampled_from(keys), values | inner, max_size=6))
    copy = repr(drawn)
    view = view_class(drawn)
    read_everything(view)
    assert repr(drawn) == copy
    assert repr(view).startswith("<")


@pytest.mark.parametrize("view_class", VIEWS, ids=lambda c: c.__name__)
def test_a_view_cannot_be_written_to(view_class: type[View]) -> None:
    view = view_class({})
    for name in (*fields(view_class), "data", "type", "new"):
        with pytest.raises(AttributeError):
            setattr(view, name, 1)


def test_a_field_of_the_wrong_type_reads_as_empty() -> None:
    user = messages.UserMessage({"uuid": 5, "isMeta": "yes", "imagePasteIds": {}, "message": []})
    assert (user.uuid, user.is_meta, user.image_paste_ids, user.role) == (None, False, [], None)
    assert messages.SystemMessage({"retryAttempt": True, "retryInMs": "1"}).retry_attempt is None


def test_a_field_can_be_looked_up_on_its_class() -> None:
    assert isinstance(fields(messages.UserMessage)["uuid"], Field)


@requirement("R029", "W18")
def test_unknown_kinds_are_views_that_keep_everything() -> None:
    for data in ({"type": "hologram", "x": 1}, {"type": ["?"]}, {}):
        assert blocks.view_block(data).data is data
        assert kinds.view_entry(data).data is data
    assert blocks.view_block({"type": "hologram"}).type == "hologram"
    assert kinds.view_entry({"type": "hologram"}).type == "hologram"
    assert kinds.view_entry({"type": 3}).type == blocks.view_block({"type": 3}).type == ""
    assert isinstance(kinds.view_entry({"type": "user"}), messages.UserMessage)
    assert blocks.view_block(5).data == {"value": 5}


def test_content_is_blocks_whether_it_is_a_string_a_list_or_nothing() -> None:
    def shown(content: Any) -> list[str]:
        return [b.text for b in blocks.view_blocks(content) if isinstance(b, blocks.TextBlock)]

    assert shown("hello") == ["hello"]
    assert shown([{"type": "text", "text": "a"}, "b"]) == ["a", "b"]
    assert shown(None) == []
    assert messages.UserMessage({"message": {"content": "hello"}}).text == "hello"
    result = blocks.ToolResultBlock({"type": "tool_result", "content": "out"})
    assert [b.type for b in result.blocks()] == ["text"]


@requirement("R229")
def test_blocks_are_made_when_asked_for_and_once() -> None:
    for content in ([{"type": "text", "text": "a"}], [], ""):
        message = messages.AssistantMessage({"message": {"content": content}})
        assert message._blocks is None
        assert message.blocks is message.blocks


@requirement("R228")
def test_closed_names_are_one_shared_string() -> None:
    kind = "".join(["us", "er"])
    assert kinds.view_entry({"type": kind}).type is kinds.view_entry({"type": "user"}).type
    reason = "".join(["end_", "turn"])
    said = [
        messages.AssistantMessage({"message": {"stop_reason": r}}) for r in (reason, "end_turn")
    ]
    assert said[0].stop_reason is said[1].stop_reason
    assert messages.AssistantMessage({"message": {"stop_reason": "bored"}}).stop_reason == "bored"


@requirement("C14")
@pytest.mark.parametrize(
    ("fields", "face"),
    [
        ({"message": {"content": "hi"}}, "typed"),
        ({"message": {"content": [{"type": "tool_result"}]}, "isMeta": True}, "tool_result"),
        ({"message": {"content": "x"}, "isMeta": True}, "meta"),
        ({"message": {"content": "x"}, "isVirtual": True}, "virtual"),
        (
            {"message": {"content": "x"}, "isCompactSummary": True, "isMeta": True},
            "compact_summary",
        ),
        ({"message": {"content": "x"}, "isSynthetic": True}, "synthetic"),
        ({"message": {"content": "x"}, "origin": {"kind": "task-notification"}}, "synthetic"),
        ({"message": {"content": "x"}, "origin": {"kind": "human"}}, "typed"),
    ],
)
def test_the_faces_of_a_user_message_are_told_by_fields_alone(
    fields: dict[str, Any], face: str
) -> None:
    assert messages.UserMessage({"type": "user"} | fields).face == face
    assert face in messages.FACES


@requirement("W22", "R085")
def test_a_user_may_type_the_words_of_a_synthetic_message() -> None:
    words = {"content": "[Request interrupted by user]"}
    assert messages.UserMessage({"message": words}).is_synthetic  # a file of before the field
    assert not messages.UserMessage({"message": words, "promptSource": "typed"}).is_synthetic
    assert not messages.UserMessage({"message": words, "origin": {"kind": "human"}}).is_synthetic
    assert not messages.UserMessage({"message": words, "isSynthetic": False}).is_synthetic
    assert messages.UserMessage({"message": {"content": "x"}, "isSynthetic": True}).is_synthetic


@requirement("R025")
def test_a_synthetic_api_error_needs_the_model_marker_and_the_flag() -> None:
    def is_error(model: str, *, flag: bool) -> bool:
        return messages.AssistantMessage(
            {"message": {"model": model}, "isApiErrorMessage": flag}
        ).is_synthetic_api_error

    assert is_error("<synthetic>", flag=True)
    assert not is_error("<synthetic>", flag=False)
    assert not is_error("claude-opus-4-5", flag=True)


def test_calls_of_the_providers_own_tools_are_not_ours_to_answer() -> None:
    content = [{"type": "tool_use", "id": "a"}, {"type": "server_tool_use", "id": "b"}]
    said = messages.AssistantMessage({"message": {"content": content}})
    assert [use.id for use in said.tool_uses] == ["a"]


@requirement("R023")
def test_the_default_usage_mirrors_the_api_object_and_is_fresh_each_time() -> None:
    usage = make_zero_usage()
    usage["server_tool_use"]["web_search_requests"] = 9
    assert make_zero_usage()["server_tool_use"] == {
        "web_search_requests": 0,
        "web_fetch_requests": 0,
    }
    assert set(make_zero_usage()) == {
        "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
        "server_tool_use", "service_tier", "cache_creation", "inference_geo", "iterations", "speed",
    }  # fmt: skip


def test_usage_counts_what_is_there() -> None:
    usage = Usage(
        {
            "input_tokens": 3,
            "output_tokens": 5,
            "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": 11,
            "cache_creation": {"ephemeral_1h_input_tokens": 4},
        }
    )
    assert usage.total_input_tokens == 21
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens) == (7, 4)
    assert Usage({}).cache_write_1h_tokens == Usage({}).output_tokens == 0


def test_usage_is_written_so_that_no_reader_misreads_it() -> None:
    assert complete_usage(None) == {"input_tokens": 0, "output_tokens": 0}
    split = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}
    good = {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 3}
    assert complete_usage(good | {"cache_creation": split}) == good | {"cache_creation": split}
    assert complete_usage(good | {"cache_creation": {}}) == good
    assert complete_usage({"output_tokens": "7"})["output_tokens"] == 0


@requirement("R017")
def test_a_tombstone_withdraws_its_message_as_event_and_as_entry() -> None:
    said = factories.synthetic_assistant("half an", uuid="u", at="", message_id="m")
    event = events.Tombstone({"type": "tombstone", "message": said})
    assert event.withdrawn is not None
    assert event.withdrawn.text == "half an"
    assert event.withdrawn.uuid == "u"
    entry = factories.record("tombstone", session_id="s", messageUuid="u")
    assert events.Tombstone(entry).message_uuid == "u"
    assert [m["uuid"] for m in History([said, {"uuid": "stays"}]).without(["u"])] == ["stays"]


def test_an_entry_outside_the_chain_has_a_known_type_and_no_uuid() -> None:
    for tag in ("user", "own-type"):
        with pytest.raises(MisuseError, match="does not write this type outside the chain"):
            factories.record(tag, session_id="s")
    with pytest.raises(MisuseError, match="must not have a uuid"):
        factories.record("tombstone", session_id="s", uuid="u")


def test_records_read_their_fields() -> None:
    assert records.LastPrompt({"leafUuid": "l", "explicit": True}).explicit
    assert not messages.AssistantMessage({"message": {"content": "x"}}).is_empty
    assert messages.AssistantMessage({}).is_empty
