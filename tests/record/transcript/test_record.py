"""Recording: each message once, with the right parent, in the right file; and the side lines."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages, list_sessions

from clew.core.messages.errors import MisuseError
from clew.record.transcript import light
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.agents import (
    AgentMetadata,
    list_agents,
    read_metadata,
    read_remote,
    read_remote_agents,
    resume_agent,
    write_metadata,
    write_remote,
)
from clew.record.transcript.load import load
from clew.record.transcript.log import Saved
from clew.record.transcript.paths import get_sidecar
from tests.record.transcript.session import OTHER, SESSION, Session, call, text, uuids
from tests.requirements import requirement


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    made.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def chain(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines(path) if "uuid" in line]


@requirement("R155", "R180", "R182", "R254")
def test_two_turns_are_lines_with_ids_each_on_the_one_before(session: Session) -> None:
    turns = [session.user("one"), *session.answer(text("1")), session.user("two")]
    turns += session.answer(text("thinking aloud"), text("2"))
    assert session.recorder.record(turns) == turns[-1]["uuid"]
    assert session.recorder.record(turns) == turns[-1]["uuid"], "recorded once, answered again"
    assert session.load().messages == chain(session.recorder.transcript)
    written = chain(session.recorder.transcript)
    assert uuids(written) == uuids(turns)
    assert [line["parentUuid"] for line in written] == [None, *uuids(turns)[:-1]]
    assert {line["sessionId"] for line in written} == {SESSION}
    assert all(
        len(line["message"]["content"]) == 1 for line in written if line["type"] == "assistant"
    )


@requirement("R181", "R250", "R254")
def test_what_a_compaction_kept_does_not_move_the_parent_back(session: Session) -> None:
    old = [session.user("one"), *session.answer(text("1"))]
    kept = [session.user("two"), *session.answer(text("2"))]
    session.recorder.record([*old, *kept])
    summary = session.summary()
    boundary = session.boundary(
        preservedSegment={
            "headUuid": kept[0]["uuid"],
            "tailUuid": kept[-1]["uuid"],
            "anchorUuid": summary["uuid"],
        }
    )
    after = session.user("three")
    session.recorder.record_compaction([*old, *kept], boundary, [summary])
    # What goes on is recorded with the whole visible history, as the loop has it.
    last = session.recorder.record([boundary, summary, *kept, after])
    assert last == after["uuid"]
    written = chain(session.recorder.transcript) if session.load() else []
    by_uuid = {line["uuid"]: line for line in written}
    assert by_uuid[after["uuid"]]["parentUuid"] == summary["uuid"]
    assert by_uuid[summary["uuid"]]["parentUuid"] == boundary["uuid"]
    assert by_uuid[boundary["uuid"]]["parentUuid"] is None
    assert by_uuid[boundary["uuid"]]["logicalParentUuid"] == kept[-1]["uuid"]
    assert len(written) == len(by_uuid) == 7
    live = [boundary, summary, *kept, after]
    assert uuids(session.load().messages) == uuids(live)


@requirement("R188")
def test_everything_a_boundary_keeps_is_written_before_it(session: Session) -> None:
    first, kept = session.user("one"), session.user("two")
    summary = session.summary()
    segment = {"headUuid": kept["uuid"], "tailUuid": kept["uuid"], "anchorUuid": summary["uuid"]}
    boundary = session.boundary(preservedSegment=segment)
    session.recorder.record([first])
    session.recorder.record_compaction([first, kept], boundary, [summary])
    assert uuids(session.load().messages) == uuids([boundary, summary, kept])
    lost = session.boundary(preservedSegment=segment | {"tailUuid": session.new_id()})
    with pytest.raises(MisuseError, match="not in the history"):
        session.recorder.record_compaction([], lost, [])


@requirement("R181", "R182")
def test_known_messages_at_the_beginning_say_where_the_next_one_hangs(session: Session) -> None:
    one, two = session.user("one"), session.user("two")
    session.recorder.record([one, two])
    other = session.user("instead of two")
    assert session.recorder.record([one, other]) == other["uuid"]
    assert session.recorder.record([one]) == one["uuid"]
    assert session.recorder.record([]) is None
    session.load()
    assert chain(session.recorder.transcript)[-1]["parentUuid"] == one["uuid"]


@requirement("R183")
def test_a_hint_stands_for_the_messages_that_are_not_passed(session: Session) -> None:
    one, two, three = session.user("1"), session.user("2"), session.user("3")
    session.recorder.record([one, two])
    assert session.recorder.record([three], hint=one["uuid"]) == three["uuid"]
    assert session.recorder.record([], hint=one["uuid"]) == one["uuid"]
    session.load()
    assert chain(session.recorder.transcript)[-1]["parentUuid"] == one["uuid"]


@requirement("R179", "C11")
def test_nothing_for_the_screen_is_written_and_no_progress(session: Session) -> None:
    from clew.core.messages import factories

    shown = session.user("one") | {"display": {"color": "red"}, "isReplay": True}
    progress = factories.progress("t", {"at": 1}, uuid=session.new_id(), at=session.now())
    after = session.user("two")
    session.recorder.record([shown, progress, after])
    session.load()
    written = chain(session.recorder.transcript)
    assert [line["type"] for line in written] == ["user", "user"]
    assert "display" not in written[0]
    assert written[1]["parentUuid"] == shown["uuid"]
    with pytest.raises(MisuseError, match="own method"):
        session.recorder.record([{"type": "last-prompt"}])


def test_each_result_hangs_on_its_own_call_whatever_order_they_come_in(session: Session) -> None:
    answer = session.answer(text("both"), call("t1"), call("t2"))
    second, first = session.result("t2"), session.result("t1")
    following = session.answer(text("done"))
    session.recorder.record([session.user("go"), *answer, second, first, *following])
    live = session.load().messages
    by_uuid = {line["uuid"]: line for line in live}
    assert by_uuid[first["uuid"]]["parentUuid"] == answer[1]["uuid"]
    assert by_uuid[second["uuid"]]["sourceToolAssistantUUID"] == answer[2]["uuid"]
    assert by_uuid[following[0]["uuid"]]["parentUuid"] == first["uuid"]
    assert uuids(live)[1:] == uuids([*answer, second, first, *following])


@requirement("R186", "R185")
def test_a_prompt_that_was_durable_is_listed_and_resumable_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prompt = session.user("fix the tests")
    session.recorder.record([prompt])
    assert asyncio.run(session.recorder.durable()) == Saved()
    # Nothing is closed or flushed: this is what a kill leaves.
    found = list(light.read_outlines(session.recorder.transcript.parent))
    assert [outline.title for outline in found] == ["fix the tests"]
    assert uuids(load(session.recorder.transcript).messages) == [prompt["uuid"]]
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert [info.session_id for info in list_sessions()] == [SESSION]


@requirement("W23", "R187")
def test_a_crash_while_calls_run_loses_neither_calls_nor_results(session: Session) -> None:
    recorder = session.recorder
    prompt = session.user("go")
    answer = session.answer(text("first"), call("t1"), call("t2"))
    recorder.record([prompt])
    recorder.tool_started("t1", answer[:2])
    recorder.tool_started("t2", answer)
    done = session.result("t2")
    recorder.tool_finished("t2", done)
    loaded = session.load()
    assert chain(recorder.transcript) == lines(recorder.transcript)[1:2], "not on the chain yet"
    assert uuids(loaded.messages) == uuids([prompt, *answer, done])
    assert uuids(loaded.owed) == uuids([*answer, done])
    # The next process gives them their place.
    session.close()
    following = Session(session.paths.home)
    following.recorder.resume(loaded)
    interrupted = following.result("t1", "interrupted")
    following.recorder.record([interrupted])
    again = following.load()
    assert uuids(again.messages) == uuids([prompt, *answer, done, interrupted])
    assert again.owed == []
    assert {line["uuid"] for line in chain(recorder.transcript)} == set(uuids(again.messages))
    following.close()


@requirement("W23")
def test_an_answer_that_ends_takes_the_place_of_what_was_written_ahead(session: Session) -> None:
    recorder = session.recorder
    prompt = session.user("go")
    answer = session.answer(text("first"), call("t1"))
    early = [
        m | {"message": m["message"] | {"usage": {"input_tokens": 3, "output_tokens": 1}}}
        for m in answer
    ]
    done = session.result("t1")
    recorder.record([prompt])
    recorder.tool_started("t1", early)
    recorder.tool_finished("t1", done)
    recorder.record([*answer, done])
    loaded = session.load()
    assert loaded.owed == []
    assert uuids(loaded.messages) == uuids([prompt, *answer, done])
    assert loaded.messages[1]["message"]["usage"]["output_tokens"] == 7
    assert loaded.messages[3]["parentUuid"] == answer[1]["uuid"]


@requirement("C4", "R174")
def test_a_withdrawn_answer_is_hidden_and_the_next_hangs_where_it_hung(session: Session) -> None:
    recorder = session.recorder
    prompt, first, second = (
        session.user("go"),
        session.answer(text("a"), text("b")),
        session.answer(text("c")),
    )
    recorder.record([prompt, *first])
    recorder.withdraw([*uuids(first), session.new_id()])
    recorder.record(second)
    assert uuids(session.load().messages) == uuids([prompt, *second])
    written = lines(recorder.transcript)
    assert written[-1]["parentUuid"] == prompt["uuid"]
    tombs = [line for line in written if line["type"] == "tombstone"]
    assert [line["messageUuid"] for line in tombs] == uuids(first)
    assert not any("uuid" in line for line in tombs)


def test_what_was_withdrawn_before_its_place_does_not_come_back(session: Session) -> None:
    recorder = session.recorder
    prompt, answer = session.user("go"), session.answer(call("t1"))
    recorder.record([prompt])
    recorder.tool_started("t1", answer)
    recorder.withdraw(uuids(answer))
    assert uuids(session.load().messages) == [prompt["uuid"]]


def test_a_rewind_holds_from_the_moment_it_is_made(session: Session) -> None:
    one, two = session.user("one"), session.user("two")
    session.recorder.record([one, two])
    session.recorder.last_prompt("two")
    session.recorder.rewind(one["uuid"])
    assert uuids(session.load().messages) == [one["uuid"]]
    three = session.user("three")
    session.recorder.record([three])
    assert uuids(session.load().messages) == uuids([one, three])
    session.recorder.rewind(None)
    assert session.load().is_empty
    with pytest.raises(MisuseError, match="rewind"):
        session.recorder.rewind(session.new_id())


@requirement("R175")
def test_what_stands_beside_has_its_calls_and_the_last_of_a_kind_is_loaded(
    session: Session,
) -> None:
    recorder = session.recorder
    prompt = session.user("go")
    recorder.mode("normal")
    recorder.permission_mode("plan")
    recorder.agent_name("ada")
    assert not recorder.transcript.exists()
    recorder.record([prompt])
    recorder.enqueue("q1", "later")
    recorder.dequeue("q1")
    backups = {"a.py": {"backupFileName": "x@v1", "version": 1}}
    recorder.file_history_snapshot(prompt["uuid"], backups, is_update=True)
    recorder.file_history_delta(
        prompt["uuid"], snapshot_message_id=prompt["uuid"], path="a.py", backup={"version": 2}
    )
    recorder.title("First")
    recorder.title("Second")
    recorder.generated_title("A title")
    recorder.tag("blue")
    recorder.cost_state(totalCostUSD=5.5)
    recorder.request_cost(requestId="r", costUSD=1.5)
    recorder.prompt_hashes(systemSha256="a", toolsSha256="b")
    recorder.last_prompt("go")
    loaded = session.load()
    written = lines(recorder.transcript)
    assert [line["type"] for line in written[:4]] == [
        "clew-session", "mode", "permission-mode", "agent-name",
    ]  # fmt: skip
    assert [line["uuid"] for line in written if "uuid" in line] == [prompt["uuid"]]
    assert all(line["sessionId"] == SESSION and line["timestamp"] for line in written)
    current = loaded.side.current
    assert current["custom-title"]["customTitle"] == "Second"
    assert current["cost-state"]["totalCostUSD"] == 5.5
    assert current["clew-session"]["format"] == 1
    assert loaded.side.last_prompt == "go"
    assert loaded.side.kinds["queue-operation"] == 2
    found = light.read_outline(recorder.transcript)
    assert found is not None
    assert (found.title, found.tag) == ("Second", "blue")


def test_a_title_stays_in_the_reach_of_lists_as_a_host_changed_it(session: Session) -> None:
    recorder = session.recorder
    recorder.record([session.user("go")])
    recorder.title("Ours")
    session.load()
    with recorder.transcript.open("ab") as host:
        host.write(
            b'{"type":"custom-title","customTitle":"Theirs","sessionId":"%s"}\n' % SESSION.encode()
        )
    for _ in range(9):
        recorder.record(session.answer(text("x" * 9000)))
        session.load()
        recorder.last_prompt("go")
    session.load()
    ends = light.read_ends(recorder.transcript)
    assert ends is not None
    assert b"Theirs" in ends.tail
    assert b"Ours" not in ends.tail


@requirement("R252")
def test_persistence_can_be_switched_off(tmp_path: Path) -> None:
    session = Session(tmp_path, is_kept=False)
    prompt = session.user("secret")
    assert session.recorder.record([prompt, *session.answer(text("1"))])
    session.recorder.title("x")
    session.recorder.switch(OTHER)
    assert asyncio.run(session.recorder.durable()) == Saved()
    assert list(tmp_path.iterdir()) == []


@requirement("R190", "R191", "R160", "R254")
def test_after_a_switch_nothing_lands_in_the_old_file(session: Session) -> None:
    recorder = session.recorder
    before = [session.user("before"), *session.answer(text("1"))]
    recorder.record(before)
    old = recorder.transcript
    recorder.switch(OTHER)
    session.log.flush() if session.log else None
    content = old.read_bytes()
    assert recorder.transcript == session.paths.place.transcript != old
    recorder.mode("normal")
    session.log.flush() if session.log else None
    assert not recorder.transcript.exists(), "made by the first message, not by the switch"
    after = session.user("after")
    recorder.record([after])
    loaded = session.load()
    assert uuids(loaded.messages) == [after["uuid"]]
    assert loaded.messages[0]["parentUuid"] is None
    assert loaded.messages[0]["sessionId"] == OTHER
    assert old.read_bytes() == content


def test_the_lock_of_the_old_session_is_given_back_by_a_switch(session: Session) -> None:
    session.recorder.record([session.user("before")])
    old = session.recorder.transcript
    session.load()
    other = Session(session.paths.home)
    assert other.log
    assert not other.log.claim(old)
    session.recorder.switch(OTHER)
    session.log.flush() if session.log else None
    assert other.log.claim(old)
    other.close()


@requirement("R204", "R201", "R156", "R254")
def test_a_subagent_writes_its_own_file_and_chain_under_the_sessions_id(session: Session) -> None:
    recorder = session.recorder
    recorder.record([session.user("go")])
    task = [session.user("look"), *session.answer(text("found"))]
    agent = AgentRecorder(recorder, "a1")
    agent.record(task[:1])
    assert agent.record(task) == task[-1]["uuid"]
    agent.tool_started("t9", session.answer(call("t9")))
    session.load()
    path = session.paths.agent("a1")
    written = chain(path)
    assert [line["parentUuid"] for line in written] == [None, task[0]["uuid"]]
    assert all(line["isSidechain"] and line["agentId"] == "a1" for line in written)
    assert {line["sessionId"] for line in written} == {SESSION}
    assert len(chain(recorder.transcript)) == 1
    assert list_agents(session.paths.place) == [path]
    assert len(load(path).messages) == 3
    assert not AgentRecorder(recorder, "a2").record([])


@requirement("R199", "R202", "R203")
def test_a_resumed_subagent_is_what_it_was_or_says_that_it_does_not_know(session: Session) -> None:
    recorder = session.recorder
    task = session.user("look")
    AgentRecorder(recorder, "a1").record([task])
    session.load() if session.recorder.record([session.user("go")]) else None
    path = session.paths.agent("a1")
    home = session.paths.home
    assert resume_agent(path, home).metadata is None
    metadata = AgentMetadata(agent_type="explorer", worktree_path="/w/t", description="look around")
    write_metadata(path, metadata, home)
    resumed = resume_agent(path, home)
    assert resumed.metadata == metadata
    assert uuids(resumed.loaded.messages) == [task["uuid"]]
    agent = AgentRecorder(recorder, "a1")
    agent.resume(resumed.loaded)
    more = session.user("and there")
    agent.record([more])
    session.load()
    assert chain(path)[-1]["parentUuid"] == task["uuid"]


@pytest.mark.parametrize(
    "content", [b'{"agentType":"x","spawnDepth":2}', b"{}", b"[]", b"\xff", b"{"]
)
def test_older_and_broken_sidecars_are_read_as_far_as_they_go(
    session: Session, content: bytes
) -> None:
    path = session.paths.agent("a1")
    path.parent.mkdir(parents=True)
    get_sidecar(path).write_bytes(content)
    found = read_metadata(path)
    assert found == (
        AgentMetadata(agent_type="x", more={"spawnDepth": 2})
        if b"x" in content and b"agentType" in content
        else None
    )


@requirement("R205")
def test_remote_agents_are_kept_by_task_and_listed(session: Session) -> None:
    place = session.paths.place
    assert list(read_remote_agents(place)) == []
    write_remote(place, "task-1", {"remoteSessionId": "r1"})
    write_remote(place, "task-2", {"remoteSessionId": "r2"})
    assert read_remote(place, "task-1") == {"remoteSessionId": "r1"}
    assert read_remote(place, "task-3") is None
    assert [task for task, _ in read_remote_agents(place)] == ["task-1", "task-2"]
    with pytest.raises(ValueError, match="agent ID"):
        write_remote(place, "../x", {})


def test_the_published_reader_sees_the_same_messages(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorder = session.recorder
    turn = [session.user("go"), *session.answer(text("both"), call("t1"), call("t2"))]
    turn += [session.result("t2"), session.result("t1"), *session.answer(text("done"))]
    recorder.record(turn[:1])
    recorder.tool_started("t1", turn[1:3])
    recorder.record(turn)
    recorder.withdraw([])
    recorder.title("Named")
    recorder.last_prompt("go")
    loaded = session.load()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    seen = get_session_messages(SESSION)
    assert {message.uuid for message in seen} == set(uuids(loaded.messages))
    assert len(seen) == len(turn)
    assert list_sessions()[0].custom_title == "Named"


def test_what_a_compaction_closed_is_forgotten_and_what_it_kept_is_written_once(
    session: Session,
) -> None:
    old = [m for n in range(50) for m in (session.user(f"p{n}"), *session.answer(text(f"a{n}")))]
    kept = [session.user("two"), *session.answer(text("2"), call("toolu_kept"))]
    session.recorder.record([*old, *kept])
    summary = session.summary()
    segment = {
        "headUuid": kept[0]["uuid"],
        "tailUuid": kept[-1]["uuid"],
        "anchorUuid": summary["uuid"],
    }
    boundary = session.boundary(preservedSegment=segment)
    session.recorder.record_compaction([*old, *kept], boundary, [summary])
    session.recorder.closed_before(boundary, kept)
    with pytest.raises(MisuseError, match="not in the session"):
        session.recorder.rewind(old[0]["uuid"])
    result = session.result("toolu_kept")
    session.recorder.record([boundary, summary, *kept, result])
    later = session.user("and now?")
    session.recorder.record([later])
    written = chain(session.recorder.transcript) if session.load() else []
    by_uuid = {line["uuid"]: line for line in written}
    assert len(written) == len(by_uuid) == len(old) + len(kept) + 4
    assert by_uuid[result["uuid"]]["parentUuid"] == kept[-1]["uuid"]
    assert by_uuid[later["uuid"]]["parentUuid"] == result["uuid"]
    session.recorder.withdraw([later["uuid"]])
    again = session.user("no: now")
    session.recorder.record([again])
    assert session.load().messages[-1]["parentUuid"] == result["uuid"]
