"""The debug log of a run, and a run that reads nothing of the user's."""

import json
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.requirements import requirement

KEY = "sk-ant-test-0000"
WORKS = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": f"echo {KEY}"}}]},
        {"text": "Done.", "times": "always"},
    ],
}
HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}


@requirement("R227")
def test_what_happens_is_written_down_in_a_file_of_the_sessions(tmp_path: Path) -> None:
    with serving(WORKS, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "--debug", "say it", "--allowedTools", "Bash")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    (transcript,) = transcripts(tmp_path)
    path = tmp_path / "config" / "clew" / "debug" / f"{transcript.stem}.txt"
    text = path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert KEY not in text
    for told in (
        "model claude-",
        "Asking",
        "ToolStarted",
        "ToolFinished",
        "MessageFinished",
        " ms ",
    ):
        assert told in text, told
    assert "TextDelta {" not in text


def test_only_the_kinds_that_were_named_are_written(tmp_path: Path) -> None:
    with serving(WORKS, strict=True) as server:
        args = ("-p", "say it", "--debug=tools", "--debug-file", "seen.txt", "--allowedTools=Bash")
        done = clew(tmp_path, server.url, *args)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "work" / "seen.txt").read_text("utf-8")
    assert "ToolFinished" in text
    assert "Asking" not in text


def test_on_standard_error_it_stands_beside_the_answer(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--debug-to-stderr")
    assert done.stdout == "Hello.\n"
    assert "MessageFinished" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--debug=nonsense",), "expected one of api, tools, hooks, session"),
        (("--debug-file", "no/such/folder/x"), "--debug: "),
    ],
)
def test_what_cannot_be_written_down_is_said(
    tmp_path: Path, args: tuple[str, ...], says: str
) -> None:
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "-p", "hi", *args)
    assert done.returncode != 0
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bare_run_reads_nothing_but_its_command_line(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "CLAUDE.md").write_text("Say moon.\n", "utf-8")
    config = tmp_path / "config"
    config.mkdir()
    settings = {
        "model": "haiku",
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch ran"}]}]},
        "mcpServers": {"x": {"command": "false"}},
    }
    (config / "settings.json").write_text(json.dumps(settings), "utf-8")
    with serving(HELLO, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
        assert (work / "ran").exists()
        (work / "ran").unlink()
        done = clew(tmp_path, server.url, "-p", "--bare", "hi")
        usual, bare = (json.dumps(request.body) for request in server.requests)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Say moon." in usual
    assert "haiku" in usual
    assert "Say moon." not in bare
    assert "haiku" not in bare
    assert not (work / "ran").exists()


def test_without_commands_a_line_with_a_slash_is_a_prompt(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "--disable-slash-commands", "/help")
        (request,) = server.requests
    assert done.stdout == "Hello.\n"
    assert "/help" in json.dumps(request.body["messages"])
