"""Rewind files and conversation to any message, and redo, with the real program."""

import shutil
from pathlib import Path

import pytest

from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.restore import NO_REWIND
from clew.record.transcript.log import Log
from tests.fronts.headless.clew_process import transcripts
from tests.record.rewind.trips import Trip, bash, edit, read, write
from tests.requirements import requirement


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


@requirement("R200")
def test_files_and_conversation_go_back_to_any_prompt_and_back_again(trip: Trip) -> None:
    (trip.work / "old.txt").write_text("as it was\n", "utf-8")
    states = [trip.files()]
    trip.turn(
        "one", write("new/deep/a.txt", "first\n"), read("old.txt"), edit("old.txt", "was", "is")
    )
    states.append(trip.files())
    trip.turn("two", edit("new/deep/a.txt", "first", "second"), bash("rm old.txt"))
    states.append(trip.files())
    trip.turn(
        "three",
        bash(
            "mv new/deep/a.txt b.txt && chmod 755 b.txt && ln -s b.txt link && echo more >> b.txt"
        ),
    )
    states.append(trip.files())
    for n, prompt in ((2, "three"), (1, "two"), (0, "one"), (2, "three")):
        done = trip.rewind(trip.prompt(prompt)) if n != 2 or trip.files() == states[3] else {}
        if done:
            assert done["done"], done
            assert trip.files() == states[n], prompt
            assert trip.conversation() == ["one", "two", "three"][:n]
    for n in (1, 2, 3):
        assert trip.rewind("--redo")["done"]
        assert trip.files() == states[n]
        assert trip.conversation() == ["one", "two", "three"][:n]
    assert NO_REWIND in trip.rewind("--redo", code=2)["error"]


def test_a_way_back_leads_after_a_result_and_before_a_call(trip: Trip) -> None:
    trip.turn("go", write("a", "1"), write("b", "2"), write("c", "3"))
    results = [e["uuid"] for e in trip.entries if "toolUseResult" in e]
    assert trip.rewind(results[1], "--files")["done"]
    assert set(trip.files()) == {"a", "b"}
    calls = [e["uuid"] for e in trip.entries if e.get("type") == "assistant"]
    assert trip.rewind(calls[0], "--files")["done"]
    assert trip.files() == {}
    assert trip.rewind("start", "--files")["done"]
    assert len(trip.conversation()) == 1


