"""Chats from the web, benchmarks and the output of runs without a terminal come in as sessions."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clew.record.exchange.formats.frame import Source
from clew.record.exchange.formats.reasons import (
    DUPLICATE_CALL,
    INSTRUCTIONS,
    REPEATED,
    STATE,
)
from clew.record.exchange.formats.registry import FORMATS
from clew.record.exchange.formats.streams import RESULT
from tests.commands.sessions.place import Place
from tests.record.exchange.sources import convert_one, of_lines, of_value, outline
from tests.record.exchange.test_formats import AT, TALK, Json, blocks, chat, factory

S = 1_772_600_767


def openhands() -> list[Json]:
    made = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    response = {"id": "r1", "model": "m", "choices": [{"message": {"tool_calls": [made]}}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 2}}  # fmt: skip
    about = {"function_name": "bash", "tool_call_id": "c1", "model_response": response}

    def event(number: int, source: str, **more: Any) -> Json:
        return {"id": number, "timestamp": AT, "source": source, "message": "", **more}

    return [
        event(0, "agent", action="system", args={"content": "be good"}),
        event(1, "user", action="message", args={"content": "Look."}),
        event(2, "environment", observation="agent_state_changed", content=""),
        event(3, "agent", action="run", args={"command": "ls", "thought": "I look."},
              tool_call_metadata=about),
        event(4, "agent", observation="run", content="a.txt", cause=3, success=True,
              tool_call_metadata=about),
        event(5, "agent", action="finish", args={"final_thought": "One file."}),
    ]  # fmt: skip


def chatgpt() -> Json:
    def node(own: str, parent: str | None, role: str, kind: str, parts: Any, **more: Any) -> Json:
        content = {"content_type": kind, "parts": parts}
        message = {"id": own, "author": {"role": role}, "create_time": S, "content": content}
        return {"id": own, "parent": parent, "message": message | more}

    nodes = [
        {"id": "root", "parent": None, "message": None},
        node("system", "root", "system", "text", [""]),
        node("ask", "system", "user", "text", ["Look."]),
        node("hm", "ask", "assistant", "thoughts", ["hm"]),
        node("say", "hm", "assistant", "text", ["I look."], metadata={"model_slug": "gpt"}),
        node("call", "say", "assistant", "code", ['{"command": "ls"}'], recipient="bash"),
        node("result", "call", "tool", "execution_output", ["a.txt"]),
        node("end", "result", "assistant", "text", ["One file."]),
        node("other", "ask", "assistant", "text", ["No."]),
    ]
    return {
        "conversation_id": "g1", "title": "A look", "create_time": S, "current_node": "end",
        "mapping": {item["id"]: item for item in nodes},
    }  # fmt: skip


def claude_ai() -> Json:
    first, *rest = blocks()
    parts = [part for message in rest for part in message["content"]]

    def message(own: str, parent: str, sender: str, content: list[Json]) -> Json:
        return {"uuid": own, "parent_message_uuid": parent, "sender": sender, "text": "",
                "content": content, "created_at": "2026-03-04T05:06:07.890123Z"}  # fmt: skip

    return {
        "uuid": "5b7f2f3c-0d7c-4a53-9d5c-8a1b2c3d4e5f", "name": "A look",
        "chat_messages": [
            message("1", "0", "human", first["content"]),
            message("2", "1", "assistant", parts),
        ],
    }  # fmt: skip


def ai_studio() -> Json:
    code = {"executableCode": {"command": "ls"}, "codeExecutionResult": {"output": "a.txt"}}
    chunks = [
        {"role": "user", "text": "Look."},
        {"role": "model", "text": "hm", "isThought": True},
        {"role": "model", "parts": [{"text": "I look."}], **code},
        {"role": "model", "text": "One file."},
    ]
    return {"chunkedPrompt": {"chunks": chunks}, "systemInstruction": {"parts": []},
            "runSettings": {"model": "models/gemini"}}  # fmt: skip


def antigravity() -> list[Json]:
    def step(kind: str, **more: Any) -> Json:
        return {"type": kind, "source": "MODEL", "created_at": AT, **more}

    called = {"name": "bash", "args": {"command": '"ls"'}}
    return [
        step("USER_INPUT", content="<USER_REQUEST>\nLook.\n</USER_REQUEST>\n<ADDITIONAL_METADATA>"),
        step("CONVERSATION_HISTORY"),
        step("PLANNER_RESPONSE", thinking="hm", content="I look.", tool_calls=[called]),
        step("RUN_COMMAND", content="a.txt", status="DONE"),
        step("PLANNER_RESPONSE", content="One file."),
    ]


def codex_events() -> list[Json]:
    def item(own: str, kind: str, **more: Any) -> Json:
        return {"type": "item.completed", "item": {"id": own, "type": kind, **more}}

    command = item("2", "command_execution", command="ls", aggregated_output="a.txt", exit_code=0)
    return [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        item("0", "reasoning", text="hm"),
        item("1", "agent_message", text="I look."),
        command | {"type": "item.started"},
        command,
        item("3", "agent_message", text="One file."),
        {"type": "turn.completed",
         "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}},
    ]  # fmt: skip


def gemini_events() -> list[Json]:
    def said(role: str, text: str, **more: Any) -> Json:
        return {"type": "message", "role": role, "content": text, "timestamp": AT, **more}

    return [
        {"type": "init", "session_id": "s", "model": "g", "timestamp": AT},
        said("user", "Look."),
        said("assistant", "I ", delta=True),
        said("assistant", "look.", delta=True),
        {"type": "tool_use", "tool_id": "c1", "tool_name": "bash", "parameters": {"command": "ls"}},
        {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "a.txt"},
        said("assistant", "One file.", delta=True),
        {"type": "result", "status": "success"},
    ]


def droid_events() -> list[Json]:
    def event(kind: str, **more: Any) -> Json:
        return {"type": kind, "session_id": "s", "timestamp": AT, **more}

    return [
        event("system", model="m", cwd="/w"),
        event("message", role="user", text="Look."),
        event("message", role="assistant", text="I look."),
        event("tool_call", toolCallId="c1", toolName="bash", parameters={"command": "ls"}),
        event("tool_result", toolCallId="c1", value="a.txt"),
        event("message", role="assistant", text="One file."),
        event("completion", finalText="One file."),
    ]


def hook_events() -> list[Json]:
    called = {"timestamp": AT, "tool_name": "bash", "tool_input": {"command": "ls"}}
    return [
        {"type": "user", "timestamp": AT, "content": "Look."},
        {"type": "tool_use", **called},
        {"type": "tool_result", **called, "tool_output": {"output": "a.txt"}},
    ]


def web() -> Json:
    """A session of Claude Code on the web."""
    return {
        "loglines": [
            {"type": message["role"], "timestamp": AT, "message": message} for message in blocks()
        ]
    }


def swe_agent() -> Json:
    history = chat()
    result = history[3]
    result["tool_call_ids"] = [result.pop("tool_call_id")]
    return {"history": [message | {"agent": "main"} for message in history]}


QUIET = [words for words in TALK if "thinking" not in words]
CASES: dict[str, tuple[str, Source, list[str], Json]] = {
    "OpenHands": (
        "openhands", of_value(openhands()), QUIET,
        {STATE: 1, INSTRUCTIONS: 1}),
    "evaluation by OpenHands": (
        "openhands", of_lines({"instance_id": "i", "history": openhands()}), QUIET,
        {STATE: 1, INSTRUCTIONS: 1}),
    "ChatGPT": (
        "chatgpt", of_value([chatgpt()]),
        [TALK[0], "assistant text: No.", *TALK[1:]], {INSTRUCTIONS: 1}),
    "claude.ai": ("claude.ai", of_value([claude_ai()]), TALK, {}),
    "AI Studio": ("aistudio", of_value(ai_studio()), TALK, {INSTRUCTIONS: 1}),
    "Antigravity": (
        "antigravity", of_lines(*antigravity()), TALK, {INSTRUCTIONS: 2}),
    "codex exec": (
        "stream", of_lines(*codex_events()), TALK[1:],
        {STATE: 1, REPEATED: 1}),
    "gemini stream-json": (
        "stream", of_lines(*gemini_events()), QUIET, {RESULT: 1}),
    "droid exec": (
        "stream", of_lines(*droid_events()), QUIET, {REPEATED: 1}),
    "hook log": ("stream", of_lines(*hook_events()), [TALK[0], *TALK[3:5]], {}),
    "Claude Code on the web": ("one file", of_value(web()), TALK, {}),
    "demonstration of SWE-agent": (
        "trajectory", of_value(swe_agent()), TALK, {INSTRUCTIONS: 1}),
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_a_conversation_comes_in_and_each_item_is_accounted_for(case: str) -> None:
    name, source, told, losses = CASES[case]
    found = convert_one(source, name)
    assert outline(found) == told
    assert found.tally.losses == losses
    assert {form.name for form in FORMATS if form.recognizes(source)} <= {name}


@pytest.mark.parametrize("case", CASES)
def test_the_program_imports_it_as_a_sound_session(case: str, place: Place) -> None:
    name, source, told, losses = CASES[case]
    file = place.cwd / "x"
    file.write_text(source.text, "utf-8")
    (brought,) = place.json("import", str(file))["imported"]
    assert brought["kind"] == name
    assert Counter(brought["changed"]) + Counter(brought["leftOut"]) == losses
    shown = place.clew("show", brought["sessionId"])
    assert "One file." in shown or told == CASES["hook log"][2]
    place.clew("check", brought["sessionId"])


def test_the_branch_that_is_shown_in_chatgpt_is_the_live_one() -> None:
    found = convert_one(of_value(chatgpt()), "chatgpt")
    texts = {m["uuid"]: m for m in found.messages}
    assert found.title == "A look"
    assert found.messages[-1]["message"]["content"][0]["text"] == "One file."
    assert [texts[uuid]["type"] for uuid in found.parents.values() if uuid] == ["user"]


def test_tokens_of_a_printed_run_belong_to_its_last_response() -> None:
    found = convert_one(of_lines(*codex_events()), "stream")
    usage = found.messages[-1]["message"]["usage"]
    counts = [usage[f"{key}_tokens"] for key in ("input", "cache_read_input", "output")]
    assert counts == [5, 4, 2]


def test_a_call_whose_id_was_used_before_is_kept_with_its_result() -> None:
    made = {"type": "tool_use", "id": "c1", "name": "bash"}
    messages = blocks()
    messages[2:2] = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]},
        {"role": "assistant", "content": [made | {"input": {"command": "pwd"}}]},
    ]
    repeated = {"role": "assistant", "content": [made | {"input": {"command": "pwd"}}]}
    found = convert_one(of_value([*messages, repeated]), "one file")
    content = [c for m in found.messages if isinstance(c := m["message"]["content"], list)]
    ids = [b["id"] for blocks in content for b in blocks if b["type"] == "tool_use"]
    results = [b for blocks in content for b in blocks if b["type"] == "tool_result"]
    assert ids == ["c1", "c1_2"]
    assert [(b["tool_use_id"], b["content"]) for b in results] == [("c1", "1"), ("c1_2", "a.txt")]
    assert found.tally.losses == {DUPLICATE_CALL: 1}


def test_a_result_in_a_hook_log_names_its_call() -> None:
    ask, use, result = hook_events()
    found = convert_one(of_lines(ask, result, use), "stream")
    assert outline(found) == [TALK[0], TALK[3], TALK[4], TALK[3]]


def test_messages_with_a_text_and_human_prompts_come_in() -> None:
    messages = [{"role": "human", "text": "Look."}, {"role": "assistant", "text": "One file."}]
    found = convert_one(of_value({"id": "x", "messages": messages}), "one file")
    assert outline(found) == [TALK[0], TALK[-1]]


def test_a_file_that_begins_in_the_middle_of_a_session_of_pi_comes_in(place: Place) -> None:
    lines = [
        {"type": "message", "id": str(number), "parentId": str(number - 1), "timestamp": AT,
         "message": {"role": role, "content": words}}
        for number, (role, words) in enumerate([("user", "Look."), ("assistant", "One file.")], 7)
    ]  # fmt: skip
    file = place.cwd / "x.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    (brought,) = place.json("import", str(file))["imported"]
    assert (brought["kind"], brought["messages"], brought["leftOut"]) == ("pi", 2, {})
    assert "One file." in place.clew("show", brought["sessionId"])
    assert convert_one(of_lines(*factory()), "factory").messages


def test_an_exported_list_comes_in_as_its_conversations(place: Place) -> None:
    file = place.cwd / "conversations.json"
    other = claude_ai() | {"uuid": "6b7f2f3c-0d7c-4a53-9d5c-8a1b2c3d4e5f", "name": "Another"}
    file.write_text(json.dumps([claude_ai(), other]), "utf-8")
    brought = place.json("import", str(file))["imported"]
    assert [session["title"] for session in brought] == ["A look", "Another"]
