"""`clew sessions` as a process: what it prints, what it writes, how it ends."""

import json
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript import paths
from clew.record.transcript.copies import open_staging
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.leaf import NOBODY
from clew.record.transcript.load import load
from clew.record.transcript.repair import UNDER_REPAIR
from tests.commands.sessions.place import Place
from tests.record.transcript.build import (
    SESSION,
    call,
    encoded,
    entry,
    last_prompt,
    result,
    said,
    summary,
    talk,
    user,
    write,
)
from tests.record.transcript.session import OTHER, Session
from tests.requirements import requirement


def test_list_shows_this_folders_sessions_newest_first(place: Place) -> None:
    place.write(talk(1))
    newer = place.write([user("n", None, "newer \x1b[31mred")], OTHER)
    os.utime(newer, (4e9, 4e9))
    shown = place.clew("list").splitlines()
    assert [line.split()[0] for line in shown] == [OTHER, SESSION]
    assert "\x1b" not in shown[0]
    listed = place.json("list", "--limit", "1")
    assert [o["sessionId"] for o in listed] == [OTHER]
    assert listed[0]["firstPrompt"] == "newer \x1b[31mred"


@requirement("C17")
def test_sessions_of_another_path_with_the_same_name_are_told_apart(place: Place) -> None:
    twin = place.cwd.with_name("work-x")
    nested = place.cwd.with_name("work") / "x"
    twin.mkdir()
    nested.mkdir()
    assert paths.get_project_dir(place.home, str(twin)) == paths.get_project_dir(
        place.home, str(nested)
    )
    folder = paths.get_project_dir(place.home, str(twin))
    write(folder, [user("a", None, "of the twin", cwd=str(twin))])
    write(folder, [user("b", None, "of the nested", cwd=str(nested))], name=OTHER)
    place.cwd = nested
    assert [o["title"] for o in place.json("list")] == ["of the nested"]
    assert len(place.json("list", "--all")) == 2


def test_show_prints_the_live_conversation(place: Place) -> None:
    path = place.write(
        [*talk(1), said("t", "a1", call("x")), {"type": "custom-title", "customTitle": "Mine"}]
    )
    assert place.clew("show", SESSION).splitlines() == [
        "user: u1", "assistant [text]: a1", 'assistant [Bash]: {"command":"x"}',
    ]  # fmt: skip
    typed = "<command-message>fix</command-message>\n<command-name>/fix</command-name>"
    place.write([user("u1", None, typed)], OTHER)
    assert place.clew("show", OTHER) == "user: /fix\n"
    for name in (str(path), "Mine"):
        found = place.json("show", name)
        assert [m["type"] for m in found["messages"]] == ["user", "assistant", "assistant"]
        assert found["leafUuid"] == found["messages"][-1]["uuid"]


def test_check_says_what_is_broken_and_ends_with_one(place: Place) -> None:
    path = place.write(talk(2))
    assert "ok, 4 live messages" in place.clew("check", SESSION)
    path.write_bytes(path.read_bytes() + b'{"torn')
    said_text = place.clew("check", code=1)
    assert "L01 warning" in said_text
    assert "line 5" in said_text
    report = place.json("check", "--all", code=1)
    assert report[0]["ok"] is False
    assert [f["name"] for f in report[0]["findings"]] == ["torn-line"]
    place.write([*talk(1), user("v", "u1")], OTHER)
    path.unlink()
    assert "N01" not in place.clew("check")
    assert "N01 note" in place.clew("check", "--notes")


def test_of_what_is_broken_in_the_same_way_the_first_lines_are_listed_for_people(
    place: Place,
) -> None:
    path = place.write(talk(2))
    path.write_bytes(b"garbage\n" * 1030 + path.read_bytes() + b'{"torn')
    said_text = place.clew("check", code=1)
    assert said_text.count("L02 warning") == 1
    assert "(1,030 times)\n    lines 1-1030" in said_text
    assert "L01 warning" in said_text.partition("L02 warning")[0]
    assert "line 1035" in said_text.partition("L02 warning")[0]
    assert len(place.json("check", code=1)[0]["findings"]) == 1031
    mended = place.clew("repair", SESSION, code=1)
    assert mended.count("L02") == 21
    assert "1,010 " in mended
    assert len(place.json("repair", SESSION, code=1)["remaining"]) == 1031


