"""The slash commands of every session, loaded when one is typed."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Literal

from clew.agent.intake import Raw
from clew.commands.slash import SlashHandlers, show_page
from clew.core.input import (
    Clear,
    ExitSession,
    Outcome,
    Pick,
    PickRow,
    Registry,
    Resume,
    Show,
    SlashCommand,
)
from clew.core.input import TypedCommand as Typed
from clew.core.messages import factories
from clew.core.messages.errors import ClewError
from clew.parts.resuming import ensure_free, find_or_adopt
from clew.record.transcript.light import Outline
from clew.session.session import Session
from clew.system.clock import format_local, get_timestamp, make_id

SHOWN_SESSIONS = 50
SHOWN_MISSES = 5


# Commands that users look for under /, and where to find them.
DONE_ELSEWHERE = {
    "login": "Run `clew login` in a shell to save an API key.",
}


def collect_commands(session: Session) -> Registry[Session]:
    """Return all commands of this session: built-in ones, and those from files and servers."""
    if not session.options.has_commands:
        return Registry()
    prompts = []
    if any(server.offers.prompts for server in session.parts.mcp.clients()):
        from clew.commands.slash.mcp import list_prompts as prompts_of

        prompts = prompts_of(session)
    # Later entries take precedence: files cannot replace clew's commands, but a front end can.
    return Registry([*session.parts.commands(), *prompts, *BUILTIN, *session.commands])


async def run(session: Session, typed: Typed, raw: Raw) -> Outcome | None:
    """Run a slash command. Return None if the line is a prompt.

    The line is a prompt if slash commands are off, or if its first word names an existing path.
    """
    if not session.options.has_commands:
        return None
    if typed.name.startswith("mcp__") or (typed.name == "mcp" and session.options.is_print):
        # The command may belong to a server that is still connecting. `/mcp` at a terminal shows
        # what it waits for instead.
        await session.parts.mcp.settled()
    commands = collect_commands(session)
    command = commands.find(typed.name)
    if command is None:
        # A SessionStart hook may be about to add the command.
        await session.parts.hooks.started()
        commands = collect_commands(session)
        command = commands.find(typed.name)
    if command is None:
        return unknown(commands, typed, raw)
    if command.is_interactive and not (raw.by_person or raw.is_lasting):
        return Show(text=f"/{command.name} requires an interactive session", is_error=True)
    if command.expands:
        refused = await kept_back(session, command, typed, raw)
        if refused:
            return Show(text=f"/{command.name} was blocked by a hook: {refused}", is_error=True)
    try:
        outcome = await command.run(session, typed.arguments)
    except (ClewError, OSError) as error:
        outcome = Show(text=f"/{command.name}: {error}", is_error=True)
    if isinstance(outcome, Show) and not outcome.is_recorded:
        keep(session, command.name, typed.arguments, outcome)
    return outcome


# The names that hooks know for the origins of commands.
SOURCES = {"user": "userSettings", "project": "projectSettings", "managed": "policySettings"}


async def kept_back(
    session: Session, command: SlashCommand[Session], typed: Typed, raw: Raw
) -> str:
    """Run the hooks for a command's expansion; return the reason if one blocks it, or ""."""
    fields = {
        "expansion_type": "mcp_prompt" if command.expands == "mcp" else "slash_command",
        "command_name": command.name,
        "command_args": typed.arguments,
        "command_source": SOURCES.get(command.expands, command.expands),
        "prompt": raw.text,
    }
    outcome = await session.parts.hooks.aside("UserPromptExpansion", fields)
    if outcome.block is None and outcome.halt is None:
        return ""
    return outcome.block or outcome.halt or "no reason given"


