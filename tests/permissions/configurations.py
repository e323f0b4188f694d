"""Rules and modes under which the corpus and the fuzzer judge command lines."""

from typing import Any

from clew.permissions.request import Mode

READERS = (
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "rg",
    "find",
    "wc",
    "sort",
    "uniq",
    "echo",
    "git log",
    "git diff",
    "git show",
    "git status",
    "git grep",
)
# Rules for programs that write, next to which nothing else may slip through.
WRITERS = ("npm run lint", "make check", "cp templates/base", "git commit --fixup", "pytest tests")

DENIED = ("Read(.env)", "Read(secrets/**)", "Read(lib/secrets/**)", "Read(~/.ssh/**)")

_READING = [f"Bash({command}:*)" for command in READERS]
_WRITING = [f"Bash({command}:*)" for command in WRITERS]
_DENYING = list(DENIED)

Configuration = tuple[dict[str, Any], Mode]

CONFIGURATIONS: dict[str, Configuration] = {
    "no rules": ({}, "default"),
    "deny": ({"deny": _DENYING}, "default"),
    "readers": ({"allow": ["Read", *_READING]}, "default"),
    "readers, deny": ({"allow": ["Read", *_READING], "deny": _DENYING}, "default"),
    "writers, deny": ({"allow": [*_READING, *_WRITING], "deny": _DENYING}, "default"),
    "acceptEdits, deny": ({"allow": _READING, "deny": _DENYING}, "acceptEdits"),
    "plan, deny": ({"allow": _READING, "deny": _DENYING}, "plan"),
    "dontAsk, deny": ({"allow": _READING, "deny": _DENYING}, "dontAsk"),
    "auto, deny": ({"allow": _READING, "deny": _DENYING}, "auto"),
}
