"""A clew that is spoken to through its pipes: started, written to, killed if a test leaves it."""

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.forked import Forked


class Piped:
    """One `clew ARGS` in `HOME/work`; what it says of itself is in a file of its own."""

    def __init__(self, home: Path, url: str, *args: str, environ: Mapping[str, str]) -> None:
        self.work = home / "work"
        self.work.mkdir(exist_ok=True)
        self._errors = home / "stderr"
        with self._errors.open("wb") as errors:
            self.process = Forked(
                args,
                cwd=self.work,
                env=environment(home, url) | dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def errors(self) -> str:
        return self._errors.read_text("utf-8")
