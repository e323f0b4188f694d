"""The session's title: the user's own, else a generated one, else the first prompt.

Owns the one request for a generated title. The request runs in parallel with a turn and never
delays it. If it fails, the session has no generated title. The title is text that a small model
wrote about the user's prompts, so it is data: shown and searched, never followed as instructions.
"""

import asyncio
from collections.abc import Callable

from clew.core.messages.history import History
from clew.core.messages.messages import UserMessage
from clew.parts.context import Ground, Thread
from clew.parts.part import Part
from clew.record.transcript import light
from clew.system.config.settings import read_switch

SYSTEM = (
    "You write titles for conversations. Reply to the user's request with only a title for it: "
    "three to seven words in the same language, like a heading, without a period or quotes."
)
# The maximum number of characters of the description, and of the title.
DESCRIBED_CHARACTERS, TITLE_CHARACTERS = 4_000, 100
# A greeting says nothing about the session, so the title waits for the next prompts.
FEWEST_CHARACTERS = 10
WAIT_S = 30.0


class SessionTitle(Part):
    """The session part for the title. `text` is empty before the first prompt."""

    name = "title"

    def __init__(self, ground: Ground, thread: Thread) -> None:
        self._ground = ground
        self._recorder = thread.recorder
        self._story = thread.story
        self._ask = thread.side.ask_model
        self._is_anthropics = ground.service.provider.endpoint_for(thread.model.id).is_default
        self._recorded = {} if thread.loaded is None else thread.loaded.side.current
        self._is_resumed = thread.loaded is not None
        self._first = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        return self._set("custom-title", "customTitle") or self._generated or self._first_prompt()

    def _set(self, kind: str, key: str) -> str:
        recorded = self._recorded.get(kind, {}).get(key)
        return self._recorder.titles.get(kind, recorded if isinstance(recorded, str) else "")

    @property
    def _generated(self) -> str:
        return self._set("ai-title", "aiTitle")

    def _first_prompt(self) -> str:
        if not self._first and self._is_resumed:
            # The history of a compacted session no longer contains the first prompt.
            outline = light.read_outline(self._recorder.transcript)
            self._first = (outline and outline.first_prompt) or ""
        if not self._first:
            self._first = next(iter(prompts(self._story.history, most=1)), "")
        return self._first

    def generate(self, titled: Callable[[], object] = bool) -> None:
        """Start generating a title, unless the session has one, or has already requested one.

        `titled` is called when the title has been set.
        """
        if self._task is not None or not self._is_wanted:
            return
        if self._set("custom-title", "customTitle") or self._generated:
            return
        described = "\n\n".join(prompts(self._story.history))[:DESCRIBED_CHARACTERS]
        if len(described) >= FEWEST_CHARACTERS:
            self._task = asyncio.create_task(self._write(described, titled), name="session title")

    @property
    def _is_wanted(self) -> bool:
        ground = self._ground
        if not ground.options.persists or ground.environment.switch("side_requests_disabled"):
            return False
        wanted = read_switch(ground.rules.standing.settings, "generateTitles")
        return self._is_anthropics if wanted is None else wanted

    async def _write(self, described: str, titled: Callable[[], object]) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                answer = await self._ask(described, system=SYSTEM, purpose="other")
        except TimeoutError:
            return
        title = as_title(answer) if isinstance(answer, str) else ""
        if title:
            self._recorder.generated_title(title)
            titled()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def as_title(answer: str) -> str:
    """Return a model's answer as a title: one short line without quotes."""
    return " ".join(answer.split())[:TITLE_CHARACTERS].strip("\"'")


def prompts(history: History, most: int = 5) -> list[str]:
    """Return the first prompts that the user typed."""
    texts: list[str] = []
    for entry in history:
        if entry.get("type") == "user" and (message := UserMessage(entry)).face == "typed":
            texts.append(message.text.strip())
            if len(texts) == most:
                break
    return texts
