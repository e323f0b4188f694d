"""Slash commands for the setup: effort, folders, hooks, screen, skills, plugins, bug reports."""

from pathlib import Path
from typing import Any, get_args

import msgspec

from clew.agent.context.output_styles import WAITS
from clew.commands.slash import SlashHandlers, show_page
from clew.commands.slash.record import choose_new_file
from clew.core.input import Outcome, Show, format_table
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.core.page import ReportPage, pairs
from clew.parts.plugins.parts import CODE_DISABLED, describe_parts
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

# Slash commands for the screen: vim mode, key bindings and the status line.


ON, OFF = "on", "off"
LINE = "statusLine"


async def vim(session: Session, word: str) -> Outcome:
    """Turn vim mode on or off, or toggle it if no word is given."""
    if word not in ("", ON, OFF):
        return Show(text=f'Unknown value "{word}" (expected {ON} or {OFF})', is_error=True)
    is_on = read_text(session.rules.standing.settings, "editorMode") == "vim"
    mode = "vim" if (word or (OFF if is_on else ON)) == ON else "normal"
    confirmation = set_to(session, "editorMode", mode)
    how = "Vim mode on (Esc: normal mode, i: insert mode)" if mode == "vim" else "Vim mode off"
    return Show(text=f"{how}\n{confirmation}")


async def status_line(session: Session, command: str) -> Outcome:
    """Show or set the command that prints the status line."""
    if not command:
        status_command = read_object(session.rules.standing.settings, "statusLine").get("command")
        if not status_command:
            return Show(
                text="Status line: default (model, mode, context left, cost, time, branch)\n"
                "/statusline COMMAND sets a command that gets the session as JSON and prints the status line"
            )
        return Show(
            text=f"Status line: output of {status_command}\n/statusline {OFF} restores the default"
        )
    if command == OFF:
        path = unset(session.rules.standing.places, "user", LINE)
        session.rules.refresh()
        return Show(text=f"{path}: status line reset to the default")
    return Show(text=set_to(session, LINE, {"type": "command", "command": command}))


def set_to(session: Session, key: str, value: Any) -> str:
    done = assign(session.rules.standing.places, "user", key, value)
    noticed = of_own(session.rules.refresh())
    return "\n".join([f"{done.path}: {key} set", *done.faults, *noticed])


async def log_out(session: Session, service: str) -> Outcome:
    from clew.commands.login import delete_key, find_row

    standing = session.rules.standing
    row = find_row(service.strip() or "anthropic", standing.settings)
    done = delete_key(standing.places, row.name)
    return Show(
        text=f"{done[0].upper()}{done[1:]}. This session keeps using its key until the session ends."
    )


async def key_bindings(session: Session, _: str) -> Outcome:
    """Show where key bindings are listed and configured, for front ends without a screen."""
    path = session.rules.standing.places.config_home / "keybindings.json"
    location = "your key bindings are in" if is_there(path) else "to change them, create"
    return Show(text=f"`clew keys` lists the key bindings and checks yours; {location} {path}")


LEVELS: tuple[str, ...] = get_args(Effort)


async def effort(session: Session, level: str) -> Outcome:
    if not level:
        current = session.model_access.requests.template.effort or "the model's default"
        return Show(text=f"Effort: {current} (available: {', '.join(LEVELS)}, auto)")
    if level == "auto":
        session.model_access.speaking.effort(None)
        return Show(text="Effort set to the model's default")
    if level not in LEVELS:
        return Show(
            text=f'Unknown effort "{level}" (expected one of: {", ".join(LEVELS)}, auto)',
            is_error=True,
        )
    session.model_access.speaking.effort(msgspec.convert(level, Effort))
    return Show(text=f"Effort set to {level}")


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
    return Show(text=f"Added {folder} to this session")


def folder_of(cwd: Path, name: str) -> Path:
    folder = Path(cwd, Path(name).expanduser())
    if not is_folder(folder):
        raise UserError(f"{folder}: folder not found")
    return folder


async def hooks(session: Session, _: str) -> Outcome:
    from clew.agent.hooks.events import label_event
    from clew.agent.hooks.handlers import read_layers

    listing = read_layers(session.rules.standing.layers)
    by_event: dict[str, list[tuple[str, str]]] = {}
    for hook in listing.hooks:
        name = label_event(hook.event.name, hook.matcher or None)
        row = (f"{hook.kind}: {mask(hook.handler.title)}", hook.where)
        by_event.setdefault(name, []).append(row)
    groups = [pairs(rows, name) for name, rows in by_event.items()]
    if listing.faults:
        groups.append(pairs([(mask(fault), "") for fault in listing.faults], "Errors"))
    if not groups:
        groups.append(pairs([("none", "add hooks to the settings, under hooks")]))
    summary = f"off: {listing.off}" if listing.off else format_count(len(listing.hooks), "hook")
    hints = (
        "clew hooks test EVENT tests the hooks of an event",
        "clew hooks events lists the events",
    )
    return show_page(ReportPage(title="Hooks", summary=summary, groups=tuple(groups), hints=hints))


