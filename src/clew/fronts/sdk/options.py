"""The options of a session for a program: those of the command line, with Python names."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.agent.hooks.events import BY_NAME
from clew.agent.options import Options, Sdk, notes
from clew.core.json_object import Json
from clew.core.nearest import suggest_nearest
from clew.core.regex import lazy_pattern
from clew.fronts.sdk.option_checks import check_hook, check_options, expect
from clew.parts.mcp.functions import SERVER, Function
from clew.permissions.request import Mode
from clew.providers.base import Effort, PrepareFunction, ProviderFunction, Thinking
from clew.system.config.mask import HIDDEN, mask_member

if TYPE_CHECKING:
    from clew.agent.compaction.strategy import CompactFunction
    from clew.fronts.sdk.session_store import ProgramStore
else:
    # Names for `help` and `inspect.signature`; their modules are loaded when they are used.
    CompactFunction = ProgramStore = Any


class Checked(msgspec.StructMeta):
    """Suggests the nearest name if a program misspells an argument."""

    # Type checkers would take this signature for that of the classes, and check no argument.
    if not TYPE_CHECKING:

        def __call__(cls, *values, **named):  # noqa: N805 (of a metaclass)
            known = cls.__struct_fields__
            for name in named:
                if name not in known:
                    near = suggest_nearest(name, known)
                    raise TypeError(f"{cls.__name__}: unknown argument {name!r}{near}")
            return super().__call__(*values, **named)


class Permit(Struct, frozen=True, metaclass=Checked):
    """Approves a call. If `input` is set, it replaces the call's input."""

    input: Json | None = None

    def __post_init__(self) -> None:
        expect("input", self.input, (dict, NoneType), "a dict")


class Deny(Struct, frozen=True, metaclass=Checked):
    """Rejects a call. `words` gives the model the reason, and `stop` also ends the turn."""

    words: str
    stop: bool = False

    def __post_init__(self) -> None:
        expect("words", self.words, (str,), "str")
        expect("stop", self.stop, (bool,), "bool")


class Defer(Struct, frozen=True, kw_only=True):
    """Postpones the decision on a call, and ends the turn without waiting for the decision.

    With the next prompt, in this process or in another one that resumes the session, the same call
    is submitted for approval again. If it is approved, it runs before the model answers.
    """


class Call(Struct, frozen=True, kw_only=True):
    """A call that needs approval.

    Fields:
        tool: The tool's name.
        input: The arguments of the call.
        title: What the call would do, in a few words.
        why: Why approval is needed.
        tool_use_id: The ID of the call in the conversation.
    """

    tool: str
    input: Json
    title: str
    why: str
    tool_use_id: str


# Fields whose values may all be secrets.
PRIVATE = ("env", "headers")
# The user and the password in a URL.
URL_PASSWORD = lazy_pattern(r"(\w://)[^/\s@]+@")

Permission: TypeAlias = Callable[[Call], Awaitable[Permit | Deny | Defer]]
HookFunction: TypeAlias = Callable[[Json, str | None], Awaitable[Json]]


class HookAt(Struct, frozen=True, kw_only=True, metaclass=Checked):
    """A function to call at an event.

    Fields:
        event: The event's name; see docs/extending/hooks.md.
        call: The function. It gets the event's input and the ID of the tool call, if there is one.
            It returns, as a dict, the answer that a command hook would print as JSON.
        matcher: Selects tools by name, as in settings. An empty matcher matches all tools.
        timeout_s: The time limit for the function. None means 60 seconds, or less for some events.
        on_failure: The effect of a function that raises, takes too long, or returns an invalid
            answer: `block` prevents whatever the event's hooks can prevent, such as the tool call
            for PreToolUse; `continue` only reports the failure.
    """

    event: str
    call: HookFunction
    matcher: str = ""
    timeout_s: float | None = None
    on_failure: Literal["block", "continue"] = "block"

    def __post_init__(self) -> None:
        check_hook(self)


def blocks_on_failure(hook: HookAt) -> bool:
    """Return whether a failure of a hook prevents the event that the hook was called for."""
    return hook.on_failure == "block" and BY_NAME[hook.event].blocking == "prevents"


