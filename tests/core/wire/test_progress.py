"""The frame that reports a call's progress to a host."""

from clew.core import wire


def test_the_progress_of_a_call_names_it_its_tool_and_its_figures() -> None:
    frame = wire.tool_progress(
        "t1", "Bash", 1.5, {"lines": 3}, parent=None, session_id="s", uuid="u"
    )
    assert frame == {
        "type": "tool_progress",
        "tool_use_id": "t1",
        "tool_name": "Bash",
        "parent_tool_use_id": None,
        "elapsed_time_seconds": 1.5,
        "data": {"lines": 3},
        "session_id": "s",
        "uuid": "u",
    }
