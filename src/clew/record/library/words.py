"""What can be searched in an entry, and whether it answers a query. Pure.

The index and the plain reading of files ask the same question here, so that what is found does not
depend on how it was looked for. A word is what SQLite's `unicode61` takes for one; writing without
spaces between words is taken apart into its characters.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.messages.text import TAGS

Entry: TypeAlias = dict[str, Any]

_CONVERSATION = frozenset({"user", "assistant", "system", "attachment"})
# What people, tools and a person's hooks said beside the talk. The rest is what a program reminds the
# model of: the same words in every session, and nobody's.
_SAID_BESIDE = frozenset(
    {
        "queued_command", "file", "directory", "edited_text_file", "mcp_resource", "memory_note",
        "diagnostics", "structured_output",
    }
)  # fmt: skip
_OF_HOOKS = "hook_"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag"}
# Chinese, Japanese, Korean, Thai, Lao and Khmer: no spaces say where a word ends.
_UNSPACED = re.compile(
    r"([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"[^\W_]+")
# A text that begins with a tag is a program's record of something; its tags are nobody's words.
_TAG = re.compile(rf"</?(?:{'|'.join(TAGS)})>")
_SAID_TWICE = re.compile(r"<command-message>[^<]*</command-message>")
# What a search was for and what it found is no answer to the next one.
_SEARCH_COMMAND = "search"
_SEARCH_TOOL = re.compile(r"(?:mcp__.*__)?SessionsSearch", re.DOTALL)
_PARTS = re.compile(r'"([^"]*)"|(\S+)')
SNIPPET_CHARACTERS = 160


class Query(Struct, frozen=True, kw_only=True):
    """Phrases (a lone word is one of one word) that an entry must hold all of.

    `prefix` marks the phrases whose last word is only the beginning of one.
    """

    phrases: tuple[tuple[str, ...], ...]
    prefix: tuple[bool, ...]

    @property
    def is_empty(self) -> bool:
        return not self.phrases


def text_of(entry: Entry) -> str:
    """Everything that an entry says, in the order it says it; empty if it says nothing to search."""
    kind = entry.get("type")
    if kind in _TITLES:
        title = entry.get(_TITLES[kind])
        return title if type(title) is str else ""
    if kind not in _CONVERSATION:
        return ""
    if kind == "system" and _is_search(entry.get("commandRun")):
        return ""
    return "\n".join(map(strip_tags, _said(entry, kind)))


def speaker_of(entry: Entry) -> str:
    """Who says it, for people: results, news and summaries stand in the user's name and are not theirs."""
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
    """What a program's record says, without its tags."""
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
    """The strings inside a value, not its keys, in their order and without recursion."""
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
    """Text with the characters of unspaced writing apart, as it goes into the index."""
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def folded(text: str) -> str:
    """Case taken away, as the index does it. Accents stay: bytes on the disk are searched as well."""
    return text.lower()


def query_of(text: str) -> Query:
    """`one two` wants both words, `"one two"` the phrase, `wor*` a word that begins so.

    A sign inside a word, as in `src/app.py`, makes a phrase of its parts.
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
    """The query as SQLite's FTS5 reads it; every word quoted, so that none is an operator."""
    parts = []
    for words, is_prefix in zip(query.phrases, query.prefix, strict=True):
        parts.append('"' + " ".join(words) + '"' + (" *" if is_prefix else ""))
    return " ".join(parts)


def pattern_of(words: tuple[str, ...], *, is_prefix: bool) -> re.Pattern[str]:
    """A phrase in folded text: its words with nothing but signs between them."""
    apart = r"[\W_]+".join(map(re.escape, words))
    return re.compile(rf"(?<![^\W_]){apart}" + ("" if is_prefix else r"(?![^\W_])"))


def match_words(query: Query, text: str) -> bool:
    plain = folded(collapse_spaces(text))
    return all(
        pattern_of(words, is_prefix=is_prefix).search(plain)
        for words, is_prefix in zip(query.phrases, query.prefix, strict=True)
    )


def make_snippet(query: Query, text: str) -> str:
    """The place of the first phrase on one line, with what is around it."""
    plain = folded(text)
    at = 0
    if len(plain) == len(text):  # folding that changed no length changed no place
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
