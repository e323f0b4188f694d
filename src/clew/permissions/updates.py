"""Changes of permission that a person or a host asked for, as values: read, and put into settings.

Owns the wire form of an update and what each does to a settings object. Where it is written, and
whether it may be, is not decided here (see `in_session`). Pure.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.system.config.settings import read_object

Destination: TypeAlias = Literal["session", "localSettings", "projectSettings", "userSettings"]

# What settings files call the places that the wire calls otherwise.
SCOPES: dict[Destination, str] = {
    "localSettings": "local",
    "projectSettings": "project",
    "userSettings": "user",
}


class RuleSpelled(Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule in two parts, as hosts send it."""

    tool_name: str
    rule_content: str | None = None

    @classmethod
    def of(cls, rule: str) -> "RuleSpelled":
        name, opening, rest = rule.partition("(")
        return cls(tool_name=name, rule_content=rest.removesuffix(")") if opening else None)

    @property
    def text(self) -> str:
        return f"{self.tool_name}({self.rule_content})" if self.rule_content else self.tool_name


class RulesUpdate(Struct, frozen=True, kw_only=True):
    """Rules added to a list, taken out of it, or put in its place."""

    type: Literal["addRules", "replaceRules", "removeRules"]
    rules: tuple[RuleSpelled, ...]
    behavior: Literal["allow", "deny", "ask"]
    destination: Destination = "session"


class ModeUpdate(Struct, frozen=True, kw_only=True):
    type: Literal["setMode"]
    mode: str
    destination: Destination = "session"


class FoldersUpdate(Struct, frozen=True, kw_only=True):
    type: Literal["addDirectories", "removeDirectories"]
    directories: tuple[str, ...]
    destination: Destination = "session"


Update: TypeAlias = RulesUpdate | ModeUpdate | FoldersUpdate
KINDS: dict[str, type[Update]] = {
    "addRules": RulesUpdate,
    "replaceRules": RulesUpdate,
    "removeRules": RulesUpdate,
    "setMode": ModeUpdate,
    "addDirectories": FoldersUpdate,
    "removeDirectories": FoldersUpdate,
}


class UnreadableUpdates(Struct, frozen=True, kw_only=True):
    """A list of updates of which one is none; then none of them counts."""

    why: str


def read_updates(value: Any) -> tuple[Update, ...] | UnreadableUpdates:
    """The updates of a host's answer: all of them, or why none."""
    if not isinstance(value, list):
        return UnreadableUpdates(why="updatedPermissions: expected an array")
    updates: list[Update] = []
    for place, item in enumerate(value):
        kind = KINDS.get(str(item.get("type"))) if isinstance(item, dict) else None
        if kind is None:
            return UnreadableUpdates(why=f"updatedPermissions[{place}]: no such kind of update")
        try:
            updates.append(msgspec.convert(item, kind))
        except msgspec.ValidationError as error:
            return UnreadableUpdates(why=f"updatedPermissions[{place}]: {error}")
    return tuple(updates)


def spelled(rule: str) -> Json:
    """A rule's text in the two parts that hosts read."""
    parts = RuleSpelled.of(rule)
    content = {} if parts.rule_content is None else {"ruleContent": parts.rule_content}
    return {"toolName": parts.tool_name, **content}


def make_rule_update(rules: list[str], destination: Destination) -> Json:
    """An update that allows `rules` from now on, to offer to a host."""
    return {
        "type": "addRules",
        "rules": [spelled(rule) for rule in rules],
        "behavior": "allow",
        "destination": destination,
    }


def changed(values: list[Any], update: RulesUpdate | FoldersUpdate) -> list[Any]:
    """A list of settings after an update; what stands in it stays where it stands."""
    entries = (
        [rule.text for rule in update.rules]
        if isinstance(update, RulesUpdate)
        else list(update.directories)
    )
    if update.type.startswith("replace"):
        return list(dict.fromkeys(entries))
    if update.type.startswith("remove"):
        return [value for value in values if value not in entries]
    return [*values, *(entry for entry in dict.fromkeys(entries) if entry not in values)]


def key_of(update: Update) -> str:
    """The member of `permissions` that an update changes."""
    if isinstance(update, RulesUpdate):
        return update.behavior
    return "defaultMode" if isinstance(update, ModeUpdate) else "additionalDirectories"


def with_update(settings: Json, update: Update) -> Json:
    """A settings object after an update; the given one stays as it is."""
    fields = read_object(settings, "permissions")
    name = key_of(update)
    if isinstance(update, ModeUpdate):
        value: Any = update.mode
    else:
        before = fields.get(name)
        value = changed(before if isinstance(before, list) else [], update)
    return settings | {"permissions": fields | {name: value}}


# The question for permission as hosts are asked it, and their answer as a value. Pure.


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


class UnusableVerdict(Struct, frozen=True, kw_only=True):
    """An answer that is neither yes nor no, and what was expected."""

    why: str


def read_verdict(answer: Json) -> Yes | No | UnusableVerdict:
    match answer.get("behavior"):
        case "allow":
            return read_yes(answer)
        case "deny":
            words = answer.get("message")
            if not isinstance(words, str) or not words:
                words = "The host denied this call."
            return No(words=words, stops=answer.get("interrupt") is True)
        case _:
            return UnusableVerdict(why=EXPECTED)


def read_yes(answer: Json) -> Yes | UnusableVerdict:
    updated_input = answer.get("updatedInput")
    if updated_input is not None and not isinstance(updated_input, dict):
        return UnusableVerdict(why=EXPECTED)
    if answer.get("updatedPermissions") is None:
        return Yes(input=updated_input)
    updates = read_updates(answer["updatedPermissions"])
    if isinstance(updates, UnreadableUpdates):
        return Yes(input=updated_input, why_none=updates.why)
    return Yes(input=updated_input, updates=updates)


def make_question(
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
