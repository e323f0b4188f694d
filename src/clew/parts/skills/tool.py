"""The Skill tool: loads a skill into the session, or searches for one that is not listed.

`Keeper` decides which skills the tool may load, and what loading permits.
"""

from collections.abc import Sequence
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from clew.agent.tools.base import Delegation, Tool, ToolContext, ToolError, ToolOutcome, ToolSession
from clew.core.json_object import Json


class LoadedSkill(Struct, frozen=True, kw_only=True):
    """A skill's text for the model, and its record for the transcript."""

    text: str
    record: Json
    # The type of subagent that runs the skill, and its model if the skill names one.
    agent: str = ""
    model: str = ""


class Keeper(Protocol):
    """The interface that the Skill tool requires of a session: to list and load skills."""

    def fault(self, name: str) -> str:
        """Return why the model cannot load a skill, or an empty string if it can."""
        ...

    async def load(self, name: str, arguments: str) -> LoadedSkill:
        """Load a skill and return its text. Raise ToolError if that fails."""
        ...

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        """Return the names and descriptions of the skills that match a query."""
        ...


class NoSkills:
    """The `Keeper` for a session without skills."""

    def fault(self, name: str) -> str:
        return f"skill not found: {name}"

    async def load(self, name: str, arguments: str) -> LoadedSkill:
        raise ToolError(self.fault(f"{name} {arguments}".strip()))

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        return [] if query else ()


class SkillInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    skill: Annotated[str, Meta(description="The name as listed, without a slash")] = ""
    args: Annotated[str, Meta(description="Arguments, if the skill accepts any")] = ""
    search: Annotated[str, Meta(description="Words to search for, instead of a name")] = ""


class SkillTool(Tool[SkillInput]):
    name = "Skill"
    description = "Load a skill: instructions for a kind of task"
    prompt = (
        "Load a skill: instructions for one kind of task. The conversation lists the skills. Load one "
        "before you begin work that matches its description, then follow it; don't load it twice. "
        "`search` finds skills that are not listed. Load only names from the list or a search."
    )
    input_type = SkillInput
    owns_its_time = True
    also_called = ("SlashCommand",)
    renamed = (("command", "skill"), ("name", "skill"), ("arguments", "args"))

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def is_read_only(self, arguments: SkillInput) -> bool:
        return bool(arguments.search)

    def title(self, arguments: SkillInput) -> str:
        return arguments.skill or arguments.search

    def objection(self, arguments: SkillInput, session: ToolSession) -> str:
        if arguments.search:
            return ""
        return self._keeper.fault(bare(arguments.skill))

    async def call(self, arguments: SkillInput, ctx: ToolContext) -> ToolOutcome:
        if arguments.search:
            return self._found(arguments.search)
        loaded = await self._keeper.load(bare(arguments.skill), arguments.args)
        if loaded.agent and ctx.session.background.agents is not None:
            wish = Delegation(
                prompt=loaded.text,
                description=f"skill {arguments.skill}",
                kind=loaded.agent,
                model=loaded.model or None,
            )
            return await ctx.session.background.agents.run(wish, ctx.tool_use_id)
        return ToolOutcome(
            content=loaded.text, tool_use_result=loaded.record, display=f"{arguments.skill} loaded"
        )

    def _found(self, query: str) -> ToolOutcome:
        matches = self._keeper.search(query)
        lines = [f"- {name}: {description}" for name, description in matches]
        return ToolOutcome(
            content="\n".join(lines) or f"No skill matches {query!r}.",
            tool_use_result={"query": query, "matches": [name for name, _ in matches]},
            display=", ".join(name for name, _ in matches) or "no match",
        )


def bare(name: str) -> str:
    return name.strip().removeprefix("/")
