"""The lines of a transcript outside its conversation, one method for each kind.

Their fields have the names used in the file, which docs/internals/transcript.md lists.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]
# The colors that a session's prompt can have, and the name that removes the color.
COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan")
NO_COLOR = "default"


class SideLines(ABC):
    """The records of a session other than its messages."""

    _now: Callable[[], str]

    @abstractmethod
    def _note(self, kind: str, **fields: Any) -> None:
        """Append a line of this kind with the session's ID and the time."""

    def enqueue(self, uuid: str, content: Any, **about: Any) -> None:
        """Record a message before it is in the conversation.

        `uuid` and `about` are fields that the message will have in the conversation.
        """
        self._note(
            "queue-operation", operation="enqueue", content=content, messageUuid=uuid, **about
        )

    def dequeue(self, uuid: str) -> None:
        """Record that a queued message no longer waits.

        The message need not be in the conversation.
        """
        self._note("queue-operation", operation="dequeue", messageUuid=uuid)

    def file_history_snapshot(
        self, message_id: str, files: Message, *, is_update: bool = False
    ) -> None:
        """Record the backups of all changed files as they were when a prompt was sent."""
        snapshot = {
            "messageId": message_id,
            "trackedFileBackups": files,
            "timestamp": self._now(),
        }
        self._note(
            "file-history-snapshot",
            messageId=message_id,
            snapshot=snapshot,
            isSnapshotUpdate=is_update,
        )

    def file_history_delta(
        self, message_id: str, *, snapshot_message_id: str, path: str, backup: Message
    ) -> None:
        self._note(
            "file-history-delta",
            messageId=message_id,
            snapshotMessageId=snapshot_message_id,
            trackingPath=path,
            backup=backup,
        )

    def file_change(
        self, message_id: str, tool_use_id: str, changes: list[Message], omitted_count: int
    ) -> None:
        """Record the files that a call changed; `omitted_count` changes are not listed."""
        rest = {"more": omitted_count} if omitted_count else {}
        self._note(
            "file-change", messageId=message_id, toolUseId=tool_use_id, changes=changes, **rest
        )

    def attribution_snapshot(
        self, message_id: str, files: Message, *, surface: str, **fields: Any
    ) -> None:
        """Record who wrote the lines of changed files, and what a commit contained."""
        self._note(
            "attribution-snapshot",
            messageId=message_id,
            surface=surface,
            fileStates=files,
            **fields,
        )

    def task_ended(
        self, task_id: str, tool_use_id: str, *, status: str, words: str, exit_code: int | None
    ) -> None:
        """Record how a background command ended, before the conversation is notified."""
        self._note(
            "task-ended",
            taskId=task_id,
            toolUseId=tool_use_id,
            status=status,
            words=words,
            exitCode=exit_code,
        )

    def agent_name(self, name: str) -> None:
        self._note("agent-name", agentName=name)

    def agent_color(self, color: str) -> None:
        """Set the color of the session's prompt: one of `COLORS`, or `NO_COLOR`."""
        self._note("agent-color", agentColor=color)

    def agent_setting(self, name: str) -> None:
        """Set the type of agent that the session uses from now on."""
        self._note("agent-setting", agentSetting=name)

    def pr_link(self, **link: Any) -> None:
        """Record a pull request that the session created; `link` uses the file's field names."""
        self._note("pr-link", **link)

    def worktree_state(self, worktree: Message | None) -> None:
        """Set the worktree that the session works in from now on; None if it has none."""
        self._note("worktree-state", worktreeSession=worktree)

    def mode(self, mode: str) -> None:
        self._note("mode", mode=mode)

    def permission_mode(self, mode: str) -> None:
        self._note("permission-mode", permissionMode=mode)

    def cost_state(self, **totals: Any) -> None:
        """Record the session's totals so far; only the last such line applies.

        `totals` uses the file's field names.
        """
        self._note("cost-state", **totals)

    def request_cost(self, **cost: Any) -> None:
        """Record the cost of one request; `cost` uses the file's field names.

        Compactions and side requests are recorded too.
        """
        self._note("request-cost", **cost)

    def request_repairs(self, repairs: Sequence[Message]) -> None:
        """Record new repairs that the history needs in requests. These lines are cumulative."""
        self._note("request-repairs", repairs=list(repairs))

    def context_edits(self, edits: Sequence[Message]) -> None:
        """Record what requests omit, shorten or pin; only the last line of this kind applies."""
        self._note("context-edits", edits=list(edits))

    def prompt_hashes(self, **hashes: str) -> None:
        """Record the hashes of the stored instructions and tools that later requests contain."""
        self._note("prompt-hashes", **hashes)
