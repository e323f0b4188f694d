"""Key actions while a session is open: send, interrupt, exit, and the menus."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

from clew.agent.events import EngineEvent, FromAgent
from clew.commands.slash.tasks import describe_task
from clew.core.input import Clear, Resume
from clew.core.messages.errors import SettingsError, UserError
from clew.fronts.dialog import Choice
from clew.fronts.drive import Driver, Line
from clew.fronts.ends import INTERRUPTED
from clew.fronts.remote.control import RemoteControl, SharedView
from clew.fronts.remote.desk import SessionDesk
from clew.fronts.render.folding import lines_of
from clew.fronts.render.rows import Span, chop_spans, escape_controls, format_row, join_lines
from clew.fronts.render.transcript import render_page
from clew.fronts.terminal.agents import KIND
from clew.fronts.terminal.attached import AttachedAgent, handle_input
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.keys import Bindings
from clew.fronts.terminal.prompt import SubmittedText, as_submitted
from clew.fronts.terminal.screen import Screen
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.view import MANY, Begin, TerminalInput, TerminalView, as_typed
from clew.parts.hooks import Idle
from clew.permissions.request import Mode
from clew.session.session import Session

# Two presses within this time exit.
TWICE_S = 2.0
SESSION = "Entire session"
CYCLE: tuple[Mode, ...] = ("default", "acceptEdits", "plan", "auto")


class Talk(SessionDesk):
    """One open session, and the key actions that affect it."""

    def __init__(
        self,
        session: Session,
        stage: Stage,
        screen: Screen,
        begin: Begin,
        control: RemoteControl,
    ) -> None:
        self._session = session
        self._stage = stage
        self._screen = screen
        self._begin = begin
        self._input = TerminalInput(session, stage)
        self.view = TerminalView(session, stage, screen, begin, self._input)
        self.menus = SessionMenus(session, stage, screen, begin, self.view)
        idle = Idle(
            session.parts.hooks, lambda: session.rules.standing.settings, lambda: stage.typed_s
        )
        view = SharedView(self.view, control)
        self._driver = self.view.driver = Driver(session, self._input, view, idle=idle)
        self._asked_to_end_s = 0.0
        session.parts.agents.heard = self._hear
        session.parts.tasks.listeners.append(self._tasks_changed)
        session.parts.ide.listeners.append(screen.changed)
        session.parts.ide.mentioned.append(self._mentioned)

    @property
    def is_running(self) -> bool:
        return self._driver.is_working

    async def run(self) -> int | Clear | Resume:
        """Run the session; return an exit code, or the command that starts the next session."""
        then = await self._driver.run()
        if not isinstance(then, int):
            # The next session gets the messages that wait.
            for queued in self._stage.queue:
                self._input.take_back(queued)
        return then

    def offer_unsent(self) -> str:
        """Put messages that the last run did not send into the prompt.

        Return a notice about them.
        """
        left = self._input.waiting.left
        if not left:
            return ""
        self._stage.prompt.put_back(as_submitted(letter.content for letter in left))
        count = "1 message" if len(left) == 1 else f"{len(left)} messages"
        return f"Not sent before clew exited; now in the prompt: {count}"

    def send(self, entry: SubmittedText, *, later: bool = False) -> None:
        """Send a prompt to the running turn, or queue it for the next turn if `later`.

        If no turn runs, the prompt starts one.
        """
        if not self.is_running:
            self._input.send(entry)
        elif later:
            self._input.queue(entry)
            self._screen.changed()
        else:
            self._begin(self._driver.say(as_typed(entry)))

    def take_back(self) -> SubmittedText | None:
        """Withdraw the newest queued message and return it.

        Return None if there is none, or if the turn has already received it.
        """
        queued = self._stage.queue.take_last()
        if queued is None:
            return None
        return queued.entry if self._input.take_back(queued) else None

    def stop(self) -> bool:
        """Interrupt the running turn; return whether there was one."""
        if not self._driver.stop():
            return False
        if self._stage.working is not None:
            self._stage.working.is_stopping = True
        self._screen.changed()
        return True

    def interrupt(self, clear: Callable[[], object]) -> None:
        """Handle Ctrl-C: interrupt the turn, or else clear the prompt with `clear`.

        A second press within two seconds ends the session, even while the turn is still stopping.
        But while no turn runs, text in the prompt is cleared first: the user may have typed it
        since the first press.
        """
        now_s = time.monotonic()
        if not self.is_running and not self._stage.prompt.is_empty:
            self._asked_to_end_s = 0.0
            clear()
            return
        if self._asked_to_end_s and now_s - self._asked_to_end_s < TWICE_S:
            self.end(INTERRUPTED)
            return
        self._asked_to_end_s = now_s
        if not self.stop():
            self._stage.hint("Press Ctrl-C again to exit")

    def end(self, code: int) -> None:
        self._driver.end(code)

    def _mentioned(self, mention: str) -> None:
        """Insert a mention, which the user sent from the editor, into the prompt."""
        buffer = self._stage.prompt.buffer
        before = buffer.document.char_before_cursor
        buffer.insert_text(f"{' ' if before.strip() else ''}{mention} ")
        self._screen.changed()

    # -- viewers elsewhere

    @property
    def is_over(self) -> bool:
        return self._driver.is_over

    def receive(self, line: Line) -> None:
        self._driver.receive(line)

    def tell(self, words: str) -> None:
        self.view.say(words, part="notice")

    def changed(self) -> None:
        self._screen.changed()

    def _tasks_changed(self) -> None:
        if not self.is_running:
            self._input.wake()
        self._screen.changed()

    async def _hear(self, event: EngineEvent) -> None:
        self.menus.heed(event)
        await self._driver.hear(event)


class SessionMenus:
    """The key actions that open menus or switch modes. They send nothing to the model."""

    def __init__(
        self, session: Session, stage: Stage, screen: Screen, begin: Begin, view: TerminalView
    ) -> None:
        self._session = session
        self._stage = stage
        self._screen = screen
        self._begin = begin
        self._view = view
        # The subagent being viewed.
        self._attached: AttachedAgent | None = None

    def heed(self, event: EngineEvent) -> None:
        """Pass a subagent's event to the view of that subagent, if it is open."""
        if self._attached is not None and isinstance(event, FromAgent):
            self._attached.heed(event)

    def next_mode(self) -> None:
        """Switch to the next permission mode, skipping modes that are not allowed."""
        at = CYCLE.index(self._session.mode) if self._session.mode in CYCLE else -1
        for step in range(1, len(CYCLE)):
            try:
                self._session.parts.planning.change_mode(CYCLE[(at + step) % len(CYCLE)])
            except SettingsError:
                continue
            self._screen.changed()
            self._view.status.ask_soon()
            return

    def pick_model(self) -> None:
        self._begin(self._pick_model())

    async def _pick_model(self) -> None:
        from clew.fronts.terminal.models import pick_model

        try:
            notice = await pick_model(self._stage, self._session)
        except UserError as error:
            self._view.say(str(error), part="error")
        else:
            self._stage.hint(notice.text)

    def see_folded(self) -> None:
        """List the entire session and the collapsed output, newest first, and show one in full.

        If no output is collapsed, show the session.
        """
        names = list(reversed(self._view.transcript.folded))
        # The list numbers its rows itself.
        titles = [SESSION, *(name.partition(" ")[2] for name in names)]
        if not names:
            self._begin(self._show_session())
            return

        async def chosen(number: int) -> None:
            if number == 0:
                await self._show_session()
            else:
                await self._show(titles[number], self._view.transcript.unfold(names[number - 1]))

        self._choose("Show in full", [(title, "") for title in titles], chosen, at=1)

    async def _show_session(self) -> None:
        """Show the session with nothing collapsed, beginning with its last rows."""
        history = self._session.story.history
        messages = [history[at] for at in range(len(history))]
        rows = self._view.transcript.whole(messages, self._session.tools.title)
        if messages:
            await self._show(SESSION, rows, at_end=True)
        else:
            self._stage.hint("Nothing to show yet")

    def see_keys(self, bindings: Bindings) -> None:
        self._begin(self._see_keys(bindings))

    async def _see_keys(self, bindings: Bindings) -> None:
        from clew.fronts.terminal.viewer import Viewer, make_keys_page, view

        width = self._screen.terminal.size[0]
        rows = render_page(make_keys_page(bindings), self._stage.theme, width)
        # The title of the page is that of the viewer.
        await view(self._stage, Viewer("Keys", islice(rows, 2, None)))

    def leave_waited(self) -> None:
        """Move the commands and agents that the turn waits for to the background.

        If the turn waits for none, move the turn itself at its next step.
        """
        try:
            left = self._session.parts.tasks.leave()
        except UserError as error:
            self._stage.hint(str(error))
            return
        if left:
            titles = ", ".join(join_lines(task.title) for task in left)
            self._stage.hint(f"Moved to the background: {titles}")
        elif self._session.parts.agents.leaving.ask():
            self._stage.hint("This turn will move to the background at its next step")
        else:
            self._stage.hint("Nothing to move to the background")

    def toggle_todos(self) -> None:
        """Expand or collapse the pinned todo list."""
        if self._stage.todos.is_shown:
            self._stage.todos.toggle()
            self._screen.changed()
        else:
            self._stage.hint("No todo list")

    def see_tasks(self) -> None:
        """List the background tasks, and open the task that the user selects."""
        tasks = self._session.parts.tasks.newest_first()

        async def chosen(number: int) -> None:
            task = tasks[number]
            agent = self._session.parts.agents.running(task.id)
            if agent is not None and task.ending is None:
                titles = self._session.tools.title
                await self._attach(
                    AttachedAgent(self._stage, self._screen.flows, agent, task, titles)
                )
            else:
                tasks_now, stage = self._session.parts.tasks, self._stage
                self._view.say(await handle_input(task, tasks_now, stage, self._page))

        rows = [
            # The ID of an agent is long, and the user never types it here.
            (task.title if task.kind == KIND else f"{task.id} {task.title}", describe_task(task))
            for task in tasks
        ]
        self._choose("Background tasks", rows, chosen, "No background tasks")

    async def _attach(self, attached: AttachedAgent) -> None:
        self._attached = attached
        try:
            await attached.shown()
        finally:
            self._attached = None

    def _choose(
        self,
        title: str,
        rows: Sequence[tuple[str, str]],
        then: Callable[[int], Awaitable[None]],
        hint: str = "",
        *,
        at: int = 0,
    ) -> None:
        """Let the user choose from a list. Call `then` with the index of the choice.

        If the list is empty, show `hint` instead. `at` is the index of the row to select first.
        """
        if not rows:
            self._stage.hint(hint)
            return
        choices = [Choice(label=join_lines(label), hint=join_lines(hint)) for label, hint in rows]
        chooser = self._stage.show(Chooser(title, choices, searches=len(rows) > MANY, at=at))
        self._begin(self._chosen(chooser, then))

    async def _chosen(self, chooser: Chooser, then: Callable[[int], Awaitable[None]]) -> None:
        answer = await self._stage.answered(chooser)
        if answer is not None:
            await then(answer.chosen[0])
            self._screen.changed()

    async def _page(self, text: str) -> None:
        if not text:
            self._stage.hint("No output so far")
            return
        width = self._screen.terminal.size[0]
        rows = (
            format_row(row)
            for line in lines_of(text)
            for row in chop_spans([Span(escape_controls(line.expandtabs(8)))], width)
        )
        await self._show("Output", rows)

    async def _show(self, title: str, rows: Iterator[str], *, at_end: bool = False) -> None:
        """Show text as a page. Open it in the user's editor if the user asks for that."""
        from clew.fronts.terminal.viewer import Viewer, view

        viewer = Viewer(title, rows, edits=True, at_end=at_end)
        if not await view(self._stage, viewer):
            return
        from clew.fronts.terminal.other_programs import edit_text

        edited = await edit_text(self._screen, viewer.text, os.environ)
        if edited.trouble:
            self._stage.hint(edited.trouble)
