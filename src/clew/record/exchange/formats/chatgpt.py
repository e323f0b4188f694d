"""Convert conversations that ChatGPT exports: trees of messages, by ID in `mapping`. Does no I/O.

The export (`conversations.json`) is a list of conversations; a conversation saved on its own is an
object.
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
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import read_arguments
from clew.record.exchange.formats.reasons import ATTACHED_FILE, INSTRUCTIONS, NO_TEXT

_CONTEXTS = frozenset({"user_editable_context", "model_editable_context"})


def recognizes(source: Source) -> bool:
    values = _conversations(source)
    return len(values) > 0 and all(map(_is_conversation, values))


def _conversations(source: Source) -> list[Any]:
    value = source.document
    return value if type(value) is list else [value]


def _is_conversation(value: Any) -> bool:
    nodes = object_of(value).get("mapping")
    if type(nodes) is not dict or not nodes:
        return False
    return all(type(node) is dict and "message" in node for node in nodes.values())


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    for number, value in enumerate(_conversations(source)):
        identifier = text_of(value.get("conversation_id")) or text_of(value.get("id"))
        build = begin(identifier, "" if identifier else str(number))
        build.out.title = text_of(value.get("title"))
        build.time(value.get("create_time"))
        _Tree(build, value).convert()
        yield build.finished()


class _Tree:
    """The nodes of a conversation. The branch with the current node is converted last."""

    def __init__(self, build: Builder, value: Json) -> None:
        self._build = build
        self._nodes: Json = value["mapping"]
        self._model = text_of(value.get("default_model_slug"))
        self._live = self._find_live(text_of(value.get("current_node")))
        # The last message up to each node, and the call that the node's successors may answer.
        self._ends: dict[str, str | None] = {}
        self._calls: dict[str, str] = {}
        self._previous = ""

    def _parent(self, name: str) -> str:
        parent = text_of(self._nodes[name].get("parent"))
        return parent if parent in self._nodes else ""

    def _find_live(self, name: str) -> set[str]:
        found: set[str] = set()
        while name in self._nodes and name not in found:
            found.add(name)
            name = self._parent(name)
        return found

    def convert(self) -> None:
        children: dict[str, list[str]] = {}
        for name in self._nodes:
            children.setdefault(self._parent(name), []).append(name)
        waiting = self._last_first(children.get("", []))
        while waiting:
            name = waiting.pop()
            self._take(name)
            waiting += self._last_first(children.get(name, []))
        for name in self._nodes:
            if name not in self._ends:
                self._build.item(name)
                self._build.lose("message that belongs to no branch")

    def _last_first(self, names: list[str]) -> list[str]:
        """Return the names in reverse order, except that a name in the live branch comes first."""
        live = [name for name in names if name in self._live]
        return live + [name for name in names[::-1] if name not in self._live]

    def _take(self, name: str) -> None:
        build, parent = self._build, self._parent(name)
        follows, call_id = self._ends.get(parent), self._calls.get(parent, "")
        message = object_of(self._nodes[name].get("message"))
        if message:
            build.item(message.get("id") or name)
            if parent != self._previous:
                build.follow(follows)
            count = len(build.out.messages)
            call_id = self._message(message, name, call_id)
            follows = build.last if len(build.out.messages) > count else follows
        self._ends[name], self._calls[name], self._previous = follows, call_id, name

    def _message(self, message: Json, name: str, call_id: str) -> str:
        """Convert a message; return the ID of the open call after it."""
        build, at = self._build, self._build.time(message.get("create_time"))
        content, metadata = object_of(message.get("content")), object_of(message.get("metadata"))
        kind = text_of(content.get("content_type"))
        words = list(_read_texts(build, content))
        author = object_of(message.get("author"))
        model = text_of(metadata.get("model_slug")) or self._model
        match author.get("role"):
            case "user" if kind not in _CONTEXTS:
                if metadata.get("attachments"):
                    build.lose(ATTACHED_FILE)
                is_meta = metadata.get("is_visually_hidden_from_conversation") is True
                build.user([make_text(text) for text in words], at, is_meta=is_meta)
            case "assistant":
                return self._answer(message, content, words, model, at, name) or call_id
            case "tool":
                if build.is_open(call_id):
                    build.result(call_id, "\n".join(words), at)
                else:
                    build.say("\n".join(words), at, is_meta=True)
            case "user" | "system":
                build.lose(INSTRUCTIONS)
            case role:
                build.lose(f"message with role {text_of(role) or 'none'}")
        return call_id

    def _answer(
        self, message: Json, content: Json, words: list[str], model: str, at: str, name: str
    ) -> str:
        build, recipient = self._build, text_of(message.get("recipient")) or "all"
        match content.get("content_type"):
            case "thoughts":
                thoughts = map(object_of, list_of(content.get("thoughts")))
                words += [
                    text_of(item.get("content")) or text_of(item.get("summary"))
                    for item in thoughts
                ]
                build.answer([make_thinking("\n\n".join(words))], at, model=model)
            case "reasoning_recap":
                build.lose("note about the thinking time")
            case _ if recipient != "all":
                call_id = text_of(message.get("id")) or name
                arguments = read_arguments("\n".join(words))
                build.answer([call(call_id, recipient, arguments)], at, model=model)
                return call_id
            case _:
                build.answer([make_text(text) for text in words], at, model=model)
        return ""


def _read_texts(build: Builder, content: Json) -> Iterator[str]:
    """Yield the strings in a message: its text parts, and the text of code and results."""
    for part in list_of(content.get("parts")):
        text = part if type(part) is str else object_of(part).get("text")
        if type(text) is str:
            yield text
        else:
            build.lose(NO_TEXT)
    for key in ("text", "result"):
        if text := text_of(content.get(key)):
            yield text


FORMAT = Format(name="chatgpt", title="ChatGPT", recognizes=recognizes, convert=convert)
