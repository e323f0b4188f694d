"""The language servers of a session, running: begun where they are needed, asked after edits.

Owns their tasks: each is begun when a file of its language is first looked at or changed, and ended with
the session. A server that ends by itself is begun again at the next need, a few times.
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

# Which language servers a session has: the settings', those of plugins, and what is installed.


def find_specs(
    settings: Any, plugins: Mapping[str, Any], environ: Mapping[str, str], *, detects: bool
) -> Specs:
    """The servers of the settings (`lspServers`), of plugins, and what is installed."""
    specs, faults = read_entries(settings or {}, "lspServers")
    plugin_specs, entry_faults = read_entries(dict(plugins), "plugins")
    path = environ.get("PATH", "")
    known_specs = [spec for spec in KNOWN if detects and shutil.which(spec.command, path=path)]
    chosen = with_known([*specs, *plugin_specs], known_specs)
    return Specs(servers=chosen, faults=(*faults, *entry_faults))


MOST_STARTS = 4
# How long a request waits for what servers say about files that were just changed: for one that has
# to start, and for one that is there. The request waits and not the tool: otherwise each of several
# edits in one answer would wait. python-lsp-server answers after 0.5 s, and 1.8 s with its start.
START_WAIT_S = 4.0
NEWS_WAIT_S = 2.0
# Behind the first word about a file others may follow.
SETTLE_S = 0.15
HEAD = (
    "What language servers found wrong after the last changes, and was not so before. It is theirs, "
    "not the person's; where it is right, mend it."
)


class LanguageServers:
    """Nothing runs before somebody asks for a file."""

    def __init__(
        self, specs: Specs, root: str, launcher: Launcher, environ: Mapping[str, str]
    ) -> None:
        self.specs = specs
        self._root = root
        self._launcher = launcher
        self._environ = environ
        self._running: dict[str, tuple[LanguageServer, asyncio.Task[None]]] = {}
        self._starts: dict[str, int] = {}
        # Files that were changed and not yet spoken about, and what was known before they were.
        self._changed: dict[str, None] = {}
        self._before: Found = {}

    async def at(self, path: str) -> LanguageServer:
        """The server for a file, ready; raises `CannotServeError` where there is none."""
        spec = self.specs.for_file(path)
        if spec is None:
            endings = sorted({e for spec in self.specs.servers for e in spec.languages})
            raise CannotServeError(
                f"No language server knows {Path(path).name}; there are some for {', '.join(endings)}."
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
        """Other servers from now on; one that stays as it was goes on."""
        self.specs = specs
        await self._end(
            [name for name, (s, _) in self._running.items() if s.spec not in specs.servers]
        )

    async def aclose(self) -> None:
        await self._end(list(self._running))

    async def _end(self, names: Sequence[str]) -> None:
        """Ends some, side by side."""
        ending = [self._running.pop(name) for name in names]
        for server, _ in ending:
            server.stop()
        if ending:
            await asyncio.wait([task for _, task in ending])

    # -- what is wrong with files that were changed

    def changed(self, path: str) -> None:
        """A tool changed a file: its server is begun, and asked before the next request."""
        if self.specs.for_file(path) is None:
            return
        if not self._changed:
            self._before = self.known()
        self._changed[path] = None

    def known(self) -> dict[str, tuple[LspProblem, ...]]:
        return {path: problems for s in self.running() for path, problems in s.problems.items()}

    async def news(self) -> Fact | None:
        """What is newly wrong since the last changes; waits within bounds for who must look first."""
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
            # What else comes is told with the next change.
            self._changed.clear()
        return fact_of(problems, self._root)

    async def _look(self, path: str) -> None:
        """Lets its server see a file, and waits until it was spoken about."""
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
            return  # there is nobody to ask, or nothing to ask about


def fact_of(problems: Mapping[str, list[LspProblem]], root: str) -> Fact | None:
    if not problems:
        return None
    lines = format_problems(problems, {path: shown_path(path, root) for path in problems})
    words = "\n".join([HEAD, *lines])
    payload = {"type": "diagnostics", "files": sorted(problems), "lines": lines}
    return Fact(payload=payload, rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),))


def shown_path(path: str, root: str) -> str:
    return path.removeprefix(f"{root}/")
