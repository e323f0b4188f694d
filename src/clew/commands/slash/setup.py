"""Slash commands about the setup: how hard the model thinks, folders, hooks, health, a report of a fault."""

from pathlib import Path
from typing import Any, get_args

import msgspec

from clew.agent.context.output_styles import WAITS
from clew.commands.slash import SlashHandlers
from clew.commands.slash.record import choose_new_file
from clew.core.input import Outcome, Show, format_table
from clew.core.messages.errors import UserError
from clew.parts.plugins.parts import describe_parts
from clew.parts.skills.listing import LONG, cut
from clew.parts.skills.skill import Skill
from clew.permissions.in_session import of_own
from clew.permissions.updates import FoldersUpdate
from clew.providers.base import Effort
from clew.session.session import Session
from clew.system.clock import get_timestamp
from clew.system.config.load import assign, unset
from clew.system.config.mask import mask
from clew.system.config.settings import read_object, read_text
from clew.system.files import is_folder, is_there

# Slash commands about how the screen behaves: vim's keys, keys of one's own, the command behind the last line.


ON, OFF = "on", "off"
LINE = "statusLine"


async def vim(session: Session, word: str) -> Outcome:
    """Without a word the other of the two."""
    if word not in ("", ON, OFF):
        return Show(text=f"no {word!r}; there are {ON} and {OFF}", is_error=True)
    is_on = read_text(session.rules.standing.settings, "editorMode") == "vim"
    mode = "vim" if (word or (OFF if is_on else ON)) == ON else "normal"
    confirmation = set_to(session, "editorMode", mode)
    how = "Escape leaves the insert mode, i goes back to it" if mode == "vim" else "as ever"
    return Show(text=f"the prompt has {mode} keys: {how}\n{confirmation}")


async def status_line(session: Session, command: str) -> Outcome:
    """Whose words the last line of the screen shows: clew's, or what a command prints."""
    if not command:
        status_command = read_object(session.rules.standing.settings, "statusLine").get("command")
        if not status_command:
            return Show(
                text="the last line is clew's own: model, mode, what is left, cost, time, branch\n"
                "/statusline COMMAND has a command of yours print it; it is told the session as JSON"
            )
        return Show(
            text=f"the last line is what this prints: {status_command}\n/statusline {OFF} ends that"
        )
    if command == OFF:
        path = unset(session.rules.standing.places, "user", LINE)
        session.rules.refresh()
        return Show(text=f"{path}: the last line is clew's own again")
    return Show(text=set_to(session, LINE, {"type": "command", "command": command}))


def set_to(session: Session, key: str, value: Any) -> str:
    done = assign(session.rules.standing.places, "user", key, value)
    noticed = of_own(session.rules.refresh())
    return "\n".join([f"{done.path}: {key} is set", *done.faults, *noticed])


async def key_bindings(session: Session, _: str) -> Outcome:
    """Where no keys are pressed: what says them, and where a person's own stand."""
    path = session.rules.standing.places.config_home / "keybindings.json"
    location = "yours are in" if is_there(path) else "yours would be in"
    return Show(
        text=f"clew keys lists what keys do on the screen, and checks your own; {location} {path}"
    )


LEVELS: tuple[str, ...] = get_args(Effort)


async def effort(session: Session, level: str) -> Outcome:
    if not level:
        current = session.model_access.requests.template.effort or "the model's own"
        return Show(text=f"effort: {current}; there are {', '.join(LEVELS)}, and auto")
    if level == "auto":
        session.model_access.speaking.effort(None)
        return Show(text="effort: the model's own, from the next prompt on")
    if level not in LEVELS:
        return Show(text=f"no effort {level!r}; there are {', '.join(LEVELS)}, auto", is_error=True)
    session.model_access.speaking.effort(msgspec.convert(level, Effort))
    return Show(text=f"effort: {level}, from the next prompt on")


async def add_folder(session: Session, name: str) -> Outcome:
    standing = session.rules.standing
    if not name:
        rows = "\n".join([str(standing.places.cwd), *standing.context.directories])
        return Show(text=rows)
    folder = folder_of(standing.places.cwd, name)
    session.rules.update([FoldersUpdate(type="addDirectories", directories=(str(folder),))])
    session.parts.hooks.tell(
        "DirectoryAdded", {"directory": str(folder), "source": "slash_command"}
    )
    return Show(text=f"{folder} is a folder of this session too")


def folder_of(cwd: Path, name: str) -> Path:
    folder = Path(cwd, Path(name).expanduser())
    if not is_folder(folder):
        raise UserError(f"{folder} is no folder")
    return folder


async def hooks(session: Session, _: str) -> Outcome:
    from clew.agent.hooks.events import label_event
    from clew.agent.hooks.handlers import read_layers

    listing = read_layers(session.rules.standing.layers)
    lines = [f"off: {listing.off}"] if listing.off else []
    lines += [
        f"{label_event(hook.event.name, hook.matcher or None)}  {hook.kind}: {hook.handler.title}  [{hook.where}]"
        for hook in listing.hooks
    ]
    return Show(text=mask("\n".join([*lines, *listing.faults])) or "no hooks")