class ClewOptions(Struct, frozen=True, kw_only=True, metaclass=Checked):
    """The options of a session. None leaves a choice to the settings.

    Invalid options raise TypeError or ValueError.

    Fields:
        cwd: The working folder; by default the process's own.
        env: Variables that are added to the process's environment. Commands that the model runs
            don't get the process's own keys and tokens, only those in `env`.
        inherit_env: Whether the session inherits the process's environment. If not, it inherits
            only a few variables such as PATH.
        home: The folder for settings and sessions, instead of ~/.clew.
        can_use_tool: Decides on calls that need approval.
        hooks: Functions that are called at events.
        functions: Functions of the program that the model may call as `mcp__program__NAME`.
        mcp_servers: MCP servers by name, as in `.mcp.json`.
        provider: Answers all requests of the session instead of a model service.
        prepare: Changes the messages of each request, in the format of the Messages API. It gets
            copies, and the transcript keeps the original messages.
        compact: Compacts conversations that no longer fit. It gets a `CompactionRequest`, and
            returns a `CompactionSummary`, or None to let clew do it.
        session_store: Receives every entry of the transcript, and provides the sessions to resume.
            The protocol is that of the Agent SDK's `SessionStore`. A URL such as redis://host
            selects a store that an installed package provides.
        continue_conversation: Continue the newest session in this folder.
        resume: Resume a session by ID, title or file.
        fork_session: Fork: continue in a copy with a new session ID.
        resume_at: Resume after this message and drop later ones.
        session_id: ID of the new session.
        name: Title of the session.
        add_dirs: Additional working folders.
        persists: Whether the session is saved.
        model: Model ID or alias.
        fallback_models: Models to try in order while the main model is overloaded.
        effort: Reasoning effort of the model (low, medium, high, xhigh, max).
        thinking: `clew.Adaptive`, `clew.ThinkingBudget` or `clew.Off`.
        max_turns: Stop each turn after N model responses.
        max_budget_usd: Maximum cost of the session, including subagents.
        task_budget: Token budget for the task, as stated to the model.
        permission_mode: The permission mode.
        allowed_tools: Rules that allow tool calls, such as `Bash(git log:*)`.
        disallowed_tools: Rules that deny tool calls.
        tools: Built-in tools to offer; an empty list for none.
        system_prompt: Replace the system prompt.
        append_system_prompt: Append text to the system prompt.
        settings: Extra settings, as JSON or a file; only managed settings override them.
        setting_sources: Where settings, memory, skills and servers are read from; an empty list for
            nowhere.
        strict_mcp_config: Use only the servers in `mcp_servers`.
        plugin_dirs: Plugins to load and trust for this session.
        agents: Agents by name, with their description, prompt, tools and so on.
        agent: Run the session as this agent.
        json_schema: JSON Schema for the answer.
        partial_messages: Include the streaming events of responses.
        agent_text: Include the text of subagents, not only their tool calls.
    """

    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] = {}
    inherit_env: bool = True
    home: str | os.PathLike[str] | None = None
    can_use_tool: Permission | None = None
    hooks: Sequence[HookAt] = ()
    functions: Sequence[Function] = ()
    mcp_servers: Mapping[str, Json] = {}
    provider: ProviderFunction | None = None
    prepare: PrepareFunction | None = None
    compact: "CompactFunction | None" = None
    session_store: "ProgramStore | str | None" = None
    # Made from `clew.agent.options` by `make docs`.
    continue_conversation: bool = False
    resume: str | None = None
    fork_session: bool = False
    resume_at: str | None = None
    session_id: str | None = None
    name: str | None = None
    add_dirs: Sequence[str] = ()
    persists: bool = True
    model: str | None = None
    fallback_models: Sequence[str] = ()
    effort: Effort | None = None
    thinking: Thinking | None = None
    max_turns: int | None = None
    max_budget_usd: Decimal | float | None = None
    task_budget: int | None = None
    permission_mode: Mode | None = None
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    settings: str | None = None
    setting_sources: Sequence[Literal["user", "project", "local"]] | None = None
    strict_mcp_config: bool = False
    plugin_dirs: Sequence[str] = ()
    agents: Mapping[str, Json] | None = None
    agent: str | None = None
    json_schema: Mapping[str, Any] | None = None
    partial_messages: bool = False
    agent_text: bool = False
    # End of what is made.

    def __post_init__(self) -> None:
        check_options(self)

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ClewOptions({', '.join(changed)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the options that differ from their defaults. Their secrets are masked."""
        defaults = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        return [
            (name, hide_secrets(name, value))
            for name, default in defaults
            if (value := getattr(self, name)) not in (default, {})
        ]

    def as_options(self, *, asks_host: bool = False) -> Options:
        servers = dict(self.mcp_servers)
        if self.functions:
            servers[SERVER] = {"type": "sdk", "name": SERVER}
        mcp_config = msgspec.json.encode({"mcpServers": servers}).decode()
        shared = {
            field: plain(getattr(self, sdk.name or field))
            for field in Options.__struct_fields__
            for sdk in notes(field, Sdk)
        }
        return Options(
            is_print=True,
            verbose=True,
            output_format="stream-json",
            input_format="stream-json",
            asks="stdio" if asks_host or self.can_use_tool is not None else None,
            may_bypass=self.permission_mode == "bypassPermissions",
            mcp_config=(mcp_config,) if servers else (),
            **shared,
        )


def hide_secrets(name: str, value: Any) -> Any:
    """Return an option's value for display, with variables, headers and other secrets masked."""
    match value:
        case str() if name == "env":
            return HIDDEN
        case str() if name == "settings" and value.lstrip().startswith("{"):
            return json.dumps(hide_secrets(name, json.loads(value)))
        case str():
            return URL_PASSWORD.sub(rf"\1{HIDDEN}@", mask_member(name, value))
        case Mapping():
            return {
                key: hide_secrets("env" if name in PRIVATE else str(key), item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [hide_secrets(name, item) for item in value]
        case _:
            return value


def plain(value: Any) -> Any:
    """Convert a value from a program to the type that `Options` uses."""
    match value:
        case str():
            return value
        case float():
            return Decimal(str(value))
        case Mapping():
            return dict(value)
        case Sequence():
            return tuple(value)
        case _:
            return value
