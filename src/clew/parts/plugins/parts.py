"""The contents of a plugin's folder: the folders and files from which its parts are loaded.

None of them is loaded or run here. No path may lead outside the plugin's folder.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.parts.plugins.manifest import Manifest, parse_manifest, with_root
from clew.system.files import find_markdown, is_file, is_folder, is_there, open_only_files

CODE_DISABLED = "not trusted: code disabled"

MANIFEST = Path(".claude-plugin", "plugin.json")
MAX_BYTES = 1024 * 1024
NOTHING = "not a plugin: no manifest, commands, skills, agents, output styles, hooks or servers"


class Parts(Struct, kw_only=True):
    """The parts of a plugin: the paths of its text files, its hooks, and its servers by name."""

    root: Path
    manifest: Manifest
    command_folders: list[Path] = []
    command_files: list[Path] = []
    skill_folders: list[Path] = []
    single_skills: list[Path] = []
    agents: list[Path] = []
    styles: list[Path] = []
    hooks: list[Json] = []
    mcp_servers: dict[str, Any] = {}
    lsp_servers: dict[str, Any] = {}
    faults: list[str] = []
    # The variables that the plugin's programs get.
    variables: dict[str, str] = {}

    @property
    def runs(self) -> bool:
        """True if the plugin contains hooks or servers, which start programs."""
        return bool(self.hooks or self.mcp_servers or self.lsp_servers)


def read_manifest(root: Path, declared: Json | None = None, *, called: str = "") -> Manifest | str:
    """Return a plugin's manifest, or an error message.

    If the plugin has no manifest, its name is `called`, or else the name of its folder. `declared`
    contains the fields of its marketplace entry; the plugin's own manifest takes precedence over
    them.
    """
    path = root / MANIFEST
    if not is_file(path):
        result = parse_manifest({"name": called or root.name})
    else:
        data = decode_file(path)
        result = data if isinstance(data, str) else parse_manifest(data)
    if isinstance(result, str):
        return f"{path}: {result}"
    if declared:
        result = Manifest(
            name=result.name,
            version=result.version,
            description=result.description,
            author=result.author,
            declared={**declared, **result.declared},
        )
    return result


def decode_file(path: Path) -> Any:
    """Return the decoded JSON of a file, or an error message as a string."""
    try:
        with open(path, "rb", opener=open_only_files) as file:
            return json.loads(file.read(MAX_BYTES).decode("utf-8-sig"))
    except OSError as error:
        return error.strerror or type(error).__name__
    except (ValueError, RecursionError) as error:
        return f"invalid JSON: {error}"


def parts_of(root: Path, plugin_manifest: Manifest, data: Path) -> Parts:
    """Return all parts of a plugin: those in the usual places, and those that its manifest names.

    `data` is the folder where the plugin may store data between sessions.
    """
    parts = Parts(root=root, manifest=plugin_manifest)
    parts.variables = {"CLAUDE_PLUGIN_ROOT": str(root), "CLAUDE_PLUGIN_DATA": str(data)}
    look = _Looking(parts, parts.variables)
    for path in look.paths("commands", "commands"):
        (parts.command_files if is_file(path) else parts.command_folders).append(path)
    for path in look.paths("skills", "skills"):
        is_one = is_file(path / "SKILL.md")
        (parts.single_skills if is_one else parts.skill_folders).append(path)
    if is_file(root / "SKILL.md"):
        parts.single_skills.append(root)
    parts.agents += look.paths("agents", "agents")
    parts.styles += look.paths("outputStyles", "output-styles")
    parts.hooks += [
        section if isinstance(section := entry.get("hooks"), dict) else entry
        for entry in look.objects("hooks", "hooks/hooks.json")
    ]
    for kind, file, into in (
        ("mcpServers", ".mcp.json", parts.mcp_servers),
        ("lspServers", ".lsp.json", parts.lsp_servers),
    ):
        for entry in look.objects(kind, file):
            section = entry.get(kind)
            servers = section if isinstance(section, dict) else entry
            into.update({name: with_variables(servers[name], parts.variables) for name in servers})
    return parts


def with_variables(server: Any, variables: dict[str, str]) -> Any:
    """Return a server's configuration with the plugin's variables added to its environment."""
    if not isinstance(server, dict) or "command" not in server:
        return server
    own = server.get("env", {})
    return server | {"env": variables | own} if isinstance(own, dict) else server


def is_nothing(parts: Parts) -> bool:
    """Return whether a folder contains nothing that makes it a plugin."""
    is_some = is_file(parts.root / MANIFEST) or parts.runs or parts.faults
    return not is_some and not describe_parts(parts)


class _Looking:
    def __init__(self, parts: Parts, places: dict[str, str]) -> None:
        self._parts = parts
        self._places = places
        self._root = os.path.realpath(parts.root)

    def _fault(self, what: str) -> None:
        self._parts.faults.append(f"plugin {self._parts.manifest.name}: {what}")

    def paths(self, kind: str, usual: str) -> list[Path]:
        """Return the usual folder, if it exists, and the paths that the manifest names."""
        paths = [self._parts.root / usual] if is_folder(self._parts.root / usual) else []
        for value in self._said(kind):
            path = self._inside(kind, value)
            if path is not None and path not in paths:
                paths.append(path)
        return paths

    def objects(self, kind: str, usual: str) -> list[Json]:
        """Return the JSON objects in the usual file, in named files, and in the manifest itself."""
        files = [self._parts.root / usual] if is_file(self._parts.root / usual) else []
        objects: list[Json] = []
        for value in self._said(kind):
            if isinstance(value, dict):
                objects.append(with_root(value, self._places))
            elif (path := self._inside(kind, value)) is not None and path not in files:
                files.append(path)
        for path in files:
            data = decode_file(path)
            if isinstance(data, dict):
                objects.append(with_root(data, self._places))
            else:
                self._fault(f"{path}: {data if isinstance(data, str) else 'expected an object'}")
        return objects

    def _said(self, kind: str) -> Iterator[Any]:
        value = self._parts.manifest.declared.get(kind)
        if isinstance(value, list):
            yield from value
        elif isinstance(value, dict) and kind == "commands":
            for item in value.values():
                yield item.get("source") if isinstance(item, dict) else item
        elif value is not None:
            yield value

    def _inside(self, kind: str, value: Any) -> Path | None:
        if not isinstance(value, str) or not value:
            self._fault(f"{kind}: expected a path")
            return None
        path = os.path.realpath(self._parts.root / value)
        if path != self._root and not path.startswith(f"{self._root}{os.sep}"):
            self._fault(f"{kind}: {value} is outside the plugin")
            return None
        if not is_there(path):
            self._fault(f"{kind}: {value} not found")
            return None
        return Path(path)


def describe_parts(parts: Parts) -> list[str]:
    """Describe a plugin's parts, in one line for each kind. Programs are listed in full."""
    words = {
        "commands": [*files_in(parts.command_folders), *(p.stem for p in parts.command_files)],
        "skills": [
            *(p.parent.name for f in parts.skill_folders for p in sorted(f.glob("*/SKILL.md"))),
            *(p.name for p in parts.single_skills),
        ],
        "agents": files_in(parts.agents),
        "output styles": files_in(parts.styles),
    }
    lines = [f"{kind}: {', '.join(names)}" for kind, names in words.items() if names]
    for hooks in parts.hooks:
        for event, groups in hooks.items():
            lines += [f"{event} hook: {line}" for line in commands_of(groups)]
    for name, server in parts.mcp_servers.items():
        lines.append(f"MCP server {name}: {started_by(server)}")
    for name, server in parts.lsp_servers.items():
        lines.append(f"language server {name}: {started_by(server)}")
    return lines


def files_in(paths: list[Path]) -> list[str]:
    names: list[str] = []
    for path in paths:
        below = (names[-1] for _, names in find_markdown(path, []))
        names += [path.stem] if is_file(path) else below
    return names


def commands_of(groups: Any) -> Iterator[str]:
    for group in groups if isinstance(groups, list) else []:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        for handler in handlers if isinstance(handlers, list) else []:
            fields = handler if isinstance(handler, dict) else {}
            yield str(
                fields.get("command")
                or fields.get("url")
                or fields.get("prompt")
                or fields.get("tool")
            )


def started_by(server: Any) -> str:
    fields = server if isinstance(server, dict) else {}
    args = fields.get("args")
    words = [fields.get("command") or fields.get("url"), *(args if isinstance(args, list) else [])]
    return " ".join(str(word) for word in words)
