"""Brief: a short message to the person while the work goes on."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.tools.base import Tool, ToolContext, ToolResult

MAX_CHARS = 2_000


class BriefInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message: Annotated[
        str, Meta(min_length=1, max_length=MAX_CHARS, description="What the person should know")
    ]


class Brief(Tool[BriefInput]):
    """Shown by its title as it is called; the result only says so."""

    name = "Brief"
    description = "Tell the person how the work stands"
    prompt = (
        "Shows the person a short message while you go on working: what was found, what comes next, "
        "what takes long. Not for the answer itself, and not for questions."
    )
    input_type = BriefInput
    is_deferred = True
    search_words = "status message progress update notify user"

    def is_read_only(self, given: BriefInput) -> bool:
        return True

    def title(self, given: BriefInput) -> str:
        return given.message

    async def call(self, given: BriefInput, ctx: ToolContext) -> ToolResult:
        return ToolResult(
            content="The person sees it. Go on.",
            tool_use_result={"message": given.message},
            display="shown",
        )
