"""`clew sessions list`: what is listed, what is filtered, what is hidden and why."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.commands.sessions.output import NONE_HERE
from clew.record.library.places import MISNAMED, SIDECHAIN, SILENT
from tests.commands.sessions.place import CLEW, Place
from tests.record.transcript.build import SESSION, said, talk, user, write
from tests.record.transcript.session import OTHER
from tests.requirements import requirement


def ids(place: Place, *words: str) -> list[str]:
    return [outline["sessionId"] for outline in place.json("list", *words)]


def test_a_list_can_be_narrowed(place: Place) -> None:
    first = place.write([user("a", None, "apples", gitBranch="main"), said("b", "a")])
    place.write(
        [
            user("c", None, "pears", gitBranch="topic"),
            {"type": "tag", "tag": "fruit", "sessionId": OTHER},
        ],
        OTHER,
    )
    os.utime(first, (1e9, 1e9))
    assert ids(place) == [OTHER, SESSION]
    assert ids(place, "--branch", "main") == [SESSION]
    assert ids(place, "--tag", "fruit") == [OTHER]
    assert ids(place, "--title", "PEAR") == [OTHER]
    assert ids(place, "--since", "2020-01-01") == [OTHER]
    assert ids(place, "--until", "2001-09-09") == [SESSION]
    assert ids(place, "--until", "2001-09-08") == []
    assert ids(place, "--model", "opus-5") == [SESSION]
    assert ids(place, "--model", "haiku") == []
    assert ids(place, "--cost-over", "0.00001") == [SESSION]
    assert ids(place, "--cost-over", "5") == []
    assert "#fruit" in place.clew("list", "--tag", "fruit")


def test_people_read_and_type_times_by_their_own_clock_and_programs_by_utc(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XYZ-5")  # five hours before UTC
    stamp = "2001-09-09T01:46:40.000Z"
    os.utime(place.write([user("a", None, "apples", timestamp=stamp)]), (1e9, 1e9))
    assert "  2001-09-09 06:46  " in place.clew("list")
    (row,) = place.json("list")
    assert row["modifiedAt"] == "2001-09-09T01:46:40Z"
    assert ids(place, "--since", "2001-09-09T06:00") == [SESSION]
    assert ids(place, "--since", "2001-09-09T06:00Z") == []
    assert ids(place, "--until", "2001-09-09T06") == [SESSION]
    assert ids(place, "--until", "2001-09-09T05") == []
    assert ids(place, "--until", "2001-09-09T01:46Z") == [SESSION]
    assert "  2001-09-09 06:46 " in place.clew("search", "apples")
    odd = place.write([user("c", None, "pears", timestamp="yesterday")], OTHER)
    assert "  yesterday " in place.clew("search", "pears"), odd


@pytest.mark.parametrize("zone", ["XYZ+99", "XYZ-24:59:59", "no/such place", ""])
def test_no_zone_is_too_odd_for_lists(
    place: Place, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    place.write([user("a", None, "apples"), said("b", "a")])
    assert SESSION in place.clew("list")
    assert ids(place, "--since", "1970-01-03", "--until", "9999-12-31") == [SESSION]
    assert SESSION[:8] in place.clew("search", "apples")
    done = subprocess.run(
        [CLEW, "cost", "--by", "day"],
        cwd=place.cwd,
        env={**os.environ, "CLEW_CONFIG_DIR": str(place.home)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_that_there_is_no_session_is_said(place: Place) -> None:
    assert "no sessions yet" in place.clew("list", "--all")
    assert NONE_HERE in place.clew("list")
    assert place.clew("list", "--json").strip() == "[]"
    place.write(talk(1))
    assert place.clew("list", "--title", "nothing like it") == "no matching sessions\n"
    assert place.clew("list", "--title", "nothing like it", "--json").strip() == "[]"


def test_what_is_in_no_list_is_named_with_the_reason(place: Place) -> None:
    place.write(talk(1))
    folder = place.sessions
    write(folder, [], name=OTHER)
    write(folder, [user("s", None, isSidechain=True)], name="2" * 8 + OTHER[8:])
    write(folder, [{"type": "mode", "mode": "normal"}], name="3" * 8 + OTHER[8:])
    write(folder, talk(1), name="agent-a1b2")
    write(folder, [user("x", None, cwd="/elsewhere")], name="4" * 8 + OTHER[8:])
    reasons = {
        Path(h["path"]).stem[:8]: h["reason"] for h in place.json("list", "--hidden", "--all")
    }
    assert reasons == {
        OTHER[:8]: "it is empty",
        "22222222": SIDECHAIN,
        "33333333": SILENT,
        "agent-a1": MISNAMED,
    }
    assert "it is empty" in place.clew("list", "--hidden")


def test_a_session_of_another_folder_of_the_same_name_is_hidden_here_and_said(place: Place) -> None:
    twin = place.cwd.with_name("work-x")
    nested = place.cwd / "x"
    twin.mkdir()
    nested.mkdir()
    place.cwd = nested
    place.write(talk(1))
    place.cwd = twin
    (hidden,) = place.json("list", "--hidden")
    assert hidden["reason"] == f"belongs to {nested}"


@pytest.fixture
def repository(place: Place) -> Path:
    """A second worktree of a repository whose first is the place's folder."""
    other = place.cwd.with_name("other-tree")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (
        ["init", "-q", "-b", "main"],
        [*identity, "commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", str(other)],
    ):
        subprocess.run(["git", *command], cwd=place.cwd, check=True, capture_output=True)
    return other


def test_worktrees_of_one_repository_are_listed_together(place: Place, repository: Path) -> None:
    place.write(talk(1))
    main, place.cwd = place.cwd, repository
    place.write(talk(1), OTHER)
    assert set(ids(place)) == {SESSION, OTHER}
    assert f"({main})" in place.clew("list")
    place.cwd = main
    assert set(ids(place)) == {SESSION, OTHER}
    (place.cwd / "below").mkdir()
    place.cwd = place.cwd / "below"
    assert ids(place) == []


@requirement("R176")
def test_a_list_reads_the_ends_of_files_only(place: Place) -> None:
    filler = user("f", "u1", "x" * 300_000)
    path = place.write([*talk(1), filler, filler, {"type": "custom-title", "customTitle": "Late"}])
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\0" * 1000)  # nobody looks there
    assert place.json("list")[0]["title"] == "Late"


def test_a_session_is_one_line_whatever_its_prompt(place: Place) -> None:
    place.write([user("a", None, "what is this\nand that"), said("b", "a")])
    assert place.clew("list").rstrip("\n").endswith("what is this and that")
