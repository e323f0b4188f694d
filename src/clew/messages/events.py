"""Control events: what happens to messages, as opposed to being one. None stands on the chain."""

from __future__ import annotations

from clew.messages.messages import Assistant, Entry
from clew.messages.views import ListField, ObjectField, TextField, View


class Tombstone(Entry):
    """Withdraws an assistant message: the event holds the message, the entry on disk its uuid."""

    __slots__ = ()
    tag = "tombstone"

    message_uuid = TextField("messageUuid")

    @property
    def withdrawn(self) -> Assistant | None:
        value = self.data.get("message")
        return Assistant(value) if isinstance(value, dict) else None

    @property
    def withdrawn_uuid(self) -> str | None:
        message = self.withdrawn
        return self.message_uuid if message is None else message.uuid


class StreamEvent(View):
    """One raw event of the API's stream, as it came."""

    __slots__ = ()
    tag = "stream_event"

    event = ObjectField("event")
    event_type = TextField("type", inside="event")
    uuid = TextField("uuid")
    parent_tool_use_id = TextField("parent_tool_use_id")


class RequestStart(View):
    """A request is about to leave."""

    __slots__ = ()
    tag = "stream_request_start"


class ToolUseSummary(Entry):
    """A few words for several tool calls."""

    __slots__ = ()
    tag = "tool_use_summary"

    summary = TextField("summary")
    tool_use_ids = ListField("toolUseIds")
