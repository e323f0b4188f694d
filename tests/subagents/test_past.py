"""What a conversation knows of its agents' ends, and what is told of one that was cut off."""

from typing import Any

from clew.subagents.past import SHOWN_STEPS, account, steps, told_ends

Json = dict[str, Any]


def launched(agent_id: str) -> Json:
    return {"type": "user", "toolUseResult": {"agentId": agent_id, "status": "async_launched"}}


def notified(agent_id: str) -> Json:
    return {"type": "user", "origin": {"kind": "task-notification", "runId": agent_id}}


def test_the_last_that_was_said_of_an_agent_decides_whether_its_end_is_known() -> None:
    done = {"type": "user", "toolUseResult": {"agentId": "c", "status": "completed"}}
    entries = [
        launched("a"),
        launched("b"),
        notified("b"),
        done,
        notified("d"),
        launched("d"),
        {"type": "user", "toolUseResult": "text", "origin": {"kind": "human"}},
        {"type": "user", "toolUseResult": {"agentId": 5}},
    ]
    assert told_ends(entries) == {"a": False, "b": True, "c": True, "d": False}


def test_steps_are_told_by_tool_and_first_words() -> None:
    def used(**block: Any) -> Json:
        return {"type": "assistant", "message": {"content": [{"type": "tool_use", **block}]}}

    entries = [
        {"type": "user", "message": {"content": "x"}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hm"}]}},
        used(name="Bash", input={"timeout": 5, "command": "ls\n -l"}),
        used(name="Odd", input=None),
    ]
    assert steps(entries) == ["Bash ls -l", "Odd"]


def test_an_account_says_how_much_was_done_what_last_and_what_was_said() -> None:
    done = [f"Bash {n}" for n in range(SHOWN_STEPS + 2)]
    told = account("so far so good", done).split("\n")
    assert told[0] == f"It had used {len(done)} tools, last:"
    assert told[1:-1] == [f"- {step}" for step in done[-SHOWN_STEPS:]]
    assert told[-1] == "It said last: so far so good"
    assert account("", []) == "It had used 0 tools.\nIt had said nothing."
