"""A langgraph thread in the transcript of a clew session: its messages and additional lines."""

from itertools import takewhile
from typing import Any

from langchain_core.messages import convert_to_messages, convert_to_openai_messages

from clew.adapters.api_messages import group_entries, identify
from clew.adapters.openai_chat import read
from clew.core.json_object import Json
from clew.core.messages.errors import SessionError
from clew.core.normalize.dialects import to_openai
from clew.fronts.sdk.stored_session import StoredSession
from clew.record.library.copies import append_beside
from clew.record.transcript.source import entries_of

CHANNEL = "messages"
CHECKPOINT, WRITES = "langgraph-checkpoint", "langgraph-writes"


class GraphThread:
    """The session that stores a thread. It is created with the first message."""

    def __init__(self, name: str, places: dict[str, Any]) -> None:
        self._name = name
        self._places = places
        # Lines that arrived before the first message.
        self._early: list[Json] = []

    def lines(self) -> list[Json]:
        """Return the lines with checkpoints and pending writes, oldest first."""
        session = self._open()
        stored = entries_of(session.path) if session else []
        own = [entry for entry in stored if entry.get("type") in (CHECKPOINT, WRITES)]
        return [*own, *self._early]

    def history(self, marks: list[Json]) -> list[tuple[Any, str]]:
        """Return the messages of the conversation, each with the UUID of its last entry.

        Messages from the graph have the IDs that they have in the newest checkpoint.
        """
        session = self._open()
        ids = marks[-1]["messages"] if marks else []
        pairs: list[tuple[Any, str]] = []
        for group in group_entries(session.entries() if session else []):
            for at, message in enumerate(convert_to_messages(to_openai([group])["messages"])):
                own = f"{group['uuid']}/{at}" if at else group["uuid"]
                message.content = shorten(message.content)
                message.id = ids[len(pairs)] if len(pairs) < len(ids) else own
                pairs.append((message, group["last_uuid"]))
        return pairs

    def keep(self, messages: list[Any] | None, line: Json) -> None:
        """Make the conversation match `messages`, unless it is None, and append the line."""
        session = self._open()
        if messages is not None:
            marks = [o for o in self.lines() if o["type"] == CHECKPOINT and not o["namespace"]]
            stored = self.history(marks)
            pairs = zip(stored, messages, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0][0].id == pair[1].id, pairs))
            if session and same < len(stored):
                session.rewind(stored[same - 1][1] if same else None)
            if new := [convert(message) for message in messages[same:]]:
                session = self._append(session, new)
        if session is None:
            self._early.append(line)
            return
        for record in (*self._early, line):
            append_beside(session.path, record)
        self._early = []

    def delete(self) -> None:
        if (session := self._open()) is not None:
            session.delete()

    def _append(self, session: StoredSession | None, messages: list[Json]) -> StoredSession:
        if session is None:
            identity = identify(self._name)
            title = "" if identity == self._name else self._name
            return StoredSession.create(messages, session_id=identity, title=title, **self._places)
        session.append(messages)
        return session

    def _open(self) -> StoredSession | None:
        try:
            return StoredSession.open(identify(self._name), **self._places)
        except SessionError:
            return None


def shorten(content: Any) -> Any:
    """Return content that is a single text block as a string, as graphs and their users do."""
    is_text = isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text"
    return content[0]["text"] if is_text else content


def convert(message: Any) -> Json:
    """Return a graph's message as a Messages API message, with its token usage."""
    converted = read(convert_to_openai_messages([message]))
    if not converted:
        raise ValueError(
            "system messages can't be stored; pass the text as the model's system prompt"
        )
    usage = getattr(message, "usage_metadata", None)
    if usage:
        counts = {key: usage[key] for key in ("input_tokens", "output_tokens")}
        converted[0] |= {"usage": counts}
    if model := message.response_metadata.get("model_name"):
        converted[0]["model"] = model
    return converted[0]


def place(config: Any, checkpoint_id: str) -> Any:
    """Return the configuration that names a checkpoint of a thread."""
    names = config["configurable"]
    where = {"checkpoint_ns": names.get("checkpoint_ns", ""), "checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": names["thread_id"], **where}}
