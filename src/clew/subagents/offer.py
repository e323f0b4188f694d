"""Which tools an agent has of those its session has, and in which mode it works. Pure."""

from collections.abc import Iterable

from clew.subagents.specs import TRUSTED, Spec

# Tools about the person or the session itself: an agent has neither.
NEVER = frozenset(
    {
        "AskUserQuestion",
        "Brief",
        "Config",
        "EnterPlanMode",
        "ExitPlanMode",
        "StructuredOutput",
    }
)
SAME = {"Task": "Agent"}
# From the narrowest to the widest.
WIDTH = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")


def offered(spec: Spec, names: Iterable[str], *, may_delegate: bool) -> list[str]:
    """The tools among `names` that an agent may call, in their order."""
    return [
        name
        for name in names
        if name not in NEVER and (may_delegate or name != "Agent") and has(spec, name)
    ]


def has(spec: Spec, name: str) -> bool:
    """Whether a definition leaves an agent the tool of a name."""
    is_listed = spec.tools is None or is_named(name, spec.tools)
    return is_listed and not is_named(name, spec.disallowed, whole=True)


def is_named(name: str, patterns: Iterable[str], *, whole: bool = False) -> bool:
    """Whether a list names a tool: itself, with what it may be called with, or the server it is of.

    `whole`: what stands in parentheses does not take all of a tool away.
    """
    for pattern in patterns:
        base, parenthesis, _ = pattern.partition("(")
        if whole and parenthesis:
            continue
        base = SAME.get(base.strip(), base.strip())
        if name == base or (base.startswith("mcp__") and of_server(name, base)):
            return True
    return False


def of_server(name: str, pattern: str) -> bool:
    """`mcp__server` and `mcp__server__*` name all tools of a server."""
    server = pattern.removesuffix("*").removesuffix("__")
    return "__" not in server.removeprefix("mcp__") and name.startswith(f"{server}__")


def mode_of(spec: Spec, session_mode: str, *, is_trusted: bool, may_bypass: bool) -> str:
    """The mode an agent works in: its own where that is narrower than the session's, or where a person
    wrote it."""
    own = spec.mode
    if own is None or own == session_mode:
        return session_mode
    if WIDTH.index(own) <= WIDTH.index(session_mode):
        return own
    by_person = spec.origin in TRUSTED or (spec.origin == "project" and is_trusted)
    if own == "bypassPermissions" and not (may_bypass and spec.origin in TRUSTED):
        return session_mode
    return own if by_person else session_mode


def refused(spec: Spec) -> tuple[str, ...]:
    """The rules by which an agent's own definition denies some calls of a tool it has."""
    return tuple(one for one in spec.disallowed if "(" in one)
