"""Where a session finds its kinds of agents: folders of a person, of the project, and what it is told."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from clew.agent.context.facts import Fact
from clew.agent.context.memory import project_of
from clew.agent.hooks.handlers import read_hooks
from clew.agent.options import SOURCES
from clew.agent.subagents.files import DefinedAgents, in_folder, in_object, refuses_none
from clew.agent.subagents.files import folders as folders_of
from clew.agent.subagents.specs import AgentCatalog, AgentSpec, Origin
from clew.core.messages.text import tagged
from clew.parts.context import Ground, HostParts
from clew.system.config.paths import Places
from clew.system.files import content


def kinds_of(
    ground: Ground, brought: HostParts, plugins: Iterable[tuple[str, Path]] = ()
) -> tuple[AgentCatalog, tuple[str, ...]]:
    """The kinds of agents there are, and what is wrong with the definitions of others."""
    found = in_files(ground, plugins)
    given = [in_object(ground.options.agents or {}, "flag"), in_object(brought.agents, "host")]
    found += [checked(ground, one) for one in given]
    return AgentCatalog(spec for one in found for spec in one.specs), faults_of(found)


def in_files(ground: Ground, plugins: Iterable[tuple[str, Path]]) -> list[DefinedAgents]:
    """`plugins` are the names and agent folders of the plugins that are there."""
    root = project_of(ground.began.places)

    def refuses(path: Path) -> str | None:
        return ground.gate.refusal_of_link(path, root, "project")

    found = [
        in_folder(path, origin, refuses=refuses if origin == "project" else refuses_none)
        for origin, path in folders(ground)
    ]
    found += [in_folder(path, "plugin", prefix=f"{name}:") for name, path in plugins]
    return [checked(ground, one) for one in found]


def checked(ground: Ground, found: DefinedAgents) -> DefinedAgents:
    """What definitions start counts where somebody vouches for them: programs, not words."""
    is_trusted = ground.rules.standing.is_trusted
    specs, faults = [], list(found.faults)
    for spec in found.specs:
        place = spec.where or f"agent {spec.name}"
        if spec.origin == "project" and not is_trusted and (spec.hooks or spec.servers):
            faults.append(
                f"{place}: its hooks and MCP servers wait until the folder is trusted "
                "(clew config trust)"
            )
            spec = replace(spec, hooks={}, servers={})
        faults += [f"{place}: {fault}" for fault in read_hooks(spec.hooks).faults]
        specs.append(spec)
    return DefinedAgents(specs=specs, faults=faults)


def folders(ground: Ground) -> list[tuple[Origin, Path]]:
    if ground.options.is_bare:
        return []
    sources = SOURCES if ground.options.sources is None else ground.options.sources
    return folders_of(ground.began.places, sources)


def faults_of(found: Iterable[DefinedAgents]) -> tuple[str, ...]:
    return tuple(fault for one in found for fault in one.faults)


# What an agent remembers from one piece of work to the next: a folder of notes of its own.


FILE = "MEMORY.md"
SHOWN_BYTES = 24 * 1024


def folder_of(spec: AgentSpec, places: Places) -> Path:
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in spec.name)
    folders = {
        "user": places.config_home / "agent-memory",
        "project": places.root / ".claude" / "agent-memory",
        "local": places.root / ".claude" / "agent-memory-local",
    }
    return folders[spec.memory or "user"] / name


def memory_fact(spec: AgentSpec, places: Places) -> Fact | None:
    """The agent's notes so far, and where they are; none where it keeps none."""
    if spec.memory is None:
        return None
    folder = folder_of(spec, places)
    try:
        notes = content(folder / FILE, SHOWN_BYTES).decode("utf-8", "replace")
    except OSError:
        notes = ""
    so_far = f"{FILE} says:\n\n{notes}" if notes else f"There is no {FILE} yet."
    words = (
        f"You keep notes for yourself in {folder}: {FILE} is shown to you at the beginning of each "
        "piece of work, so keep it short and let it name further files. Note what will help next "
        f"time, and correct what turned out wrong. {so_far}"
    )
    return Fact(
        payload={"type": "agent_memory", "folder": str(folder)},
        rendered=(tagged("system-reminder", f"\n{words}\n"),),
    )
