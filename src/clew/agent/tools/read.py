"""Read: a text file's lines with their numbers, in bounded memory however large the file is.

What is no text goes another way: pictures, PDF files and notebooks (`read_media`), folders (`ls`).
"""

import asyncio
import os
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome
from clew.agent.tools.files import LOOK_BYTES, decode, is_binary, lines_of
from clew.agent.tools.ledger import ReadRecord
from clew.agent.tools.search_tools import list_folder
from clew.core.messages.text import format_count
from clew.core.normalize.shapes import detect_picture_type
from clew.system.files import is_folder

DEFAULT_LINES = 2000
LINE_MAX_CHARS = 2000
SHOWN_MAX_CHARS = 100_000
PIECE_BYTES = 1 << 20
# Pictures, PDF files and notebooks are held whole.
FILE_MAX_BYTES = 64 << 20
# BMP and TIFF: no service takes them, and they can be made into what it does.
OTHER_PICTURES = (b"BM", b"II*\0", b"MM\0*")

Kind: TypeAlias = Literal["text", "picture", "PDF file", "notebook"]


class ReadInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="The file; absolute is best")]
    offset: Annotated[int, Meta(ge=0, description="The first line, counted from 1")] | None = None
    limit: Annotated[int, Meta(ge=1, description="How many lines")] | None = None
    pages: Annotated[str, Meta(description="Of a PDF file: 3 or 3-7")] | None = None


class TextLines(Struct, frozen=True, kw_only=True):
    """Some lines of a file: `first` is the number of the first, `total` counts all the file has."""

    lines: list[str]
    first: int
    total: int


class Read(Tool[ReadInput]):
    name = "Read"
    description = "Read a file: text with line numbers, a picture, PDF pages, a notebook"
    prompt = (
        f"Reads a file. Every line of a text comes as its number, a tab and the text. Without offset "
        f"and limit the first {DEFAULT_LINES} lines are read; a result says when there is more and "
        "how to go on. Very long lines are cut. Pictures (PNG, JPEG, GIF, WebP) and PDF files you "
        "see; of a PDF the first 20 pages, others with pages. Of a notebook you get the cells with "
        "their outputs; offset and limit count cells. Of a folder, what is in it. Read a file before "
        "you edit it or write over it; several files are best read in one go."
    )
    input_type = ReadInput
    # It pages by itself: a result in a file would have to be read again.
    result_max_chars = None

    def is_read_only(self, arguments: ReadInput) -> bool:
        return True

    def paths(self, arguments: ReadInput) -> tuple[str, ...]:
        return (arguments.file_path,)

    def title(self, arguments: ReadInput) -> str:
        if arguments.pages is not None:
            return f"{arguments.file_path}, pages {arguments.pages}"
        if arguments.offset is None and arguments.limit is None:
            return arguments.file_path
        first = arguments.offset or 1
        return f"{arguments.file_path}:{first}-{first + arguments.limit - 1 if arguments.limit else ''}"

    async def call(self, arguments: ReadInput, ctx: ToolContext) -> ToolOutcome:
        path = ctx.session.path(arguments.file_path)
        if is_folder(path):
            return list_folder(path, [], ctx)
        descriptor, status = files.open_regular(path)
        try:
            kind = kind_of(path, os.pread(descriptor, LOOK_BYTES, 0))
            refuse_unfit(arguments, kind, path)
            if kind == "text":
                return await read_text(arguments, path, descriptor, status, ctx)
            if status.st_size > FILE_MAX_BYTES:
                raise ToolError(f"{path} has {status.st_size:,} bytes, too many for a {kind}.")
            data = files.read_all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        result = await read_media(arguments, kind, path, data, ctx)
        if isinstance(result, ToolOutcome):
            files.note(ctx, snapshot(path, data, status), ())
            return result
        # A name that promises a notebook, and a file that is none.
        return text_result(arguments, path, data, status, ctx)


def kind_of(path: Path, start: bytes) -> Kind:
    if detect_picture_type(start[:16]) or start.startswith(OTHER_PICTURES):
        return "picture"
    if start.startswith(b"%PDF-"):
        return "PDF file"
    return "notebook" if path.suffix == ".ipynb" else "text"


def refuse_unfit(arguments: ReadInput, kind: Kind, path: Path) -> None:
    if arguments.pages is not None and kind != "PDF file":
        raise ToolError(f"{path} is no PDF file, so it has no pages; leave them out.")
    if kind in ("picture", "PDF file") and (arguments.offset or arguments.limit):
        way = "pages" if kind == "PDF file" else "the whole"
        raise ToolError(f"{path} is a {kind} and has no lines; ask for {way}.")


async def read_media(
    arguments: ReadInput, kind: Kind, path: Path, data: bytes, ctx: ToolContext
) -> ToolOutcome | None:
    from clew.agent.tools import notebook, read_media

    if kind == "picture":
        return await read_media.read_picture(path, data, ctx)
    if kind == "PDF file":
        return await read_media.read_pdf(path, data, arguments.pages, ctx)
    document = notebook.parse_notebook(data)
    if document is None:
        return None
    first, count = max(1, arguments.offset or 1), arguments.limit or DEFAULT_LINES
    return await read_media.read_notebook(path, document, first, count, ctx)


