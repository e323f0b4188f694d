"""The question for permission as hosts are asked it, and their answer as a value. Pure."""

from typing import Any, TypeAlias

from msgspec import Struct

from clew.permissions.updates import Unreadable, Update, read_updates

Json: TypeAlias = dict[str, Any]

EXPECTED = (
    'expected {"behavior": "allow", "updatedInput": object} or '
    '{"behavior": "deny", "message": text}'
)


class Yes(Struct, frozen=True, kw_only=True):
    """It may run, with this input; `updates` hold from now on. `why_none`: there were some, unread."""

    input: Json | None
    updates: tuple[Update, ...] = ()
    why_none: str = ""


class No(Struct, frozen=True, kw_only=True):
    """It may not run; the model reads `words`. `stops`: nor does anything after it in this turn."""

    words: str
    stops: bool = False


class Unusable(Struct, frozen=True, kw_only=True):
    """An answer that is neither yes nor no, and what was expected."""

    why: str


def read_verdict(answer: Json) -> Yes | No | Unusable:
    match answer.get("behavior"):
        case "allow":
            return read_yes(answer)
        case "deny":
            words = answer.get("message")
            if not isinstance(words, str) or not words:
                words = "The host denied this call."
            return No(words=words, stops=answer.get("interrupt") is True)
        case _:
            return Unusable(why=EXPECTED)


def read_yes(answer: Json) -> Yes | Unusable:
    given = answer.get("updatedInput")
    if given is not None and not isinstance(given, dict):
        return Unusable(why=EXPECTED)
    if answer.get("updatedPermissions") is None:
        return Yes(input=given)
    updates = read_updates(answer["updatedPermissions"])
    if isinstance(updates, Unreadable):
        return Yes(input=given, why_none=updates.why)
    return Yes(input=given, updates=updates)


def question(
    block: Json,
    *,
    title: str,
    why: str,
    suggestions: list[Json],
    blocked_path: str | None = None,
    agent_id: str = "",
) -> Json:
    """The fields of a can_use_tool request; `agent_id` is the agent whose call it is."""
    fields: Json = {
        "tool_name": block["name"],
        "display_name": block["name"],
        "input": block["input"],
        "tool_use_id": block["id"],
        "title": title,
        "description": title,
        "decision_reason": why,
        "permission_suggestions": suggestions,
    }
    if agent_id:
        fields["agent_id"] = agent_id
    return fields if blocked_path is None else fields | {"blocked_path": blocked_path}
