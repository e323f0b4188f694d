"""Each format is recognized by its content alone, and each item of it is accounted for."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.cline import SCREEN
from clew.record.exchange.formats.frame import Source
from clew.record.exchange.formats.gemini import OLDER
from clew.record.exchange.formats.reasons import (
    CONTEXT_COUNT,
    EVENT,
    INSTRUCTIONS,
    LONE_PROMPT,
    NOTICE,
    SECOND_RESULT,
    SETTINGS,
)
from clew.record.exchange.formats.registry import FORMATS, find_format
from clew.record.exchange.source import read_source
from tests.commands.sessions.place import Place
from tests.record.exchange.sources import (
    convert_as,
    convert_one,
    of_lines,
    of_value,
    outline,
)

AT = "2026-03-04T05:06:07.890Z"
MS = 1_772_600_767_890
Json = dict[str, Any]
TALK = [
    "user text: Look.",
    "assistant thinking: hm",
    "assistant text: I look.",
    'assistant tool_use: {"command": "ls"}',
    "user tool_result: a.txt",
    "assistant text: One file.",
]


def gemini() -> Json:
    result = {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "a.txt"}}}
    return {
        "sessionId": "5b7f2f3c-0d7c-4a53-9d5c-8a1b2c3d4e5f",
        "projectHash": "abc",
        "startTime": AT,
        "lastUpdated": AT,
        "summary": "A look",
        "messages": [
            {"id": "1", "timestamp": AT, "type": "user", "content": [{"text": "Look."}]},
            {
                "id": "2", "timestamp": AT, "type": "gemini", "content": "I look.", "model": "g",
                "thoughts": [{"subject": "", "description": "hm"}],
                "tokens": {"input": 9, "output": 2, "cached": 4, "thoughts": 1, "total": 12},
                "toolCalls": [{"id": "c1", "name": "shell", "args": {"command": "ls"},
                               "status": "success", "result": [result]}],
            },
            {"id": "3", "timestamp": AT, "type": "info", "content": "Update available"},
            {"id": "4", "timestamp": AT, "type": "gemini", "content": "One file."},
        ],
    }  # fmt: skip


def gemini_lines() -> list[Json]:
    head = gemini()
    messages = head.pop("messages")
    return [
        head,
        messages[0],
        messages[1] | {"toolCalls": []},
        {"$set": {"lastUpdated": AT}},
        messages[1],
        {"id": "x", "timestamp": AT, "type": "user", "content": "gone"},
        {"$rewindTo": "x"},
        messages[3],
    ]


def qwen() -> list[Json]:
    def line(own: str, parent: str | None, kind: str, parts: list[Json], **more: Any) -> Json:
        role = "model" if kind == "assistant" else "user"
        return {
            "uuid": own, "parentUuid": parent, "sessionId": "s", "timestamp": AT, "type": kind,
            "cwd": "/w", "message": {"role": role, "parts": parts}, **more,
        }  # fmt: skip

    called = {"functionCall": {"id": "c1", "name": "shell", "args": {"command": "ls"}}}
    answered = {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "a.txt"}}}
    used = {"promptTokenCount": 9, "candidatesTokenCount": 2, "cachedContentTokenCount": 4}
    return [
        line("1", None, "user", [{"text": "Look."}]),
        line("2", "1", "assistant", [{"text": "hm", "thought": True}, {"text": "I look."}, called],
             usageMetadata=used),
        line("3", "2", "tool_result", [answered]),
        {"uuid": "4", "parentUuid": "3", "sessionId": "s", "timestamp": AT, "type": "system",
         "subtype": "custom_title", "systemPayload": {"customTitle": "A look"}},
        line("5", "4", "assistant", [{"text": "One file."}]),
    ]  # fmt: skip


def opencode_messages() -> list[Json]:
    def part(own: str, kind: str, **more: Any) -> Json:
        return {"id": own, "type": kind, **more}

    state = {"status": "completed", "input": {"command": "ls"}, "output": "a.txt",
             "time": {"start": MS, "end": MS}}  # fmt: skip
    return [
        {"info": {"id": "msg_1", "role": "user", "time": {"created": MS}},
         "parts": [part("prt_1", "text", text="Look.")]},
        {"info": {"id": "msg_2", "role": "assistant", "time": {"created": MS + 1}, "modelID": "m",
                  "cost": 0.5, "tokens": {"input": 5, "output": 2, "reasoning": 1,
                                          "cache": {"read": 4, "write": 0}}},
         "parts": [
             part("prt_2", "step-start"), part("prt_3", "reasoning", text="hm"),
             part("prt_4", "text", text="I look."),
             part("prt_5", "tool", tool="bash", callID="c1", state=state),
             part("prt_6", "step-start"), part("prt_7", "text", text="One file."),
         ]},
    ]  # fmt: skip


def opencode() -> Json:
    info = {"id": "ses_1", "title": "A look", "directory": "/w", "time": {"created": MS}}
    return {"info": info, "messages": opencode_messages()}


def kimi_context() -> list[Json]:
    made = {"type": "function", "id": "c1",
            "function": {"name": "Shell", "arguments": '{"command":"ls"}'}}  # fmt: skip
    return [
        {"role": "_system_prompt", "content": "be good"},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "think", "think": "hm"},
                                          {"type": "text", "text": "I look."}],
         "tool_calls": [made]},
        {"role": "tool", "content": [{"type": "text", "text": "a.txt"}], "tool_call_id": "c1"},
        {"role": "_usage", "token_count": 5},
        {"role": "assistant", "content": "One file."},
    ]  # fmt: skip


def kimi_wire() -> list[Json]:
    def event(kind: str, **payload: Any) -> Json:
        return {"timestamp": MS / 1000, "message": {"type": kind, "payload": payload}}

    result = {"is_error": False, "output": "a.txt", "message": ""}
    used = {"input_other": 5, "output": 2, "input_cache_read": 4, "input_cache_creation": 0}
    return [
        {"type": "metadata", "protocol_version": "1.2"},
        event("TurnBegin", user_input="Look."),
        event("StepBegin", n=1),
        event("ContentPart", type="think", think="hm"),
        event("ContentPart", type="text", text="I look."),
        event("ToolCall", type="function", id="c1", function={"name": "Shell", "arguments": ""}),
        event("ToolCallPart", arguments_part='{"command":'),
        event("ToolCallPart", arguments_part='"ls"}'),
        event("StatusUpdate", token_usage=used),
        event("ToolResult", tool_call_id="c1", return_value=result),
        event("ContentPart", type="text", text="One file."),
        event("TurnEnd"),
    ]


def kimi_code() -> list[Json]:
    def step(kind: str, **more: Any) -> Json:
        event = {"type": kind, **more}
        return {"type": "context.append_loop_event", "event": event, "time": MS}

    prompt = {"role": "user", "content": [{"type": "text", "text": "Look."}],
              "origin": {"kind": "user"}}  # fmt: skip
    return [
        {"type": "metadata", "protocol_version": "1.4", "created_at": MS},
        {"type": "config.update", "cwd": "/w", "modelAlias": "k2", "time": MS},
        {"type": "context.append_message", "message": prompt, "time": MS},
        step("content.part", part={"type": "think", "think": "hm"}),
        step("content.part", part={"type": "text", "text": "I look."}),
        step("tool.call", toolCallId="c1", name="Bash", args={"command": "ls"}),
        step("step.end", usage={"inputOther": 5, "output": 2, "inputCacheRead": 4}),
        step("tool.result", toolCallId="c1", result={"output": "a.txt"}),
        step("content.part", part={"type": "text", "text": "One file."}),
    ]


def chat() -> list[Json]:
    """Messages of chat completions."""
    made = {"id": "c1", "type": "function",
            "function": {"name": "bash", "arguments": '{"command": "ls"}'}}  # fmt: skip
    return [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm",
         "tool_calls": [made]},
        {"role": "tool", "content": "a.txt", "tool_call_id": "c1"},
        {"role": "assistant", "content": "One file."},
    ]  # fmt: skip


def blocks() -> list[Json]:
    """Messages of the Messages API."""
    return [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
    ]  # fmt: skip


def vibe() -> Json:
    about = {"session_id": "v1", "start_time": AT, "git_branch": "main",
             "environment": {"working_directory": "/w"}}  # fmt: skip
    return {"metadata": about, "messages": chat()}


def goose_lines() -> list[Json]:
    called = {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}
    returned = {"status": "success", "value": [{"type": "text", "text": "a.txt"}]}
    return [
        {"working_dir": "/w", "description": "A look", "message_count": 4, "total_tokens": 9},
        {"role": "user", "created": MS // 1000, "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "created": MS // 1000, "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "I look."},
            {"type": "toolRequest", "id": "c1", "toolCall": called}]},
        {"role": "user", "created": MS // 1000, "content": [
            {"type": "toolResponse", "id": "c1", "toolResult": returned}]},
        {"role": "assistant", "created": MS // 1000, "content": [
            {"type": "text", "text": "One file."}]},
    ]  # fmt: skip


def copilot() -> list[Json]:
    def event(kind: str, **data: Any) -> Json:
        return {"type": kind, "data": data, "id": kind, "timestamp": AT, "parentId": None}

    made = {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}}
    return [
        event("session.start", sessionId="cp", context={"cwd": "/w", "branch": "main"}),
        event("user.message", content="Look.", attachments=[]),
        event("assistant.turn_start", turnId="0"),
        event("assistant.message", content="I look.", reasoningText="hm", toolRequests=[made]),
        event("tool.execution_start", toolCallId="c1", toolName="bash", arguments={}),
        event(
            "tool.execution_complete", toolCallId="c1", success=True, result={"content": "a.txt"}
        ),
        event("assistant.message", content="One file.", toolRequests=[]),
    ]


def cursor_lines() -> list[Json]:
    called = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
    return [
        {"role": "user", "message": {"content": [
            {"type": "text", "text": "<user_query>\nLook.\n</user_query>"}]}},
        {"role": "assistant", "message": {"content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}, called]}},
        {"role": "user", "message": {"content": [result]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "One file."}]}},
        {"type": "turn_ended", "status": "success"},
    ]  # fmt: skip


def amp() -> Json:
    messages = blocks()
    messages[2]["content"] = [
        {"type": "tool_result", "toolUseID": "c1", "run": {"status": "done", "result": "a.txt"}}
    ]
    for message in messages:
        message["meta"] = {"sentAt": MS}
    tree = {"uri": "file:///w%20x"}
    return {"v": 1, "id": "T-1", "title": "A look", "created": MS, "messages": messages,
            "env": {"initial": {"trees": [tree]}}}  # fmt: skip


def continued() -> Json:
    made = {"id": "c1", "type": "function",
            "function": {"name": "bash", "arguments": '{"command": "ls"}'}}  # fmt: skip
    answer = {"role": "assistant", "content": "I look.", "toolCalls": [made]}
    state = {"toolCallId": "c1", "status": "done", "output": [{"content": "a.txt"}]}
    return {
        "sessionId": "c-1", "title": "A look", "workspaceDirectory": "file:///w",
        "history": [
            {"message": {"role": "user", "content": "Look."}, "contextItems": []},
            {"message": {"role": "thinking", "content": "hm"}},
            {"message": answer, "toolCallStates": [state]},
            {"message": {"role": "tool", "content": "a.txt", "toolCallId": "c1"}},
            {"message": {"role": "assistant", "content": "One file."}},
        ],
    }  # fmt: skip


def factory() -> list[Json]:
    lines = [{"type": "message", "timestamp": AT, "message": message} for message in blocks()]
    return [{"type": "session_start", "id": "f", "title": "A look", "cwd": "/w"}, *lines]


def grok() -> list[Json]:
    made = {"id": "c1", "name": "shell", "arguments": '{"command": "ls"}'}
    return [
        {"type": "system", "content": "be good"},
        {"type": "user", "content": [{"type": "text", "text": "Look."}], "prompt_index": 0},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "assistant", "content": "I look.", "tool_calls": [made], "model_id": "grok"},
        {"type": "tool_result", "tool_call_id": "c1", "content": "a.txt"},
        {"type": "assistant", "content": "One file.", "model_id": "grok"},
    ]


def atif() -> Json:
    made = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    observed = {"results": [{"source_call_id": "c1", "content": "a.txt"}]}
    used = {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5}
    return {
        "schema_version": "ATIF-v1.4", "session_id": "a", "agent": {"name": "x", "version": "1"},
        "steps": [
            {"step_id": 1, "timestamp": AT, "source": "system", "message": "be good"},
            {"step_id": 2, "timestamp": AT, "source": "user", "message": "Look."},
            {"step_id": 3, "timestamp": AT, "source": "agent", "message": "I look.",
             "reasoning_content": "hm", "tool_calls": [made], "observation": observed,
             "metrics": used},
            {"step_id": 4, "timestamp": AT, "source": "agent", "message": "One file."},
        ],
    }  # fmt: skip


LEFT_OUT = {INSTRUCTIONS: 1}
CASES: dict[str, tuple[str, Source, Json]] = {
    "gemini": ("gemini", of_value(gemini()), {NOTICE: 1}),
    "gemini lines": (
        "gemini", of_lines(*gemini_lines()), {OLDER: 1}),
    "qwen": ("qwen", of_lines(*qwen()), {}),
    "opencode": ("opencode", of_value(opencode()), {"step marker": 2}),
    "kimi context": (
        "kimi", of_lines(*kimi_context()),
        LEFT_OUT | {"checkpoint marker": 1, CONTEXT_COUNT: 1}),
    "kimi wire": (
        "kimi", of_lines(*kimi_wire()),
        {EVENT: 2}),
    "Kimi Code": ("kimi", of_lines(*kimi_code()), {SETTINGS: 1}),
    "vibe": ("vibe", of_value(vibe()), LEFT_OUT),
    "goose": ("goose", of_lines(*goose_lines()), {}),
    "goose export": (
        "goose", of_value({"id": "g", "working_dir": "/w", "conversation": goose_lines()[1:]}), {}),
    "copilot": (
        "copilot", of_lines(*copilot()),
        {EVENT: 2}),
    "cline": (
        "cline",
        of_value(blocks(), beside={"task_metadata.json": b"{}"}.get), {}),
    "cursor": ("cursor", of_lines(*cursor_lines()), {"end of a turn": 1}),
    "amp": ("amp", of_value(amp()), {}),
    "continue": ("continue", of_value(continued()), {SECOND_RESULT: 1}),
    "factory": ("factory", of_lines(*factory()), {}),
    "grok": ("grok", of_lines(*grok()), LEFT_OUT),
    "ATIF": ("trajectory", of_value(atif()), LEFT_OUT),
    "mini-swe-agent": (
        "trajectory",
        of_value({"trajectory_format": "mini-swe-agent-1", "messages": chat()}), LEFT_OUT),
    "SWE-agent": ("trajectory", of_value({"trajectory": [], "history": chat()}), LEFT_OUT),
    "chat completions": ("one file", of_value(chat()), LEFT_OUT),
    "chat in lines": ("one file", of_lines(*chat()), LEFT_OUT),
    "Messages API": ("one file", of_value({"model": "m", "messages": blocks()}), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_conversation_comes_in_whole_whoever_wrote_it(case: str) -> None:
    name, source, losses = CASES[case]
    found = convert_one(source, name)
    told = [words for words in outline(found) if words != "user text: gone"]
    assert told == TALK
    assert found.tally.losses == losses
    assert {form.name for form in FORMATS if form.recognizes(source)} <= {name}


def test_usage_cost_and_titles_come_along() -> None:
    for name in ("gemini", "qwen", "opencode", "kimi wire", "Kimi Code", "ATIF"):
        form, source, _ = CASES[name]
        found = convert_one(source, form)
        usage = next(m["message"]["usage"] for m in found.messages if m["type"] == "assistant")
        assert usage["cache_read_input_tokens"] == 4, name
        assert usage["input_tokens"] == 5, name
        assert usage["output_tokens"] in (2, 3), name
    for name in ("opencode", "ATIF"):
        form, source, _ = CASES[name]
        assert convert_one(source, form).messages[1]["costUSD"] == 0.5
    titles = {name: convert_one(s, form).title for name, (form, s, _) in CASES.items()}
    titled = {"gemini", "gemini lines", "qwen", "opencode", "goose", "amp", "continue", "factory"}
    assert {name for name, title in titles.items() if title == "A look"} == titled
    times = {m["timestamp"] for m in convert_one(CASES["opencode"][1], "opencode").messages}
    assert min(times) == "2026-03-04T05:06:07.890Z"


def test_what_was_rewound_in_gemini_stays_as_a_branch() -> None:
    found = convert_one(of_lines(*gemini_lines()), "gemini")
    last, gone = found.messages[-1], found.messages[-2]
    assert gone["message"]["content"] == "gone"
    assert found.parents == {last["uuid"]: found.messages[-3]["uuid"]}


def write_database(path: Path, script: str, **rows: list[tuple[Any, ...]]) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    for table, values in rows.items():
        marks = ",".join("?" * len(values[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.commit()
    connection.close()
    return path


def opencode_database(folder: Path) -> Path:
    messages, parts = [], []
    for session, listed in (("ses_1", opencode_messages()), ("ses_2", opencode_messages()[:1])):
        for message in listed:
            own = f"{session}{message['info']['id']}"
            messages.append((own, session, MS, MS, json.dumps(message["info"])))
            parts += [
                (f"{own}{part['id']}", own, session, MS, MS, json.dumps(part))
                for part in message["parts"]
            ]
    return write_database(
        folder / "opencode.db",
        "CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, directory TEXT);"
        "CREATE TABLE message"
        " (id TEXT, session_id TEXT, time_created INT, time_updated INT, data TEXT);"
        "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INT,"
        " time_updated INT, data TEXT);",
        session=[("ses_1", None, "A look", "/w"), ("ses_2", "ses_1", "Dig", "/w")],
        message=messages,
        part=parts,
    )


def crush_database(folder: Path) -> Path:
    def part(kind: str, **data: Any) -> Json:
        return {"type": kind, "data": data}

    said = [part("reasoning", thinking="hm"), part("text", text="I look."),
            part("tool_call", id="c1", name="bash", input='{"command":"ls"}')]  # fmt: skip
    rows = [
        ("1", "s", "user", [part("text", text="Look.")]),
        ("2", "s", "assistant", said),
        ("3", "s", "tool", [part("tool_result", tool_call_id="c1", content="a.txt")]),
        ("4", "s", "assistant", [part("text", text="One file."), part("finish", reason="end")]),
        ("5", "m$$c1", "user", [part("text", text="Dig.")]),
    ]
    return write_database(
        folder / "crush.db",
        "CREATE TABLE sessions (id TEXT, parent_session_id TEXT, title TEXT, created_at INT);"
        "CREATE TABLE messages"
        " (id TEXT, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INT);",
        sessions=[("s", None, "A look", MS), ("m$$c1", "s", "Dig", MS)],
        messages=[(a, b, c, json.dumps(d), "m", MS) for a, b, c, d in rows],
    )


def goose_database(folder: Path) -> Path:
    rows = [
        (number, "g1", line["role"], json.dumps(line["content"]), line["created"])
        for number, line in enumerate(goose_lines()[1:])
    ]
    return write_database(
        folder / "sessions.db",
        "CREATE TABLE sessions (id TEXT, description TEXT, working_dir TEXT, created_at TEXT);"
        "CREATE TABLE messages"
        " (id INT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INT);",
        sessions=[("g1", "A look", "/w", "2026-03-04 05:06:07")],
        messages=rows,
    )


def cursor_database(folder: Path) -> Path:
    tool = {"name": "shell", "toolCallId": "c1", "rawArgs": '{"command": "ls"}', "result": "a.txt"}
    headers = [{"bubbleId": own} for own in ("1", "2", "3")]
    composer = {"name": "A look", "createdAt": MS, "fullConversationHeadersOnly": headers}
    bubbles = {
        "1": {"type": 1, "text": "Look.", "workspaceUris": ["file:///w"]},
        "2": {"type": 2, "text": "I look.", "thinking": {"text": "hm"}, "toolFormerData": tool},
        "3": {"type": 2, "text": "One file."},
    }
    rows = [("composerData:k", json.dumps(composer))]
    rows += [(f"bubbleId:k:{own}", json.dumps(value)) for own, value in bubbles.items()]
    return write_database(
        folder / "state.vscdb",
        "CREATE TABLE ItemTable (key TEXT, value BLOB);"
        "CREATE TABLE cursorDiskKV (key TEXT, value BLOB);",
        cursorDiskKV=rows,
    )


def cursor_cli_database(folder: Path) -> Path:
    said = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "I look."},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell",
             "args": {"command": "ls"}}]  # fmt: skip
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "a.txt"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": said},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": "One file."},
    ]
    ids = [f"{number:02x}" * 32 for number in range(1, 6)]
    root = b"".join(b"\x0a\x20" + bytes.fromhex(own) for own in ids[1:])
    about = {"agentId": "a", "latestRootBlobId": ids[0], "name": "A look", "createdAt": MS}
    blobs = [(ids[0], root)]
    blobs += [(own, json.dumps(m).encode()) for own, m in zip(ids[1:], messages, strict=True)]
    return write_database(
        folder / "store.db",
        "CREATE TABLE blobs (id TEXT, data BLOB); CREATE TABLE meta (key TEXT, value TEXT);",
        blobs=blobs,
        meta=[("0", json.dumps(about).encode().hex())],
    )


DATABASES = {
    "opencode": opencode_database,
    "crush": crush_database,
    "goose": goose_database,
    "cursor": cursor_database,
    "cursor CLI": cursor_cli_database,
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_comes_in_with_its_subagents(name: str, tmp_path: Path) -> None:
    source = read_source(DATABASES[name](tmp_path))
    form = find_format(source)
    assert form is not None
    assert form.name == name.partition(" ")[0]
    (found,) = convert_as(form, source)
    assert outline(found) == TALK
    assert found.title == "A look"
    agents = {"opencode": ["ses-2"], "crush": ["m--c1"]}.get(name, [])
    assert [agent.agent_id for agent in found.agents] == agents


def test_older_chats_of_cursor_come_in(tmp_path: Path) -> None:
    bubbles = [{"type": "user", "text": "Look."}, {"type": "ai", "rawText": "I look."}]
    state = json.dumps({"root": {"children": [{"text": "Lo"}, {"text": "ok."}]}})
    tabs = [
        {"tabId": "a", "chatTitle": "A look", "bubbles": bubbles},
        {"tabId": "b", "bubbles": [{"type": "user", "initText": state}]},
        {"tabId": "c", "bubbles": []},
    ]
    key = "workbench.panel.aichat.view.aichat.chatdata"
    path = write_database(
        tmp_path / "state.vscdb",
        "CREATE TABLE ItemTable (key TEXT, value BLOB);",
        ItemTable=[(key, json.dumps({"tabs": tabs}).encode())],
    )
    source = read_source(path)
    form = find_format(source)
    assert form is not None
    found = convert_as(form, source)
    told = [outline(converted) for converted in found]
    assert told == [["user text: Look.", "assistant text: I look."], ["user text: Look."]]
    write_database(tmp_path / "empty.db", "CREATE TABLE ItemTable (key TEXT, value BLOB);")
    empty = read_source(tmp_path / "empty.db")
    with pytest.raises(SessionError, match="contains no conversation"):
        convert_as(form, empty)


def test_the_folder_of_opencode_is_read_from_its_session_file(tmp_path: Path, place: Place) -> None:
    storage = tmp_path / "storage"
    for message in opencode_messages():
        own = message["info"]["id"]
        for kind, values in (
            ("message/ses_1", [message["info"]]),
            (f"part/{own}", message["parts"]),
        ):
            folder = storage / kind
            folder.mkdir(parents=True, exist_ok=True)
            for value in values:
                part = json.dumps(value | {"sessionID": "ses_1"})
                (folder / f"{value['id']}.json").write_text(part, "utf-8")
    sessions = storage / "session" / "project"
    sessions.mkdir(parents=True)
    info = opencode()["info"] | {"projectID": "project"}
    (sessions / "ses_1.json").write_text(json.dumps(info), "utf-8")
    (brought,) = place.json("import", str(sessions / "ses_1.json"))["imported"]
    assert (brought["kind"], brought["title"], brought["messages"]) == ("opencode", "A look", 6)
    single = storage / "message" / "ses_1" / "msg_1.json"
    refused = place.json("import", str(single), code=2)["refused"]
    assert "part of an opencode session" in refused[0]["reason"]


def test_the_history_of_aider_comes_in_chat_by_chat(tmp_path: Path, place: Place) -> None:
    history = (
        "\n# aider chat started at 2026-03-04 05:06:07\n\n> Aider v0.86\n> Model: m with diff\n\n"
        "#### Look.  \n#### Twice.  \n\nI look.\n\n> Tokens: 5 sent\n\n#### Again.\n\nOne file.\n"
        "\n# aider chat started at 2026-03-05 05:06:07\n\n> nothing\n"
        "\n# aider chat started at 2026-03-06 05:06:07\n\n#### /ask why\n\nBecause.\n"
    )
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(history, "utf-8")
    first, second = place.json("import", str(path))["imported"]
    assert (first["kind"], first["messages"], second["messages"]) == ("aider", 4, 2)
    assert first["leftOut"] == {"program output": 2}
    told = place.clew("show", first["sessionId"])
    assert "Look.\nTwice." in told.replace("\n  ", "\n")
    refused = place.json("import", str(path), code=2)
    assert len(refused["refused"]) == 2
    assert all("already exists" in item["reason"] for item in refused["refused"])


def test_a_history_of_specstory_comes_in() -> None:
    text = """<!-- Generated by SpecStory, Markdown v2.1.0 -->

