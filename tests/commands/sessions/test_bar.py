"""The progress bar: shown on terminals only."""

import os
import pty
import subprocess

from tests.commands.sessions.place import CLEW, Place
from tests.record.transcript.build import user


def test_long_work_shows_how_far_it_is_at_a_terminal_only(place: Place) -> None:
    words = " ".join(f"word{n}" for n in range(4000))
    for n in range(40):
        name = f"{n:08x}-7d4f-4e0a-9c57-1f2e3d4c5b6a"
        place.write([user(f"u{i}", None, f"{words} {i}") for i in range(60)], name)
    screen, terminal = pty.openpty()
    env = {**os.environ, "CLEW_CONFIG_DIR": str(place.home), "COLUMNS": "80"}
    program = subprocess.Popen(
        [CLEW, "sessions", "index"], cwd=place.cwd, env=env, stdout=subprocess.PIPE, stderr=terminal
    )
    out, _ = program.communicate(timeout=100)
    os.close(terminal)
    seen = b""
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(screen)
    assert program.returncode == 0
    assert b"reading sessions" in seen
    assert b"100%" in seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"reading sessions" not in out
    quiet = place.run("index", "--rebuild")
    assert quiet.stderr == b""
