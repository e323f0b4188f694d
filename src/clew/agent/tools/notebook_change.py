"""What an edit of a notebook does to its cells."""

import secrets
from pathlib import Path

from clew.agent.tools.base import ToolError
from clew.agent.tools.notebook import Cell, Notebook
from clew.agent.tools.notebook_edit import NotebookEditInput
from clew.core.json_object import Json
from clew.core.messages.text import unescape_like


def changed(notebook: Notebook, given: NotebookEditInput, path: Path) -> Cell:
    """Makes the change in the notebook at hand; the cell it was about."""
    cells: list[Json] = notebook.held["cells"]
    if given.edit_mode == "insert":
        place = 0 if given.cell_id is None else found(notebook, given.cell_id, path).place + 1
        if given.cell_type is None:
            raise ToolError("insert needs a cell_type: code or markdown.")
        cells.insert(place, new_cell(notebook, given.cell_type, given.new_source))
        return Cell(place=place, held=cells[place])
    if given.cell_id is None:
        raise ToolError(f"{given.edit_mode} needs a cell_id.")
    cell = found(notebook, given.cell_id, path)
    if given.edit_mode == "delete":
        del cells[cell.place]
        return cell
    kind = given.cell_type or cell.kind
    was_lines = isinstance(cell.held.get("source"), list)
    source = unescape_like(given.new_source, cell.source)
    cell.held["source"] = lines_kept(source) if was_lines else source
    cell.held["cell_type"] = kind
    if kind == "code":
        cell.held.update({"outputs": [], "execution_count": None})
    else:
        cell.held.pop("outputs", None)
        cell.held.pop("execution_count", None)
    return cell


def found(notebook: Notebook, cell_id: str, path: Path) -> Cell:
    cells = notebook.cells
    for cell in cells:
        if cell_id == cell.id:
            return cell
    for cell in cells:
        if cell_id == f"cell-{cell.place}":
            return cell
    known = ", ".join(cell.id for cell in cells[:50])
    raise ToolError(f"{path} has no cell {cell_id}; there are: {known}. Read it again.")


def new_cell(notebook: Notebook, kind: str, source: str) -> Json:
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
    """The lines with their ends, as notebooks are written."""
    parts = source.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