def test_files_and_conversation_can_go_back_alone(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    trip.turn("two", read("a"), write("a", "2"))
    both = trip.files()
    trip.rewind(trip.prompt("two"), "--conversation")
    assert trip.conversation() == ["one"]
    assert trip.files() == both
    trip.rewind("--redo")
    assert trip.conversation() == ["one", "two"]
    trip.rewind(trip.prompt("two")[:13], "--files")
    assert trip.files() == {"a": "644 1"}
    assert trip.conversation() == ["one", "two"]


def test_the_session_continues_from_where_it_was_taken_back_to(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    trip.turn("two", write("b", "2"))
    trip.rewind(trip.prompt("two"))
    trip.turn("three", write("c", "3"))
    assert trip.conversation() == ["one", "three"]
    assert set(trip.files()) == {"a", "c"}
    trip.rewind(trip.prompt("three"))
    assert set(trip.files()) == {"a"}


def test_what_someone_else_changed_is_not_overwritten_unless_forced(trip: Trip) -> None:
    trip.turn("one", write("a", "1"), write("b", "2"))
    (trip.work / "a").write_text("mine", "utf-8")
    before = trip.files()
    done = trip.rewind(trip.prompt("one"), code=1)
    assert not done["done"]
    assert [one["path"] for one in done["changedByOthers"]] == [str(trip.work / "a")]
    assert trip.files() == before
    assert len(trip.conversation()) == 1
    assert trip.rewind(trip.prompt("one"), "--force")["done"]
    assert trip.files() == {}
    assert trip.rewind("--redo")["done"]
    assert trip.files() == before


def test_content_nobody_has_is_said_before_anything_changes(trip: Trip) -> None:
    (trip.work / "quiet.txt").write_bytes(bytes((4 << 20) + 1))
    trip.turn("one", bash("for f in *.txt; do echo x > $f; done; echo y > made.log"))
    before = trip.files()
    done = trip.rewind(trip.prompt("one"), code=1)
    assert [Path(one["path"]).name for one in done["lost"]] == ["quiet.txt"]
    assert trip.files() == before
    assert trip.rewind(trip.prompt("one"), "--force")["done"]
    assert set(trip.files()) == {"quiet.txt"}


def test_a_file_that_was_read_is_known_to_later_commands(trip: Trip) -> None:
    (trip.work / "known.txt").write_text("read before", "utf-8")
    states = trip.files()
    trip.turn("one", read("known.txt"), bash("for f in *.txt; do echo x > $f; done"))
    assert trip.files() != states
    assert trip.rewind(trip.prompt("one"))["done"]
    assert trip.files() == states


def test_folders_links_and_names_that_are_no_text_come_back(trip: Trip) -> None:
    inner = trip.work / "tree" / "deep"
    inner.mkdir(parents=True)
    (inner / "leaf").write_text("leaf", "utf-8")
    (trip.work / "tree" / "to").symlink_to("deep/leaf")
    (trip.work / "target").write_text("far", "utf-8")
    (trip.work / "near").symlink_to("target")
    states = trip.files()
    trip.turn(
        "one",
        bash("rm -r tree"),
        read("near"),
        edit("near", "far", "changed through a link"),
        bash("printf x > $'odd\\xff'"),
    )
    assert len(list(trip.work.iterdir())) == 3
    assert trip.rewind(trip.prompt("one"))["done"]
    assert trip.files() == states


def test_nothing_goes_back_while_the_session_is_open(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    log = Log()
    assert log.claim(transcripts(trip.home)[0])
    assert "already open" in trip.rewind(trip.prompt("one"), code=2)["error"]
    log.close()
    assert set(trip.files()) == {"a"}


def test_lost_contents_and_failing_disks_change_nothing(trip: Trip) -> None:
    trip.turn("one", write("a", "1"), write("z/b", "2"))
    trip.turn("two", read("a"), write("a", "changed"), bash("rm z/b && rmdir z && touch z"))
    before = trip.files()
    (trip.work / "z").unlink()
    (trip.work / "z").mkdir()
    (trip.work / "z" / "b").mkdir()
    (trip.work / "z" / "b" / "mine").write_text("in the way", "utf-8")
    blocked = trip.files()
    done = trip.rewind(trip.prompt("two"), "--force", code=2)
    assert "nothing was changed" in done["error"]
    assert trip.files() == blocked
    assert len(trip.conversation()) == 2
    shutil.rmtree(trip.work / "z")
    (trip.work / "z").touch()
    assert trip.files() == before
    assert trip.rewind(trip.prompt("two"), "--force")["done"]
    assert trip.files() == {"a": "644 1", "z": "folder", "z/b": "644 2"}
    assert trip.rewind("--redo")["done"]
    assert trip.files() == before
    blobs = Blobs(blobs_dir(trip.home / "config"))
    for name, _ in list(blobs.each()):
        blobs.remove(name)
    done = trip.rewind(trip.prompt("two"), "--files", code=1)
    assert {Path(one["path"]).name for one in done["lost"]} == {"a", "b"}


def test_what_is_kept_is_the_users_alone_and_kept_once(trip: Trip) -> None:
    trip.turn("one", write("a", "same"), write("b", "same"))
    kept = [path for path in blobs_dir(trip.home / "config").rglob("*") if path.is_file()]
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o600
    assert kept[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_dry_run_says_what_would_be_done(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    before = transcripts(trip.home)[0].read_bytes()
    done = trip.rewind(trip.prompt("one"), "--dry-run")
    assert not done["done"]
    assert [f["after"]["kind"] for f in done["files"]] == ["absent"]
    shown = trip.run("sessions", "rewind", trip.session, trip.prompt("one"), "--dry-run").stdout
    assert "would be removed" in shown
    assert transcripts(trip.home)[0].read_bytes() == before
    for words in ((), (trip.prompt("one"), "--redo"), ("nonsense",)):
        assert trip.rewind(*words, code=2)["error"]
