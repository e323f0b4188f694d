"""The slash commands that every session has. Loaded when one is typed."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Literal

from clew.agent.intake import Raw
from clew.agent.warming import Warmer
from clew.commands.slash import SlashHandlers
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
    format_table,
)
from clew.core.input import TypedCommand as Typed
from clew.core.ledger.breakdown import WindowPart, break_down
from clew.core.ledger.cache_miss import sum_up
from clew.core.ledger.ledger import Spend
from clew.core.messages import factories
from clew.core.messages.errors import ClewError
from clew.core.messages.text import format_count
from clew.core.normalize.target import find_references, select_definitions
from clew.parts.resuming import ensure_free
from clew.permissions.in_session import of_own
from clew.record.transcript import choose
from clew.record.transcript.light import Outline
from clew.session.session import Session
from clew.system.clock import format_local, format_local_timestamp, get_timestamp, make_id
from clew.system.config.load import assign, explain_setting, list_settings, parse_value
from clew.system.files import is_there
from clew.version import VERSION

SHOWN_SESSIONS = 50
SHOWN_MISSES = 5


# What people look for among the commands, and where it is.
DONE_ELSEWHERE = {
    "login": "`clew login` in a shell keeps a key.",
    "logout": "`clew logout` in a shell forgets the key.",
    "theme": "/config theme NAME sets one, as dark or light.",
}


def collect_commands(session: Session) -> Registry[Session]:
    """Every command of this session: its own, and those that were found for it."""
    if not session.options.has_commands:
        return Registry()
    prompts = []
    if any(server.offers.prompts for server in session.parts.mcp.clients()):
        from clew.commands.slash.mcp import list_prompts as prompts_of

        prompts = prompts_of(session)
    # A file hides no command of clew's own; a front knows better what it shows.
    return Registry([*session.parts.commands(), *prompts, *BUILTIN, *session.commands])


async def run(session: Session, typed: Typed, raw: Raw) -> Outcome | None:
    """Does what was typed; None for a word that begins a prompt: commands are off, or it names a folder."""
    if not session.options.has_commands:
        return None
    if typed.name.startswith("mcp"):
        # Perhaps a command of a server that is on its way.
        await session.parts.mcp.settled()
    commands = collect_commands(session)
    command = commands.find(typed.name)
    if command is None:
        # Perhaps one that a hook of the session's start is about to bring.
        await session.parts.hooks.started()
        commands = collect_commands(session)
        command = commands.find(typed.name)
    if command is None:
        return unknown(commands, typed, raw)
    if command.is_interactive and not (raw.by_person or raw.is_lasting):
        return Show(text=f"/{command.name} needs a session with a person in it", is_error=True)
    if command.expands:
        refused = await kept_back(session, command, typed, raw)
        if refused:
            return Show(text=f"/{command.name}: a hook kept it back: {refused}", is_error=True)
    try:
        outcome = await command.run(session, typed.arguments)
    except (ClewError, OSError) as error:
        outcome = Show(text=f"/{command.name}: {error}", is_error=True)
    if isinstance(outcome, Show):
        keep(session, command.name, typed.arguments, outcome)
    return outcome


async def kept_back(
    session: Session, command: SlashCommand[Session], typed: Typed, raw: Raw
) -> str:
    """Why a hook will not have a command become a prompt; empty if none minds."""
    fields = {
        "expansion_type": "mcp_prompt" if command.expands == "mcp" else "slash_command",
        "command_name": command.name,
        "command_args": typed.arguments,
        "command_source": command.expands,
        "prompt": raw.text,
    }
    outcome = await session.parts.hooks.aside("UserPromptExpansion", fields)
    if outcome.block is None and outcome.halt is None:
        return ""
    return outcome.block or outcome.halt or "no reason given"


def unknown(commands: Registry[Session], typed: Typed, raw: Raw) -> Outcome | None:
    """What a word says that no command has: whoever meant a command is not answered by a model."""
    if os.path.lexists(f"/{typed.name}"):
        return None  # a sentence about a folder of the system
    if raw.is_lasting:
        # Hosts know these words, and that their session goes on.
        return Show(text=f"Unknown slash command: {typed.name}")
    near = commands.nearest(typed.name)
    hint = f"did you mean /{near}?" if near else "/help lists them."
    hint = DONE_ELSEWHERE.get(typed.name, hint)
    return Show(
        text=f"unknown command /{typed.name}; {hint} A space before it sends the line as it is.",
        is_error=True,
    )


def keep(session: Session, name: str, arguments: str, outcome: Show) -> None:
    """Notes in a conversation that has begun what was asked beside it; the model does not see it."""
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


def load_tasks() -> SlashHandlers:
    from clew.commands.slash.tasks import HANDLERS

    return HANDLERS


def load_record() -> SlashHandlers:
    from clew.commands.slash.record import HANDLERS

    return HANDLERS


def load_mcp() -> SlashHandlers:
    from clew.commands.slash.mcp import HANDLERS

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
    """A command whose module is loaded when it is typed."""

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
        path = choose.resolve_session(places.config_home, str(places.cwd), name)
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
        where = (
            "is kept" if everywhere else "of this folder is kept; /resume --all looks in every one"
        )
        return Show(text=f"no other session {where}")
    rows = [
        PickRow(
            line=f"/resume {outline.session_id}",
            label=f"{format_local(outline.modified_at)}  {folder_of(outline) if everywhere else ''}{outline.title[:70]}",
        )
        for outline in outlines
    ]
    of: Literal["sessions", "all sessions"] = "all sessions" if everywhere else "sessions"
    return Pick(title="go on with", rows=tuple(rows), of=of)


def folder_of(outline: Outline) -> str:
    return f"{Path(outline.cwd).name}: " if outline.cwd else ""


async def rewind(session: Session, arguments: str) -> Outcome:
    from clew.commands.slash.record import rewind as take_back

    return await take_back(session, arguments)


async def context(session: Session, arguments: str) -> Outcome:
    if arguments.strip():
        from clew.commands.slash.context import edit

        return await edit(session, arguments)
    template = session.model_access.requests.template
    history = session.story.sent
    tools = select_definitions(
        session.tools.toolbox.definitions(), find_references(history), takes_deferred=False
    )
    system = template.system if isinstance(template.system, list) else []
    parts = break_down(history, system=system, tools=tools)
    used, window = sum(part.tokens for part in parts), session.model.context_window
    of = f" of {window:,}" if window else ""
    rows = [(f"{part.tokens:,}", named(part)) for part in parts]
    return Show(text=f"{session.model.name}: about {used:,}{of} tokens\n{format_table(rows)}")


def named(part: WindowPart) -> str:
    """A part for people: what clew tells the model besides has names that are for programs."""
    name = part.name
    if part.kind in ("context", "memory files"):
        name = name.removesuffix("_delta").replace("_", " ")
    return f"{part.kind} {name}".rstrip()


async def cost(session: Session, _: str) -> Outcome:
    ledger = session.ledger()
    rows = [("total", money(ledger.total))]
    rows += [(model, money(spend)) for model, spend in ledger.by_model().items()]
    return Show(text=format_table([*rows, *cache_rows(session)]))


def cache_rows(session: Session) -> list[tuple[str, str]]:
    """Why the prompt cache missed: all misses in a sentence, the last ones one by one."""
    warmer, misses = session.model_access.cache.warmer, session.model_access.cache.misses
    rows = [] if warmer is None else warming_rows(warmer)
    if not misses:
        return rows
    last = misses[-SHOWN_MISSES:]
    label = f"the last {len(last)}" if len(misses) > len(last) else ""
    rows += [("cache misses", "; ".join(filter(None, [sum_up(misses), label])))]
    return rows + [(f"  {format_local_timestamp(miss.at)[11:]}", str(miss)) for miss in last]


def warming_rows(warmer: Warmer) -> list[tuple[str, str]]:
    """What keeping the cache warm cost and saved, if it was tried."""
    spend, notes = warmer.spend, []
    if spend.requests or warmer.reserved_usd:
        notes.append(f"{format_count(spend.requests, 'request')}, {money(spend)} of the total")
    if warmer.reserved_usd:
        notes.append(f"up to ${warmer.reserved_usd:.4f} for requests that were cancelled")
    if warmer.saved_usd:
        notes.append(f"about ${warmer.saved_usd:.4f} saved")
    if warmer.trouble:
        notes.append(f"stopped: {warmer.trouble}")
    return [("cache warming", "; ".join(notes))] if notes else []


def money(spend: Spend) -> str:
    """Dollars; what has no known price is said to have none."""
    known_part = f"${spend.usd:,.4f}"
    if not spend.unpriced:
        return known_part
    return f"{known_part} and {format_count(spend.unpriced, 'response')} without a known price"


async def usage(session: Session, _: str) -> Outcome:
    """Of the whole session, however often it was gone on with; what is of this start is said so."""
    state, past = session.costs.spending.state, session.costs.past
    rows = []
    for model, spend in session.ledger().by_model().items():
        tokens = spend.tokens
        written = tokens.cache_write_5m + tokens.cache_write_1h
        rows.append(
            (
                model,
                f"{format_count(spend.requests, 'response')}: {tokens.input:,} in, {tokens.output:,} out, "
                f"{tokens.cache_read:,} read from the cache, {written:,} written to it",
            )
        )
    rows += [
        ("waited for the service", seconds(past.api_ms, state.api_ms)),
        ("waited for tools", seconds(past.tool_ms, state.tool_ms)),
        (
            "lines",
            f"{past.lines_added + state.lines_added:,} added, "
            f"{past.lines_removed + state.lines_removed:,} removed",
        ),
    ]
    if past.duration_ms:
        rows.insert(
            0, ("counted", "from the session's beginning on, over all the times it was open")
        )
    return Show(text=format_table(rows))


def seconds(before_ms: float, now_ms: float) -> str:
    duration = f"{(before_ms + now_ms) / 1000:.1f} s"
    return (
        f"{duration}, {now_ms / 1000:.1f} s of them since it was opened now"
        if before_ms
        else duration
    )


async def model(session: Session, name: str) -> Outcome:
    if name:
        chosen = await session.model_access.switching.to(name)
        unheard = "" if chosen.known else "; clew knows nothing of this one"
        return Show(text=f"model {chosen.id} from the next prompt on{unheard}")
    aliases = sorted(session.model_access.speaking.catalog.aliases.items())
    rows = [PickRow(line=f"/model {alias}", label=model_id) for alias, model_id in aliases]
    current_id = session.model.id
    at = next((n for n, (_, model_id) in enumerate(aliases) if model_id == current_id), 0)
    title = "the model from the next prompt on"
    return Pick(title=title, rows=tuple(rows), text=f"now {current_id}", at=at)


async def permissions(session: Session, word: str) -> Outcome:
    if word == "sandbox":
        return Show(text=format_table(await session.parts.sandbox.page()))
    if word:
        return Show(text=f"mode {session.rules.set_mode(word)}")
    standing = session.rules.standing
    rows: list[tuple[str, str]] = [("mode", session.mode)]
    rows += [
        (f"{rule.behavior} {rule.text}", standing.where(rule)) for rule in standing.rules.rules
    ]
    rows.append(("sandbox", "/permissions sandbox says what holds here"))
    return Show(text=format_table(rows))


async def config(session: Session, arguments: str) -> Outcome:
    places = session.rules.standing.places
    key, _, value = arguments.partition(" ")
    if not key:
        return Show(text="\n".join(list_settings(places)) or "nothing is set")
    if not value:
        return Show(text="\n".join(explain_setting(places, key)))
    done = assign(places, "user", key, parse_value(key, value.strip()))
    noticed = of_own(await session.parts.refresh())
    return Show(text="\n".join([f"{done.path}: {key} is set", *done.faults, *noticed]))


async def status(session: Session, _: str) -> Outcome:
    transcript = session.story.recorder.transcript
    rows = [
        ("clew", VERSION),
        ("session", session.session_id),
        ("model", session.model.id),
        ("mode", session.mode),
        ("folder", str(session.rules.standing.places.cwd)),
        ("transcript", str(transcript) if is_there(transcript) else "not written yet"),
        ("debug", session.workspace.debug_file or "not written (--debug)"),
        (
            "tools",
            f"{len(session.tools.toolbox)}, {len(session.tools.toolbox.deferred())} of them on demand",
        ),
    ]
    return Show(text=format_table(rows))


BUILTIN: tuple[SlashCommand[Session], ...] = (
    later("add-dir", load_setup, "show or add folders to work in", hint="[FOLDER]"),
    later("agents", load_tasks, "list the kinds of agents, show one, or take over what one did in its checkout", hint="[KIND | merge ID | discard ID]"),
    later("background", load_tasks, "let the running turn go on in the background, or have a prompt worked on there", hint="[PROMPT]", is_interactive=True),
    later("bug-report", load_setup, "write what a report of a fault needs into a file", hint="[FILE]"),
    SlashCommand(name="clear", description="begin a new session", run=clear, is_interactive=True, aliases=("new", "reset")),
    SlashCommand(name="compact", description="replace the conversation, or a part of it, by its summary", run=compact, hint="[WHAT MATTERS | --before N | --from N | --list | --show | --undo]"),
    SlashCommand(name="config", description="show or set settings", run=config, hint="[KEY [VALUE]]"),
    SlashCommand(name="context", description="show what fills the model's window; take ranges of the conversation out, put them short, hold them fast", run=context, hint="[messages | edits | exclude | summarise | pin | restore]"),
    SlashCommand(name="cost", description="show what the session cost", run=cost),
    later("diff", load_record, "show what is changed and not committed"),
    later("doctor", load_setup, "say what is wrong with this setup", hint="[--offline]"),
    later("effort", load_setup, "show or choose how hard the model thinks", hint="[LEVEL]"),
    SlashCommand(name="exit", description="end the session", run=leave, is_interactive=True, aliases=("quit",)),
    later("export", load_record, "write this session into a file: .md, .html, .json, .jsonl", hint="[FILE] [--all] [--redact | --raw]"),
    later("fork", load_record, "go on in a copy of this session, up to a message", hint="[MESSAGE]", is_interactive=True, aliases=("branch",)),
    later("goal", load_tasks, "work until something is true: show, set or clear it", hint="[GOAL | clear]"),
    SlashCommand(name="help", description="list what can be typed, or explain one command", run=explain, hint="[COMMAND]"),
    later("hooks", load_setup, "list the hooks of this session"),
    later("keybindings", load_setup, "list what keys do on the screen, and where your own stand", aliases=("keys",)),
    later("loop", load_tasks, "have a prompt come again and again: list, begin, stop", hint="[5m] PROMPT", is_interactive=True),
    later("mcp", load_mcp, "show and manage MCP servers", hint="[SERVER]"),
    later("memory", load_memory, "show which memory speaks here; choose where notes go; review proposals", hint="[to | list | show | forget | review | accept | drop]"),
    SlashCommand(name="model", description="show or choose the model", run=model, hint="[MODEL]"),
    later("output-style", load_setup, "show or choose how the model speaks", hint="[NAME]"),
    SlashCommand(name="permissions", description="show the rules, or what the sandbox holds; go over to a mode", run=permissions, hint="[MODE | sandbox]", aliases=("allowed-tools",)),
    later("plugin", load_setup, "list the plugins of this session", aliases=("plugins",)),
    later("reload-plugins", load_setup, "look for plugins, skills, agents and output styles again", aliases=("reload",)),
    later("remember", load_memory, "keep words for later sessions, or find in this one what to keep", hint="[WORDS]"),
    later("rename", load_record, "give this session a title", hint="TITLE"),
    SlashCommand(name="resume", description="list sessions, or go on with one", run=resume, hint="[SESSION | --all]", is_interactive=True, aliases=("continue",)),
    SlashCommand(name="rewind", description="take conversation, files or both back to a message, or back again", run=rewind, hint="[MESSAGE [conversation | files | both]]", aliases=("checkpoint",)),
    later("search", load_record, "look for words in all sessions", hint="WORDS"),
    later("skills", load_setup, "list the skills of this session"),
    SlashCommand(name="status", description="show how the session stands", run=status),
    later("statusline", load_setup, "show or choose the command that prints the screen's last line", hint="[COMMAND | off]"),
    later("tasks", load_tasks, "list what works in the background, show what one said, stop it, or keep it when clew ends", hint="[ID | stop [ID] | keep ID]", aliases=("bashes",)),
    later("todos", load_record, "show what the model means to do"),
    later("tree", load_record, "show the prompts of this session on all its branches, to go on from one", hint="[MESSAGE]"),
    SlashCommand(name="usage", description="show tokens, times and changed lines", run=usage, aliases=("stats",)),
    later("vim", load_setup, "give the prompt vim's keys, or take them away", hint="[on | off]"),
)  # fmt: skip


# `/help`: what can be typed, and what one command takes and does.


async def show(session: Session, name: str) -> Outcome:
    if name:
        return about(session, name.removeprefix("/"))
    rows = [
        (f"/{command.name} {command.hint}".rstrip(), command.description)
        for command in collect_commands(session)
    ]
    rows += [
        ("!COMMAND", "run a command in the shell; the model sees it and what it printed"),
        ("# NOTE", "add a line to the project's memory file"),
        ("@FILE", "anywhere in a prompt: bring a file, a folder or FILE#L10-20 along"),
    ]
    return Show(text=format_table(rows))


def about(session: Session, name: str) -> Outcome:
    """One command: what it takes and does, and its other names."""
    commands = collect_commands(session)
    command = commands.find(name)
    if command is None:
        near = commands.nearest(name)
        hint = f"did you mean /help {near}?" if near else "/help lists those there are."
        hint = DONE_ELSEWHERE.get(name, hint)
        return Show(text=f"there is no command /{name}; {hint}", is_error=True)
    lines = [f"/{command.name} {command.hint}".rstrip(), command.description]
    if command.aliases:
        lines.append(f"also: {', '.join(f'/{alias}' for alias in command.aliases)}")
    return Show(text="\n".join(lines))
