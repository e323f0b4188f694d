"""Stored sessions as objects: made from messages, read, changed and opened from bytes."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.record.exchange.formats.reasons import SECOND_RESULT
from tests.fronts.sdk.test_plug_ins import ask, options

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "How many files are here?"},
    {
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
        ],
        "usage": {"input_tokens": 1000, "output_tokens": 10},
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one.py"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
]


@pytest.fixture
def session(tmp_path: Path) -> clew.Session:
    (tmp_path / "work").mkdir()
    return clew.Session.create(
        HISTORY, title="Files", cwd=tmp_path / "work", home=tmp_path / "home"
    )


def texts(session: clew.Session) -> list[str]:
    blocks = [
        b
        for m in session.messages()
        if isinstance(m, clew.Assistant | clew.User)
        for b in m.content
    ]
    return [b.text for b in blocks if isinstance(b, clew.Text)]


async def test_a_session_made_of_messages_is_continued_by_clew(
    tmp_path: Path, session: clew.Session
) -> None:
    seen: list[list[dict[str, Any]]] = []

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str]:
        seen.append(request.messages)
        yield "Still one."

    given = options(tmp_path, provider=answer, model="own", resume=session.id)
    _, result = await ask("And now?", given)
    assert result.session_id == session.id
    kinds = [(m["role"], m["content"][0]["type"]) for m in seen[0]]
    assert kinds[:4] == [
        ("user", "text"), ("assistant", "tool_use"), ("user", "tool_result"), ("assistant", "text")
    ]  # fmt: skip
    again = clew.Session.open(session.id, home=tmp_path / "home")
    assert texts(again)[-1] == "Still one."
    assert again.check() == []


def test_a_session_is_read_searched_and_exported(tmp_path: Path, session: clew.Session) -> None:
    assert session.title == "Files"
    assert texts(session) == ["How many files are here?", "One file."]
    (call,) = [
        block
        for message in session.messages("beginning")
        if isinstance(message, clew.Assistant)
        for block in message.content
        if isinstance(block, clew.ToolUse)
    ]
    assert call == clew.ToolUse(id="toolu_1", name="Bash", input={"command": "ls"})
    assert [prompt.text for prompt in session.tree().prompts] == ["How many files are here?"]
    (hit,) = session.search("one.py")
    assert hit.session_id == session.id
    assert b"One file." in session.export("markdown")
    assert json.loads(session.export("json"))["state"]["title"] == "Files"
    assert session.agents() == []
    listed = clew.list_sessions(tmp_path / "work", home=tmp_path / "home")
    assert [clew.Session.open(item).path for item in listed] == [session.path]


def test_a_session_is_forked_extended_and_deleted(tmp_path: Path, session: clew.Session) -> None:
    first = session.tree().prompts[0].uuid
    fork = session.fork()
    fork.append([{"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "Yes."}])
    fork.append([{"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "Yes."}])
    assert texts(fork)[-4:] == ["Thanks", "Yes.", "Thanks", "Yes."]
    assert fork.check() == []
    assert len(texts(session)) == 2
    cut = session.fork(first, title="Before")
    assert (texts(cut), cut.title) == (["How many files are here?"], "Before")
    cut.graft(fork, fork.tree().prompts[1].uuid)
    assert texts(cut)[1:] == ["Thanks", "Yes.", "Thanks", "Yes."]
    fork.rename("Other")
    fork.tag("kept")
    assert fork.title == "Other"
    fork.delete()
    with pytest.raises(clew.SessionError, match="not found"):
        clew.Session.open(fork.id, home=tmp_path / "home")


async def test_the_ledger_counts_history_before_a_compaction_and_subagents(tmp_path: Path) -> None:
    asked = 0

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        nonlocal asked
        asked += 1
        yield {"type": "usage", "input_tokens": 1000, "output_tokens": 10}
        if asked == 1:
            agent = {"description": "Look", "prompt": "Look.", "subagent_type": "Explore"}
            yield {"type": "tool_use", "name": "Task", "input": agent}
        else:
            yield "words " * 300

    given = options(tmp_path, provider=answer, model="claude-haiku-4-5")
    async with clew.ClewClient(given) as client:
        for prompt in ("Begin", "Go on", "Go on", "/compact", "And then?"):
            await client.query(prompt)
            async for message in client.receive_response():
                last = message
    assert isinstance(last, clew.Result)
    session = clew.Session.open(last.session_id, home=tmp_path / "home")
    assert len(session.messages()) < len(session.messages("beginning"))
    (agent,) = session.agents()
    assert agent.id == session.id
    assert agent.agent_id
    total = session.ledger().total
    assert asked > 6
    assert (total.requests, total.tokens.input) == (asked, asked * 1000)
    assert float(total.usd) == pytest.approx(last.total_cost_usd)


def test_bytes_are_a_session_and_a_damaged_one_is_repaired(session: clew.Session) -> None:
    lines = session.path.read_bytes().splitlines(keepends=True)
    cut = b"".join(
        line for line in lines if b'"tool_result"' not in line and b"One file." not in line
    )
    opened = clew.Session.open(cut)
    assert opened.id == session.id
    assert [problem.name for problem in opened.check()] == ["missing-result"]
    assert opened.repair().check() == []
    nothing = clew.Session.open(b"no JSON\n[]\n")
    assert nothing.messages() == []


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "tool", "content": "x"}],
        [],
        ["Hello"],
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "none"}]}],
    ],
)
def test_messages_that_cannot_be_taken_are_refused(
    tmp_path: Path, session: clew.Session, messages: list[dict[str, Any]]
) -> None:
    before = session.path.read_bytes()
    with pytest.raises(ValueError, match="messages"):
        session.append(messages)
    assert session.path.read_bytes() == before
    with pytest.raises(ValueError, match="messages"):
        clew.Session.create([*HISTORY, {"role": "tool"}], home=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_transcript_of_a_subagent_is_not_a_session(tmp_path: Path) -> None:
    path = tmp_path / "agent-a1.jsonl"
    path.write_text("", encoding="utf-8")
    with pytest.raises(clew.SessionError, match="subagent"):
        clew.Session(path).fork()


def test_a_conversation_grows_message_by_message_and_goes_back(tmp_path: Path) -> None:
    """As frameworks append: a call, its result and the answer arrive one after another."""
    home = tmp_path / "home"
    identity = "0a57d3a1-6a1b-4a54-9f0e-0d1c3c1f2a10"
    question: list[dict[str, Any]] = [{"role": "user", "content": "How many?"}]
    session = clew.Session.create(question, session_id=identity, home=home)
    assert session.id == identity
    call = {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}
    session.append([{"role": "assistant", "content": [call], "model": "m"}])
    session.append([{"role": "user", "content": [result]}])
    session.append([{"role": "assistant", "content": "Three."}])
    assert session.check() == []
    assert [entry["type"] for entry in session.entries()] == ["user", "assistant"] * 2
    assert all(entry["timestamp"] > "2026" for entry in session.entries())
    with pytest.raises(ValueError, match=SECOND_RESULT):
        session.append([{"role": "user", "content": [result]}])

    session.rewind(session.entries()[0]["uuid"])
    assert texts(session) == ["How many?"]
    session.append([{"role": "assistant", "content": "Many."}])
    assert texts(session) == ["How many?", "Many."]
    assert len(session.entries("beginning")) == 2
    with pytest.raises(clew.SessionError, match="not found in the conversation"):
        session.rewind("none")
    session.rewind(None)
    assert session.entries() == []
    session.append(question)
    assert (texts(session), session.check()) == (["How many?"], [])
    with pytest.raises(ValueError, match="already exists"):
        clew.Session.create(question, session_id=identity, home=home)
    with pytest.raises(ValueError, match="session_id: expected a UUID"):
        clew.Session.create(question, session_id="x", home=home)


def test_sessions_are_listed_as_objects(tmp_path: Path, session: clew.Session) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    assert [one.id for one in clew.sessions(work, home=home)] == [session.id]
    assert [one.id for one in clew.sessions(home=home, everywhere=True)] == [session.id]
    later = datetime.now(UTC) + timedelta(days=1)
    assert list(clew.sessions(work, home=home, since=later)) == []
    earlier = datetime.now(UTC) - timedelta(days=1)
    assert len(list(clew.sessions(work, home=home, since=earlier))) == 1
