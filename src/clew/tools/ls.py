"""LS: what is in a folder, one line for each name."""

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from clew.messages.counts import count_of
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult, refuse_odd

MOST_NAMES = 1000


class LSInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, description="The folder; absolute is best")]
    ignore: Annotated[list[str], Meta(description="Leave out such names: *.pyc, node_modules")] = (
        field(default_factory=list)
    )


class LS(Tool[LSInput]):
    name = "LS"
    description = "List a folder"
    prompt = (
        "Lists what is in a folder, hidden names and ignored ones too: folders with a slash at the "
        "end, files with their size, links with where they lead. To find files by name in all "
        "folders below use Glob."
    )
    input_type = LSInput

    def is_read_only(self, given: LSInput) -> bool:
        return True

    def paths(self, given: LSInput) -> tuple[str, ...]:
        return (given.path,)

    def title(self, given: LSInput) -> str:
        return given.path

    async def call(self, given: LSInput, ctx: ToolContext) -> ToolResult:
        return listed(ctx.session.path(given.path), given.ignore, ctx)


class Name(Struct, frozen=True, kw_only=True):
    """One entry of a folder and the line that shows it."""

    name: str
    line: str
    is_folder: bool


def listed(folder: Path, ignore: list[str], ctx: ToolContext) -> ToolResult:
    from clew.tools.search import chooser

    for glob in ignore:
        refuse_odd(glob, "A pattern")
    wanted = chooser([f"!{glob}" for glob in ignore]) if ignore else None
    may_read = ctx.session.may_read(str(folder))
    try:
        with os.scandir(folder) as entries:
            found = [
                named(entry)
                for entry in entries
                if (wanted is None or wanted(entry.name)) and may_read(entry.name)
            ]
    except FileNotFoundError:
        raise ToolError(f"There is no folder {folder}.") from None
    except NotADirectoryError:
        raise ToolError(f"{folder} is a file, not a folder. Use Read.") from None
    except OSError as error:
        raise ToolError(f"{folder} cannot be listed: {error.strerror}.") from None
    found.sort(key=lambda one: (not one.is_folder, one.name))
    shown = found[:MOST_NAMES]
    lines = "\n".join(one.line for one in shown)
    more = f"\n(The first {MOST_NAMES:,} of {len(found):,}.)" if len(found) > MOST_NAMES else ""
    count = count_of(len(found), "name")
    return ToolResult(
        content=f"{folder} holds {count}:\n{lines}{more}" if found else f"({folder} is empty.)",
        tool_use_result={
            "type": "folder",
            "path": str(folder),
            "names": [one.name for one in shown],
            "numNames": len(found),
        },
        display=count,
    )


def named(entry: "os.DirEntry[str]") -> Name:
    name = entry.name.encode("utf-8", "backslashreplace").decode()
    if entry.is_symlink():
        return Name(name=name, line=f"{name} -> {leads_to(entry.path)}", is_folder=False)
    if entry.is_dir(follow_symlinks=False):
        return Name(name=f"{name}/", line=f"{name}/", is_folder=True)
    try:
        size = f"{entry.stat(follow_symlinks=False).st_size:,} bytes"
    except OSError:
        size = "gone meanwhile"
    return Name(name=name, line=f"{name} ({size})", is_folder=False)


def leads_to(path: str) -> str:
    try:
        return os.fsencode(Path(path).readlink()).decode("utf-8", "backslashreplace")
    except OSError:
        return "?"
