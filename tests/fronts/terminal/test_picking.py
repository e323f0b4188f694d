"""`clew --resume` without a session: the newest are listed, and one is resumed."""

from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.terminal import Terminal
from tests.record.transcript.build import encoded, talk
from tests.requirements import requirement

SAYS: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Said.", "times": "always"}]}


@requirement("R195")
def test_recent_sessions_are_listed_and_the_chosen_one_goes_on(tmp_path: Path) -> None:
    with serving(SAYS, strict=True) as server:
        for prompt in ("first matter", "second matter"):
            assert clew(tmp_path, server.url, "-p", prompt).returncode == 0
        asked = len(server.requests)
        with Terminal(tmp_path, server.url, "--resume") as terminal:
            terminal.expect("1  ")
            terminal.expect("second matter")
            terminal.expect("first matter")
            terminal.expect("Session (number")
            terminal.type("2\n")
            terminal.expect("first matter")
            terminal.expect("> ")
            assert len(server.requests) == asked
            terminal.type("go on\n")
            terminal.expect("Said.")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        said = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
        assert "first matter" in str(said)
        assert "second matter" not in str(said)
    assert len(transcripts(tmp_path)) == 2


def test_without_a_terminal_the_list_is_the_answer(tmp_path: Path) -> None:
    with serving(SAYS, strict=True) as server:
        none = clew(tmp_path, server.url, "-p", "x", "--resume")
        assert none.returncode == 2
        assert "no sessions in this folder" in none.stderr
        clew(tmp_path, server.url, "-p", "the matter")
        done = clew(tmp_path, server.url, "-p", "x", "--resume")
    assert done.returncode == 2
    assert "choose one of these" in done.stderr
    assert transcripts(tmp_path)[0].stem in done.stderr


@requirement("W30")
def test_a_very_long_session_is_gone_on_with_without_another_request(tmp_path: Path) -> None:
    with serving(SAYS, strict=True) as server:
        clew(tmp_path, server.url, "-p", "begin")
        path = transcripts(tmp_path)[0]
        lines = [m | {"sessionId": path.stem} for m in talk(700)]
        path.write_bytes(encoded(lines))
        asked = len(server.requests)
        done = clew(tmp_path, server.url, "-p", "go on", "--resume", path.stem)
        assert done.stdout == "Said.\n", done.stderr
        assert len(server.requests) == asked + 1
        assert len(server.requests[-1].body["messages"]) >= 1400