def test_check_says_that_a_file_is_empty(place: Place) -> None:
    path = place.write(talk(1))
    assert [one["isEmpty"] for one in place.json("check")] == [False]
    path.write_bytes(b"")
    assert place.clew("check").startswith(f"{path}: ")
    assert [one["isEmpty"] for one in place.json("check")] == [True]


def test_the_rules_can_be_read(place: Place) -> None:
    assert "| L01 | torn-line | warning |" in place.clew("check", "--rules")
    assert place.json("check", "--rules")[0]["number"] == "L01"


def test_repair_says_first_and_then_does(place: Place) -> None:
    path = place.write([user("u1", None), said("t1", "u1", call("x"))])
    before = path.read_bytes()
    dry = place.json("repair", SESSION, "--dry-run")
    assert (dry["action"], dry["lines"], dry["dryRun"]) == ("append", 1, True)
    assert path.read_bytes() == before
    assert "would be appended" in place.clew("repair", SESSION, "--dry-run")
    done = place.json("repair", SESSION)
    assert Path(done["backup"]).read_bytes() == before
    assert Path(done["backup"]).is_relative_to(place.home / "clew" / "backups")
    assert done["remaining"] == []
    assert place.json("repair", SESSION)["action"] == "nothing"
    place.clew("check", SESSION)


def test_repair_writes_a_new_session_where_the_old_one_cannot_be_added_to(place: Place) -> None:
    u1, a1, u2, a2 = talk(2)
    path = place.write([u1, a1, u2 | {"parentUuid": "gone"}, a2])
    before = path.read_bytes()
    done = place.json("repair", SESSION)
    assert done["action"] == "new session"
    assert path.read_bytes() == before
    target = Path(done["target"])
    assert target.parent == path.parent
    assert len(load(target).messages) == 4
    place.clew("check", target.stem)


def test_a_session_is_repaired_once_and_its_copy_is_known_by_its_title(place: Place) -> None:
    u1, a1, u2, a2 = talk(2)
    path = place.write([u1, a1, u2 | {"parentUuid": "gone"}, a2])
    dry = place.json("repair", SESSION, "--dry-run")
    assert (dry["action"], dry["dryRun"]) == ("new session", True)
    first = place.clew("repair", SESSION)
    (copy,) = [file for file in place.sessions.glob("*.jsonl") if file != path]
    assert str(copy) in first
    assert f"clew --resume {copy.stem}" in first
    assert f"clew sessions archive {SESSION}" in first
    titles = {one["sessionId"]: one["title"] for one in place.json("list")}
    assert titles == {SESSION: "u1", copy.stem: "u1 (repaired)"}
    for words in ((), ("--warnings",), ("--dry-run",)):
        assert str(copy) in place.clew("repair", SESSION, *words)
        assert place.json("repair", SESSION, *words)["action"] == "repaired already"
    done = place.json("repair", SESSION)
    assert (done["action"], done["target"]) == ("repaired already", str(copy))
    place.clew("rename", SESSION, "other words")
    place.clew("repair", SESSION)
    assert set(place.sessions.glob("*.jsonl")) == {path, copy}
    # What was said in the original since then is not in that copy.
    more = encoded([user("u3", "a2", cwd=str(place.cwd), sessionId=SESSION)])
    path.write_bytes(path.read_bytes() + more)
    assert place.json("repair", SESSION)["action"] == "new session"
    assert len(list(place.sessions.glob("*.jsonl"))) == 3
    assert place.json("repair", SESSION)["action"] == "repaired already"


def test_a_copy_of_a_subagents_file_is_in_no_list_either(place: Place) -> None:
    lines = [m | {"isSidechain": True} for m in talk(1)]
    place.write([lines[0], lines[1] | {"timestamp": "yesterday"}])
    assert place.json("repair", SESSION)["action"] == "new session"
    done = place.json("repair", SESSION)
    assert done["action"] == "repaired already"
    assert place.json("list") == []


def test_repair_leaves_what_it_cannot_mend_named(place: Place) -> None:
    place.write([entry("system", "x", None, subtype="informational", content="Hello.")])
    told = place.clew("repair", SESSION, code=1)
    assert "line 1: C10 nothing-live: " in told
    assert told == place.clew("repair", SESSION, "--dry-run", code=1)


