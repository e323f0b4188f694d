"""Repair: every damaged file becomes one that every reader reads completely; the original stays."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from claude_agent_sdk import get_session_messages

from clew.record.transcript.load import load
from clew.record.transcript.repair import (
    TRUTHS,
    HeldError,
    WouldLoseError,
    carry_out,
    plan,
    why_it_stays,
)
from tests.record.transcript.build import call, encoded, names, result, said, talk, user, write
from tests.record.transcript.session import Session
from tests.record.transcript.test_check import CASES
from tests.record.transcript.test_load_table import ROWS, TWO_CALLS
from tests.requirements import requirement

Lines = list[dict[str, Any] | bytes]
ODD: dict[str, Lines] = {**{name: lines for name, (lines, _) in ROWS.items()}, **CASES}
# Another reader's own ways, not damage: it knows no rewinds, no withdrawals and no kept entries.
OTHERWISE = (
    "marker", "reset", "prompt after", "withdrawn", "kept", "late result", "two tries", "rewound",
    "beside the chain", "without a message id", "is linked", "parent-before", "branch to before",
    "another branch", "in two branches", "way back", "first of them", "said there",
    "hangs on one behind it",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_was_live_stays_live_and_no_error_remains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "projects" / "-w", ODD[name])
    before, live = path.read_bytes(), load(path, reads_all=True)
    done = carry_out(plan(path), tmp_path / "backups")
    after = path.read_bytes()
    if done.plan.kind == "append":
        assert after.startswith(before)
        assert done.backup is not None
        assert done.backup.read_bytes() == before
    else:
        assert after == before
    errors = [f for f in done.remaining if f.severity == "error" and f.name != "nothing-live"]
    assert not errors, [str(f) for f in errors]
    repaired = load(done.plan.target, reads_all=True)
    kept = [m.uuid for m in live.chain.nodes() if not is_void(live, m)]
    assert [u for u in ids(repaired) if u in set(kept)] == kept
    if not any(word in name for word in OTHERWISE):
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
        seen = [m.uuid for m in get_session_messages(done.plan.target.stem)]
        assert set(seen) == talking(repaired)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ODD)
def test_a_copy_that_repairs_warnings_is_clean_or_says_what_happened(
    name: str, tmp_path: Path
) -> None:
    path = write(tmp_path, ODD[name])
    before, live = path.read_bytes(), load(path, reads_all=True)
    done = carry_out(plan(path, warnings=True), tmp_path / "backups")
    if done.plan.kind == "new session":
        assert path.read_bytes() == before
    repaired = load(done.plan.target, reads_all=True)
    kept = [m.uuid for m in live.chain.nodes() if not is_void(live, m)]
    assert [u for u in ids(repaired) if u in set(kept)] == kept
    assert {finding.name for finding in done.remaining} <= set(TRUTHS)
    assert all(why_it_stays(finding, "s") == TRUTHS[finding.name] for finding in done.remaining)


def test_lines_of_one_answer_agree_in_a_copy(tmp_path: Path) -> None:
    """As old writers left them: the usage of the moment, ids on some lines only."""
    parts = [said(f"a{n}", f"a{n - 1}" if n > 1 else "u1", of="m") for n in (1, 2, 3)]
    for tokens, part in zip((1, 44, 40), parts, strict=True):
        part["message"]["usage"] = {"input_tokens": 3, "output_tokens": tokens}
    parts[1].pop("requestId")
    nameless = [said(f"b{n}", f"b{n - 1}" if n > 1 else "u2") for n in (1, 2)]
    for part in nameless:
        part["message"].pop("id")
        part.pop("requestId")
    path = write(tmp_path, [user("u1", None), *parts, user("u2", "a3"), *nameless])
    done = carry_out(plan(path, warnings=True), tmp_path / "backups")
    assert done.remaining == []
    answers = [m for m in load(done.plan.target).messages if m["type"] == "assistant"]
    assert [m["message"]["usage"]["output_tokens"] for m in answers] == [44, 44, 44, 5, 5]
    assert [m["requestId"] for m in answers[:3]] == ["req_m"] * 3
    assert answers[3]["message"]["id"] == answers[4]["message"]["id"]
    assert answers[3]["requestId"] == answers[4]["requestId"]


def ids(loaded: Any) -> list[str]:
    return [node.uuid for node in loaded.chain.nodes()]


def is_void(loaded: Any, node: Any) -> bool:
    return node.is_boundary and loaded.chain.boundary < 0


def talking(loaded: Any) -> set[str]:
    """What another reader shows of a conversation: prompts, answers, results."""
    return {
        m["uuid"]
        for m in loaded.messages
        if m["type"] in ("user", "assistant") and not m.get("isSidechain")
    }


def test_what_only_lacks_its_end_is_appended_to(tmp_path: Path) -> None:
    path = write(tmp_path, [*TWO_CALLS, b'{"torn'])
    planned = plan(path)
    assert planned.kind == "append"
    assert path.read_bytes() == encoded([*TWO_CALLS, b'{"torn'])
    carry_out(planned, tmp_path / "backups")
    live = load(path).messages
    assert len(live) == 5
    assert all(m["message"]["content"][0]["is_error"] for m in live[3:])
    assert plan(path).kind == "nothing"


def test_a_call_in_the_middle_is_answered_in_its_place(tmp_path: Path) -> None:
    lines = [*talk(1)[:1], said("t1", "u1", call("x")), user("u2", "t1"), said("a2", "u2")]
    done = carry_out(plan(write(tmp_path, lines)), tmp_path / "backups")
    assert done.plan.kind == "new session"
    assert names(load(done.plan.target).messages).split()[-2:] == ["u2", "a2"]
    assert len(load(done.plan.target).messages) == 5
    assert done.remaining == []


def test_a_session_that_runs_is_not_repaired(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.recorder.record([session.user("go"), *session.answer(call_block())])
    session.load()
    with pytest.raises(HeldError):
        carry_out(plan(session.recorder.transcript), tmp_path / "backups")
    session.close()


def test_a_repair_that_would_lose_something_writes_nothing(tmp_path: Path) -> None:
    u1, a1, u2, a2 = talk(2)
    path = write(tmp_path, [u1, a1, u2 | {"parentUuid": "gone"}, a2])
    planned = plan(path)
    short = msgspec.structs.replace(planned, lines=planned.lines[:2])
    with pytest.raises(WouldLoseError, match="without loss"):
        carry_out(short, tmp_path / "backups")
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_that_would_change_the_order_of_what_is_there_is_not_appended(
    tmp_path: Path,
) -> None:
    """In a shuffled file the answer's parts would be sorted anew around what is pulled in."""
    first = {k: v for k, v in said("a1", None).items() if k != "message"}
    path = write(tmp_path, [said("a2", "a1", call("z")), first, result("a3", "a2", "x")])
    before, live = path.read_bytes(), ids(load(path, reads_all=True))
    done = carry_out(plan(path), tmp_path / "backups")
    assert done.plan.kind == "new session"
    assert path.read_bytes() == before
    assert not [f for f in done.remaining if f.severity == "error"]
    assert [u for u in ids(load(done.plan.target)) if u in live] == live


