"""`clew mcp`: add, list, show and remove MCP servers, approve a project's servers, log in and out.

Owns the command line and the writing of entries, which is atomic. Secrets in an entry are never
displayed.
"""

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.errors import CommandLineError, UserError
from clew.parts.mcp import scopes
from clew.parts.mcp.config import (
    SERVER_NAME,
    HttpServer,
    ServerConfig,
    StdioServer,
    find_variables,
    read_server,
)
from clew.parts.mcp.scopes import (
    ServerEntry,
    ServerListing,
    find_configured_servers,
    find_project_files,
    read_entries,
    read_project,
)
from clew.system.command_groups import Group, show
from clew.system.config.json_text import remove_value, set_value
from clew.system.config.layers import find_value, merge
from clew.system.config.load import load_settings, read, select_trusted, trusts
from clew.system.config.mask import mask
from clew.system.config.paths import Places, find_places
from clew.system.config.settings import read_object
from clew.system.files import hold_lock, is_there, replace

SCOPES = ("local", "user", "project")


def main(argv: list[str]) -> int:
    places = find_places(os.environ, Path.cwd())
    return arguments().carry_out(argv, lambda options: options.run(options, places))


def arguments() -> Group:
    parser = Group(prog="clew mcp", description="Manage Model Context Protocol (MCP) servers.")
    words = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")

    def word(name: str, run: Any, line: str) -> argparse.ArgumentParser:
        subparser = words.add_parser(name, help=line, description=line)
        subparser.set_defaults(run=run)
        return subparser

    add = word("add", run_add, "Add a server: a URL, or a program after --")
    add.usage = (
        "clew mcp add [OPTION ...] NAME URL\n"
        "       clew mcp add [OPTION ...] NAME -- PROGRAM [ARG ...]"
    )
    add.add_argument(
        "name", metavar="NAME", help="Server name; its tools are called mcp__NAME__..."
    )
    add.add_argument(
        "target", metavar="URL or PROGRAM", help="URL of the server, or program to start"
    )
    add.add_argument("args", nargs="*", default=[], metavar="ARG", help="Argument for the program")
    add.add_argument("-t", "--transport", choices=("stdio", "http", "sse"))
    add.add_argument("-e", "--env", action="append", default=[], metavar="NAME=VALUE")
    add.add_argument("-H", "--header", action="append", default=[], metavar="NAME: VALUE")
    add.add_argument("--client-id", help="OAuth client ID, if registered in advance")
    add.add_argument(
        "--callback-port", type=int, help="OAuth callback port, if registered in advance"
    )
    scoped(add)
    subparser = word("add-json", run_add_json, "Add a server from a JSON entry")
    subparser.add_argument("name")
    subparser.add_argument("json")
    scoped(subparser)
    subparser = word("list", run_list, "List all servers with their source and status")
    subparser.add_argument(
        "--no-connect", action="store_true", help="Do not start or connect to servers"
    )
    subparser = word("get", run_get, "Show a server's entry, status and features")
    subparser.add_argument("name")
    subparser.add_argument(
        "--no-connect", action="store_true", help="Do not start or connect to servers"
    )
    subparser = word("remove", run_remove, "Remove a server")
    subparser.add_argument("name")
    subparser.add_argument(
        "-s",
        "--scope",
        choices=SCOPES,
        help="Scope to remove it from (default: the one that contains it)",
    )
    for name, run, line in (
        ("approve", run_approve, "Approve servers that the project defines"),
        ("deny", run_deny, "Reject servers that the project defines"),
    ):
        subparser = word(name, run, line)
        subparser.add_argument("names", nargs="+", metavar="NAME")
    word(
        "reset-project-choices",
        run_reset,
        "Forget approvals and rejections of this project's servers",
    )
    words.add_parser("serve", help="Offer clew's tools to another agent, as an MCP server")
    subparser = word("login", run_login, "Log in to a server that requires it")
    subparser.add_argument("name")
    subparser.add_argument("--no-browser", action="store_true", help="Only print the login URL")
    subparser = word("logout", run_logout, "Delete the login for a server")
    subparser.add_argument("name")
    return parser


def scoped(word: argparse.ArgumentParser) -> None:
    word.add_argument(
        "-s",
        "--scope",
        choices=SCOPES,
        default="local",
        help="local: you, in this project; user: you, everywhere; project: all users, in .mcp.json",
    )


# -- entries


def run_add(options: argparse.Namespace, places: Places) -> int:
    return added(options.name, entry_of(options), options.scope, places)


def run_add_json(options: argparse.Namespace, places: Places) -> int:
    try:
        entry = json.loads(options.json)
    except (ValueError, RecursionError) as error:
        raise CommandLineError(f"add-json: {error}") from None
    return added(options.name, entry, options.scope, places)


