"""A session and the person in front of it: what is sent becomes a turn, an answer beside it, or its end.

Owns which turn runs and what waits for its end. What was said to a turn that ended unheard is answered
by the next; after a stop it goes back to the prompt, for then something else was meant.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, assert_never

from clew.agent.conversation import Speaker
from clew.agent.events import EngineEvent, FromAgent, Noticed, Recorded, Signalled, TurnEnded
from clew.agent.intake import Raw, Taken, Turn
from clew.commands.line import take_line
from clew.core.input import Clear, CompactSession, ExitSession, Pick, Resume, Rewound, Show
from clew.core.messages.errors import SettingsError, UserError
from clew.core.stream.events import TextDelta
from clew.fronts.render.markdown import get_ready
from clew.fronts.render.rows import Span, as_line, one_line, visible, wrapped
from clew.fronts.terminal.attached import AttachedAgent, dealt_with, standing
from clew.fronts.terminal.choosing import Choice, Chooser
from clew.fronts.terminal.first_run import FAREWELLS, INTERRUPTED
from clew.fronts.terminal.prompt import Queued, SubmittedText
from clew.fronts.terminal.screen import Screen
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.status import FRAMES_S, Working
from clew.parts.hooks import Idle
from clew.permissions.request import Mode
from clew.providers.answer_events import Asking
from clew.session.session import Session
from clew.system.clock import new_id

Begin: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
# Two presses within so long are one wish to end.
TWICE_S = 2.0
TITLE_CHARACTERS = 40
# More than that is searched by typing.
MANY = 9
# By then the request is on its way.
GET_READY_S = 0.05
# The person's own last line is asked for that long after a change, with whatever changes until then.
LOOK_AGAIN_S = 0.3
CYCLE: tuple[Mode, ...] = ("default", "acceptEdits", "plan", "auto")


class BackgroundNews:
    """Something in the background has something to say."""


class Talk:
    """One session; `run` ends with it."""

    def __init__(self, session: Session, stage: Stage, screen: Screen, begin: Begin) -> None:
        self._session = session
        assert stage.transcript is not None
        assert stage.status is not None
        self._stage = stage
        self._transcript = stage.transcript
        self._status = stage.status
        self._screen = screen
        self._begin = begin
        self._sent: asyncio.Queue[SubmittedText | Taken | BackgroundNews | None] = asyncio.Queue()
        self._code = 0
        self._then: Clear | Resume | None = None
        self._asked_to_end_s = 0.0
        self._is_stopped = False
        self._taking: asyncio.Task[Taken] | None = None
        # Words of the answer that came since they were last shown.
        self._words: list[TextDelta] = []
        self._attached: AttachedAgent | None = None
        # What is still to be said about the line that was sent.
        self._noticed: list[Noticed] = []
        self._idle = Idle(
            session.parts.hooks, lambda: session.rules.standing.settings, lambda: stage.typed_s
        )
        self._looking: asyncio.TimerHandle | None = None
        # Whether what reads answers was loaded, or is about to be.
        self._is_ready = False
        stage.catch_up = self._catch_up
        session.parts.agents.heard = self._hear
        session.parts.tasks.listeners.append(self._news)

    @property
    def is_running(self) -> bool:
        return self._stage.working is not None

    # -- what a person does

    def send(self, entry: SubmittedText, *, later: bool = False) -> None:
        """A line that was sent: for the next turn, or for the one that runs."""
        if entry.text.strip() in FAREWELLS:
            self.end(0)
        elif not self.is_running:
            self._sent.put_nowait(entry)
        elif later:
            self._wait_for_end(entry)
        else:
            self._begin(self._meanwhile(entry))

    def _wait_for_end(self, entry: SubmittedText) -> None:
        self._stage.queue.add(Queued(entry=entry))
        self._screen.changed()

    async def _meanwhile(self, entry: SubmittedText) -> None:
        """A line that was sent while a turn runs: its words are heard between two rounds."""
        taken = await take_line(self._session, raw(entry), self.emit)
        conversation = self._session.conversation
        if isinstance(taken, Turn) and conversation.is_running:
            uuid = new_id()
            conversation.say(taken.prompt, self._person(), uuid=uuid, context=taken.context)
            self._stage.queue.add(Queued(entry=entry, uuid=uuid, when="meanwhile"))
        elif isinstance(taken, Show):
            self._echo(entry)
            self._show(taken)
        elif isinstance(taken, ExitSession):
            self.end(0)
        else:
            self._sent.put_nowait(taken)
        self._screen.changed()

    def take_back(self) -> SubmittedText | None:
        """The newest of what waits, unless the turn has heard it already."""
        queued = self._stage.queue.take_last()
        if queued is None:
            return None
        is_unheard = not queued.uuid or self._session.conversation.take_back(queued.uuid)
        return queued.entry if is_unheard else None

    def stop(self) -> bool:
        """Ends the turn that runs; whether one did."""
        if not self.is_running:
            return False
        self._is_stopped = True
        if self._stage.working is not None:
            self._stage.working.is_stopping = True
        if self._taking is not None:
            self._taking.cancel()
        self._session.conversation.interrupt()
        self._screen.changed()
        return True

    def interrupt(self) -> None:
        """Ctrl-C: stops the turn; again, also while it still stops, ends the session."""
        now_s = time.monotonic()
        if self._asked_to_end_s and now_s - self._asked_to_end_s < TWICE_S:
            self.end(INTERRUPTED)
            return
        self._asked_to_end_s = now_s
        if self.stop():
            return
        if not self._stage.prompt.is_empty:
            self._stage.prompt.take()
            self._asked_to_end_s = 0.0
        else:
            self._stage.hint("Ctrl-C again ends clew")

    def end(self, code: int) -> None:
        self._code = code
        self._sent.put_nowait(None)
        if self._stage.dialog is not None:
            self._stage.dialog.press("escape")
        self.stop()

    # -- the order of things

    async def run(self) -> int | Clear | Resume:
        """An exit code, or what is to follow this session."""
        try:
            return await self._talked()
        finally:
            self._idle.end()

    async def _talked(self) -> int | Clear | Resume:
        offer = self._session.parts.compaction.offer()
        if offer is not None and (line := await self._picked(offer)):
            await self._heed(await self._taken(SubmittedText(text=line)), None)
        while (sent := await self._next()) is not None:
            if isinstance(sent, BackgroundNews):
                if self._session.parts.agents.has_news:
                    await self._heard_out(self._session.conversation.answer_unheard(self.emit))
                continue
            entry = sent if isinstance(sent, SubmittedText) else None
            taken = await self._taken(sent) if isinstance(sent, SubmittedText) else sent
            if not await self._heed(taken, entry):
                break
        return self._code if self._then is None else self._then

    async def _next(self) -> SubmittedText | Taken | BackgroundNews | None:
        if self._sent.empty() and (waiting := self._stage.queue.next()) is not None:
            return waiting
        return await self._sent.get()

    async def _taken(self, entry: SubmittedText) -> Taken:
        """What a line comes to; a line for the shell takes its time, and can be stopped."""
        self._begin_work()
        try:
            async with asyncio.TaskGroup() as group:
                self._taking = group.create_task(take_line(self._session, raw(entry), self._noting))
        finally:
            taking, self._taking = self._taking, None
            self._stage.working = None
        assert taking is not None
        # What a command ended, /tasks stop, may have been told of while it ran; or it set something.
        self._news()
        if entry.text.startswith("/"):
            self._screen.obey(self._session.rules.standing.settings)
            self._begin(self.look_again())
        return Show(text="[stopped]") if taking.cancelled() else taking.result()

    async def _noting(self, event: EngineEvent) -> None:
        """What is to be said about a line stands below it."""
        if isinstance(event, Noticed):
            self._noticed.append(event)
        else:
            await self.emit(event)

    async def _heed(self, taken: Taken, entry: SubmittedText | None) -> bool:
        """Does what a line comes to; False when the session ends with it."""
        match taken:
            case Turn():
                await self._turn(taken, entry)
            case CompactSession():
                self._echo(entry)
                ended = await self._heard_out(self._session.conversation.compact(taken, self.emit))
                if taken.undo and not ended.is_error:
                    self._note(ended.message)
            case Show():
                self._echo(entry)
                self._show(taken)
            case Pick():
                await self._pick(taken)
            case Rewound():
                self._echo(entry)
                self._note(taken.text)
                if taken.prompt:
                    self._stage.prompt.put_back(SubmittedText(text=taken.prompt))
            case Clear() | Resume():
                self._then = taken
                return False
            case ExitSession():
                return False
            case _:
                assert_never(taken)
        return True

    async def _pick(self, pick: Pick) -> None:
        """A list to choose from; what is chosen is the next line."""
        if pick.of:
            await self._pick_session(everywhere=pick.of == "all sessions")
        elif line := await self._picked(pick):
            self._sent.put_nowait(SubmittedText(text=line))

    async def _pick_session(self, *, everywhere: bool) -> None:
        from clew.fronts.terminal.session_picker import SessionPicker

        session = self._session
        home = session.rules.standing.places.config_home
        picker = SessionPicker(self._stage, home, session.workspace.cwd, without=session.session_id)
        if found := await picker.pick(everywhere=everywhere):
            self._sent.put_nowait(SubmittedText(text=f"/resume {found}"))

    async def _picked(self, pick: Pick) -> str:
        """The line that does what was chosen; empty for nothing."""
        style = self._stage.theme[""]

        def text(width: int) -> list[str]:
            return [as_line(row) for row in wrapped([Span(visible(pick.text), style)], width)]

        choices = [Choice(label=one_line(row.label)) for row in pick.rows]
        body = text if pick.text else (lambda _: ())
        chooser = Chooser(pick.title, choices, body=body, searches=len(choices) > MANY, at=pick.at)
        answer = await self._stage.answered(self._stage.show(chooser))
        return "" if answer is None else pick.rows[answer.chosen[0]].line

    async def _turn(self, turn: Turn, entry: SubmittedText | None) -> None:
        # A line for the shell stands already above what it printed.
        self._echo(None if entry is not None and entry.text.startswith("!") else entry)
        await self._heard_out(
            self._session.conversation.submit(
                turn.prompt, self.emit, said_by=self._person(), context=turn.context
            ),
            title=entry.text if entry is not None else "",
        )

    async def _heard_out(self, turn: Coroutine[Any, Any, TurnEnded], title: str = "") -> TurnEnded:
        """Runs a turn, and what was said to it and not heard in it as the next."""
        conversation = self._session.conversation
        ended = await self._worked(turn, title)
        while conversation.has_unheard and not self._is_stopped:
            await self._worked(conversation.answer_unheard(self.emit))
        if self._is_stopped:
            self._give_back()
        return ended

    async def _worked(self, turn: Coroutine[Any, Any, TurnEnded], title: str = "") -> TurnEnded:
        """Runs a turn with everything that shows that one runs."""
        self._begin_work()
        began_s = time.monotonic()
        if title:
            self._screen.terminal.title(f"clew: {one_line(title)[:TITLE_CHARACTERS]}")
        try:
            ended = await turn
        finally:
            self._stage.working = None
        # Who says no to a question, and nothing else, has stopped the turn.
        self._is_stopped |= ended.reason == "denied_and_stopped"
        self._tell(ended)
        self._screen.changed()
        if not self._is_stopped:
            lasted_s = time.monotonic() - began_s
            self._screen.terminal.notify("clew has ended its turn", waited_s=lasted_s)
        self._status.look()
        self._idle.begin()
        # The model may have changed a setting, or somebody the files.
        self._screen.obey(self._session.rules.standing.settings)
        self._begin(self.look_again())
        return ended

    def _begin_work(self) -> None:
        self._is_stopped = False
        self._idle.end()
        self._stage.working = Working(time.monotonic())
        self._tick()

    def _tick(self) -> None:
        """Draws while a turn runs, though nothing comes: the time goes on."""
        if self._stage.working is not None:
            self._screen.flows()
            asyncio.get_running_loop().call_later(FRAMES_S, self._tick)

    def _give_back(self) -> None:
        """What was not heard before a stop may be written anew."""
        for queued in reversed(self._stage.queue.take_all()):
            if not queued.uuid or self._session.conversation.take_back(queued.uuid):
                self._stage.prompt.put_back(queued.entry)

    def _look_soon(self) -> None:
        """What the person's own last line may tell has changed; of much at once it hears once."""
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(LOOK_AGAIN_S, self._look_now)

    def _look_now(self) -> None:
        self._looking = None
        self._begin(self.look_again())

    async def look_again(self) -> None:
        if await self._status.ask():
            self._screen.changed()

    # -- what a person looks at or changes beside it

    def next_mode(self) -> None:
        """Shift-Tab: the modes in turn, those that this process may not be in left out."""
        at = CYCLE.index(self._session.mode) if self._session.mode in CYCLE else -1
        for step in range(1, len(CYCLE)):
            try:
                mode = self._session.rules.set_mode(CYCLE[(at + step) % len(CYCLE)])
            except SettingsError:
                continue
            self._stage.hint(f"mode {mode}")
            self._look_soon()
            return

    def pick_model(self) -> None:
        names = sorted(self._session.model_access.speaking.catalog.aliases.items())
        rows = [(name, model) for name, model in names]

        async def chosen(number: int) -> None:
            try:
                await self._session.model_access.switching.to(names[number][0])
            except UserError as error:
                self._note(str(error), part="error")

        now_is = self._session.model.id
        at = next((n for n, (_, model) in enumerate(rows) if model == now_is), 0)
        self._choose("The model from the next prompt on", rows, chosen, at=at)

    def see_folded(self) -> None:
        """What was shown in part, the newest first, in the pager."""
        names = list(reversed(self._transcript.folded))

        async def chosen(number: int) -> None:
            await self._page("\n".join(self._transcript.see(names[number])))

        self._choose("See in whole", [(name, "") for name in names], chosen)

    def leave_waited(self) -> None:
        """The turn goes on without the commands and agents it waits for; where it waits for none, the
        turn itself goes on in the background."""
        try:
            left = self._session.parts.tasks.leave()
        except UserError as error:
            self._stage.hint(str(error))
            return
        if left:
            titles = ", ".join(one_line(task.title) for task in left)
            self._stage.hint(f"in the background: {titles}")
        elif self._session.parts.leaving.ask():
            self._stage.hint("in the background from the next step on: this turn")
        else:
            self._stage.hint("nothing runs that could go on in the background")

    def see_tasks(self) -> None:
        """What runs in the background, and what one of them said."""
        tasks = self._session.parts.tasks.newest_first()

        async def chosen(number: int) -> None:
            task = tasks[number]
            agent = self._session.parts.agents.agents.get(task.id)
            if agent is not None and task.ending is None:
                titles = self._session.tools.title
                await self._attach(
                    AttachedAgent(self._stage, self._screen.flows, agent, task, titles)
                )
            else:
                tasks_now, stage = self._session.parts.tasks, self._stage
                self._note(await dealt_with(task, tasks_now, stage, self._page))

        rows = [(f"{task.id} {task.title}", standing(task)) for task in tasks]
        self._choose("Background tasks", rows, chosen)

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
        *,
        at: int = 0,
    ) -> None:
        """A list that a key opens; nothing where there is nothing to choose."""
        if not rows:
            self._stage.hint(f"{title.lower()}: nothing")
            return
        choices = [Choice(label=one_line(label), hint=one_line(hint)) for label, hint in rows]
        chooser = self._stage.show(Chooser(title, choices, searches=len(rows) > MANY, at=at))
        self._begin(self._chosen(chooser, then))

    async def _chosen(self, chooser: Chooser, then: Callable[[int], Awaitable[None]]) -> None:
        answer = await self._stage.answered(chooser)
        if answer is not None:
            await then(answer.chosen[0])
            self._screen.changed()

    async def _page(self, text: str) -> None:
        from clew.fronts.terminal.other_programs import paged

        if trouble := await paged(self._screen, text, os.environ):
            self._stage.hint(trouble)

    def _news(self) -> None:
        if not self.is_running:
            self._sent.put_nowait(BackgroundNews())
        self._screen.changed()

    async def _hear(self, event: EngineEvent) -> None:
        """What agents do is shown while a turn runs; nobody is disturbed at the prompt."""
        if self._attached is not None and isinstance(event, FromAgent):
            self._attached.heed(event)
        if self._session.conversation.is_running:
            await self.emit(event)

    # -- what is shown

    async def emit(self, event: EngineEvent) -> None:
        if isinstance(event, TextDelta):
            self._words.append(event)
            self._screen.flows()
            return
        self._catch_up()
        if isinstance(event, Signalled):
            # Written as it is: of all that a hook may say, only such signals come this way.
            self._screen.terminal.write(event.sequence)
        if isinstance(event, Recorded):
            self._heard(event)
            self._look_soon()
        if isinstance(event, Asking) and not self._is_ready:
            # While the service thinks, not between two words of its answer.
            self._is_ready = True
            asyncio.get_running_loop().call_later(GET_READY_S, self._get_ready)
        self._tell(event)

    def _get_ready(self) -> None:
        """On a thread, so that what is typed meanwhile is seen at once."""
        self._begin(asyncio.to_thread(get_ready))

    def _catch_up(self) -> None:
        """Words come faster than they are drawn: what came between two frames is read as one."""
        words, self._words = self._words, []
        if words:
            text = "".join(delta.text for delta in words)
            self._tell(TextDelta(index=words[-1].index, text=text))

    def _tell(self, event: EngineEvent | TurnEnded) -> None:
        if self._stage.working is not None and not isinstance(event, TurnEnded):
            self._stage.working.heed(event, time.monotonic())
        self._screen.say(self._transcript.feed(event))

    def _heard(self, event: Recorded) -> None:
        for entry in event.entries:
            queued = self._stage.queue.heard(str(entry.get("uuid")))
            if queued is not None:
                self._screen.say(self._transcript.prompt(queued.entry.text))

    def _echo(self, entry: SubmittedText | None) -> None:
        """What was typed, above what it comes to."""
        self._catch_up()
        if entry is not None:
            self._screen.say(self._transcript.prompt(entry.text))
            self._screen.changed()
        noticed, self._noticed = self._noticed, []
        for event in noticed:
            self._tell(event)

    def _show(self, shown: Show) -> None:
        self._note(shown.text, part="error" if shown.is_error else "")

    def _note(self, text: str, part: str = "quiet") -> None:
        self._catch_up()
        if text:
            self._screen.say(self._transcript.note(text, part=part))
            self._screen.changed()

    def _person(self) -> Speaker:
        return Speaker(source="typed", mode=self._session.mode, origin={"kind": "human"})


def raw(entry: SubmittedText) -> Raw:
    return Raw(text=entry.text, pasted=entry.meant, by_person=True)
