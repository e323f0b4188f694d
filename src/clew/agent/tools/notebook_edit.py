"""NotebookEdit: replace, insert or delete one cell of a notebook."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, ToolSession
from clew.agent.tools.edit import encode_text
from clew.agent.tools.files import FileText, decode
from clew.agent.tools.patch import diff_texts
from clew.agent.tools.write import read_original
from clew.core.json_object import Json
from clew.core.messages.text import format_count, unescape_like

if TYPE_CHECKING:
    from clew.agent.tools.notebook import Cell, Notebook

Mode = Literal["replace", "insert", "delete"]
CellType = Literal["code", "markdown"]


class NotebookEditInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    notebook_path: Annotated[str, Meta(min_length=1, description="The .ipynb file")]
    new_source: Annotated[str, Meta(description="The cell's new source")] = ""
    cell_id: (
        Annotated[str, Meta(description="The cell; for insert, the cell before the new one")] | None
    ) = None
    cell_type: Annotated[CellType, Meta(description="Required for insert")] | None = None
    edit_mode: Annotated[Mode, Meta(description="replace is the default")] = "replace"


class NotebookEdit(Tool[NotebookEditInput]):
    name = "NotebookEdit"
    description = "Change a cell of a notebook"
    prompt = (
        "Replace the source of one cell of a Jupyter notebook, insert a cell after cell_id or at"
        " the start (edit_mode=insert), or delete one (edit_mode=delete). Use the cell IDs that "
        "Read shows; the notebook must have been read and not changed since. A changed code cell"
        " loses its outputs."
    )
    input_type = NotebookEditInput

    def is_destructive(self, arguments: NotebookEditInput) -> bool:
        return arguments.edit_mode == "delete"

    def paths(self, arguments: NotebookEditInput) -> tuple[str, ...]:
        return (arguments.notebook_path,)

    def title(self, arguments: NotebookEditInput) -> str:
        cell = f", cell {arguments.cell_id}" if arguments.cell_id else ""
        return f"{arguments.notebook_path}{cell}"

    def rehearse(self, arguments: NotebookEditInput, session: ToolSession) -> None:
        planned(arguments, session)

    async def call(self, arguments: NotebookEditInput, ctx: ToolContext) -> ToolOutcome:
        path, snapshot, text, notebook, cell = planned(arguments, ctx.session)
        after = notebook.text()
        written = files.put(snapshot.path, encode_text(text, after, path), snapshot.status)
        files.note(ctx, written, ())
        words = {"replace": "Replaced", "insert": "Inserted", "delete": "Deleted"}[
            arguments.edit_mode
        ]
        count = format_count(len(notebook.cells), "cell")
        return ToolOutcome(
            content=f"{words} cell {cell.id} of {path}; the notebook now has {count}.",
            tool_use_result={
                "new_source": arguments.new_source,
                "cell_id": cell.id,
                "cell_type": cell.kind,
                "language": notebook.language,
                "edit_mode": arguments.edit_mode,
                "notebook_path": str(path),
                "original_file": read_original(text.text),
                "updated_file": read_original(after),
                "structuredPatch": diff_texts(text.text, after),
            },
            display=f"{words} cell {cell.id}",
        )


def planned(
    arguments: NotebookEditInput, session: ToolSession
) -> "tuple[Path, files.FileSnapshot, FileText, Notebook, Cell]":
    """Return the file, the notebook as it would be after the change, and the changed cell.

    Nothing is written.
    """
    from clew.agent.tools.notebook import parse_notebook

    path = session.path(arguments.notebook_path)
    snapshot = files.take_known(path, session)
    text, notebook = decode(snapshot.data), parse_notebook(snapshot.data)
    if text is None or notebook is None:
        raise ToolError(f"{path} is not a notebook.", "Use Edit.")
    return path, snapshot, text, notebook, change_cell(notebook, arguments, path)


def change_cell(notebook: "Notebook", arguments: NotebookEditInput, path: Path) -> "Cell":
    """Change the notebook in memory and return the changed cell."""
    from clew.agent.tools.notebook import Cell

    cells: list[Json] = notebook.held["cells"]
    if arguments.edit_mode == "insert":
        place = (
            0
            if arguments.cell_id is None
            else find_cell(notebook, arguments.cell_id, path).place + 1
        )
        if arguments.cell_type is None:
            raise ToolError("insert requires cell_type: code or markdown.")
        cells.insert(place, new_cell(notebook, arguments.cell_type, arguments.new_source))
        return Cell(place=place, held=cells[place])
    if arguments.cell_id is None:
        raise ToolError(f"{arguments.edit_mode} requires cell_id.")
    cell = find_cell(notebook, arguments.cell_id, path)
    if arguments.edit_mode == "delete":
        del cells[cell.place]
        return cell
    kind = arguments.cell_type or cell.kind
    was_lines = isinstance(cell.held.get("source"), list)
    source = unescape_like(arguments.new_source, cell.source)
    cell.held["source"] = lines_kept(source) if was_lines else source
    cell.held["cell_type"] = kind
    if kind == "code":
        cell.held.update({"outputs": [], "execution_count": None})
    else:
        cell.held.pop("outputs", None)
        cell.held.pop("execution_count", None)
    return cell


def find_cell(notebook: "Notebook", cell_id: str, path: Path) -> "Cell":
    cells = notebook.cells
    for cell in cells:
        if cell_id == cell.id:
            return cell
    for cell in cells:
        if cell_id == f"cell-{cell.place}":
            return cell
    known_ids = ", ".join(cell.id for cell in cells[:50])
    raise ToolError(
        f"Cell {cell_id} not found in {path}.", f"Its cells: {known_ids}. Read it again."
    )


def new_cell(notebook: "Notebook", kind: str, source: str) -> Json:
    import secrets

    cell: Json = {"cell_type": kind}
    if kind == "code":
        cell |= {"execution_count": None}
    if notebook.has_ids:
        cell |= {"id": secrets.token_hex(4)}
    cell |= {"metadata": {}}
    if kind == "code":
        cell |= {"outputs": []}
    return cell | {"source": lines_kept(source)}


def lines_kept(source: str) -> list[str]:
    """Split a source into lines with their line endings, as notebooks store them."""
    parts = source.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
