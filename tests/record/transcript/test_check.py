"""The numbered rules: each is broken once and reported once; a valid file breaks none."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.check import ORDER, RULES
from clew.record.transcript.examine import examine, session_id_of
from tests.record.transcript.build import (
    SESSION,
    boundary,
    call,
    encoded,
    entry,
    kept,
    result,
    said,
    summary,
    talk,
    uid,
    user,
    write,
)
from tests.record.transcript.session import Session
from tests.record.transcript.test_load_table import AHEAD, TORN_AHEAD, TWO_CALLS, hung, without
from tests.requirements import requirement

U1, A1, U2, A2, U3, A3 = talk(3)
COMPACTED = [*talk(2), boundary("b"), summary("s", "b")]


def thinking(name: str, parent: str, **block: Any) -> dict[str, Any]:
    return said(name, parent, {"type": "thinking", **block}, of=name[0])


def with_usage(line: dict[str, Any], tokens: int) -> dict[str, Any]:
    return line | {"message": line["message"] | {"usage": {"input_tokens": tokens}}}


CASES: dict[str, list[dict[str, Any] | bytes]] = {
    "torn-line": [*talk(1), b'{"type":"us'],
    "not-an-entry": [U1, b"{oops}\n", A1],
    "spliced": [U1, encoded([A1, U2]).replace(b"\n", b"") + b"\n"],
    "bad-text": [U1, encoded([A1]).replace(b'"a1"', b'"\\ud800"')],
    "spaced-json": [json.dumps(U1).encode() + b"\n", A1],
    "odd-timestamp": [U1, A1 | {"timestamp": "2026-01-02T03:04:05.678901+00:00"}],
    "nul-bytes": [U1, b"\0" * 9 + b"\n", A1],
    "marks-around": [U1, b"\0" * 9, A1],
    "missing-parent": [U1, hung(A1, "gone")],
    "own-parent": [U1, hung(A1, "a1")],
    "cycle": [hung(U1, "a2"), A1, U2, A2],
    "no-parent-key": [U1, without(A1, "parentUuid")],
    "no-uuid": [U1, without(A1, "uuid")],
    "duplicate-uuid": [U1, A1, A1],
    "bridged": [U1, entry("progress", "p", "u1"), hung(A1, "p")],
    "second-root": [U1, A1, hung(U2, None), A2],
    "mixed-writers": [
        U1,
        *[user(f"{n}{i}", "u1" if i == 1 else f"{n}{i - 1}") for i in range(1, 5) for n in "xy"],
    ],
    "nothing-live": [entry("system", "x", None, subtype="informational", content="Hello.")],
    "boundary-without-summary": [*talk(1), boundary("b"), hung(U2, "b")],
    "double-boundary": [*talk(1), boundary("c"), *COMPACTED[4:]],
    "parent-before-summary": [
        *talk(2),
        boundary("b", **kept("u2", "u2", "s")),
        summary("s", "b"),
        user("u3", "a2"),
    ],
    "kept-not-found": [*talk(1), boundary("b", **kept("x", "y", "s")), summary("s", "b")],
    "missing-result": [U1, said("t1", "u1", call("x"))],
    "result-without-call": [U1, A1, result("r1", "a1", "x")],
    "duplicate-result": [
        U1,
        said("t1", "u1", call("x")),
        result("r1", "t1", "x"),
        result("r2", "r1", "x"),
    ],
    "duplicate-call": [
        U1,
        said("t1", "u1", call("x")),
        result("r1", "t1", "x"),
        said("t2", "r1", call("x")),
    ],
    "hollow-thinking": [U1, thinking("k1", "u1", thinking="", signature="")],
    "usage-differs": [
        U1,
        with_usage(said("a1", "u1", of="m"), 1),
        with_usage(said("a2", "a1", of="m"), 2),
    ],
    "no-request-id": [U1, without(A1, "requestId")],
    "wrong-session": [U1 | {"sessionId": "x"}, A1],
    "written-ahead": [U1, {"type": "tool-started", "owed": [A1]}],
    "other-branch": [*talk(1), user("v1", None)],
    "compacted": [*COMPACTED],
    "sidechain": [*talk(1), user("x1", None, isSidechain=True)],
    "withdrawn": [U1, A1, {"type": "tombstone", "messageUuid": uid("a1")}],
    "superseded": [U1, A1, A1],
}


@requirement("R259")
@pytest.mark.parametrize("name", CASES)
def test_a_broken_rule_is_found_with_its_line(name: str, tmp_path: Path) -> None:
    found = examine(write(tmp_path, CASES[name]))
    hits = [finding for finding in found.findings if finding.name == name]
    assert hits, [str(finding) for finding in found.findings]
    assert all(1 <= finding.line <= 12 for finding in hits)
    assert str(hits[0]).startswith(f"line {hits[0].line}: {hits[0].rule} {hits[0].severity}: ")


def test_every_rule_has_its_case_and_a_number_of_its_own() -> None:
    assert set(CASES) == set(ORDER)
    assert len({rule.number for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    "lines",
    [
        talk(3),
        [*COMPACTED, user("u3", "s")],
        [*talk(2), boundary("b", **kept("u2", "a2", "s")), summary("s", "b"), user("u3", "s")],
        [*TWO_CALLS, result("r2", "t2", "y"), result("r1", "t1", "x"), said("a2", "r1")],
        [U1, thinking("k1", "u1", thinking="hm"), said("k2", "k1", of="k")],
        [U1, without(A1, "requestId") | {"isApiErrorMessage": True}],
        [U1, said("a1", "u1") | {"message": "odd"}],
        [U1, said("a1", "u1", "odd block")],
    ],
)
def test_a_sound_file_breaks_no_rule(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    assert [str(f) for f in examine(write(tmp_path, lines)).problems] == []


def test_a_torn_line_that_wrote_ahead_is_no_error_where_what_it_held_stands_behind(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, [*TORN_AHEAD, b"\n", AHEAD, result("r1", "t1", "x")])
    assert [f.name for f in examine(path).problems] == ["not-an-entry"]


def test_a_pair_of_surrogates_and_a_backslash_before_one_are_sound(tmp_path: Path) -> None:
    line = encoded([U1]).replace(b'"u1"', b'"\\ud83d\\ude00 \\\\ud800"', 1)
    assert examine(write(tmp_path, [line])).problems == []


def test_what_clew_writes_breaks_no_rule(tmp_path: Path) -> None:
    from tests.record.transcript.test_crash import told

    session, _ = told(tmp_path, 3)
    assert [str(f) for f in examine(session.recorder.transcript).problems] == []


def test_a_subagents_file_belongs_to_its_folders_session(tmp_path: Path) -> None:
    session = Session(tmp_path)
    AgentRecorder(session.recorder, "a1").record([session.user("look")])
    session.close()
    path = session.paths.agent("a1")
    assert session_id_of(path) == SESSION
    assert examine(path).problems == []
    assert session_id_of(tmp_path / "notes.jsonl") == "notes"
