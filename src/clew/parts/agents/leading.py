"""Sessions that run as an agent, chosen by `--agent`, the setting `agent`, or the session's record.

The definition's instructions, model, effort, turns, mode and tools apply to the session unless the
command line overrides them. The session works in its own folder even if the definition requests a
worktree.

Decision: docs/decisions/170-agents.md
"""

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.context.facts import Fact
from clew.agent.context.memory import MemoryGate
from clew.agent.models import choose_small_model
from clew.agent.options import Options
from clew.agent.subagents.offer import mode_of
from clew.agent.subagents.specs import AgentCatalog, AgentSpec
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.agents.places import make_memory_fact
from clew.parts.context import Ground
from clew.parts.skills.part import SessionSkills
from clew.permissions.session_rules import CurrentRules
from clew.providers.base import Effort
from clew.record.transcript.loaded import LoadedSession
from clew.system.config.settings import read_text

SMALL = "small"
EFFORTS: dict[str, Effort] = {
    "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max",
}  # fmt: skip


class Led(Struct, frozen=True, kw_only=True):
    """A session's `Ground` with the leading agent's settings, and problems with that agent."""

    ground: Ground
    faults: tuple[str, ...] = ()


def choose_leader(ground: Ground, kinds: AgentCatalog, loaded: LoadedSession | None) -> Led:
    options = ground.options
    name = options.agent or find_recorded_kind(loaded) or by_setting(ground, loaded)
    if name is None:
        return Led(ground=ground)
    spec = kinds.find(name)
    if spec is None:
        near = kinds.nearest(name)
        hint = f" (did you mean {near}?)" if near else ""
        names = ", ".join(kind.name for kind in kinds)
        problem = f"unknown agent type {name}{hint}; expected one of {names}"
        if options.agent is not None:
            raise UserError(f"--agent: {problem}")
        return Led(ground=ground, faults=(f"the session continues without an agent: {problem}",))
    if options.mode is None:
        rules = ground.rules
        mode = mode_of(
            spec,
            rules.mode,
            is_trusted=rules.standing.is_trusted,
            may_bypass=options.may_bypass,
            is_chosen=options.agent is not None or loaded is None,
        )
        rules.set_mode(mode)
    return Led(ground=replace(ground, options=under(options, spec, ground, is_new=loaded is None)))


def under(options: Options, spec: AgentSpec, ground: Ground, *, is_new: bool) -> Options:
    """Return the options, with the definition's values for those that the command line omits."""
    model = spec.model
    if model == SMALL:
        model = choose_small_model(
            ground.environment,
            ground.began.settings,
            ground.service,
            options.model or ground.service.default_model,
        )
    # A resumed session keeps the model that it used before.
    return replace(
        options,
        lead=spec,
        model=options.model or (model if is_new else None),
        effort=options.effort or EFFORTS.get(spec.effort or ""),
        max_turns=options.max_turns or spec.max_turns,
        system_prompt=spec.prompt if options.system_prompt is None else options.system_prompt,
    )


def find_recorded_kind(loaded: LoadedSession | None) -> str | None:
    """Return the type of agent that a resumed session ran as, or None."""
    if loaded is None:
        return None
    name = loaded.side.current.get("agent-setting", {}).get("agentSetting")
    return name if isinstance(name, str) and name else None


def by_setting(ground: Ground, loaded: LoadedSession | None) -> str | None:
    """Return the agent type that the settings name; None for a session that is resumed."""
    return read_text(ground.began.settings, "agent") if loaded is None else None


async def collect_opening(
    spec: AgentSpec | None, skills: SessionSkills, standing: CurrentRules
) -> list[Fact]:
    """Return the facts for a leading agent: its notes, and the skills that it names."""
    if spec is None:
        return []
    from clew.parts.agents.shared import make_opening_fact

    facts = [
        make_memory_fact(spec, standing.places, MemoryGate(lambda: standing)),
        await make_opening_fact(skills, spec.skills),
    ]
    return [fact for fact in facts if fact is not None]


def compose_first_prompt(spec: AgentSpec | None, prompt: str | list[Json]) -> str | list[Json]:
    """Return the first prompt, preceded by the definition's initial prompt."""
    if spec is None or not spec.first_words:
        return prompt
    if isinstance(prompt, str):
        return f"{spec.first_words}\n\n{prompt}"
    return [{"type": "text", "text": spec.first_words}, *prompt]
