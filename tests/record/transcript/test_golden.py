"""Golden lines of every kind: each reads as its kind, shows its fields, and is kept whole."""

from pathlib import Path

import pytest

from clew.core.messages.blocks import BLOCKS
from clew.core.messages.kinds import BESIDE, CHAIN, KINDS, LIVE
from clew.core.messages.messages import SUBTYPES, Message, UnknownEntry
from clew.core.messages.views import Field, View, fields
from clew.record.transcript.entries import Keys, TranscriptLine, encode, parse, scan
from clew.record.transcript.load import load
from clew.record.transcript.policy import (
    is_chain_participant,
    is_ephemeral_progress,
    is_transcript_message,
)
from tests.requirements import requirement

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.jsonl"))


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def entries(path: Path) -> list[TranscriptLine]:
    found = [parse(line, number) for number, line in enumerate(lines(path), 1)]
    assert all(isinstance(e, TranscriptLine) for e in found), path
    return [e for e in found if isinstance(e, TranscriptLine)]


EVERY = [entry for path in FILES for entry in entries(path)]


@requirement("R003", "C1")
def test_every_kind_has_its_golden_lines() -> None:
    assert {p.stem for p in FILES} == {*KINDS, "kind-of-tomorrow"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden_lines_read_as_their_kind_and_write_back(path: Path) -> None:
    kind = KINDS.get(path.stem)
    for line, entry in zip(lines(path), entries(path), strict=True):
        assert type(entry.view) is (UnknownEntry if kind is None else kind.view)
        assert entry.view.type == path.stem
        assert entry.raw == line
        plain = encode(entry.data)
        for raw, escaped in (("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"), ("\x85", b"\\u0085")):
            plain = plain.replace(escaped, raw.encode())
        assert plain == line
        keys = scan(line)
        assert isinstance(keys, Keys)
        assert (keys.type, keys.uuid) == (entry.data["type"], entry.data.get("uuid"))
        changed = entry.replaced("sessionId", "other")
        assert changed.data == entry.data | {"sessionId": "other"}


def is_read(field: Field, view: View) -> bool:
    return field.value(view) not in (None, False, [])


def declared(view_class: type[View]) -> dict[str, Field]:
    """Fields a class names itself; those it inherits are shown by the kinds it shares them with."""
    return {name: f for name, f in fields(view_class).items() if name in vars(view_class)}


@requirement("R013", "R016", "R009", "R018", "R011", "R006", "R008")
@pytest.mark.parametrize("view_class", [k.view for k in KINDS.values()], ids=lambda c: c.__name__)
def test_every_field_of_a_kind_is_spelled_as_in_some_golden_line(view_class: type[View]) -> None:
    seen = [e.view for e in EVERY if isinstance(e.view, view_class)]
    for name, field in declared(view_class).items():
        assert any(is_read(field, view) for view in seen), name


@requirement("R004", "R021")
def test_the_fields_that_all_entries_share_are_spelled_as_in_some_golden_line() -> None:
    for base in {b for k in KINDS.values() for b in k.view.__mro__ if issubclass(b, View)}:
        seen = [e.view for e in EVERY if isinstance(e.view, base)]
        for name, field in declared(base).items():
            assert any(is_read(field, view) for view in seen), f"{base.__name__}.{name}"


@requirement("R029", "W18")
def test_every_block_kind_and_each_of_its_fields_stands_in_some_golden_line() -> None:
    seen = [b for e in EVERY if isinstance(e.view, Message) for b in e.view.blocks]
    assert {b.type for b in seen} == {*BLOCKS, "hologram"}
    for block in BLOCKS.values():
        for name, field in declared(block).items():
            assert any(is_read(field, b) for b in seen if isinstance(b, block)), f"{block} {name}"


@requirement("R015")
def test_all_subtypes_of_system_messages_come_back_from_disk(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    written = entries(GOLDEN / "system.jsonl")
    copy.write_bytes(b"".join(e.raw + b"\n" for e in written))
    read = entries(copy)
    assert [e.data for e in read] == [e.data for e in written]
    seen = {e.data["subtype"] for e in read}
    assert seen == SUBTYPES | {"a_subtype_of_tomorrow"}
    assert len(SUBTYPES) == 14
    assert {type(e.view) for e in read} == {KINDS["system"].view}  # one class for all of them


@requirement("R002", "R169", "R171", "C11")
def test_every_kind_has_its_decisions() -> None:
    talk = {"user", "assistant", "attachment", "system"}
    assert {tag for tag, kind in KINDS.items() if kind.place == CHAIN} == talk
    for tag, kind in KINDS.items():
        assert kind.place in (CHAIN, BESIDE, LIVE)
        assert kind.comes_from
        assert kind.goes_to
        assert not (kind.written and kind.place == LIVE), (
            f"{tag} is recorded, so it does not only live"
        )
        assert is_transcript_message(tag) == is_chain_participant(tag) == (tag in talk)
    assert not is_transcript_message("kind-of-tomorrow")
    assert not is_transcript_message(None)
    assert [e.data["type"] for e in EVERY if is_ephemeral_progress(e.data)] == ["progress"]


@requirement("R003")
def test_the_table_holds_every_view_of_an_entry_or_event() -> None:
    from clew.core.messages import messages, records
    from clew.core.messages import records as events

    bases = {messages.Message, messages.Entry, messages.UnknownEntry}
    named = {
        value
        for module in (events, messages, records)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, View)
        and value.__module__ == module.__name__
    }
    assert named - bases == {kind.view for kind in KINDS.values()}


@requirement("R168")
def test_only_the_four_kinds_of_the_conversation_are_loaded_as_its_messages(tmp_path: Path) -> None:
    steering = {"last-prompt", "tombstone", "tool-started", "tool-finished"}  # say what is live
    talk = {"user", "assistant", "attachment", "system"}
    beside = [e.raw for e in EVERY if e.data["type"] not in talk | steering]
    first, last = entries(GOLDEN / "user.jsonl")[0], entries(GOLDEN / "assistant.jsonl")[0]
    hung = last.replaced("parentUuid", first.data["uuid"])
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join([first.raw, *beside, hung.raw, b""]))
    assert [m["uuid"] for m in load(path).messages] == [first.data["uuid"], last.data["uuid"]]


@requirement("R170")
def test_progress_inside_an_old_chain_is_a_bridge_to_its_parent(tmp_path: Path) -> None:
    user, said = entries(GOLDEN / "user.jsonl")[0], entries(GOLDEN / "assistant.jsonl")[0]
    [progress] = entries(GOLDEN / "progress.jsonl")
    progress = progress.replaced("parentUuid", user.data["uuid"])
    said = said.replaced("parentUuid", progress.data["uuid"])
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join([user.raw, progress.raw, said.raw, b""]))
    assert [m["uuid"] for m in load(path).messages] == [user.data["uuid"], said.data["uuid"]]


def test_entries_of_a_team_carry_it_and_can_be_told_apart_without_decoding() -> None:
    of_team = [k for e in EVERY if isinstance(k := scan(e.raw), Keys) and k.team_name == "weavers"]
    assert [k.uuid for k in of_team] == [
        e.data["uuid"] for e in EVERY if e.data.get("teamName") == "weavers"
    ]
    assert len(of_team) == 1
