"""One person answers one question at a time, whoever asks: a call, a server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.engine.deps import Question, Verdict

AskPerson: TypeAlias = Callable[[Question], Awaitable[Verdict]]


def one_at_a_time(ask: AskPerson) -> AskPerson:
    """A person has one pair of eyes: calls and servers ask one after the other."""
    lock = asyncio.Lock()

    async def asking(question: Question) -> Verdict:
        async with lock:
            return await ask(question)

    return asking
