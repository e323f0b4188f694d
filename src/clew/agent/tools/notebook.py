"""Jupyter notebooks: reads cells for the model and writes changes back.

Untouched keys, their order and the indentation are preserved. The format is nbformat 4.
"""

import json
import re
from binascii import a2b_base64
from typing import Any

from msgspec import Struct

from clew.agent.tools.base import ToolError, ToolSession
from clew.agent.tools.files import decode
from clew.agent.tools.media import fit_picture
from clew.core.json_object import Json
from clew.core.messages.text import format_count

OUTPUT_MAX_CHARS = 10_000
SHOWN_MAX_CHARS = 100_000
MOST_PICTURES = 20
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
INDENT = re.compile(r"\A\s*\{\r?\n([ \t]+)")
COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Cell(Struct, frozen=True, kw_only=True):
    """A cell of a notebook: its index from 0, and its object in the file."""

    place: int
    held: Json

    @property
    def id(self) -> str:
        """The cell's ID, or one derived from its index if the notebook's format has no cell IDs."""
        own = self.held.get("id")
        return own if isinstance(own, str) and own else f"cell-{self.place}"

    @property
    def kind(self) -> str:
        return str(self.held.get("cell_type", "raw"))

    @property
    def source(self) -> str:
        return join_text(self.held.get("source"))

    @property
    def outputs(self) -> list[Json]:
        outputs = self.held.get("outputs")
        return (
            [output for output in outputs if isinstance(output, dict)]
            if isinstance(outputs, list)
            else []
        )

    def described(self, language: str) -> Json:
        """Return a description of the cell, for programs; images are only in the content."""
        of_code = {"language": language} if self.kind == "code" else {}
        return {"cellType": self.kind, "cell_id": self.id, "source": self.source, **of_code}


class Notebook(Struct, frozen=True, kw_only=True):
    """A notebook: its parsed content, its indentation, and whether the file ends with a newline."""

    held: Json
    indent: int | str
    ends_line: bool

    @property
    def cells(self) -> list[Cell]:
        return [Cell(place=n, held=raw_cell) for n, raw_cell in enumerate(self.held["cells"])]

    @property
    def language(self) -> str:
        info = self.held.get("metadata", {}).get("language_info", {})
        return str(info.get("name", "python"))

    @property
    def has_ids(self) -> bool:
        """True for format 4.5 and later, in which cells have IDs."""
        return (self.held.get("nbformat", 4), self.held.get("nbformat_minor", 0)) >= (4, 5)

    def text(self) -> str:
        return json.dumps(self.held, indent=self.indent, ensure_ascii=False) + "\n" * self.ends_line


def join_text(text: Any) -> str:
    """Return a notebook's text as one string; the file may contain a list of lines."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def parse_notebook(data: bytes) -> Notebook | None:
    """Parse a notebook; return None if the file is not a notebook, despite its name."""
    file_text = decode(data)
    try:
        content = json.loads(file_text.text) if file_text is not None else None
    except (ValueError, RecursionError):
        return None
    if (
        file_text is None
        or not isinstance(content, dict)
        or not isinstance(content.get("cells"), list)
    ):
        return None
    if not all(isinstance(cell, dict) for cell in content["cells"]):
        return None
    if not isinstance(content.get("metadata", {}), dict):
        return None
    indent = INDENT.match(file_text.text)
    return Notebook(
        held=content,
        indent=indent[1] if indent else 1,
        ends_line=file_text.text.endswith("\n"),
    )


async def render_cells(
    notebook: Notebook, first: int, cells: list[Cell], session: ToolSession
) -> tuple[int, list[Json]]:
    """Return the number of cells that fit, and content blocks with their text and images."""
    content: list[Json] = []
    words: list[str] = []
    chars = shown_count = pictures = 0
    for number, cell in enumerate(cells, first):
        text = in_words(notebook, cell, number)
        chars += len(text)
        if shown_count and chars > SHOWN_MAX_CHARS:
            break
        shown_count += 1
        words.append(text)
        for block in await pictures_of(cell, session):
            if pictures == MOST_PICTURES:
                break
            pictures += 1
            content += [{"type": "text", "text": "\n".join(words)}, block]
            words = [f"(The image above belongs to cell {cell.id}.)"]
    return shown_count, [*content, *([{"type": "text", "text": "\n".join(words)}] if words else [])]


def in_words(notebook: Notebook, cell: Cell, number: int) -> str:
    language = f" language={notebook.language}" if cell.kind == "code" else ""
    outputs = "".join(
        f"<output>\n{text}\n</output>\n" for text in map(output_text, cell.outputs) if text
    )
    source = cell.source.removesuffix("\n")
    return f"<cell number={number} id={cell.id} type={cell.kind}{language}>\n{source}\n</cell>\n{outputs}".rstrip(
        "\n"
    )


def output_text(output: Json) -> str:
    """Return an output as text, truncated if it is long."""
    data = output.get("data")
    if output.get("output_type") == "error":
        text = "\n".join(map(str, output.get("traceback") or [output.get("evalue", "")]))
    elif isinstance(data, dict):
        plain = join_text(data.get("text/plain"))
        text = plain or ("(an image)" if any(kind in data for kind in PICTURES) else "")
    else:
        text = join_text(output.get("text"))
    text = COLORS.sub("", text).rstrip("\n")
    if len(text) > OUTPUT_MAX_CHARS:
        rest = format_count(len(text) - OUTPUT_MAX_CHARS, "more character")
        return f"{text[:OUTPUT_MAX_CHARS]}… [{rest}]"
    return text


async def pictures_of(cell: Cell, session: ToolSession) -> list[Json]:
    """Return the images among a cell's outputs, without those that can't be shown."""
    blocks: list[Json] = []
    for output in cell.outputs:
        data = output.get("data")
        for kind in PICTURES if isinstance(data, dict) else ():
            assert isinstance(data, dict)
            if kind in data:
                try:
                    picture = await fit_picture(session, a2b_base64(join_text(data[kind])))
                except (ToolError, ValueError):
                    continue
                blocks.append(picture.block)
                break
    return blocks
