"""News of a task in the words that the model reads. Pure: everything comes in as values.

What a task printed is data: it can close no tag around it.
"""

from msgspec import Struct

from clew.messages.counts import count_of
from clew.messages.wording import tagged

# The kind of task that says prompts when their time has come.
SCHEDULE = "schedule"


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
    parts = [f"<{name}>{plain(value)}</{name}>" for name, value in fields if value]
    if notice.lines:
        more = f"\n({count_of(notice.dropped_lines, 'more line')})" if notice.dropped_lines else ""
        parts.append(f"<event>{plain(chr(10).join(notice.lines))}{more}</event>")
    return tagged("task-notification", "\n" + "\n".join(parts) + "\n")


def about(notice: Notice) -> str:
    if notice.status == "running" and notice.is_of_before:
        return f"{named(notice.kind, notice.title)} still runs: the person kept it"
    return summary(notice.kind, notice.title, notice.status, notice.words)


def summary(kind: str, title: str, status: str, words: str) -> str:
    name = named(kind, title)
    if status == "running":
        return f"{name} has something to say"
    return f"{name} {status}" + (f": {words}" if words else "")


def named(kind: str, title: str) -> str:
    return f"Background {kind} “{title}”"


def plain(text: str) -> str:
    """Text that cannot be taken for a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
