"""Parsing of hooks in settings; invalid ones are reported and skipped.

This module does no I/O. It defines the kinds of handlers and their fields, spelled as in the
published settings format. `system.config.layers.in_force` decides which layers apply; this module
only applies what managed settings say about hooks.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from clew.agent.hooks.events import (
    BY_NAME,
    TIMEOUTS_S,
    USUAL_TIMEOUT_S,
    Event,
    Kind,
    find_nearest_event,
)
from clew.agent.hooks.outcome import is_readable, rule_of
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.permissions.rules import RejectedRule
from clew.system.config.json_text import Path, join_path
from clew.system.config.layers import Layer, Scope, order_layers, select_usable
from clew.system.config.settings import read_switch


class Handler(Struct, frozen=True, kw_only=True, tag_field="type"):
    """The fields common to all handlers; `condition` is a permission rule that calls must match."""

    condition: str = field(name="if", default="")
    timeout: float | None = None
    status: str = field(name="statusMessage", default="")
    # For handlers from a skill: call it only once.
    once: bool = False


class CommandHook(Handler, frozen=True, kw_only=True, tag="command"):
    """A program with arguments, or a shell command."""

    command: str
    args: tuple[str, ...] | None = None
    shell: Literal["bash", "powershell"] | None = None
    in_background: bool = field(name="async", default=False)
    wakes: bool = field(name="asyncRewake", default=False)
    # Names of clew's secret variables that the program receives; it receives all other variables
    # anyway.
    allowed_variables: tuple[str, ...] = field(name="allowedEnvVars", default=())

    @property
    def title(self) -> str:
        return " ".join([self.command, *(self.args or ())])


class HttpHook(Handler, frozen=True, kw_only=True, tag="http"):
    """A URL to which the hook input is posted."""

    url: str
    headers: dict[str, str] = {}
    allowed_variables: tuple[str, ...] = field(name="allowedEnvVars", default=())

    @property
    def title(self) -> str:
        return self.url


class McpToolHook(Handler, frozen=True, kw_only=True, tag="mcp_tool"):
    """A tool of an MCP server."""

    server: str
    tool: str
    input: Json = {}

    @property
    def title(self) -> str:
        return f"{self.server}: {self.tool}"


class PromptHook(Handler, frozen=True, kw_only=True, tag="prompt"):
    """A yes-or-no question to a model."""

    prompt: str
    model: str = ""
    continues: bool = field(name="continueOnBlock", default=False)

    @property
    def title(self) -> str:
        return f"prompt: {self.prompt}"


class AgentHook(Handler, frozen=True, kw_only=True, tag="agent"):
    """A yes-or-no question to an agent, which may use tools before it answers."""

    prompt: str
    model: str = ""

    @property
    def title(self) -> str:
        return f"agent: {self.prompt}"


class UnreachableHookError(ClewError):
    """The program that owns a callback can't be asked any more."""


class CallbackHook(Handler, frozen=True, kw_only=True, tag="callback"):
    """A function of the host program; it can't be configured in settings."""

    call: Any
    blocks_on_failure: bool = False

    @property
    def title(self) -> str:
        return "callback"


Written: TypeAlias = CommandHook | HttpHook | McpToolHook | PromptHook | AgentHook
Anything: TypeAlias = Written | CallbackHook
KINDS: dict[type[Anything], Kind] = {
    CommandHook: "command",
    HttpHook: "http",
    McpToolHook: "mcp_tool",
    PromptHook: "prompt",
    AgentHook: "agent",
    CallbackHook: "callback",
}


class Hook(Struct, frozen=True, kw_only=True):
    """One handler for one event.

    `source` is the scope or component that the hook came from, and `where` is its file and line.
    """

    event: Event
    handler: Anything
    matcher: str = ""
    source: str = ""
    where: str = ""
    # Additional environment variables, such as a plugin's folders.
    variables: tuple[tuple[str, str], ...] = ()
    # Limits the hook to the events of one agent.
    agent_id: str = ""

    @property
    def kind(self) -> Kind:
        return kind_of(self.handler)

    @property
    def is_background(self) -> bool:
        """True if nothing waits for the hook."""
        handler = self.handler
        return isinstance(handler, CommandHook) and (handler.in_background or handler.wakes)

    @property
    def timeout_s(self) -> float:
        timeout = self.handler.timeout
        if timeout is not None:
            return timeout
        usual = TIMEOUTS_S.get(self.kind)
        return min(self.event.timeout_s, USUAL_TIMEOUT_S if usual is None else usual)


def kind_of(handler: Anything) -> Kind:
    return KINDS[type(handler)]


class HookListing(Struct, frozen=True, kw_only=True):
    """The hooks in the settings, in listing order, and the errors in their definitions."""

    hooks: tuple[Hook, ...] = ()
    faults: tuple[str, ...] = ()
    # The reason why the user's own hooks are disabled, if they are.
    off: str = ""


