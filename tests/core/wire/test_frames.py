"""The frames that a host reads, as the protocol spells them."""

from clew.core import wire

IDS = {"session_id": "s", "uuid": "u"}


def test_the_first_frame_of_a_turn_says_how_the_session_stands() -> None:
    frame = wire.init(cwd="/w", tools=["Agent", "Bash"], model="m", mode="plan", **IDS)
    assert frame["type"] == "system"
    assert frame["subtype"] == "init"
    assert frame["tools"] == ["Task", "Bash"]
    assert frame["permissionMode"] == "plan"
    assert frame["claude_code_version"].split(".")[0] == "2"
    assert frame["clew_version"]


def test_an_answer_of_the_model_keeps_what_readers_need() -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    entry = {
        "type": "assistant",
        "uuid": "u",
        "timestamp": "t",
        "requestId": "r",
        "message": {"id": "m", "content": [thought, {"type": "text", "text": "x"}]},
    }
    frame = wire.assistant(entry, session_id="s", answers=["p"])
    assert frame["message"]["content"][0] == {**thought, "signature": ""}
    assert (frame["uuid"], frame["request_id"], frame["user_message_uuid"]) == ("u", "r", "p")
    assert wire.assistant(entry | {"isAbortedMidStream": True}, session_id="s")["aborted"] is True
    failed = {"isApiErrorMessage": True, "message": {"content": "gone"}, "apiErrorStatus": 500}
    frame = wire.assistant(entry | failed, session_id="s")
    assert frame["error"] == "unknown"
    assert frame["api_error_status"] == 500
    assert frame["message"] == {"content": "gone"}


def test_messages_of_other_sides_say_which_side() -> None:
    entry = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "x"}}
    assert "isReplay" not in wire.user(entry, session_id="s")
    assert wire.user(entry, session_id="s", is_replay=True)["isReplay"] is True
    meta = entry | {"isMeta": True, "origin": {"kind": "human"}, "toolUseResult": {"a": 1}}
    frame = wire.user(meta, session_id="s", parent="toolu_1")
    assert frame["isSynthetic"] is True
    assert frame["tool_use_result"] == {"a": 1}
    assert frame["parent_tool_use_id"] == "toolu_1"
    assert frame["origin"] == {"kind": "human"}
    denied = wire.user(entry | {"toolDenialKind": "permission-rule"}, session_id="s")
    assert denied["tool_denial_kind"] == "permission-rule"
    assert "tool_denial_kind" not in frame


def test_events_of_the_stream_go_out_as_they_came() -> None:
    event = {"type": "ping", "odd": [1]}
    frame = wire.stream_event(event, session_id="s", uuid="u", answers=["a", "b"])
    assert frame["event"] == event
    assert frame["user_message_uuids"] == ["a", "b"]


def test_a_change_of_state_is_marked_for_the_host_alone() -> None:
    frame = wire.state_changed("idle", for_host_only=True, **IDS)
    assert (frame["state"], frame["sdk_host_only"]) == ("idle", True)
    assert "sdk_host_only" not in wire.state_changed("idle", for_host_only=False, **IDS)


def test_control_frames_name_the_request_they_belong_to() -> None:
    assert wire.make_success("r")["response"] == {"subtype": "success", "request_id": "r"}
    assert wire.make_success("r", {"a": 1})["response"]["response"] == {"a": 1}
    assert wire.make_refusal("r", "no")["response"]["error"] == "no"
    unknown = wire.unsupported("r", "fly")["response"]
    assert unknown["error"] == "Unsupported control request subtype: fly"
    assert unknown["error_code"] == "unsupported_request"
    assert wire.make_request("r", "can_use_tool", {"a": 1}) == {
        "type": "control_request",
        "request_id": "r",
        "request": {"subtype": "can_use_tool", "a": 1},
    }
    assert wire.make_withdrawal("r") == {"type": "control_cancel_request", "request_id": "r"}


def test_a_reset_is_stamped_with_the_conversation_that_is_over() -> None:
    frame = wire.reset("old", "new", uuid="u")
    assert (frame["session_id"], frame["new_conversation_id"]) == ("old", "new")


def test_a_boundary_is_told_in_the_spelling_of_hosts() -> None:
    metadata = {
        "trigger": "auto",
        "preTokens": 90,
        "postTokens": 20,
        "preservedSegment": {"headUuid": "h", "anchorUuid": "s", "tailUuid": "t"},
        "preservedMessages": {"anchorUuid": "s", "uuids": ["h", "t"], "allUuids": ["h", "t"]},
    }
    told = wire.compact_boundary({"uuid": "b", "compactMetadata": metadata}, session_id="s1")
    assert (told["subtype"], told["uuid"], told["session_id"]) == ("compact_boundary", "b", "s1")
    assert told["compact_metadata"] == {
        "trigger": "auto",
        "pre_tokens": 90,
        "post_tokens": 20,
        "preserved_segment": {"head_uuid": "h", "anchor_uuid": "s", "tail_uuid": "t"},
        "preserved_messages": {"anchor_uuid": "s", "uuids": ["h", "t"], "all_uuids": ["h", "t"]},
    }
    bare = {"uuid": "b", "compactMetadata": {"trigger": "manual", "preTokens": 9}}
    told = wire.compact_boundary(bare, session_id="s1")
    assert told["compact_metadata"] == {"trigger": "manual", "pre_tokens": 9}


def test_results_that_were_taken_out_are_reported() -> None:
    metadata = {
        "trigger": "auto",
        "preTokens": 90,
        "tokensSaved": 30,
        "compactedToolIds": ["t1"],
        "clearedAttachmentUUIDs": [],
    }
    told = wire.microcompact_boundary(
        {"uuid": "m", "microcompactMetadata": metadata}, session_id="s1"
    )
    assert told["microcompact_metadata"]["compacted_tool_ids"] == ["t1"]
    assert told["microcompact_metadata"]["tokens_saved"] == 30


def test_a_frame_of_an_agents_conversation_says_whose_it_is() -> None:
    frame = wire.of_agent({"type": "user"}, agent_id="a1", kind="Explore", description="look")
    assert frame == {
        "type": "user",
        "agent_id": "a1",
        "subagent_type": "Explore",
        "task_description": "look",
    }


def test_a_summary_names_the_calls_that_it_is_about() -> None:
    frame = wire.tool_use_summary("Read 2 files", ("a", "b"), session_id="s", uuid="u")
    assert frame["type"] == "tool_use_summary"
    assert frame["preceding_tool_use_ids"] == ["a", "b"]
    assert (frame["summary"], frame["session_id"], frame["uuid"]) == ("Read 2 files", "s", "u")
