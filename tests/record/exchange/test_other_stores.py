"""Sessions that a program stores in an unusual form: compressed, in a folder, or rewritten."""

import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.codex import FORMAT as CODEX
from clew.record.exchange.formats.gemini import FORMAT as GEMINI
from clew.record.exchange.formats.gemini import OLDER
from clew.record.exchange.formats.openhands import FORMAT as OPENHANDS
from clew.record.exchange.formats.reasons import (
    EVENT,
    FAILED_RESPONSE,
    INSTRUCTIONS,
    NO_SUMMARY,
    NO_TEXT,
    REDACTED,
    REPEATED,
    STATE,
)
from clew.record.exchange.formats.vibe import FORMAT as VIBE
from clew.record.exchange.formats.vibe import STEP
from clew.record.exchange.source import COMPRESSED, DAMAGED, decompress, read_source
from clew.record.transcript.load import load
from tests.commands.sessions.place import Place
from tests.record.exchange.sources import convert_as, convert_one, of_lines, of_value, outline
from tests.record.exchange.test_formats import AT, TALK, blocks

Json = dict[str, Any]


def say(text: str, role: str = "user") -> Json:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def rollout(*payloads: Json) -> list[Json]:
    """Return the lines of a rollout; payloads without a role or a call are events."""
    head = {"id": "0199f0aa-1111-7000-8000-000000000001", "cwd": "/w"}
    lines: list[Json] = [{"timestamp": AT, "type": "session_meta", "payload": head}]
    for payload in payloads:
        kind = "response_item" if "role" in payload else "event_msg"
        lines.append({"timestamp": AT, "type": kind, "payload": payload})
    return lines


