"""`clew import-config`: list what can be imported from other agents, and import it on request.

It reads files of other programs and never changes them. It never replaces an existing value, rule
or server, and reports everything that it can't import.
"""

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.commands.importing.offer import BEHAVIORS, ImportedRule, Offer
from clew.commands.importing.programs import (
    read_codex,
    read_codex_rules,
    read_cursor_permissions,
    read_gemini,
    read_opencode,
    read_rule,
    read_servers_only,
)
from clew.commands.mcp import entries
from clew.core.catalog.lookup import CATALOG
from clew.core.json_object import Json
from clew.parts.mcp.config import SERVER_NAME, find_variables, read_server
from clew.permissions.rules import RejectedRule, RuleSource, parse_rule
from clew.system.command_groups import Group, show
from clew.system.config.json_text import set_value
from clew.system.config.layers import find_value
from clew.system.config.load import assign, read
from clew.system.config.paths import Places, find_places
from clew.system.files import hold_lock, is_file, is_there, read_content, replace

MAX_BYTES = 1_000_000
PROGRAMS = ("codex", "gemini", "opencode", "cursor", "copilot", "windsurf")
SCOPES = ("user", "project")


class ForeignFile(Struct, frozen=True, kw_only=True):
    """A file, or a file pattern, of another program. `kind` selects the reader."""

    program: str
    scope: str
    pattern: str
    kind: str


def foreign(program: str, scope: str, kind: str, *patterns: str) -> list[ForeignFile]:
    return [ForeignFile(program=program, scope=scope, pattern=p, kind=kind) for p in patterns]


FILES: tuple[ForeignFile, ...] = (
    *foreign("codex", "user", "codex", ".codex/config.toml"),
    *foreign("codex", "user", "codex-rules", ".codex/rules/*.rules"),
    *foreign("codex", "user", "rule", ".codex/AGENTS.md"),
    *foreign("codex", "project", "codex", ".codex/config.toml"),
    *foreign("gemini", "user", "gemini", ".gemini/settings.json"),
    *foreign("gemini", "user", "rule", ".gemini/GEMINI.md"),
    *foreign("gemini", "project", "gemini", ".gemini/settings.json"),
    *foreign("gemini", "project", "rule", "GEMINI.md"),
    *foreign("opencode", "user", "opencode", ".config/opencode/opencode.json",
             ".config/opencode/opencode.jsonc"),
    *foreign("opencode", "user", "rule", ".config/opencode/AGENTS.md"),
    *foreign("opencode", "project", "opencode", "opencode.json", "opencode.jsonc",
             ".opencode/opencode.json", ".opencode/opencode.jsonc"),
    *foreign("cursor", "user", "servers", ".cursor/mcp.json"),
    *foreign("cursor", "user", "cursor", ".cursor/cli-config.json"),
    *foreign("cursor", "project", "servers", ".cursor/mcp.json"),
    *foreign("cursor", "project", "cursor", ".cursor/cli.json"),
    *foreign("cursor", "project", "rule", ".cursor/rules/**/*.mdc", ".cursorrules"),
    *foreign("copilot", "user", "servers", ".copilot/mcp-config.json"),
    *foreign("copilot", "user", "rule", ".copilot/copilot-instructions.md"),
    *foreign("copilot", "project", "servers", ".vscode/mcp.json"),
    *foreign("copilot", "project", "rule", ".github/copilot-instructions.md",
             ".github/instructions/**/*.instructions.md"),
    *foreign("windsurf", "user", "servers", ".codeium/windsurf/mcp_config.json"),
    *foreign("windsurf", "user", "rule", ".codeium/windsurf/memories/global_rules.md"),
    *foreign("windsurf", "project", "rule", ".windsurf/rules/**/*.md", ".windsurfrules"),
)  # fmt: skip
READERS: dict[str, Callable[[Offer, Json], None]] = {
    "codex": read_codex, "gemini": read_gemini, "opencode": read_opencode,
    "cursor": read_cursor_permissions, "servers": read_servers_only,
}  # fmt: skip
# The variables that relocate a program's folder.
MOVED = {".codex/": "CODEX_HOME", ".config/": "XDG_CONFIG_HOME"}
STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.S)


class ImportedValue(Struct, frozen=True, kw_only=True):
    """One line of the report. `to` is empty if nothing was written."""

    program: str
    source: str
    what: str
    to: str = ""
    why_not: str = ""


def decode(path: Path, text: str) -> Any:
    """Decode a TOML file, or a JSON file that may contain comments."""
    if path.suffix == ".toml":
        return tomllib.loads(text)
    without = STRING_OR_COMMENT.sub(lambda found: found[1] or "", text)
    # Removing comments may leave a trailing comma.
    return msgspec.json.decode(STRING_OR_COMMENT.sub(lambda found: found[1] or "", without))


