"""A session that is open, back to any of its messages: conversation, files or both; and back again.

Owns what is shown before, and the order: everything said is durable, then the plan, then its line in
the log, then the files, then where the conversation stands. Nothing happens while a turn runs.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.app.session import Session
from clew.config.there import is_there
from clew.library.branches import prompt_above
from clew.messages.errors import SessionError, UserError
from clew.messages.messages import User
from clew.rewind.blobs import Blobs, blobs_dir
from clew.rewind.restore import START, Plan, carry_out_within, plan, plan_redo
from clew.rewind.story import named, read
from clew.session.state import TodosSet, last_todos
from clew.transcript.load import load

Json: TypeAlias = dict[str, Any]
What: TypeAlias = Literal["both", "conversation", "files"]
SHOWN_CHARACTERS = 60
WHATS: tuple[What, ...] = get_args(What)


class Prompt(Struct, frozen=True, kw_only=True):
    """Something a person said in this conversation, and how many files calls changed since it."""

    uuid: str
    text: str
    files_since: int


class Rewinding:
    """Made for one use; holds nothing but the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._story = session.story
        self._recorder = session.story.recorder
        home = session.rules.standing.places.config_home
        self.blobs = Blobs(blobs_dir(home), syncs=True)

    @property
    def keeps_files(self) -> bool:
        """Whether what calls do to files is recorded at all."""
        return self._recorder.is_kept

    async def prompts(self) -> list[Prompt]:
        """What was said in this conversation, the latest first."""
        steps, places = [], {}
        if is_there(self._recorder.transcript):
            await self._settled()
            told = await asyncio.to_thread(read, self._recorder.transcript)
            steps, places = told.steps, told.places
        found = []
        for message in self._story.history:
            if message.get("type") == "user" and (said := User(message)).face == "typed":
                if said.text.startswith("<bash-stdout>"):
                    continue  # what a line for the shell printed
                place = places.get(message["uuid"], -1)
                since = {c.path for s in steps if s.since > place for c in s.changes}
                found.append(Prompt(uuid=message["uuid"], text=said.text, files_since=len(since)))
        return found[::-1]

    async def planned(self, message: str, what: What) -> Plan:
        """To a message by its uuid or the beginning of it; raises `SessionError` if there is none."""
        await self._settled()
        path = self._recorder.transcript
        uuid = message if message == START else named(path, message)
        return await asyncio.to_thread(
            plan,
            path,
            uuid,
            self.blobs,
            files=what != "conversation",
            conversation=what != "files",
        )

    async def where(self, planned: Plan) -> str:
        """Where the conversation stands when it was done, in the words that were said there."""
        if planned.leaf is None or not planned.conversation:
            return "at its beginning"
        to = await asyncio.to_thread(prompt_above, planned.path, planned.to)
        if to is not None and to.uuid == planned.to and planned.redo_of is None:
            return f"before {quoted(to.text)}"
        at = await asyncio.to_thread(prompt_above, planned.path, planned.leaf)
        return f"at {planned.leaf}" if at is None else f"behind the answer to {quoted(at.text)}"

    async def planned_redo(self) -> Plan:
        await self._settled()
        return await asyncio.to_thread(plan_redo, self._recorder.transcript, self.blobs)

    async def _settled(self) -> None:
        """Everything said is in the log, and nothing more is about to be."""
        if self._session.conversation.is_running:
            raise UserError("a turn is running; stop it first")
        if not self._recorder.is_kept:
            raise UserError("this session is not kept on disk, so there is no way back")
        if self._session.files is not None:
            await self._session.files.settled()
        saved = await self._recorder.durable()
        if saved.troubles or not is_there(self._recorder.transcript):
            why = "; ".join(map(str, saved.troubles)) or "nothing was said yet"
            raise SessionError(f"there is no way back: {why}")

    async def carry_out(self, planned: Plan, *, force: bool = False) -> None:
        """Does all of it or nothing; from then on the conversation is the one of the plan."""
        await carry_out_within(planned, self.blobs, self._append, force=force)
        if planned.conversation:
            loaded = await asyncio.to_thread(load, self._recorder.transcript)
            self._recorder.resume(loaded)
            self._story.become(loaded.messages)
            todos = last_todos(loaded.messages)
            self._session.spending.change(TodosSet(todos=todos))
            self._session.tools.take_up(todos)

    async def _append(self, lines: Sequence[Json]) -> None:
        self._recorder.beside(lines)
        saved = await self._recorder.durable()
        for trouble in saved.troubles:
            raise OSError(str(trouble))

    def said_at(self, uuid: str) -> str:
        """What a person said with the message, if they did and it is part of this conversation."""
        for message in self._story.history:
            if message.get("uuid") == uuid and message.get("type") == "user":
                said = User(message)
                return said.text if said.face == "typed" else ""
        return ""


def quoted(words: str) -> str:
    more = "…" if len(words) > SHOWN_CHARACTERS else ""
    return f"“{words[:SHOWN_CHARACTERS]}{more}”"
