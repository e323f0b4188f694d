"""Sessions in folders and files without read or write permission.

Nothing is lost, and it is reported.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.fronts.headless.rights import binding
from tests.requirements import requirement

TALK: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}


class Home:
    """A home with one session, and clew in it."""

    def __init__(self, folder: Path, server: LoopbackServer) -> None:
        self.folder = folder
        self.server = server
        self.says("first", "-p")
        (self.saved,) = transcripts(folder)
        self.sessions = self.saved.parent

    def run(self, *words: str) -> tuple[int, str, str]:
        done = clew(self.folder, self.server.url, *words)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    def says(self, prompt: str, *words: str) -> str:
        code, out, err = self.run(*words, prompt)
        assert (code, out) == (0, "Fine.\n"), err
        return err

    def is_refused(self, *words: str) -> str:
        """Check that clew refuses in one line, and neither asks nor writes anything."""
        asked, there = len(self.server.requests), self.copies
        code, out, err = self.run(*words)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert (len(self.server.requests), self.copies) == (asked, there)
        return err

    @property
    def copies(self) -> list[Path]:
        return sorted((self.folder / "config" / "clew").glob("unsaved/*"))

    def heard(self) -> str:
        """Return the last request of a conversation."""
        asked = [request.body for request in self.server.requests if request.body]
        return json.dumps(asked[-1]["messages"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    binding(monkeypatch, tmp_path / "shim")
    with serving(TALK, strict=True) as server:
        made = Home(tmp_path, server)
        yield made
        made.sessions.parent.chmod(0o700)
        made.sessions.chmod(0o700)


@pytest.mark.parametrize("mode", [0o000, 0o600, 0o300])
@pytest.mark.parametrize("front", [("-p", "on"), ("--linear",), ("--linear", "--fork-session")])
def test_a_folder_that_cannot_be_read_ends_continue_and_begins_nothing(
    home: Home, mode: int, front: tuple[str, ...]
) -> None:
    home.sessions.chmod(mode)
    said = home.is_refused("--continue", *front)
    assert said.startswith(f"clew: {home.sessions} cannot be read: Permission denied, so ")
    home.sessions.chmod(0o700)
    home.says("on", "-p", "--continue")
    assert "first" in home.heard()
    assert transcripts(home.folder) == [home.saved]


@pytest.mark.parametrize("is_loop", [False, True])
def test_a_link_to_what_is_not_there_ends_continue_too(home: Home, is_loop: bool) -> None:
    """Such as a link to a disk that is not mounted."""
    away = home.folder / "away"
    home.sessions.rename(away)
    home.sessions.symlink_to(home.sessions if is_loop else home.folder / "nowhere")
    why = "cannot be read: Too many levels of symbolic links"
    why = why if is_loop else "is a broken link"
    said = home.is_refused("-p", "--continue", "on")
    assert said.startswith(f"clew: {home.sessions} {why}, so ")
    told = home.run("doctor", "--offline")[1]
    assert f"!! {home.sessions} {why}: its sessions cannot be resumed" in told
    assert f"fix the link {home.sessions}" in told
    home.says("second", "-p")
    (copy,) = home.copies
    told = home.run("doctor", "--offline")[1]
    mend = f"fix the link {home.sessions}; then run clew --resume {copy.stem} to restore it"
    assert mend in told
    home.sessions.unlink()
    home.sessions.symlink_to(away)
    home.says("on", "-p", "--continue")
    assert "second" in home.heard()
    assert home.copies == []


def test_the_folder_above_is_named_where_that_one_cannot_be_read(home: Home) -> None:
    home.sessions.parent.chmod(0o000)
    said = home.is_refused("-p", "--continue", "on")
    assert said.startswith(f"clew: {home.sessions.parent} cannot be read: Permission denied, so ")
    said = home.is_refused("-p", "--resume", home.saved.stem, "on")
    assert f"session '{home.saved.stem}' can't be looked up" in said


def test_a_newest_session_that_cannot_be_read_is_named_and_none_is_taken_for_it(
    home: Home,
) -> None:
    home.says("second", "-p")
    (second,) = set(transcripts(home.folder)) - {home.saved}
    second.chmod(0o000)
    said = home.is_refused("-p", "--continue", "on")
    assert said.startswith(f"clew: {second} is not readable, ")
    # One that is older is in nobody's way.
    home.says("third", "-p")
    home.says("on", "-p", "--continue")
    assert "third" in home.heard()


@requirement("R258")
def test_a_session_saved_beside_a_folder_that_cannot_be_read_waits_and_comes_home(
    home: Home,
) -> None:
    home.sessions.chmod(0o000)
    assert "Permission denied" in home.says("second", "-p")
    (copy,) = home.copies
    for words in (
        ["--continue"],
        ["--resume", copy.stem],
        ["--resume", copy.stem, "--fork-session"],
    ):
        said = home.is_refused("-p", *words, "on")
        assert said.startswith(f"clew: {home.sessions} cannot be read: Permission denied")
    home.sessions.chmod(0o700)
    home.says("on", "-p", "--continue")
    assert "second" in home.heard()
    assert home.copies == []
    assert sorted(transcripts(home.folder)) == sorted([home.saved, home.sessions / copy.name])


def test_a_session_that_is_open_asks_for_such_a_one_in_vain_and_continues(home: Home) -> None:
    home.sessions.chmod(0o000)
    home.says("second", "-p")
    (copy,) = home.copies
    typed = f"third\n/resume {copy.stem}\nfourth\n/doctor\n/exit\n"
    done = clew(home.folder, home.server.url, "--linear", input=typed)
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert f"/resume: {home.sessions} cannot be read: Permission denied, so the other files" in told
    assert "third" in home.heard()
    assert "fourth" in home.heard()
    # Its own copy is its own to bring home, the other waits for who resumes it.
    give = f"change the owner or permissions of {home.sessions} (chown, chmod); then "
    assert f"{give}this session will restore it" in told
    assert f"{give}run clew --resume {copy.stem} to restore it" in told


def test_what_is_left_out_of_lists_and_checks_is_said(home: Home) -> None:
    home.sessions.chmod(0o000)
    said = f"clew sessions: {home.sessions} cannot be read: Permission denied; its sessions are omitted\n"
    for words in (["check"], ["check", "--all"]):
        assert home.run("sessions", *words) == (2, "", said)
    assert home.run("sessions", "check", "--json") == (2, "[]\n", said)
    for words in (["list"], ["list", "--all"]):
        assert home.run("sessions", *words) == (0, "", said)
    for words in (["stats"], ["du"], ["search", "first"], ["search", "--here", "first"]):
        assert home.run("sessions", *words)[2] == said
    for words in ([], ["--all"]):
        assert home.run("cost", *words) == (
            2,
            "",
            f"clew cost: {home.sessions} cannot be read: Permission denied\n",
        )
    home.says("second", "-p")
    (copy,) = home.copies
    code, out, err = home.run("sessions", "check")
    assert (code, err) == (2, said)
    assert out.startswith(f"{copy}: ok, ")


def test_where_all_is_hidden_it_is_not_said_that_nothing_is_there(home: Home) -> None:
    home.saved.chmod(0o000)
    for words in ((), ("--all",)):
        code, out, err = home.run("sessions", "list", *words)
        assert (code, err) == (0, "")
        assert out.startswith("no sessions to list; run clew sessions list --hidden ")
    assert home.run("sessions", "list", "--hidden")[1] == f"{home.saved}: it is not readable\n"


@pytest.mark.parametrize("name", ["subagents", "tool-results"])
def test_what_belongs_to_a_session_and_cannot_be_read_is_left_out_of_no_copy(
    home: Home, name: str
) -> None:
    data = home.saved.read_bytes()
    home.saved.write_bytes(data.replace(b'"parentUuid":"', b'"parentUuid":"x'))
    folder = home.saved.with_suffix("") / name
    folder.mkdir(parents=True)
    folder.chmod(0o000)
    words = [("repair", home.saved.stem)]
    words += [("export", home.saved.stem, "out.md")] if name == "subagents" else []
    for each in words:
        said = home.run("sessions", *each)
        assert said == (2, "", f"clew sessions: {folder} cannot be read: Permission denied\n")
    assert transcripts(home.folder) == [home.saved]
    assert not (home.folder / "work" / "out.md").exists()
    home.says("on", "-p", "--continue")
    folder.chmod(0o700)
    assert home.run("sessions", "repair", home.saved.stem)[0] == 0


def test_a_check_goes_on_after_a_file_that_cannot_be_read(home: Home) -> None:
    home.says("second", "-p")
    second = max(set(transcripts(home.folder)) - {home.saved})
    second.chmod(0o000)
    code, out, err = home.run("sessions", "check")
    assert (code, err) == (2, f"clew sessions: {second} is not readable: Permission denied\n")
    assert out.startswith(f"{home.saved}: ok, ")
    assert out.count("\n") == 1


def test_a_copy_comes_home_to_its_own_folder_from_wherever_it_is_resumed(home: Home) -> None:
    home.sessions.chmod(0o500)
    home.says("second", "-p")
    (copy,) = home.copies
    home.sessions.chmod(0o700)
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        command("-p", "--resume", copy.stem, "on"),
        cwd=elsewhere,
        env=environment(home.folder, home.server.url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Fine.\n", b"")
    assert home.copies == []
    assert sorted(transcripts(home.folder)) == sorted([home.saved, home.sessions / copy.name])


@requirement("R258")
def test_a_session_with_a_recovery_file_is_changed_copied_and_removed_when_it_is_whole(
    home: Home,
) -> None:
    """Otherwise, the content of its recovery file would return later, or be left out."""
    home.says("second SECRETWORD", "-p", "--continue")
    session = home.saved.stem
    home.saved.chmod(0o400)
    home.sessions.chmod(0o500)
    home.says("third SECRETWORD", "-p", "--continue")
    home.sessions.chmod(0o700)
    (copy,) = home.copies
    files = (home.saved, copy)
    before = [file.read_bytes() for file in files]
    store = home.folder / "store"
    refused = (
        ("erase", session, "SECRETWORD", "--yes"),
        ("erase", session, "SECRETWORD"),
        ("archive", session),
        ("prune", session, "--yes"),
        ("fork", session),
        ("graft", session, session, "a1b2c3d4"),
        ("rewind", session, "start"),
        ("push", session, "--store", str(store)),
        ("push", "--all", "--store", str(store)),
    )
    lacks = f"clew sessions: {home.saved} could not be written; the rest of the session is in the recovery file {copy}"
    give = f"Change the owner or permissions of {home.saved} (chown, chmod); then "
    bring = f"un clew --resume {session} to restore it\n"
    for words in refused:
        said = home.run("sessions", *words)
        assert said == (2, "", f"{lacks}; the session was not changed. {give}r{bring}")
    home.saved.chmod(0o600)
    for words in refused:
        said = home.run("sessions", *words)
        assert said == (2, "", f"{lacks}; the session was not changed. R{bring}")
    assert [file.read_bytes() for file in files] == before
    assert transcripts(home.folder) == [home.saved]
    assert not store.exists()
    unsearched = f"{lacks}; the recovery file was not searched. R{bring}"
    assert home.run("sessions", "search", "third") == (1, "no matches\n", unsearched)
    assert home.run("sessions", "search", "second", "--json")[2] == unsearched
    done = clew(home.folder, home.server.url, "--linear", "--resume", session, input="/exit\n")
    assert done.returncode == 0, done.stderr
    assert home.copies == []
    code, out, err = home.run("sessions", "erase", session, "SECRETWORD", "--yes")
    assert (code, err) == (0, ""), out
    home.says("on", "-p", "--continue")
    assert "third [erased]" in home.heard()
    assert "SECRETWORD" not in home.heard() + home.saved.read_text("utf-8")


def test_what_is_left_of_several_sessions_is_done_without_the_one_that_is_not_whole(
    home: Home,
) -> None:
    home.sessions.chmod(0o500)
    home.says("second", "-p")
    (copy,) = home.copies
    home.sessions.chmod(0o700)
    store = ("--store", str(home.folder / "store"))
    lacks = (
        f"the recovery file {copy}; the session was not changed. "
        f"Run clew --resume {copy.stem} to restore it"
    )
    for words in (["archive"], ["prune", "--yes"], ["fork"], ["erase", "second"], ["push", *store]):
        code, out, err = home.run("sessions", words[0], copy.stem, *words[1:])
        assert (code, out) == (2, "")
        assert lacks in err
    for words in (["push", *store], ["archive"]):
        code, out, err = home.run("sessions", words[0], copy.stem, home.saved.stem, *words[1:])
        assert code == 2
        assert home.saved.stem in out
        assert copy.stem not in out
        assert lacks in err
    assert not home.saved.exists()
    assert home.run("sessions", "archive", "--restore", home.saved.stem)[0] == 0
    code, out, err = home.run("sessions", "prune", copy.stem, home.saved.stem, "--yes", "--json")
    assert code == 2
    assert [one["name"] for one in json.loads(out)["what"]] == [str(home.saved)]
    assert lacks in err
    assert (home.copies, transcripts(home.folder)) == ([copy], [])


def test_what_cannot_be_read_is_said_not_to_be_searched(home: Home) -> None:
    home.says("second", "-p")
    (second,) = set(transcripts(home.folder)) - {home.saved}
    home.run("sessions", "index")
    second.chmod(0o000)
    said = f"clew sessions: {second} is not readable and was not searched\n"
    for words in (["second"], ["second", "--no-index"], ["second", "--here"]):
        code, out, err = home.run("sessions", "search", *words)
        assert (code, err) == (1, said)
        assert "no matches" in out
    assert home.run("sessions", "search", "first", "--session", home.saved.stem)[2] == ""
    (home.folder / "config" / "clew" / "unsaved").mkdir()
    (home.folder / "config" / "clew" / "unsaved").chmod(0o000)
    code, out, err = home.run("sessions", "erase", home.saved.stem, "first", "--yes")
    assert (code, out) == (2, "")
    assert f"so {home.saved.stem} may have recovery files that clew can't read" in err
    (home.folder / "config" / "clew" / "unsaved").chmod(0o700)
