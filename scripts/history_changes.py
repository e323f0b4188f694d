"""What each feature that changes a history does to the thoughts in it, on models with preserved thinking.

One table, printed into docs/internals/requests.md by `python -m scripts.history_changes`; a test drives every row against a service that binds thoughts. A
feature that comes to change what was sent needs a row here.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

# Which thoughts the model is still shown: all that are left, those before the change, or none.
Keeps: TypeAlias = Literal["all", "before", "none"]


class HistoryChange(Struct, frozen=True, kw_only=True):
    """One way in which a request comes to begin otherwise than the one before, or is kept from it."""

    feature: str
    keeps: Keeps
    how: str


HISTORY_CHANGES: tuple[HistoryChange, ...] = (
    HistoryChange(
        feature="rewind",
        keeps="all",
        how="what is left stands where it stood",
    ),
    HistoryChange(
        feature="fork, resume",
        keeps="all",
        how="system prompt and tools are kept by hash, entries name what their thoughts are bound to",
    ),
    HistoryChange(
        feature="resume where the system prompt is not kept",
        keeps="none",
        how="the transcript holds its hash alone; it is made anew",
    ),
    HistoryChange(
        feature="--append-system-prompt, output style",
        keeps="none",
        how="you asked for other instructions; they take effect at once",
    ),
    HistoryChange(
        feature="resume with -p, then on a terminal",
        keeps="none",
        how="the tool that puts questions to you is there only where somebody can answer",
    ),
    HistoryChange(
        feature="memory files, date, git status",
        keeps="all",
        how="what is new is appended; what was told stays as it was told",
    ),
    HistoryChange(
        feature="other model",
        keeps="all",
        how="system prompt and tools stay; what a model cannot read comes back with one that can",
    ),
    HistoryChange(
        feature="new MCP tool",
        keeps="all",
        how="loaded on demand: its definition is no part of what thoughts are bound to",
    ),
    HistoryChange(
        feature="new MCP tool, where none is loaded on demand",
        keeps="none",
        how="the model or gateway takes no deferred tools, or alwaysLoad is set",
    ),
    HistoryChange(
        feature="tool that goes away",
        keeps="all",
        how="its definition stays in the session's requests; a call of it says that it is gone",
    ),
    HistoryChange(
        feature="long result",
        keeps="all",
        how="it goes into a file before it is sent for the first time",
    ),
    HistoryChange(
        feature="old results put into files",
        keeps="before",
        how="only where the window is full or nothing is cached any more; the oldest first",
    ),
    HistoryChange(
        feature="/context exclude, summarise",
        keeps="before",
        how="you asked for it, and were shown how many thoughts go with it",
    ),
    HistoryChange(
        feature="/context restore",
        keeps="before",
        how="those made since the edit go",
    ),
    HistoryChange(
        feature="/context pin",
        keeps="all",
        how="it changes no request",
    ),
    HistoryChange(
        feature="summary",
        keeps="none",
        how="newest turns that stay word for word stay without their thoughts",
    ),
    HistoryChange(
        feature="/compact --from",
        keeps="all",
        how="what stands before the summary is kept as it is",
    ),
    HistoryChange(
        feature="/compact --undo",
        keeps="before",
        how="those made behind the summary go; those before it are shown again",
    ),
    HistoryChange(
        feature="images of the open turn, refused",
        keeps="all",
        how="they stand behind every thought, where words take their place",
    ),
    HistoryChange(
        feature="older images, refused or too many",
        keeps="before",
        how="too many go in steps of half the limit, so that it happens rarely",
    ),
)


def table() -> str:
    """The rows of docs/internals/requests.md."""
    rows = [f"| {row.feature} | {row.keeps} | {row.how} |" for row in HISTORY_CHANGES]
    return "\n".join(["| what changes | thoughts still shown | how |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())