def entry_of(options: argparse.Namespace) -> Json:
    is_url = options.target.startswith(("http://", "https://"))
    kind = options.transport or ("http" if is_url else "stdio")
    if kind == "stdio":
        if options.header:
            raise CommandLineError("--header requires a URL; use --env for a program")
        entry: Json = {"type": "stdio", "command": options.target, "args": options.args}
        env = dict(pair(text, "=", "--env") for text in options.env)
        return entry | {"env": env} if env else entry
    if options.env or options.args:
        raise CommandLineError("--env and arguments require a program; use --header for a URL")
    entry = {"type": kind, "url": options.target}
    headers = dict(pair(text, ":", "--header") for text in options.header)
    oauth = {"clientId": options.client_id, "callbackPort": options.callback_port}
    oauth = {name: value for name, value in oauth.items() if value is not None}
    return entry | ({"headers": headers} if headers else {}) | ({"oauth": oauth} if oauth else {})


def pair(text: str, separator: str, flag: str) -> tuple[str, str]:
    name, mark, value = text.partition(separator)
    if not mark or not name.strip():
        raise CommandLineError(f"{flag} {text}: expected NAME{separator}VALUE")
    return name.strip(), value.strip()


def added(name: str, entry: Any, scope: str, places: Places) -> int:
    if not SERVER_NAME.fullmatch(name):
        raise CommandLineError(
            f'invalid server name "{name}": use letters, digits, spaces and _ . -'
        )
    # A session substitutes variables later, so they may be undefined here.
    filled = dict.fromkeys(find_variables(entry), "x")
    checked = read_server(name, entry, scope="user", environ=filled)
    if isinstance(checked, str):
        raise CommandLineError(f"{name}: {checked}")
    path = target(scope, places)
    if scope == "local":
        scopes.add_server(places, name, entry)
    else:
        with hold_lock(places.config_home):
            replace(path, set_value(text_of(path, scope, places), ("mcpServers", name), entry))
    show(f"{path}: added {name} ({checked.kind})")
    if scope == "project":
        scopes.approve(places, {name: entry})
        if not trusts(places):
            show("to start it, trust this folder: clew config trust")
    return 0


def target(scope: str, places: Places) -> Path:
    if scope == "user":
        return places.user_settings
    if scope == "local":
        return scopes.path_of(places)
    near = [path for path in find_project_files(places) if is_there(path)]
    return near[0] if near else places.root / ".mcp.json"


def text_of(path: Path, scope: str, places: Places) -> str:
    """Return a file's text; empty if the file does not exist.

    Raise UserError if it is invalid, so that it is not overwritten.
    """
    if not is_there(path):
        return ""
    layer = read("user" if scope == "user" else "project", path, str(places.root))
    if layer.unreadable is not None:
        raise UserError(layer.unreadable)
    return layer.text


def run_remove(options: argparse.Namespace, places: Places) -> int:
    """Remove a server. The scope is required if several scopes contain the server."""
    name = options.name
    holding_scopes = [scope for scope in SCOPES if scope_holds(scope, name, places)]
    if options.scope is not None:
        holding_scopes = [scope for scope in holding_scopes if scope == options.scope]
    if not holding_scopes:
        others = {entry.source for entry in entries(places) if entry.name == name}
        hint = f"; it is defined in {', '.join(sorted(others))}" if others else ""
        where = options.scope or "local, user or project"
        raise UserError(f'server "{name}" not found in scope {where}{hint}')
    if len(holding_scopes) > 1:
        raise UserError(
            f"{name} is in several scopes ({', '.join(holding_scopes)}); choose one with --scope"
        )
    path = target(holding_scopes[0], places)
    if holding_scopes[0] == "local":
        scopes.remove_server(places, name)
    else:
        with hold_lock(places.config_home):
            replace(
                path, remove_value(text_of(path, holding_scopes[0], places), ("mcpServers", name))
            )
    show(f"{path}: removed {name}")
    return 0


def scope_holds(scope: str, name: str, places: Places) -> bool:
    if scope == "local":
        return name in scopes.read_servers(places)
    path = target(scope, places)
    if not is_there(path):
        return False
    layer = read("user", path, str(places.root))
    return find_value(layer.data, ("mcpServers", name))[0]


def entries(places: Places) -> list[ServerEntry]:
    layers, settings = standing(places)
    return read_entries(places, layers, settings, os.environ, [])


def standing(places: Places) -> tuple[list[Any], Json]:
    layers, _ = select_trusted(places, load_settings(places).layers)
    return layers, merge(layers)


def found(places: Places) -> ServerListing:
    layers, settings = standing(places)
    environ: Mapping[str, str] = {**os.environ, **read_object(settings, "env")}
    return find_configured_servers(places, layers, settings, environ)


# -- servers of a project


