"""The parts of the Language Server Protocol that clew uses: initialization, positions, symbols.

Does no I/O. Described at microsoft.github.io/language-server-protocol, version 3.17. Callers count
lines and columns from 1, as editors show them. The protocol counts both from 0, and columns in
units of the negotiated encoding.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.system.jsonrpc.peer import Dialect
from clew.system.jsonrpc.wire import as_list, as_object, as_text, path_of, uri_of
from clew.version import VERSION

DIALECT = Dialect(
    cancel_method="$/cancelRequest",
    cancel_key="id",
    progress_method="$/progress",
    progress_key="token",
    cancelled_code=-32800,
)

UTF_16 = "utf-16"
# Bytes per code unit in each position encoding.
WIDTHS = {"utf-8": ("utf-8", 1), UTF_16: ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

SYMBOLS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor",
    "enum", "interface", "function", "variable", "constant", "string", "number", "boolean", "array",
    "object", "key", "null", "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip
SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}


def make_initialize_params(root: str, name: str, process_id: int, options: Any) -> Json:
    """Return the parameters of the `initialize` request."""
    params: Json = {
        "processId": process_id,
        "clientInfo": {"name": "clew", "version": VERSION},
        "rootUri": uri_of(root),
        "rootPath": root,
        "workspaceFolders": [{"uri": uri_of(root), "name": name}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-32", UTF_16]},
            "workspace": {
                "workspaceFolders": True,
                "configuration": True,
                "symbol": {},
                "didChangeWatchedFiles": {"dynamicRegistration": True},
            },
            "textDocument": {
                "synchronization": {"didSave": True},
                "definition": {"linkSupport": True},
                "implementation": {"linkSupport": True},
                "references": {},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
                "callHierarchy": {},
                "publishDiagnostics": {"versionSupport": True},
                "diagnostic": {},
            },
        },
    }
    return params if options is None else params | {"initializationOptions": options}


def convert_column(line: str, column: int, encoding: str) -> int:
    """Convert a column in characters, counted from 1, to the server's units."""
    codec, width = WIDTHS.get(encoding, WIDTHS[UTF_16])
    return len(line[: max(0, column - 1)].encode(codec, "surrogatepass")) // width


def column_of(line: str, units: int, encoding: str) -> int:
    """Convert a column in the server's units to a column in characters, counted from 1.

    A position past the end of the line becomes the end of the line.
    """
    codec, width = WIDTHS.get(encoding, WIDTHS[UTF_16])
    return len(line.encode(codec, "surrogatepass")[: units * width].decode(codec, "ignore")) + 1


def read_locations(result: Any) -> list[tuple[str, int, int]]:
    """Return the locations in a response: file, and line and column as the server counts them."""
    items = [result] if isinstance(result, dict) else as_list(result)
    return [place for item in items if (place := location(as_object(item))) is not None]


def location(item: Json) -> tuple[str, int, int] | None:
    uri = as_text(item.get("uri")) or as_text(item.get("targetUri"))
    span = item.get("range") or item.get("targetSelectionRange") or item.get("targetRange")
    return (path_of(uri) or uri, *start_of(span)) if uri else None


def start_of(span: Any) -> tuple[int, int]:
    start = as_object(as_object(span).get("start"))
    line, column = start.get("line"), start.get("character")
    return (line if type(line) is int else 0, column if type(column) is int else 0)


def read_hover(result: Any) -> str:
    """Return a hover's contents as text."""
    contents = as_object(result).get("contents")
    parts = contents if isinstance(contents, list) else [contents]
    words = (
        part if isinstance(part, str) else as_text(as_object(part).get("value")) for part in parts
    )
    return "\n\n".join(word.strip() for word in words if word.strip())


def format_symbols(result: Any, depth: int = 0) -> list[str]:
    """Format the symbols of a document as lines; nested symbols are indented below their parent."""
    lines: list[str] = []
    for symbol in map(as_object, as_list(result)):
        span = symbol.get("selectionRange") or as_object(symbol.get("location")).get("range")
        line, _ = start_of(span)
        detail = as_text(symbol.get("detail"))
        name = f"{as_text(symbol.get('name'))} {detail}".strip()
        lines.append(f"{'  ' * depth}{line + 1}: {kind_of(symbol)} {name}")
        lines += format_symbols(symbol.get("children"), depth + 1)
    return lines


def kind_of(symbol: Json) -> str:
    kind = symbol.get("kind")
    return SYMBOLS[kind - 1] if type(kind) is int and 0 < kind <= len(SYMBOLS) else "symbol"


# Diagnostics: find the new ones and format them.


MOST_OF_FILE = 10
MOST = 30
MAX_WORDS = 300
ERROR, WARNING = 1, 2


class LspProblem(Struct, frozen=True, kw_only=True):
    """One diagnostic. `line` and `column` are as the server counts them, from 0."""

    severity: int
    message: str
    line: int
    column: int
    source: str = ""
    code: str = ""

    @property
    def key(self) -> tuple[int, str, str]:
        return self.severity, self.message, self.code


Found: TypeAlias = Mapping[str, Sequence[LspProblem]]


def problems_of(items: Any) -> tuple[LspProblem, ...]:
    return tuple(problem_of(as_object(item)) for item in as_list(items))


def problem_of(item: Json) -> LspProblem:
    line, column = start_of(item.get("range"))
    severity, code = item.get("severity"), item.get("code")
    return LspProblem(
        severity=severity if severity in SEVERITIES else ERROR,
        message=" ".join(as_text(item.get("message")).split()),
        line=line,
        column=column,
        source=as_text(item.get("source")),
        code=str(code) if type(code) in (int, str) else "",
    )


def find_new_problems(before: Found, now: Found) -> dict[str, list[LspProblem]]:
    """Return the errors and warnings in `now` that were not in `before`, by file.

    For a file without earlier diagnostics, only errors are returned.
    """
    new: dict[str, list[LspProblem]] = {}
    for path, problems in now.items():
        counts = Counter(problem.key for problem in before.get(path, ()))
        weight = WARNING if path in before else ERROR
        for problem in problems:
            if counts[problem.key] > 0:
                counts[problem.key] -= 1
            elif problem.severity <= weight:
                new.setdefault(path, []).append(problem)
    return new


def format_problems(
    problems_by_path: Mapping[str, Iterable[LspProblem]], shown_path: Mapping[str, str]
) -> list[str]:
    """Format each problem as one line, the most severe first, up to a limit."""
    lines: list[str] = []
    for path in sorted(problems_by_path):
        problems = sorted(
            problems_by_path[path],
            key=lambda problem: (problem.severity, problem.line, problem.column),
        )
        name = shown_path.get(path, path)
        lines += [line_of(name, problem) for problem in problems[:MOST_OF_FILE]]
        if len(problems) > MOST_OF_FILE:
            lines.append(f"{name}: {len(problems) - MOST_OF_FILE} more")
    if len(lines) > MOST:
        lines[MOST:] = [f"... and {format_count(len(lines) - MOST, 'more line')}"]
    return lines


def line_of(name: str, problem: LspProblem) -> str:
    words = (
        problem.message
        if len(problem.message) <= MAX_WORDS
        else problem.message[:MAX_WORDS] + "..."
    )
    by = " ".join(filter(None, (problem.source, problem.code)))
    return (
        f"{name}:{problem.line + 1}:{problem.column + 1}: {SEVERITIES[problem.severity]}: {words}"
        f"{f' ({by})' if by else ''}"
    )
