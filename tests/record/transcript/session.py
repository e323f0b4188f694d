"""A recording session for tests: real files below a folder, a clock that counts, ids that read."""

import itertools
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.core.messages import factories
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
OTHER = "1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"
USAGE = {"input_tokens": 10, "output_tokens": 7}

_IDS = itertools.count()


class Clock:
    """`2026-01-02T03:04:00.000Z` and a second more with every look."""

    def __init__(self) -> None:
        self._seconds = 0

    def __call__(self) -> str:
        self._seconds += 1
        minutes, seconds = divmod(self._seconds, 60)
        return f"2026-01-02T{3 + minutes // 60:02}:{minutes % 60:02}:{seconds:02}.000Z"


class Session:
    """A recorder with its log and makers of messages; `home` is the config home."""

    def __init__(
        self,
        home: Path,
        *,
        log: Log | None = None,
        is_kept: bool = True,
        session_id: str = SESSION,
        cwd: str = "/w",
    ) -> None:
        self.now = Clock()
        self.paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        self.log = log or (Log(rescue_dirs=[home / "spare"]) if is_kept else None)
        writer = Writer(session_id="", cwd=cwd, version="0.1.0", git_branch="main")
        self.recorder = Recorder(paths=self.paths, log=self.log, writer=writer, now=self.now)

    def new_id(self) -> str:
        return str(uuid.uuid5(uuid.UUID(SESSION), str(next(_IDS))))

    def user(self, text: str, **more: Any) -> dict[str, Any]:
        return factories.make_user(text, uuid=self.new_id(), at=self.now(), **more)

    def answer(
        self, *blocks: dict[str, Any], message_id: str | None = None
    ) -> list[dict[str, Any]]:
        """The entries of an answer, one a block; usage and request id on each."""
        message_id = message_id or f"msg_{self.new_id()}"
        calls = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": list(blocks),
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": USAGE,
        }
        return factories.make_assistant(
            message,
            uuids=[self.new_id() for _ in blocks],
            at=self.now(),
            request_id=f"req_{message_id}",
        )

    def result(self, tool_use_id: str, text: str = "done") -> dict[str, Any]:
        return factories.make_tool_answer(
            tool_use_id, text, uuid=self.new_id(), at=self.now(), source_uuid=None, raw=text
        )

    def boundary(self, **meta: Any) -> dict[str, Any]:
        meta = {"trigger": "manual", "preTokens": 9, **meta}
        return factories.make_system(
            "compact_boundary",
            "Compacted",
            uuid=self.new_id(),
            at=self.now(),
            compactMetadata=meta,
        )

    def summary(self) -> dict[str, Any]:
        return self.user("summary", is_compact_summary=True)

    def load(self) -> LoadedSession:
        if self.log is not None:
            assert not self.log.flush().troubles
        return load(self.paths.place.transcript)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()


def text(words: str) -> dict[str, Any]:
    return factories.make_text(words)


def call(tool_use_id: str, command: str = "ls") -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "Bash", "input": {"command": command}}


def uuids(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["uuid"] for message in messages]