def test_repair_repairs_warnings_where_that_is_wished_and_says_why_others_stay(
    place: Place,
) -> None:
    u1, a1, u2, a2 = talk(2)
    path = place.write([u1, b"{oops\n", a1, u2, a2, result("r", "a2", "z")])
    before = path.read_bytes()
    left = place.json("repair", SESSION, code=1)
    assert left["action"] == "nothing"
    assert [(one["rule"], one["why"].split()[0]) for one in left["remaining"]] == [
        ("L02", "the"),
        ("T02", "its"),
    ]
    told = place.clew("repair", SESSION, code=1)
    assert "line 2: L02 not-an-entry: " in told
    assert f"clew sessions repair --warnings {SESSION}" in told
    done = place.json("repair", SESSION, "--warnings", code=1)
    assert (done["action"], path.read_bytes()) == ("new session", before)
    assert [one["rule"] for one in done["remaining"]] == ["T02"]
    again = place.json("repair", SESSION, code=1)
    assert (again["action"], again["target"]) == ("repaired already", done["target"])
    assert again["remaining"] == done["remaining"]


def test_what_someone_took_back_is_no_damage(place: Place) -> None:
    lines = [*talk(1)]
    for n in range(4):
        lines += [last_prompt("a1", explicit=True), user(f"v{n}", "a1"), said(f"w{n}", f"v{n}")]
    reset = {
        "type": "last-prompt",
        "leafUuid": NOBODY,
        "explicit": True,
        "atStart": True,
        "sessionId": SESSION,
    }
    place.write([*lines, reset, *talk(1, start=7)])
    assert ": ok, 2 live messages" in place.clew("check", SESSION)


@requirement("W29")
def test_repair_of_a_session_that_runs_is_refused(place: Place) -> None:
    session = Session(place.home, cwd=str(place.cwd))
    session.recorder.record([session.user("go"), *session.answer(call("x"))])
    session.load()
    assert OPEN_ELSEWHERE in place.clew("repair", SESSION, code=2)
    session.close()


@pytest.mark.parametrize("word", ["show", "check", "repair"])
def test_what_is_not_there_or_not_one_is_said(place: Place, word: str) -> None:
    assert "session 'nope' not found" in place.clew(word, "nope", code=2)
    assert "file not found" in place.clew(word, "missing.jsonl", code=2)
    write(place.home / "projects" / "-a", talk(1))
    write(place.home / "projects" / "-b", [*talk(1), summary("s", "a1")])
    assert "matches several sessions" in place.clew(word, SESSION, code=2)


def test_a_session_is_known_by_the_beginning_of_its_id(place: Place) -> None:
    one, other = SESSION, f"{SESSION[:-1]}{'0' if SESSION[-1] != '0' else '1'}"
    place.write(talk(1), name=one)
    assert one in place.clew("check", one[:8])
    assert one in place.clew("check", one[:13].upper())
    assert f"session '{one[:7]}' not found" in place.clew("check", one[:7], code=2)
    place.write(talk(1), name=other)
    said = place.clew("check", one[:8], code=2)
    assert "matches several sessions" in said
    assert one in said
    assert other in said
    place.clew("rename", one, other[:8])
    assert one in place.clew("check", other[:8]), "an exact title comes first"


def test_damage_of_every_kind_is_listed_shown_and_checked_without_a_fault(place: Place) -> None:
    from tests.record.transcript.test_repair import ODD

    for lines in list(ODD.values())[::9]:
        path = place.write(lines)
        place.clew("list")
        place.clew("show", str(path))
        report = place.json("check", str(path), code=0 if not problems(path) else 1)
        assert len(report) == 1


def problems(path: Path) -> list[Any]:
    from clew.record.transcript.examine import examine

    return examine(path).problems


