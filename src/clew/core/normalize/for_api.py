"""Build the messages of a request from the entries of any conversation, however damaged.

`for_api` builds them from scratch. `Outgoing` serves a growing history: a closed exchange is built
and validated only once, so that a turn costs only its new entries. Both fold the entries in the
same way.

    select -> clean each block -> collect exchanges -> pair, order, fill -> messages -> validate

The next response closes an exchange. Its messages then never change, because they are the prefix
that the service has cached.

Decision: docs/decisions/080-requests-by-exchange.md
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.json_object import object_of
from clew.core.messages.text import INTERRUPTED, NO_RESPONSE_REQUESTED, escape_output, with_nonce
from clew.core.normalize import select, shapes
from clew.core.normalize.block_rules import RequestViolation, kind_of
from clew.core.normalize.clean import Block, Cleaner, as_text, make_text_block
from clew.core.normalize.origin import count_calls, find_own_items
from clew.core.normalize.pairing import Calls, PairedExchange, Said, finish, is_paused
from clew.core.normalize.rendering import read_frozen_blocks, render_attachment
from clew.core.normalize.repairs import (
    Repair,
    find_refused_kinds,
    find_refused_media,
    read_refused_media,
)
from clew.core.normalize.select import Entry
from clew.core.normalize.target import Target
from clew.core.normalize.validate import Validator
from clew.core.stream.json_pieces import MAX_DEPTH

CONTINUE = "Continue."
BEGINNING = "(earlier messages were not recorded)"
_encode = msgspec.json.Encoder().encode


class Projected(Struct, frozen=True, kw_only=True):
    """The messages of a request, the repairs they needed, and the violations that remain."""

    messages: list[dict[str, Any]]
    repairs: list[Repair]
    violations: list[RequestViolation]


def for_api(
    entries: Iterable[Entry],
    target: Target,
    *,
    tools: Sequence[dict[str, Any]] | None = None,
) -> Projected:
    """Return the request that sends this conversation to `target`.

    The conversation consists of entries, or of messages as the API accepts and returns them. An
    item that is neither is left out, and a repair says so. `tools` lists the tools that the request
    offers. If it is None, the rules about tools are skipped.
    """
    outgoing = Outgoing(target, tools=tools)
    outgoing.extend(entries)
    return outgoing.request()


def read_item(item: Any) -> Entry | Repair:
    """Return an item as an entry, or a repair if it is neither an entry nor an API message.

    An entry of an unknown type with a UUID comes from a newer version and is left out silently.
    """
    if type(item) is not dict:
        return Repair(kind="not_an_entry", uuid=None, detail=type(item).__name__)
    kind = item.get("type")
    if type(kind) is str and (kind in select.ROLES or type(item.get("uuid")) is str):
        if kind in ("user", "assistant") and type(item.get("message")) is not dict:
            return Repair(
                kind="not_an_entry", uuid=_uuid(item), detail=f"type {kind!r}, no message"
            )
        return item
    role = item.get("role")
    is_message = (kind is None or kind == "message") and "tool_calls" not in item
    if is_message and role in ("user", "assistant") and "content" in item:
        return {"type": role, "message": item}
    detail = f"type {kind!r}" if role is None else f"role {role!r}"
    return Repair(kind="not_an_entry", uuid=_uuid(item), detail=detail)


class Outgoing:
    """The requests for a growing history. Entries can only be added; start over after a rewind."""

    def __init__(
        self,
        target: Target,
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        """Start empty; thinking blocks in `left_out` are never sent."""
        self._left_out = left_out
        self._target = target
        self._tools = None if tools is None else list(tools)
        self._names = None if tools is None else frozenset(str(t.get("name")) for t in tools)
        self._entries: list[Entry] = []
        # Repairs for the items that are not entries.
        self._rejected: list[Repair] = []
        self._refused: frozenset[str] = frozenset()
        self._nonce = ""
        self._fold = self._new_fold(0, crowded=False)

    def _new_fold(self, dropped: int, *, crowded: bool) -> "_Fold":
        cleaner = Cleaner(
            self._target,
            tools=self._names,
            dropped=dropped,
            crowded=crowded,
            refused=self._refused,
            left_out=self._left_out,
        )
        validator = Validator(self._target)
        validator.tools(self._tools)
        return _Fold(cleaner, validator, self._nonce)

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add the new entries of the conversation."""
        first = len(self._entries)
        for item in entries:
            entry = read_item(item)
            if isinstance(entry, Repair):
                self._rejected.append(entry)
            else:
                self._entries.append(entry)
        new = self._entries[first:]
        nonce = next(filter(None, map(nonce_of, reversed(new))), self._nonce)
        is_other, self._nonce = nonce != self._nonce, nonce
        if is_other or any(select.is_summary(entry) or select.is_micro(entry) for entry in new):
            self._again(0, crowded=False)
        else:
            for entry in new:
                self._fold.add(entry)

    def _again(self, dropped: int, *, crowded: bool) -> None:
        self._fold = self._new_fold(dropped, crowded=crowded)
        visible = select.select_visible(self._entries)
        self._fold.references = select.find_references(visible)
        for entry in visible:
            self._fold.add(entry)

    def request(self) -> Projected:
        """Return the request for the current entries; repeated calls return the same request."""
        dropped = self._fold.media_to_drop()
        crowded = self._fold.is_crowded()
        cleaner = self._fold.cleaner
        is_new = not self._fold.refused_kinds <= self._refused
        self._refused |= self._fold.refused_kinds
        if is_new or dropped != cleaner.dropped or crowded != cleaner.crowded:
            self._again(dropped, crowded=crowded)
        projected = self._fold.request()
        if self._rejected:
            repairs = self._rejected + projected.repairs
            projected = msgspec.structs.replace(projected, repairs=repairs)
        return projected


