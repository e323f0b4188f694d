"""`clew memory explain`: which memory files speak here, in which order, how long they are, and why the
others do not."""

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
    """One file that speaks, as it is shown."""

    path: str
    layer: str
    tokens: int
    imported_by: str | None = None
    paths: tuple[str, ...] = ()


def _line(file: MemoryFile) -> ExplainedMemory:
    return ExplainedMemory(
        path=file.path,
        layer=file.layer,
        tokens=estimate_text_tokens(file.text),
        imported_by=file.imported_by,
        paths=file.paths,
    )


def explained(memory: Memory, touched: list[MemoryFile] | None) -> dict[str, Any]:
    """What `--json` prints."""
    report = {
        "files": [_line(file) for file in memory.files],
        "rules": [_line(rule) for rule in memory.rules],
        "skipped": memory.skipped,
        "toApprove": memory.to_approve,
        "tokens": sum(estimate_text_tokens(file.text) for file in memory.files),
    }
    return report if touched is None else report | {"whenRead": [_line(file) for file in touched]}


def main(argv: list[str]) -> int:
    parser = Group(prog="clew memory", description="Look at memory files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain", help="which file says what, in order, with tokens", description=__doc__
    )
    explain.add_argument("file", nargs="?", help="also what is added when this file is read")
    explain.add_argument("--cwd", default=".", help="the working folder to look from")
    explain.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    cwd = Path(os.path.normpath(Path.cwd() / options.cwd))
    if not is_folder(cwd):
        sys.stderr.write(f"clew memory: {cwd}: no such folder\n")
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
    lines = _table("Told at the start, in this order:", memory.files)
    if not memory.files:
        lines = ["No memory file speaks here."]
    if memory.rules:
        lines += ["", *_table("Rules that wait for their paths:", memory.rules)]
    if touched is not None:
        lines += ["", *_table(f"Told when {name} is read:", touched)]
    if memory.skipped:
        lines += ["", "Left out:", *(f"  {s.path}: {s.why}" for s in memory.skipped)]
    return lines


def _table(title: str, files: tuple[MemoryFile, ...] | list[MemoryFile]) -> list[str]:
    rows = [_line(file) for file in files]
    lines = [f"  {row.tokens:>6} tokens  {row.layer:<8} {row.path}{_beside(row)}" for row in rows]
    if len(rows) > 1:
        lines.append(f"  {sum(row.tokens for row in rows):>6} tokens together")
    return [title, *lines]


def _beside(line: ExplainedMemory) -> str:
    text = ""
    if line.imported_by is not None:
        text += f" (imported by {line.imported_by})"
    if line.paths:
        text += f" (for {', '.join(line.paths)})"
    return text