@pytest.mark.parametrize("word", ["check", "repair", "export", "tree"])
def test_a_word_that_reads_the_file_alone_names_the_copy_with_the_rest(
    place: Place, word: str
) -> None:
    path = place.write(talk(1))
    unsaved = place.home / "clew" / "unsaved"
    unsaved.mkdir(parents=True, mode=0o700)
    agent = path.with_suffix("") / "subagents" / "agent-a7.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(encoded([user("x", None, isSidechain=True)]))
    assert place.run(word, SESSION).stderr == b""
    rest = write(unsaved, talk(1, first="a1", start=2))
    others = unsaved / paths.copy_name(agent)
    others.write_bytes(encoded([said("y", "x", isSidechain=True)]))
    done = place.run(word, SESSION)
    assert done.returncode == 0
    told = done.stderr.decode().splitlines()
    assert [(str(path) in line, str(rest) in line) for line in told] == [
        (True, True),
        (False, False),
    ]
    assert str(agent) in told[1]
    assert str(others) in told[1]
    assert all(f"clew --resume {SESSION}" in line for line in told)
    assert "u2" in place.clew("show", SESSION)


def to_be_copied(place: Place) -> Path:
    """A session that is repaired by a copy, with a subagent."""
    lines = [*talk(1)[:1], said("t1", "u1", call("x")), user("u2", "t1"), said("a2", "u2")]
    path = place.write(lines)
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_bytes(
        encoded([user("b1", None) | {"sessionId": SESSION}] * 2000)
    )
    return path


@pytest.mark.parametrize("kind", ["append", "new session"])
def test_what_a_killed_repair_left_is_in_the_way_of_none(place: Place, kind: str) -> None:
    if kind == "append":
        path = place.write([user("u1", None), said("t1", "u1", call("x"))])
    else:
        path = to_be_copied(place)
    for left in (path.with_suffix(".new"), path.with_suffix(".repairing") / path.name):
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
    half = path.with_suffix(".repairing") / OTHER / "subagents"
    half.mkdir(parents=True)
    (half / "agent-half.jsonl").write_bytes(b"half")
    precious = place.cwd / "precious"
    precious.write_bytes(b"gold")
    (half.parent / "link").symlink_to(place.cwd)
    (path.with_suffix(".repairing") / "link").symlink_to(place.cwd)
    done = place.json("repair", SESSION)
    assert done["action"] == kind
    assert done["remaining"] == []
    assert not path.with_suffix(".repairing").exists()
    assert precious.read_bytes() == b"gold"


def test_of_two_repairs_at_once_one_makes_the_copy(place: Place) -> None:
    path = to_be_copied(place)
    with open_staging(path):
        assert UNDER_REPAIR in place.clew("repair", SESSION, code=2)
    with ThreadPoolExecutor() as pool:
        done = [*pool.map(lambda _: place.run("repair", SESSION), range(3))]
    for one in done:
        told = (one.stdout + one.stderr).decode()
        is_held = UNDER_REPAIR in told
        assert one.returncode == (2 if is_held else 0), told
        assert is_held or "repaired copy written to" in told or "was already repaired" in told
    copies = [p for p in path.parent.iterdir() if p != path and p != path.with_suffix("")]
    (copy,) = (p for p in copies if p.suffix == ".jsonl")
    assert {*copies} == {copy, copy.with_suffix("")}
    agent = copy.with_suffix("") / "subagents" / "agent-a1.jsonl"
    assert [line["sessionId"] for line in decoded(agent)] == [copy.stem] * 2000


def test_a_repair_that_the_disk_does_not_take_leaves_nothing(place: Place) -> None:
    path = to_be_copied(place)
    before = sorted(path.parent.rglob("*"))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = place.run("repair", SESSION, preexec_fn=small)
    assert done.returncode == 2
    assert b"File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    assert sorted(path.parent.rglob("*")) == before
    assert place.json("repair", SESSION)["action"] == "new session"


def decoded(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("levels", [150, 5_000])
def test_a_call_nested_however_deep_is_shown(place: Place, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    (line,) = encoded([said("t1", "u1", call("HERE"))]).splitlines()
    place.write([user("u1", None), line.replace(b'"command":"HERE"', b'"command":' + deep)])
    assert deep.decode() in place.clew("show", SESSION)


def test_a_subagents_file_next_to_the_sessions_names_its_session(place: Place) -> None:
    for name, code in (("agent-1a2b3c4d", 0), (OTHER, 1)):
        path = place.cwd / f"{name}.jsonl"
        path.write_bytes(encoded([line | {"isSidechain": True} for line in talk(1)]))
        (checked,) = place.json("check", str(path), code=code)
        names = {finding["name"] for finding in checked["findings"]}
        assert ("wrong-session" in names) is bool(code)
