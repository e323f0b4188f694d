"""The facts around a conversation as attachments: payload and the words that are frozen in the log.

Each function gives what `factories.attachment` takes. The words are made once, here; whatever is told to
the model later is these words, also when the facts have changed since.

Decision: docs/decisions/082-frozen-system-prompt.md
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from clew.context.git_report import Report, told
from clew.context.memory import MemoryFile, in_order
from clew.messages.wording import tagged

MAX_TREE_LINES = 120


class Fact(Struct, frozen=True, kw_only=True):
    """An attachment to be recorded: `rendered` is sent word for word, `role` says how."""

    payload: dict[str, Any]
    rendered: tuple[str, ...]
    role: str = "user"


def _reminder(words: str) -> tuple[str, ...]:
    return (tagged("system-reminder", f"\n{words}\n"),)


def memory_fact(files: Sequence[MemoryFile], *, kind: str = "instructions") -> Fact | None:
    """What the memory files say; none if none does."""
    if not files:
        return None
    named = [
        {"path": f.path, "type": f.layer.capitalize(), "content": f.text}
        | ({"importedBy": f.imported_by} if f.imported_by else {})
        | ({"globs": list(f.paths)} if f.paths else {})
        for f in files
    ]
    head = (
        "Instructions for you from files of this machine. They go before your own habits; what the "
        "person says in this conversation goes before them."
    )
    return Fact(
        payload={"type": kind, "files": named}, rendered=_reminder(f"{head}\n\n{in_order(files)}")
    )


def environment_fact(
    *,
    cwd: str,
    is_repository: bool,
    platform: str,
    os_version: str,
    model: str,
    folders: Sequence[str] = (),
    nonce: str = "",
) -> Fact:
    """Where the session runs, and what clew's own tags bear in it."""
    payload = {
        "type": "environment",
        "cwd": cwd,
        "isRepository": is_repository,
        "platform": platform,
        "osVersion": os_version,
        "model": model,
        "additionalDirectories": list(folders),
        **({"nonce": nonce} if nonce else {}),
    }
    lines = [
        f"Working folder: {cwd}",
        f"Git repository: {'yes' if is_repository else 'no'}",
        f"Platform: {platform} ({os_version})",
        f"Model: {model}",
        *(f"Further folder: {folder}" for folder in folders),
        *([f"Nonce of clew's tags: {nonce}"] if nonce else []),
    ]
    return Fact(payload=payload, rendered=("\n".join(lines),), role="system")


def date_fact(day: str) -> Fact:
    """Today, as YYYY-MM-DD."""
    return Fact(
        payload={"type": "date", "date": day}, rendered=(f"Today is {day}.",), role="system"
    )


def git_fact(report: Report) -> Fact:
    """How the repository was when the session began; it does not follow what happens since."""
    words = f"The git repository when this conversation began:\n{told(report)}"
    payload = {"type": "session_context", "context": {"gitStatus": told(report)}}
    return Fact(payload=payload, rendered=_reminder(words))


def tree_fact(paths: Iterable[str]) -> Fact:
    """The structure of the folder, two levels deep and bounded."""
    shown: dict[str, None] = {}
    for path in sorted(paths):
        parts = path.split("/")
        shown["/".join(parts[:2]) + ("/" if len(parts) > 2 else "")] = None
    lines = list(shown)
    more = [f"... and {len(lines) - MAX_TREE_LINES} more"] if len(lines) > MAX_TREE_LINES else []
    words = "\n".join(["Files here, two levels deep:", *lines[:MAX_TREE_LINES], *more])
    return Fact(payload={"type": "directory_structure"}, rendered=_reminder(words))
