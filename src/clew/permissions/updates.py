"""Permission updates from the user or a host: parsed, and applied to settings.

Owns the wire format of an update and its effect on a settings object. `in_session` decides whether
and where an update is written. Does no I/O.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.system.config.settings import read_object

Destination: TypeAlias = Literal["session", "localSettings", "projectSettings", "userSettings"]

# The scopes of settings files, by their names on the wire.
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
    """Rules to add to a list or to remove from it, or the new contents of the list."""

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
    """A list of updates of which at least one is invalid. None of them is applied."""

    why: str


def read_updates(value: Any) -> tuple[Update, ...] | UnreadableUpdates:
    """Return the updates in a host's answer, or why they are invalid."""
    if not isinstance(value, list):
        return UnreadableUpdates(why="updatedPermissions: expected an array")
    updates: list[Update] = []
    for place, item in enumerate(value):
        kind = KINDS.get(str(item.get("type"))) if isinstance(item, dict) else None
        if kind is None:
            return UnreadableUpdates(why=f"updatedPermissions[{place}]: unknown update type")
        try:
            updates.append(msgspec.convert(item, kind))
        except msgspec.ValidationError as error:
            return UnreadableUpdates(why=f"updatedPermissions[{place}]: {error}")
    return tuple(updates)


def spelled(rule: str) -> Json:
    """Return a rule as the two parts that hosts expect."""
    parts = RuleSpelled.of(rule)
    content = {} if parts.rule_content is None else {"ruleContent": parts.rule_content}
    return {"toolName": parts.tool_name, **content}


def make_rule_update(rules: list[str], destination: Destination) -> Json:
    """Return an update that allows `rules`, as a suggestion for a host."""
    return {
        "type": "addRules",
        "rules": [spelled(rule) for rule in rules],
        "behavior": "allow",
        "destination": destination,
    }


def changed(values: list[Any], update: RulesUpdate | FoldersUpdate) -> list[Any]:
    """Return a list from the settings after an update. Remaining entries keep their order."""
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
    """Return the key in `permissions` that an update changes."""
    if isinstance(update, RulesUpdate):
        return update.behavior
    return "defaultMode" if isinstance(update, ModeUpdate) else "additionalDirectories"


def with_update(settings: Json, update: Update) -> Json:
    """Return a settings object after an update. The original is not changed."""
    fields = read_object(settings, "permissions")
    name = key_of(update)
    if isinstance(update, ModeUpdate):
        value: Any = update.mode
    else:
        before = fields.get(name)
        value = changed(before if isinstance(before, list) else [], update)
    return settings | {"permissions": fields | {name: value}}


# The permission request as it is sent to hosts, and their answer as a value. No I/O.


EXPECTED = (
    'expected {"behavior": "allow", "updatedInput": object} or '
    '{"behavior": "deny", "message": string}'
)


class Yes(Struct, frozen=True, kw_only=True):
    """The host allows the call, with this input.

    `why_none` says why the updates in the answer could not be read.
    """

    input: Json | None
    updates: tuple[Update, ...] = ()
    why_none: str = ""


class No(Struct, frozen=True, kw_only=True):
    """The host denies the call; `words` is the message for the model.

    `stops` means that the turn ends too. `defers` postpones the call: the host decides when the
    session continues.
    """

    words: str
    stops: bool = False
    defers: bool = False


class UnusableVerdict(Struct, frozen=True, kw_only=True):
    """An answer that neither allows nor denies the call; `why` states the expected format."""

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
        case "defer":
            return No(words="The host deferred this call.", defers=True)
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
    parts: list[Json] | None = None,
) -> Json:
    """Return the fields of a can_use_tool request.

    `agent_id` is the subagent that makes the call. `parts` lists the verdicts on the parts of
    a compound command.
    """
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
    if parts:
        fields["clew_parts"] = parts
    return fields if blocked_path is None else fields | {"blocked_path": blocked_path}
