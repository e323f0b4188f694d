"""The searchable text of an entry, and whether it matches a query. Does no I/O.

The index and the direct search of files share this code, so that they find the same entries. Words
are defined as in SQLite's `unicode61`; scripts without spaces are split into characters.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.messages.text import TAGS

Entry: TypeAlias = dict[str, Any]

_CONVERSATION = frozenset({"user", "assistant", "system", "attachment"})
# Attachments with text by users, tools and hooks. The others are clew's reminders for the model,
# which are the same in every session.
_SAID_BESIDE = frozenset(
    {
        "queued_command", "file", "directory", "edited_text_file", "mcp_resource", "memory_note",
        "diagnostics", "structured_output",
    }
)  # fmt: skip
_OF_HOOKS = "hook_"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag"}
# Chinese, Japanese, Korean, Thai, Lao and Khmer, which do not separate words with spaces.
_UNSPACED = re.compile(
    r"([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"[^\W_]+")
# Text that begins with one of these tags was written by a program; the tags are not searched.
_TAG = re.compile(rf"</?(?:{'|'.join(TAGS)})>")
_SAID_TWICE = re.compile(r"<command-message>[^<]*</command-message>")
# The queries and results of earlier searches don't match later searches.
_SEARCH_COMMAND = "search"
_SEARCH_TOOL = re.compile(r"(?:mcp__.*__)?SessionsSearch", re.DOTALL)
_PARTS = re.compile(r'"([^"]*)"|(\S+)')
SNIPPET_CHARACTERS = 160


class Query(Struct, frozen=True, kw_only=True):
    """A query: phrases of one or more words, all of which an entry must contain.

    `prefix` marks the phrases whose last word is only a prefix.
    """

    phrases: tuple[tuple[str, ...], ...]
    prefix: tuple[bool, ...]

    @property
    def is_empty(self) -> bool:
        return not self.phrases


def text_of(entry: Entry) -> str:
    """Return all searchable text of an entry in order, or an empty string if the entry has none."""
    kind = entry.get("type")
    if type(kind) is not str:
        return ""
    if kind in _TITLES:
        title = entry.get(_TITLES[kind])
        return title if type(title) is str else ""
    if kind not in _CONVERSATION:
        return ""
    if kind == "system" and _is_search(entry.get("commandRun")):
        return ""
    return "\n".join(map(strip_tags, _said(entry, kind)))


def speaker_of(entry: Entry) -> str:
    """Return a label for the entry's speaker.

    Tool results, task notifications and summaries are recorded as user entries although the user
    did not write them.
    """
    kind = str(entry.get("type"))
    if kind != "user":
        return kind
    message, origin = entry.get("message"), entry.get("origin")
    content = message.get("content") if type(message) is dict else None
    blocks = content if type(content) is list else []
    if any(type(block) is dict and block.get("type") == "tool_result" for block in blocks):
        return "tool"
    if type(origin) is dict and origin.get("kind") == "task-notification":
        return "task"
    return "summary" if entry.get("isCompactSummary") is True else kind


def _is_search(command: Any) -> bool:
    return type(command) is dict and command.get("command") == _SEARCH_COMMAND


def strip_tags(text: str) -> str:
    """Return text that begins with one of `TAGS` without its tags, and other text unchanged."""
    if not _TAG.match(text):
        return text
    return _TAG.sub(" ", _SAID_TWICE.sub("", text)).strip()


def _said(entry: Entry, kind: str) -> Iterator[str]:
    if kind == "attachment":
        about = entry.get("attachment")
        beside = str(about.get("type")) if type(about) is dict else ""
        if beside in _SAID_BESIDE or beside.startswith(_OF_HOOKS):
            yield from _strings(entry.get("rendered"))
        return
    if entry.get("isMeta") and entry.get("isSynthetic"):
        return
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else entry.get("content")
    if type(content) is str:
        yield content
    elif type(content) is list:
        for block in content:
            yield from _of_block(block)


def _of_block(block: Any) -> Iterator[str]:
    if type(block) is not dict:
        yield from _strings(block)
        return
    match block.get("type"):
        case "text":
            yield from _strings(block.get("text"))
        case "thinking":
            yield from _strings(block.get("thinking"))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            if _SEARCH_TOOL.fullmatch(str(block.get("name"))):
                return
            yield from _strings(block.get("name"))
            yield from _strings(block.get("input"))
        case "image" | "redacted_thinking":
            return
        case "document":
            yield from _strings(block.get("title"))
            source = block.get("source")
            if type(source) is dict and source.get("type") != "base64":
                yield from _strings(source.get("data"))
        case _:
            content = block.get("content")
            for part in content if type(content) is list else [content]:
                yield from _of_block(part)


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings inside a value in order, except the keys of objects, without recursion."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if type(value) is str:
            yield value
        elif type(value) is list:
            waiting += reversed(value)
        elif type(value) is dict:
            waiting += reversed(list(value.values()))


def collapse_spaces(text: str) -> str:
    """Return text with spaces around the characters of scripts that do not use spaces.

    The index stores text in this form.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def folded(text: str) -> str:
    """Return lower-case text, as in the index.

    Accents are kept, because the bytes of files are searched too.
    """
    return text.lower()


def query_of(text: str) -> Query:
    """Parse a query: `one two` requires both words, `"one two"` the phrase, `wor*` a prefix.

    Punctuation inside a word, as in `src/app.py`, makes a phrase of its parts.
    """
    phrases: list[tuple[str, ...]] = []
    prefix: list[bool] = []
    for quoted, bare in _PARTS.findall(text):
        words = tuple(_WORD.findall(folded(collapse_spaces(quoted or bare))))
        if words:
            phrases.append(words)
            prefix.append(not quoted and bare.endswith("*"))
    return Query(phrases=tuple(phrases), prefix=tuple(prefix))


def fts_of(query: Query) -> str:
    """Return the query in FTS5 syntax; every word is quoted, so that none acts as an operator."""
    parts = []
    for words, is_prefix in zip(query.phrases, query.prefix, strict=True):
        parts.append('"' + " ".join(words) + '"' + (" *" if is_prefix else ""))
    return " ".join(parts)


def pattern_of(words: tuple[str, ...], *, is_prefix: bool) -> re.Pattern[str]:
    """Return a pattern for a phrase in lower-case text.

    The phrase's words may be separated only by punctuation or spaces.
    """
    apart = r"[\W_]+".join(map(re.escape, words))
    return re.compile(rf"(?<![^\W_]){apart}" + ("" if is_prefix else r"(?![^\W_])"))


def match_words(query: Query, text: str) -> bool:
    plain = folded(collapse_spaces(text))
    return all(
        pattern_of(words, is_prefix=is_prefix).search(plain)
        for words, is_prefix in zip(query.phrases, query.prefix, strict=True)
    )


def make_snippet(query: Query, text: str) -> str:
    """Return the text around the first match, on one line."""
    plain = folded(text)
    at = 0
    if len(plain) == len(text):  # Offsets are valid only if the length did not change.
        for words, is_prefix in zip(query.phrases, query.prefix, strict=True):
            joined = re.compile(r"[\W_]*".join(map(re.escape, words)))
            match = pattern_of(words, is_prefix=is_prefix).search(plain) or joined.search(plain)
            if match:
                at = match.start()
                break
    start = max(0, at - SNIPPET_CHARACTERS // 3)
    end = start + SNIPPET_CHARACTERS
    line = " ".join(text[start:end].split())
    return ("…" if start else "") + line + ("…" if end < len(text) else "")
