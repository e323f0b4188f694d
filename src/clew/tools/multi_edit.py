"""MultiEdit: several replacements in one file, all of them or none."""

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from clew.messages.counts import count_of
from clew.tools.base import Tool, ToolContext, ToolResult, ToolSession
from clew.tools.edit import edit, many, planned, said
from clew.tools.patch import patch_of_regions
from clew.tools.write import original


class OneEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: Annotated[str, Meta(description="The exact text to replace")]
    new_string: Annotated[str, Meta(description="The text to put there")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence")] = False


class MultiEditInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(min_length=1, description="The file; absolute is best")]
    edits: Annotated[
        list[OneEdit], Meta(min_length=1, description="In this order, each on what is left before")
    ]


class MultiEdit(Tool[MultiEditInput]):
    name = "MultiEdit"
    description = "Replace several exact texts in a file, all or none"
    prompt = (
        "Makes several edits in one file, under the rules of Edit. They are made in order, each on "
        "the text that the one before left; if one does not fit, none is made. With an empty "
        "old_string the first edit creates the file."
    )
    input_type = MultiEditInput

    def paths(self, given: MultiEditInput) -> tuple[str, ...]:
        return (given.file_path,)

    def title(self, given: MultiEditInput) -> str:
        return f"{given.file_path}, {count_of(len(given.edits), 'edit')}"

    def rehearse(self, given: MultiEditInput, session: ToolSession) -> None:
        planned(session.path(given.file_path), given.edits, session)

    async def call(self, given: MultiEditInput, ctx: ToolContext) -> ToolResult:
        done = edit(ctx.session.path(given.file_path), given.edits, ctx)
        if isinstance(done, ToolResult):
            return done
        return ToolResult(
            content=said(done),
            tool_use_result={
                "filePath": str(done.path),
                "edits": to_builtins(given.edits),
                "originalFileContents": original(done.before),
                "structuredPatch": patch_of_regions(done.before, done.after, done.regions),
                "userModified": False,
            },
            display=many(done.times),
        )
