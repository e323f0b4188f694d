"""One session on the screen: opens it, reports its messages, and returns the next action.

The modules that a session needs are imported here and not earlier, so that the prompt appears
before they are loaded.
"""

import gc
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from clew.agent.option_values import MODES
from clew.agent.options import Options
from clew.commands.mcp import reach_of
from clew.commands.slash import show_page
from clew.commands.slash.table import collect_commands
from clew.core.input import Outcome, Show, SlashCommand
from clew.core.messages.messages import AssistantMessage
from clew.core.messages.text import format_count
from clew.fronts.drive import make_next_options
from clew.fronts.leaving import list_left_tasks
from clew.fronts.remote.control import RemoteControl, make_command
from clew.fronts.render.folders import Folders
from clew.fronts.render.theme import detect_abilities
from clew.fronts.render.transcript import Transcript
from clew.fronts.terminal.app import TerminalFront
from clew.fronts.terminal.completion import CompletionSource, CompletionWord
from clew.fronts.terminal.dialogs import Dialogs
from clew.fronts.terminal.first_run import is_first_start, offer_sandbox
from clew.fronts.terminal.prompt import SubmittedText
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.status import Status, at_home
from clew.fronts.terminal.talk import Talk
from clew.parts.mcp import scopes
from clew.session.build import open_session
from clew.session.notices import choose_announcement
from clew.session.session import Session
from clew.system.config.load import trust
from clew.system.config.paths import find_config_home
from clew.system.config.settings import read_switch
from clew.system.files import is_there
from clew.system.process.run import Programs
from clew.version import VERSION

# Slash commands that need a terminal.


def commands(front: TerminalFront) -> list[SlashCommand[Session]]:
    async def copy(session: Session, _: str) -> Outcome:
        text = last_answer(session)
        if not text:
            return Show(text="Nothing to copy yet", is_error=True)
        if not front.screen.terminal.copy(text):
            return Show(
                text=f"Too long to copy: {format_count(len(text), 'character')}", is_error=True
            )
        return Show(text=f"Copied {format_count(len(text), 'character')}")

    async def keys(session: Session, _: str) -> Outcome:
        own = session.rules.standing.places.config_home / "keybindings.json"
        where = f"Customize in: {own}{'' if is_there(own) else ' (not created yet)'}"
        from clew.fronts.terminal.viewer import make_keys_page

        return show_page(make_keys_page(front.bindings, where))

    async def login(session: Session, service: str) -> Outcome:
        from clew.fronts.terminal.login import log_in

        return await log_in(front, session, service)

    async def model(session: Session, name: str) -> Outcome:
        if name:
            from clew.commands.slash import pages

            return await pages.model(session, name)
        from clew.fronts.terminal.models import pick_model

        return await pick_model(front.stage, session)

    async def config(session: Session, arguments: str) -> Outcome:
        if arguments:
            from clew.commands.slash import pages

            return await pages.config(session, arguments)
        from clew.fronts.terminal.settings import edit_settings

        return await edit_settings(front, session)

    return [
        SlashCommand(
            name="config", description="Show or change settings", run=config, hint="[KEY [VALUE]]"
        ),
        SlashCommand(
            name="model", description="Show or select the model", run=model, hint="[MODEL]"
        ),
        SlashCommand(
            name="login",
            description="Check an API key and save it",
            run=login,
            hint="[SERVICE]",
            is_interactive=True,
        ),
        SlashCommand(
            name="copy",
            description="Copy the last response to the clipboard",
            run=copy,
            is_interactive=True,
        ),
        SlashCommand(
            name="keybindings",
            description="Show key bindings and where to customize them",
            run=keys,
            is_interactive=True,
            aliases=("keys",),
        ),
    ]


def last_answer(session: Session) -> str:
    history = session.story.history
    for at in range(len(history) - 1, -1, -1):
        if history[at].get("type") == "assistant" and (
            text := AssistantMessage(history[at]).text.strip()
        ):
            return text
    return ""


# Rows to paint of a resumed session: a few screens, but at least this many.
RECALLED_ROWS, RECALLED_SCREENS = 120, 5


