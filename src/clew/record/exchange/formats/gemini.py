"""Convert Gemini CLI sessions: one JSON object, lines of records, or a saved chat. Does no I/O.

A record of a message replaces the earlier one with the same ID; `$set` changes the head, and may
list all messages of the conversation; `$rewindTo` ends a branch. A saved chat is a list of contents with `role` and `parts`, in an object
or alone. The list of prompts (`logs.json`) has no responses.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import plain
from clew.record.exchange.formats.reasons import LONE_PROMPT, NO_TEXT, NOTICE, RESPONSE_IMAGE

_KINDS = frozenset({"user", "gemini", "model", "info", "error", "warning"})
# The program's instructions before the first prompt.
_CONTEXT = "<session_context>"
OLDER = "earlier version of a message"


def recognizes(source: Source) -> bool:
    value = source.document
    if type(value) is dict and len(source.lines) <= 1:
        return _is_session(value) or _is_chat(value.get("history"))
    if type(value) is list:
        return _is_chat(value) or _is_log(value)
    return _are_records(source)


def _is_session(value: Json) -> bool:
    messages = value.get("messages")
    if type(messages) is not list or type(value.get("sessionId")) is not str:
        return False
    if not any(name in value for name in ("projectHash", "startTime", "lastUpdated")):
        return False
    return all(type(m) is dict and text_of(m.get("type")) in _KINDS for m in messages)


def _is_chat(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) > 0
        and all(
            type(content) is dict
            and content.get("role") in ("user", "model")
            and type(content.get("parts")) is list
            for content in value
        )
    )


def _is_log(value: list[Any]) -> bool:
    return len(value) > 0 and all(
        type(line) is dict and {"sessionId", "messageId", "type", "message"} <= set(line)
        for line in value
    )


def _are_records(source: Source) -> bool:
    head = source.first
    if type(head.get("sessionId")) is not str or "type" in head or len(source.lines) < 2:
        return False
    return ("projectHash" in head or "startTime" in head) and all(
        "$set" in line
        or "$rewindTo" in line
        or text_of(line.get("type")) in _KINDS
        or "sessionId" in line
        for line in source.lines[1:]
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = source.document
    if type(value) is list and _is_log(value):
        yield from _convert_log(value, begin)
        return
    if type(value) is list or (
        type(value) is dict and "history" in value and len(source.lines) < 2
    ):
        contents = value if type(value) is list else object_of(value).get("history", [])
        build = begin("")
        reader = Contents(build)
        for content in contents:
            build.item()
            reader.take(content, build.time(None))
        yield build.finished()
        return
    is_one = type(value) is dict and len(source.lines) <= 1
    records = [value, *value["messages"]] if is_one else list(source.lines)
    yield _GeminiSession(records, source, begin).convert()


def _convert_log(lines: list[Json], begin: Begin) -> Iterator[Converted]:
    sessions: dict[str, list[Json]] = {}
    for line in lines:
        sessions.setdefault(text_of(line.get("sessionId")), []).append(line)
    for session_id, own in sessions.items():
        build = begin(session_id)
        for line in own:
            build.item()
            at = build.time(line.get("timestamp"))
            if line.get("type") == "user":
                build.say(text_of(line.get("message")), at)
                build.lose(LONE_PROMPT)
            else:
                build.lose(NOTICE)
        yield build.finished()


class _GeminiSession:
    """The conversion of one session. `active` contains the IDs of the live conversation."""

    def __init__(self, records: list[Json], source: Source, begin: Begin) -> None:
        self._records = records
        self._build = begin(text_of(records[0].get("sessionId")))
        root = source.beside("../.project_root") or b""
        self._build.out.cwd = root.decode("utf-8", "replace").strip()
        self._final: dict[str, Json] = {}
        # The first and the last message of each record.
        self._starts: dict[str, str | None] = {}
        self._ends: dict[str, str | None] = {}
        self._active: list[str] = []

    def convert(self) -> Converted:
        build = self._build
        build.time(self._records[0].get("startTime"))
        for record in self._records:
            for message in (record, *_set_messages(record)):
                if type(message.get("id")) is str and text_of(message.get("type")) in _KINDS:
                    self._final[message["id"]] = message
        restated = self._find_restated()
        for index, record in enumerate(self._records):
            build.item(record.get("id"))
            if index < restated and text_of(record.get("type")) in _KINDS:
                build.lose(OLDER)
            elif index < restated and index:
                build.keep()
            elif "$rewindTo" in record:
                self._rewind(text_of(record["$rewindTo"]))
            elif type(record.get("$set")) is dict or index == 0 or "type" not in record:
                about = object_of(record.get("$set")) or record
                build.out.title = text_of(about.get("summary")) or build.out.title
                build.keep()
                self._set(_set_messages(record))
            else:
                self._take(record)
        return build.finished()

    def _find_restated(self) -> int:
        """Return the index of the last record that repeats the entire conversation, or 0.

        When the program resumes the session, it writes such a record, with a new context in front.
        """
        restated, known = 0, set[str]()
        for index, record in enumerate(self._records):
            messages = _set_messages(record)
            names = {text_of(message.get("id")) for message in messages}
            if messages and _is_context(messages[0]) and known and known <= names:
                restated = index
            said = (m for m in (record, *messages) if text_of(m.get("type")) in _KINDS)
            known |= {text_of(m.get("id")) for m in said if not _is_context(m)}
        return restated

    def _rewind(self, target: str) -> None:
        active = self._active
        # The program removes everything if it does not know the message.
        del active[active.index(target) if target in active else 0 :]
        self._build.rewind(self._ends[active[-1]] if active else None)
        self._build.keep()

    def _set(self, messages: list[Json]) -> None:
        """Replace the conversation: by its beginning, or by a summary and its end."""
        names = [text_of(message.get("id")) for message in messages]
        new = [name for name in names if name not in self._ends]
        kept = names[len(new) :]
        is_summary = bool(kept and new) and names[: len(new)] == new
        if is_summary and kept == self._active[-len(kept) :]:
            prompts = [m for m in messages[: len(new)] if m.get("type") == "user"]
            texts = [text_of(p.get("text")) for m in prompts for p in _parts(m.get("content"))]
            for message in messages:
                self._build.item(message.get("id"))
                self._build.keep()
            at = self._build.time(None)
            self._build.compact("\n".join(texts), at, kept_from=self._starts[kept[0]])
            self._active = kept
            return
        if names and names == self._active[: len(names)] and names != self._active:
            self._rewind(self._active[len(names)])
        for message in messages:
            self._build.item(message.get("id"))
            self._take(message)

    def _take(self, record: Json) -> None:
        build, identifier = self._build, text_of(record.get("id"))
        if identifier in self._ends:
            build.lose(OLDER)
            return
        count = len(build.out.messages)
        _message(build, self._final.get(identifier, record))
        if identifier:
            self._ends[identifier] = build.leaf
            is_new = len(build.out.messages) > count
            self._starts[identifier] = build.out.messages[count]["uuid"] if is_new else build.leaf
            self._active.append(identifier)


def _is_context(message: Json) -> bool:
    """Return whether a message is the context that the program writes at the beginning."""
    texts = [text_of(part.get("text")) for part in _parts(message.get("content"))]
    return bool(texts) and texts[0].startswith(_CONTEXT)


def _set_messages(record: Json) -> list[Json]:
    messages = list_of(object_of(record.get("$set")).get("messages"))
    return [message for message in messages if type(message) is dict]


def _message(build: Builder, message: Json) -> None:
    at = build.time(message.get("timestamp"))
    kind = message.get("type")
    parts = _parts(message.get("content"))
    if kind == "user":
        answers = [part for part in parts if type(part.get("functionResponse")) is dict]
        for part in answers:
            _answer(build, part, at)
        others = [part for part in parts if "functionResponse" not in part]
        blocks = [b for part in others if (b := read_part(build, part))]
        is_context = bool(blocks) and text_of(blocks[0].get("text")).startswith(_CONTEXT)
        build.user(blocks, at, is_meta=is_context)
    elif kind in ("gemini", "model"):
        thoughts = [make_thinking(t) for t in map(_thought, list_of(message.get("thoughts"))) if t]
        calls = [object_of(item) for item in list_of(message.get("toolCalls"))]
        known = {text_of(item.get("id")) for item in calls}
        # Newer versions repeat the thinking and the calls in the content.
        thoughts = thoughts or [
            make_thinking(text_of(part.get("text")))
            for part in parts
            if part.get("thought") is True
        ]
        in_content = [object_of(part.get("functionCall")) for part in parts]
        calls += [item for item in in_content if item and text_of(item.get("id")) not in known]
        parts = [p for p in parts if p.get("thought") is not True and "functionCall" not in p]
        prose = [b for part in parts if (b := read_part(build, part)) and b["type"] != "image"]
        items = [(item, text_of(item.get("name"))) for item in calls]
        blocks = [build.make_call(name, item.get("args")) if not item.get("id")
                  else call(text_of(item["id"]), name, item.get("args")) for item, name in items]  # fmt: skip
        usage = _usage(object_of(message.get("tokens")))
        build.answer(
            [*thoughts, *prose, *blocks], at, model=text_of(message.get("model")), usage=usage
        )
        for item, block in zip(calls, blocks, strict=True):
            if (result := item.get("result")) is not None:
                own = _own_parts(_parts(result), text_of(item.get("id")))
                content = [b for part in own for b in read_response(build, part)]
                is_error = item.get("status") in ("error", "cancelled")
                build.result(block["id"], plain(content), at, is_error=is_error)
    else:
        build.lose(NOTICE)


def _own_parts(parts: list[Json], call_id: str) -> list[Json]:
    """Return the parts of a call's result without the responses of parallel calls.

    When the program resumes a session, it stores those of all calls in each.
    """
    return [
        part
        for part in parts
        if text_of(object_of(part.get("functionResponse")).get("id")) in ("", call_id)
    ]


def _answer(build: Builder, part: Json, at: str) -> None:
    """Add a call's result, unless the call's record contains it."""
    call_id = text_of(part["functionResponse"].get("id"))
    if build.is_open(call_id):
        body = object_of(part["functionResponse"].get("response"))
        blocks = list(read_response(build, part))
        build.result(call_id, plain(blocks), at, is_error="error" in body)
    else:
        build.lose("tool result that the tool call also contains")


def _thought(thought: Any) -> str:
    subject = text_of(object_of(thought).get("subject"))
    rest = text_of(object_of(thought).get("description"))
    return "\n".join(filter(None, (f"**{subject}**" if subject else "", rest)))


def _parts(content: Any) -> list[Json]:
    if type(content) is str:
        return [{"text": content}]
    parts = content if type(content) is list else [content]
    return [{"text": p} if type(p) is str else p for p in parts if type(p) in (str, dict)]


def read_part(build: Builder, part: Json) -> Json | None:
    """Return the block for a text or an image; count anything else as changed and return None."""
    if type(part.get("text")) is str:
        return make_text(part["text"])
    data = object_of(part.get("inlineData"))
    media = text_of(data.get("mimeType"))
    if media.startswith("image/") and type(data.get("data")) is str:
        return make_picture(media, data["data"])
    build.lose(NO_TEXT)
    return None


def read_response(build: Builder, part: Json) -> Iterator[Json]:
    """Yield the blocks of a function response."""
    response = part.get("functionResponse")
    if type(response) is not dict:
        if block := read_part(build, part):
            yield block
        return
    body = object_of(response.get("response"))
    for name in ("output", "error", "result", "content"):
        if type(body.get(name)) is str:
            yield make_text(body[name])
            break
    else:
        yield make_text(encode_text(body))
    for inner in map(object_of, list_of(response.get("parts"))):
        if block := read_part(build, inner):
            yield block


def encode_text(value: Any) -> str:
    from clew.core.messages.encoding import encode

    return encode(value).decode("utf-8", "replace")


def _usage(tokens: Json) -> Json | None:
    counts = {key: n for key, n in tokens.items() if type(n) is int and n >= 0}
    if not counts:
        return None
    cached = counts.get("cached", 0)
    return {
        "input_tokens": max(0, counts.get("input", 0) - cached),
        "cache_read_input_tokens": cached,
        "output_tokens": counts.get("output", 0) + counts.get("thoughts", 0),
    }


class Contents:
    """Converts contents with `role` and `parts`. Calls without IDs are matched by their names."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._unanswered: dict[str, list[str]] = {}

    def take(
        self, content: Json, at: str, *, model: str = "", usage: Json | None = None,
        is_meta: bool = False, is_error: bool = False,
    ) -> None:  # fmt: skip
        build = self._build
        parts = _parts(content.get("parts"))
        if content.get("role") == "model":
            blocks = [b for part in parts if (b := self._said(part))]
            build.answer(blocks, at, model=model, usage=usage)
            return
        others: list[Json] = []
        for part in parts:
            response = part.get("functionResponse")
            if type(response) is dict:
                name = text_of(response.get("name"))
                waiting = self._unanswered.get(name) or [""]
                call_id = text_of(response.get("id")) or waiting.pop(0)
                blocks = list(read_response(build, part))
                failed = is_error or "error" in object_of(response.get("response"))
                build.result(call_id, plain(blocks), at, is_error=failed)
            elif block := read_part(build, part):
                others.append(block)
        build.user(others, at, is_meta=is_meta)

    def _said(self, part: Json) -> Json | None:
        function_call = part.get("functionCall")
        if type(function_call) is dict:
            name, arguments = text_of(function_call.get("name")), function_call.get("args")
            if type(function_call.get("id")) is str and function_call["id"]:
                return call(function_call["id"], name, arguments)
            block = self._build.make_call(name, arguments)
            self._unanswered.setdefault(name, []).append(block["id"])
            return block
        if part.get("thought") is True:
            return make_thinking(text_of(part.get("text")))
        block_or_none = read_part(self._build, part)
        if block_or_none is not None and block_or_none["type"] == "image":
            self._build.lose(RESPONSE_IMAGE)
            return None
        return block_or_none


FORMAT = Format(name="gemini", title="Gemini CLI", recognizes=recognizes, convert=convert)
