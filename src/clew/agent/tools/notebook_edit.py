"""NotebookEdit: one cell of a notebook replaced, added or taken out; the rest of the file stays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from clew.agent.tools import files
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome, ToolSession
from clew.agent.tools.edit import encoded
from clew.agent.tools.files import FileText, decode
from clew.agent.tools.patch import patch_of_texts
from clew.core.messages.text import count_of

if TYPE_CHECKING:
    from clew.agent.tools.notebook import Cell, Notebook

Mode = Literal["replace", "insert", "delete"]
CellType = Literal["code", "markdown"]


class NotebookEditInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    notebook_path: Annotated[str, Meta(min_length=1, description="The .ipynb file")]
    new_source: Annotated[str, Meta(description="The cell's new text")] = ""
    cell_id: (
        Annotated[str, Meta(description="The cell; for insert, the one before the new cell")] | None
    ) = None
    cell_type: Annotated[CellType, Meta(description="Needed for insert")] | None = None
    edit_mode: Annotated[Mode, Meta(description="What to do; replace is the default")] = "replace"


class NotebookEdit(Tool[NotebookEditInput]):
    name = "NotebookEdit"
    description = "Change a cell of a notebook"
    prompt = (
        "Replaces the text of one cell of a Jupyter notebook, adds a cell (edit_mode=insert, behind "
        "cell_id or at the very beginning) or takes one out (edit_mode=delete). Cells are named by "
        "the ids that Read shows; the notebook must have been read and not changed since. The "
        "outputs of a code cell that changes are dropped."
    )
    input_type = NotebookEditInput

    def is_destructive(self, given: NotebookEditInput) -> bool:
        return given.edit_mode == "delete"

    def paths(self, given: NotebookEditInput) -> tuple[str, ...]:
        return (given.notebook_path,)

    def title(self, given: NotebookEditInput) -> str:
        cell = f", cell {given.cell_id}" if given.cell_id else ""
        return f"{given.notebook_path}{cell}"

    def rehearse(self, given: NotebookEditInput, session: ToolSession) -> None:
        planned(given, session)

    async def call(self, given: NotebookEditInput, ctx: ToolContext) -> ToolOutcome:
        path, known, text, notebook, cell = planned(given, ctx.session)
        after = notebook.text()
        written = files.put(known.path, encoded(text, after, path), known.status)
        files.note(ctx, written, ())
        words = {"replace": "Replaced", "insert": "Added", "delete": "Took out"}[given.edit_mode]
        return ToolOutcome(
            content=f"{words} cell {cell.id} of {path}; it has now {count_of(len(notebook.cells), 'cell')}.",
            tool_use_result={
                "new_source": given.new_source,
                "cell_id": cell.id,
                "cell_type": cell.kind,
                "language": notebook.language,
                "edit_mode": given.edit_mode,
                "notebook_path": str(path),
                "structuredPatch": patch_of_texts(text.text, after),
            },
            display=f"{words} cell {cell.id}",
        )


def planned(
    given: NotebookEditInput, session: ToolSession
) -> "tuple[Path, files.FileSnapshot, FileText, Notebook, Cell]":
    """The notebook as it would be, nothing of it written, and the cell it is about."""
    from clew.agent.tools.notebook import parsed
    from clew.agent.tools.notebook_change import changed

    path = session.path(given.notebook_path)
    known = files.take_known(path, session)
    text, notebook = decode(known.data), parsed(known.data)
    if text is None or notebook is None:
        raise ToolError(f"{path} is no notebook; use Edit.")
    return path, known, text, notebook, changed(notebook, given, path)
