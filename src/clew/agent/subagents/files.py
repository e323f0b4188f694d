"""Read agent definitions from dedicated folders, one Markdown file per agent.

Files that are unreadable or invalid are reported and skipped.
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
    """The agents defined in some locations, and the problems in their files."""

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
    """Read the agents defined in a folder and its subfolders, or in a single file.

    `refuses` returns why a file may not be sent to the model; the caller notifies the user.
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
            agents.faults.append(f"{path}: larger than {MAX_BYTES // 1024} KiB, so it was ignored")
            continue
        head = frontmatter.read(text)
        if head.values or head.faults:
            # A file without front matter is a note, not an agent.
            _take(agents, head, path.stem, origin, str(path), prefix)
    return agents


def find_agent_folders(places: Places, sources: Collection[str]) -> list[tuple[Origin, Path]]:
    """Return the folders with agent definitions; `sources` are the kinds of settings in use."""
    agent_sources: list[tuple[Origin, Path]] = [
        ("managed", folder / ".claude" / FOLDER) for folder in places.managed_folders
    ]
    if "user" in sources:
        agent_sources.append(("user", places.config_home / FOLDER))
    if "project" in sources:
        agent_sources.append(("project", places.root / ".claude" / FOLDER))
    return agent_sources


def read_agent_object(definitions: Mapping[str, Any], origin: Origin) -> DefinedAgents:
    """Read the agents defined in an object from a host or the command line."""
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
        # If the front matter could not be parsed at all, its own faults are the only ones worth
        # reporting.
        if head.values or not head.faults:
            agents.faults.append(f"{place}: {spec.why}")
    else:
        if origin == "plugin":
            # A plugin's author must not decide what is allowed to run here.
            values = (spec.mode, spec.hooks, spec.servers)
            keys = ("permissionMode", "hooks", "mcpServers")
            faults += [
                f"{k}: ignored in plugin agents" for k, v in zip(keys, values, strict=True) if v
            ]
            spec = replace(spec, mode=None, hooks={}, servers={})
        agents.specs.append(replace(spec, name=f"{prefix}{spec.name}"))
        agents.faults.extend(f"{place}: {fault}" for fault in faults)
