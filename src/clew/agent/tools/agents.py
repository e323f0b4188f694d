"""Agent: a piece of work for another conversation, with its own context, tools and transcript."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.agent.tools.base import Agents, Delegation, Tool, ToolContext, ToolError, ToolOutcome

GENERAL = "general-purpose"


class AgentInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: Annotated[str, Meta(min_length=1, description="The work in 3 to 5 words")]
    prompt: Annotated[str, Meta(min_length=1, description="The work, with all it needs to know")]
    subagent_type: Annotated[str, Meta(description="The kind of agent")] = GENERAL
    model: Annotated[str, Meta(description="Another model than the agent's own")] | None = None
    run_in_background: (
        Annotated[bool, Meta(description="Go on without waiting; you are told when it has ended")]
        | None
    ) = None
    isolation: Annotated[str, Meta(description="worktree: in a copy of the repository")] | None = (
        None
    )
    name: Annotated[str, Meta(description="A name for SendMessage to call it by")] = ""
    resume: Annotated[str, Meta(description="The id of an agent that is to go on")] = ""


class Agent(Tool[AgentInput]):
    name = "Agent"
    description = "Give a piece of work to an agent"
    prompt = (
        "Gives a piece of work to an agent: a conversation of its own, of which you see the last "
        "message only. The kinds of agents are listed in this conversation; general-purpose is for "
        "any work. Use one for wide searches, for work that would fill your context, and several in "
        "one answer for work that can be done side by side. It sees nothing of this conversation: "
        "the prompt says everything, also whether to change files or only to look, and what to come "
        "back with. Do not do the same work beside it. run_in_background=true lets you go on; you "
        "are told when it has ended, so do not ask for it again and again. isolation=worktree gives "
        "it a checkout of its own. resume=ID goes on with one that has ended. Not for reading a file "
        "that you can name or a search of one or two calls: do these yourself."
    )
    input_type = AgentInput
    owns_its_time = True
    also_called = ("Task",)
    search_words = "subagent delegate parallel research"
    result_max_chars = None

    def is_concurrency_safe(self, arguments: AgentInput) -> bool:
        return True

    def title(self, arguments: AgentInput) -> str:
        return f"{arguments.subagent_type}: {arguments.description}"

    async def call(self, arguments: AgentInput, ctx: ToolContext) -> ToolOutcome:
        if arguments.isolation not in (None, "worktree"):
            raise ToolError(f"isolation: {arguments.isolation}: there is worktree alone.")
        wish = Delegation(
            prompt=arguments.prompt,
            description=arguments.description,
            kind=arguments.subagent_type,
            model=arguments.model,
            in_background=arguments.run_in_background,
            in_worktree=None if arguments.isolation is None else True,
            name=arguments.name,
            resume=arguments.resume,
        )
        return await agents_of(ctx).run(wish, ctx.tool_use_id)


def agents_of(ctx: ToolContext) -> Agents:
    if ctx.session.background.agents is None:
        raise ToolError("This conversation has no agents.")
    return ctx.session.background.agents


# SendMessage: words for an agent, while it works or after it has ended.


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

    def is_concurrency_safe(self, arguments: SendMessageInput) -> bool:
        return True

    def title(self, arguments: SendMessageInput) -> str:
        return f"to {arguments.to}"

    async def call(self, arguments: SendMessageInput, ctx: ToolContext) -> ToolOutcome:
        return await agents_of(ctx).send(arguments.to, arguments.message)
