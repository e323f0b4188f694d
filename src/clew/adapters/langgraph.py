"""A langgraph checkpointer that stores clew sessions: `graph.compile(checkpointer=SessionSaver())`.

The channel `messages` of a thread is the conversation of a clew session, so that both clew and the
graph can continue it. The rest of a checkpoint, and pending writes, are stored as separate lines in
the transcript, which clew keeps but ignores.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from clew.adapters.graph_thread import CHANNEL, CHECKPOINT, WRITES, GraphThread, place


class SessionSaver(BaseCheckpointSaver[int]):  # type: ignore[misc]
    """Stores threads as clew sessions. The ID of a thread is a session ID or any other name."""

    def __init__(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self._places = {"cwd": cwd, "home": home}
        self._threads: dict[str, GraphThread] = {}

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return next(self._tuples(config, get_checkpoint_id(config)), None)

    def list(
        self,
        config: Any,
        *,
        filter: Any = None,  # noqa: A002
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        last = get_checkpoint_id(before) if before else None
        count = 0
        for item in self._tuples(config, get_checkpoint_id(config)):
            mine = item.config["configurable"]["checkpoint_id"]
            is_wanted = all(item.metadata.get(k) == v for k, v in (filter or {}).items())
            if count == limit:
                return
            if is_wanted and (last is None or mine < last):
                count += 1
                yield item

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        values = dict(checkpoint["channel_values"])
        messages = values.pop(CHANNEL, None)
        names = config["configurable"]
        line = {
            "type": CHECKPOINT,
            "id": checkpoint["id"],
            "namespace": names.get("checkpoint_ns", ""),
            "parent": names.get("checkpoint_id"),
            "messages": [message.id for message in messages or ()],
            "checkpoint": self._pack({**checkpoint, "channel_values": values}),
            "metadata": self._pack(get_checkpoint_metadata(config, metadata)),
        }
        self._thread(config).keep(messages, line)
        return place(config, checkpoint["id"])

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        rows = [(task_id, WRITES_IDX_MAP.get(w[0], at), *w) for at, w in enumerate(writes)]
        checkpoint_id = config["configurable"]["checkpoint_id"]
        line = {"type": WRITES, "id": checkpoint_id, "writes": self._pack(rows)}
        self._thread(config).keep(None, line)

    def delete_thread(self, thread_id: str) -> None:
        self._threads.pop(thread_id, GraphThread(thread_id, self._places)).delete()

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for item in self.list(config, **options):
            yield item

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    def _tuples(self, config: Any, wanted: str | None) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; the newest has all messages, including clew's."""
        thread = self._thread(config)
        space = config["configurable"].get("checkpoint_ns", "")
        lines = thread.lines()
        marks = [r for r in lines if (r["type"], r.get("namespace")) == (CHECKPOINT, space)]
        history = [message for message, _ in thread.history(marks)]
        if not marks and history and not space:
            fresh = empty_checkpoint() | {"channel_versions": {CHANNEL: 1}}
            values = {"channel_values": {CHANNEL: history}}
            about = {"source": "update", "step": -1, "parents": {}}
            yield CheckpointTuple(place(config, fresh["id"]), fresh | values, about)
        for mark in reversed(marks):
            if wanted is not None and mark["id"] != wanted:
                continue
            checkpoint = self._unpack(mark["checkpoint"])
            is_newest = mark is marks[-1] and not space
            if messages := history if is_newest else history[: len(mark["messages"])]:
                checkpoint["channel_values"][CHANNEL] = messages
            rows: dict[tuple[str, int], Any] = {}
            for line in lines:
                if line["type"] == WRITES and line["id"] == mark["id"]:
                    for task_id, at, channel, value in self._unpack(line["writes"]):
                        if at < 0 or (task_id, at) not in rows:
                            rows[task_id, at] = (task_id, channel, value)
            yield CheckpointTuple(
                place(config, mark["id"]),
                checkpoint,
                self._unpack(mark["metadata"]),
                place(config, mark["parent"]) if mark["parent"] else None,
                [*rows.values()],
            )

    def _thread(self, config: Any) -> GraphThread:
        name = config["configurable"]["thread_id"]
        return self._threads.setdefault(name, GraphThread(name, self._places))

    def _pack(self, value: Any) -> Any:
        kind, data = self.serde.dumps_typed(value)
        return [kind, b64encode(data).decode()]

    def _unpack(self, packed: Any) -> Any:
        return self.serde.loads_typed((packed[0], b64decode(packed[1])))
