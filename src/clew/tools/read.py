"""Read: a text file's lines with their numbers, in bounded memory however large the file is."""

import asyncio
import os
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from clew.tools import files
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult
from clew.tools.ledger import ReadRecord
from clew.tools.text_file import LOOK_BYTES, decode, is_binary, lines_of

DEFAULT_LINES = 2000
LINE_MAX_CHARS = 2000
SHOWN_MAX_CHARS = 100_000
PIECE_BYTES = 1 << 20


class ReadInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="The file; absolute is best")]
    offset: Annotated[int, Meta(ge=0, description="The first line, counted from 1")] | None = None
    limit: Annotated[int, Meta(ge=1, description="How many lines")] | None = None


class Lines(Struct, frozen=True, kw_only=True):
    """Some lines of a file: `first` is the number of the first, `total` counts all the file has."""

    lines: list[str]
    first: int
    total: int


class Read(Tool[ReadInput]):
    name = "Read"
    description = "Read a text file with line numbers"
    prompt = (
        f"Reads a text file. Every line comes as its number, a tab and the text. Without offset "
        f"and limit the first {DEFAULT_LINES} lines are read; a result says when there is more and "
        "how to go on. Very long lines are cut. Read a file before you edit it or write over it; "
        "several files are best read in one go. Folders are for Glob."
    )
    input_type = ReadInput
    # It pages by itself: a result in a file would have to be read again.
    result_max_chars = None

    def is_read_only(self, given: ReadInput) -> bool:
        return True

    def paths(self, given: ReadInput) -> tuple[str, ...]:
        return (given.file_path,)

    def title(self, given: ReadInput) -> str:
        if given.offset is None and given.limit is None:
            return given.file_path
        first = given.offset or 1
        return f"{given.file_path}:{first}-{first + given.limit - 1 if given.limit else ''}"

    async def call(self, given: ReadInput, ctx: ToolContext) -> ToolResult:
        path = ctx.session.path(given.file_path)
        first, count = max(1, given.offset or 1), given.limit or DEFAULT_LINES
        descriptor, status = files.open_regular(path)
        try:
            if status.st_size > files.WHOLE_MAX_BYTES:
                found = await asyncio.to_thread(in_pieces, os.dup(descriptor), path, first, count)
                note_large(ctx, path, status, found)
            else:
                found = whole(ctx, descriptor, status, path, first, count)
        finally:
            os.close(descriptor)
        return shown(path, found)


def whole(
    ctx: ToolContext, descriptor: int, status: os.stat_result, path: Path, first: int, count: int
) -> Lines:
    data = files.read_all(descriptor, status.st_size)
    text = decode(data)
    if text is None:
        raise not_text(path, len(data))
    lines = lines_of(text.text)
    found = Lines(
        lines=[line.removesuffix("\r") for line in lines[first - 1 : first - 1 + count]],
        first=first,
        total=len(lines),
    )
    snapshot = files.Snapshot(
        path=Path(os.path.realpath(path)),
        data=data,
        status=status,
        sha256=sha256(data).digest(),
    )
    files.note(ctx, snapshot, seen(found))
    return found


def note_large(ctx: ToolContext, path: Path, status: os.stat_result, found: Lines) -> None:
    ctx.session.ledger.note(
        ReadRecord(
            path=os.path.realpath(path),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            sha256=None,
            ranges=seen(found),
            message_uuid=ctx.message_uuid,
        )
    )


def seen(found: Lines) -> tuple[tuple[int, int], ...]:
    return ((found.first, found.first + len(found.lines) - 1),) if found.lines else ()


def not_text(path: Path, size: int) -> ToolError:
    return ToolError(f"{path} is not text ({size:,} bytes of binary data), so it was not read.")


def in_pieces(descriptor: int, path: Path, first: int, count: int) -> Lines:
    """With a descriptor of the thread's own: a cancelled call closes its, and the thread reads on."""
    try:
        return pieces(descriptor, path, first, count)
    finally:
        os.close(descriptor)


def pieces(descriptor: int, path: Path, first: int, count: int) -> Lines:
    """The same for a file too large to hold: only the lines asked for are kept, all are counted."""
    line, current, ends_open = 1, bytearray(), False
    lines: list[bytes] = []
    room = LINE_MAX_CHARS * 4
    while piece := os.read(descriptor, PIECE_BYTES):
        if line == 1 and not lines and not current and is_binary(piece[:LOOK_BYTES]):
            raise not_text(path, os.fstat(descriptor).st_size)
        ends_open = not piece.endswith(b"\n")
        ended = piece.count(b"\n")
        if line + ended < first or line >= first + count:
            line += ended
            continue
        for number, part in enumerate(piece.split(b"\n")):
            if number:
                if first <= line < first + count:
                    lines.append(bytes(current))
                line += 1
                current.clear()
            if first <= line < first + count:
                current += part[: room - len(current)]
    if ends_open and first <= line < first + count:
        lines.append(bytes(current))
    return Lines(
        lines=[one.decode("utf-8", "replace").removesuffix("\r") for one in lines],
        first=first,
        total=line if ends_open else line - 1,
    )


def shown(path: Path, found: Lines) -> ToolResult:
    """The lines for the model; what does not fit is named, with the way to it."""
    if found.total and found.first > found.total:
        raise ToolError(f"{path} has {found.total:,} lines; line {found.first:,} is beyond them.")
    parts: list[str] = []
    chars = 0
    for number, line in enumerate(found.lines, found.first):
        part = f"{number}\t{cut(line)}"
        chars += len(part) + 1
        if chars > SHOWN_MAX_CHARS and parts:
            break
        parts.append(part)
    last = found.first + len(parts) - 1
    content = "\n".join(parts)
    if last < found.total:
        content += (
            f"\n\n(Lines {found.first}-{last} of {found.total:,}. Go on with offset={last + 1}.)"
        )
    return ToolResult(
        content=content if found.total else f"({path} is empty.)",
        tool_use_result={
            "type": "text",
            "file": {
                "filePath": str(path),
                "content": "\n".join(found.lines[: len(parts)]),
                "numLines": len(parts),
                "startLine": found.first,
                "totalLines": found.total,
            },
        },
        display=f"{len(parts):,} lines" if len(parts) != 1 else "1 line",
    )


def cut(line: str) -> str:
    if len(line) <= LINE_MAX_CHARS:
        return line
    return f"{line[:LINE_MAX_CHARS]}… [{len(line) - LINE_MAX_CHARS:,} more characters]"