def unknown(commands: Registry[Session], typed: Typed, raw: Raw) -> Outcome | None:
    """Return an error for an unknown command, or None if the line starts with a path."""
    if os.path.lexists(f"/{typed.name}"):
        return None  # a prompt that starts with a path
    if raw.is_lasting:
        # Hosts match this text, and expect their session to continue.
        return Show(text=f"Unknown slash command: {typed.name}")
    near = commands.nearest(typed.name)
    hint = f"Did you mean /{near}?" if near else "Type /help for a list."
    hint = DONE_ELSEWHERE.get(typed.name, hint)
    return Show(
        text=f"Unknown command /{typed.name}. {hint} To send it as a prompt, start the line with a space.",
        is_error=True,
        is_unknown=True,
    )


def keep(session: Session, name: str, arguments: str, outcome: Show) -> None:
    """Record a command and its output in the transcript, if the session has messages.

    The model does not see the record.
    """
    if not len(session.story.history):
        return
    texts = (
        f"<command-name>/{name}</command-name>\n<command-message>{name}</command-message>\n"
        f"<command-args>{arguments}</command-args>",
        f"<local-command-stdout>{outcome.text}</local-command-stdout>",
    )
    session.story.add(
        [
            factories.make_system(
                "local_command",
                words,
                uuid=make_id(),
                at=get_timestamp(),
                commandRun={"command": name, "args": arguments},
                isDisplayOnly=True,
            )
            for words in texts
        ]
    )


def load_setup() -> SlashHandlers:
    from clew.commands.slash.setup import HANDLERS

    return HANDLERS


def load_pages() -> SlashHandlers:
    from clew.commands.slash.pages import HANDLERS

    return HANDLERS


def load_tasks() -> SlashHandlers:
    from clew.commands.slash.tasks import HANDLERS

    return HANDLERS


def load_record() -> SlashHandlers:
    from clew.commands.slash.record import HANDLERS

    return HANDLERS


def load_mcp() -> SlashHandlers:
    from clew.commands.slash.mcp import HANDLERS

    return HANDLERS


def load_ide() -> SlashHandlers:
    from clew.commands.slash.ide import HANDLERS

    return HANDLERS


def load_memory() -> SlashHandlers:
    from clew.commands.slash.memory import HANDLERS

    return HANDLERS


def later(
    name: str,
    load: Callable[[], SlashHandlers],
    description: str,
    *,
    hint: str = "",
    aliases: tuple[str, ...] = (),
    is_interactive: bool = False,
) -> SlashCommand[Session]:
    """Return a command whose module is loaded when it is first run."""

    async def run(session: Session, arguments: str) -> Outcome:
        return await load()[name](session, arguments.strip())

    return SlashCommand(
        name=name,
        description=description,
        run=run,
        hint=hint,
        aliases=aliases,
        is_interactive=is_interactive,
    )


async def explain(session: Session, arguments: str) -> Outcome:
    return await show(session, arguments.strip())


async def compact(session: Session, arguments: str) -> Outcome:
    from clew.commands.slash import context as slash_compact

    return await slash_compact.compact(session, arguments)


async def clear(_: Session, __: str) -> Outcome:
    return Clear()


async def leave(_: Session, __: str) -> Outcome:
    return ExitSession()


async def resume(session: Session, name: str) -> Outcome:
    places = session.rules.standing.places
    everywhere = name == "--all"
    if name and not everywhere:
        path = find_or_adopt(places.config_home, str(places.cwd), name)
        if path != session.story.recorder.transcript:
            ensure_free(path, places.config_home, str(places.cwd))
        return Resume(session=name)
    from clew.record.library.listing import list_newest_first

    listed = list_newest_first(places.config_home, str(places.cwd), everywhere=everywhere)
    outlines = [
        outline
        for outline in islice(listed, SHOWN_SESSIONS)
        if outline.session_id != session.session_id
    ]
    if not outlines:
        where = "found" if everywhere else "in this folder; /resume --all lists all folders"
        return Show(text=f"No other sessions {where}")
    rows = [
        PickRow(
            line=f"/resume {outline.session_id}",
            label=f"{format_local(outline.modified_at)}  {folder_of(outline) if everywhere else ''}{outline.title[:70]}",
        )
        for outline in outlines
    ]
    of: Literal["sessions", "all sessions"] = "all sessions" if everywhere else "sessions"
    return Pick(title="Resume session", rows=tuple(rows), of=of)