def call_block() -> dict[str, Any]:
    return call("x")


@requirement("W32")
def test_two_repairs_leave_two_copies(tmp_path: Path) -> None:
    path = write(tmp_path, [*TWO_CALLS])
    first = carry_out(plan(path), tmp_path / "backups")
    path.write_bytes(encoded(TWO_CALLS))
    second = carry_out(plan(path), tmp_path / "backups")
    assert first.backup != second.backup
    assert len(list((tmp_path / "backups").iterdir())) == 2


def test_what_was_written_ahead_is_in_a_repaired_copy_once_and_at_its_place(tmp_path: Path) -> None:
    answer = said("a1", "u1", call("x"))
    ahead = {"type": "tool-started", "toolUseId": "x", "owed": [answer], "sessionId": "s"}
    path = write(tmp_path, [user("u0", None), user("u1", "nowhere"), ahead])
    done = carry_out(plan(path), tmp_path / "backups")
    assert done.plan.kind == "new session"
    assert not done.remaining, [str(f) for f in done.remaining]
    assert names(load(done.plan.target).messages).startswith("u0 u1 a1")


@pytest.mark.parametrize("kind", [{}, [], 5, None, {"a": 1}])
def test_a_line_whose_type_is_anything_stops_no_repair(tmp_path: Path, kind: Any) -> None:
    path = write(tmp_path, [{"type": kind, "x": 1}, user("u0", None), user("u1", "nowhere")])
    done = carry_out(plan(path), tmp_path / "backups")
    assert names(load(done.plan.target).messages) == "u0 u1"
