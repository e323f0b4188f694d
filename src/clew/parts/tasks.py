"""The session part for background tasks, including those of earlier runs.

Decision: docs/decisions/116-background-tasks.md
"""

import asyncio
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress

from clew.agent.tasks.registry import BackgroundTask, Tasks
from clew.core.messages.text import replace_unprintable
from clew.parts.background_tasks import COMMANDS, keep_ends
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.record.kept_commands import RecordFolder
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.record import Recorder

# How long to wait for tasks after the input has ended.
MOST_WAIT_S = 600.0
# How long clew waits before it says so.
SILENT_WAIT_S = 5.0
# How often it checks whether it may still wait.
CHECK_S = 1.0


class BackgroundTasks(Tasks, Part):
    """The background tasks of a session and its subagents, including those of earlier runs.

    `recorder_of` returns an agent's recorder, given the agent's ID.
    """

    name = "background tasks"

    def __init__(
        self, ground: Ground, thread: Thread, recorder_of: Callable[[str], Recorder | None]
    ) -> None:
        super().__init__()
        # Records of commands that continue without clew.
        self.shelf = RecordFolder(ground.began.places.own / "kept", thread.session_id)
        self._thread = thread
        self._secrets = ground.secrets
        wait_ms = ground.environment.number("wait_for_agents_ms")
        # How long `wait_for_news` waits; None if there is no limit.
        self.most_wait_s = MOST_WAIT_S if wait_ms is None else (wait_ms / 1000 or None)
        self._recorder_of = recorder_of
        self._opened = ExitStack()

    async def open(self, _: PartContext, /) -> None:
        self._opened.enter_context(keep_ends(self, self._recorder, self._secrets))
        if self._thread.loaded is not None:
            self._recall(self._thread.loaded)

    def _recorder(self, owner: str) -> Recorder | None:
        return self._recorder_of(owner) if owner else self._thread.recorder

    async def aclose(self) -> None:
        if self.shelf.is_used:
            from clew.parts.kept_commands import tidy_up

            tidy_up(self, self.shelf)
        self._opened.close()
        await super().aclose()

    @property
    def awaited(self) -> list[BackgroundTask]:
        """The conversation's running tasks that clew waits for after the input has ended.

        Kept commands, persistent monitors and schedules are not among them, because they
        are meant to continue running.
        """
        return [
            task
            for kind in ("agent", *COMMANDS)
            for task in self.working(kind)
            if not (task.is_kept or task.is_persistent)
        ]

    async def wait_for_news(
        self,
        stopping: asyncio.Event,
        *,
        may_wait: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> bool:
        """Wait until a task has news for the model, for a conversation whose input has ended.

        Subagents are awaited together, so that one turn receives all their results. Return whether
        there is news; there is none if `stopping` was set, no awaited task is running, the time
        limit has passed, or `may_wait` no longer allows it. `tell` receives what the user should
        know: which tasks clew waits for, and which end with it.
        """
        notice = asyncio.get_running_loop().call_later(
            SILENT_WAIT_S, lambda: tell(f"waiting for background tasks: {self._titles()}")
        )
        when = ""
        try:
            async with asyncio.timeout(self.most_wait_s), asyncio.TaskGroup() as group:
                waiting = group.create_task(self._news_arrived(may_wait))
                stopped = group.create_task(stopping.wait())
                await asyncio.wait([waiting, stopped], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                stopped.cancel()
        except TimeoutError:
            when = f" that still run after {self.most_wait_s:g} s"
        finally:
            notice.cancel()
        has_news = not stopping.is_set() and may_wait() and self.has_news()
        if not has_news and self.awaited:
            tell(f"stopping background tasks{when}: {self._titles()}")
        return has_news

    async def _news_arrived(self, may_wait: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        self.listeners.append(changed.set)
        try:
            while may_wait() and (self.working("agent") or (self.awaited and not self.has_news())):
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_S):
                        await changed.wait()
                changed.clear()
        finally:
            self.listeners.remove(changed.set)

    def _titles(self) -> str:
        titles = ", ".join(dict.fromkeys(task.title for task in self.awaited))
        return replace_unprintable(titles, mark="?")

    def _recall(self, loaded: LoadedSession) -> None:
        """Restore the background tasks of earlier runs of the session."""
        from clew.parts.past_commands import COPIED, PastCommands, of_original

        before = PastCommands(loaded.messages)
        original, copied = of_original(loaded)
        kept_ids: Container[str] = ()

        def goes_on(call_id: str) -> str:
            """Return a note if another session kept or started a command, else an empty string."""
            record = self.shelf.of_call(call_id)
            if record is not None:
                return f"the user kept it running in session {record.about.session_id}"
            return COPIED.format(original) if call_id in copied else ""

        if self.shelf.is_used:
            from clew.parts.kept_commands import adopt_commands

            kept_ids = adopt_commands(self, self.shelf, before.told, loaded, self._secrets)
        results = self._thread.recorder.paths.place.tool_results
        for task in before.left_behind(loaded, results, kept_ids, goes_on):
            self.remember(task)