def folder_of(outline: Outline) -> str:
    return f"{Path(outline.cwd).name}: " if outline.cwd else ""


async def rewind(session: Session, arguments: str) -> Outcome:
    from clew.commands.slash.record import rewind as take_back

    return await take_back(session, arguments)


BUILTIN: tuple[SlashCommand[Session], ...] = (
    later("add-dir", load_setup, "List or add working folders", hint="[FOLDER]"),
    later("agents", load_tasks, "List subagents; merge or discard a subagent's worktree", hint="[AGENT | merge ID | discard ID]"),
    later("background", load_tasks, "Run this turn, or a new prompt, in the background", hint="[PROMPT]", is_interactive=True),
    later("btw", load_record, "Ask about the conversation without adding to it", hint="QUESTION"),
    later("bug-report", load_setup, "Write a bug report to a file", hint="[FILE]"),
    SlashCommand(name="clear", description="Start a new session", run=clear, is_interactive=True, aliases=("new", "reset")),
    SlashCommand(name="compact", description="Summarize the conversation to free up context", run=compact, hint="[INSTRUCTIONS | --before N | --from N | --list | --show | --undo]"),
    later("config", load_pages, "Show or change settings", hint="[KEY [VALUE]]"),
    later("context", load_pages, "Show context usage; exclude, summarize or pin messages", hint="[messages | edits | exclude | summarize | pin | restore]"),
    later("cost", load_pages, "Show the cost of this session"),
    later("diff", load_record, "Show uncommitted changes"),
    later("doctor", load_setup, "Check this installation and suggest fixes", hint="[--offline]"),
    later("effort", load_setup, "Show or set the reasoning effort", hint="[LEVEL]"),
    SlashCommand(name="exit", description="Exit clew", run=leave, is_interactive=True, aliases=("quit",)),
    later("export", load_record, "Export this session to a file: .md, .html, .json, .jsonl", hint="[FILE] [--all] [--redact | --raw]"),
    later("fork", load_record, "Fork this session, optionally at an earlier message", hint="[MESSAGE]", is_interactive=True, aliases=("branch",)),
    later("goal", load_tasks, "Keep working until a goal is met", hint="[GOAL | clear]"),
    SlashCommand(name="help", description="Show help, or explain one command", run=explain, hint="[COMMAND]"),
    later("hooks", load_setup, "List the hooks of this session"),
    later("ide", load_ide, "Connect to your editor, or list the running editors", hint="[connect PORT | off]", is_interactive=True),
    later("keybindings", load_setup, "Show key bindings and where to customize them", aliases=("keys",)),
    later("logout", load_setup, "Delete the saved API key", hint="[SERVICE]", is_interactive=True),
    later("loop", load_tasks, "Repeat a prompt on a schedule", hint="[5m] PROMPT", is_interactive=True),
    later("mcp", load_mcp, "Show and manage MCP servers", hint="[SERVER]"),
    later("memory", load_memory, "View and manage memory; choose where notes are saved", hint="[to | list | show | forget | review | accept | drop]"),
    later("model", load_pages, "Show or select the model", hint="[MODEL]"),
    later("output-style", load_setup, "Show or set the output style", hint="[NAME]"),
    later("permissions", load_pages, "View permission rules and the sandbox, or change the mode", hint="[MODE | sandbox]", aliases=("allowed-tools",)),
    later("plugin", load_setup, "List the plugins of this session", aliases=("plugins",)),
    later("reload-plugins", load_setup, "Reload plugins, skills, agents and output styles", aliases=("reload",)),
    later("remember", load_memory, "Save a memory, or suggest memories from this session", hint="[WORDS]"),
    later("relocate", load_record, "Move sessions from this project's former folder", hint="FOLDER | --leave FOLDER"),
    later("rename", load_record, "Rename this session", hint="TITLE"),
    SlashCommand(name="resume", description="Resume a session", run=resume, hint="[SESSION | --all]", is_interactive=True, aliases=("continue",)),
    SlashCommand(name="rewind", description="Rewind the conversation, files or both to a message", run=rewind, hint="[MESSAGE [conversation | files | both]]", aliases=("checkpoint",)),
    later("search", load_record, "Search all sessions", hint="WORDS"),
    later("skills", load_setup, "List the skills of this session"),
    later("status", load_pages, "Show the session's status"),
    later("statusline", load_setup, "Configure the status line", hint="[COMMAND | off]"),
    later("tasks", load_tasks, "List and manage background tasks", hint="[ID | stop [ID] | keep ID]", aliases=("bashes",)),
    later("theme", load_pages, "Choose the colors, with a preview", hint="[NAME]"),
    later("todos", load_record, "Show the todo list"),
    later("tree", load_record, "Show all branches of this session and continue from any prompt", hint="[MESSAGE]"),
    later("usage", load_pages, "Show tokens, times and changed lines", aliases=("stats",)),
    later("vim", load_setup, "Turn vim mode on or off", hint="[on | off]"),
)  # fmt: skip