def place_pattern(row: ForeignFile, places: Places, environ: Mapping[str, str]) -> tuple[Path, str]:
    """Return the folder of a file or file pattern, and the name in this folder."""
    if row.scope == "project":
        return places.root, row.pattern
    for folder, variable in MOVED.items():
        if row.pattern.startswith(folder) and environ.get(variable):
            return Path(environ[variable]), row.pattern.removeprefix(folder)
    return places.home, row.pattern


def find_offers(
    places: Places, programs: Iterable[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, Offer]]:
    """Yield an offer for each file of these programs, with its scope."""
    for row in FILES:
        top, pattern = place_pattern(row, places, environ)
        if row.program not in programs or (row.scope == "project" and top == places.home):
            continue
        for path in sorted(top.glob(pattern)):
            offer = Offer(row.program, str(path))
            try:
                if row.scope == "project" and not path.resolve().is_relative_to(top.resolve()):
                    raise ValueError("it links to a file outside the project")
                text = read_content(path, MAX_BYTES).decode("utf-8")
                if row.kind == "rule":
                    read_rule(offer, name_rule(row.program, path), text)
                elif row.kind == "codex-rules":
                    read_codex_rules(offer, text)
                else:
                    data = decode(path, text)
                    if not isinstance(data, dict):
                        raise ValueError("expected a JSON object")
                    READERS[row.kind](offer, data)
            except (OSError, ValueError, RecursionError) as error:
                offer.leave("the file", f"can't be read: {error}")
            yield row.scope, offer


def name_rule(program: str, path: Path) -> str:
    stem = path.name.removesuffix(".md").removesuffix(".mdc").removesuffix(".instructions")
    word = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    return word if word.startswith(program) else f"{program}-{word}"


class ConfigImport:
    """Compares offers with clew's configuration, and writes new values if `is_writing` is true."""

    def __init__(self, places: Places, *, is_writing: bool) -> None:
        self._places = places
        self._writes = is_writing
        self._servers = {entry.name for entry in entries(places)}
        self._seen: set[tuple[str, ...]] = set()
        self.lines: list[ImportedValue] = []

    def take(self, scope: str, offer: Offer) -> None:
        for name, server in offer.servers.items():
            self._server(scope, offer, name, server)
        if offer.model:
            self._model(scope, offer)
        for behavior in BEHAVIORS:
            for rule in offer.permissions[behavior]:
                self._permission(scope, offer, behavior, rule)
        for folder in offer.folders:
            self._listed(scope, offer, "additionalDirectories", folder, f"folder {folder}")
        for instructions in offer.rules:
            self._rule(scope, offer, instructions)
        for left in offer.left_out:
            self._tell(offer, left.what, why_not=left.why)

    def _tell(self, offer: Offer, what: str, *, to: str = "", why_not: str = "") -> None:
        self.lines.append(
            ImportedValue(
                program=offer.program, source=offer.file, what=what, to=to, why_not=why_not
            )
        )

    def _server(self, scope: str, offer: Offer, name: str, server: Json) -> None:
        what = f"MCP server {name}"
        filled = dict.fromkeys(find_variables(server), "x")
        checked = read_server(name, server, scope="user", environ=filled)
        if name in self._servers:
            self._tell(offer, what, why_not="clew already has a server with this name")
        elif not SERVER_NAME.fullmatch(name) or isinstance(checked, str):
            why = checked if isinstance(checked, str) else "invalid name"
            self._tell(offer, what, why_not=why)
        else:
            self._servers.add(name)
            path = self._places.user_settings
            if scope == "project":
                path = self._places.root / ".mcp.json"
            if self._writes and scope == "user":
                assign(self._places, "user", ("mcpServers", name), server)
            elif self._writes:
                with hold_lock(self._places.config_home):
                    layer = (
                        read("project", path, str(self._places.root)) if is_there(path) else None
                    )
                    text = "" if layer is None else layer.text
                    replace(path, set_value(text, ("mcpServers", name), server))
            self._tell(offer, what, to=str(path))

    def _model(self, scope: str, offer: Offer) -> None:
        what = f"model {offer.model}"
        name = offer.model.removeprefix("anthropic/")
        if CATALOG.find(name) is None:
            self._tell(offer, what, why_not="unknown model; see docs/extending/providers.md")
        elif self._value(scope, ("model",)) is not None or ("model", scope) in self._seen:
            self._tell(offer, what, why_not="clew's settings already specify a model")
        else:
            self._seen.add(("model", scope))
            self._assign(scope, ("model",), name)
            self._tell(offer, what, to=self._file(scope))

    def _permission(self, scope: str, offer: Offer, behavior: str, rule: str) -> None:
        source = RuleSource(scope="user", file=None, path=("permissions", behavior))
        parsed = parse_rule(rule, behavior, root=str(self._places.root), source=source)  # type: ignore[arg-type]
        if isinstance(parsed, RejectedRule):
            self._tell(offer, f"{behavior} {rule}", why_not=parsed.what)
        else:
            self._listed(scope, offer, behavior, rule, f"{behavior} {rule}")

    def _listed(self, scope: str, offer: Offer, key: str, item: str, what: str) -> None:
        before = self._value(scope, ("permissions", key)) or []
        if item in before or (scope, key, item) in self._seen:
            self._tell(offer, what, why_not="already in clew's settings")
            return
        self._seen.add((scope, key, item))
        self._assign(scope, ("permissions", key), [*before, item])
        self._tell(offer, what, to=self._file(scope))

    def _rule(self, scope: str, offer: Offer, rule: ImportedRule) -> None:
        is_skill = bool(rule.description)
        own = self._places.root / ".claude" if scope == "project" else self._places.config_home
        path = (
            own / "skills" / rule.name / "SKILL.md"
            if is_skill
            else own / "rules" / f"{rule.name}.md"
        )
        what = f"{'skill' if is_skill else 'rule'} {rule.name}"
        if is_there(path) or (str(path),) in self._seen:
            self._tell(offer, what, why_not=f"{path} already exists")
            return
        self._seen.add((str(path),))
        if self._writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, write_rule(rule))
        self._tell(offer, what, to=str(path))

    def _file(self, scope: str) -> str:
        return str(self._places.settings_file(scope))

    def _value(self, scope: str, key: tuple[str, ...]) -> Any:
        path = self._places.settings_file(scope)
        if not is_file(path):
            return None
        layer = read("user" if scope == "user" else "project", path, str(self._places.root))
        return find_value(layer.data, key)[1]

    def _assign(self, scope: str, key: tuple[str, ...], value: Any) -> None:
        if self._writes:
            assign(self._places, "user" if scope == "user" else "project", key, value)


