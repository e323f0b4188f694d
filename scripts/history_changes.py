"""The effect of each change of a history on its thinking blocks, on models with preserved thinking.

The table is printed into docs/internals/requests.md by `python -m scripts.history_changes`. A test
runs every row against a service that binds thinking. Every feature that changes messages that were
already sent needs a row.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

# The thinking blocks that the model still sees: all remaining ones, those before the change, or none.
Keeps: TypeAlias = Literal["all", "before", "none"]


class HistoryChange(Struct, frozen=True, kw_only=True):
    """A change after which a request may start differently than the previous one."""

    feature: str
    keeps: Keeps
    how: str


HISTORY_CHANGES: tuple[HistoryChange, ...] = (
    HistoryChange(
        feature="rewind",
        keeps="all",
        how="the remaining messages keep their context",
    ),
    HistoryChange(
        feature="fork, resume",
        keeps="all",
        how="system prompt and tools are saved by hash; entries record what their thinking is bound to",
    ),
    HistoryChange(
        feature="resume without the saved system prompt",
        keeps="none",
        how="the transcript has only its hash, so it is built again",
    ),
    HistoryChange(
        feature="--append-system-prompt, output style",
        keeps="none",
        how="you asked for other instructions; they take effect at once",
    ),
    HistoryChange(
        feature="resume with -p, then on a terminal",
        keeps="none",
        how="the tool for questions is available only in interactive sessions",
    ),
    HistoryChange(
        feature="memory files, date, git status",
        keeps="all",
        how="changes are appended; what was sent stays as it was",
    ),
    HistoryChange(
        feature="other model",
        keeps="all",
        how="system prompt and tools stay; thinking of another model is sent again when that model continues",
    ),
    HistoryChange(
        feature="new MCP tool",
        keeps="all",
        how="loaded on demand, so thinking isn't bound to its definition",
    ),
    HistoryChange(
        feature="new MCP tool, if tools are not loaded on demand",
        keeps="none",
        how="the model or gateway doesn't support deferred tools, or alwaysLoad is set",
    ),
    HistoryChange(
        feature="removed tool",
        keeps="all",
        how="its definition stays in the session's requests; calls return that it is no longer available",
    ),
    HistoryChange(
        feature="long result",
        keeps="all",
        how="it is moved to a file before it is first sent",
    ),
    HistoryChange(
        feature="old results moved to files",
        keeps="before",
        how="only if the context window is full or the cache has expired; oldest first",
    ),
    HistoryChange(
        feature="/context exclude, summarize",
        keeps="before",
        how="you asked for it and saw how much thinking is lost",
    ),
    HistoryChange(
        feature="/context restore",
        keeps="before",
        how="thinking since the edit is lost",
    ),
    HistoryChange(
        feature="/context pin",
        keeps="all",
        how="it doesn't change requests",
    ),
    HistoryChange(
        feature="summary",
        keeps="none",
        how="the last turns stay verbatim, but without thinking",
    ),
    HistoryChange(
        feature="/compact --from",
        keeps="all",
        how="messages before the summary stay",
    ),
    HistoryChange(
        feature="/compact --undo",
        keeps="before",
        how="thinking after the summary is lost; earlier thinking is sent again",
    ),
    HistoryChange(
        feature="rejected images of the current turn",
        keeps="all",
        how="they come after all thinking; text replaces them",
    ),
    HistoryChange(
        feature="older images, rejected or too many",
        keeps="before",
        how="removed in steps of half the limit, so that it happens rarely",
    ),
)


def table() -> str:
    """Return the table in docs/internals/requests.md."""
    rows = [f"| {row.feature} | {row.keeps} | {row.how} |" for row in HISTORY_CHANGES]
    return "\n".join(["| change | thinking still sent | reason |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())
