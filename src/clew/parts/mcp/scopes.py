"""Find a session's MCP servers in arguments, settings, `.mcp.json` files and other tools' files.

Owns the order of the scopes, and the rule for which servers need approval. Files are only read,
except for the file with the user's choices. If several scopes define the same server, the scope
with the highest precedence wins. A project's server requires a trusted folder and the user's
approval.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.agent.options import SOURCES
from clew.core.json_object import Json
from clew.core.messages.errors import SettingsError, describe_error
from clew.parts.mcp.config import Scope, ServerConfig, read_server, why_forbidden
from clew.parts.mcp.content import as_json
from clew.system.config.layers import Layer, order_layers, select_usable
from clew.system.config.layers import Scope as Layered
from clew.system.config.load import trusts
from clew.system.config.own_files import read_own, write_own
from clew.system.config.paths import Places
from clew.system.config.settings import read_list, read_switch, value_in
from clew.system.files import hold_lock, is_there, read_content

# The user's choices about servers in a project: personal servers, and approvals of the project's
# own.


class ServerChoices(Struct, frozen=True, kw_only=True):
    """The user's choices for one project.

    `approved` maps the names of approved servers to digests of their entries; `denied` contains the
    names of rejected servers.
    """

    approved: dict[str, str] = {}
    denied: frozenset[str] = frozenset()

    def says(self, name: str, entry: Any) -> bool | None:
        """Return True if a server is approved, False if it is rejected, None if it is undecided."""
        if name in self.denied:
            return False
        return True if self.approved.get(name) == mark(entry) else None


def mark(entry: Any) -> str:
    """Return a digest of a server's entry.

    The digest is not truncated, because the author of a project could otherwise find two entries
    with the same truncated digest, and replace the approved one.
    """
    return sha256(as_json(entry).encode("utf-8", "surrogatepass")).hexdigest()


def path_of(places: Places) -> Path:
    return places.own / "mcp-projects.json"


def read_all(places: Places) -> Json:
    """Return the user's choices for all projects.

    If the file is invalid, no server is considered approved.
    """
    return read_own(path_of(places))


def choices_of_project(places: Places) -> Json:
    choices = read_all(places).get(str(places.root.resolve()))
    return choices if isinstance(choices, dict) else {}


def keep(places: Places, choices: Json) -> None:
    """Save the choices for this project, without changing those for other projects."""
    everything = read_all(places)
    if any(choices.values()):
        everything[str(places.root.resolve())] = {k: v for k, v in choices.items() if v}
    else:
        everything.pop(str(places.root.resolve()), None)
    write_own(path_of(places), everything)


def read(places: Places) -> ServerChoices:
    fields = choices_of_project(places)
    approved, denied = fields.get("approved"), fields.get("denied")
    return ServerChoices(
        approved=approved if isinstance(approved, dict) else {},
        denied=frozenset(n for n in denied if isinstance(n, str))
        if isinstance(denied, list)
        else frozenset(),
    )


def write(places: Places, choices: ServerChoices) -> None:
    fields = {"approved": choices.approved, "denied": sorted(choices.denied)}
    keep(places, choices_of_project(places) | fields)


def forget(places: Places) -> None:
    """Remove this project's approvals and rejections, but keep the user's personal servers."""
    with hold_lock(places.config_home):
        write(places, ServerChoices())


def read_servers(places: Places) -> Json:
    """Return the servers that the user added for this project only."""
    entries = choices_of_project(places).get("servers")
    return entries if isinstance(entries, dict) else {}


def add_server(places: Places, name: str, entry: Any) -> None:
    with hold_lock(places.config_home):
        keep(places, choices_of_project(places) | {"servers": read_servers(places) | {name: entry}})


def remove_server(places: Places, name: str) -> None:
    with hold_lock(places.config_home):
        left = {
            server_name: entry
            for server_name, entry in read_servers(places).items()
            if server_name != name
        }
        keep(places, choices_of_project(places) | {"servers": left})


def approve(places: Places, entries: Json) -> None:
    with hold_lock(places.config_home):
        before = read(places)
        write(
            places,
            ServerChoices(
                approved=before.approved | {name: mark(entry) for name, entry in entries.items()},
                denied=before.denied - set(entries),
            ),
        )


def deny(places: Places, names: Collection[str]) -> None:
    with hold_lock(places.config_home):
        before = read(places)
        approvals = {name: was for name, was in before.approved.items() if name not in names}
        write(places, ServerChoices(approved=approvals, denied=before.denied | set(names)))


OF_LAYER: dict[Layered, Scope] = {
    "managed": "cli", "cli": "cli", "session": "cli", "local": "local", "project": "project",
    "user": "user",
}  # fmt: skip


class ServerEntry(Struct, frozen=True, kw_only=True):
    """One definition of a server; `held` says why the server does not start, if it does not."""

    name: str
    scope: Scope
    source: str
    value: Any
    held: str = ""
    # Whether the entry comes from a program, for this session only; its variables are not expanded.
    is_literal: bool = False


class ServerListing(Struct, frozen=True, kw_only=True):
    """The servers of a session, in two groups: `servers` start, `held` do not start.

    `faults` are errors in the definitions.
    """

    servers: tuple[ServerConfig, ...] = ()
    held: tuple[ServerEntry, ...] = ()
    faults: tuple[str, ...] = ()


class _Project(Struct):
    mcp_servers: Any = msgspec.field(default=None, name="mcpServers")


class _Others(Struct):
    """The part of other tools' state file that lists MCP servers."""

    mcp_servers: Any = msgspec.field(default=None, name="mcpServers")
    projects: dict[str, _Project] = {}


