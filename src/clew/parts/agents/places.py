"""Sources of agent definitions: folders of the user and the project, plugins, and the host."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from clew.agent.context.facts import Fact
from clew.agent.context.memory import MemoryGate, project_of
from clew.agent.hooks.handlers import read_hooks
from clew.agent.options import SOURCES
from clew.agent.subagents.files import (
    DefinedAgents,
    read_agent_folder,
    read_agent_object,
    refuse_none,
)
from clew.agent.subagents.files import find_agent_folders as folders_of
from clew.agent.subagents.specs import AgentCatalog, AgentSpec, Origin
from clew.core.messages.text import wrap_in_tag
from clew.parts.context import Ground, HostParts
from clew.system.config.paths import Places
from clew.system.files import is_there, read_content


def kinds_of(
    ground: Ground, brought: HostParts, plugins: Iterable[tuple[str, Path]] = ()
) -> tuple[AgentCatalog, tuple[str, ...]]:
    """Return the agent types of a session, and the problems in their definitions."""
    sources = in_files(ground, plugins)
    definitions = [
        read_agent_object(ground.options.agents or {}, "flag"),
        read_agent_object(brought.agents, "host"),
    ]
    sources += [checked(ground, agents) for agents in definitions]
    return AgentCatalog(spec for agents in sources for spec in agents.specs), faults_of(sources)


def in_files(ground: Ground, plugins: Iterable[tuple[str, Path]]) -> list[DefinedAgents]:
    """Read the definitions in files. `plugins` pairs each plugin's name with its agents folder."""
    root = project_of(ground.began.places)

    def refuses(path: Path) -> str | None:
        return ground.gate.refusal_of_link(path, root, "project")

    sources = [
        read_agent_folder(path, origin, refuses=refuses if origin == "project" else refuse_none)
        for origin, path in folders(ground)
    ]
    sources += [read_agent_folder(path, "plugin", prefix=f"{name}:") for name, path in plugins]
    return [checked(ground, agents) for agents in sources]


def checked(ground: Ground, agents: DefinedAgents) -> DefinedAgents:
    """Drop hooks and MCP servers from an untrusted project's definitions.

    Hooks and servers run programs, which requires trust. A fault reports what was dropped.
    """
    is_trusted = ground.rules.standing.is_trusted
    specs, faults = [], list(agents.faults)
    for spec in agents.specs:
        place = spec.where or f"agent {spec.name}"
        if spec.origin == "project" and not is_trusted and (spec.hooks or spec.servers):
            faults.append(
                f"{place}: its hooks and MCP servers are disabled until you trust this folder "
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


def faults_of(sources: Iterable[DefinedAgents]) -> tuple[str, ...]:
    return tuple(fault for agents in sources for fault in agents.faults)


# An agent's memory across pieces of work: a folder of notes.


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


def make_memory_fact(spec: AgentSpec, places: Places, gate: MemoryGate) -> Fact | None:
    """Return a fact with the agent's notes and their location, or None if it has no memory."""
    if spec.memory is None:
        return None
    folder = folder_of(spec, places)
    file = folder / FILE
    why = gate.refusal(file, project_of(places), spec.memory) if is_there(file) else None
    try:
        notes = "" if why else read_content(file, SHOWN_BYTES).decode("utf-8", "replace")
    except OSError:
        notes = ""
    so_far = f"{FILE} contains:\n\n{notes}" if notes else f"{FILE} does not exist yet."
    if why:
        so_far = f"{FILE} can't be read: {why}."
    words = (
        f"You keep notes in {folder}: you receive {FILE} at the start of each piece of work, so keep it short "
        "and refer to further files. Note what will help next time, and correct what turned out to "
        f"be wrong. {so_far}"
    )
    return Fact(
        payload={"type": "agent_memory", "folder": str(folder)},
        rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),),
    )
