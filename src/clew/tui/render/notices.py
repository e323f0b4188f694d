"""What the engine reports beside words and calls, in a sentence each. Pure."""

from collections.abc import Iterator
from typing import Any

from clew.engine.events import (
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    NotCompacted,
    Noticed,
    NotSaved,
    Recorded,
    Repaired,
    TurnEnded,
)
from clew.hooks.progress import HookStarted
from clew.messages.messages import User
from clew.normalize.repairs import in_words
from clew.providers.answer_events import FellBack, Held, Retrying, Waiting, Withdrawn
from clew.tasks.notice import for_person
from clew.tui.render.safe import one_line

NEWS_CHARACTERS = 200
# A person ended these.
STOPPED: dict[str, str] = {
    "aborted_streaming": "[stopped]",
    "aborted_tools": "[stopped]",
    "denied_and_stopped": "[stopped, as you said no]",
    "left": "[goes on in the background]",
}
# Their messages say all there is.
_SAID = frozenset({"api_error", "failed"})


def words(event: EngineEvent) -> Iterator[str]:
    """Nothing for an event that people need not read about."""
    match event:
        case Retrying():
            yield f"({event.failure.message}; trying again in {event.delay_s:.0f} s)"
        case Held():
            yield f"(waiting {event.delay_s:.0f} s, as the service asked)"
        case FellBack():
            yield f"({event.failure.message}; asking {event.model} instead)"
        case Withdrawn():
            yield "(the answer above was broken off; it begins anew)"
        case HookStarted() if event.status:
            yield f"({event.status})"
        case NotSaved() | Noticed():
            yield from (f"! {message}" for message in event.messages)
        case Recorded():
            yield from filter(None, map(news, event.entries))
        case Compacting():
            yield "(the conversation is being summarised)"
        case Compacted():
            yield f"-- summarised: {event.message}"
        case NotCompacted(trigger="auto"):
            yield f"! not summarised: {event.message}"
        case Repaired():
            mended = in_words(event.repairs)
            if mended:
                yield f"! {mended}"
        case Doubted():
            yield f"! {doubted(event)}"


def news(entry: dict[str, Any]) -> str:
    """What the model is told of work beside the conversation, for who wonders why it answers."""
    if entry.get("type") != "user" or not (told := User(entry)).is_news:
        return ""
    return f"* {one_line(for_person(told.text))[:NEWS_CHARACTERS]}"


def waiting(event: Waiting) -> str:
    return f"(no answer for {event.silent_s:.0f} s; given up at {event.limit_s:.0f} s)"


def doubted(event: Doubted) -> str:
    """A request that the service would refuse, and whether it was sent."""
    faults = "; ".join(f"{v.where}: {v.what}" for v in event.violations[:3])
    what = "not sent" if event.is_held else "sent all the same"
    return f"{what}; by the rules the service would refuse it: {faults}"


def closing(ended: TurnEnded) -> str:
    if ended.reason in STOPPED:
        return STOPPED[ended.reason]
    if not ended.is_error:
        return ""
    what = ended.reason.replace("_", " ")
    if not ended.message:
        return f"[{what}]"
    return f"[{ended.message}]" if ended.reason in _SAID else f"[{what}: {ended.message}]"
