"""`clew doctor` on sessions that are not being saved: each is named, with what restores it."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.commands.doctor.test_doctor import NOWHERE, faults, looked
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.rights import binding

TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {
            "when": {"user": "wait"},
            "content": ["I wait.", {"tool": "Bash", "input": {"command": "touch on; sleep 60"}}],
        },
        {"text": "Fine.", "times": "always"},
    ],
}
SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"


def names(text: str) -> list[str]:
    """Return the paths that a finding names, in order."""
    return [path.rstrip(":;,") for path in re.findall(r"(?:^|(?<=\s))/\S+", text)]


class Home:
    """A home with one session, and clew in it, subject to file permissions."""

    def __init__(self, folder: Path, server: LoopbackServer) -> None:
        self.folder = folder
        self.server = server
        self.unsaved = folder / "config" / "clew" / "unsaved"
        self.says("hi", "--session-id", SESSION)
        (self.saved,) = transcripts(folder)

    def says(self, prompt: str, *words: str) -> str:
        done = clew(self.folder, self.server.url, "-p", prompt, *words)
        assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
        return done.stderr

    def told(self) -> list[dict[str, str]]:
        return looked(self.folder, NOWHERE, "--offline")["transcripts"]

    def fault(self) -> tuple[str, str]:
        (one,) = (one for one in self.told() if one["state"] == "fault")
        return one["words"], one["remedy"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    binding(monkeypatch, tmp_path / "shim")
    with serving(TALK, strict=True) as server:
        made = Home(tmp_path, server)
        yield made
        for folder in (tmp_path / "config", made.unsaved.parent, made.unsaved, made.saved.parent):
            if folder.exists():
                folder.chmod(0o700)


def test_a_session_whose_file_takes_nothing_is_named_until_it_is_whole_again(home: Home) -> None:
    assert faults(home.told()) == []
    home.saved.chmod(0o400)
    words, remedy = home.fault()
    assert names(words) == [str(home.saved), str(home.unsaved)]
    assert f"chmod u+w {home.saved}" in remedy
    copy = home.unsaved / home.saved.name
    assert str(copy) in home.says("on", "--resume", SESSION)
    words, remedy = home.fault()
    assert names(words) == [str(home.saved), str(copy)]
    home_by = f"run clew --resume {SESSION} "
    assert (names(remedy), home_by in remedy) == ([str(home.saved)], True)
    home.saved.chmod(0o600)
    again, remedy = home.fault()
    assert again == words
    assert remedy.startswith(home_by)
    assert home.says("on", "--resume", SESSION) == ""
    assert faults(home.told()) == []


def test_sessions_begun_in_a_folder_that_takes_nothing_are_named_too(home: Home) -> None:
    folder = home.saved.parent
    folder.chmod(0o500)
    words, _ = home.fault()
    assert names(words) == [str(folder), str(home.unsaved)]
    home.says("new")
    (copy,) = home.unsaved.iterdir()
    first, second = faults(home.told())
    assert first == words
    assert names(second) == [str(folder / copy.name), str(copy)]
    folder.chmod(0o700)
    words, remedy = home.fault()
    assert words == second
    assert remedy.startswith(f"run clew --resume {copy.stem} ")
    home.says("on", "--resume", copy.stem)
    assert faults(home.told()) == []


def test_a_folder_that_cannot_be_read_is_named_and_nothing_in_it_called_sound(home: Home) -> None:
    folder = home.saved.parent
    folder.chmod(0o000)
    (told,) = home.told()
    assert told["state"] == "fault"
    assert "Permission denied" in told["words"]
    assert names(told["words"]) == [str(folder), str(home.unsaved)]


@pytest.mark.parametrize("name", ["clew", "clew/unsaved"])
def test_recovery_files_that_cannot_be_read_keep_from_going_on_and_from_nothing_else(
    home: Home, name: str
) -> None:
    home.unsaved.mkdir(mode=0o700)
    closed = home.folder / "config" / name
    closed.chmod(0o000)
    words, _ = home.fault()
    assert names(words)[0] == str(closed)
    assert "Permission denied" in words
    # What is new is written where it belongs.
    assert home.says("new") == ""
    (new,) = set(transcripts(home.folder)) - {home.saved}
    assert b'"content":"new"' in new.read_bytes()
    done = clew(home.folder, home.server.url, "-p", "on", "--resume", SESSION)
    assert (done.returncode, done.stdout) == (1, "")
    assert SESSION in done.stderr
    assert str(home.unsaved) in done.stderr
    assert done.stderr.count("\n") == 1
    checked = clew(home.folder, home.server.url, "sessions", "check", SESSION)
    assert (checked.returncode, checked.stdout.count(": ok, ")) == (0, 1)
    assert SESSION in checked.stderr
    assert str(home.unsaved) in checked.stderr
    closed.chmod(0o700)
    home.says("on", "--resume", SESSION)
    assert faults(home.told()) == []


@pytest.mark.parametrize("has_own", [True, False])
def test_where_a_config_home_takes_nothing_it_is_said_where_sessions_do_lie(
    home: Home, has_own: bool
) -> None:
    spare = home.folder / "spare"
    spare.mkdir()
    config = home.folder / "config"
    home.saved.parent.rename(home.folder / "away")
    (config / "projects").rmdir()
    if not has_own:
        home.unsaved.parent.rename(home.folder / "gone")
    config.chmod(0o500)

    def run(*words: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command(*words),
            cwd=home.folder / "work",
            env=environment(home.folder, home.server.url) | {"TMPDIR": str(spare)},
            capture_output=True,
            timeout=60,
            check=False,
        )

    told, ran = run("doctor", "--offline").stdout.decode(), run("-p", "new").stderr.decode()
    config.chmod(0o700)
    (copy,) = [*home.unsaved.glob("*.jsonl"), *spare.glob("clew-*/*.jsonl")]
    assert str(copy) in ran
    (fault,) = (line for line in told.splitlines() if line.strip().startswith("!! "))
    assert names(fault) == [str(config), str(copy.parent)]
    assert (copy.parent == home.unsaved) == has_own


def test_a_session_that_runs_brings_its_own_home(home: Home) -> None:
    home.saved.chmod(0o400)
    process = subprocess.Popen(
        command("-p", "wait", "--allowed-tools=Bash", "--resume", SESSION),
        cwd=home.folder / "work",
        env=environment(home.folder, home.server.url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until((home.folder / "work" / "on").exists)
        _, remedy = home.fault()
    finally:
        process.kill()
        process.wait(30)
    assert f"then process {process.pid} in " in remedy


def test_beside_faults_nothing_is_counted_as_sound(home: Home) -> None:
    data = home.saved.read_bytes()
    home.saved.write_bytes(data.replace(b'"parentUuid":"', b'"parentUuid":"x'))
    (told,) = home.told()
    assert told["state"] == "fault"
    assert str(home.saved) in told["words"]
    home.says("new")
    valid = home.told()[-1]
    assert (valid["state"], valid["words"][:2]) == ("fine", "1 ")
    home.saved.unlink()
    for path in transcripts(home.folder):
        path.unlink()
    (nothing,) = home.told()
    assert nothing["state"] != "fault"
    assert names(nothing["words"]) == []


def test_of_garbage_it_is_said_that_nothing_can_be_rescued(home: Home) -> None:
    home.saved.write_bytes(b"hello\n\xff\xfe\n")
    (told,) = home.told()
    assert (told["state"], told["words"].partition(": ")[0]) == ("note", str(home.saved))
    aside = (
        "nothing in this file can be recovered; "
        f"to archive it, run clew sessions archive {home.saved.stem}"
    )
    assert told["remedy"] == aside