def run_approve(options: argparse.Namespace, places: Places) -> int:
    known_servers = projects(places)
    missing = [name for name in options.names if name not in known_servers]
    if missing:
        names = ", ".join(known_servers) or "none"
        raise UserError(f'server "{missing[0]}" not found in .mcp.json (expected one of: {names})')
    scopes.approve(places, {name: known_servers[name] for name in options.names})
    for name in options.names:
        show(f"approved: {name} {reach_of(known_servers[name])}")
    if not trusts(places):
        show("to start them, trust this folder: clew config trust")
    return 0


def run_deny(options: argparse.Namespace, places: Places) -> int:
    scopes.deny(places, options.names)
    show(f"rejected: {', '.join(options.names)}")
    return 0


def run_reset(_options: argparse.Namespace, places: Places) -> int:
    scopes.forget(places)
    show("deleted all approvals and rejections of this project's servers")
    return 0


def projects(places: Places) -> Json:
    """Return all servers from `.mcp.json` files. The nearest file takes precedence."""
    servers: Json = {}
    for path in reversed(find_project_files(places)):
        servers |= read_project(path, [])
    return servers


def reach_of(entry: Any) -> str:
    """Return a server's program or URL in one line, without secrets."""
    if not isinstance(entry, dict):
        return ""
    target = entry.get("url") or " ".join(
        str(word) for word in (entry.get("command", ""), *(entry.get("args") or ()))
    )
    return mask(f"({target})")


# -- listings


def run_list(options: argparse.Namespace, places: Places) -> int:
    all_found = found(places)
    for fault in all_found.faults:
        sys.stderr.write(f"{fault}\n")
    states: Mapping[str, str] = {}
    if not options.no_connect and all_found.servers:
        from clew.parts.mcp.connect import look

        seen = asyncio.run(look(all_found.servers, places))
        states = {name: status.line for name, status in seen.items()}
    for server in all_found.servers:
        state = states.get(server.name, "")
        show(f"{server.name}: {shown(server)} [{server.scope}]{' ' + state if state else ''}")
    for entry in all_found.held:
        show(f"{entry.name}: {reach_of(entry.value)} [{entry.scope}] {entry.held}")
    if not all_found.servers and not all_found.held:
        show("no MCP servers; add one with: clew mcp add NAME URL, or clew mcp add NAME -- PROGRAM")
    return 0


def shown(server: ServerConfig) -> str:
    match server.reach:
        case StdioServer():
            return mask(shlex.join([server.reach.command, *server.reach.args]))
        case HttpServer():
            return mask(f"{server.reach.url} ({server.kind})")
        case _:
            return "in the host program"


def run_get(options: argparse.Namespace, places: Places) -> int:
    all_found = found(places)
    server = one(all_found, options.name)
    show(f"{server.name}: {shown(server)}")
    show(f"  source: {server.source} ({server.scope})")
    show(f"  {mask(json.dumps(hidden(server.raw), ensure_ascii=False))}")
    if options.no_connect:
        return 0
    from clew.parts.mcp.connect import look

    seen = asyncio.run(look([server], places))[server.name]
    show(f"  {seen.line}")
    for line in seen.offers:
        show(f"  {line}")
    return 0 if seen.is_well else 1


def hidden(entry: Json) -> Json:
    """Return an entry with the values of environment variables and headers masked."""
    return {
        name: dict.fromkeys(value, "***")
        if name in ("env", "headers") and isinstance(value, dict)
        else value
        for name, value in entry.items()
    }


def one(all_found: ServerListing, name: str) -> ServerConfig:
    for server in all_found.servers:
        if server.name == name:
            return server
    for entry in all_found.held:
        if entry.name == name:
            raise UserError(f"{name} ({entry.source}): {entry.held}")
    names = ", ".join(server.name for server in all_found.servers) or "none"
    raise UserError(f'unknown server "{name}" (expected one of: {names})')


# -- logins


def run_login(options: argparse.Namespace, places: Places) -> int:
    from clew.parts.mcp.connect import log_in

    server = one(found(places), options.name)
    if not isinstance(server.reach, HttpServer):
        raise UserError(f"{server.name} is not a remote server, so it has no login")
    place = asyncio.run(log_in(server.reach, places, browser=not options.no_browser, show=told))
    show(f"logged in to {server.name}; the login is saved in {place}")
    return 0


def told(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_logout(options: argparse.Namespace, places: Places) -> int:
    from clew.parts.mcp.credentials import TokenStore

    server = one(found(places), options.name)
    if not isinstance(server.reach, HttpServer):
        raise UserError(f"{server.name} is not a remote server, so it has no login")
    was = TokenStore.usual(places).forget(server.reach.url)
    show(f"logged out of {server.name}" if was else f"not logged in to {server.name}")
    return 0
