"""Checks of a program's options, by the same rules as on the command line.

An option of the wrong type raises TypeError, an invalid value raises ValueError. Both name the
option as a field of `ClewOptions`. Arguments are untyped here, because a program may pass anything.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from clew.agent import option_values as values
from clew.agent.hooks.events import BY_NAME
from clew.agent.hooks.handlers import CallbackHook, Hook, why_never
from clew.agent.options import LEAST_THINKING, Flag, Options, Sdk, notes
from clew.core.nearest import suggest_nearest
from clew.fronts.sdk.definition_checks import (
    check_agents,
    check_rules,
    check_servers,
    check_settings,
)
from clew.parts.mcp.functions import SERVER, Function
from clew.permissions.modes import unknown_tool
from clew.providers.base import Thinking, ThinkingBudget

# The names of JSON types in msgspec's errors, and the names of the Python types.
WORDS = {"`array": "`list", "`object": "`dict", "null": "None"}
# The most characters of a value that an error repeats.
MOST_SHOWN = 60
# Options for which an empty string is a mistake, such as a variable that is not set.
FILLED = ("cwd", "home", "model", "resume", "resume_at", "settings", "agent", "session_store")
PROMPTS = ("system_prompt", "append_system_prompt")
ON_FAILURE = ("block", "continue")


def check_options(options: Any) -> None:
    """Raise TypeError or ValueError for the first invalid option."""
    for name in ("cwd", "home"):
        expect(name, getattr(options, name), (str, os.PathLike, NoneType), "a path")
    for name in ("cwd", "home"):
        check_text(name, str(getattr(options, name) or ""), allows_nul=False)
    for name in FILLED:
        if getattr(options, name) == "":
            raise ValueError(f"{name}: must not be empty; leave it out for the default")
    expect("inherit_env", options.inherit_env, (bool,), "bool")
    for name in ("env", "mcp_servers"):
        expect(name, getattr(options, name), (Mapping,), "a dict")
    for name in ("hooks", "functions"):
        expect(name, getattr(options, name), (list, tuple), "a list")
    for name in ("can_use_tool", "compact", "provider", "prepare"):
        if (function := getattr(options, name)) is not None:
            expect_function(name, function)
            check_kind(name, function)
    for variable, value in options.env.items():
        expect("env", variable, (str,), "names of type str")
        expect(f"env: {variable}", value, (str,), "str")
        if not variable or set("=\0") & set(variable) or "\0" in value:
            raise ValueError(
                f"env: {variable!r}: the name must not be empty or contain =, and neither the name "
                "nor the value may contain NUL"
            )
    for hook in options.hooks:
        if not (hasattr(hook, "event") and hasattr(hook, "call")):
            raise TypeError(f"hooks: expected clew.HookAt items, got {show(hook)}")
    if options.session_store is not None:
        check_store(options.session_store)
        if not options.persists:
            raise ValueError("session_store can't be combined with persists=False")
    annotations = type(options).__annotations__
    for field in Options.__struct_fields__:
        for sdk in notes(field, Sdk):
            name = sdk.name or field
            value = getattr(options, name)
            for text in value if isinstance(value, list | tuple) else [value]:
                if isinstance(text, str):
                    check_text(name, text, allows_nul=name in PROMPTS)
            check_type(name, annotations[name], value)
            check_value(name, field, value)
    for name in options.tools or ():
        if why := unknown_tool(name):
            raise ValueError(f"tools: {why}")
    check_rules("allowed_tools", options.allowed_tools, "allow")
    check_rules("disallowed_tools", options.disallowed_tools, "deny")
    check_settings(options.settings)
    check_schema(options.json_schema)
    check_functions(options.functions, options.mcp_servers)
    check_servers(options.mcp_servers)
    check_agents(options.agents)
    check_combinations(options)


def check_text(name: str, text: str, *, allows_nul: bool) -> None:
    """Reject text that no file, program or request can contain."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{name}: can't be encoded as UTF-8: {show(text)}") from None
    if "\0" in text and not allows_nul:
        raise ValueError(f"{name}: must not contain NUL, got {show(text)}")


def check_label(name: str, text: Any) -> None:
    """Check a title or a tag."""
    expect(name, text, (str,), "str")
    check_text(name, text, allows_nul=False)


def expect(name: str, value: Any, types: tuple[type, ...], words: str) -> None:
    if not isinstance(value, types):
        raise TypeError(f"{name}: expected {words}, got {show(value)}")


def expect_function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name}: expected a function, got {show(value)}")


# The kind of function that an option takes. The others have to be async functions.
KINDS = {"provider": "an async generator (async def with yield)", "prepare": "a plain function"}


def check_kind(name: str, function: Any) -> None:
    """Reject a function of a kind that the option does not allow, such as an async function.

    A lambda is accepted, because it may return the result of a function of the required kind.
    Decorated functions are unwrapped.
    """
    while isinstance(function, functools.partial):
        function = function.func
    inner = inspect.unwrap(function)
    if not inspect.isroutine(inner):
        inner = inspect.unwrap(type(inner).__call__)
    is_async = inspect.iscoroutinefunction(inner) or hasattr(function, "_is_coroutine")
    yields = inspect.isgeneratorfunction(inner)
    match name:
        case "provider":
            is_wrong = is_async or yields
        case "prepare":
            is_wrong = is_async or yields or inspect.isasyncgenfunction(inner)
        case _:
            is_wrong = not is_async and inner.__name__ != "<lambda>"
    if is_wrong:
        expected = KINDS.get(name, "an async function (async def)")
        raise TypeError(f"{name}: expected {expected}, got {show(function)}")


