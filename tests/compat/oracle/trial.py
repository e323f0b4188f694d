"""What both programs are given: the model's script, the host's steps and answers, files, options.

Words of the scenarios are in capitals (BEGIN, DONE): the comparison looks for them in every text,
because each program has its own wording around them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
# The answer to the main request with this number and body, in the form of clew's scenarios.
Model: TypeAlias = Callable[[int, Json], Json]


@dataclass(frozen=True, kw_only=True)
class HostStep:
    """One step of the host: it sends a frame, and reads frames up to one of the kind `until`."""

    frame: Json | None = None
    until: str = ""
    # A file that a command of the session makes; the host waits for it.
    file: str = ""
    closes: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One scenario. The host's input is closed after the last step."""

    # The last answer repeats.
    model: Sequence[Json] | Model
    args: tuple[str, ...] = ()
    steps: tuple[HostStep, ...] = ()
    # Members of `initialize`, and answers to control requests by subtype; None is no answer.
    initialize: Json = field(default_factory=dict)
    answers: Mapping[str, Callable[[Json], Json | None]] = field(default_factory=dict)
    # Below the working folder, or below the config home with "~/" in front.
    files: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    # Without a host: `-p` with these arguments only.
    is_hosted: bool = True
    # Further processes, with their arguments; "{session}" is the session of the one before.
    later: tuple[tuple[str, ...], ...] = ()


# -- the model


def answer(*content: str | Json, **members: Any) -> Json:
    return {"content": list(content), **members}


def call(name: str, **tool_input: Any) -> Json:
    return {"tool": name, "input": tool_input}


def bash(command: str, **more: Any) -> Json:
    return call("Bash", command=command, **more)


def refuse(status: int, kind: str, message: str, **headers: str | int) -> Json:
    return {"status": status, "error": {"type": kind, "message": message}, "headers": headers}


def late(scripted: Json, seconds: float) -> Json:
    return scripted | {"faults": [{"at": "headers", "stall_s": seconds}]}


DONE = answer("DONE")


# -- the host


def say(content: Any, until: str = "result", **fields: Any) -> HostStep:
    frame = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
        "session_id": "default",
        **fields,
    }
    return HostStep(frame=frame, until=until)


def control(subtype: str, until: str = "", **fields: Any) -> HostStep:
    frame = {
        "type": "control_request",
        "request_id": f"ask_{subtype}",
        "request": {"subtype": subtype, **fields},
    }
    return HostStep(frame=frame, until=until or f"control_response/ask_{subtype}")


BEGIN = say("BEGIN")
AGAIN = say("AGAIN")
SKIP = ("--dangerously-skip-permissions",)
# The host is asked about permissions.
ASK = ("--permission-prompt-tool", "stdio")


def allow(asked: Json) -> Json:
    return {"behavior": "allow", "updatedInput": asked["input"]}


def deny(**more: Any) -> Mapping[str, Callable[[Json], Json | None]]:
    return {"can_use_tool": lambda _: {"behavior": "deny", "message": "DENIED", **more}}


def permit(**more: Any) -> Mapping[str, Callable[[Json], Json | None]]:
    return {"can_use_tool": lambda asked: allow(asked) | more}


def hooked(event: str, output: Json | Callable[[Json], Json | None], **more: Any) -> Json:
    """Return the fields of a trial whose host has a hook for an event."""
    hooks = {event: [{"matcher": None, "hookCallbackIds": ["hook"]}]}
    reply = output if callable(output) else lambda _: output
    return {"initialize": {"hooks": hooks}, "answers": {"hook_callback": reply}, **more}


def specific(event: str, **members: Any) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event, **members}}
