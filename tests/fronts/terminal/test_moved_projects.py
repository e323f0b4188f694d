"""A moved project: one question moves its sessions, or leaves them permanently."""

from pathlib import Path

from clew.parts.recording import identify_project
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.screen import OnScreen

FINE = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/paint.git\n'
TITLE = "Sessions of a moved project"


def begun(home: Path, url: str) -> str:
    """A session in a repository, which is then moved to `home/work`."""
    git = home / "work" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text(ORIGIN, "utf-8")
    (git / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    assert clew(home, url, "-p", "Paint it.").stdout == "Fine.\n"
    (path,) = transcripts(home)
    (home / "work").rename(home / "before")
    old = path.parent
    # The session now says that it began in a folder that is gone.
    text = path.read_text("utf-8").replace(str(home / "work"), str(home / "gone"))
    path.write_text(text, "utf-8")
    old.rename(old.with_name(old.name.replace("work", "gone")))
    (home / "before").rename(home / "work")
    return path.stem


def test_the_sessions_of_a_moved_repository_come_along_after_one_question(tmp_path: Path) -> None:
    with serving(FINE) as server:
        session = begun(tmp_path, server.url)
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(TITLE)
            screen.expect("~/gone")
            screen.type("\r")
            screen.expect("1 session moved to this folder")
        (path,) = transcripts(tmp_path)
        assert (path.stem, path.parent.name.endswith("work")) == (session, True)
        assert clew(tmp_path, server.url, "-p", "Go on.", "--continue").stdout == "Fine.\n"
        assert "Paint it." in str(server.requests[-1].body["messages"])
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("default")
            assert TITLE not in screen.text


def test_sessions_that_are_left_are_not_asked_about_again(tmp_path: Path) -> None:
    with serving(FINE) as server:
        session = begun(tmp_path, server.url)
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(TITLE)
            screen.type("2")
            screen.expect("The sessions stay in their folder")
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("default")
            assert TITLE not in screen.text
    (path,) = transcripts(tmp_path)
    assert (path.stem, path.parent.name.endswith("gone")) == (session, True)


def test_a_repository_is_known_by_its_origin_or_the_beginning_of_its_log(tmp_path: Path) -> None:
    assert identify_project(tmp_path) is None
    (tmp_path / ".git" / "logs").mkdir(parents=True)
    assert identify_project(tmp_path) is None
    (tmp_path / ".git" / "logs" / "HEAD").write_text("0 1 A <a@b> 1 +0\tcommit\n2 3\n", "utf-8")
    by_log = identify_project(tmp_path)
    (tmp_path / ".git" / "config").write_text("[core]\n", "utf-8")
    assert identify_project(tmp_path) == by_log is not None
    (tmp_path / ".git" / "config").write_text(ORIGIN, "utf-8")
    by_origin = identify_project(tmp_path)
    assert by_origin not in (None, by_log)
