"""A slow disk: nothing is sent before it is saved, and input is handled in the meantime."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import command, environment, transcripts, until
from tests.fronts.headless.disks import Slow, laid_below
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [{"text": "First."}, {"text": "Third.", "times": "always"}],
}


class Disk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._flag = home / "slow"
        laid_below(monkeypatch, home / "shim", Slow, str(self._flag))

    def slows(self) -> None:
        self._flag.touch()

    def is_waited_for(self) -> None:
        until(self._flag.with_suffix(".waits").exists)

    def is_well(self) -> None:
        self._flag.unlink()


@requirement("W14", "R185", "R114", "R231")
def test_on_the_screen_a_turn_that_waits_for_the_disk_is_typed_under_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    with serving(TALK, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("one\r")
        screen.expect("First.")
        screen.expect_rest()
        disk.slows()
        screen.type("two\r")
        disk.is_waited_for()
        screen.type("three")
        screen.expect("> three")
        assert len(server.requests) == 1
        screen.type("\x1b")
        screen.expect("interrupting")
        disk.is_well()
        screen.expect("Interrupted")
        screen.type("\r")
        screen.expect("Third.")
        screen.type("\x04")
        assert screen.end() == 0
    said = str(server.requests[-1].body["messages"])
    assert said.index("two") < said.index("[Request interrupted by user]") < said.index("three")
    assert len(server.requests) == 2


@requirement("W14", "R185")
def test_a_host_is_answered_while_a_turn_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    with serving(TALK, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("one")
        assert host.result()["result"] == "First."
        disk.slows()
        host.say("two")
        disk.is_waited_for()
        assert host.ask("mcp_status")["subtype"] == "success"
        assert host.ask("interrupt")["subtype"] == "success"
        assert len(server.requests) == 1
        disk.is_well()
        assert host.result()["terminal_reason"] == "aborted_streaming"
        host.say("three")
        assert host.result()["result"] == "Third."
        assert host.end() == 0
    assert "[Request interrupted by user]" in str(server.requests[-1].body["messages"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_an_answer_whose_storing_a_signal_interrupts_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, form: str
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    plan = {"scenario": 1, "answers": [{"text": "Here."}]}
    (tmp_path / "work").mkdir()
    with serving(plan, strict=True, on_request=lambda _: disk.slows()) as server:
        with subprocess.Popen(
            command("-p", "hi", "--output-format", form, "--verbose"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        ) as child:
            until(lambda: any(b'"Here."' in p.read_bytes() for p in transcripts(tmp_path)))
            disk.is_waited_for()
            child.send_signal(number)
            disk.is_well()
            assert child.stdout is not None
            assert b"Here." in child.stdout.read()
        assert child.returncode in (128 + number, 0)
