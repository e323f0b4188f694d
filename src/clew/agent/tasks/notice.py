"""News of a task in the words that the model reads, and what of them people do. Pure: everything comes
in as values.

What a task printed is data: it can close no tag around it.

Decision: docs/decisions/116-background-tasks.md
"""

import re

from msgspec import Struct

from clew.core.messages.text import format_count, wrap_in_tag

# The kind of task that says prompts when their time has come.
SCHEDULE = "schedule"
# What a call answers that began a command: by this a later run knows that it was told of as running.
RUNS = "It runs in the background as task {id}"
# Behind this stands what it printed until a person left it.
SO_FAR = " So far:\n"
_RUNS = re.compile(rf"{RUNS.format(id='([^;]+)')};[^\n]*(.*)", re.S)
HAS_WORDS = "has something to say"
_SUMMARY = re.compile("<summary>(.*?)</summary>", re.S)
_EVENT = re.compile("<event>(.*?)</event>", re.S)


class Notice(Struct, frozen=True, kw_only=True):
    """What happened to one task since the model last heard: lines it said, or its end, or both."""

    task_id: str
    kind: str
    title: str
    status: str
    words: str = ""
    tool_use_id: str = ""
    file: str | None = None
    # What the task was begun for: the last words of an agent.
    result: str = ""
    lines: tuple[str, ...] = ()
    dropped_lines: int = 0
    # It runs on since an earlier run of the session: a person kept it.
    is_of_before: bool = False
    # The ids of messages among the lines: who heard this has heard them.
    letters: tuple[str, ...] = ()


def in_words(notice: Notice) -> str:
    """The text of a message that tells the model, in the form that readers of transcripts know."""
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


def about(notice: Notice) -> str:
    if notice.status == "running" and notice.is_of_before:
        return f"{named(notice.kind, notice.title)} still runs: the person kept it"
    return read_summary(notice.kind, notice.title, notice.status, notice.words)


def read_summary(kind: str, title: str, status: str, words: str) -> str:
    name = named(kind, title)
    if status == "running":
        return f"{name} {HAS_WORDS}"
    return f"{name} {status}" + (f": {words}" if words else "")


def named(kind: str, title: str) -> str:
    return f"Background {kind} “{title}”"


def escape_tags(text: str) -> str:
    """Text that cannot be taken for a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def describe_background_start(answered: str) -> str:
    """What a person reads of an answer that a command runs in the background; empty for another."""
    match = _RUNS.fullmatch(answered)
    if match is None:
        return ""
    text = match[2].partition(SO_FAR)[2]
    return f"runs in the background as {match[1]}" + (f"\n{text}" if text else "")


def for_person(text: str) -> str:
    """What a person reads of a message that told the model: what happened, or the very words of a task
    that had some."""
    match = _SUMMARY.search(text)
    words = match[1] if match else text
    event_match = _EVENT.search(text) if words.endswith(f" {HAS_WORDS}") else None
    if event_match is not None:
        words = f"{words.removesuffix(f' {HAS_WORDS}')}: {event_match[1]}"
    return words.replace("&lt;", "<").replace("&amp;", "&")
