"""Prompt suggestions: the next prompt, guessed by the small model after a turn.

A suggestion never delays a turn: the next prompt cancels a pending one. There is no suggestion
after the first turn, after a failed turn, or in plan mode.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from clew.core.json_object import Json
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.config.environment import freeze
from clew.system.config.settings import read_switch

SYSTEM = (
    "You see the end of a conversation between a user and a coding agent. Write what the user will "
    "most likely ask for next, in the user's style and language, as one line of at most twelve words. "
    "Reply with that line only, or with NOTHING if no next request is likely."
)
TURNS, CHARACTERS, MOST = 6, 2_000, 200
LAST_WORDS_S = 10.0


class Suggestions:
    def __init__(self, session: Session, post: Callable[[Json], None]) -> None:
        self._session = session
        self._post = post
        self._turns = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def _is_wanted(self) -> bool:
        standing = self._session.rules.standing
        environment = freeze(standing.environ)
        if environment.text("prompt_suggestions") is not None:
            return environment.switch("prompt_suggestions")
        return bool(read_switch(standing.settings, "promptSuggestionEnabled"))

    def begin(self) -> None:
        """Start generating a suggestion after a successful turn."""
        self._turns += 1
        if self._turns > 1 and self._session.mode != "plan" and self._is_wanted:
            self._task = asyncio.create_task(self._guess(), name="prompt suggestion")

    def drop(self) -> None:
        """Cancel the suggestion, because the next prompt has arrived."""
        if self._task is not None:
            self._task.cancel()

    async def aclose(self, *, in_haste: bool) -> None:
        """Wait briefly for a pending suggestion, or cancel it at once if `in_haste`."""
        if self._task is None:
            return
        if in_haste:
            self._task.cancel()
        await asyncio.wait([self._task], timeout=LAST_WORDS_S)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _guess(self) -> None:
        session = self._session
        texts = list(islice(last_words(session.story.history), TURNS))
        answer = await session.model_access.ask(
            "\n\n".join(reversed(texts)), system=SYSTEM, purpose="other"
        )
        words = " ".join(answer.split())[:MOST] if isinstance(answer, str) else ""
        if words and words.strip(".\"'").upper() != "NOTHING":
            self._post(
                {
                    "type": "prompt_suggestion",
                    "suggestion": words,
                    "uuid": make_id(),
                    "session_id": session.session_id,
                }
            )


def last_words(history: Any) -> Iterator[str]:
    """Yield the text of each message in the conversation, labeled with its author, newest first."""
    for entry in reversed(list(history)):
        if (
            entry.get("isMeta")
            or entry.get("isVirtual")
            or entry.get("type") not in ("user", "assistant")
        ):
            continue
        content = entry["message"].get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        text = "\n".join(block["text"] for block in blocks if block.get("type") == "text").strip()
        if text:
            who = "The person" if entry["type"] == "user" else "The agent"
            yield f"{who}: {text[:CHARACTERS]}"
