"""Calls to a program's functions on behalf of its session: hooks, and decisions about tool calls.

A function may raise or return anything. A failure or an invalid value is reported, and never causes
a tool call to be allowed.
"""

import inspect
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from clew.agent.hooks.output import Specific, describe_unknown_field
from clew.core.json_object import Json
from clew.core.nearest import suggest_nearest
from clew.fronts.sdk.options import Call, Defer, Deny, HookAt, Permission, Permit

LOGGERS = {"hook_callback": "clew.hooks", "mcp_message": "clew.tools"}
SPECIFIC_FIELDS = {field.encode_name for field in msgspec.structs.fields(Specific)}


async def call_hook(hook: HookAt, request: Json) -> Json:
    """Call a hook function for an event and return the function's answer."""
    answer: object = await hold("a hook", hook.call(request["input"], request["tool_use_id"]))
    if not isinstance(answer, Mapping):
        raise TypeError(
            f"a hook must return a dict ({{}} for no decision), got {type(answer).__name__}"
        )
    if unknown := describe_unknown_field(answer):
        raise ValueError(f"a hook returned the unknown key {unknown}")
    specific = answer.get("hookSpecificOutput")
    for key in specific if isinstance(specific, Mapping) else ():
        if key not in SPECIFIC_FIELDS and (near := suggest_nearest(str(key), SPECIFIC_FIELDS)):
            raise ValueError(f"a hook returned the unknown key {key!r} in hookSpecificOutput{near}")
    return dict(answer)


async def call_permission(function: Permission, request: Json) -> Json:
    """Ask a program's function about a tool call; return its decision in the form hosts send."""
    call = Call(
        tool=request["tool_name"],
        input=request["input"],
        title=request["title"],
        why=request["decision_reason"],
        tool_use_id=request["tool_use_id"],
    )
    verdict: object = await hold("can_use_tool", function(call))
    match verdict:
        case Permit():
            arguments = request["input"] if verdict.input is None else verdict.input
            return {"behavior": "allow", "updatedInput": arguments}
        case Deny():
            return {"behavior": "deny", "message": verdict.words, "interrupt": verdict.stop}
        case Defer():
            return {"behavior": "defer"}
        case _:
            kind = type(verdict).__name__
            raise TypeError(f"can_use_tool must return Permit, Deny or Defer, got {kind}")


async def hold(name: str, answer: Awaitable[Any]) -> object:
    """Await a function's answer. Raise TypeError if the function is not an async function."""
    if not inspect.isawaitable(answer):
        raise TypeError(f"{name} must be an async function; it returned {type(answer).__name__}")
    return await answer


def report_failure(request: Json, hooks: tuple[HookAt, ...], error: BaseException) -> None:
    """Log the exception of a program's function with its traceback."""
    kind = request["subtype"]
    name = "can_use_tool"
    if kind == "hook_callback":
        hook = hooks[int(request["callback_id"])]
        function = getattr(hook.call, "__qualname__", type(hook.call).__name__)
        name = f"the {hook.event} hook {function}"
    log = logging.getLogger(LOGGERS.get(kind, "clew.permissions"))
    log.error("%s failed", name, exc_info=error)
