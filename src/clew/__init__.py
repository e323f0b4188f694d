"""clew: a coding agent for the terminal, and the message and session engine that it is built on.

`import clew` loads no other module. Each name is loaded when a program first uses it.
"""

# Type checkers read `__init__.pyi` instead: to them, `__getattr__` would define every misspelt name.
# This file's bytecode stays below 4 KB, so that a full disk can't truncate it (see `__main__`).
_HOMES = {
    "agent.compaction.strategy": ("CompactFunction", "CompactionRequest", "CompactionSummary"),
    "core.ledger.ledger": ("Ledger",),
    "core.messages.errors": ("SessionError",),
    "fronts.headless.permission": ("HostError",),
    "fronts.sdk.client": ("ClewClient", "ClientTurn", "query", "run_sync"),
    "fronts.sdk.messages": (
        "Assistant", "Block", "Message", "Other", "OtherBlock", "Result", "StreamEvent", "System",
        "Text", "Thinking", "ToolResult", "ToolUse", "User",
    ),
    "fronts.sdk.options": ("Call", "ClewOptions", "Defer", "Deny", "HookAt", "Permit"),
    "fronts.sdk.session_store": ("ProgramStore",),
    "fronts.sdk.sessions": (
        "fork_session", "list_sessions", "rename_session", "session_messages", "tag_session",
    ),
    "fronts.sdk.stored_session": ("Session", "sessions"),
    "parts.mcp.functions": ("Function", "tool"),
    "parts.packages": ("PackagePart", "PartSession"),
    "permissions.request": ("Mode",),
    "providers.base": (
        "Adaptive", "Effort", "Failure", "ModelRequest", "Off", "PrepareFunction",
        "ProviderFunction", "ThinkingBudget",
    ),
    "record.library.branches": ("BranchPrompt", "SessionTree"),
    "record.library.search": ("SearchHit",),
    "record.transcript.check": ("BrokenRule",),
    "record.transcript.light": ("Outline",),
    "version": ("__version__",),
}  # fmt: skip
_PLACES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_PLACES)


def __getattr__(name):
    home = _PLACES.get(name)
    if home is None:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.{home}"), name)


def __dir__():
    return sorted({*globals(), *__all__})
