"""Plan mode as the model is told of it: when it begins, where the plan goes, and when it is over."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from clew.context.facts import Fact
from clew.messages.wording import tagged

Json: TypeAlias = dict[str, Any]

BEGUN, OVER = "plan_mode", "plan_mode_exit"
WORDS = (
    "Plan mode is on: look, and change nothing; calls that would change anything are refused. Work out "
    "what is to be done and write it as Markdown into {path}, the one file you may write. {exists} A "
    "plan says what will change, where and in which order, and how it will be checked."
)
# Whoever began the session says how to plan: what may be done, and where the plan goes, stay clew's to say.
FRAME = (
    "Plan mode is on: look, and change nothing; calls that would change anything are refused. The plan is "
    "written as Markdown into {path}, the one file you may write. {exists}\n\n{how}\n\nWhen the plan "
    "stands, ExitPlanMode, if you have it, asks whether to begin."
)
EXISTS = "It holds a plan already: read it first and go on from there."
OVER_WORDS = (
    "Plan mode is over: you may change what the permissions allow. The plan, if any, is in {path}."
)


def plan_fact(
    history: Iterable[Json], *, is_on: bool, path: str, exists: bool, how: str | None = None
) -> Fact | None:
    """What the model must hear of plan mode now; None where it knows. `how` to plan, if others say it."""
    if is_on == was_told(history):
        return None
    payload = {"planFilePath": path, "planExists": exists}
    if not is_on:
        return Fact(
            payload={"type": OVER, **payload}, rendered=reminder(OVER_WORDS.format(path=path))
        )
    words = (FRAME if how else WORDS).format(
        path=path, exists=EXISTS if exists else "It does not exist yet.", how=how
    )
    told = {"type": BEGUN, "reminderType": "full", "isSubAgent": False, **payload}
    return Fact(payload=told, rendered=reminder(words))


def reminder(words: str) -> tuple[str, ...]:
    return (tagged("system-reminder", f"\n{words}\n"),)


def was_told(history: Iterable[Json]) -> bool:
    """Whether the last that was said of plan mode is that it is on."""
    is_on = False
    for entry in history:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if isinstance(payload, dict) and payload.get("type") in (BEGUN, OVER):
            is_on = payload["type"] == BEGUN
    return is_on
