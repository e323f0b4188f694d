"""The members of frames, requests to the host and inputs of hooks are those of the reference client.

One tour of a session shows most kinds. The tables have the members that only one program sends, by
the reason; a member that is missing there, or no longer differs, fails the test.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.compat.oracle.comparison import LEFT_OUT
from tests.compat.oracle.programs import Observed, kind_of, observe_both
from tests.compat.oracle.test_calls import AFTER
from tests.compat.oracle.trial import ASK, BEGIN, DONE, Trial, answer, bash, permit

HOOK = [{"matcher": None, "hookCallbackIds": ["hook"]}]
EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
TOUR = Trial(
    args=(*ASK, "--include-partial-messages"),
    steps=(BEGIN,),
    initialize={"hooks": dict.fromkeys(EVENTS, HOOK)},
    answers={"hook_callback": lambda _: {}, **permit()},
    model=[
        answer("TEXT", bash("mkdir made")),
        answer(bash(AFTER.format("result-1"), run_in_background=True)),
        DONE,
    ],
)
BLOCK_EVENTS = tuple(f"event/content_block_{part}" for part in ("start", "delta", "stop"))
STREAM = (*BLOCK_EVENTS, "event/message_start", "event/message_delta", "event/message_stop")
# reason -> kinds and their members
ONLY_REFERENCE = {
    "times that clew does not measure": {
        ("result",): "first_content_frame_ms time_to_request_ms ttft_ms ttft_stream_ms",
        ("event/message_start",): "ttft_ms",
    },
    "features that clew does not have, or reports elsewhere": {
        ("result",): "begun_message_ids fast_mode_disabled_reason fast_mode_state queued_turn_count"
        " result_index safety_stops subagent_stats",
        ("user",): "tool_result_meta",
        ("system/init",): "analytics_disabled fast_mode_disabled_reason fast_mode_state"
        " messaging_socket_path original_cwd per_turn_effort_active product_feedback_disabled"
        " sandbox_enabled served_by_anthropic terminal_slash_commands ultrathink_available"
        " ultrathink_typed_raises view_mode",
        ("event/message_start",): "thinking_display",
    },
    "follows from other members": {
        # The difference between the `modelUsage` of two results.
        ("result",): "model_usage_since_last_result",
        # The event `message_start` has the ID.
        STREAM: "api_message_id",
        # The settings of the session have the effort.
        ("hook PreToolUse", "hook PostToolUse", "hook Stop"): "effort",
    },
    "clew names a path only if it asks because of the path": {("can_use_tool",): "blocked_path"},
}
ONLY_CLEW = {
    "the prompt that is answered": {
        (*STREAM, "assistant", "result"): "user_message_uuid user_message_uuids",
    },
    "the origin of news": {("user",): "origin"},
    "why the host is asked, and about which parts of a command": {
        ("can_use_tool",): "clew_parts decision_reason title",
    },
    "the version of clew": {("system/init",): "clew_version"},
}


def find_members(observed: Observed) -> dict[str, set[str]]:
    """Return the members of each kind of frame."""
    members: dict[str, set[str]] = defaultdict(set)
    for frame in observed.frames:
        kind = kind_of(frame)
        if frame["type"] == "control_request":
            frame = frame["request"]
            if kind == "hook_callback":
                frame = frame["input"]
                kind = f"hook {frame['hook_event_name']}"
        elif frame["type"] == "control_response":
            continue
        members[kind] |= set(frame)
    return members


def listed(table: dict[str, dict[tuple[str, ...], str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for kinds_of_reason in table.values():
        for kinds, names in kinds_of_reason.items():
            for kind in kinds:
                found[kind] = sorted([*found[kind], *names.split()])
    return found


@pytest.mark.e2e
def test_frames_have_the_members_of_the_reference_client(tmp_path: Path) -> None:
    theirs, ours = map(find_members, observe_both(TOUR, tmp_path))
    kinds = (theirs.keys() & ours.keys()) - LEFT_OUT.keys()
    assert len(kinds) > 18, sorted(kinds)
    missing = {k: sorted(theirs[k] - ours[k]) for k in kinds if theirs[k] - ours[k]}
    added = {k: sorted(ours[k] - theirs[k]) for k in kinds if ours[k] - theirs[k]}
    assert missing == listed(ONLY_REFERENCE)
    assert added == listed(ONLY_CLEW)