async def run_session(front: TerminalFront, begun_with: Options | None) -> int | Options:
    """Run a session; return an exit code, or the options of the next session."""
    options = begun_with or Options()
    stage = front.stage
    control = front.remote = front.remote or RemoteControl(options.remote)
    stage.transcript = Transcript(
        front.screen.terminal.size[0], stage.theme, detect_abilities(os.environ)
    )
    dialogs = Dialogs(stage, lambda words: note(front, words))
    control.ask_here = dialogs.ask
    if options.resume == "":
        chosen_session = await picked(stage)
        if chosen_session is None:
            return 0
        options = replace(options, resume=chosen_session)
    is_new = is_first_start()
    async with open_session(
        options, os.environ, str(Path.cwd()), control.ask, entrypoint="cli"
    ) as session:
        then = await while_open(front, session, options, dialogs, control, is_new=is_new)
    for words in session.parting():
        note(front, words)
    front.screen.changed()
    return 1 if then == 0 and session.has_lost_entries else then


async def while_open(
    front: TerminalFront,
    session: Session,
    options: Options,
    dialogs: Dialogs,
    control: RemoteControl,
    *,
    is_new: bool,
) -> int | Options:
    dialogs.rules = session.rules
    dialogs.cwd = session.workspace.where
    dialogs.mode_before_plan = lambda: session.parts.planning.mode_before
    programs = Programs(session.workspace.cwd, session.rules.standing.environ)
    try:
        set_up(front, session, programs, options, control)
        greet(front, session)
        session.parts.store_copy.heard = partial(tell, front, session)
        if await settled(dialogs, session):
            return options  # reopen, because the new settings apply from the start of a session
        if session.model_access.lacks_key:
            from clew.fronts.terminal.first_run import show_ways

            await show_ways(session, lambda words: note(front, words))
        if is_new and await offer_sandbox(session, dialogs.sandbox):
            return options
        return await conversed(front, session, options, control)
    finally:
        front.talk, front.desk.files = None, None
        front.stage.agents.follow(None)
        # A hint about this session does not apply to the next.
        front.stage.hint("")
        await programs.aclose()
        if len(session.story.history) and session.story.recorder.is_kept:
            words = f"Resume this session with: clew --resume {session.session_id}"
            note(front, words, "quiet")
        for line in list_left_tasks(session):
            note(front, line, "quiet")


async def picked(stage: Stage) -> str | None:
    """Let the user pick the session to resume; return its file, or None if none is picked."""
    from clew.fronts.terminal.session_picker import SessionPicker

    cwd = Path.cwd()
    path = await SessionPicker(stage, find_config_home(os.environ, cwd), str(cwd)).pick()
    return None if path is None else str(path)


def note(front: TerminalFront, words: str, part: str = "notice") -> None:
    if front.stage.transcript is not None:
        front.stage.catch_up()
        front.screen.say(front.stage.transcript.note(words, part=part))


def color_of(session: Session) -> str:
    """Return the color that a host program gave the session, or an empty string."""
    side = {} if session.resumed is None else session.resumed.side.current
    return str(side.get("agent-color", {}).get("agentColor", ""))


def tell(front: TerminalFront, session: Session) -> None:
    """Tell the user about changes to the session's copy in a store, even while clew is idle."""
    for words in session.parts.store_copy.news():
        note(front, words)
    front.screen.changed()


def set_up(
    front: TerminalFront,
    session: Session,
    programs: Programs,
    options: Options,
    control: RemoteControl,
) -> None:
    """Apply the session's settings to the screen, and set up the status line and completion."""
    stage, settings = front.stage, session.rules.standing.settings
    front.accent = color_of(session)
    front.screen.obey(settings)
    front.recolor()
    stage.transcript = Transcript(
        front.screen.terminal.size[0],
        stage.theme,
        detect_abilities(os.environ),
        shows_agents=False,
        folders=Folders(cwd=session.workspace.cwd, home=os.environ.get("HOME", "")),
        is_verbose=options.verbose or read_switch(settings, "verbose") is True,
    )
    stage.agents.follow(session)
    keys = front.bindings.keys_of("chat:cycleMode")
    stage.status = Status(session, programs, cycle_key=keys[0] if keys else "")
    stage.status.remote = lambda: control.state
    stage.todos.key = next(iter(front.bindings.keys_of("app:toggleTodos")), "")
    stage.changed()
    session.commands.extend([*commands(front), make_command(control)])
    front.history.begin(session.session_id)
    front.desk.files = session.workspace.file_names
    stage.completion.known = CompletionSource(
        commands=lambda: [
            (command.name, command.hint, command.description)
            for command in collect_commands(session)
        ],
        aliases=lambda: {
            alias: command.name
            for command in collect_commands(session)
            for alias in command.aliases
        },
        arguments=lambda name: arguments(session, name),
        seek=lambda query: sought(session, query),
    )


