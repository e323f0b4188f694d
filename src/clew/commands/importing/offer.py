"""The result of reading another agent's configuration. Does no I/O.

Each reader converts the decoded files of one program to an `Offer`. Nothing is dropped silently:
anything without a counterpart in clew is in `left_out`.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json, object_of

BEHAVIORS = ("allow", "ask", "deny")


class ImportedRule(Struct, frozen=True, kw_only=True):
    """Instructions to write as a rule or, if `description` is not empty, as a skill."""

    name: str
    text: str
    source: str
    paths: tuple[str, ...] = ()
    description: str = ""


class LeftOut(Struct, frozen=True, kw_only=True):
    """A value that can't be imported, and the reason."""

    what: str
    why: str


class Offer:
    """The values in one file of another program that clew can import, and those it can't."""

    def __init__(self, program: str, file: str) -> None:
        self.program = program
        self.file = file
        self.servers: dict[str, Json] = {}
        self.model = ""
        self.permissions: dict[str, list[str]] = {name: [] for name in BEHAVIORS}
        self.folders: list[str] = []
        self.rules: list[ImportedRule] = []
        self.left_out: list[LeftOut] = []

    def leave(self, what: str, why: str) -> None:
        self.left_out.append(LeftOut(what=what, why=why))

    def permit(self, behavior: str, rule: str) -> None:
        if rule not in self.permissions[behavior]:
            self.permissions[behavior].append(rule)

    def leave_rest(self, data: Mapping[str, Any], known: Iterable[str]) -> None:
        """Report the keys that the reader does not support."""
        rest = sorted(set(data) - set(known))
        if rest:
            self.leave(", ".join(rest), "clew has no equivalent")


# MCP servers.

VARIABLES = {
    "opencode": re.compile(r"\{env:([A-Za-z_]\w*)\}"),
    "gemini": re.compile(r"\$\{?([A-Za-z_]\w*)\}?"),
}
USUAL = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")
UNKNOWN = re.compile(r"\$\{(?:input|file|workspaceFolder|userHome)[^}]*\}|\{file:[^}]*\}")
MEMBERS = {
    "command", "args", "env", "environment", "cwd", "url", "httpUrl", "serverUrl", "headers",
    "http_headers", "env_http_headers", "bearer_token_env_var", "type", "timeout", "description",
    "enabled", "disabled",
}  # fmt: skip


def take_servers(offer: Offer, servers: Any) -> None:
    """Add the MCP servers of a program's table."""
    for name, entry in servers.items() if isinstance(servers, dict) else ():
        if not isinstance(entry, dict):
            offer.leave(f"MCP server {name}", "the entry must be an object")
        elif entry.get("enabled") is False or entry.get("disabled") is True:
            offer.leave(f"MCP server {name}", "disabled")
        else:
            take_server(offer, str(name), with_variables(entry, offer.program))


def take_server(offer: Offer, name: str, entry: Json) -> None:
    if match := UNKNOWN.search(str(entry)):
        offer.leave(f"MCP server {name}", f"uses {match[0]}, which clew can't expand")
        return
    command, url = entry.get("command"), find_url(entry)
    if isinstance(command, list):
        command, *args = command or [""]
    else:
        args = entry.get("args") or []
    if command:
        server = {"command": command, "args": args}
        environment = entry.get("env") or entry.get("environment")
        server |= {"env": environment} if environment else {}
        server |= {"cwd": entry["cwd"]} if entry.get("cwd") else {}
    elif url:
        is_sse = entry.get("type") == "sse" or (offer.program == "gemini" and "url" in entry)
        server = {"type": "sse" if is_sse and entry.get("type") != "http" else "http", "url": url}
        headers = find_headers(entry)
        server |= {"headers": headers} if headers else {}
    else:
        offer.leave(f"MCP server {name}", "has neither a command nor a URL")
        return
    offer.servers[name] = server
    rest = sorted(set(entry) - (MEMBERS - {"timeout"}))
    if rest:
        offer.leave(f"MCP server {name}: {', '.join(rest)}", "clew has no equivalent")


def find_url(entry: Json) -> Any:
    return entry.get("httpUrl") or entry.get("serverUrl") or entry.get("url")


def find_headers(entry: Json) -> Json:
    headers = object_of(entry.get("headers")) | object_of(entry.get("http_headers"))
    from_variables = object_of(entry.get("env_http_headers"))
    headers |= {name: f"${{{variable}}}" for name, variable in from_variables.items()}
    if token := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return headers


def with_variables(value: Any, program: str) -> Any:
    """Return a value with the program's variables in clew's spelling, `${NAME}`."""
    if isinstance(value, dict):
        return {name: with_variables(item, program) for name, item in value.items()}
    if isinstance(value, list):
        return [with_variables(item, program) for item in value]
    if not isinstance(value, str):
        return value
    # codex does not expand variables in values; it has separate keys for them.
    return value if program == "codex" else VARIABLES.get(program, USUAL).sub(r"${\1}", value)


# Permissions.


def shell_rule(words: Iterable[str]) -> str:
    """Return the rule for commands that begin with these words."""
    return f"Bash({' '.join(words)}:*)"


def prefix_rules(pattern: list[Any]) -> list[str]:
    """Return the rules for a pattern, each word of which may be a list of alternatives."""
    choices = [word if isinstance(word, list) else [word] for word in pattern]
    return [shell_rule(words) for words in product(*choices)]