async def doctor(session: Session, arguments: str) -> Outcome:
    from clew.commands.doctor.checks import look
    from clew.commands.doctor.finding import count_faults, format_plain

    findings = await look(
        session.rules.standing,
        offline=arguments.strip() == "--offline",
        launcher=session.workspace.launcher,
    )
    return Show(text=mask(format_plain(findings)), is_error=bool(count_faults(findings)))


async def bug_report(session: Session, name: str) -> Outcome:
    """Write a bug report to a file, without conversation messages. Nothing is sent."""
    from clew.commands.doctor.checks import look, made_of
    from clew.commands.doctor.finding import format_plain
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
        f"# What went wrong\n\n(describe what you did, what you expected and what happened)\n\n"
        f"# The session\n\n{format_table(rows)}\n\n# The setup\n\n{format_plain(findings)}\n"
    )
    replace(target, mask(text), mode=0o600)
    return Show(text=f"Saved {target}. Review it before sharing; clew does not upload it.")


# Slash commands for extensions: skills, plugins and output styles.


async def skills(session: Session, _: str) -> Outcome:
    """List all skills by origin, and who may invoke them."""
    by_origin: dict[str, list[tuple[str, str]]] = {}
    for skill in session.parts.skills.all():
        notes = ", ".join(filter(None, [whose(skill), held(session, skill)]))
        about = cut(skill.description or skill.when, LONG // 4)
        row = (skill.name, f"{about} ({notes})" if notes else about)
        by_origin.setdefault(skill.origin, []).append(row)
    groups = [
        pairs(sorted(rows), origin[:1].upper() + origin[1:])
        for origin, rows in sorted(by_origin.items())
    ]
    if faults := session.parts.skills.faults:
        groups.append(pairs([(f"! {fault}", "") for fault in faults], "Errors"))
    count = f"{sum(map(len, by_origin.values()))}"
    hints = ("/NAME runs a skill", "/reload-plugins reloads all skills")
    return show_page(ReportPage(title="Skills", summary=count, groups=tuple(groups), hints=hints))


def whose(skill: Skill) -> str:
    if skill.for_person and skill.for_model:
        return ""
    if skill.for_person:
        return "user only"
    return "model only" if skill.for_model else "off"


def held(session: Session, skill: Skill) -> str:
    """Return which parts of a skill are ignored until the user trusts it."""
    brings = bool(skill.allowed_tools) * ["rules"] + bool(skill.hooks) * ["hooks"]
    if not brings or session.parts.skills.counts(skill):
        return ""
    return f"{' and '.join(brings)} ignored until trusted"


async def plugins(session: Session, _: str) -> Outcome:
    groups = []
    for plugin in session.parts.plugins:
        note = "" if plugin.may_run or not plugin.parts.runs else f" ({CODE_DISABLED})"
        title = f"{plugin.name} {plugin.parts.manifest.version}".rstrip() + note
        parts = [line.partition(": ") for line in describe_parts(plugin.parts)]
        rows = [(kind, what) for kind, _, what in parts] or [("empty", "")]
        groups.append(pairs(rows, title))
    if not groups:
        return Show(text="No plugins enabled. Add one with: clew plugin install")
    summary = f"{len(groups)} enabled"
    hints = (
        "clew plugin install | remove | trust manages plugins",
        "/reload-plugins reloads all plugins",
    )
    page = ReportPage(title="Plugins", summary=summary, groups=tuple(groups), hints=hints)
    return show_page(page)


async def reload(session: Session, _: str) -> Outcome:
    result = await session.parts.reloading.all()
    counts = (
        (len(result.plugins), "plugins"),
        (len(result.skills), "commands and skills"),
        (len(result.agents), "subagents"),
        (len(result.styles), "output styles"),
    )
    lines = [", ".join(f"{number} {what}" for number, what in counts)]
    lines += [f"started MCP server {name}" for name in result.begun]
    lines += [f"stopped MCP server {name}" for name in result.ended]
    lines += [f"! {fault}" for fault in result.faults]
    return Show(text="\n".join(lines))


async def output_style(session: Session, name: str) -> Outcome:
    styles, now = session.parts.output_styles.styles, session.parts.output_styles.style
    if not name:
        rows = [
            (f"{style.name}{' (current)' if style.name == now.name else ''}", style.description)
            for style in styles.found
        ]
        rows += [
            (style.name, f"project style; {WAITS}") for style in session.parts.output_styles.held
        ]
        return Show(text=format_table(rows))
    chosen = styles.named(name)
    if chosen is None:
        return Show(text=session.parts.output_styles.no_such(name), is_error=True)
    done = assign(session.rules.standing.places, "local", "outputStyle", chosen.name)
    noticed = of_own(await session.parts.refresh())
    message = (
        f"{done.path}: output style {chosen.name} applies from the next session on (/clear starts one). This "
        "session keeps its style, because a change would invalidate the prompt cache."
    )
    return Show(text="\n".join([message, *done.faults, *noticed]))


HANDLERS: SlashHandlers = {
    "add-dir": add_folder,
    "bug-report": bug_report,
    "doctor": doctor,
    "effort": effort,
    "hooks": hooks,
    "keybindings": key_bindings,
    "logout": log_out,
    "output-style": output_style,
    "plugin": plugins,
    "reload-plugins": reload,
    "skills": skills,
    "statusline": status_line,
    "vim": vim,
}
