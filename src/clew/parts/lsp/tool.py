"""The LSP tool: asks a language server about definitions, references, types and diagnostics."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, locate
from clew.core.messages.text import format_count
from clew.parts.lsp.protocol import (
    column_of,
    convert_column,
    format_problems,
    format_symbols,
    kind_of,
    read_hover,
    read_locations,
    start_of,
)
from clew.parts.lsp.server import MAX_FILE_BYTES, LanguageServer
from clew.parts.lsp.servers import LanguageServers, shown_path
from clew.system.files import read_content
from clew.system.jsonrpc.wire import as_list, as_object, as_text, path_of, uri_of

MOST_PLACES = 100
MAX_LINE_CHARS = 200

Operation: TypeAlias = Literal[
    "goToDefinition", "goToImplementation", "findReferences", "hover", "documentSymbol",
    "workspaceSymbol", "incomingCalls", "outgoingCalls", "diagnostics",
]  # fmt: skip
# The request for each operation at a position, and the capability that it requires.
AT_A_PLACE = {
    "goToDefinition": ("textDocument/definition", "definitionProvider"),
    "goToImplementation": ("textDocument/implementation", "implementationProvider"),
    "findReferences": ("textDocument/references", "referencesProvider"),
    "hover": ("textDocument/hover", "hoverProvider"),
    "incomingCalls": ("callHierarchy/incomingCalls", "callHierarchyProvider"),
    "outgoingCalls": ("callHierarchy/outgoingCalls", "callHierarchyProvider"),
}


class LspInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operation: Annotated[Operation, Meta(description="The request")]
    file_path: Annotated[
        str,
        Meta(
            min_length=1,
            description="The file; for workspaceSymbol, any file in the language",
        ),
    ]
    line: Annotated[int, Meta(ge=1, description="The line, counted from 1 as in Read")] | None = (
        None
    )
    character: Annotated[int, Meta(ge=1, description="The column, from 1")] | None = None
    symbol: (
        Annotated[
            str, Meta(description="The symbol's name on that line (alternative to character)")
        ]
        | None
    ) = None
    query: Annotated[str, Meta(description="For workspaceSymbol: part of the name")] = ""


class Lsp(Tool[LspInput]):
    name = "LSP"
    description = "Ask a language server about the code"
    prompt = (
        "Ask a file's language server: goToDefinition, goToImplementation, findReferences, hover (type "
        "and documentation), incomingCalls and outgoingCalls for the name at a line and column, or at a "
        "line and symbol; documentSymbol and diagnostics for a file; workspaceSymbol for a query. More "
        "exact than a text search."
    )
    input_type = LspInput
    is_deferred = True
    search_words = "language server definition references hover symbols diagnostics types callers"
    renamed = (("filePath", "file_path"),)

    def __init__(self, servers: LanguageServers) -> None:
        self._servers = servers

    def is_read_only(self, arguments: LspInput) -> bool:
        return True

    def paths(self, arguments: LspInput) -> tuple[str, ...]:
        return (arguments.file_path,)

    def title(self, arguments: LspInput) -> str:
        where = f":{arguments.line}" if arguments.line is not None else ""
        what = f" {arguments.symbol or arguments.query}".rstrip()
        return f"{arguments.operation}{what} in {arguments.file_path}{where}"

    async def call(self, arguments: LspInput, ctx: ToolContext) -> ToolOutcome:
        path = str(locate(ctx.session.path(arguments.file_path)))
        server = await self._servers.at(path)
        server.sync_all()
        text = server.sync(path)
        asking = LspQuestion(server, path, text, ctx)
        lines = await asking.answer(arguments)
        content = "\n".join(lines) or "The language server returned no results."
        result = {"operation": arguments.operation, "filePath": path, "result": content}
        return ToolOutcome(
            content=content,
            tool_use_result=result | {"resultCount": len(lines)},
            display=format_count(len(lines), "line")
            if len(lines) != 1
            else lines[0][:MAX_LINE_CHARS],
        )


def shown_lines(path: str) -> list[str]:
    return read_content(Path(path), MAX_FILE_BYTES).decode("utf-8", "replace").split("\n")


class LspQuestion:
    """One query about a file, and the formatting of the response as lines."""

    def __init__(self, server: LanguageServer, path: str, text: str, ctx: ToolContext) -> None:
        self._server = server
        self._path = path
        self._lines = text.split("\n")
        self._root = ctx.session.shell.project
        self._may_read = ctx.session.files.may_read(self._root)
        self._texts: dict[str, list[str]] = {path: self._lines}

    async def answer(self, arguments: LspInput) -> list[str]:
        document = {"textDocument": {"uri": uri_of(self._path)}}
        match arguments.operation:
            case "documentSymbol":
                self._offered("documentSymbolProvider", arguments.operation)
                return format_symbols(
                    await self._server.request("textDocument/documentSymbol", document)
                )
            case "workspaceSymbol":
                self._offered("workspaceSymbolProvider", arguments.operation)
                symbols = await self._server.request("workspace/symbol", {"query": arguments.query})
                return self._symbols(symbols)
            case "diagnostics":
                return await self._diagnostics()
            case operation:
                method, provider = AT_A_PLACE[operation]
                self._offered(provider, operation)
                place = document | {"position": self._position(arguments)}
                return await self._at(operation, method, place)

    async def _at(self, operation: str, method: str, place: dict[str, Any]) -> list[str]:
        if operation in ("incomingCalls", "outgoingCalls"):
            return await self._calls(
                method, place, "from" if operation == "incomingCalls" else "to"
            )
        if operation == "findReferences":
            place |= {"context": {"includeDeclaration": True}}
        result = await self._server.request(method, place)
        if operation == "hover":
            words = read_hover(result)
            return words.split("\n") if words else []
        return self._places(read_locations(result))

    async def _calls(self, method: str, place: dict[str, Any], side: str) -> list[str]:
        items = await self._server.request("textDocument/prepareCallHierarchy", place)
        lines: list[str] = []
        for item in as_list(items)[:5]:
            calls = await self._server.request(method, {"item": item})
            lines += self._symbols([as_object(call).get(side) for call in as_list(calls)])
        return lines

    async def _diagnostics(self) -> list[str]:
        if self._server.offers("diagnosticProvider"):
            await self._server.pull(self._path)
        elif self._path not in self._server.problems:
            await self._server.spoken_about(self._path)
        problems = {self._path: self._server.problems.get(self._path, ())}
        return format_problems(problems, {self._path: shown_path(self._path, self._root)})

    # -- locations

    def _offered(self, provider: str, operation: str) -> None:
        if not self._server.offers(provider):
            raise ToolError(
                f"The language server {self._server.spec.name} does not support {operation}."
            )

    def _position(self, arguments: LspInput) -> dict[str, int]:
        if arguments.line is None or (arguments.character is None and not arguments.symbol):
            raise ToolError("Give the line, and the column or a symbol on that line.")
        if arguments.line > len(self._lines):
            total = format_count(len(self._lines), "line")
            raise ToolError(f"Line {arguments.line} not found: the file has {total}.")
        line = self._lines[arguments.line - 1]
        column = arguments.character
        if arguments.symbol:
            offset = line.find(arguments.symbol, (column or 1) - 1)
            if offset < 0:
                raise ToolError(
                    f"{arguments.symbol!r} not found in line {arguments.line}: {line.strip()!r}"
                )
            column = offset + 1
        units = convert_column(line, column or 1, self._server.encoding)
        return {"line": arguments.line - 1, "character": units}

    def _places(self, places: list[tuple[str, int, int]]) -> list[str]:
        """Format each location with its line of text.

        Locations in files that may not be read are left out.
        """
        shown_places = [place for place in dict.fromkeys(places) if self._is_shown(place[0])]
        lines = [self._place(*place) for place in shown_places[:MOST_PLACES]]
        if len(shown_places) > MOST_PLACES:
            lines.append(f"... and {len(shown_places) - MOST_PLACES} more")
        return lines

    def _is_shown(self, path: str) -> bool:
        """Return whether to list a location: outside the project, or in a file that may be read."""
        name = shown_path(path, self._root)
        return name == path or self._may_read(name)

    def _place(self, path: str, line: int, units: int) -> str:
        is_own = shown_path(path, self._root) != path
        text = self._line(path, line) if is_own else ""
        column = column_of(text, units, self._server.encoding) if text else units + 1
        where = f"{shown_path(path, self._root)}:{line + 1}:{column}"
        return f"{where}: {text.strip()[:MAX_LINE_CHARS]}" if text.strip() else where

    def _line(self, path: str, line: int) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = shown_lines(path)
            except OSError:
                self._texts[path] = []
        lines = self._texts[path]
        return lines[line] if line < len(lines) else ""

    def _symbols(self, result: Any) -> list[str]:
        lines: list[str] = []
        for symbol in map(as_object, as_list(result)):
            place = as_object(symbol.get("location")) or symbol
            path = path_of(as_text(place.get("uri")))
            if not path or not self._is_shown(path):
                continue
            line, _ = start_of(place.get("selectionRange") or place.get("range"))
            name = as_text(symbol.get("name"))
            lines.append(f"{shown_path(path, self._root)}:{line + 1}: {kind_of(symbol)} {name}")
        return lines[:MOST_PLACES]
