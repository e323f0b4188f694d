"""Display hooks, which receive the model's text and may replace it before it is shown."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from clew.agent.deps import Emit
from clew.agent.events import EngineEvent
from clew.agent.hooks.run import SessionHooks
from clew.core.stream.events import BlockFinished, MessageStarted, TextDelta

Watch: TypeAlias = Callable[[Emit], Emit]


def watch_for_display(
    hooks: SessionHooks, watch: Watch, new_id: Callable[[], str], *, is_screen: bool
) -> Watch:
    def watched(emit: Emit) -> Emit:
        return Display(hooks, watch(emit), new_id(), is_screen=is_screen).emit

    return watched


class Display:
    """Passes on the events of one turn, with the model's text as changed by the display hooks.

    `is_screen` is true if the output is shown to the user.
    """

    def __init__(self, hooks: SessionHooks, emit: Emit, turn_id: str, *, is_screen: bool) -> None:
        self._hooks = hooks
        self._emit = emit
        self._turn_id = turn_id
        self._is_screen = is_screen
        self._is_heard = False
        self._message_id = ""
        self._index = 0

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case MessageStarted():
                self._is_heard = self._hooks.hears("MessageDisplay")
                self._message_id, self._index = str(event.message.get("id") or ""), 0
            case TextDelta() if self._is_heard and self._is_screen:
                return
            case BlockFinished() if self._is_heard and event.block.get("type") == "text":
                text = event.block["text"]
                display_text = await self._shown(text) if text else text
                if self._is_screen:
                    await self._emit(TextDelta(index=event.index, text=display_text))
                    event = replace(event, block=event.block | {"text": display_text})
            case _:
                pass
        await self._emit(event)

    async def _shown(self, text: str) -> str:
        fields = {
            "turn_id": self._turn_id,
            "message_id": self._message_id,
            "index": self._index,
            "final": True,
            "delta": text,
        }
        self._index += 1
        outcome = await self._hooks.fire("MessageDisplay", fields, self._emit)
        return text if outcome.shown is None else outcome.shown
