"""Definitions of agents on disk: one markdown file each, in folders of their own.

Reads; a file that cannot be read, or is none, is told and left out.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.subagents.specs import AgentSpec, Origin, UnusableSpec, spec_of
from clew.system.config import frontmatter
from clew.system.config.frontmatter import Frontmatter
from clew.system.config.paths import Places
from clew.system.files import find_markdown, is_file, read_content

MAX_BYTES = 256 * 1024
FOLDER = "agents"


class DefinedAgents(Struct, frozen=True, kw_only=True):
    """The agents of some places, and what people should know of the rest."""

    specs: list[AgentSpec] = []
    faults: list[str] = []


def refuse_none(_: Path) -> str | None:
    return None


def read_agent_folder(
    folder: Path,
    origin: Origin,
    *,
    prefix: str = "",
    refuses: Callable[[Path], str | None] = refuse_none,
) -> DefinedAgents:
    """The agents that the files of a folder define, those of folders in it too, or one file does.

    `refuses` says why a file may not be sent to the model; whoever brings it tells the user.
    """
    agents = DefinedAgents()
    below = find_markdown(folder, agents.faults)
    for path in [folder] if is_file(folder) else (Path(name) for name, _ in below):
        if refuses(path) is not None:
            continue
        try:
            data = read_content(path, MAX_BYTES + 1)
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            agents.faults.append(f"{path}: {why}")
            continue
        if len(data) > MAX_BYTES:
            agents.faults.append(f"{path}: larger than {MAX_BYTES // 1024} KiB")
            continue
        head = frontmatter.read(text)
        if head.values or head.faults:
            # A file without a head is somebody's note about the others.
            _take(agents, head, path.stem, origin, str(path), prefix)
    return agents


def find_agent_folders(places: Places, sources: Collection[str]) -> list[tuple[Origin, Path]]:
    """Where definitions of agents may lie; `sources` are the kinds of settings that count."""
    agent_sources: list[tuple[Origin, Path]] = [
        ("managed", folder / ".claude" / FOLDER) for folder in places.managed_folders
    ]
    if "user" in sources:
        agent_sources.append(("user", places.config_home / FOLDER))
    if "project" in sources:
        agent_sources.append(("project", places.root / ".claude" / FOLDER))
    return agent_sources


def read_agent_object(definitions: Mapping[str, Any], origin: Origin) -> DefinedAgents:
    """The agents of an object, as hosts and the command line name them."""
    agents = DefinedAgents()
    for name, fields in definitions.items():
        if not isinstance(fields, dict):
            agents.faults.append(f"agent {name}: expected an object")
            continue
        values = {key: value for key, value in fields.items() if value is not None}
        prompt = values.pop("prompt", "")
        body = prompt if isinstance(prompt, str) else ""
        _take(agents, Frontmatter(values=values, body=body), name, origin, "")
    return agents


def _take(
    agents: DefinedAgents,
    head: Frontmatter,
    name: str,
    origin: Origin,
    where: str,
    prefix: str = "",
) -> None:
    spec, faults = spec_of(head, name=name, origin=origin, where=where)
    place = where or f"agent {name}"
    agents.faults.extend(f"{place}:{fault}" for fault in head.faults)
    if isinstance(spec, UnusableSpec):
        # Of a head that could not be read at all nothing else is known.
        if head.values or not head.faults:
            agents.faults.append(f"{place}: {spec.why}")
    else:
        if origin == "plugin":
            # Who wrote a plugin is not who says what may run here.
            values = (spec.mode, spec.hooks, spec.servers)
            keys = ("permissionMode", "hooks", "mcpServers")
            faults += [
                f"{k}: does not count in a plugin" for k, v in zip(keys, values, strict=True) if v
            ]
            spec = replace(spec, mode=None, hooks={}, servers={})
        agents.specs.append(replace(spec, name=f"{prefix}{spec.name}"))
        agents.faults.extend(f"{place}: {fault}" for fault in faults)
