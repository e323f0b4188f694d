"""Requests to models that cannot call tools: calls and results are sent as text.

The conversion is in `clew.core.stream.text_tools`.
"""

from collections import deque
from uuid import uuid4

from msgspec.structs import replace

from clew.core.json_object import Json
from clew.core.stream.text_tools import TextTools, to_text_messages, with_instructions
from clew.providers.base import Attempt, Failure, ModelRequest
from clew.providers.wrapped import WrappedAttempt


def in_text(request: ModelRequest) -> ModelRequest:
    """Return the request with its tools, calls and results as text."""
    tools = request.tools or []
    return replace(
        request,
        system=with_instructions(request.system, tools),
        messages=to_text_messages(request.messages),
        tools=None,
        tool_choice=None,
    )


class TextToolsAttempt(WrappedAttempt):
    """An attempt that converts fenced JSON in the answer to calls of these tools."""

    def __init__(self, attempt: Attempt, tools: list[Json]) -> None:
        super().__init__(attempt)
        names = frozenset(str(tool["name"]) for tool in tools)
        self._reader = TextTools(names, prefix=f"toolu_{uuid4().hex}_")
        self._ready: deque[Json] = deque()

    async def __anext__(self) -> Json | Failure:
        while not self._ready:
            event = await self._attempt.__anext__()
            if isinstance(event, Failure):
                return event
            self._ready.extend(self._reader.take(event))
        return self._ready.popleft()
