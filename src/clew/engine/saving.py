"""Before something leaves or is done: everything said so far is on disk, or people are told why not."""

from clew.engine.deps import Deps, Emit
from clew.engine.events import NotSaved


async def saved(deps: Deps, emit: Emit) -> None:
    """Everything said so far is durable; where it cannot be, that is told once, and when it is again."""
    await deps.story.durable()
    if news := deps.story.recorder.news():
        await emit(NotSaved(messages=news))
