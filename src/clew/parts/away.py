"""A summary for a user who returns to a session: how long they were away, and what has changed.

The summary also contains the last state of the work. It is made only from the transcript and the
files, without a model. Quoted text is truncated, and each quotation is on its own line.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.agent.context.notebook import MemoryNotebook
from clew.core.json_object import Json
from clew.core.ledger.state import TodoItem
from clew.core.messages.messages import AssistantMessage, UserMessage
from clew.core.messages.text import format_count
from clew.record.transcript.loaded import LoadedSession

AWAY = "you were away for"

AWAY_S = 30 * 60.0
SHOWN_CHARACTERS = 160
SHOWN_NAMES = 5
# The maximum number of files changed by the session that are checked.
LOOKED_AT = 200


def summarise_absence(
    loaded: LoadedSession, todos: Sequence[TodoItem], notebook: MemoryNotebook, at: str
) -> tuple[str, ...]:
    """Return the summary for a resumed session as lines, or none if it was used recently."""
    away_s = _seconds_between(_last_at(loaded.messages), at)
    if away_s is None or away_s < AWAY_S:
        return ()
    return (f"{AWAY} {in_words(away_s)}", *_stood(loaded, todos, notebook))


def _stood(
    loaded: LoadedSession, todos: Sequence[TodoItem], notebook: MemoryNotebook
) -> Iterator[str]:
    last_prompt = _last(loaded.messages, "user")
    if last_prompt:
        yield f"your last prompt: {last_prompt}"
    last_answer = _last(loaded.messages, "assistant")
    if last_answer:
        yield f"the last answer ended with: {last_answer}"
    is_open = [todo for todo in todos if todo.status != "completed"]
    if is_open:
        yield f"{len(is_open)} of {len(todos)} tasks are open; next: {_cut(is_open[0].content)}"
    changed = _by_others(loaded.path)
    if changed:
        suffix = f" and {len(changed) - SHOWN_NAMES} more" if len(changed) > SHOWN_NAMES else ""
        names = ", ".join(changed[:SHOWN_NAMES])
        yield f"files changed since then outside this session: {names}{suffix}"
    waiting = len(notebook.proposals())
    if waiting:
        yield f"{format_count(waiting, 'proposed memory', 'proposed memories')}; run /memory review"


def _by_others(path: Path) -> list[str]:
    """Return the files that the session changed and that something else has changed since."""
    from clew.record.rewind.changes import compute_expected_states
    from clew.record.rewind.disk import read_state
    from clew.record.rewind.restore import steps_of

    try:
        expected = compute_expected_states(steps_of(path))
    except OSError:
        return []
    return [
        name
        for name, states in list(expected.items())[-LOOKED_AT:]
        if not any(read_state(name, None).same(state) for state in states)
    ]


def _last(messages: Sequence[Json], kind: str) -> str:
    """Return the user's last prompt, or the last line of the model's last text, shortened."""
    for message in reversed(messages):
        if message.get("type") != kind:
            continue
        if kind == "user":
            text = (
                user_message.text if (user_message := UserMessage(message)).face == "typed" else ""
            )
        else:
            text = AssistantMessage(message).text
        if text.strip():
            return _cut(text if kind == "user" else text.strip().split("\n")[-1])
    return ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"


def _last_at(messages: Sequence[Json]) -> Any:
    return messages[-1].get("timestamp") if messages else None


def _seconds_between(before: Any, after: str) -> float | None:
    try:
        times = [datetime.fromisoformat(str(moment)) for moment in (before, after)]
    except ValueError:
        return None
    start, other = (t if t.tzinfo is not None else t.replace(tzinfo=UTC) for t in times)
    return (other - start).total_seconds()


def in_words(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 120:
        return format_count(minutes, "minute")
    hours = minutes // 60
    return format_count(hours, "hour") if hours < 48 else format_count(hours // 24, "day")
