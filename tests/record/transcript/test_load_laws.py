"""Laws of loading over sessions of any shape: nothing raises, nothing is lost, what is next is next."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.record.exchange.export import from_the_beginning
from clew.record.transcript.leaf import NOBODY
from clew.record.transcript.load import load
from clew.record.transcript.repair import WouldLoseError, carry_out, plan
from tests.record.transcript.build import (
    SESSION,
    boundary,
    call,
    encoded,
    entry,
    result,
    said,
    uid,
    user,
)
from tests.requirements import requirement

NAMES = [f"{letter}{n}" for letter in "ab" for n in range(6)]
name = st.sampled_from(NAMES)
parent = st.one_of(st.none(), name, name, name)
answer = st.sampled_from(["m1", "m2", None])
tool = st.sampled_from("xyz")


def summed(own: str, above: str | None) -> dict[str, Any]:
    return user(own, above, "summary", isCompactSummary=True)


def marked(leaf: str | None, is_explicit: bool) -> dict[str, Any]:
    line = {"type": "last-prompt", "leafUuid": uid(leaf) if leaf else NOBODY, "sessionId": SESSION}
    if not leaf and is_explicit:
        line["atStart"] = True
    return line | ({"explicit": True} if is_explicit else {"lastPrompt": "p"})


def owing(own: str, above: str | None) -> dict[str, Any]:
    return {"type": "tool-started", "sessionId": SESSION, "owed": [said(own, above, call("x"))]}


def keeping(own: str, above: str | None, head: str, tail: str, anchor: str) -> dict[str, Any]:
    segment = {"headUuid": uid(head), "tailUuid": uid(tail), "anchorUuid": uid(anchor)}
    return boundary(own, above, preservedSegment=segment)


spoken = st.one_of(
    st.builds(user, name, parent),
    st.builds(lambda n, p, a: said(n, p, of=a), name, parent, answer),
    st.builds(lambda n, p, t, a: said(n, p, call(t), of=a), name, parent, tool, answer),
    st.builds(result, name, parent, tool),
)
structural = st.one_of(
    st.builds(summed, name, parent),
    st.builds(boundary, name, parent),
    st.builds(keeping, name, parent, name, name, name),
    st.builds(lambda n, p: entry("progress", n, p), name, parent),
    st.builds(lambda n, p: entry("novel", n, p), name, parent),
    st.builds(lambda n, p: entry("attachment", n, p, attachment={}), name, parent),
    st.builds(marked, st.one_of(st.none(), name), st.booleans()),
    st.builds(lambda n: {"type": "tombstone", "messageUuid": uid(n)}, name),
)
ahead = st.builds(owing, name, parent)


def bent(line: dict[str, Any], how: str) -> dict[str, Any] | bytes:
    match how:
        case "sidechain":
            return line | {"isSidechain": True}
        case "torn":
            return encoded([line])[:60] + b"\n"
        case "glued":
            return encoded([line])[:60] + encoded([line])
        case "":
            return line
        case _:
            return {key: value for key, value in line.items() if key != how}


bends = st.sampled_from(
    [""] * 8 + ["uuid", "parentUuid", "timestamp", "message", "sidechain", "torn", "glued"]
)
in_place = st.lists(st.builds(bent, st.one_of(spoken, spoken, structural), bends), max_size=14)
lines = st.lists(
    st.one_of(ahead, *[st.builds(bent, st.one_of(spoken, spoken, structural), bends)] * 6),
    max_size=14,
)


def session(folder: str, written: list[dict[str, Any] | bytes]) -> Path:
    path = Path(folder) / f"{SESSION}.jsonl"
    path.write_bytes(encoded(written))
    return path


@pytest.mark.laws
@requirement("R251")
@given(lines)
def test_every_entry_is_live_once_or_named_once(written: list[dict[str, Any] | bytes]) -> None:
    with TemporaryDirectory() as folder:
        loaded = load(session(folder, written), reads_all=True)
    links = loaded.chain.links
    live = loaded.chain.live
    assert len(set(live)) == len(live)
    named = [note.at for note in loaded.chain.left_out()]
    conversation = [n.at for n in links.nodes if n.is_conversation]
    superseded = [n.at for n in links.superseded if n.is_conversation]
    spoken_live = [links.nodes[i].at for i in live]
    assert sorted([*spoken_live, *named]) == sorted([*conversation, *superseded])
    list(loaded.report())


@pytest.mark.laws
@requirement("W27")
@given(lines)
def test_from_the_last_boundary_on_is_the_same_conversation(
    written: list[dict[str, Any] | bytes],
) -> None:
    with TemporaryDirectory() as folder:
        path = session(folder, written)
        assert load(path).messages == load(path, reads_all=True).messages


@pytest.mark.laws
@given(lines)
def test_from_the_beginning_has_all_that_is_live_and_each_entry_once(
    written: list[dict[str, Any] | bytes],
) -> None:
    with TemporaryDirectory() as folder:
        path = session(folder, written)
        live, told = load(path).messages, from_the_beginning(path)
    uuids = [message["uuid"] for message in told]
    assert len(set(uuids)) == len(uuids)
    assert all(message in told for message in live)


@pytest.mark.laws
@requirement("R197")
@given(in_place)
# A rewind in front of an attachment.
@example(
    [said("a1", None, of="m1"), entry("attachment", "a2", "a1", attachment={}), marked("a1", True)]
)
def test_what_is_said_next_stands_after_everything_that_was_live(
    written: list[dict[str, Any] | bytes],
) -> None:
    with TemporaryDirectory() as folder:
        path = session(folder, written)
        before = load(path)
        following = user("zz", None) | {"parentUuid": before.leaf_uuid, "promptSource": "typed"}
        with path.open("ab") as file:
            file.write(b"\n" + encoded([following]))
        assert load(path).messages == [*before.messages, following]


@pytest.mark.laws
@given(in_place)
def test_repair_keeps_the_conversation_or_refuses_and_writes_nothing(
    written: list[dict[str, Any] | bytes],
) -> None:
    with TemporaryDirectory() as folder:
        path = session(folder, written)
        before, whole = path.read_bytes(), load(path, reads_all=True)
        try:
            done = carry_out(plan(path), Path(folder) / "backups")
        except WouldLoseError:
            assert path.read_bytes() == before
            assert list(Path(folder).iterdir()) == [path]
            return
        assert path.read_bytes().startswith(before)
        kept = [
            n.uuid for n in whole.chain.nodes() if not (n.is_boundary and whole.chain.boundary < 0)
        ]
        repaired = [n.uuid for n in load(done.plan.target, reads_all=True).chain.nodes()]
        assert [u for u in repaired if u in set(kept)] == kept
