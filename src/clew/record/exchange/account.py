"""The content of a session for exports: its pieces in display order. Does no I/O.

All export formats use the same account, so they all show the same content.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.input import as_typed
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import encode
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import describe_notification
from clew.core.normalize.for_display import DisplayItem, for_display
from clew.system.config.mask import mask, mask_lines, mask_member

# Redaction of exports: secrets, the user's folders and e-mail addresses. No I/O.


# Longer keys are not field names but, for example, file names.
_LONGEST_NAME = 24
_ENCODED = re.compile(r"[A-Za-z0-9+/=_\s-]*+")
_ADDRESS = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+\b")


class Redaction(Struct, frozen=True, kw_only=True):
    """The rules for redacting an export.

    `folders` pairs each folder with its replacement; each of `names` is replaced with `[name]`.
    With `only_secrets`, only secrets are redacted.
    """

    folders: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    only_secrets: bool = False

    def text(self, text: str) -> str:
        return self._rest(mask(text))

    def _rest(self, text: str) -> str:
        if self.only_secrets:
            return text
        for folder, instead in self.folders:
            text = text.replace(folder, instead)
        text = _ADDRESS.sub("[address]", text)
        for name in self.names:
            text = re.sub(rf"\b{re.escape(name)}\b", "[name]", text)
        return text

    def value(self, value: Any) -> Any:
        """Redact every string in a decoded JSON value.

        Pictures and signatures are removed too, unless only secrets are redacted.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                return [self._rest(line) for line in mask_lines(value)]
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self._key(key): self._member(key, item) for key, item in value.items()}
        return value

    def _key(self, key: str) -> str:
        return self.text(key) if len(key) > _LONGEST_NAME else key

    def _member(self, key: str, item: Any) -> Any:
        if not isinstance(item, str):
            return self.value(item)
        if key in ("signature", "data") and len(item) > 200 and _ENCODED.fullmatch(item):
            return item if self.only_secrets else "[removed]"
        return self._rest(mask_member(key, item))


# The default for exports, because an exported file may be shared.
SECRETS = Redaction(only_secrets=True)


# The name of a note that tells the model about a background task.
NEWS = "Background task"
# Names the notes that a program wrote in the user's name, such as that a turn was interrupted.
NOTICE = "Notice"

# Names of text that the model received in the user's name.
SUMMARY, CONTEXT = "Summary", "Context"
# Text that a program put into a user message, by its tag: the name, and whether it is output of a
# command that the user ran.
_TAGS = {
    "system-reminder": ("Reminder", False),
    "task-notification": ("Notification", False),
    "local-command-caveat": ("Caveat", False),
    "local-command-stdout": ("Command output", True),
    "local-command-stderr": ("Command output", True),
    "bash-stdout": ("Command output", True),
    "bash-stderr": ("Command output", True),
}
_TAGGED = re.compile(rf"<({'|'.join(_TAGS)})>.*?</\1>", re.S)

Voice: TypeAlias = Literal[
    "person", "model", "thinking", "call", "result", "note", "context", "image"
]


class Piece(Struct, frozen=True, kw_only=True):
    """A piece of a conversation: its source, its time and its text.

    `name` is the name of a tool, or the kind of a context or note.
    """

    voice: Voice
    text: str
    uuid: str = ""
    timestamp: str = ""
    name: str = ""
    call_id: str = ""
    is_error: bool = False
    media: str = ""
    data: str = ""


class ConversationAccount(Struct, frozen=True, kw_only=True):
    """The conversation of the session itself or of a subagent.

    For a subagent, `call_id` identifies the tool call that started it.
    """

    title: str
    pieces: tuple[Piece, ...]
    agent: str = ""
    call_id: str = ""


class Account(Struct, frozen=True, kw_only=True):
    """A session and its subagents, with the metadata at the top of a page."""

    session_id: str
    title: str
    cwd: str
    branch: str
    created_at: str
    models: tuple[str, ...]
    talks: tuple[ConversationAccount, ...]


class _Place(Struct, frozen=True):
    uuid: str
    timestamp: str


def pieces_of(messages: Iterable[Json]) -> Iterator[Piece]:
    """Yield the pieces of messages in display order."""
    for item in for_display(messages):
        yield from _of_item(item)


def _of_item(item: DisplayItem) -> Iterator[Piece]:
    entry, block = item.entry, item.block
    kind = entry.get("type")
    place = _Place(uuid=item.uuid, timestamp=text_of(entry.get("timestamp")))
    if type(block) is dict:
        yield from _of_block(block, kind, entry, place)
    elif block is not None:
        yield Piece(
            voice="note", text=encode(block).decode(), uuid=place.uuid, timestamp=place.timestamp
        )
    elif kind == "system":
        subtype = text_of(entry.get("subtype"))
        yield Piece(
            voice="note",
            text=text_of(entry.get("content")) or subtype,
            name=subtype,
            uuid=place.uuid,
            timestamp=place.timestamp,
        )
    elif kind == "attachment":
        yield from _of_attachment(entry, place)


