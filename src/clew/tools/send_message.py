"""SendMessage: words for an agent, while it works or after it has ended."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.tools.agent import agents_of
from clew.tools.base import Tool, ToolContext, ToolResult


class SendMessageInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Annotated[
        str, Meta(min_length=1, description="The agent's id or name; * is all that work now")
    ]
    message: Annotated[str, Meta(min_length=1, description="What it should know or do")]


class SendMessage(Tool[SendMessageInput]):
    name = "SendMessage"
    description = "Tell an agent something"
    prompt = (
        "Tells an agent something. One that works hears it before its next step; one that has ended "
        "goes on in the background, with all it knows, and you are told when it has ended again. "
        "An agent reaches the conversation of the person as “main”. What agents tell each other says "
        "whose words it is."
    )
    input_type = SendMessageInput
    is_deferred = True
    search_words = "agent subagent teammate message continue resume mailbox"

    def is_concurrency_safe(self, given: SendMessageInput) -> bool:
        return True

    def title(self, given: SendMessageInput) -> str:
        return f"to {given.to}"

    async def call(self, given: SendMessageInput, ctx: ToolContext) -> ToolResult:
        return await agents_of(ctx).send(given.to, given.message)