async def sought(session: Session, query: CompletionWord) -> Sequence[str]:
    """Ask MCP servers to complete a word: a prompt's argument or the name of a resource."""
    if not session.parts.mcp.clients():
        return ()
    from clew.parts.mcp.completion import arguments_of, resources_of

    if query.kind == "argument":
        return await arguments_of(session.parts.mcp, query.command, query.before, query.word)
    return await resources_of(session.parts.mcp, query.word)


def arguments(session: Session, command: str) -> list[tuple[str, str]]:
    """Return the possible arguments of a command, each with a description."""
    match command:
        case "model":
            from clew.commands.slash.pages import name_models

            return name_models(session)
        case "permissions" | "allowed-tools":
            return [(word, "") for word in dict.fromkeys((*MODES.values(), "sandbox"))]
        case "help":
            return [(command.name, command.description) for command in collect_commands(session)]
        case "login" | "logout":
            from clew.commands.login import list_services

            return list_services(session.rules.standing.settings)
        case "mcp":
            return [(server.name, "") for server in session.parts.mcp.clients()]
    return []


def greet(front: TerminalFront, session: Session) -> None:
    """Say once which program this is, before it asks anything."""
    if not front.is_greeted:
        front.is_greeted = True
        where = at_home(session.workspace.cwd, os.environ.get("HOME", ""))
        note(front, f"clew {VERSION}, {session.model.name}, in {where}", "quiet")
        note(front, "/help for commands · ? for shortcuts", "quiet")


async def settled(dialogs: Dialogs, session: Session) -> bool:
    """Ask whether to trust the folder and whether to start its servers.

    Return whether the session has to be reopened.
    """
    standing = session.rules.standing
    places = standing.places
    if not standing.is_trusted and (pending := find_pending(session)):
        root = str(places.root.resolve())
        if not await dialogs.trust(at_home(root, os.environ.get("HOME", "")), pending):
            return False
        trust(places, root)
        return True
    choices = scopes.read(places)
    undecided = [e for e in session.parts.mcp.found.held if choices.says(e.name, e.value) is None]
    approved, is_decided = {}, False
    for entry in undecided if standing.is_trusted else ():
        answer = await dialogs.server(entry.name, reach_of(entry.value))
        is_decided = is_decided or answer is not None
        if answer is False:
            scopes.deny(places, [entry.name])
        elif answer:
            approved[entry.name] = entry.value
    if approved:
        scopes.approve(places, approved)
    return is_decided


def find_pending(session: Session) -> list[str]:
    """Describe, in lines, what an untrusted folder could do if the user trusted it."""
    if not session.rules.standing.inert and not session.parts.mcp.found.held:
        return []
    from clew.fronts.terminal.trust import list_pending

    return list_pending(session)


def keep_what_was_loaded() -> None:
    """Exclude the objects loaded so far from garbage collection.

    They are needed until exit, and scanning them could interrupt the output of a response.
    """
    gc.freeze()
    gc.enable()


async def conversed(
    front: TerminalFront, session: Session, options: Options, control: RemoteControl
) -> int | Options:
    """Show the notices for the start of the session, and run the session until it ends."""
    stage, screen = front.stage, front.screen
    assert stage.transcript is not None
    if front.is_first:
        front.is_first = False
        keep_what_was_loaded()
        if announcement := choose_announcement(session):
            note(front, announcement)
        if read_switch(session.rules.standing.settings, "updateNotice"):
            from clew.commands.update import find_notice

            if newer := find_notice(session.rules.standing.places.own):
                note(front, newer)
    else:
        goes_on = "Resumed session" if session.resumed is not None else "New session"
        note(front, f"── {goes_on} ──", "quiet")
    for fault in front.bindings.faults:
        note(front, f"keybindings.json: {fault}")
    for notice in session.notices:
        note(front, notice)
    if session.resumed is not None:
        rows = max(RECALLED_ROWS, RECALLED_SCREENS * screen.terminal.size[1])
        messages = session.resumed.messages
        screen.say(stage.transcript.history(messages, rows, session.tools.title))
    talk = front.talk = Talk(session, stage, screen, front.begin, control)
    if unsent := talk.offer_unsent():
        note(front, unsent)
    if front.code is not None:
        talk.end(front.code)
    if options.prompt:
        talk.send(SubmittedText(text=options.prompt))
    for queued in stage.queue.take_all():
        talk.send(queued.entry)
    talk.view.status.ask()
    async with control.during(session, talk):
        then = await talk.run()
    session.parts.hooks.ending.followed_by(then)
    return then if isinstance(then, int) else make_next_options(options, then)