def show(value: Any) -> str:
    """Return a value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def check_type(name: str, annotation: Any, value: Any) -> None:
    """Check a value against the annotation of its option in the table of options."""
    if name == "thinking":
        allowed = (*get_args(Thinking), NoneType)
        expect(name, value, allowed, "clew.Adaptive, clew.ThinkingBudget, clew.Off or None")
        check_thinking(value)
        return
    if name == "max_budget_usd" and isinstance(value, str | bool):
        raise TypeError(f"{name}: expected a number of dollars, got {show(value)}")
    choices = find_choices(annotation)
    for item in value if isinstance(value, list | tuple) else [value]:
        if choices and isinstance(item, str):
            check_choice(name, item, choices)
    try:
        msgspec.convert(dict(value) if isinstance(value, Mapping) else value, annotation)
    except msgspec.ValidationError as error:
        words = str(error)
        for written, python in WORDS.items():
            words = words.replace(written, python)
        words = words[:1].lower() + words[1:].partition(", got")[0]
        kind = ValueError if words.startswith("invalid") else TypeError
        words = words.replace("`list`", "a list").replace("`dict`", "a dict")
        raise kind(f"{name}: {words}, got {show(value)}") from None


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ValueError if an argument is not one of the choices."""
    if value not in choices:
        near = suggest_nearest(value, choices) if isinstance(value, str) else ""
        expected = ", ".join(choices)
        raise ValueError(f"{name}: expected one of {expected}{near}, got {show(value)}")


def check_thinking(value: Any) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(value), Thinking | None)
    except msgspec.ValidationError as error:
        raise TypeError(f"thinking: {error}, got {show(value)}") from None
    if isinstance(value, ThinkingBudget) and value.tokens < LEAST_THINKING:
        raise ValueError(
            f"thinking: must be at least {LEAST_THINKING:,} tokens, got {value.tokens}; "
            "clew.Off() turns thinking off"
        )


def find_choices(annotation: Any) -> tuple[str, ...]:
    """Return the values of the `Literal` inside an annotation, if any."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    inner = (find_choices(kind) for kind in get_args(annotation))
    return next(filter(None, inner), ())


def check_value(name: str, field: str, value: Any) -> None:
    """Apply the command line's own check of a number, a name or a session ID."""
    flag = next(notes(field, Flag), None)
    if flag is None or flag.choices or value is None or isinstance(value, bool):
        return
    if field in ("session_id", "max_budget_usd") or isinstance(value, int | float):
        text = str(value)
        reject(name, value, lambda: flag.read(text))


def reject(name: str, value: Any, check: Callable[[], Any]) -> None:
    try:
        check()
    except ValueError as error:
        raise ValueError(f"{name}: {error}, got {show(value)}") from None


def check_schema(schema: Any) -> None:
    if schema is not None:
        try:
            msgspec.json.encode(schema)
        except (TypeError, ValueError) as error:
            raise TypeError(f"json_schema: {error}, got {show(schema)}") from None
        reject("json_schema", schema, lambda: values.answer_schema(dict(schema)))


def check_store(store: Any) -> None:
    if isinstance(store, str) and "://" in store:
        return
    if not all(callable(getattr(store, name, None)) for name in ("append", "load")):
        raise TypeError(
            f"session_store: expected an object with append and load, or a URL, got {show(store)}"
        )
    for name in ("append", "load", "list_sessions", "list_subkeys"):
        if (method := getattr(store, name, None)) is not None:
            check_kind(f"session_store: {name}", method)


def check_functions(functions: Sequence[Any], servers: Mapping[str, Any]) -> None:
    names: set[str] = set()
    for function in functions:
        if not isinstance(function, Function):
            raise TypeError(f"functions: expected tools made with @clew.tool, got {show(function)}")
        if function.name in names:
            raise ValueError(f"functions: two tools are named {function.name!r}")
        names.add(function.name)
    if functions and SERVER in servers:
        raise ValueError(f"mcp_servers: the name {SERVER!r} is reserved for `functions`")


def check_hook(hook: Any) -> None:
    """Check that a hook can run: its event exists, and its matcher and time limit are valid."""
    event = BY_NAME.get(hook.event) if isinstance(hook.event, str) else None
    if event is None:
        near = suggest_nearest(str(hook.event), BY_NAME)
        raise ValueError(f"event: unknown hook event {show(hook.event)}{near}")
    expect_function("call", hook.call)
    check_kind("call", hook.call)
    expect("matcher", hook.matcher, (str,), "str")
    expect("timeout_s", hook.timeout_s, (int, float, NoneType), "a number of seconds")
    check_choice("on_failure", hook.on_failure, ON_FAILURE)
    if hook.matcher and not event.subject:
        raise ValueError(f"matcher: {hook.event} has nothing to match; leave the matcher out")
    handler = CallbackHook(call=hook.call, timeout=hook.timeout_s)
    if why := why_never(Hook(event=event, handler=handler, matcher=hook.matcher)):
        raise ValueError(why)


def check_combinations(options: Any) -> None:
    """Reject options that can't be combined."""
    is_resumed = options.continue_conversation or options.resume is not None
    if options.continue_conversation and options.resume is not None:
        raise ValueError("continue_conversation and resume can't be combined; use one of them")
    for name in ("fork_session", "resume_at"):
        if getattr(options, name) and not is_resumed:
            raise ValueError(f"{name} requires a session; set continue_conversation or resume")
