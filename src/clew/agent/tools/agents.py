"""Agent and SendMessage: delegate work to subagents, each with its own context and transcript."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.agent.tools.base import Agents, Delegation, Tool, ToolContext, ToolError, ToolOutcome

GENERAL = "general-purpose"


class AgentInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: Annotated[str, Meta(min_length=1, description="The task in 3 to 5 words")]
    prompt: Annotated[
        str, Meta(min_length=1, description="The task, with all the context it needs")
    ]
    subagent_type: Annotated[str, Meta(description="The agent type")] = GENERAL
    model: Annotated[str, Meta(description="Overrides the agent's model")] | None = None
    run_in_background: (
        Annotated[
            bool,
            Meta(
                description="Continue without waiting; you are notified when it ends, so don't poll"
            ),
        ]
        | None
    ) = None
    isolation: Annotated[str, Meta(description="worktree: run in its own git worktree")] | None = (
        None
    )
    name: Annotated[str, Meta(description="A name for SendMessage")] = ""
    resume: Annotated[str, Meta(description="ID of an ended agent to continue")] = ""


class Agent(Tool[AgentInput]):
    name = "Agent"
    description = "Delegate work to a subagent"
    prompt = (
        "Delegate work to a subagent with its own context; you see only its last message. The agent "
        "types are listed in this conversation; general-purpose fits any work. Use one for broad "
        "searches and for work that would fill your context, and several in one response for "
        "independent tasks. A subagent sees nothing of this conversation: put everything into the "
        "prompt, including whether to change files or only research, and what to report. Don't "
        "duplicate its work. To read a file you can name or for one or two searches, use the tools "
        "yourself."
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
            raise ToolError(f'isolation must be "worktree", got "{arguments.isolation}".')
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
        raise ToolError("Subagents are not available in this session.")
    return ctx.session.background.agents


# SendMessage: a message to an agent, while it runs or after it has ended.


class SendMessageInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Annotated[
        str, Meta(min_length=1, description="The agent's ID or name; * for all running agents")
    ]
    message: Annotated[str, Meta(min_length=1, description="What it should know or do")]


class SendMessage(Tool[SendMessageInput]):
    name = "SendMessage"
    description = "Send a message to a subagent"
    prompt = (
        "Send a message to a subagent. A running agent gets it before its next step. One that "
        "has ended resumes in the background with its full context, and you are notified when it"
        " ends again. A subagent reaches the main conversation as “main”. A message between "
        "agents names its sender."
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