class _Fold:
    """A fold of entries into exchanges, and of closed exchanges into messages."""

    def __init__(self, cleaner: Cleaner, validator: Validator, nonce: str) -> None:
        self.cleaner = cleaner
        # The nonce in clew's own tags; empty if this conversation has none.
        self._nonce = nonce
        self._target = cleaner.target
        self._validator = validator
        self._closed: list[dict[str, Any]] = []
        self._calls = Calls(cleaner.target.max_id)
        self._open = PairedExchange([], None, nonce)
        # Thinking blocks of a response that has no other block yet.
        self._thought: Said = []
        self._thought_id: str | None = None
        # `_refused`: how many of the first media must be omitted after an API error.
        # `_media_before`: how many precede the open exchange. `_is_stripped`: whether the open
        # exchange has lost its media already.
        self._refused = 0
        self._media_before = 0
        self._is_stripped = False
        self.refused_kinds: frozenset[str] = frozenset()
        # The cleared tool results by call ID, with the text that replaces each.
        self.references: dict[str, str] = {}
        # Whether a request with the open exchange failed or was interrupted: the service may have
        # seen it.
        self._may_be_sent = False
        # The entries of the latest response, in a list that its exchange keeps.
        self._response: list[Entry] = []
        # Whether the latest response has begun, but none of its blocks was taken yet. Some services
        # give all their responses the same ID.
        self._is_next_response = False

    # Input

    def add(self, entry: Entry) -> None:
        kind = entry.get("type")
        role = select.ROLES.get(kind, "never") if type(kind) is str else "never"
        if role != "never" and entry.get("isVirtual") is not True:
            _HANDLERS[role](self, entry)

    def _talk(self, entry: Entry) -> None:
        message = entry.get("message")
        content = message.get("content") if type(message) is dict else None
        uuid = _uuid(entry)
        if self.references and type(content) is list:
            content = [self._referred(block) for block in content]
        blocks = [self._own(block, entry) for block in self.cleaner.user(content, uuid)]
        self._may_be_sent |= any(block.get("text") == INTERRUPTED for block in blocks)
        if any(block["type"] != "tool_result" for block in blocks):
            self._settle(uuid)
        into = self._open
        for block in blocks:
            if block["type"] == "tool_result":
                if into.has_words:
                    self.cleaner.note("result_moved", block["tool_use_id"], uuid)
                into.results.append((block, uuid))
            else:
                into.talk.append(block)

    def _referred(self, block: Any) -> Any:
        """Return the block, with its replacement text if it is a cleared tool result."""
        if type(block) is not dict or block.get("type") != "tool_result":
            return block
        call = block.get("tool_use_id")
        words = self.references.get(call) if type(call) is str else None
        return block if words is None else block | {"content": words}

    def _settle(self, uuid: str | None) -> None:
        """Fix the order of the blocks so far, because more text follows them.

        If an earlier request may have been sent with these blocks, they stay where they were. Only
        a response may follow a system message.
        """
        into = self._open
        if not into.has_words or not into.is_answered:
            return
        # Notices alone, as after a compaction, are part of the user message that follows.
        is_user_message = bool(into.results or into.before or into.context or into.talk)
        if into.notices and is_user_message and self._target.system_messages:
            if not self._may_be_sent:
                return
            self.cleaner.note("turn_missing", NO_RESPONSE_REQUESTED, uuid)
            self._next(
                PairedExchange([(make_text_block(NO_RESPONSE_REQUESTED), uuid)], None, self._nonce)
            )
        else:
            into.settle()

    def _next(self, exchange: PairedExchange) -> None:
        self._close()
        self._open = exchange
        self._media_before = len(self.cleaner.media)
        self._is_stripped = self._may_be_sent = False

    def _note(self, entry: Entry) -> None:
        """Add the output of a local command; the model sees no other system entries.

        If the entry of a failed request lists media to omit, omit them from later requests.
        """
        if entry.get("subtype") == "api_error":
            self._may_be_sent = True
            self._refuse_media(read_refused_media(entry), _uuid(entry))
        if entry.get("subtype") == "local_command" and entry.get("isDisplayOnly") is not True:
            content = self.cleaner.user(entry.get("content"), _uuid(entry))
            self._open.talk += [self._own(block, entry) for block in content]

    def _own(self, block: Block, entry: Entry) -> Block:
        """Return a block with the nonce in the tags that clew wrote, and all other tags escaped."""
        if block["type"] != "text":
            return block
        words: str = block["text"]
        text = with_nonce(words, self._nonce) if _is_of_clew(entry) else escape_output(words)
        return block if text is words else block | {"text": text}

    def _context(self, entry: Entry) -> None:
        content: Any = read_frozen_blocks(entry)
        if content is None:
            words = render_attachment(entry.get("attachment"))
            content = [make_text_block(words)] if words else []
        blocks = [self._own(block, entry) for block in self.cleaner.user(content, _uuid(entry))]
        if entry.get("renderedRole") == "system" and all(b["type"] == "text" for b in blocks):
            self._open.notices += blocks
            return
        for block in blocks:
            if block["type"] == "tool_result":
                self._open.results.append((block, _uuid(entry)))
            else:
                self._open.context.append(block)

    def _answer(self, entry: Entry) -> None:
        if entry.get("isApiErrorMessage") is True:
            self._failure(entry)
            return
        message = object_of(entry.get("message"))
        uuid = _uuid(entry)
        if entry.get("apiBlockIndex") == 0:
            self._response, self._is_next_response = [], True
        self._response.append(entry)
        is_blank = entry.get("thinkingDisplay") == "omitted"
        content = message.get("content")
        blocks = self.cleaner.assistant(content, uuid, message.get("model"), is_blank=is_blank)
        if not blocks:
            if not is_thought(content):
                self.cleaner.note("answer_empty", "", uuid)
            return
        tagged_blocks: Said = [(block, uuid) for block in blocks]
        answer_id = message.get("id") if type(message.get("id")) is str else None
        is_next, self._is_next_response = self._is_next_response, False
        if not is_next and self._continues(answer_id):
            self._open.answer += tagged_blocks
        else:
            self._begin(tagged_blocks, answer_id)

    def _continues(self, answer_id: str | None) -> bool:
        """Return whether an entry extends the open response or continues it after a pause."""
        open_now = self._open
        if not open_now.answer or open_now.talk or open_now.answer_id != answer_id:
            return False
        return answer_id is not None or not (open_now.results or open_now.has_words)

    def _begin(self, tagged_blocks: Said, answer_id: str | None) -> None:
        if self._thought:
            if self._thought_id == answer_id:
                tagged_blocks = self._thought + tagged_blocks
            else:
                self._forget_thought()
            self._thought = []
        if all(block["type"] in shapes.THINKING for block, _ in tagged_blocks):
            self._thought, self._thought_id = tagged_blocks, answer_id
        elif is_paused(self._open, Calls(self._target.max_id, self._calls)):
            self._open.answer += tagged_blocks
            self._open.answer_id = answer_id
        else:
            self._next(PairedExchange(tagged_blocks, answer_id, self._nonce))
            self._open.entries = self._response

    def _forget_thought(self) -> None:
        self.cleaner.note(
            "thinking_dropped", "the only content of a response", self._thought[-1][1]
        )

    def _failure(self, entry: Entry) -> None:
        """Remember content that the service rejected, so that it is not sent again."""
        self._may_be_sent = True
        self.refused_kinds |= find_refused_kinds(entry)
        self._refuse_media(find_refused_media(entry), _uuid(entry))

    def _refuse_media(self, kinds: frozenset[str], uuid: str | None) -> None:
        if not kinds:
            return
        media = self.cleaner.media
        if self._is_stripped or all(kind not in kinds for kind, _ in media[self._media_before :]):
            self._refused = len(media)
            return
        self._is_stripped = True
        exchange = self._open
        exchange.before = [self._stripped(b, kinds, uuid) for b in exchange.before]
        exchange.context = [self._stripped(b, kinds, uuid) for b in exchange.context]
        exchange.talk = [self._stripped(b, kinds, uuid) for b in exchange.talk]
        exchange.results = [(self._stripped(b, kinds, uuid), of) for b, of in exchange.results]

    def _stripped(self, block: Block, kinds: frozenset[str], uuid: str | None) -> Block:
        if block["type"] in kinds:
            return self.cleaner.without_media(block, "was rejected by the service", uuid)
        content = block.get("content")
        if block["type"] != "tool_result" or type(content) is not list:
            return block
        if not any(inner["type"] in kinds for inner in content):
            return block
        return block | {"content": [self._stripped(inner, kinds, uuid) for inner in content]}

    # Limits on the complete request

    def is_crowded(self) -> bool:
        images = sum(kind == "image" for kind, _ in self.cleaner.media)
        return images > self._target.crowd

    def media_to_drop(self) -> int:
        """Return how many of the oldest images and documents to omit.

        The number grows in steps, so that one more image usually leaves the cached prefix
        unchanged.
        """
        media = self.cleaner.media
        target = self._target
        images = _stepped(sum(kind == "image" for kind, _ in media), target.max_images)
        documents = _stepped(sum(kind == "document" for kind, _ in media), target.max_documents)
        size = _stepped(sum(size for _, size in media), target.max_media_bytes)
        dropped = 0
        while dropped < len(media) and (images > 0 or documents > 0 or size > 0):
            kind, length = media[dropped]
            images -= kind == "image"
            documents -= kind == "document"
            size -= length
            dropped += 1
        return max(dropped, self._refused)

    # Output

    def _close(self) -> None:
        """Close the open exchange when a response follows; its messages are now final."""
        messages = _messages(self._open, self._calls, self.cleaner, is_last=False)
        for message in messages:
            self._validator.add(message)
        self._closed += self._with_own_items(messages, self._open)

    def _with_own_items(
        self, messages: list[dict[str, Any]], exchange: PairedExchange
    ) -> list[dict[str, Any]]:
        """Return the messages; a response written by the receiver keeps its original items."""
        reader, entries = self._target.reader, exchange.entries
        if reader is None or not entries or messages[0]["role"] != "assistant":
            return messages
        items = find_own_items(entries, reader)
        calls = sum(block["type"] == "tool_use" for block in messages[0]["content"])
        if items is None or calls != count_calls(entries):
            return messages
        return [messages[0] | {"origin": items}, *messages[1:]]

    def request(self) -> Projected:
        cleaner = self.cleaner
        before = len(cleaner.repairs)
        if self._thought:
            self._forget_thought()
        messages = _messages(
            self._open, Calls(self._target.max_id, self._calls), cleaner, is_last=True
        )
        validator = self._validator.branch()
        for message in messages:
            validator.add(message)
        validator.close()
        repairs = cleaner.repairs[:]
        del cleaner.repairs[before:]
        return Projected(
            messages=self._closed + self._with_own_items(messages, self._open),
            repairs=repairs,
            violations=validator.found,
        )


