"""What a conversation knows about the ends of its subagents, and its report of interrupted ones."""

from typing import Any

from clew.agent.subagents.offer import (
    BACKGROUND_TASKS,
    SHOWN_STEPS,
    Begun,
    describe_steps,
    describe_work,
    find_heard_letters,
    find_reported_ends,
    find_retold_tasks,
    select_own_part,
)

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
    assert find_reported_ends(entries) == {"a": False, "b": True, "c": True, "d": False}


def test_what_a_summary_tells_again_is_at_work() -> None:
    row = {"taskId": "a", "kind": "agent", "title": "dig", "toolUseId": "t"}
    told = {"attachment": {"type": BACKGROUND_TASKS, "tasks": [row, "x", {"taskId": "s1"}]}}
    shell = {"taskId": "s1", "kind": "", "title": "", "toolUseId": ""}
    assert find_retold_tasks(told) == [row, shell]
    assert find_reported_ends([notified("a"), told]) == {"a": False}
    assert find_reported_ends([told, notified("a")]) == {"a": True}
    others = [
        {},
        {"attachment": {"type": "todo", "tasks": [row]}},
        {"attachment": {"type": BACKGROUND_TASKS}},
    ]
    assert [find_retold_tasks(other) for other in others] == [[], [], []]


def test_words_to_one_that_works_and_words_of_its_own_tell_of_no_end() -> None:
    said = notified("a") | {"message": {"content": "<status>running</status>"}}
    sent = {"type": "user", "toolUseResult": {"agentId": "a", "success": True}}
    assert find_reported_ends([launched("a"), said, sent]) == {"a": False}


def test_letters_are_heard_by_the_notifications_that_bring_them() -> None:
    brought = notified("a")
    brought["origin"]["messages"] = ["one", "two"]
    entries = [launched("a"), notified("a"), brought, {"origin": {"messages": "odd"}}]
    assert find_heard_letters(entries) == {"one", "two"}


def test_what_was_copied_into_an_agent_is_not_its_own() -> None:
    entries = [{"uuid": "1"}, {"uuid": "2"}, {"type": "no uuid"}, {"uuid": "3"}]
    assert select_own_part(entries, "2") == entries[2:]
    for nothing in ("gone since a summary", "", None):
        assert select_own_part(entries, nothing) == entries


def test_steps_are_told_by_tool_and_first_words() -> None:
    def used(**block: Any) -> Json:
        return {"type": "assistant", "message": {"content": [{"type": "tool_use", **block}]}}

    entries = [
        {"type": "user", "message": {"content": "x"}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hm"}]}},
        used(name="Bash", input={"timeout": 5, "command": "ls\n -l"}),
        used(name="Odd", input=None),
    ]
    assert describe_steps(entries) == ["Bash ls -l", "Odd"]


def test_an_account_says_how_much_was_done_what_last_and_what_was_said() -> None:
    done = [f"Bash {n}" for n in range(SHOWN_STEPS + 2)]
    told = describe_work("so far so good", done).split("\n")
    assert told[0] == f"It made {len(done)} tool calls, most recently:"
    assert told[1:-1] == [f"- {step}" for step in done[-SHOWN_STEPS:]]
    assert told[-1] == "Its last message: so far so good"
    assert describe_work("", ["Bash"], ["look left", "and right"]) == (
        "It made 1 tool call, most recently:\n- Bash\nIt sent no message.\n"
        "Messages it will receive first if it is resumed:\n- look left\n- and right"
    )
    assert describe_work("", []) == "It made 0 tool calls.\nIt sent no message."


def calls(call_id: str, name: str = "Agent", **given: Any) -> Json:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return {"type": "assistant", "message": {"content": [block, "no block"]}}


def answers(call_id: str, raw: Any) -> Json:
    block = {"type": "tool_result", "tool_use_id": call_id}
    return {"type": "user", "message": {"content": [block]}, "toolUseResult": raw}


def test_the_call_that_began_an_agent_is_known_by_its_result_or_by_what_it_asked_for() -> None:
    begun = Begun(
        [
            calls("t1", prompt="dig", subagent_type="digger"),
            answers("t1", {"agentId": "a1"}),
            calls("t2", prompt="go on", resume="a1"),
            answers("t2", {"agentId": "a1"}),
            calls("t3", "SendMessage", to="a2"),
            answers("t3", {"agentId": "a2"}),
            calls("t4", "Task", prompt="dig", subagent_type="painter"),
            answers("t4", "lost"),
            calls("t5", prompt="hold", subagent_type="x"),
            calls("t6", prompt="hold", subagent_type="y"),
            calls("t7", prompt=""),
            calls("t8"),
            {"type": "user", "message": {"content": "words"}},
            {"type": "user"},
        ]
    )

    def found(agent_id: str, first: str) -> str | None:
        call = begun.call_of(agent_id, first)
        return None if call is None else call["id"]

    assert found("a1", "go on") == "t1"
    assert found("a2", "dig") == "t4"
    assert found("a2", "All that you know.\n\ndig") == "t4"
    # Of two that asked for the same nobody knows which it was, where their kinds differ.
    assert found("a2", "hold") is None
    assert found("a2", "paint") is None