# `/help`: the list of commands, or the arguments and description of one.

# The commands by use. Commands that are not listed follow in a separate group.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "Session": ("clear", "resume", "rewind", "compact", "fork", "tree", "rename", "relocate", "export", "copy", "search", "btw", "remote", "exit"),
    "Model and cost": ("model", "effort", "context", "cost", "usage", "output-style"),
    "Permissions and settings": ("permissions", "config", "theme", "login", "logout", "add-dir", "keybindings", "vim", "statusline"),
    "Work": ("diff", "review", "commit", "verify", "todos", "tasks", "background", "goal", "loop", "agents"),
    "Memory and extensions": ("init", "memory", "remember", "skills", "mcp", "hooks", "plugin", "reload-plugins", "ide"),
    "Help": ("help", "status", "doctor", "bug-report"),
}  # fmt: skip
HELP_CHARACTERS = 64
FORMS = [
    ("!COMMAND", "Run a shell command; the model sees its output"),
    ("# NOTE", "Add a line to the project's memory file"),
    ("@FILE", "Attach a file, a folder or FILE#L10-20"),
]


async def show(session: Session, name: str) -> Outcome:
    if name:
        return about(session, name.removeprefix("/"))
    from clew.core.page import ReportPage, pairs

    commands = {command.name: command for command in collect_commands(session)}
    groups = []
    for title, names in SUBJECTS.items():
        listed = [commands.pop(name) for name in names if name in commands]
        groups.append(pairs(map(_in_a_row, listed), title))
    if commands:
        own = "Commands from this project, skills and MCP servers"
        groups.append(pairs(map(_in_a_row, commands.values()), own))
    groups.append(pairs(FORMS, "In a prompt"))
    hints = ("/help COMMAND explains one command", "? on an empty prompt shows the keys")
    return show_page(ReportPage(title="Help", groups=tuple(groups), hints=hints))


def _in_a_row(command: SlashCommand[Session]) -> tuple[str, str]:
    """Return a command's name and the start of its description."""
    words = command.description
    is_long = len(words) > HELP_CHARACTERS
    short = f"{words[:HELP_CHARACTERS].rpartition(' ')[0]} …" if is_long else words
    return f"/{command.name}", short


def about(session: Session, name: str) -> Outcome:
    """Show one command with its arguments, description and aliases."""
    commands = collect_commands(session)
    command = commands.find(name)
    if command is None:
        near = commands.nearest(name)
        hint = f"Did you mean /help {near}?" if near else "Type /help for a list."
        hint = DONE_ELSEWHERE.get(name, hint)
        return Show(text=f"Unknown command /{name}. {hint}", is_error=True)
    lines = [f"/{command.name} {command.hint}".rstrip(), command.description]
    if command.aliases:
        lines.append(f"Aliases: {', '.join(f'/{alias}' for alias in command.aliases)}")
    return Show(text="\n".join(lines))
