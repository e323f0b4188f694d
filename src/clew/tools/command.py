"""A command while it runs, as the work of a task: waited for, or beside the conversation.

Owns its way from one to the other, and how it is kept when clew ends. How it is shown is not said here.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from clew.config.mask import without
from clew.config.there import is_there
from clew.messages.errors import UserError
from clew.process.output import Output
from clew.process.run import Finished, Hold, run
from clew.sandbox.walled import Walled
from clew.tasks.registry import Ending, Task
from clew.tools import spill
from clew.tools.base import ToolContext
from clew.tools.sandboxed import held_back, walled
from clew.tools.shell_script import Program, environment, how_it_ended

# A server's log in a forgotten background must not fill a disk.
FILE_MAX_BYTES = 64 << 20
CALLED_OFF = "the person ended it"
UNSEEN = "nobody saw how it ended"
UNWATCHED = (
    "(What watched it was killed. The person kept it, so it runs on, and what it prints still comes; nobody "
    "will see how it ends. TaskStop ends it.)"
)


def file_of(ctx: ToolContext, task_id: str) -> Path:
    return ctx.session.spill_folder / f"task-{task_id}.txt"


class Command:
    """`work` runs it to its end; stopping the task ends the whole tree. `finished` and `made` are how
    it ended and behind which walls, once it has."""

    def __init__(
        self,
        program: Program,
        output: Output,
        ctx: ToolContext,
        *,
        errors: Output | None = None,
        timeout_ms: int | None = None,
        tick: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.finished: Finished | None = None
        self.made: Walled | None = None
        self._program = program
        self._output = output
        self._errors = errors
        self._timeout_ms = timeout_ms
        self._tick = tick
        self._ctx = ctx
        self._folder = ctx.session.cwd
        self._variables = environment(ctx)
        self._hold = Hold()
        # What is said of it once it has ended: some of it is said once only.
        self._held_back: tuple[str, str] | None = None

    async def work(self, task: Task) -> Ending:
        session, errors, timeout_ms = self._ctx.session, self._errors, self._timeout_ms
        task.keeping = self
        self._hold.when_unwatched = lambda: session.tasks.say(task, UNWATCHED)
        if task.is_background:
            # There from the beginning, so that it can be read while it grows.
            self._output.save()

        async def tick() -> None:
            if self._tick is not None and not task.is_background:
                await self._tick()

        program, folder, variables = self._program, self._folder, self._variables
        try:
            with program.opened() as (argv, descriptors):
                async with walled(
                    session.sandbox,
                    program.text,
                    argv,
                    folder,
                    variables,
                    is_confined=self._ctx.is_confined,
                ) as made:
                    self.made = made
                    self.finished = finished = await run(
                        session.launcher,
                        made.argv,
                        cwd=folder,
                        env=made.environment,
                        stdout=self._output,
                        stderr=errors,
                        descriptors=descriptors | made.descriptors,
                        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
                        tick=None if self._tick is None else tick,
                        walls=made.walls,
                        hold=self._hold,
                    )
        finally:
            self._hold.over()
            if task.is_background:
                blank(self._output, session.secrets)
        if finished.is_unseen and session.shelf is not None:
            finished = replace(finished, called_off=session.shelf.was_called_off(task.id))
        ending = ending_of(finished, timeout_ms, errors)
        return replace(ending, words="\n".join(filter(None, (ending.words, self.held_back()[0]))))

    def held_back(self) -> tuple[str, str]:
        """A sentence about what the walls held back, once it has failed, and of that what it may do
        without them if a user says so."""
        finished, made, session = self.finished, self.made, self._ctx.session
        if (
            finished is None
            or made is None
            or not (finished.exit.code or made.refused or made.told)
        ):
            return "", ""
        texts = [bytes(each.head) + each.tail for each in (self._output, self._errors) if each]
        text = without(b"\n".join(texts).decode("utf-8", "replace"), session.secrets)
        failed = self._program.text if finished.exit.code else ""
        if self._held_back is None:
            self._held_back = held_back(session.sandbox, text, made, self._folder, failed=failed)
        return self._held_back

    # -- from being waited for to the background

    def settle(self) -> str:
        """Goes on beside the conversation, for as long as it likes; the id of its task."""
        session, output = self._ctx.session, self._output
        task_id = session.tasks.new_id("shell", lambda name: is_there(file_of(self._ctx, name)))
        output.move(file_of(self._ctx, task_id))
        output.save()
        output.file_max_bytes = max(output.saved_bytes, FILE_MAX_BYTES)
        self._hold.lift_limit()
        return task_id

    # -- without clew

    async def keep(self, task: Task) -> None:
        session = self._ctx.session
        if session.shelf is None:
            raise UserError("nothing of this session goes on without clew")
        await session.shelf.put(
            task.id,
            self._hold,
            self._output,
            kind=task.kind,
            title=without(task.title, session.secrets),
            command=without(self._program.text, session.secrets),
            cwd=self._folder,
            tool_use_id=task.tool_use_id,
        )
        self._hold.lift_limit()

    def give_up(self) -> None:
        self._hold.give_up()


def blank(output: Output, secrets: tuple[str, ...]) -> None:
    """No secret stays in the file of an output."""
    if output.saved_at is not None:
        with suppress(OSError):
            spill.blank(output.saved_at, secrets)


def ending_of(
    finished: Finished, timeout_ms: int | None = None, errors: Output | None = None
) -> Ending:
    if finished.called_off:
        return Ending(status="stopped", words=CALLED_OFF, exit_code=finished.exit.code)
    if finished.is_unseen:
        return Ending(status="stopped", words=UNSEEN)
    words = how_it_ended(finished, timeout_ms)
    said = bytes(errors.head).decode("utf-8", "replace").strip() if errors is not None else ""
    return Ending(
        status="failed" if words else "completed",
        words="\n".join(filter(None, [words, said])),
        exit_code=finished.exit.code,
    )