def find_configured_servers(
    places: Places,
    layers: Sequence[Layer],
    settings: Json,
    environ: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    brought: Mapping[str, Json] | None = None,
    plugins: Sequence[ServerEntry] = (),
    strict: bool = False,
    sources: Collection[Layered] = SOURCES,
) -> ServerListing:
    """Return the servers of a session.

    `arguments` are the values of --mcp-config; `brought` are the servers from the host program. If
    `strict` is true, only servers from these two are used. Files of scopes that are not in
    `sources` are not read.
    """
    faults: list[str] = []
    entries = [
        ServerEntry(
            name=name, scope="cli", source="(from the host program)", value=value, is_literal=True
        )
        for name, value in (brought or {}).items()
    ]
    entries += from_arguments(arguments, places.cwd)
    if not strict:
        entries += [*read_entries(places, layers, settings, environ, faults, sources), *plugins]
    listing = settle_entries(entries, layers, settings, environ)
    return msgspec.structs.replace(listing, faults=(*faults, *listing.faults))


def settle_entries(
    entries: Iterable[ServerEntry],
    layers: Sequence[Layer],
    settings: Json,
    environ: Mapping[str, str],
) -> ServerListing:
    """Decide which of the defined servers start, and why others do not.

    `entries` are ordered by precedence, highest first; the first definition of a name is used.
    """
    faults: list[str] = []
    servers: dict[str, ServerConfig] = {}
    entries_by_name: dict[str, ServerEntry] = {}
    for entry in entries:
        if entry.name in servers or entry.name in entries_by_name:
            continue
        if entry.held:
            entries_by_name[entry.name] = entry
            continue
        read = read_server(
            entry.name,
            entry.value,
            scope=entry.scope,
            environ=None if entry.is_literal else environ,
            source=entry.source,
        )
        if isinstance(read, str):
            faults.append(f"{entry.source}: MCP server {entry.name}: {read}")
            continue
        why = why_forbidden(read, allow_list(layers), value_in(settings, "deniedMcpServers"))
        if why:
            entries_by_name[entry.name] = msgspec.structs.replace(entry, held=why)
        else:
            servers[entry.name] = read
    return ServerListing(
        servers=tuple(servers.values()), held=tuple(entries_by_name.values()), faults=tuple(faults)
    )


def allow_list(layers: Iterable[Layer]) -> Any:
    """Return the administrator's list of allowed servers, or None if there is no such list.

    If the value is not a list, return an empty list, which allows no server, because the intended
    restriction is unknown.
    """
    for layer in layers:
        if layer.scope == "managed" and "allowedMcpServers" in layer.data:
            allowed = layer.data["allowedMcpServers"]
            return allowed if isinstance(allowed, list) else []
    return None


