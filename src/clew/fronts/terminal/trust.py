"""Describe what a project's files would run or allow if the user trusted the folder.

The lines are part of the question. They name commands, servers, variables and rules, because a user
cannot judge a file by its name. Values that look like secrets are masked.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clew.agent.hooks.events import label_event
from clew.agent.hooks.handlers import read_hooks
from clew.agent.subagents.files import find_agent_folders, read_agent_folder
from clew.commands.mcp import reach_of
from clew.core.messages.text import format_count
from clew.fronts.render.rows import join_lines
from clew.session.session import Session
from clew.system.config.json_text import join_path
from clew.system.config.layers import NOT_STRICTER, NOT_TRUSTED, Inert, find_value
from clew.system.config.mask import mask, mask_member

# Longer entries are cut, and further entries of a file are only counted, so that the list stays
# readable.
LONGEST_CHARS = 300
MOST_ENTRIES = 40


def list_pending(session: Session) -> list[str]:
    """Return the lines about settings and servers that wait for trust; empty if there are none.

    If there are such lines, add lines about what trust would enable in the project's agents, skills
    and git settings. These alone are no reason to ask, because clew asks about them when they are
    used.
    """
    standing = session.rules.standing
    root = standing.places.root
    groups: dict[str, list[str]] = {}
    for inert in standing.inert:
        if inert.why in (NOT_TRUSTED, NOT_STRICTER):
            entries = groups.setdefault(below(inert.layer.file, root), [])
            entries += describe_setting(inert)
    for server in session.parts.mcp.found.held:
        entry = describe_server(server.name, server.value)
        groups.setdefault(below(server.source, root), []).append(entry)
    if not groups:
        return []
    for file, defined in list_defined(session):
        groups.setdefault(below(file, root), []).extend(defined)
    if programs := standing.context.git_programs:
        groups["git configuration"] = [join_lines(name) for name in programs]
    return [line for file, entries in groups.items() for line in render_group(file, entries)]


def render_group(file: str, entries: Sequence[str]) -> Iterator[str]:
    yield join_lines(file)
    for entry in entries[:MOST_ENTRIES]:
        cut = len(entry) - LONGEST_CHARS
        rest = f" … ({format_count(cut, 'more character')})" if cut > 0 else ""
        yield f"  {entry[:LONGEST_CHARS]}{rest}"
    if len(entries) > MOST_ENTRIES:
        yield f"  … {len(entries) - MOST_ENTRIES} more"


def describe_setting(inert: Inert) -> Iterator[str]:
    """Yield a line for each command, variable, server or rule in a setting."""
    value = find_value(inert.layer.data, inert.path)[1]
    match inert.path:
        case ("hooks",):
            yield from describe_hooks(value)
        case ("env",) if isinstance(value, dict):
            for name, text in value.items():
                yield join_lines(f"env {name}={mask_member(name, str(text))}")
        case ("mcpServers",) if isinstance(value, dict):
            for name, entry in value.items():
                yield describe_server(name, entry)
        case ("permissions", "allow", *_):
            rules = value if isinstance(value, list) else [value]
            yield join_lines(f"allow {', '.join(map(str, rules))}")
        case _:
            if isinstance(value, dict) and value.get("type") == "command":
                value = value.get("command")
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield join_lines(f"{join_path(inert.path)}: {mask(text)}")


def describe_hooks(value: Any) -> Iterator[str]:
    for hook in read_hooks(value).hooks:
        event = label_event(hook.event.name, hook.matcher or None)
        yield join_lines(f"hook {event}: {mask(hook.handler.title)}")


def describe_server(name: str, entry: Any) -> str:
    target = reach_of(entry).removeprefix("(").removesuffix(")")
    return join_lines(f"MCP server {name}: {target}")


def list_defined(session: Session) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of the project's agents and skills, with the entries that trust enables."""
    standing = session.rules.standing
    for origin, folder in find_agent_folders(standing.places, standing.sources):
        for spec in read_agent_folder(folder, origin).specs if origin == "project" else ():
            entries = list(describe_hooks(spec.hooks))
            entries += [describe_server(name, entry) for name, entry in spec.servers.items()]
            if entries:
                yield spec.where, entries
    for skill in session.parts.skills.all():
        if skill.origin == "project":
            entries = list(describe_hooks(skill.hooks))
            if skill.allowed_tools:
                entries.append(join_lines(f"allow {', '.join(skill.allowed_tools)}"))
            if entries:
                yield skill.file, entries


def below(file: str | None, root: Path) -> str:
    """Return a file's path, relative to the project if the file is inside the project."""
    path = Path(file or "")
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
