"""`clew memory explain`: list the memory files in effect, and why others are skipped."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.agent.context.memory import (
    FileCache,
    Memory,
    MemoryFile,
    MemoryGate,
    find_sources,
    load_memory,
    load_nested,
)
from clew.core.normalize.tokens import estimate_text_tokens
from clew.permissions.session_rules import load_current_rules
from clew.system.command_groups import Group
from clew.system.files import is_folder


class ExplainedMemory(Struct, frozen=True, kw_only=True):
    """One memory file in effect, as displayed."""

    path: str
    layer: str
    tokens: int
    imported_by: str | None = None
    paths: tuple[str, ...] = ()


def measure(file: MemoryFile) -> ExplainedMemory:
    return ExplainedMemory(
        path=file.path,
        layer=file.layer,
        tokens=estimate_text_tokens(file.text),
        imported_by=file.imported_by,
        paths=file.paths,
    )


def explained(memory: Memory, touched: list[MemoryFile] | None) -> dict[str, Any]:
    """Return the report that `--json` prints."""
    report = {
        "files": [measure(file) for file in memory.files],
        "rules": [measure(rule) for rule in memory.rules],
        "skipped": memory.skipped,
        "toApprove": memory.to_approve,
        "tokens": sum(estimate_text_tokens(file.text) for file in memory.files),
    }
    return report if touched is None else report | {"whenRead": [measure(file) for file in touched]}


def main(argv: list[str]) -> int:
    parser = Group(prog="clew memory", description="Inspect memory files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain",
        help="List the memory files in effect, in order, with token counts",
        description="List the memory files in effect and why others are skipped.",
    )
    explain.add_argument(
        "file", nargs="?", help="Also list the memory files that reading this file loads"
    )
    explain.add_argument("--cwd", default=".", help="Folder to inspect (default: the current one)")
    explain.add_argument("--json", action="store_true", help="Print JSON")
    options = parser.parse_args(argv)
    cwd = Path(os.path.normpath(Path.cwd() / options.cwd))
    if not is_folder(cwd):
        sys.stderr.write(f"clew memory: {cwd}: folder not found\n")
        return 2
    standing = load_current_rules(os.environ, cwd)
    where = find_sources(dict(os.environ), cwd, MemoryGate(lambda: standing))
    cache = FileCache()
    memory = load_memory(where, cache)
    touched = (
        None if options.file is None else load_nested(where, cache, memory, cwd / options.file)
    )
    if options.json:
        sys.stdout.write(msgspec.json.encode(explained(memory, touched)).decode() + "\n")
    else:
        sys.stdout.write("\n".join(shown(memory, touched, options.file)) + "\n")
    return 0


def shown(memory: Memory, touched: list[MemoryFile] | None, name: str | None) -> list[str]:
    lines = _table("Loaded at the start, in this order:", memory.files)
    if not memory.files:
        lines = ["No memory files are loaded."]
    if memory.rules:
        lines += ["", *_table("Rules that load when a matching file is read:", memory.rules)]
    if touched is not None:
        lines += ["", *_table(f"Loaded when {name} is read:", touched)]
    if memory.skipped:
        lines += ["", "Skipped:", *(f"  {s.path}: {s.why}" for s in memory.skipped)]
    return lines


def _table(title: str, files: tuple[MemoryFile, ...] | list[MemoryFile]) -> list[str]:
    rows = [measure(file) for file in files]
    lines = [
        f"  {row.tokens:>6} tokens  {row.layer:<8} {row.path}{describe_origin(row)}" for row in rows
    ]
    if len(rows) > 1:
        lines.append(f"  {sum(row.tokens for row in rows):>6} tokens in total")
    return [title, *lines]


def describe_origin(line: ExplainedMemory) -> str:
    text = ""
    if line.imported_by is not None:
        text += f" (imported by {line.imported_by})"
    if line.paths:
        text += f" (for {', '.join(line.paths)})"
    return text