def nonce_of(entry: Entry) -> str:
    """Return the nonce that an environment entry defines for clew's tags, or an empty string."""
    attachment = entry.get("attachment") if entry.get("type") == "attachment" else None
    nonce = (
        attachment.get("nonce")
        if type(attachment) is dict and attachment.get("type") == "environment"
        else ""
    )
    return nonce if type(nonce) is str else ""


def _is_of_clew(entry: Entry) -> bool:
    """Return whether clew wrote this entry: context around a prompt, or a reminder."""
    return entry.get("type") == "attachment" or entry.get("isMeta") is True


def _uuid(entry: Entry) -> str | None:
    uuid = entry.get("uuid")
    return uuid if type(uuid) is str else None


def is_thought(content: Any) -> bool:
    """Return whether an entry contains only thinking.

    The other blocks of its response are separate entries.
    """
    return type(content) is list and all(kind_of(block) in shapes.THINKING for block in content)


def _stepped(amount: int, limit: int) -> int:
    """Return how much to subtract from `amount`: nothing, or a multiple of half the limit."""
    step = max(1, limit // 2)
    return 0 if amount <= limit else -(-(amount - limit) // step) * step


def _messages(
    exchange: PairedExchange, calls: Calls, cleaner: Cleaner, *, is_last: bool
) -> list[dict[str, Any]]:
    contents = finish(
        exchange,
        calls,
        cleaner.note,
        system_messages=cleaner.target.system_messages,
        filler=CONTINUE if exchange.answer else BEGINNING,
        may_pause=is_last,
        error_media=cleaner.target.error_media,
    )
    return [
        {"role": role, "content": _writable(content, cleaner)}
        for role, content in zip(("assistant", "user", "system"), contents, strict=True)
        if content
    ]


def _writable(content: list[Block], cleaner: Cleaner) -> list[Block]:
    """Return `content` in a form that can be encoded as UTF-8 JSON and parsed by other programs."""
    try:
        written = _encode(content)
    except (UnicodeEncodeError, RecursionError):
        is_writable = False
    else:
        # The nesting that Python can encode depends on its version; other programs allow much less.
        may_be_deep = written.count(b"{") + written.count(b"[") > MAX_DEPTH
        is_writable = not (may_be_deep and any(_is_too_deep(block) for block in content))
    if is_writable:
        return content
    cleaner.note("not_writable", "", None)
    return [_writable_block(block) for block in content]


def _is_too_deep(block: Block) -> bool:
    return shapes.is_too_deep(block, MAX_DEPTH + 2)


def _writable_block(block: Block) -> Block:
    if _is_too_deep(block):
        if block["type"] == "tool_result":
            return block | {"content": as_text(block)}
        return make_text_block(as_text(block))
    return {_scrubbed(name): _scrubbed(value) for name, value in block.items()}


def _scrubbed(value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if type(value) is dict:
        return {_scrubbed(k): _scrubbed(v) for k, v in value.items()}
    if type(value) is list:
        return [_scrubbed(v) for v in value]
    return value


_HANDLERS: dict[str, Callable[[_Fold, Entry], None]] = {
    "answer": _Fold._answer,
    "talk": _Fold._talk,
    "note": _Fold._note,
    "context": _Fold._context,
}