async def doctor(session: Session, arguments: str) -> Outcome:
    from clew.commands.doctor.checks import look
    from clew.commands.doctor.finding import count_faults, format_findings

    findings = await look(
        session.rules.standing,
        offline=arguments.strip() == "--offline",
        launcher=session.workspace.launcher,
    )
    return Show(text=mask(format_findings(findings)), is_error=bool(count_faults(findings)))


async def bug_report(session: Session, name: str) -> Outcome:
    """A file for whoever mends clew. Nothing of the conversation is in it, and nothing is sent."""
    from clew.commands.doctor.checks import look, made_of
    from clew.commands.doctor.finding import format_findings
    from clew.system.files import replace

    standing = session.rules.standing
    default = f"clew-report-{get_timestamp()[:19].replace(':', '')}.md"
    target = choose_new_file(session, name or default)
    kinds: dict[str, int] = {}
    for entry in session.story.history:
        kinds[entry["type"]] = kinds.get(entry["type"], 0) + 1
    rows = [
        ("clew", made_of()),
        ("model", session.model.id),
        ("mode", session.mode),
        ("session", session.session_id),
        ("entries", ", ".join(f"{many} {kind}" for kind, many in sorted(kinds.items())) or "none"),
        ("tools", ", ".join(tool.name for tool in session.tools.toolbox)),
        ("notices", "; ".join(session.notices) or "none"),
    ]
    findings = await look(standing, offline=True, launcher=session.workspace.launcher)
    text = (
        f"# What went wrong\n\n(say here what you did, what you expected, what came)\n\n"
        f"# The session\n\n{format_table(rows)}\n\n# The setup\n\n{format_findings(findings)}\n"
    )
    replace(target, mask(text), mode=0o600)
    return Show(text=f"{target}: read it before you send it to anybody; clew sends it to nobody")


# Slash commands about what extends a session: skills, plugins, output styles.


async def skills(session: Session, _: str) -> Outcome:
    """Every skill and who may call it, with the file it is."""
    rows = [
        (
            skill.name,
            f"{cut(skill.description or skill.when, LONG // 4)} ({skill.origin}{whose(skill)}{held(session, skill)})",
        )
        for skill in session.parts.skills.all()
    ]
    faults = [f"! {fault}" for fault in session.parts.skills.faults]
    return Show(text="\n".join([format_table(sorted(rows)), *faults]))


def whose(skill: Skill) -> str:
    if skill.for_person and skill.for_model:
        return ""
    if skill.for_person:
        return ", for you alone"
    return ", for the model alone" if skill.for_model else ", off"


def held(session: Session, skill: Skill) -> str:
    """What of it does not count because nobody vouches for it."""
    brings = bool(skill.allowed_tools) * ["rules"] + bool(skill.hooks) * ["hooks"]
    if not brings or session.parts.skills.counts(skill):
        return ""
    return f", its {' and '.join(brings)} wait for your trust"


async def plugins(session: Session, _: str) -> Outcome:
    lines: list[str] = []
    for plugin in session.parts.plugins:
        note = "" if plugin.may_run or not plugin.parts.runs else " (words only: not trusted)"
        lines += [f"{plugin.name} {plugin.parts.manifest.version}".rstrip() + note]
        lines += [f"  {line}" for line in describe_parts(plugin.parts)]
    return Show(text="\n".join(lines) or "no plugin is on; clew plugin install adds one")


async def reload(session: Session, _: str) -> Outcome:
    result = await session.parts.reloading.all()
    counts = (
        (len(result.plugins), "plugins"),
        (len(result.skills), "commands and skills"),
        (len(result.agents), "kinds of agents"),
        (len(result.styles), "output styles"),
    )
    lines = [", ".join(f"{number} {what}" for number, what in counts)]
    lines += [f"begun: MCP server {name}" for name in result.begun]
    lines += [f"ended: MCP server {name}" for name in result.ended]
    lines += [f"! {fault}" for fault in result.faults]
    return Show(text="\n".join(lines))


async def output_style(session: Session, name: str) -> Outcome:
    styles, now = session.parts.output_styles.styles, session.parts.output_styles.style
    if not name:
        rows = [
            (f"{style.name}{' (now)' if style.name == now.name else ''}", style.description)
            for style in styles.found
        ]
        rows += [
            (style.name, f"of the project; {WAITS}") for style in session.parts.output_styles.held
        ]
        return Show(text=format_table(rows))
    chosen = styles.named(name)
    if chosen is None:
        return Show(text=session.parts.output_styles.no_such(name), is_error=True)
    done = assign(session.rules.standing.places, "local", "outputStyle", chosen.name)
    noticed = of_own(await session.parts.refresh())
    message = (
        f"{done.path}: output style {chosen.name}, from the next session on; this one keeps what it "
        "began with, which is in the service's cache (/clear begins a new one)"
    )
    return Show(text="\n".join([message, *done.faults, *noticed]))


HANDLERS: SlashHandlers = {
    "add-dir": add_folder,
    "bug-report": bug_report,
    "doctor": doctor,
    "effort": effort,
    "hooks": hooks,
    "keybindings": key_bindings,
    "output-style": output_style,
    "plugin": plugins,
    "reload-plugins": reload,
    "skills": skills,
    "statusline": status_line,
    "vim": vim,
}
