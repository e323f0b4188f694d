"""Limits on what viewers may make a session do. Does no I/O.

A viewer is not at this machine. It can send prompts, answer open questions, stop work, and make
requests that relax no restriction. It can't change rules or settings, and an answer approves only
the call that the viewer was asked about. Requests for more are refused with a reason.
"""

from collections.abc import Mapping

from clew.core.json_object import Json
from clew.core.wire import make_success

# Requests that relax no restriction.
HARMLESS = frozenset(
    {
        "interrupt", "mcp_status", "get_context_usage", "cancel_async_message", "stop_task",
        "background_tasks", "set_model", "set_max_thinking_tokens", "rename_session", "end_session",
        "rewind_conversation",
    }
)  # fmt: skip
# Modes, the strictest first: a viewer can only select one before the current mode.
STRICTNESS = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")
NAMES = {"manual": "default"}
UNSIGNED = "the message is not signed by a device paired with the session's machine; run clew pair"
# Fields of a question's input that contain its answer, by tool.
ANSWERS: Mapping[str, frozenset[str]] = {
    "AskUserQuestion": frozenset({"answers", "annotations", "response"})
}


def check_request(request: Json, mode: str) -> str:
    """Return the reason to refuse a viewer's request, or an empty string if it is allowed."""
    subtype = request.get("subtype")
    if subtype == "set_permission_mode":
        wanted = request.get("mode")
        wanted = NAMES.get(str(wanted), wanted)
        if wanted not in STRICTNESS or rank(wanted) > rank(NAMES.get(mode, mode)):
            return (
                f"a viewer can change the permission mode {mode!r} only to a stricter one, not to "
                f"{wanted!r}; change it on the machine that runs the session"
            )
        return ""
    if subtype == "initialize" or subtype in HARMLESS:
        return ""
    return f"viewers can't request {subtype!r}"


def rank(mode: object) -> int:
    return STRICTNESS.index(str(mode)) if mode in STRICTNESS else len(STRICTNESS)


def strip_request(request: Json) -> Json:
    """Return a request. A handshake loses all its fields, such as hooks, servers and agents."""
    return {"subtype": "initialize"} if request.get("subtype") == "initialize" else request


def check_answer(frame: Json, asked: Json | None, *, may_last: bool = False) -> Json:
    """Return a viewer's answer, limited to what viewers may decide.

    Rules and modes that it adds are removed. With `may_last`, those that the question suggested are
    kept, but only for this session. An approval of a different input becomes a denial.
    """
    response = frame.get("response")
    if not isinstance(response, dict) or asked is None or asked.get("subtype") != "can_use_tool":
        return frame
    verdict = response.get("response")
    if not isinstance(verdict, dict) or verdict.get("behavior") != "allow":
        return frame
    question_input = asked.get("input", {})
    answer_input = verdict.get("updatedInput", question_input)
    free = ANSWERS.get(str(asked.get("tool_name")), frozenset())
    if not isinstance(answer_input, dict) or fixed(answer_input, free) != fixed(
        question_input, free
    ):
        words = "The remote answer approved an input that differs from the one in the question."
        return make_success(str(response.get("request_id")), {"behavior": "deny", "message": words})
    allowed: Json = {"behavior": "allow", "updatedInput": answer_input}
    suggested = asked.get("permission_suggestions")
    if may_last and suggested and verdict.get("updatedPermissions") == suggested:
        allowed["updatedPermissions"] = [
            update | {"destination": "session"} for update in suggested
        ]
    return make_success(str(response.get("request_id")), allowed)


def fixed(value: Json, free: frozenset[str]) -> Json:
    return {name: part for name, part in value.items() if name not in free}
