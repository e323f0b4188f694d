"""Opening a session that exists: as its writer, or, if another process is, as its reader or a fork.

Nothing here decides for the user: a session that is held is a value that says by whom and what can
be done.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from clew.transcript.entries import encode
from clew.transcript.load import Loaded, load
from clew.transcript.log import Log
from clew.transcript.record import Recorder
from clew.transcript.running import Running, holder

_COPIED = ("custom-title", "ai-title", "tag", "mode", "agent-name", "agent-setting", "cost-state")


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Another process writes the session; `holder` is known if it is in the registry."""

    path: Path
    holder: Running | None
    choices: tuple[Literal["read", "fork"], ...] = ("read", "fork")

    def __str__(self) -> str:
        who = str(self.holder) if self.holder else "another process"
        return f"session {self.path.stem} is open: {who}; read it without writing, or fork it"


def resume(recorder: Recorder, log: Log, *, home: Path) -> Loaded | Held:
    """Takes the recorder's session and goes on from what it holds; the lock comes before the look.

    Raises `OSError` if there is no such file.
    """
    path = recorder.transcript
    if not log.claim(path):
        return Held(path=path, holder=holder(home, path.stem))
    loaded = load(path)
    recorder.resume(loaded)
    return loaded


def forked(loaded: Loaded, session_id: str, *, until: str | None = None) -> Iterator[bytes]:
    """The lines of a new session that begins as `loaded` does, up to and with the entry `until`.

    Ids and times stay, the session's id is the new one, every parent is in the new file.
    """
    seen: set[str] = set()
    last: str | None = None
    for node, message in zip(loaded.chain.nodes(), loaded.messages, strict=True):
        parent = message.get("parentUuid")
        line = {
            "parentUuid": parent if parent in seen or node.is_boundary else last,
            **{key: value for key, value in message.items() if key != "parentUuid"},
            "uuid": node.uuid,
            "sessionId": session_id,
        }
        yield encode(line) + b"\n"
        last = node.uuid
        seen.add(last)
        if until is not None and last == until:
            break
    for kind in _COPIED:
        if kind in loaded.side.current:
            named: dict[str, Any] = {**loaded.side.current[kind], "sessionId": session_id}
            yield encode(named) + b"\n"
