"""What Read gives of files that are no plain text: pictures, PDF files, notebooks."""

import re
from pathlib import Path

from clew.agent.tools.base import ToolContext, ToolError, ToolOutcome
from clew.agent.tools.media import DOCUMENT_MAX_BYTES, document, fit_picture, some_pages
from clew.agent.tools.notebook import Notebook, cells_in_words
from clew.core.json_object import Json
from clew.core.messages.text import count_of

# Without `pages` so many come, as of a long text its first lines.
DEFAULT_PAGES = 20
RANGE = re.compile(r"\s*(\d{1,7})\s*(?:-\s*(\d{1,7})?)?\s*")


async def read_picture(path: Path, data: bytes, ctx: ToolContext) -> ToolOutcome:
    try:
        picture = await fit_picture(ctx.session, data)
    except ToolError as error:
        raise ToolError(f"{path}: {error}.") from None
    (width, height), (shown_width, shown_height) = picture.original_size, picture.size
    note = f"(Shown at {shown_width} x {shown_height} of its {width} x {height} pixels.)"
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
        display=f"A picture, {width} x {height}",
    )


def page_range(text: str | None) -> tuple[int, int]:
    """`3`, `3-7` or `3-` as first and last page."""
    if text is None:
        return 1, DEFAULT_PAGES
    match = RANGE.fullmatch(text)
    first = int(match[1]) if match else 0
    if match is None or first < 1 or (match[2] and int(match[2]) < first):
        raise ToolError(f"pages is one page or a range, as 3 or 3-7; not {text!r}.")
    if "-" not in text:
        return first, first
    last = int(match[2]) if match[2] else first + DEFAULT_PAGES - 1
    return first, min(last, first + 99)


async def read_pdf(path: Path, data: bytes, pages: str | None, ctx: ToolContext) -> ToolOutcome:
    """The pages as a document, or their text for a model that takes no documents."""
    first, last = page_range(pages)
    as_text = ctx.surroundings().takes_pdfs is False
    try:
        found = await some_pages(ctx.session, data, first, last, as_text=as_text)
    except ToolError as error:
        if (
            pages is None
            and not as_text
            and "pypdf" in str(error)
            and len(data) <= DOCUMENT_MAX_BYTES
        ):
            return whole_document(path, data)
        raise ToolError(f"{path}: {error}.") from None
    more = f" Go on with pages={found.last + 1}-." if found.last < found.total else ""
    note = f"(Pages {found.first}-{found.last} of {found.total}.{more})"
    raw: Json = {
        "type": "pdf",
        "file": {
            "filePath": str(path),
            "originalSize": len(data),
            "firstPage": found.first,
            "lastPage": found.last,
            "totalPages": found.total,
        },
    }
    display = f"Pages {found.first}-{found.last} of {found.total}"
    if as_text:
        texts = found.data.decode("utf-8", "replace").split("\0")
        said = [f"Page {n}\n{text}" for n, text in enumerate(texts, found.first)]
        return ToolOutcome(content="\n\n".join([*said, note]), tool_use_result=raw, display=display)
    if len(found.data) > DOCUMENT_MAX_BYTES:
        raise ToolError(
            f"{path}: pages {found.first}-{found.last} have {len(found.data):,} bytes, more than the "
            f"{DOCUMENT_MAX_BYTES:,} that go into one document. Ask for fewer pages."
        )
    return ToolOutcome(
        content=[document(found.data, path.name), {"type": "text", "text": note}],
        tool_use_result=raw,
        display=display,
    )


def whole_document(path: Path, data: bytes) -> ToolOutcome:
    return ToolOutcome(
        content=[document(data, path.name)],
        tool_use_result={
            "type": "pdf",
            "file": {"filePath": str(path), "originalSize": len(data)},
        },
        display="A document",
    )


async def read_notebook(
    path: Path, notebook: Notebook, first: int, count: int, ctx: ToolContext
) -> ToolOutcome:
    cells = notebook.cells[first - 1 : first - 1 + count]
    if notebook.cells and not cells:
        raise ToolError(f"{path} has {len(notebook.cells)} cells; cell {first} is beyond them.")
    shown, content = await cells_in_words(notebook, first, cells, ctx.session)
    last = first + shown - 1
    notes = []
    if last < len(notebook.cells):
        notes = [f"(Cells {first}-{last} of {len(notebook.cells)}. Go on with offset={last + 1}.)"]
    elif not notebook.cells:
        notes = [f"({path} has no cells.)"]
    return ToolOutcome(
        content=[*content, *({"type": "text", "text": note} for note in notes)],
        tool_use_result={
            "type": "notebook",
            "file": {"filePath": str(path), "cells": [cell.described() for cell in cells[:shown]]},
        },
        display=count_of(shown, "cell"),
    )
