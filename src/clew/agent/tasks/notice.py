"""News from a background task, formatted for the model and for the user.

The output of a task is data and must not be able to close the tags around it. This module does no
I/O.

Decision: docs/decisions/116-background-tasks.md
"""

import re

from msgspec import Struct

from clew.core.messages.text import HAS_WORDS, IN_BACKGROUND, format_count, wrap_in_tag
from clew.core.regex import lazy_pattern

# The kind of task that submits scheduled prompts.
SCHEDULE = "schedule"
# The kind of task that runs on another machine.
REMOTE = "remote agent"
# The tool result for a command started in the background; a later run recognizes it by this text.
RUNS = "It runs in the background as task {id}"
# Precedes the output printed before the user moved the command to the background.
SO_FAR = " So far:\n"
_RUNS = lazy_pattern(rf"{RUNS.format(id='([^;]+)')};[^\n]*(.*)", re.S)


class Notice(Struct, frozen=True, kw_only=True):
    """News from one task since the model's last message: lines of output, its end, or both."""

    task_id: str
    kind: str
    title: str
    status: str
    words: str = ""
    tool_use_id: str = ""
    file: str | None = None
    # A note if the file does not have all of the output.
    cut: str = ""
    # The work's result: for an agent, its last message.
    result: str = ""
    lines: tuple[str, ...] = ()
    dropped_lines: int = 0
    # Kept running by the user since an earlier run of the session.
    is_of_before: bool = False
    # The IDs of messages among the lines; delivering this notice delivers them.
    letters: tuple[str, ...] = ()


def in_words(notice: Notice) -> str:
    """Return the notice as a message to the model, in the format that transcript readers know."""
    fields = [
        ("task-id", notice.task_id),
        ("tool-use-id", notice.tool_use_id),
        ("output-file", notice.file or ""),
        ("status", notice.status),
        ("summary", about(notice)),
        ("result", notice.result),
    ]
    parts = [f"<{name}>{escape_tags(value)}</{name}>" for name, value in fields if value]
    if notice.lines:
        suffix = (
            f"\n({format_count(notice.dropped_lines, 'more line')})" if notice.dropped_lines else ""
        )
        parts.append(f"<event>{escape_tags(chr(10).join(notice.lines))}{suffix}</event>")
    return wrap_in_tag("task-notification", "\n" + "\n".join(parts) + "\n")


def describe_cut(saved_bytes: int, size: int) -> str:
    """Return a note if a file has only the beginning of an output, else an empty string."""
    if saved_bytes >= size:
        return ""
    return f"the output file has only the first {saved_bytes:,} of {size:,} bytes"


def about(notice: Notice) -> str:
    return "; ".join(filter(None, [_describe(notice), notice.cut]))


def _describe(notice: Notice) -> str:
    if notice.status == "running" and notice.is_of_before:
        return f"{named(notice.kind, notice.title)} is still running, because the user kept it"
    return read_summary(notice.kind, notice.title, notice.status, notice.words)


def read_summary(kind: str, title: str, status: str, words: str) -> str:
    name = named(kind, title)
    if status == "running":
        return f"{name} {HAS_WORDS}"
    return f"{name} {status}" + (f": {words}" if words else "")


def named(kind: str, title: str) -> str:
    return f"Background {kind} “{title}”"


def escape_tags(text: str) -> str:
    """Return the text with special characters escaped, so that it can't form a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def describe_background_start(answered: str) -> str:
    """Return the display text of a background command's start; empty for any other result."""
    match = _RUNS.fullmatch(answered)
    if match is None:
        return ""
    text = match[2].partition(SO_FAR)[2]
    return IN_BACKGROUND.format(match[1]) + (f"\n{text}" if text else "")
