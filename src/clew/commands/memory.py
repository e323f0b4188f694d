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
    load,
    nested,
)
from clew.core.normalize.tokens import text_tokens
from clew.permissions.session_rules import stand
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
        tokens=text_tokens(file.text),
        imported_by=file.imported_by,
        paths=file.paths,
    )


def explained(memory: Memory, touched: list[MemoryFile] | None) -> dict[str, Any]:
    """What `--json` prints."""
    found = {
        "files": [_line(file) for file in memory.files],
        "rules": [_line(rule) for rule in memory.rules],
        "skipped": memory.skipped,
        "toApprove": memory.to_approve,
        "tokens": sum(text_tokens(file.text) for file in memory.files),
    }
    return found if touched is None else found | {"whenRead": [_line(file) for file in touched]}


def main(argv: list[str]) -> int:
    parser = Group(prog="clew memory", description="Look at memory files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain", help="which file says what, in order, with tokens", description=__doc__
    )
    explain.add_argument("file", nargs="?", help="also what is added when this file is read")
    explain.add_argument("--cwd", default=".", help="the working folder to look from")
    explain.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(argv)
    cwd = Path(os.path.normpath(Path.cwd() / given.cwd))
    if not is_folder(cwd):
        sys.stderr.write(f"clew memory: {cwd}: no such folder\n")
        return 2
    standing = stand(os.environ, cwd)
    where = find_sources(dict(os.environ), cwd, MemoryGate(lambda: standing))
    cache = FileCache()
    memory = load(where, cache)
    touched = None if given.file is None else nested(where, cache, memory, cwd / given.file)
    if given.json:
        sys.stdout.write(msgspec.json.encode(explained(memory, touched)).decode() + "\n")
    else:
        sys.stdout.write("\n".join(shown(memory, touched, given.file)) + "\n")
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
    shown = [_line(file) for file in files]
    lines = [f"  {one.tokens:>6} tokens  {one.layer:<8} {one.path}{_beside(one)}" for one in shown]
    if len(shown) > 1:
        lines.append(f"  {sum(one.tokens for one in shown):>6} tokens together")
    return [title, *lines]


def _beside(line: ExplainedMemory) -> str:
    told = ""
    if line.imported_by is not None:
        told += f" (imported by {line.imported_by})"
    if line.paths:
        told += f" (for {', '.join(line.paths)})"
    return told
