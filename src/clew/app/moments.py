"""Moments that only a front knows of and hooks are told: how a session ends, that a person is waited for."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from clew.commands.outcome import Clear, Resume
from clew.hooks.run import Hooks

IDLE = "messageIdleNotifThresholdMs"
IDLE_MS = 60_000
LEFT_AT_PROMPT = (0, 130)


class Ending:
    """Why a session ends, in the words that hooks know: `other`, unless who leads it knows better."""

    def __init__(self) -> None:
        self.reason = "other"

    def followed_by(self, then: object) -> None:
        """A command led into a new conversation or another one, or, as an exit code, a person has left."""
        match then:
            case Clear():
                self.reason = "clear"
            case Resume():
                self.reason = "resume"
            case int() if then in LEFT_AT_PROMPT:
                self.reason = "prompt_input_exit"


class Idle:
    """A person whom an answer waits for is told of to hooks, once, when nothing comes for a while."""

    def __init__(
        self,
        hooks: Hooks,
        settings: Callable[[], Mapping[str, Any]],
        touched_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`touched_s`: when something was typed last, by the monotonic clock."""
        self._hooks = hooks
        self._settings = settings
        self._touched_s = touched_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """An answer stands there."""
        self.end()
        if self._hooks.hears("Notification"):
            self._look_in(self._patience_s)

    def end(self) -> None:
        """The person has said something, or will not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _patience_s(self) -> float:
        wished = self._settings().get(IDLE)
        return (wished if type(wished) is int else IDLE_MS) / 1000

    def _look_in(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        left_s = self._touched_s() + self._patience_s - time.monotonic()
        if left_s > 0:
            self._look_in(left_s)
            return
        self._timer = None
        self._hooks.tell(
            "Notification",
            {
                "message": "clew is waiting for your input",
                "title": "Waiting for you",
                "notification_type": "idle_prompt",
            },
        )
