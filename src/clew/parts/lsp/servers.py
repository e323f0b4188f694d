"""The running language servers of a session: started on demand, queried after edits.

Owns the servers' tasks. A server starts when a file in its language is first used or changed, and
stops with the session. A server that exits is restarted the next time it is needed, but only a
limited number of times.
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.agent.context.facts import Fact
from clew.core.messages.text import wrap_in_tag
from clew.parts.lsp.config import KNOWN, LanguageServerSpec, Specs, read_entries, with_known
from clew.parts.lsp.protocol import Found, LspProblem, find_new_problems, format_problems
from clew.parts.lsp.server import CannotServeError, LanguageServer
from clew.system.process.spawn import Launcher

# Choose the servers of a session: from the settings, from plugins, and installed ones.


def find_specs(
    settings: Any, plugins: Mapping[str, Any], environ: Mapping[str, str], *, detects: bool
) -> Specs:
    """Return the servers from the settings (`lspServers`), servers from plugins, and known ones.

    Known servers are included only if `detects` is true and their programs are installed.
    """
    specs, faults = read_entries(settings or {}, "lspServers")
    plugin_specs, entry_faults = read_entries(dict(plugins), "plugins")
    path = environ.get("PATH", "")
    known_specs = [spec for spec in KNOWN if detects and shutil.which(spec.command, path=path)]
    chosen = with_known([*specs, *plugin_specs], known_specs)
    return Specs(servers=chosen, faults=(*faults, *entry_faults))


MOST_STARTS = 4
# How long a request waits for diagnostics of files that were just changed: from a server that must
# start, and from one that runs. The request waits, not the tool; otherwise each of several edits in
# one response would wait. python-lsp-server responds after 0.5 s, or 1.8 s including its start.
START_WAIT_S = 4.0
NEWS_WAIT_S = 2.0
# After the first diagnostics of a file, more may follow.
SETTLE_S = 0.15
HEAD = (
    "Language servers report these new problems since the last changes. They come from the "
    "servers, not from the user; fix those that are valid."
)


class LanguageServers:
    """The language servers of a session. A server starts only when a file needs it."""

    def __init__(
        self, specs: Specs, root: str, launcher: Launcher, environ: Mapping[str, str]
    ) -> None:
        self.specs = specs
        self._root = root
        self._launcher = launcher
        self._environ = environ
        self._running: dict[str, tuple[LanguageServer, asyncio.Task[None]]] = {}
        self._starts: dict[str, int] = {}
        # Changed files whose diagnostics are pending, and the diagnostics before the changes.
        self._changed: dict[str, None] = {}
        self._before: Found = {}

    async def at(self, path: str) -> LanguageServer:
        """Return the server for a file, once it is ready.

        Raise `CannotServeError` if none is available.
        """
        spec = self.specs.for_file(path)
        if spec is None:
            endings = sorted({e for spec in self.specs.servers for e in spec.languages})
            raise CannotServeError(
                f"No language server for {Path(path).name}; available for: {', '.join(endings)}."
            )
        server = self._started(spec)
        await server.ready()
        return server

    def running(self) -> list[LanguageServer]:
        return [server for server, _ in self._running.values() if not server.is_over]

    def _started(self, spec: LanguageServerSpec) -> LanguageServer:
        running = self._running.get(spec.name)
        if running is not None and not running[0].is_over:
            return running[0]
        starts = self._starts[spec.name] = self._starts.get(spec.name, 0) + 1
        if running is not None and starts > MOST_STARTS:
            return running[0]
        server = LanguageServer(spec, self._root, self._launcher, self._environ)
        task = asyncio.create_task(server.live(), name=f"lsp {spec.name}")
        self._running[spec.name] = (server, task)
        return server

    async def replace(self, specs: Specs) -> None:
        """Use these servers from now on.

        Running servers whose configuration is unchanged continue.
        """
        self.specs = specs
        await self._end(
            [name for name, (s, _) in self._running.items() if s.spec not in specs.servers]
        )

    async def aclose(self) -> None:
        await self._end(list(self._running))

    async def _end(self, names: Sequence[str]) -> None:
        """Stop the named servers, all at the same time."""
        ending = [self._running.pop(name) for name in names]
        for server, _ in ending:
            server.stop()
        if ending:
            await asyncio.wait([task for _, task in ending])

    # -- diagnostics of changed files

    def changed(self, path: str) -> None:
        """Record that a tool changed a file; its server is queried before the next request."""
        if self.specs.for_file(path) is None:
            return
        if not self._changed:
            self._before = self.known()
        self._changed[path] = None

    def known(self) -> dict[str, tuple[LspProblem, ...]]:
        return {path: problems for s in self.running() for path, problems in s.problems.items()}

    async def news(self) -> Fact | None:
        """Wait for a limited time, then return the problems that are new since the changes.

        Return None if there are none.
        """
        if not self._changed:
            return None
        specs = {spec.name for path in self._changed if (spec := self.specs.for_file(path))}
        wait_s = NEWS_WAIT_S if specs <= self._running.keys() else START_WAIT_S
        looks = [asyncio.ensure_future(self._look(path)) for path in self._changed]
        try:
            await asyncio.wait(looks, timeout=wait_s)
            is_done = all(look.done() for look in looks)
        finally:
            for look in looks:
                look.cancel()
        problems = find_new_problems(self._before, self.known())
        if is_done or problems:
            # Later diagnostics are reported with the next change.
            self._changed.clear()
        return fact_of(problems, self._root)

    async def _look(self, path: str) -> None:
        """Send a file to its server and wait for its diagnostics."""
        try:
            server = await self.at(path)
            server.sync_all()
            server.sync(path)
            if server.offers("diagnosticProvider"):
                await server.pull(path)
            else:
                await server.spoken_about(path)
                await asyncio.sleep(SETTLE_S)
        except (CannotServeError, OSError):
            return  # no server, or no file


def fact_of(
    problems: Mapping[str, list[LspProblem]], root: str, *, head: str = HEAD
) -> Fact | None:
    if not problems:
        return None
    lines = format_problems(problems, {path: shown_path(path, root) for path in problems})
    words = "\n".join([head, *lines])
    payload = {"type": "diagnostics", "files": sorted(problems), "lines": lines}
    return Fact(payload=payload, rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),))


def shown_path(path: str, root: str) -> str:
    return path.removeprefix(f"{root}/")