async def read_text(
    arguments: ReadInput, path: Path, descriptor: int, status: os.stat_result, ctx: ToolContext
) -> ToolOutcome:
    if status.st_size <= files.WHOLE_MAX_BYTES:
        return text_result(arguments, path, files.read_all(descriptor, status.st_size), status, ctx)
    first, count = max(1, arguments.offset or 1), arguments.limit or DEFAULT_LINES
    lines = await asyncio.to_thread(in_pieces, os.dup(descriptor), path, first, count)
    note_large(ctx, path, status, lines)
    return shown(path, lines)


def text_result(
    arguments: ReadInput, path: Path, data: bytes, status: os.stat_result, ctx: ToolContext
) -> ToolOutcome:
    """The lines asked for, or that they stand in the conversation already."""
    first, count = max(1, arguments.offset or 1), arguments.limit or DEFAULT_LINES
    if ctx.session.files.unsaved:
        data = ctx.session.files.unsaved.get(os.path.realpath(path), data)
    text = decode(data)
    if text is None:
        raise not_text(path, len(data))
    file = snapshot(path, data, status)
    span = (str(file.path), first, count)
    # Text only: a picture shown earlier may have been dropped from a request that grew too large.
    if ctx.session.files.ledger.was_shown(span, file.sha256, ctx.session.files.in_conversation):
        return unchanged(path)
    lines = some_lines(text.text, first, count)
    result = shown(path, lines)
    files.note(ctx, file, seen(lines))
    ctx.session.files.ledger.note_shown(span, file.sha256, ctx.message_uuid)
    return result


def unchanged(path: Path) -> ToolOutcome:
    return ToolOutcome(
        content=f"({path} is unchanged since you read these lines; they stand above.)",
        tool_use_result={"type": "file_unchanged", "file": {"filePath": str(path)}},
        display="Unchanged since it was read",
    )


def snapshot(path: Path, data: bytes, status: os.stat_result) -> files.FileSnapshot:
    return files.FileSnapshot(
        path=Path(os.path.realpath(path)), data=data, status=status, sha256=sha256(data).digest()
    )


def some_lines(text: str, first: int, count: int) -> TextLines:
    lines = lines_of(text)
    return TextLines(
        lines=[line.removesuffix("\r") for line in lines[first - 1 : first - 1 + count]],
        first=first,
        total=len(lines),
    )


def note_large(ctx: ToolContext, path: Path, status: os.stat_result, lines: TextLines) -> None:
    ctx.session.files.ledger.note(
        ReadRecord(
            path=os.path.realpath(path),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            sha256=None,
            ranges=seen(lines),
            message_uuid=ctx.message_uuid,
        )
    )


def seen(lines: TextLines) -> tuple[tuple[int, int], ...]:
    return ((lines.first, lines.first + len(lines.lines) - 1),) if lines.lines else ()


def not_text(path: Path, size: int) -> ToolError:
    return ToolError(f"{path} is not text ({size:,} bytes of binary data), so it was not read.")


def in_pieces(descriptor: int, path: Path, first: int, count: int) -> TextLines:
    """With a descriptor of the thread's own: a cancelled call closes its, and the thread reads on."""
    try:
        return pieces(descriptor, path, first, count)
    finally:
        os.close(descriptor)


def pieces(descriptor: int, path: Path, first: int, count: int) -> TextLines:
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
    return TextLines(
        lines=[line.decode("utf-8", "replace").removesuffix("\r") for line in lines],
        first=first,
        total=line if ends_open else line - 1,
    )


def shown(path: Path, lines: TextLines) -> ToolOutcome:
    """The lines for the model; what does not fit is named, with the way to it."""
    if lines.total and lines.first > lines.total:
        raise ToolError(f"{path} has {lines.total:,} lines; line {lines.first:,} is beyond them.")
    parts: list[str] = []
    chars = 0
    for number, line in enumerate(lines.lines, lines.first):
        part = f"{number}\t{cut(line)}"
        chars += len(part) + 1
        if chars > SHOWN_MAX_CHARS and parts:
            break
        parts.append(part)
    last = lines.first + len(parts) - 1
    content = "\n".join(parts)
    if last < lines.total:
        content += (
            f"\n\n(Lines {lines.first}-{last} of {lines.total:,}. Go on with offset={last + 1}.)"
        )
    return ToolOutcome(
        content=content if lines.total else f"({path} is empty.)",
        tool_use_result={
            "type": "text",
            "file": {
                "filePath": str(path),
                "content": "\n".join(lines.lines[: len(parts)]),
                "numLines": len(parts),
                "startLine": lines.first,
                "totalLines": lines.total,
            },
        },
        display=format_count(len(parts), "line"),
    )


def cut(line: str) -> str:
    if len(line) <= LINE_MAX_CHARS:
        return line
    return f"{line[:LINE_MAX_CHARS]}… [{len(line) - LINE_MAX_CHARS:,} more characters]"
