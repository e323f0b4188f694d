"""A slow reader receives everything; a stopped reader delays no process that has to end."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
from pathlib import Path
from typing import IO, Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

LONG = "All work and no play is dull. " * 200_000
LONG_ANSWER = {"text": LONG, "delta_chars": 200}
PIECE_BYTES = 1024
ENDINGS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


def unread_bytes(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def until_full(process: "subprocess.Popen[bytes]") -> None:
    """Wait until the program has more output than fits into the pipe."""
    assert process.stdout is not None
    size = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
    until(lambda: unread_bytes(process.stdout) > size - 8 * PIECE_BYTES)


def peak_mb(process: "subprocess.Popen[bytes]") -> float:
    text = Path(f"/proc/{process.pid}/status").read_text("ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def said_in(frames: list[Any]) -> str:
    deltas = [
        f["event"]["delta"]
        for f in frames
        if f["type"] == "stream_event" and f["event"]["type"] == "content_block_delta"
    ]
    return "".join(delta.get("text", "") for delta in deltas)


def test_a_host_that_reads_little_by_little_misses_nothing_and_fills_no_memory(
    tmp_path: Path,
) -> None:
    with (
        serving({"scenario": 1, "answers": [LONG_ANSWER]}) as server,
        Hosted(tmp_path, server.url, "--include-partial-messages") as host,
    ):
        host.say("go")
        until_full(host.process)
        full_mb = peak_mb(host.process)
        assert host.process.stdin is not None
        assert host.process.stdout is not None
        host.process.stdin.close()
        heard, most_mb = bytearray(), full_mb
        while piece := os.read(host.process.stdout.fileno(), PIECE_BYTES):
            heard += piece
            if len(heard) < len(LONG) // 4:
                most_mb = peak_mb(host.process)
        assert host.process.wait(30) == 0
    frames = [json.loads(line) for line in heard.splitlines()]
    assert said_in(frames) == LONG
    assert frames[-1]["type"] == "result"
    assert most_mb < full_mb + 15


@requirement("R269")
@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_a_host_that_reads_nothing_does_not_hold_a_session_that_is_told_to_end(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving({"scenario": 1, "answers": [LONG_ANSWER, {"text": "Here."}]}) as server:
        with Hosted(tmp_path, server.url, "--include-partial-messages") as host:
            host.say("go")
            until_full(host.process)
            host.process.send_signal(number)
            # An interrupt is a turn that failed, as everywhere in this protocol.
            assert host.process.wait(30) == (1 if number == signal.SIGINT else code)
            assert "the host stopped reading" in host.errors()
        (log,) = transcripts(tmp_path)
        assert "All work and no play" in log.read_text("utf-8")
        done = clew(tmp_path, server.url, "-p", "and?", "--continue")
        assert done.stdout == "Here.\n", done.stderr


@requirement("R269")
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_an_answer_that_nobody_reads_does_not_hold_a_run_that_is_told_to_end(
    tmp_path: Path, form: str, number: signal.Signals, code: int
) -> None:
    with serving(
        {"scenario": 1, "answers": [{"text": LONG[:300_000], "delta_chars": 200}]}
    ) as server:
        process = subprocess.Popen(
            command("-p", "go", "--output-format", form),
            cwd=tmp_path,
            env=environment(tmp_path, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            until_full(process)
            process.send_signal(number)
            assert process.wait(30) == code
        finally:
            process.kill()
            process.communicate()
