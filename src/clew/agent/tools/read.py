"""Read: returns numbered lines of a text file, in bounded memory however large the file is.

`read_media` reads images, PDF files and notebooks, and `search_tools` lists folders.
"""

import asyncio
import os
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, locate
from clew.agent.tools.files import LOOK_BYTES, NO_TEXT_FILE, decode, is_binary, lines_of
from clew.agent.tools.read_files import ReadRecord
from clew.agent.tools.search_tools import list_folder
from clew.core.messages.text import format_count
from clew.core.normalize.shapes import detect_picture_type
from clew.system.files import is_folder

DEFAULT_LINES = 2000
LINE_MAX_CHARS = 2000
SHOWN_MAX_CHARS = 100_000
PIECE_BYTES = 1 << 20
# Images, PDF files and notebooks are read into memory.
FILE_MAX_BYTES = 64 << 20
# BMP and TIFF: no service accepts them, but they can be converted.
OTHER_PICTURES = (b"BM", b"II*\0", b"MM\0*")

Kind: TypeAlias = Literal["text", "image", "PDF file", "notebook"]


class ReadInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="Preferably absolute")]
    offset: Annotated[int, Meta(ge=0, description="The first line, counted from 1")] | None = None
    limit: Annotated[int, Meta(ge=1, description="How many lines")] | None = None
    pages: Annotated[str, Meta(description="For a PDF file: 3 or 3-7")] | None = None


class TextLines(Struct, frozen=True, kw_only=True):
    """Consecutive lines of a file.

    `first` is the number of the first line, `total` the number of lines in the file.
    """

    lines: list[str]
    first: int
    total: int


class Read(Tool[ReadInput]):
    name = "Read"
    description = "Read a file: text with line numbers, an image, PDF pages or a notebook"
    prompt = (
        "Read a file. Each line of text is returned as its number, a tab and the text. Without "
        f"offset and limit you get the first {DEFAULT_LINES} lines; the result says if there are "
        "more and how to continue. Very long lines are cut. Images (PNG, JPEG, GIF, WebP) and "
        "PDF files are shown to you: the first 20 pages of a PDF, others with pages. Notebooks "
        "return cells with outputs; offset and limit count cells. A folder returns its listing. "
        "Read a file before you edit or overwrite it; read several files in one response."
    )
    input_type = ReadInput
    # Read pages its own results: a result saved to a file would have to be read again.
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
        if is_folder(locate(path)):
            return list_folder(path, [], ctx)
        descriptor, status = files.open_regular(path)
        try:
            kind = kind_of(path, os.pread(descriptor, LOOK_BYTES, 0))
            refuse_unfit(arguments, kind, path)
            if kind == "text":
                return await read_text(arguments, path, descriptor, status, ctx)
            if status.st_size > FILE_MAX_BYTES:
                raise ToolError(
                    f"{path} has {status.st_size:,} bytes; the limit is {FILE_MAX_BYTES:,}."
                )
            data = files.read_all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        result = await read_media(arguments, kind, path, data, ctx)
        if isinstance(result, ToolOutcome):
            files.note(ctx, snapshot(path, data, status), ())
            return result
        # The name ends in .ipynb, but the file is not a notebook.
        return text_result(arguments, path, data, status, ctx)


def kind_of(path: Path, start: bytes) -> Kind:
    if detect_picture_type(start[:16]) or start.startswith(OTHER_PICTURES):
        return "image"
    if start.startswith(b"%PDF-"):
        return "PDF file"
    return "notebook" if path.suffix == ".ipynb" else "text"


def refuse_unfit(arguments: ReadInput, kind: Kind, path: Path) -> None:
    if arguments.pages is not None and kind != "PDF file":
        raise ToolError(f"{path} is not a PDF file and has no pages.", "Leave pages out.")
    if kind in ("image", "PDF file") and (arguments.offset or arguments.limit):
        way = "pages" if kind == "PDF file" else "all of it"
        raise ToolError(f"{path} has no lines (type: {kind}).", f"Read {way}.")


