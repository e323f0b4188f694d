"""The two memory parts of a session: memories that it receives, and memories that it saves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clew.agent.context.facts import Fact
from clew.agent.context.nearby import Nearby
from clew.agent.context.opening import Opening
from clew.agent.intake import find_memory_folder
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.context import Ground
from clew.parts.hooks import NESTED, report_loaded
from clew.parts.part import Part, PartContext
from clew.parts.toolset import is_lasting
from clew.system.clock import make_id
from clew.system.config.flags import is_feature_on
from clew.system.config.settings import read_switch, read_text

if TYPE_CHECKING:
    from clew.parts.memory.dreaming import Dreamer

# How long the end of a session waits for the extraction of memories.
LAST_S = 60.0


class MemoryPart(Part):
    """Sends instructions and memories with the first prompt, and more when calls touch files."""

    name = "memory"
    _context: PartContext
    _nearby: Nearby

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._reads_nested = not ground.options.is_bare
        self.opening = Opening(
            ground.launcher,
            cwd=Path(ground.cwd),
            environ=ground.environ,
            folders=ground.began.context.directories,
            gate=ground.gate,
            nonce=make_id()[:8],
            has_memory=not ground.options.is_bare,
            has_structure=bool(read_switch(ground.began.settings, "includeDirectoryStructure")),
            memories=memories_of(ground),
        )

    async def open(self, context: PartContext, /) -> None:
        ground, story = self._ground, context.thread.story
        self._context = context
        self._nearby = Nearby(ground.environ, Path(ground.cwd), ground.gate, story.history)
        story.when_another(self._nearby.begin_again)

    def after(self, results: Sequence[Json], /) -> list[Fact]:
        if not self._reads_nested:
            return []
        facts = self._nearby.beside(results)
        report_loaded(self._context.hooks, facts, NESTED)
        return facts

    async def refresh(self) -> tuple[str, ...]:
        return self._ground.gate.news()

    async def aclose(self) -> None:
        await self.opening.aclose()


def memories_of(ground: Ground) -> Path | None:
    """Return the project's memory folder, and allow the model to read it.

    Return None if memory is disabled or the user's files are not used.
    """
    if not is_feature_on("memory", ground.began.settings, ground.environment):
        return None
    if "user" not in ground.began.sources:
        return None
    folder = find_memory_folder(ground.began.places)
    ground.rules.reads_memory_in(folder)
    return folder


class Remembering(Part):
    """Saves memories from a session: extracts them at its end, and tidies them while it is idle."""

    name = "remembering"
    _context: PartContext

    def __init__(self, ground: Ground) -> None:
        settings, options = ground.began.settings, ground.options
        self._extracts = bool(read_switch(settings, "memoryExtraction")) and not options.is_bare
        self._dream_after = read_text(settings, "dreamAfter") if is_lasting(options) else None
        self._said_before: int | None = None
        self._dreamer: Dreamer | None = None

    async def open(self, context: PartContext, /) -> None:
        self._context = context
        self._said_before = context.thread.story.said
        if self._dream_after is not None:
            self._dream(context)

    def _dream(self, context: PartContext) -> None:
        """Arrange for the project's memories to be tidied once the session is idle."""
        from clew.parts.memory.dreaming import Dreamer, read_idle_s
        from clew.parts.memory.remembering import notebook_of

        quiet_s = read_idle_s(self._dream_after)
        if not quiet_s:
            return
        conversation, story = context.conversation, context.thread.story
        self._dreamer = Dreamer(
            notebook_of(context.ground.rules.standing.places),
            context.tool_session.background.tasks,
            context.thread.side.ask_model,
            session_id=context.thread.session_id,
            is_busy=lambda: conversation.is_running,
            moves=lambda: story.said,
        )
        self._dreamer.begin(quiet_s)

    async def aclose(self) -> None:
        if self._dreamer is not None:
            await self._dreamer.aclose()
        if self._extracts and self._said_before is not None:
            await self._extract(self._said_before)

    async def _extract(self, said_before: int) -> None:
        """Propose memories from the session, if this run added messages."""
        context = self._context
        if context.thread.story.said <= said_before:
            return
        from clew.parts.memory.remembering import propose_memos

        with contextlib.suppress(UserError, OSError, TimeoutError):
            # The user has left, so a failure could not be handled.
            async with asyncio.timeout(LAST_S):
                await propose_memos(
                    context.thread.story,
                    context.thread.side.ask_model,
                    context.ground.rules.standing.places,
                    context.thread.session_id,
                )
