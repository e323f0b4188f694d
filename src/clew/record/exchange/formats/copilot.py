"""Convert GitHub Copilot sessions: the CLI's events, its older files, and VS Code chats.

Events with `parentToolCallId` belong to the subagent that this call started. Does no I/O.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_text,
    make_thinking,
    tool_id,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import read_arguments, take_message
from clew.record.exchange.formats.reasons import EVENT, INSTRUCTIONS, NO_SUMMARY, SETTINGS

_SAID = frozenset({"user.message", "assistant.message", "tool.execution_complete"})


def recognizes(source: Source) -> bool:
    value = object_of(source.document)
    if len(source.lines) <= 1 and value:
        if type(value.get("requests")) is list:
            return "responderUsername" in value or "initialLocation" in value
        return type(value.get("chatMessages")) is list and type(value.get("sessionId")) is str
    kinds = [text_of(line.get("type")) for line in source.lines[:50]]
    has_data = all(type(line.get("data")) is dict for line in source.lines[:50])
    return has_data and ("session.start" in kinds or bool(_SAID & set(kinds)))


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = object_of(source.document)
    if len(source.lines) <= 1 and "requests" in value:
        yield _convert_chat(value, begin)
    elif len(source.lines) <= 1 and "chatMessages" in value:
        build = begin(text_of(value.get("sessionId")))
        build.time(value.get("startTime"))
        for message in map(object_of, value["chatMessages"]):
            build.item()
            take_message(build, message, build.time(message.get("timestamp")))
        yield build.finished()
    else:
        yield _Events(source, begin).convert()


class _Events:
    """The conversion of one event log."""

    def __init__(self, source: Source, begin: Begin) -> None:
        starts = (object_of(line.get("data")) for line in source.lines
                  if line.get("type") == "session.start")  # fmt: skip
        head = next(starts, {})
        self._lines = source.lines
        self._begin = begin
        self._build = begin(text_of(head.get("sessionId")))
        self._agents: dict[str, Builder] = {}
        self._about: dict[str, Json] = {}
        self._model = ""

    def convert(self) -> Converted:
        for line in self._lines:
            data = object_of(line.get("data"))
            parent = text_of(data.get("parentToolCallId"))
            build = self._agent(parent) if parent else self._build
            build.item(line.get("id"))
            self._event(build, text_of(line.get("type")), data, build.time(line.get("timestamp")))
        for call_id, own in self._agents.items():
            about = self._about.get(call_id, {})
            metadata = {
                "agentType": text_of(about.get("agentName")) or "agent",
                "description": text_of(about.get("agentDescription")),
                "toolUseId": tool_id(call_id),
            }
            self._build.add_agent(tool_id(call_id).replace("_", "-"), own, metadata)
        return self._build.finished()

    def _agent(self, call_id: str) -> Builder:
        if call_id not in self._agents:
            self._agents[call_id] = self._begin(f"{self._build.out.source_id}/{call_id}")
        return self._agents[call_id]

    def _event(self, build: Builder, kind: str, data: Json, at: str) -> None:
        match kind:
            case "session.start" | "session.resume":
                context = object_of(data.get("context"))
                build.out.cwd = build.out.cwd or text_of(context.get("cwd"))
                build.out.branch = build.out.branch or text_of(context.get("branch"))
                self._model = text_of(data.get("selectedModel")) or self._model
                build.keep()
            case "session.model_change":
                self._model = text_of(data.get("newModel")) or self._model
                build.lose(SETTINGS)
            case "session.title_changed":
                build.out.title = text_of(data.get("title"))
                build.keep()
            case "system.message":
                build.lose(INSTRUCTIONS)
            case "user.message":
                if data.get("attachments"):
                    build.lose("prompt attachment (only its name is stored)")
                build.say(text_of(data.get("content")), at)
            case "assistant.message":
                self._answer(build, data, at)
            case "tool.execution_start":
                # Some versions record calls only here.
                call_id, name = text_of(data.get("toolCallId")), text_of(data.get("toolName"))
                if call_id and name and not build.is_known(call_id):
                    build.answer(
                        [call(call_id, name, data.get("arguments"))], at, model=self._model
                    )
                else:
                    build.lose(EVENT)
            case "tool.execution_complete":
                self._result(build, data, at)
            case "session.compaction_complete":
                if summary := text_of(data.get("summaryContent")):
                    build.compact(summary, at)
                else:
                    build.lose(NO_SUMMARY)
            case "subagent.started":
                self._about[text_of(data.get("toolCallId"))] = data
                build.keep()
            case _:
                build.lose(EVENT)

    def _answer(self, build: Builder, data: Json, at: str) -> None:
        blocks = []
        if words := text_of(data.get("reasoningText")):
            blocks.append(make_thinking(words))
        if data.get("reasoningOpaque") or data.get("encryptedContent"):
            build.lose("encrypted reasoning")
        blocks.append(make_text(text_of(data.get("content"))))
        for request in map(object_of, list_of(data.get("toolRequests"))):
            arguments = read_arguments(request.get("arguments"))
            blocks.append(
                call(text_of(request.get("toolCallId")), text_of(request.get("name")), arguments)
            )
        tokens = data.get("outputTokens")
        usage = {"input_tokens": 0, "output_tokens": tokens} if type(tokens) is int else None
        model = text_of(data.get("model")) or self._model
        build.answer(blocks, at, model=model, usage=usage)

    def _result(self, build: Builder, data: Json, at: str) -> None:
        result, error = object_of(data.get("result")), object_of(data.get("error"))
        content = text_of(result.get("content")) or text_of(result.get("detailedContent"))
        content = content or text_of(error.get("message")) or text_of(data.get("result"))
        is_error = data.get("success") is False
        build.result(text_of(data.get("toolCallId")), content, at, is_error=is_error)


def _convert_chat(value: Json, begin: Begin) -> Converted:
    """Convert a VS Code chat: requests with the parts of their responses."""
    build = begin(text_of(value.get("sessionId")))
    build.out.title = text_of(value.get("customTitle"))
    build.time(value.get("creationDate"))
    for request in map(object_of, value["requests"]):
        build.item()
        at = build.time(request.get("timestamp"))
        message = request.get("message")
        build.say(text_of(message) or text_of(object_of(message).get("text")), at)
        model = text_of(request.get("modelId"))
        text: list[str] = []

        def flush(text: list[str] = text, at: str = at, model: str = model) -> None:
            if "".join(text).strip():
                build.answer([make_text("".join(text))], at, model=model)
            text.clear()

        for part in list_of(request.get("response")):
            build.item()
            build.keep()
            _response_part(build, object_of(part), text, flush, at, model)
        flush()
    return build.finished()


def _response_part(
    build: Builder, part: Json, text: list[str], flush: Any, at: str, model: str
) -> None:
    kind = part.get("kind")
    value = part.get("value")
    if kind is None or kind == "markdownContent":
        content = object_of(part.get("content")).get("value")
        text.append(text_of(value) or text_of(object_of(value).get("value")) or text_of(content))
    elif kind == "thinking":
        flush()
        words = "".join(map(text_of, value)) if type(value) is list else text_of(value)
        build.answer([make_thinking(words)], at, model=model)
    elif kind == "inlineReference":
        reference = object_of(part.get("inlineReference"))
        name = text_of(part.get("name")) or text_of(reference.get("name"))
        text.append(name or text_of(reference.get("path")))
    elif kind == "toolInvocationSerialized":
        flush()
        name = text_of(part.get("toolId"))
        specific = object_of(part.get("toolSpecificData"))
        details = object_of(part.get("resultDetails"))
        arguments = object_of(specific.get("rawInput")) or read_arguments(details.get("input"))
        if not object_of(arguments):
            line = specific.get("commandLine")
            command = text_of(specific.get("command")) or text_of(object_of(line).get("original"))
            arguments = {"command": command} if command else {}
            build.lose("tool call without its input")
        block = build.make_call(name, arguments)
        build.answer([block], at, model=model)
        outputs = [text_of(object_of(o).get("value")) for o in list_of(details.get("output"))]
        past = part.get("pastTenseMessage") or part.get("invocationMessage")
        words = "\n".join(filter(None, outputs)) or text_of(object_of(past).get("value"))
        is_error = details.get("isError") is True
        build.result(block["id"], words or text_of(past), at, is_error=is_error)
    else:
        build.lose(f"part of type {text_of(kind) or 'none'}")


FORMAT = Format(name="copilot", title="GitHub Copilot", recognizes=recognizes, convert=convert)