async def read_media(
    arguments: ReadInput, kind: Kind, path: Path, data: bytes, ctx: ToolContext
) -> ToolOutcome | None:
    from clew.agent.tools import notebook, read_media

    if kind == "image":
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
    return render_lines(path, lines)


def text_result(
    arguments: ReadInput, path: Path, data: bytes, status: os.stat_result, ctx: ToolContext
) -> ToolOutcome:
    """Return the requested lines, or a note that the conversation already contains them."""
    first, count = max(1, arguments.offset or 1), arguments.limit or DEFAULT_LINES
    if ctx.session.files.unsaved:
        data = ctx.session.files.unsaved.get(str(locate(path)), data)
    text = decode(data)
    if text is None:
        raise not_text(path, len(data))
    file = snapshot(path, data, status)
    span = (str(file.path), first, count)
    # Text only: an image shown earlier may have been dropped from a request that grew too large.
    if ctx.session.files.ledger.was_shown(span, file.sha256, ctx.session.files.in_conversation):
        return unchanged(path)
    lines = some_lines(text.text, first, count)
    result = render_lines(path, lines)
    files.note(ctx, file, make_seen_ranges(lines))
    ctx.session.files.ledger.note_shown(span, file.sha256, ctx.message_uuid)
    return result


def unchanged(path: Path) -> ToolOutcome:
    return ToolOutcome(
        content=f"({path} is unchanged since you read these lines above.)",
        tool_use_result={"type": "file_unchanged", "file": {"filePath": str(path)}},
        display="Unchanged since it was read",
    )


def snapshot(path: Path, data: bytes, status: os.stat_result) -> files.FileSnapshot:
    return files.FileSnapshot(
        path=locate(path), data=data, status=status, sha256=sha256(data).digest()
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
            path=str(locate(path)),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            sha256=None,
            ranges=make_seen_ranges(lines),
            message_uuid=ctx.message_uuid,
        )
    )


def make_seen_ranges(lines: TextLines) -> tuple[tuple[int, int], ...]:
    return ((lines.first, lines.first + len(lines.lines) - 1),) if lines.lines else ()


def not_text(path: Path, size: int) -> ToolError:
    data = format_count(size, "byte")
    return ToolError(f"{path} {NO_TEXT_FILE} ({data} of binary data), so it was not read.")


def in_pieces(descriptor: int, path: Path, first: int, count: int) -> TextLines:
    """Read the lines of a large file and close `descriptor`, a duplicate made for this thread.

    If the call is cancelled, the original descriptor is closed while the thread is still reading.
    """
    try:
        return pieces(descriptor, path, first, count)
    finally:
        os.close(descriptor)


def pieces(descriptor: int, path: Path, first: int, count: int) -> TextLines:
    """Read the requested lines of a file that is too large for memory, and count all its lines."""
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


def render_lines(path: Path, lines: TextLines) -> ToolOutcome:
    """Return the lines for the model; if they don't fit, a note says how to continue."""
    if lines.total and lines.first > lines.total:
        total = format_count(lines.total, "line")
        raise ToolError(f"{path} has {total}; line {lines.first:,} does not exist.")
    parts: list[str] = []
    chars = 0
    for number, line in enumerate(lines.lines, lines.first):
        part = f"{number}\t{cut_line(line)}"
        chars += len(part) + 1
        if chars > SHOWN_MAX_CHARS and parts:
            break
        parts.append(part)
    last = lines.first + len(parts) - 1
    content = "\n".join(parts)
    if last < lines.total:
        content += (
            f"\n\n(Lines {lines.first}-{last} of {lines.total:,}. Continue with offset={last + 1}.)"
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


def cut_line(line: str) -> str:
    if len(line) <= LINE_MAX_CHARS:
        return line
    rest = format_count(len(line) - LINE_MAX_CHARS, "more character")
    return f"{line[:LINE_MAX_CHARS]}… [{rest}]"