def write_lines(path: Path, lines: list[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def texts(path: Path) -> list[Any]:
    return [message["message"]["content"] for message in load(path).messages]


# Codex compresses a rollout that was not used for some days.


def test_a_compressed_rollout_comes_in(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = write_lines(place.cwd / "rollout-1.jsonl", rollout(say("Look."), say("A.", "assistant")))
    program = shutil.which("zstd")
    assert program is not None
    subprocess.run([program, "-q", "--rm", str(path)], check=True)
    (brought,) = place.json("import", f"{path}.zst")["imported"]
    assert brought["kind"] == "codex"
    assert texts(Path(brought["path"])) == ["Look.", [{"type": "text", "text": "A."}]]
    subprocess.run([program, "-dq", f"{path}.zst"], check=True)
    assert "already exists" in place.json("import", str(path), code=2)["refused"][0]["reason"]


def test_decompression_uses_a_module_or_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decompress(b"x", ("no.such.module", "tests.record.exchange.zstd_module")) == b"x!"
    with pytest.raises(SessionError, match=DAMAGED):
        decompress(b"", ("tests.record.exchange.zstd_module",))
    with pytest.raises(SessionError, match=DAMAGED):
        decompress(b"\x28\xb5\x2f\xfd", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError) as caught:
        decompress(b"\x28\xb5\x2f\xfd", ())
    assert str(caught.value) == COMPRESSED


# Turns that Codex removed from the conversation.


def test_turns_that_codex_rolled_back_are_a_branch(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lines = rollout(
        say("<environment_context>x</environment_context>"),
        say("one"), say("A.", "assistant"), say("two"), say("B.", "assistant"),
        {"type": "thread_rolled_back", "num_turns": 1}, say("three"), say("C.", "assistant"),
        {"type": "thread_name_updated", "thread_name": "Three"},
    )  # fmt: skip
    path = write_lines(place.cwd / "rollout-1.jsonl", lines)
    (brought,) = place.json("import", str(path))["imported"]
    assert brought["title"] == "Three"
    said = json.dumps(texts(Path(brought["path"])))
    assert "one" in said
    assert "three" in said
    assert "two" not in said
    assert "two" in place.clew("tree", brought["sessionId"])


@pytest.mark.parametrize(
    ("turns", "kept"), [(1, ["one", "A."]), (9, ["one", "two"]), (0, ["one", "two"])]
)
def test_a_session_that_ends_with_a_rollback_ends_there(
    tmp_path: Path, turns: int, kept: list[str]
) -> None:
    place = Place(tmp_path)
    lines = rollout(
        say("one"), say("A.", "assistant"), say("two"), say("B.", "assistant"),
        {"type": "thread_rolled_back", "num_turns": turns},
    )  # fmt: skip
    path = write_lines(place.cwd / "rollout-1.jsonl", lines)
    (brought,) = place.json("import", str(path))["imported"]
    said = json.dumps(texts(Path(brought["path"])))
    assert all(words in said for words in kept)
    assert ("two" in said) == ("two" in kept)


def test_encrypted_reasoning_and_a_title_leave_a_sound_session_of_its_own_time(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    lines = [
        *rollout(say("one")),
        {"timestamp": AT, "type": "response_item", "payload": sealed},
        *rollout(say("A.", "assistant"),
                 {"type": "thread_name_updated", "thread_name": "Named"})[1:],
    ]  # fmt: skip
    path = write_lines(place.cwd / "rollout-1.jsonl", lines)
    (brought,) = place.json("import", str(path))["imported"]
    assert brought["title"] == "Named"
    assert "warning" not in place.clew("check", brought["sessionId"])
    assert Path(brought["path"]).stat().st_mtime == datetime.fromisoformat(AT).timestamp()


def test_events_of_codex_are_named_as_what_they_are() -> None:
    lines = rollout(
        {"type": "user_message", "message": "one"},
        {"type": "error", "message": "x"}, {"type": "turn_aborted"}, {"type": "exec_command_end"},
        {"type": "thread_rolled_back", "num_turns": None},
        {"type": "thread_rolled_back", "num_turns": 1}, {"type": "user_message", "message": "two"},
    )  # fmt: skip
    (found,) = convert_as(CODEX, of_lines(*lines))
    assert found.tally.losses == {FAILED_RESPONSE: 1, EVENT: 2, REPEATED: 1}
    assert found.parents == {found.messages[1]["uuid"]: None}


# Gemini CLI writes the whole conversation again when it resumes or compresses a session.


def gemini_message(own: str, text: str, kind: str = "user", **more: Any) -> Json:
    return {"id": own, "timestamp": AT, "type": kind, "content": [{"text": text}], **more}


def gemini_source(*records: Json) -> Any:
    head = {"sessionId": "5b7f2f3c-0d7c-4a53-9d5c-8a1b2c3d4e5f", "projectHash": "a",
            "startTime": AT}  # fmt: skip
    return of_lines(head, *records)


def test_a_resumed_session_of_gemini_keeps_each_result_with_its_call() -> None:
    def answer(own: str) -> Json:
        return {"functionResponse": {"id": own, "name": "shell", "response": {"output": own}}}

    both = [answer("c1"), answer("c2")]
    calls: list[Json] = [
        {"id": own, "name": "shell", "args": {}, "result": both} for own in ("c1", "c2")
    ]
    content = [
        {"text": "hm", "thought": True}, {"text": "I look."},
        *({"functionCall": {"id": own, "name": "shell", "args": {}}} for own in ("c1", "c2", "c3")),
    ]  # fmt: skip
    first = gemini_message("2", "I look.", "gemini", toolCalls=calls)
    again = {**first, "content": content}
    messages = [gemini_message("1", "Look."), again]
    found = convert_one(
        gemini_source(gemini_message("1", "Look."), first, {"$set": {"messages": messages}}),
        "gemini",
    )
    assert outline(found) == [
        "user text: Look.", "assistant thinking: hm", "assistant text: I look.",
        "assistant tool_use: null", "assistant tool_use: null", "assistant tool_use: null",
        "user tool_result: c1", "user tool_result: c2",
    ]  # fmt: skip
    assert found.tally.losses == {OLDER: 2}


def test_a_resumed_session_of_gemini_begins_with_its_new_context() -> None:
    """The context names the day, so that it is another message when the session is resumed."""
    said = [gemini_message("1", "Look."), gemini_message("2", "I look.", "gemini")]
    old, new = (gemini_message(day, f"<session_context>\n{day}") for day in ("Monday", "Tuesday"))
    source = gemini_source(
        old, *said,
        {"$set": {"messages": [new]}}, {"$set": {"messages": [new, *said]}},
        gemini_message("3", "Go on."),
    )  # fmt: skip
    found = convert_one(source, "gemini")
    assert outline(found) == [
        "user (meta) text: <session_context>\nTuesday", "user text: Look.", "assistant text: I look.",
        "user text: Go on.",
    ]  # fmt: skip
    assert found.tally.losses == {OLDER: 3}


def test_a_compression_of_gemini_is_a_compaction() -> None:
    old = [gemini_message("1", "one"), gemini_message("2", "two", "gemini")]
    kept = [gemini_message("3", "three"), gemini_message("4", "four", "gemini")]
    summary = [gemini_message("s", "in short"), gemini_message("t", "Got it.", "gemini")]
    found = convert_one(
        gemini_source(*old, *kept, {"$set": {"messages": [*summary, *kept]}}), "gemini"
    )
    boundary, written = found.messages[-2:]
    assert written["message"]["content"].endswith("\n\nin short")
    segment = boundary["compactMetadata"]["preservedSegment"]
    assert segment["headUuid"] == found.messages[2]["uuid"]
    assert found.tally.losses == {}


def test_a_shorter_conversation_of_gemini_is_a_rewind() -> None:
    messages = [gemini_message("1", "one"), gemini_message("2", "two", "gemini")]
    found = convert_one(
        gemini_source(*messages, gemini_message("3", "x"), {"$set": {"messages": messages}},
                      {"$rewindTo": "odd"}),
        "gemini",
    )  # fmt: skip
    assert found.end is None
    source = gemini_source(*messages, gemini_message("3", "x"), {"$set": {"messages": messages}})
    (found,) = convert_as(GEMINI, source)
    assert found.end == found.messages[1]["uuid"]


def test_a_chat_of_qwen_may_have_several_lines_per_response_and_end_with_a_rewind() -> None:
    def line(own: str, parent: str | None, kind: str, *parts: Json, **more: Any) -> Json:
        role = "model" if kind == "assistant" else "user"
        return {"uuid": own, "parentUuid": parent, "sessionId": "s", "timestamp": AT,
                "type": kind, "message": {"role": role, "parts": list(parts)}, **more}  # fmt: skip

    made = {"functionCall": {"id": "c1", "name": "read_file", "args": {}}}
    lines = [
        line("1", None, "user", {"text": "Look."}),
        line("2", "1", "assistant", {"text": "hm", "thought": True}),
        line("2", "1", "assistant", made),
        line("2", "1", "assistant", {"text": "hm", "thought": True}),
        line("3", "2", "user", {"text": "Stop."}),
        line("4", "2", "system", subtype="rewind", systemPayload={}),
    ]
    found = convert_one(of_lines(*lines), "qwen")
    assert outline(found) == [
        "user text: Look.", "assistant thinking: hm", "assistant tool_use: null",
        "user text: Stop.",
    ]  # fmt: skip
    assert found.tally.losses == {"line with a duplicate ID": 1}
    assert found.parents == {}
    assert found.end == found.messages[2]["uuid"]


# iFlow CLI


IFLOW = "5de701fc-7454-4858-a249-95cac4fd3b51"


def iflow() -> list[Json]:
    return [
        {"uuid": str(n), "parentUuid": "0" if n else None, "sessionId": f"session-{IFLOW}",
         "cwd": "/w", "timestamp": AT, "type": message["role"], "isSidechain": False,
         "message": message}
        for n, message in enumerate(blocks())
    ]  # fmt: skip


def test_the_lines_of_iflow_are_a_conversation_in_their_order() -> None:
    found = convert_one(of_lines(*iflow()), "iflow")
    assert outline(found) == TALK
    assert (found.source_id, found.cwd) == (IFLOW, "/w")


# OpenHands since version 1


def event(kind: str, source: str = "agent", **fields: Any) -> Json:
    return {"id": kind, "timestamp": AT[:-1], "source": source, "kind": kind, **fields}


def openhands_events() -> list[Json]:
    def text(words: str) -> list[Json]:
        return [{"type": "text", "text": words}]

    made = {"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'}
    thinking = [{"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "redacted_thinking", "data": "x"}]  # fmt: skip
    return [
        event("SystemPromptEvent"),
        event("MessageEvent", "user", llm_message={"role": "user", "content": text("Look.")},
              extended_content=text("more")),
        event("ActionEvent", thought=text("I look."), thinking_blocks=thinking, tool_call=made,
              tool_name="terminal", tool_call_id="c1"),
        event("ObservationEvent", "environment", tool_call_id="c1",
              observation={"content": text("a.txt"), "exit_code": 0}),
        event("ConversationStateUpdateEvent", "environment"),
        event("MessageEvent", llm_message={"role": "assistant", "content": text("One file.")}),
    ]  # fmt: skip


def test_a_folder_of_openhands_comes_in(tmp_path: Path) -> None:
    place = Place(tmp_path)
    folder = place.cwd / "conversations" / "1"
    state = {"id": "0b3e6d52-8f1c-4a27-9d05-6c1f2e3a4b5d", "agent": {"llm": {"model": "m"}},
             "workspace": {"working_dir": str(place.cwd)}}  # fmt: skip
    (folder / "events").mkdir(parents=True)
    for number, item in enumerate(openhands_events()):
        name = f"event-{number:05}-0b3e6d52.json"
        (folder / "events" / name).write_text(json.dumps(item), "utf-8")
    (folder / "events" / "event-00009-0b3e6d52.json").write_text("{", "utf-8")
    path = folder / "base_state.json"
    path.write_text(json.dumps(state), "utf-8")
    (brought,) = place.json("import", str(path))["imported"]
    assert (brought["kind"], brought["sessionId"]) == ("openhands", state["id"])
    assert brought["lost"] == {
        INSTRUCTIONS: 1, "context attached to a prompt": 1, REDACTED: 1, STATE: 1,
        "invalid event file": 1,
    }  # fmt: skip
    (found,) = convert_as(OPENHANDS, read_source(path))
    assert outline(found) == TALK
    assert found.messages[1]["message"]["model"] == "m"
    place.clew("check", brought["sessionId"])


def test_every_event_of_openhands_has_a_place_or_a_loss() -> None:
    made = {"id": "c1", "name": "terminal", "arguments": "{}"}
    picture = {"type": "image", "image_urls": ["data:image/png;base64,aGk=", "http://x"]}
    (found,) = convert_as(
        OPENHANDS,
        of_value([
            event("MessageEvent", "environment",
                  llm_message={"role": "user", "content": [picture, {"type": "odd"}]}),
            event("ActionEvent", thought=[], reasoning_content="hm", tool_call=made,
                  tool_call_id="c1"),
            event("AgentErrorEvent", tool_call_id="c1", error="no"),
            event("UserRejectObservation", "environment", tool_call_id="c1",
                  rejection_reason="no"),
            event("Condensation", "environment", summary="in short"),
            event("Condensation", "environment"),
            event("ConversationErrorEvent"),
            event("OddEvent"),
        ]),
    )  # fmt: skip
    assert found.tally.losses == {
        NO_TEXT: 1, "second result of the same tool call": 1, NO_SUMMARY: 1, FAILED_RESPONSE: 1,
        "event of type OddEvent": 1,
    }  # fmt: skip
    assert outline(found)[1:4] == [
        "assistant thinking: hm", "assistant tool_use: null", "user tool_result failed: no",
    ]  # fmt: skip


# Mistral Vibe 3 copies a session of version 2 before it continues it.


def journal(*prompts: str) -> list[Json]:
    lines = []
    for prompt in prompts:
        message = [{"type": "text", "text": prompt}]
        payload = {"method": "turn/start", "params": {"message": message}}
        line = {"recovery_journal_record_version": 1, "type": "command_reserved"}
        lines.append(line | {"payload": payload})
    return lines


def history() -> list[Json]:
    def text(words: str) -> list[Json]:
        return [{"type": "text", "text": words}]

    made = {"type": "tool_call", "id": "c1", "name": "bash",
            "arguments": {"type": "json", "raw": '{"command": "ls"}'}}  # fmt: skip
    thought = {"type": "reasoning", "content": text("hm")}
    return [
        {"role": "user", "content": text("Look.")},
        {"role": "assistant", "content": [thought, *text("I look."), made]},
        {"role": "tool", "content": text("a.txt"), "tool_call_id": "c1", "outcome": "success"},
        {"role": "assistant", "content": text("One file.")},
        {"role": "user", "content": text("Go on.")},
    ]


@pytest.mark.parametrize("stored", [5, 4, 0])
def test_a_session_that_vibe_continued_has_its_beginning(tmp_path: Path, stored: int) -> None:
    items = [{"source": "history", "message": message} for message in history()[:stored]]
    files = {
        "meta.json": {"session_id": "v3", "environment": {"working_directory": "/w"}},
        "generations/4/manifest.json": {"checkpoint": {"chunks": ["a", "b"]}},
        "chunks/a.json": [*items, {"source": "instructions", "message": {"role": "user"}}],
    }
    for name, value in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), "utf-8")
    path = write_lines(tmp_path / "journal" / "1.jsonl", journal("Go on.", "And?"))
    (found,) = convert_as(VIBE, read_source(path))
    beginning = TALK if stored else []
    assert outline(found) == [*beginning, "user text: Go on.", "user text: And?"]
    assert STEP not in found.tally.losses


def test_images_of_vibe_come_in_if_the_file_contains_them() -> None:
    inline = {"alias": "x", "mime_type": "image/png", "source": {"kind": "inline", "data": "aGk="}}
    outside = {"alias": "y", "mime_type": "image/png", "source": {"kind": "file", "path": "a.png"}}
    lines = [
        {"role": "user", "content": "Look.", "message_id": "1", "images": [inline, outside]},
        {"role": "assistant", "content": "A.", "message_id": "2", "images": [inline]},
    ]
    (found,) = convert_as(VIBE, of_lines(*lines))
    assert outline(found)[:2] == ["user text: Look.", "user image: image/png"]
    assert found.tally.losses == {"image in a separate file of the other program": 2}


def rewritten() -> list[Json]:
    """Records of Gemini CLI with a compression and a rewind."""
    told = [gemini_message("1", "one"), gemini_message("2", "two", "gemini", toolCalls=[{}])]
    summary = {"$set": {"messages": [gemini_message("s", "in short"), *told]}}
    return [*told, summary, {"$rewindTo": "2"}, gemini_message("3", "three")]


# For the test of broken files.
CASES: dict[str, tuple[str, Any]] = {
    "iflow": ("iflow", of_lines(*iflow())),
    "gemini": ("gemini", gemini_source(*rewritten())),
    "codex": ("codex", of_lines(*rollout(
        say("one"), say("A.", "assistant"), {"type": "thread_rolled_back", "num_turns": 1},
        say("two"), {"type": "thread_name_updated", "thread_name": "Two"},
    ))),
    "vibe": ("vibe", of_lines(*journal("one", "two"))),
    "openhands": ("openhands", of_value(openhands_events())),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_only_one_format_recognizes_what_its_program_wrote(case: str) -> None:
    name, source = CASES[case]
    assert convert_one(source, name).messages


def test_a_chat_of_qwen_with_an_empty_id_comes_in() -> None:
    line = {"uuid": "1", "parentUuid": None, "sessionId": "", "timestamp": AT, "type": "user",
            "message": {"role": "user", "parts": [{"text": "Look."}]}}  # fmt: skip
    assert outline(convert_one(of_lines(line), "qwen")) == ["user text: Look."]