def _of_attachment(entry: Json, place: _Place) -> Iterator[Piece]:
    payload = entry.get("attachment")
    name = text_of(payload.get("type")) if type(payload) is dict else ""
    parts = list_of(entry.get("rendered"))
    words = [text_of(p.get("content")) for p in parts if type(p) is dict]
    if name == "prompt_snapshot":
        return
    yield Piece(
        voice="context",
        text="\n".join(filter(None, words)),
        name=name,
        uuid=place.uuid,
        timestamp=place.timestamp,
    )


def _of_block(block: Json, kind: Any, entry: Json, place: _Place) -> Iterator[Piece]:
    match block.get("type"):
        case "text":
            text, name = text_of(block.get("text")), ""
            voice: Voice = "model" if kind == "assistant" else "person"
            if kind == "user" and UserMessage(entry).is_news:
                voice, name, text = "note", NEWS, describe_notification(text)
            elif kind == "user" and entry.get("isCompactSummary"):
                voice, name = "context", SUMMARY
            elif kind == "user" and entry.get("isMeta"):
                voice, name = "context", CONTEXT
            elif voice == "person" and UserMessage(entry).is_synthetic:
                voice, name = "note", NOTICE
            elif voice == "person" and (tag := _find_tag(text, entry)):
                name, is_output = _TAGS[tag]
                voice = "note" if is_output else "context"
            elif voice == "person":
                text = as_typed(text)
            yield Piece(
                voice=voice, text=text, name=name, uuid=place.uuid, timestamp=place.timestamp
            )
        case "thinking":
            yield Piece(
                voice="thinking",
                text=text_of(block.get("thinking")),
                uuid=place.uuid,
                timestamp=place.timestamp,
            )
        case "redacted_thinking":
            yield Piece(
                voice="thinking",
                text="(redacted by the model provider)",
                uuid=place.uuid,
                timestamp=place.timestamp,
            )
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            yield Piece(
                voice="call",
                text=shown_input(block.get("input")),
                name=text_of(block.get("name")),
                call_id=text_of(block.get("id")),
                uuid=place.uuid,
                timestamp=place.timestamp,
            )
        case "image" | "document":
            yield _of_media(block, place)
        case _:
            yield from _of_result(block, place)


def _find_tag(text: str, entry: Json) -> str:
    """Return the tag of a text that a program wrote, or an empty string.

    A prompt that names its source is the user's, even if the user typed a tag.
    """
    content = object_of(entry.get("message")).get("content")
    is_whole = type(content) is str or len(list_of(content)) == 1
    found = _TAGGED.search(text)
    if found is None or _TAGGED.sub("", text).strip() or (is_whole and "promptSource" in entry):
        return ""
    return found[1]


def _of_result(block: Json, place: _Place) -> Iterator[Piece]:
    content = block.get("content")
    parts: Sequence[Any] = content if type(content) is list else [content]
    words = []
    media = []
    for part in parts:
        if type(part) is dict and part.get("type") in ("image", "document"):
            media.append(_of_media(part, place))
        elif type(part) is dict and type(part.get("text")) is str:
            words.append(part["text"])
        elif type(part) is str:
            words.append(part)
        elif part is not None:
            words.append(encode(part).decode())
    is_result = type(block.get("tool_use_id")) is str
    yield Piece(
        voice="result" if is_result else "note",
        text="\n".join(words),
        name="" if is_result else text_of(block.get("type")),
        call_id=text_of(block.get("tool_use_id")),
        is_error=block.get("is_error") is True,
        uuid=place.uuid,
        timestamp=place.timestamp,
    )
    yield from media


def _of_media(block: Json, place: _Place) -> Piece:
    source = block.get("source")
    source = source if type(source) is dict else {}
    media, data = text_of(source.get("media_type")), text_of(source.get("data"))
    words = text_of(block.get("title")) or media or text_of(source.get("url")) or "a file"
    return Piece(
        voice="image",
        text=words,
        media=media,
        data=data,
        uuid=place.uuid,
        timestamp=place.timestamp,
    )


# The parameters that best describe a call, shown first.
_FIRST = ("command", "file_path", "path", "pattern", "url", "query", "description")


def shown_input(value: Any) -> str:
    """Return a call's input with one parameter per line; multi-line values start on a new line.

    An edit's old and new text come last, as removed and added lines.
    """
    if type(value) is not dict:
        return encode(value).decode()
    before, after = value.get("old_string"), value.get("new_string")
    if type(before) is str and type(after) is str:
        rest = {k: v for k, v in value.items() if k not in ("old_string", "new_string")}
        lines = [f"-{line}" for line in before.split("\n")] if before else []
        lines += [f"+{line}" for line in after.split("\n")] if after else []
        # A single parameter gets its name too, to distinguish it from the changed lines.
        return "\n".join([*_parameters(rest), *lines])
    if len(value) == 1 and type(only := next(iter(value.values()))) is str:
        return str(only)
    return "\n".join(_parameters(value))


def _parameters(value: dict[str, Any]) -> Iterator[str]:
    ordered = [k for k in _FIRST if k in value] + [k for k in value if k not in _FIRST]
    for key in ordered:
        text = value[key] if type(value[key]) is str else encode(value[key]).decode()
        yield f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"