def read_entries(
    places: Places,
    layers: Sequence[Layer],
    settings: Json,
    environ: Mapping[str, str],
    faults: list[str],
    sources: Collection[Layered] = SOURCES,
) -> list[ServerEntry]:
    """Return all definitions found in files, those with the highest precedence first."""
    entries: list[ServerEntry] = []
    for layer in order_layers(layers):
        mcp_servers = select_usable(layer).get("mcpServers")
        source = layer.file or f"({layer.scope})"
        entries += each(mcp_servers, OF_LAYER[layer.scope], source)
    entries += each(read_servers(places), "local", str(path_of(places)))
    if "project" in sources:
        entries += of_project(places, settings, faults)
    entries += of_others(places, environ)
    order = ("cli", "local", "project", "user")
    entries = [entry for entry in entries if entry.scope == "cli" or entry.scope in sources]
    return sorted(entries, key=lambda entry: order.index(entry.scope))


def each(section: Any, scope: Scope, source: str) -> Iterator[ServerEntry]:
    for name, value in (section if isinstance(section, dict) else {}).items():
        yield ServerEntry(name=name, scope=scope, source=source, value=value)


# -- the command line


def from_arguments(arguments: Sequence[str], cwd: Path) -> Iterator[ServerEntry]:
    """Yield the servers given with --mcp-config. Each value is JSON or the name of a JSON file."""
    for text in arguments:
        is_json = text.lstrip().startswith("{")
        source = "--mcp-config" if is_json else str(cwd / text)
        try:
            data = json.loads(text if is_json else (cwd / text).read_text("utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            raise SettingsError(f"--mcp-config: {describe_error(error)}") from None
        mcp_servers = data.get("mcpServers") if isinstance(data, dict) else None
        if not isinstance(mcp_servers, dict):
            raise SettingsError(f"{source}: expected an object with mcpServers")
        yield from each(mcp_servers, "cli", source)


# -- .mcp.json


def find_project_files(places: Places) -> list[Path]:
    """Return where `.mcp.json` files may be: in this folder and its parents, nearest first.

    The last folder is the repository's root or the home folder. If neither is a parent, only this
    folder counts.
    """
    files = []
    for folder in (places.cwd, *places.cwd.parents):
        files.append(folder / ".mcp.json")
        if folder == places.home or is_there(folder / ".git"):
            break
    else:
        files = [places.cwd / ".mcp.json"]
    return files


def read_project(path: Path, faults: list[str]) -> Json:
    """Return the servers defined in one file. If the file is invalid, add an error to `faults`."""
    try:
        data = json.loads(read_content(path).decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        faults.append(f"{path}: {error.strerror}")
        return {}
    except (ValueError, RecursionError) as error:
        faults.append(f"{path}: invalid JSON: {error}")
        return {}
    mcp_servers = data.get("mcpServers", {}) if isinstance(data, dict) else None
    if not isinstance(mcp_servers, dict):
        faults.append(f"{path}: expected an object with mcpServers")
        return {}
    return mcp_servers


def of_project(places: Places, settings: Json, faults: list[str]) -> Iterator[ServerEntry]:
    is_trusted, choices = trusts(places), read(places)
    for path in find_project_files(places):
        for name, value in read_project(path, faults).items():
            why = waiting(name, value, settings, choices, is_trusted=is_trusted)
            yield ServerEntry(name=name, scope="project", source=str(path), value=value, held=why)


def waiting(
    name: str, value: Any, settings: Json, choices: ServerChoices, *, is_trusted: bool
) -> str:
    """Return why a project's server does not start yet, or an empty string."""
    word = choices.says(name, value)
    if word is False or name in (read_list(settings, "disabledMcpjsonServers") or ()):
        return "rejected"
    if not is_trusted:
        return "the folder is not trusted (clew config trust)"
    by_settings = read_switch(settings, "enableAllProjectMcpServers")
    if word or by_settings or name in (read_list(settings, "enabledMcpjsonServers") or ()):
        return ""
    return f"needs approval (clew mcp approve {name})"


# -- files of other tools


def of_others(places: Places, environ: Mapping[str, str]) -> Iterator[ServerEntry]:
    """Yield the servers that the user added with another tool that uses the same config home."""
    clew_config_dir = environ.get("CLEW_CONFIG_DIR") or environ.get("CLAUDE_CONFIG_DIR")
    folder = Path(clew_config_dir) if clew_config_dir else places.home
    path = (places.cwd / folder) / ".claude.json"
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=_Others)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    own = settings.projects.get(str(places.cwd))
    if own is not None:
        yield from each(own.mcp_servers, "local", str(path))
    yield from each(settings.mcp_servers, "user", str(path))
