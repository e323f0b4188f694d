"""The language servers of a session: the LSP tool, and diagnostics after edits.

Owns the connection between `lsp` and the rest of clew. If no server is configured or installed,
none of the code in `lsp` is loaded. Installed servers are used only in a trusted folder, because a
language server runs the programs that a project's configuration names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.agent.context.facts import Fact
from clew.agent.tools.base import Tool
from clew.core.json_object import Json
from clew.core.messages.history import History
from clew.parts.part import Part
from clew.permissions.session_rules import CurrentRules
from clew.system.config.environment import freeze
from clew.system.config.flags import is_feature_on
from clew.system.config.settings import read_object, read_switch
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.parts.lsp.servers import LanguageServers


class Code(Part):
    """The session part for language servers. If the session has none, all its results are empty."""

    name = "language servers"

    def __init__(
        self, servers: LanguageServers | None = None, notices: tuple[str, ...] = ()
    ) -> None:
        self._servers = servers
        self._notices = notices

    def tools(self) -> list[Tool[Any]]:
        if self._servers is None:
            return []
        from clew.parts.lsp.tool import Lsp

        return [Lsp(self._servers)]

    def notices(self) -> tuple[str, ...]:
        return self._notices

    def after(self, results: Sequence[Json], /) -> list[Fact]:
        """Record which files were changed, according to these tool results."""
        if self._servers is not None:
            for path in edited(results):
                self._servers.changed(os.path.realpath(path))
        return []

    async def facts(self, _: History, /) -> list[Fact]:
        """Wait for a limited time, then return the new problems in changed files."""
        fact = None if self._servers is None else await self._servers.news()
        return [] if fact is None else [fact]

    def covers(self, path: str) -> bool:
        """Return whether a server reports problems in a file."""
        return self._servers is not None and self._servers.specs.for_file(path) is not None

    async def replace(self, code: Code) -> list[Tool[Any]]:
        """Replace the servers with those of `code`, which has not started any.

        Return the tools that are new.
        """
        if self._servers is not None:
            from clew.parts.lsp.config import Specs

            await self._servers.replace(Specs() if code._servers is None else code._servers.specs)
            return []
        self._servers = code._servers
        return self.tools()

    async def aclose(self) -> None:
        if self._servers is not None:
            await self._servers.aclose()


def edited(results: Iterable[Json]) -> Iterator[str]:
    """Yield the files that tool calls wrote, according to their results."""
    for result in results:
        raw = result.get("toolUseResult")
        if isinstance(raw, dict) and "structuredPatch" in raw:
            path = raw.get("filePath")
            if isinstance(path, str):
                yield path


def make_language_servers(
    standing: CurrentRules,
    launcher: Launcher,
    environ: Mapping[str, str],
    *,
    plugins: Mapping[str, Any] | None = None,
    detects: bool = True,
) -> Code:
    """Return the part with the session's language servers.

    `plugins` are the entries that plugins contribute. If `detects` is true, installed servers
    may be used too.
    """
    settings = standing.settings
    if not is_feature_on("lsp", settings, freeze(standing.environ)):
        return Code()
    detects = detects and standing.is_trusted and bool(read_switch(settings, "lspDetection"))
    own = read_object(settings, "lspServers")
    if not (own or plugins or detects):
        return Code()
    from clew.parts.lsp.servers import find_specs

    specs = find_specs(own, plugins or {}, environ, detects=detects)
    if not specs.servers:
        return Code(notices=specs.faults)
    from clew.parts.lsp.servers import LanguageServers

    servers = LanguageServers(specs, str(standing.places.root), launcher, environ)
    return Code(servers, specs.faults)