def write_rule(rule: ImportedRule) -> str:
    """Return the text of the file for a rule or a skill."""
    head = ""
    if rule.description:
        head = f"---\nname: {rule.name}\ndescription: {' '.join(rule.description.split())}\n---\n\n"
    elif rule.paths:
        head = "---\npaths:\n" + "".join(f'  - "{path}"\n' for path in rule.paths) + "---\n\n"
    return f"{head}{rule.text}\n"


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew import-config",
        description="List what clew can import from other agents: MCP servers, models, permissions"
        " and rules. Use --write to import it. Existing values are never replaced.",
    )
    parser.add_argument(
        "program", nargs="*", metavar="PROGRAM",
        help=f"Programs to import from: {', '.join(PROGRAMS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--write", action="store_true", help="Import what can be imported (default: only list it)"
    )
    parser.add_argument(
        "--scope", choices=SCOPES, help="Import only user files or only project files"
    )
    parser.add_argument("--json", action="store_true", help="Print JSON")

    def run(options: argparse.Namespace) -> int:
        unknown = [name for name in options.program if name not in PROGRAMS]
        if unknown:
            parser.error(f'unknown program "{unknown[0]}"; expected one of {", ".join(PROGRAMS)}')
        places = find_places(os.environ, Path.cwd())
        taking = ConfigImport(places, is_writing=options.write)
        for scope, offer in find_offers(places, options.program or PROGRAMS, os.environ):
            if options.scope in (None, scope):
                taking.take(scope, offer)
        if options.json:
            sys.stdout.write(msgspec.json.encode(taking.lines).decode() + "\n")
        else:
            report(taking.lines, is_written=options.write)
        return 0

    return parser.carry_out(argv, run)


def report(lines: list[ImportedValue], *, is_written: bool) -> None:
    if not lines:
        show("No configuration files of other agents found.")
        return
    for source in dict.fromkeys(line.source for line in lines):
        show(source)
        for line in lines:
            if line.source == source:
                mark, rest = ("+", f" -> {line.to}") if line.to else ("-", f": {line.why_not}")
                show(f"  {mark} {line.what}{rest}")
    count = sum(bool(line.to) for line in lines)
    left = len(lines) - count
    verb = "imported" if is_written else "can be imported"
    hint = "" if is_written or not count else "; use --write to import"
    show(f"{count} {verb}, {left} skipped{hint}")
