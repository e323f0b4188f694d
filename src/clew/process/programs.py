"""Small programs that are asked something: what they print, within a time, or nothing."""

from collections.abc import Mapping, Sequence

from clew.process.held import held
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher


class Programs:
    """Where they run, and with what environment. None of them outlives `aclose`."""

    def __init__(
        self, cwd: str, environ: Mapping[str, str], launcher: Launcher | None = None
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        self._launcher = launcher or Launcher()

    async def printed(
        self,
        argv: Sequence[str],
        *,
        given: bytes = b"",
        timeout_s: float = 5.0,
        most_bytes: int = 1 << 20,
        env: Mapping[str, str] | None = None,
    ) -> bytes | None:
        """What a program wrote to its standard output; None if it failed, or wrote more than that."""
        stdout, stderr = Output(keep_bytes=most_bytes), Output(keep_bytes=1)
        with held(given) as source:
            try:
                done = await run(
                    self._launcher,
                    argv,
                    cwd=self.cwd,
                    env={**self.environ, **(env or {})},
                    stdout=stdout,
                    stderr=stderr,
                    descriptors={0: source},
                    timeout_s=timeout_s,
                )
            except OSError:
                return None
        if done.timed_out or done.exit.code != 0 or stdout.left_out:
            return None
        return bytes(stdout.head) + stdout.tail

    async def aclose(self) -> None:
        await self._launcher.aclose()
