"""Read for files other than plain text: images, PDF files and notebooks."""

import re
from pathlib import Path

from clew.agent.tools.base import ToolContext, ToolError, ToolOutcome
from clew.agent.tools.media import DOCUMENT_MAX_BYTES, extract_pages, fit_picture, make_document
from clew.agent.tools.notebook import Notebook, render_cells
from clew.core.json_object import Json
from clew.core.messages.text import format_count

# The number of pages without `pages`, like the line limit of a long text.
DEFAULT_PAGES = 20
RANGE = re.compile(r"\s*(\d{1,7})\s*(?:-\s*(\d{1,7})?)?\s*")


async def read_picture(path: Path, data: bytes, ctx: ToolContext) -> ToolOutcome:
    try:
        picture = await fit_picture(ctx.session, data)
    except ToolError as error:
        raise ToolError(f"{path}: {error}.") from None
    (width, height), (shown_width, shown_height) = picture.original_size, picture.size
    note = f"(Scaled from {width} x {height} to {shown_width} x {shown_height} pixels.)"
    words = [{"type": "text", "text": note}] if picture.is_smaller else []
    return ToolOutcome(
        content=[picture.block, *words],
        tool_use_result={
            "type": "image",
            "file": {
                "filePath": str(path),
                "type": picture.media_type,
                "originalSize": len(data),
                "dimensions": {
                    "originalWidth": width,
                    "originalHeight": height,
                    "displayWidth": shown_width,
                    "displayHeight": shown_height,
                },
            },
        },
        display=f"Image, {width} x {height}",
    )


def page_range(text: str | None) -> tuple[int, int]:
    """Parse `3`, `3-7` or `3-` into the first and last page."""
    if text is None:
        return 1, DEFAULT_PAGES
    match = RANGE.fullmatch(text)
    first = int(match[1]) if match else 0
    if match is None or first < 1 or (match[2] and int(match[2]) < first):
        raise ToolError(f"pages must be a page or a range such as 3 or 3-7, got {text!r}.")
    if "-" not in text:
        return first, first
    last = int(match[2]) if match[2] else first + DEFAULT_PAGES - 1
    return first, min(last, first + 99)


async def read_pdf(path: Path, data: bytes, pages: str | None, ctx: ToolContext) -> ToolOutcome:
    """Return the pages as a document, or as text if the model does not accept documents."""
    first, last = page_range(pages)
    as_text = ctx.surroundings().takes_pdfs is False
    try:
        extract = await extract_pages(ctx.session, data, first, last, as_text=as_text)
    except ToolError as error:
        if (
            pages is None
            and not as_text
            and "pypdf" in str(error)
            and len(data) <= DOCUMENT_MAX_BYTES
        ):
            return whole_document(path, data)
        raise ToolError(f"{path}: {error}.") from None
    hint = f" Continue with pages={extract.last + 1}-." if extract.last < extract.total else ""
    note = f"(Pages {extract.first}-{extract.last} of {extract.total}.{hint})"
    raw: Json = {
        "type": "pdf",
        "file": {
            "filePath": str(path),
            "originalSize": len(data),
            "firstPage": extract.first,
            "lastPage": extract.last,
            "totalPages": extract.total,
        },
    }
    display = f"Pages {extract.first}-{extract.last} of {extract.total}"
    if as_text:
        texts = extract.data.decode("utf-8", "replace").split("\0")
        page_texts = [f"Page {n}\n{text}" for n, text in enumerate(texts, extract.first)]
        return ToolOutcome(
            content="\n\n".join([*page_texts, note]), tool_use_result=raw, display=display
        )
    if len(extract.data) > DOCUMENT_MAX_BYTES:
        raise ToolError(
            f"{path}: pages {extract.first}-{extract.last} have {len(extract.data):,} bytes; a "
            f"document may have at most {DOCUMENT_MAX_BYTES:,}.",
            "Read fewer pages.",
        )
    return ToolOutcome(
        content=[make_document(extract.data, path.name), {"type": "text", "text": note}],
        tool_use_result=raw,
        display=display,
    )


def whole_document(path: Path, data: bytes) -> ToolOutcome:
    return ToolOutcome(
        content=[make_document(data, path.name)],
        tool_use_result={
            "type": "pdf",
            "file": {"filePath": str(path), "originalSize": len(data)},
        },
        display="PDF document",
    )


async def read_notebook(
    path: Path, notebook: Notebook, first: int, count: int, ctx: ToolContext
) -> ToolOutcome:
    cells = notebook.cells[first - 1 : first - 1 + count]
    if notebook.cells and not cells:
        total = format_count(len(notebook.cells), "cell")
        raise ToolError(f"{path} has {total}; cell {first} does not exist.")
    shown_count, content = await render_cells(notebook, first, cells, ctx.session)
    last = first + shown_count - 1
    notes = []
    if last < len(notebook.cells):
        notes = [
            f"(Cells {first}-{last} of {len(notebook.cells)}. Continue with offset={last + 1}.)"
        ]
    elif not notebook.cells:
        notes = [f"({path} has no cells.)"]
    return ToolOutcome(
        content=[*content, *({"type": "text", "text": note} for note in notes)],
        tool_use_result={
            "type": "notebook",
            "file": {
                "filePath": str(path),
                "cells": [cell.described(notebook.language) for cell in cells[:shown_count]],
            },
        },
        display=format_count(shown_count, "cell"),
    )
