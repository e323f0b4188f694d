"""A config home with sessions, a working folder, and the real `clew sessions` in it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from clew.record.transcript import paths
from tests.fronts.headless.forked import run
from tests.record.transcript.build import SESSION, write

CLEW = str(Path(sys.executable).parent / "clew")


class Place:
    """A config home and a working folder, and clew in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.cwd = folder / "work"
        self.cwd.mkdir()

    @property
    def sessions(self) -> Path:
        return paths.get_project_dir(self.home, str(self.cwd))

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return run(
            ("sessions", *words),
            cwd=self.cwd,
            env={**os.environ, "CLEW_CONFIG_DIR": str(self.home)},
            **more,
        )

    def clew(self, *words: str, code: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == code, done.stderr.decode() + done.stdout.decode()
        assert b"Traceback" not in done.stderr
        return (done.stdout or done.stderr).decode()

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.clew(*words, "--json", code=code))

    def write(self, lines: list[Any], name: str = SESSION) -> Path:
        mine = {"cwd": str(self.cwd), "sessionId": name}
        here = [m | mine if isinstance(m, dict) else m for m in lines]
        return write(self.sessions, here, name=name)
