"""The configuration of one language server, and built-in configurations of known servers.

Does no I/O. Owns the fields of an entry in `lspServers`, which are the same in a plugin's
`.lsp.json`. An error in an entry is returned as text. A server that clew knows is used if its
program is installed and no other server is configured for its files.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.jsonrpc.wire import as_object

STARTUP_S = 30.0


class LanguageServerSpec(Struct, frozen=True, kw_only=True):
    """The configuration of a language server; `languages` maps file extensions to language IDs."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    languages: Mapping[str, str]
    env: Mapping[str, str] = {}
    options: Any = None
    settings: Json = {}
    folder: str = ""
    startup_s: float = STARTUP_S
    # The file that contains the entry, for display.
    source: str = ""


class Specs(Struct, frozen=True, kw_only=True):
    """The configured servers of a session.

    A file is handled by the first server that supports its extension.
    """

    servers: tuple[LanguageServerSpec, ...] = ()
    faults: tuple[str, ...] = ()

    def for_file(self, path: str) -> LanguageServerSpec | None:
        ending = ending_of(path)
        return next((spec for spec in self.servers if ending in spec.languages), None)


def ending_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def read_entry(name: str, entry: Any, source: str = "") -> LanguageServerSpec | str:
    """Return the server that an entry describes, or an error message."""
    fields = as_object(entry)
    command, args = fields.get("command"), fields.get("args", [])
    languages, env = fields.get("extensionToLanguage"), fields.get("env", {})
    startup_ms = fields.get("startupTimeout")
    if not isinstance(command, str) or not command:
        return "command: expected the name of a program"
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        return "args: expected an array of strings"
    if not is_texts(languages) or not languages:
        return 'extensionToLanguage: expected an object such as {".py": "python"}'
    if not is_texts(env):
        return "env: expected an object of strings"
    if fields.get("transport", "stdio") != "stdio":
        return "transport: only stdio is supported"
    if startup_ms is not None and (type(startup_ms) not in (int, float) or startup_ms <= 0):
        return "startupTimeout: expected a positive number of milliseconds"
    folder = fields.get("workspaceFolder", "")
    return LanguageServerSpec(
        name=name,
        command=command,
        args=tuple(args),
        languages={with_dot(ending): language for ending, language in languages.items()},
        env=env,
        options=fields.get("initializationOptions"),
        settings=as_object(fields.get("settings")),
        folder=folder if isinstance(folder, str) else "",
        startup_s=STARTUP_S if startup_ms is None else startup_ms / 1000,
        source=source,
    )


def read_entries(entries: Any, source: str) -> tuple[list[LanguageServerSpec], list[str]]:
    """Return the servers that entries describe, and an error message for each invalid entry."""
    if not isinstance(entries, dict):
        return [], [f"{source}: expected an object of language servers"]
    specs: list[LanguageServerSpec] = []
    faults: list[str] = []
    for name, entry in entries.items():
        read = read_entry(name, entry, source)
        if isinstance(read, str):
            faults.append(f"{source}: language server {name}: {read}")
        else:
            specs.append(read)
    return specs, faults


def with_known(
    specs: Iterable[LanguageServerSpec], defaults: Iterable[LanguageServerSpec]
) -> tuple[LanguageServerSpec, ...]:
    """Return the configured servers, and known servers for extensions that have no server yet."""
    chosen = list(specs)
    for spec in defaults:
        endings = {ending for spec in chosen for ending in spec.languages}
        if not endings & set(spec.languages):
            chosen.append(spec)
    return tuple(chosen)


def is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def with_dot(ending: str) -> str:
    return ending.lower() if ending.startswith(".") else f".{ending.lower()}"


def known(name: str, command: str, *args: str, **languages: str) -> LanguageServerSpec:
    return LanguageServerSpec(
        name=name,
        command=command,
        args=args,
        languages={f".{ending}": language for ending, language in languages.items()},
        source="(found)",
    )


# In order of preference, if several support the same files.
KNOWN: tuple[LanguageServerSpec, ...] = (
    known("pyright", "pyright-langserver", "--stdio", py="python", pyi="python"),
    known("basedpyright", "basedpyright-langserver", "--stdio", py="python", pyi="python"),
    known("pylsp", "pylsp", py="python", pyi="python"),
    known(
        "typescript-language-server",
        "typescript-language-server",
        "--stdio",
        ts="typescript",
        tsx="typescriptreact",
        mts="typescript",
        cts="typescript",
        js="javascript",
        jsx="javascriptreact",
        mjs="javascript",
        cjs="javascript",
    ),
    known("gopls", "gopls", go="go", mod="go.mod"),
    known("rust-analyzer", "rust-analyzer", rs="rust"),
    known(
        "clangd", "clangd", c="c", h="c", cc="cpp", cpp="cpp", cxx="cpp", hpp="cpp", hh="cpp",
        m="objective-c", mm="objective-cpp",
    ),
)  # fmt: skip
