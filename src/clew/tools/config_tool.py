"""Config: the model looks at a setting, or changes one of those that widen nobody's rights.

What runs programs, what holds keys and what permits is not among them, whoever agrees: such a change is
made by a person, with `clew config`.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from clew.config.answers import assign, explained, in_force_now, spelled
from clew.config.layers import value_at
from clew.config.positions import undotted
from clew.config.settings import BY_NAME
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult

CHANGEABLE = frozenset(
    {
        "alwaysThinkingEnabled",
        "effortLevel",
        "fallbackModel",
        "language",
        "maxThinkingTokens",
        "model",
        "respectGitignore",
        "theme",
    }
)


class ConfigInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    setting: Annotated[str, Meta(min_length=1, description="The key, as model")]
    value: Annotated[str | bool | int, Meta(description="Left out, the setting is shown")] | (
        UnsetType
    ) = UNSET


class Config(Tool[ConfigInput]):
    name = "Config"
    description = "Show or change a setting of clew"
    prompt = (
        "Shows a setting of clew and where it comes from, or writes it into the person's settings "
        "file. Only when the person asks for it. Permissions, hooks, servers, variables and keys "
        "cannot be changed here; tell the person to use `clew config`."
    )
    input_type = ConfigInput
    is_deferred = True
    search_words = "settings preferences model theme option"

    def is_read_only(self, given: ConfigInput) -> bool:
        return given.value is UNSET

    def title(self, given: ConfigInput) -> str:
        return given.setting if given.value is UNSET else f"{given.setting} = {given.value}"

    async def call(self, given: ConfigInput, ctx: ToolContext) -> ToolResult:
        if ctx.session.own is None:
            raise ToolError("This session has no settings.")
        places = ctx.session.own.places
        if given.setting not in BY_NAME:
            raise ToolError(f"{given.setting} is no setting; `clew config keys` lists them.")
        if given.value is UNSET:
            present, value = value_at(in_force_now(places), undotted(given.setting))
            said = {"success": True, "operation": "get", "setting": given.setting}
            return ToolResult(
                content="\n".join(explained(places, given.setting)),
                tool_use_result=said | {"value": spelled(value) if present else None},
                display=spelled(value) if present else "not set",
            )
        return changed(given.setting, given.value, places)


def changed(setting: str, value: Any, places: Any) -> ToolResult:
    if setting not in CHANGEABLE:
        raise ToolError(
            f"{setting} is not changed by a model; a person does it: clew config set {setting} ..."
        )
    done = assign(places, "user", setting, value)
    return ToolResult(
        content=f"{setting} is now {spelled(value)} in {done.path}; it holds from the next session "
        "on where this one has begun with another.",
        tool_use_result={
            "success": True,
            "operation": "set",
            "setting": setting,
            "previousValue": done.before,
            "newValue": value,
        },
        display=f"{setting} = {spelled(value)}",
    )
