"""Describe, for the user, tool results whose own text is written for the model.

The descriptions are made from the fields that the transcript keeps for programs, so that a resumed
session shows the same text. A result whose fields do not fit its tool is shown unchanged. Does no
I/O.
"""

import re
from collections.abc import Callable
from typing import Any

from clew.core.json_object import Json, object_of
from clew.core.messages.text import describe_interruption, for_person

# The last text of a subagent's result tells the model how to continue the agent.
_AGENT_NOTES = ("(This was agent ", "agentId: ")
_ERROR = "Error: "
_BY_HOOK = re.compile(r"(\w+):\S+ hook error: ")


def describe_for_user(name: str, raw: Json) -> str:
    """Return the text that the user sees instead of a result; empty to show the result itself."""
    describe = _DESCRIPTIONS.get(name)
    return "" if describe is None else describe(raw)


def strip_agent_note(texts: list[str]) -> list[str]:
    """Return the text blocks of a subagent's result without the note meant for the model."""
    return texts[:-1] if len(texts) > 1 and texts[-1].startswith(_AGENT_NOTES) else texts


def strip_hint(text: str, raw: Any) -> str:
    """Return an error without the hint that is meant for the model.

    `raw` is the error as the transcript keeps it for programs, without the hint.
    """
    problem = raw.removeprefix(_ERROR) if isinstance(raw, str) and raw.startswith(_ERROR) else ""
    return problem if problem and text.startswith(problem) else text


def describe_denial(text: str) -> str:
    """Return why a call was denied. If a hook denied the call, rephrase the reason for the user."""
    match = _BY_HOOK.match(text)
    return text if match is None else f"Blocked by {match[1]} hook: {text[match.end() :]}"


def add_display(frame: Json) -> Json:
    """Return a frame for viewers; add `display` if a failed call's result is meant for the model.

    `display` is the text that users see instead.
    """
    content = object_of(frame.get("message")).get("content")
    first = (
        object_of(content[0])
        if frame.get("type") == "user" and isinstance(content, list) and content
        else {}
    )
    text = first.get("content")
    if first.get("type") != "tool_result" or not first.get("is_error") or not isinstance(text, str):
        return frame
    display = strip_hint(text, frame.get("tool_use_result"))
    display = display.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip("\n")
    display = describe_interruption(display) or display
    if frame.get("tool_denial_kind"):
        display = describe_denial(for_person(display))
    return frame if display == text else frame | {"display": display}


def _added_task(raw: Json) -> str:
    task = raw.get("task")
    if not isinstance(task, dict) or "id" not in task:
        return ""
    return f"Added task #{task['id']}: {task.get('subject', '')}"


def _updated_task(raw: Json) -> str:
    number, fields, change = raw.get("taskId"), raw.get("updatedFields"), raw.get("statusChange")
    if number is None or not isinstance(fields, list):
        return ""
    names = [str(name).replace("_", " ") for name in fields if name != "status"]
    if names == ["deleted"]:
        return f"Deleted task #{number}"
    changes = [f"now {change.get('to')}"] if isinstance(change, dict) else []
    changes += [f"updated {', '.join(names)}"] if names else []
    return f"Task #{number}: {'; '.join(changes) or 'no changes'}"


def _answers(raw: Json) -> str:
    answers = raw.get("answers")
    if not isinstance(answers, dict) or not answers:
        return ""
    lines = [f"  {question} → {_joined(answer)}" for question, answer in answers.items()]
    return "\n".join(["You answered:", *lines])


def _joined(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def _sent(raw: Json) -> str:
    if raw.get("status") == "async_launched":
        return f"Resumed agent {raw.get('agentId')} in the background"
    ids = raw.get("agentIds", [raw.get("agentId")])
    names = [str(name) for name in ids if name] if isinstance(ids, list) else []
    return f"Message sent to {', '.join(names)}" if names else "Message sent"


def _planning(raw: Json) -> str:
    path = raw.get("filePath")
    return f"Plan mode is on. Plan: {path}" if isinstance(path, str) else ""


def _setting(raw: Json) -> str:
    if raw.get("operation") != "set":
        return ""
    return f"{raw.get('setting')} = {raw.get('newValue')}"


def _schedule(raw: Json) -> str:
    return f"Schedule {raw['id']}: {raw.get('humanSchedule', '')}" if raw.get("id") else ""


_DESCRIPTIONS: dict[str, Callable[[Json], str]] = {
    "AskUserQuestion": _answers,
    "Brief": lambda _: "Message shown",
    "Config": _setting,
    "EnterPlanMode": _planning,
    "ScheduleCron": _schedule,
    "SendMessage": _sent,
    "StructuredOutput": lambda _: "Answer accepted",
    "TaskCreate": _added_task,
    "TaskUpdate": _updated_task,
}