# A look

<!-- Claude Code Session aaaa1111-2222-4333-8444-000000000001 (2026-03-04 05:06:07Z) -->

_**User (2026-03-04 05:06:07Z)**_

Look.

---

_**Agent (m 2026-03-04 05:06:08Z)**_

<think><details><summary>Thought Process</summary>
hm</details></think>

I look.

<tool-use data-tool-type="shell" data-tool-name="Bash"><details>
<summary>Tool use: **Bash**</summary>
`ls`
a.txt</details></tool-use>

One file.

---

_**Agent - sidechain (m 2026-03-04 05:06:09Z)**_

Dug.

---

_**User**_

Thanks.
"""
    found = convert_one(Source(name="x.md", text=text), "specstory")
    assert outline(found) == [
        "user text: Look.",
        "assistant thinking: Thought Process\nhm",
        "assistant text: I look.",
        "assistant tool_use: null",
        "user tool_result: Tool use: **Bash**\n`ls`\na.txt",
        "assistant text: One file.",
        "user text: Thanks.",
    ]
    _, _, bare = text.partition("\n")
    assert outline(convert_one(Source(name="x.md", text=bare), "specstory")) == outline(found)
    assert find_format(Source(name="x.md", text=bare.replace("_**", "**"))) is None
    head = text.partition("_**")[0]
    assert convert_one(Source(name="x.md", text=head), "specstory").messages == []
    assert found.source_id == "aaaa1111-2222-4333-8444-000000000001"
    assert [m["message"]["content"][0]["text"] for m in found.agents[0].messages] == ["Dug."]
    assert found.messages[1]["message"]["model"] == "m"
    assert found.messages[1]["timestamp"] == "2026-03-04T05:06:08.000Z"
    assert len(found.tally.changed) == 1
    assert found.tally.items == 4


def test_subagents_of_copilot_are_subagents() -> None:
    lines = copilot()
    started = {"toolCallId": "c1", "agentName": "digger", "agentDescription": "Dig deep"}
    lines[4:4] = [
        {"type": "subagent.started", "data": started, "timestamp": AT},
        {"type": "user.message", "data": {"content": "Dig.", "parentToolCallId": "c1"}},
    ]
    found = convert_one(of_lines(*lines), "copilot")
    assert outline(found) == TALK
    (agent,) = found.agents
    assert agent.metadata == {
        "agentType": "digger", "description": "Dig deep", "toolUseId": "c1",
    }  # fmt: skip
    assert [m["message"]["content"] for m in agent.messages] == ["Dig."]


def test_a_chat_of_vs_code_comes_in() -> None:
    details = {"input": '{"command": "ls"}', "output": [{"value": "a.txt"}], "isError": False}
    response = [
        {"kind": "thinking", "value": "hm"},
        {"value": "I "},
        {"value": "look."},
        {"kind": "toolInvocationSerialized", "toolId": "run", "resultDetails": details},
        {"kind": "undoStop"},
        {"kind": "markdownContent", "content": {"value": "One file."}},
    ]
    request = {"message": {"text": "Look."}, "response": response, "timestamp": MS, "modelId": "m"}
    chat_value = {"responderUsername": "GitHub Copilot", "requests": [request]}
    found = convert_one(of_value(chat_value), "copilot")
    assert outline(found) == TALK
    assert found.tally.losses == {"part of type undoStop": 1}


def test_the_screen_of_cline_comes_in_when_it_is_all_there_is() -> None:
    def line(kind: str, text: Any, asks: bool = False, **more: Any) -> Json:
        words = text if isinstance(text, str) else json.dumps(text)
        name = "ask" if asks else "say"
        return {"ts": MS, "type": name, name: kind, "text": words, **more}

    found = convert_one(
        of_value(
            [
                line("text", "Look."),
                line("api_req_started", {"tokensIn": 5, "tokensOut": 2, "cacheReads": 4}),
                line("reasoning", "hm"),
                line("text", "I look."),
                line("command", "ls", asks=True),
                line("command_output", "a.txt"),
                line("text", "half", partial=True),
                line("completion_result", "One file."),
                line("checkpoint_created", ""),
            ]
        ),
        "cline",
    )
    assert outline(found) == TALK
    assert found.tally.losses == {
        "unfinished message": 1, SCREEN: 1,
    }  # fmt: skip


def test_saved_chats_and_prompts_of_gemini_come_in() -> None:
    called = {"functionCall": {"name": "shell", "args": {"command": "ls"}}}
    answered = {"functionResponse": {"name": "shell", "response": {"output": "a.txt"}}}
    contents = [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "I look."}, called]},
        {"role": "user", "parts": [answered]},
        {"role": "model", "parts": [{"text": "One file."}]},
    ]
    for value in (contents, {"history": contents, "authType": "x"}):
        assert outline(convert_one(of_value(value), "gemini")) == TALK
    prompts = [
        {"sessionId": "s", "messageId": 0, "type": "user", "message": "Look.", "timestamp": AT}
    ]
    found = convert_one(of_value(prompts), "gemini")
    assert outline(found) == TALK[:1]
    assert found.tally.changed == {LONE_PROMPT: 1}


def test_a_file_of_no_agent_is_no_session() -> None:
    for value in (
        {"name": "x", "version": "1.0.0", "dependencies": {}},
        {"id": "x", "messages": [{"text": "a"}]},
        {"messages": {"hello": "Hello"}, "locale": "en"},
        [{"id": 1, "title": "x"}],
        [],
        {"history": []},
        {"sessionId": "x", "requests": []},
        {"type": "session", "messages": []},
    ):
        assert find_format(of_value(value)) is None, value
    for lines in ([{"type": "user", "name": "Ann"}], [{"role": "admin", "content": "x"}]):
        assert find_format(of_lines(*lines)) is None, lines


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_several_programs_could_have_written_is_refused() -> None:
    both = gemini() | {"responderUsername": "x", "requests": []}
    with pytest.raises(SessionError, match="GitHub Copilot and Gemini CLI"):
        find_format(of_value(both))


def test_a_session_of_pi_may_lack_its_first_line() -> None:
    """Some files are the end of a longer one."""
    say = {"role": "user", "content": [{"type": "text", "text": "Look."}]}
    tell = {"role": "assistant", "content": [{"type": "text", "text": "Seen."}], "model": "m"}
    found = convert_one(
        of_lines(
            {"type": "message", "id": "b", "parentId": "a", "timestamp": AT, "message": say},
            {"type": "message", "id": "c", "parentId": "b", "timestamp": AT, "message": tell},
        ),
        "pi",
    )
    assert outline(found) == ["user text: Look.", "assistant text: Seen."]
