"""Session events as updates for a client: text as it streams, tool calls from their start.

This module reads events and entries, and keeps track of which calls the client knows. A call is
described before anything else is sent about it, and always ends as completed or failed.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from clew.agent.events import (
    Compacted,
    Compacting,
    Doubted,
    EngineEvent,
    FromAgent,
    NotCompacted,
    Noticed,
    NotSaved,
    Printed,
    Repaired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from clew.agent.tools.base import Progress
from clew.core.json_object import Json
from clew.core.messages.messages import UserMessage
from clew.core.normalize.for_display import for_display
from clew.core.normalize.repairs import describe_repairs as mended_in_words
from clew.core.stream.events import (
    BlockDropped,
    BlockStarted,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
)
from clew.fronts.editor import protocol
from clew.fronts.editor.protocol import as_content, render_blocks, text
from clew.providers.answer_events import FellBack, Retrying, Withdrawn
from clew.system.jsonrpc.wire import as_object, as_text

Title: TypeAlias = Callable[[Json], str]

BROKEN_OFF = "\n\n(the response above was cut off; restarting it)\n\n"


def chunk(kind: str, words: str, message_id: str) -> Json:
    update: Json = {"sessionUpdate": kind, "content": text(words)}
    return update | ({"messageId": message_id} if message_id else {})


class EditorUpdates:
    """Converts events and entries to updates for the client.

    `title` returns the title of a call. `where` returns the folder to which paths are relative.
    """

    def __init__(
        self, title: Title, where: Callable[[], str], read_file: protocol.ReadFile
    ) -> None:
        self._title = title
        self._where = where
        self._read_file = read_file
        self._message_id = ""
        # The unfinished calls, and those whose input the client has received.
        self._open: set[str] = set()
        self._described: set[str] = set()
        # The calls that the client shows in its own terminal.
        self._watched: set[str] = set()
        # The call under which the user's own shell command is shown.
        self._own: str | None = None

    def told(self, event: EngineEvent) -> list[Json]:
        """Return the updates for an event."""
        match event:
            case TextDelta():
                return [chunk("agent_message_chunk", event.text, self._message_id)]
            case ThinkingDelta():
                return [chunk("agent_thought_chunk", event.thinking, self._message_id)]
            case MessageStarted():
                self._message_id = as_text(event.message.get("id"))
                return []
            case BlockStarted() if event.block.get("type") == "tool_use":
                return self._introduced(event.block)
            case ToolUseReady() | ToolUseUnusable():
                return self.described(event.block)
            case BlockDropped() if event.block.get("type") == "tool_use":
                return self._ended(event.block["id"], "failed", [])
            case ToolStarted():
                return self._started(event)
            case ToolProgressed():
                return self._progressed(event)
            case ToolFinished():
                return self._finished(event.block, event.entry, is_error=event.is_error)
            case Printed():
                return self._printed(event.text)
            case FromAgent():
                return self._from_agent(event)
            case Withdrawn():
                return [*self.closed(), chunk("agent_message_chunk", BROKEN_OFF, self._message_id)]
            case _:
                return [
                    chunk("agent_message_chunk", f"> clew: {words}\n\n", "")
                    for words in noted(event)
                ]

    def _from_agent(self, event: FromAgent) -> list[Json]:
        """Return updates for a subagent's calls, which refer to the call that started the subagent.

        The subagent's text is not sent, because it is meant for the agent that started it.
        """
        match event.event:
            case ToolUseReady() | ToolStarted() | ToolProgressed() | ToolFinished():
                beside = {"_meta": {"clew": {"parentToolCallId": event.tool_use_id}}}
                return [update | beside for update in self.told(event.event)]
            case Noticed() | NotSaved():
                return self.told(event.event)
        return []

    # -- calls

    def _introduced(self, block: Json) -> list[Json]:
        identity = as_text(block.get("id"))
        if identity in self._open:
            return []
        self._open.add(identity)
        name = as_text(block.get("name"))
        fields = {"title": name, "kind": protocol.kind_of(name), "status": "pending"}
        return [{"sessionUpdate": "tool_call", "toolCallId": identity, **fields}]

    def described(self, block: Json) -> list[Json]:
        """Return the description of a call before it runs, or nothing if it was already sent."""
        identity = as_text(block.get("id"))
        if identity in self._described:
            return []
        is_new = identity not in self._open
        self._open.add(identity)
        self._described.add(identity)
        fields = protocol.describe_call(block, self._title(block), self._where(), self._read_file)
        if is_new:
            return [
                {
                    "sessionUpdate": "tool_call",
                    "toolCallId": identity,
                    "status": "pending",
                    **fields,
                }
            ]
        return [update(identity, **fields)]

    def _started(self, event: ToolStarted) -> list[Json]:
        identity = as_text(event.block.get("id"))
        introduced = self.described(event.block)
        if event.title.startswith("! "):
            self._own = identity
        return [*introduced, update(identity, status="in_progress", title=event.title)]

    def _progressed(self, event: ToolProgressed) -> list[Json]:
        words = event.data.text if isinstance(event.data, Progress) else ""
        terminal = event.data.data.get("terminalId") if isinstance(event.data, Progress) else None
        if isinstance(terminal, str) and event.tool_use_id in self._open:
            self._watched.add(event.tool_use_id)
            content = [{"type": "terminal", "terminalId": terminal}]
            return [update(event.tool_use_id, content=content)]
        if not words or event.tool_use_id not in self._open:
            return []
        return [update(event.tool_use_id, content=as_content([text(words)]))]

    def _finished(self, block: Json, entry: Json, *, is_error: bool) -> list[Json]:
        introduced = self.described(block)
        content = result_of(entry, block["id"])
        done = protocol.describe_result(content, None if is_error else entry.get("toolUseResult"))
        if block["id"] in self._watched:
            # The terminal's output stays visible.
            self._watched.discard(block["id"])
            done = []
        return [*introduced, *self._ended(block["id"], "failed" if is_error else "completed", done)]

    def _printed(self, words: str) -> list[Json]:
        identity, self._own = self._own, None
        return (
            []
            if identity is None
            else self._ended(identity, "completed", as_content([text(words)]))
        )

    def _ended(self, identity: str, status: str, content: list[Json]) -> list[Json]:
        if identity not in self._open:
            return []
        self._open.discard(identity)
        self._described.discard(identity)
        return [update(identity, status=status, **({"content": content} if content else {}))]

    def closed(self) -> list[Json]:
        """Return updates that end the calls for which no result will arrive."""
        return [
            update
            for identity in sorted(self._open)
            for update in self._ended(identity, "failed", [])
        ]

    # -- resumed sessions

    def replayed(self, entries: Iterable[Json]) -> list[Json]:
        """Return updates for the earlier conversation, in order."""
        updates: list[Json] = []
        for item in for_display(entries):
            updates += self._replayed(item.entry, as_object(item.block), item.uuid)
        return [*updates, *self.closed()]

    def _replayed(self, entry: Json, block: Json, uuid: str) -> list[Json]:
        match entry.get("type"), block.get("type"):
            case "assistant", "text":
                return spoken("agent_message_chunk", block, uuid)
            case "assistant", "thinking" if block.get("thinking"):
                return [chunk("agent_thought_chunk", as_text(block["thinking"]), uuid)]
            case "assistant", "tool_use":
                return self.described(block)
            case "user", "tool_result":
                return self._answered(entry, block)
            case "user", _ if UserMessage(entry).face == "typed":
                return spoken("user_message_chunk", block, uuid)
        return []

    def _answered(self, entry: Json, block: Json) -> list[Json]:
        is_error = block.get("is_error") is True
        result = None if is_error else entry.get("toolUseResult")
        done = protocol.describe_result(block.get("content"), result)
        status = "failed" if is_error else "completed"
        return self._ended(as_text(block.get("tool_use_id")), status, done)


def update(identity: str, **fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": identity, **fields}


def spoken(kind: str, block: Json, message_id: str) -> list[Json]:
    return [
        {"sessionUpdate": kind, "content": item, "messageId": message_id}
        for item in render_blocks([block])
    ]


def result_of(entry: Json, identity: str) -> Any:
    """Return the result of the call with the ID `identity` from an entry."""
    blocks = as_object(entry.get("message")).get("content")
    for block in blocks if isinstance(blocks, list) else ():
        if as_object(block).get("tool_use_id") == identity:
            return block.get("content")
    return None


def noted(event: EngineEvent) -> list[str]:
    """Return the notices for the user that an event causes."""
    match event:
        case Noticed() | NotSaved():
            return list(event.messages)
        case Repaired():
            return [mended] if (mended := mended_in_words(event.repairs)) else []
        case Doubted(is_held=False):
            return ["request sent, but the API may reject it"]
        case Retrying():
            return [f"{event.failure.message}; retrying in {max(1, event.delay_s):.0f} s"]
        case FellBack():
            return [f"{event.failure.message}; switching to {event.model}"]
        case Compacting():
            return ["compacting the conversation"]
        case NotCompacted(trigger="auto"):
            return [event.message]
        case Compacted() if event.boundary["compactMetadata"]["trigger"] == "auto":
            return [event.message]
    return []
