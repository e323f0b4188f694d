"""The durable queue of frames to send to the server, in a separate file.

Each line contains a frame, or the number of frames that the server has received, or the number up
to which viewers' events have taken effect. Lines are only appended, so the successor of a killed
worker sends the same bytes under the same IDs, and the server stores each frame once.
"""

import os
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from clew.core.json_object import Json
from clew.core.wire import encode_frame


class Outbox:
    """The queue. `known` contains the IDs of all frames ever added."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.known: set[str] = set()
        # Open questions, and those whose answers have not taken effect in the transcript.
        self.questions: dict[str, Json] = {}
        self._answered: set[str] = set()
        self.cursor = 0
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._read(path)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):  # An incomplete line, written by a killed worker.
            os.ftruncate(self._fd, len(complete))
        for line in complete.splitlines():
            try:
                value: Any = msgspec.json.decode(line)
                frame = value.get("frame")
            except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
                continue  # A damaged line: its frame is rebuilt from the transcript.
            if isinstance(frame, dict):
                self._note(frame)
                self._waiting.append((str(frame.get("uuid")), line[len(b'{"frame":') : -1]))
            elif isinstance(value.get("sent"), int):
                for _ in range(min(value["sent"], len(self._waiting))):
                    self._waiting.popleft()
            elif isinstance(value.get("cursor"), int):
                self.cursor = max(self.cursor, value["cursor"])
            elif isinstance(value.get("took"), str):
                self.known.add(value["took"])
            else:
                self.questions.pop(str(value.get("closed")), None)

    def _note(self, frame: Json) -> None:
        self.known.add(str(frame.get("uuid")))
        request_id = frame.get("request_id")
        match frame.get("type"):
            case "control_request":
                self.questions[str(request_id)] = frame.get("request", {})
            case "control_cancel_request":
                self.questions.pop(str(request_id), None)

    def put(self, frame: Json) -> None:
        """Add a frame, which must have a UUID, unless it was already added."""
        if frame["uuid"] in self.known:
            return
        encoded = encode_frame(frame)
        self._note(frame)
        self._waiting.append((frame["uuid"], encoded))
        self._append(b'{"frame":%s}\n' % encoded)

    def answered(self, request_id: str) -> Json | None:
        """Mark a question as answered, and return it; None if it is unknown or already answered."""
        if request_id in self._answered:
            return None
        self._answered.add(request_id)
        question = self.questions.get(request_id)
        if question is not None and "tool_use_id" not in question:
            self._close(request_id)
        return question

    def finish(self, calls: set[str]) -> None:
        """Record that these tool calls have results in the transcript."""
        for request_id, question in list(self.questions.items()):
            if question.get("tool_use_id") in calls:
                self._close(request_id)

    def _close(self, request_id: str) -> None:
        del self.questions[request_id]
        self._append(b'{"closed":%s}\n' % msgspec.json.encode(request_id))

    def take(self, name: str) -> None:
        """Record that a viewer's prompt is in the transcript, so it is never accepted twice."""
        self.known.add(name)
        self._append(b'{"took":%s}\n' % msgspec.json.encode(name))

    def peek(self, most: int, most_bytes: int) -> list[bytes]:
        """Return the next frames to send: at least one, if any is queued."""
        batch: list[bytes] = []
        size = 0
        for _, frame in self._waiting:
            size += len(frame)
            if batch and (len(batch) == most or size > most_bytes):
                break
            batch.append(frame)
        return batch

    def sent(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self._append(b'{"sent":%d}\n' % count)

    def settle(self, cursor: int) -> None:
        """Record that viewers' events up to this number have taken effect."""
        if cursor > self.cursor:
            self.cursor = cursor
            self._append(b'{"cursor":%d}\n' % cursor)

    def sync(self) -> None:
        os.fsync(self._fd)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def _append(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._fd, view) :]