def read_layers(layers: Iterable[Layer]) -> HookListing:
    """Return the hooks of all layers that apply.

    A handler that is listed in two files runs once.
    """
    layers = order_layers(layers)
    managed_only = any(
        layer.scope == "managed" and read_switch(layer.data, "allowManagedHooksOnly")
        for layer in layers
    )
    disabled = disabled_by(layers)
    hooks: dict[tuple[str, str, Any], Hook] = {}
    faults: list[str] = []
    for layer in layers:
        listing = read_hooks(select_usable(layer).get("hooks"), layer=layer)
        faults += listing.faults
        if layer.scope != "managed" and (managed_only or disabled):
            continue
        if disabled == "managed":
            continue
        for hook in listing.hooks:
            hooks.setdefault((hook.event.name, hook.matcher, identity(hook.handler)), hook)
    off = "only managed hooks run" if managed_only else ""
    return HookListing(
        hooks=tuple(hooks.values()),
        faults=tuple(faults),
        off=f"disableAllHooks ({disabled})" if disabled else off,
    )


def disabled_by(layers: Sequence[Layer]) -> Scope | None:
    """Return the scope that disables all hooks, or None.

    Of the scopes that set `disableAllHooks`, only the one with the highest precedence applies.
    """
    for layer in layers:
        is_disabled = select_usable(layer).get("disableAllHooks")
        if isinstance(is_disabled, bool):
            return layer.scope if is_disabled else None
    return None


def identity(handler: Anything) -> bytes:
    return msgspec.json.encode(handler)


def read_hooks(
    value: Any,
    *,
    layer: Layer | None = None,
    source: str = "",
    variables: tuple[tuple[str, str], ...] = (),
) -> HookListing:
    """Parse an object `{event: [{matcher, hooks: [handler]}]}` from settings or another source."""
    hooks: list[Hook] = []
    faults: list[str] = []
    for path, name, matcher, raw_handler in each_handler(value, faults, layer):
        event = BY_NAME.get(name)
        if event is None:
            near = find_nearest_event(name)
            hint = f' (did you mean "{near}"?)' if near else ""
            faults.append(fault(layer, path, f"unknown event{hint}"))
            continue
        handler = read_handler(raw_handler)
        if isinstance(handler, str):
            faults.append(fault(layer, path, handler))
            continue
        hook = Hook(
            event=event,
            handler=handler,
            matcher=matcher if event.subject else "",
            source=source or (layer.scope if layer else ""),
            where=place(layer, path),
            variables=variables,
        )
        why = why_never(hook)
        if why:
            faults.append(fault(layer, path, why))
        else:
            hooks.append(hook)
    return HookListing(hooks=tuple(hooks), faults=tuple(faults))


def each_handler(
    value: Any, faults: list[str], layer: Layer | None
) -> Iterable[tuple[Path, str, str, Any]]:
    """Yield every handler with its path, event and matcher; add malformed groups to `faults`."""
    if value is None:
        return
    for name, groups in (value if isinstance(value, dict) else {}).items():
        if not isinstance(groups, list):
            faults.append(fault(layer, ("hooks", name), "expected an array"))
            continue
        for i, group in enumerate(groups):
            path: Path = ("hooks", name, i)
            if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
                faults.append(fault(layer, path, "expected an object with a `hooks` array"))
                continue
            matcher = group.get("matcher")
            if matcher is not None and not isinstance(matcher, str):
                faults.append(fault(layer, (*path, "matcher"), "expected a string"))
                continue
            for k, raw_handler in enumerate(group["hooks"]):
                yield (*path, "hooks", k), name, matcher or "", raw_handler


def read_handler(raw_handler: Any) -> Written | str:
    """Return the parsed handler or an error message."""
    try:
        handler: Written = msgspec.convert(raw_handler, Written)
    except msgspec.ValidationError as error:
        return str(error).replace(" - at `$.", ": at `")
    return handler


def why_never(hook: Hook) -> str:
    """Return why a hook can never run as configured, or an empty string."""
    if not is_readable(hook.matcher):
        return f'the matcher "{hook.matcher}" is not a valid regular expression'
    if hook.kind not in hook.event.kinds:
        able = ", ".join(sorted(hook.event.kinds - {"callback"}))
        return f"{hook.event.name} does not support {hook.kind} hooks (expected one of {able})"
    if hook.handler.condition and not hook.event.has_tool:
        return f"`if` requires a tool call, and {hook.event.name} has none"
    if hook.handler.condition and isinstance(
        rule := rule_of(hook.handler.condition, "/"), RejectedRule
    ):
        return f"if: {rule.text}: {rule.what}"
    if hook.handler.timeout is not None and hook.handler.timeout <= 0:
        return "the timeout must be greater than 0 seconds"
    if isinstance(hook.handler, CommandHook) and hook.handler.shell == "powershell":
        return "PowerShell is not supported for hooks"
    return ""


def place(layer: Layer | None, path: Path) -> str:
    if layer is None or layer.file is None:
        return f"({layer.scope})" if layer else ""
    line = layer.line(path)
    return f"{layer.file}:{line}" if line else layer.file


def fault(layer: Layer | None, path: Path, what: str) -> str:
    where = place(layer, path)
    return f"{f'{where}: ' if where else ''}{join_path(path)}: {what}"
