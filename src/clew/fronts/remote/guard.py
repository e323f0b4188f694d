"""What viewers may make a session do. Pure.

A viewer is not at this machine. It sends prompts, answers open questions, and stops or slows things
down. It never changes rules or settings, and no answer approves anything but the call that was
shown. A message that asks for more is refused, with the reason.
"""

from collections.abc import Mapping

from clew.core.json_object import Json
from clew.core.wire import make_success

# Requests that loosen nothing.
HARMLESS = frozenset(
    {
        "interrupt", "mcp_status", "get_context_usage", "cancel_async_message", "stop_task",
        "background_tasks", "set_model", "set_max_thinking_tokens", "rename_session", "end_session",
    }
)  # fmt: skip
# Modes, from the strictest: a viewer can only move to an earlier one.
STRICTNESS = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")
NAMES = {"manual": "default"}
UNSIGNED = (
    "it is not signed by a device that was paired with the machine of the session (clew pair)"
)
# Members of a question's input that are its answer, by tool.
ANSWERS: Mapping[str, frozenset[str]] = {
    "AskUserQuestion": frozenset({"answers", "annotations", "response"})
}


def check_request(request: Json, mode: str) -> str:
    """Return why a viewer's request is refused; empty if it is carried out."""
    subtype = request.get("subtype")
    if subtype == "set_permission_mode":
        wanted = request.get("mode")
        wanted = NAMES.get(str(wanted), wanted)
        if wanted not in STRICTNESS or rank(wanted) > rank(NAMES.get(mode, mode)):
            return (
                f"a viewer can't change the permission mode from {mode!r} to {wanted!r}, which allows"
                " more; change it on the machine that runs the session"
            )
        return ""
    if subtype == "initialize" or subtype in HARMLESS:
        return ""
    return f"viewers can't request {subtype!r}"


def rank(mode: object) -> int:
    return STRICTNESS.index(str(mode)) if mode in STRICTNESS else len(STRICTNESS)


def strip_request(request: Json) -> Json:
    """Return a request without the hooks, servers, agents and instructions of a handshake."""
    return {"subtype": "initialize"} if request.get("subtype") == "initialize" else request


def check_answer(frame: Json, asked: Json | None, *, may_last: bool = False) -> Json:
    """Return a viewer's answer to a question as the session may use it.

    Rules and modes that it adds are left out; with `may_last`, those that the question suggested
    are kept for the session. An approval of another input than the one that was asked about becomes
    a refusal.
    """
    response = frame.get("response")
    if not isinstance(response, dict) or asked is None or asked.get("subtype") != "can_use_tool":
        return frame
    verdict = response.get("response")
    if not isinstance(verdict, dict) or verdict.get("behavior") != "allow":
        return frame
    shown = asked.get("input", {})
    given = verdict.get("updatedInput", shown)
    free = ANSWERS.get(str(asked.get("tool_name")), frozenset())
    if not isinstance(given, dict) or fixed(given, free) != fixed(shown, free):
        words = "The remote answer approved another input than the one that was asked about."
        return make_success(str(response.get("request_id")), {"behavior": "deny", "message": words})
    kept: Json = {"behavior": "allow", "updatedInput": given}
    suggested = asked.get("permission_suggestions")
    if may_last and suggested and verdict.get("updatedPermissions") == suggested:
        kept["updatedPermissions"] = [update | {"destination": "session"} for update in suggested]
    return make_success(str(response.get("request_id")), kept)


def fixed(value: Json, free: frozenset[str]) -> Json:
    return {name: part for name, part in value.items() if name not in free}
