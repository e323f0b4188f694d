"""The session part for background tasks, including those of earlier runs.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Callable, Container
from contextlib import ExitStack

from clew.agent.tasks.registry import Tasks
from clew.parts.background_tasks import keep_ends
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.record.kept_commands import RecordFolder
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.record import Recorder


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
                return f"the user kept it in session {record.about.session_id}"
            return COPIED.format(original) if call_id in copied else ""

        if self.shelf.is_used:
            from clew.parts.kept_commands import adopt_commands

            kept_ids = adopt_commands(self, self.shelf, before.told, loaded, self._secrets)
        results = self._thread.recorder.paths.place.tool_results
        for task in before.left_behind(loaded, results, kept_ids, goes_on):
            self.remember(task)
