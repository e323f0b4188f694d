"""A clew process with pipes: started, written to, and killed if a test leaves it running."""

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.forked import Forked


class Piped:
    """A running `clew ARGS` in `HOME/work`; its standard error goes to a file."""

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
