"""What the tests look at from outside: which processes live, waited for by pidfd, never by sleep."""

import os
import select
import sys
from pathlib import Path

WAIT_MS = 20_000


def wait_ended(pid: int) -> None:
    """Returns when `pid` has ended (a zombie counts as ended); fails after a bounded wait."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], WAIT_MS / 1000)[0], f"{pid} still runs"
    finally:
        os.close(descriptor)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False  # not there any more, or gone while it was read
    return state not in "ZX"


def read_pids(pipe_end: int, count: int) -> list[int]:
    """`count` whitespace-separated numbers from a pipe, within bounds."""
    text = b""
    while len(text.split()) < count or not text.endswith(b"\n"):
        assert select.select([pipe_end], [], [], WAIT_MS / 1000)[0], f"only {text!r}"
        piece = os.read(pipe_end, 4096)
        assert piece, f"ended after {text!r}"
        text += piece
    return [int(word) for word in text.split()]


PYTHON = sys.executable
