"""Open an existing session: as its writer, or as a reader or a fork if another process writes it.

This module makes no choice for the user: a locked session is returned as a value that names the
process and the choices.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec

from clew.core.messages.errors import SessionError
from clew.core.messages.history import find_unanswered_calls, make_missing_results
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import ENDED_WHILE_RUNNING
from clew.record.transcript.agents import bring_home, find_unsaved_agents
from clew.record.transcript.copies import copy_messages
from clew.record.transcript.entries import encode
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.policy import find_block_ids
from clew.record.transcript.record import Recorder
from clew.record.transcript.recovery import load_with_unsaved
from clew.record.transcript.running import Running, find_holder

_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_COPIED = (
    "custom-title", "ai-title", "tag", "mode", "agent-name", "agent-color", "agent-setting", "cost-state",
    "prompt-hashes", "context-edits",
)  # fmt: skip


class LockedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that another process has open; `holder` is that process if it is registered."""

    path: Path
    holder: Running | None
    choices: tuple[Literal["read", "fork"], ...] = ("read", "fork")

    def __str__(self) -> str:
        who = str(self.holder) if self.holder else "another process"
        return f"session {self.path.stem} is open in {who}"


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """The point to rewind a session to: after the message `to`.

    With `only_turn`, no turn except that of the prompt `only_turn` may be dropped.
    """

    to: str
    only_turn: str | None = None

    def of(self, loaded: LoadedSession) -> LoadedSession:
        """Return the session as it was after the message `to`.

        Raise `SessionError` if that is not possible or not allowed.
        """
        uuids = [message.get("uuid") for message in loaded.messages]
        if self.to not in uuids:
            raise SessionError(
                f"--resume-session-at {self.to}: message not found in the conversation"
            )
        end = uuids.index(self.to) + 1
        if self.only_turn is not None:
            turns = turns_of(loaded.messages)[end:]
            other = next((turn for turn in turns if turn != self.only_turn), self.only_turn)
            if other != self.only_turn:
                raise SessionError(
                    f"Resume rejected by --resume-drops-turn: it would also drop part of turn "
                    f"{other or '(none)'}, not only of {self.only_turn}"
                )
        return msgspec.structs.replace(loaded, messages=loaded.messages[:end], leaf_uuid=self.to)


def turns_of(messages: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the prompt of the turn that each message belongs to.

    Attachments may precede their prompt.
    """
    turns: list[str | None] = []
    turn: str | None = None
    waiting = 0
    for message in messages:
        user_message = UserMessage(message) if message.get("type") == "user" else None
        if user_message is not None and (user_message.face == "typed" or user_message.is_news):
            turn = message["uuid"]
            turns[len(turns) - waiting :] = [turn] * waiting
        waiting = waiting + 1 if message.get("type") == "attachment" else 0
        turns.append(turn)
    return turns


def resume(
    recorder: Recorder, log: Log, *, home: Path, back: Back | None = None
) -> LoadedSession | LockedSession:
    """Lock and load the recorder's session and continue it. The lock comes before the load.

    If a crash left the last tool calls without results, error results are added, on disk too.
    Raise `OSError` if the file does not exist.
    """
    path = recorder.transcript
    if not log.claim(path):
        return LockedSession(path=path, holder=find_holder(home, path.stem))
    for agent in find_unsaved_agents(recorder.paths.place, home):
        bring_home(agent, log, home)
    loaded = load_with_unsaved(path, home)
    if back is None:
        recorder.resume(loaded)
    else:
        loaded = _taken_back(recorder, log, loaded, back)
    results = lost_results(loaded)
    if results:
        recorder.record(results)
        log.flush()
        loaded = load_with_unsaved(path, home)
    return loaded


def _taken_back(recorder: Recorder, log: Log, loaded: LoadedSession, back: Back) -> LoadedSession:
    """Return the session as of an earlier message, and record the rewind for later loads."""
    then = back.of(loaded)
    recorder.resume(then)
    if then.messages[-1] is loaded.messages[-1]:
        return loaded
    recorder.rewind(back.to)
    if log.flush().troubles:
        return then
    loaded = load(loaded.path)
    recorder.resume(loaded)
    return loaded


def lost_results(loaded: LoadedSession) -> list[dict[str, Any]]:
    """Return results for the unanswered calls of the last response, unless messages followed it.

    Results missing in the middle are left to `clew sessions repair`: appended here, they would
    become the end of the conversation.
    """
    answer: set[str] = set()
    key = None
    for message in reversed(loaded.messages):
        if message.get("isVirtual") is True:
            continue
        if message.get("type") == "assistant":
            body = message.get("message")
            mine = (body.get("id") if isinstance(body, dict) else None) or message["uuid"]
            key = key or mine
            if mine != key:
                break
            answer.add(message["uuid"])
        elif not find_block_ids(message, "tool_result", "tool_use_id"):
            break
    callers = {caller for _, caller in find_unanswered_calls(loaded.messages)} if answer else set()
    # Usually every call has a result, and then a long session need not be scanned again.
    if not callers or not callers <= answer:
        return []
    return make_missing_results(
        loaded.messages,
        ENDED_WHILE_RUNNING,
        new_uuid=lambda: str(uuid4()),
        at=str(loaded.messages[-1].get("timestamp")),
    )


def write_fork(
    loaded: LoadedSession, session_id: str, *, until: str | None = None
) -> Iterator[bytes]:
    """Yield the lines of a fork of `loaded`, up to and including `until`.

    The fork gets a different title, so that lists tell the two sessions apart.
    """
    pairs = zip(loaded.chain.nodes(), loaded.messages, strict=True)
    for line in copy_messages(pairs, loaded, session_id, until=until):
        yield encode(line) + b"\n"
    for kind in _COPIED:
        if kind in loaded.side.current:
            fields: dict[str, Any] = {**loaded.side.current[kind], "sessionId": session_id}
            title = fields.get(_TITLES.get(kind, ""))
            if title and isinstance(title, str):
                fields[_TITLES[kind]] = f"{title} (fork)"
            yield encode(fields) + b"\n"
