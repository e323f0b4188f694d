"""Convert one block of a transcript to its form in a request: unchanged, modified or as text.

Owns the rules that concern a single block. A valid block is returned as the same object. Must
never decide about pairs, order or neighbors.
"""

from typing import Any, TypeAlias

import msgspec

from clew.core.catalog.models import is_later
from clew.core.messages.text import NO_CONTENT, escape_result, escape_tags
from clew.core.normalize import shapes
from clew.core.normalize.block_rules import kind_of
from clew.core.normalize.repairs import Repair, RepairKind
from clew.core.normalize.select import identify_thought
from clew.core.normalize.shapes import MISNAMED, find_media_fault, with_true_type
from clew.core.normalize.target import NO_FAMILY, Target, family_of

Block: TypeAlias = dict[str, Any]
# No block in a tool result of the service is nested deeper.
MAX_ESCAPED_DEPTH = 8
_TEXT = frozenset({"type", "text"})
_USE = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content"})


def make_text_block(words: str) -> Block:
    return {"type": "text", "text": words}


class Cleaner:
    """Converts blocks for one target, and collects the `repairs` and the `media` found so far.

    `media` lists the size of each image and document in order. The first `dropped` of them are
    replaced by text, because the request would otherwise be too large.
    """

    def __init__(
        self,
        target: Target,
        *,
        tools: frozenset[str] | None = None,
        dropped: int = 0,
        crowded: bool = False,
        refused: frozenset[str] = frozenset(),
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        self.target = target
        self.repairs: list[Repair] = []
        self.media: list[tuple[str, int]] = []
        self.dropped = dropped
        self.crowded = crowded
        # Block kinds that are unknown to clew and that the service has rejected too.
        self.refused = refused
        # Thinking blocks that do not fit their prefix. The caller has reported them.
        self._left_out = left_out
        self._tools = tools
        self._uuid: str | None = None
        self._may_be_blank = False

    def note(self, kind: RepairKind, detail: str, uuid: str | None) -> None:
        """Record a repair of the entry with this `uuid`."""
        self.repairs.append(Repair(kind=kind, uuid=uuid, detail=detail))

    def _note(self, kind: RepairKind, detail: str = "") -> None:
        self.note(kind, detail, self._uuid)

    # The blocks of an entry

    def user(self, content: Any, uuid: str | None) -> list[Block]:
        """Return the clean blocks of a user entry."""
        self._uuid = uuid
        return [b for block in _listed(content) if (b := self._of_user(block)) is not None]

    def assistant(
        self, content: Any, uuid: str | None, model: object, *, is_blank: bool = False
    ) -> list[Block]:
        """Return the clean blocks of an assistant entry written by `model`.

        `is_blank` is set if the service omitted the text of the thinking in this entry.
        """
        self._uuid = uuid
        self._may_be_blank = is_blank and self.target.blank_thinking
        return [
            b for block in _listed(content) if (b := self._of_assistant(block, model)) is not None
        ]

    def _of_user(self, block: Any) -> Block | None:
        kind = kind_of(block)
        if kind == "text":
            return self._text(self._uncited(block))
        if kind == "tool_result":
            return self._result(block)
        if kind in shapes.MEDIA:
            return self._media(block, kind)
        if kind in shapes.USER and _has_required(block, kind):
            return self._documented(self._searched(block), kind)
        return self._foreign(block, kind)

    def _uncited(self, block: Block) -> Block:
        """Remove the citations from a user's text if the API version does not accept them."""
        if not block.get("citations") or not is_later(self.target.api_version):
            return block
        self._note("fields_dropped", "citations")
        return {name: value for name, value in block.items() if name != "citations"}

    def _searched(self, block: Block) -> Block:
        """Remove the citations inside a search result if the API version does not accept them."""
        content = block.get("content") if block.get("type") == "search_result" else None
        if type(content) is not list:
            return block
        texts = [self._uncited(b) if kind_of(b) == "text" else b for b in content]
        return block if all(map(_same, texts, content)) else block | {"content": texts}

    def _of_assistant(self, block: Any, model: object) -> Block | None:
        kind = kind_of(block)
        if kind == "text":
            return self._text(block)
        if kind == "tool_use":
            return self._use(block)
        if kind in shapes.THINKING:
            return self._thinking(block, kind, model)
        if not kind or kind in shapes.NOT_ASSISTANT or kind in shapes.FOREIGN:
            return self._foreign(block, kind)
        is_own = self.target.server_tools and family_of(model) == self.target.family
        if kind not in shapes.FIELDS:  # a kind newer than this version is sent back unchanged
            return block if is_own and kind not in self.refused else self._told(block, kind)
        if not is_own or not _has_required(block, kind):
            return self._told(block, kind)
        return self._documented(block, kind)

    # Rules by kind

    def _text(self, block: Block) -> Block | None:
        words = block.get("text")
        if type(words) is not str or not words.strip():
            self._note("text_empty")
            return None
        if block.keys() == _TEXT:
            return block
        block = self._documented(block, "text")
        return self._cited(block) if block.get("citations") else block

    def _cited(self, block: Block) -> Block:
        """Reduce citations to the fields that requests allow; those of responses have more."""
        cited = block["citations"]
        citations = []
        for citation in cited if type(cited) is list else ():
            allowed_fields = shapes.CITATIONS.get(kind_of(citation))
            if allowed_fields is not None:
                citations.append(
                    {name: v for name, v in citation.items() if name in allowed_fields}
                )
        if citations == cited:
            return block
        self._note("fields_dropped", "citations")
        return block | {"citations": citations or None}

    def _use(self, block: Block) -> Block | None:
        arguments = block.get("input")
        if type(arguments) is not dict or shapes.is_too_deep(arguments):
            self._note("input_not_object", str(block.get("name")))
            return make_text_block(as_text(block))
        if self._tools is not None and not self._tools:
            self._note("no_tools", str(block.get("name")))
            return make_text_block(as_text(block))
        name = block.get("name")
        if not shapes.is_word(name, self.target.max_tool_name):
            self._note("name_changed", str(name))
            block = block | {"name": as_word(name, self.target.max_tool_name) or "unnamed"}
        if type(block.get("id")) is not str:
            block = block | {"id": ""}
        return block if block.keys() == _USE else self._documented(block, "tool_use")

    def _result(self, block: Block) -> Block:
        content = block.get("content")
        if self._tools is not None and not self._tools:
            self._note("no_tools")
            return make_text_block(escape_tags(as_text(block)))
        if type(block.get("tool_use_id")) is not str:
            block = block | {"tool_use_id": ""}
        if type(content) is str:
            escaped = escape_result(content)
            if escaped is not content:
                content = escaped
                block = block | {"content": content}
        if type(content) is not str:
            inside = self._inside(content)
            if inside is not content:
                block = block | {"content": inside or NO_CONTENT}
        elif not content.strip():
            block = block | {"content": NO_CONTENT}
        if block.keys() == _RESULT:
            return block
        if type(block.get("is_error", False)) is not bool:
            block = block | {"is_error": block["is_error"] is not None}
        return self._documented(block, "tool_result")

    def _inside(self, content: Any) -> Any:
        """Return the clean content of a tool result; the same object if nothing changed."""
        if type(content) is not list:
            return [] if content is None else [make_text_block(as_text(content))]
        blocks = [b for inner in content if (b := self._in_result(inner)) is not None]
        is_same = len(blocks) == len(content) > 0
        return content if is_same and all(map(_same, blocks, content)) else blocks

    def _in_result(self, block: Any) -> Block | None:
        kind = kind_of(block)
        if kind == "text":
            return self._text(_escaped(block))
        if kind in shapes.MEDIA:
            return self._media(_escaped(block), kind)
        if kind == "tool_reference" and not self._has_tool(block.get("tool_name")):
            self._note("tool_unknown", str(block.get("tool_name")))
            return make_text_block(f"(the tool {block.get('tool_name')} is no longer available)")
        if kind == "tool_reference" and not self.target.deferred_tools:
            return make_text_block(f"The tool {block['tool_name']} is loaded and can be called.")
        if kind in shapes.IN_RESULT and _has_required(block, kind):
            return self._documented(_escaped(self._searched(block)), kind)
        replacement = self._foreign(block, kind)
        return None if replacement is None else _escaped(replacement)

    def _has_tool(self, name: Any) -> bool:
        return self._tools is None or str(name) in self._tools

    def _thinking(self, block: Block, kind: str, model: object) -> Block | None:
        if family_of(model) != self.target.family:
            words = block.get("thinking")
            if self.target.foreign_thinking == "text" and type(words) is str and words.strip():
                self._note("thinking_told")
                return make_text_block(f"(thinking) {words}")
            if self.target.family != NO_FAMILY:
                # If no thinking is sent back at all, omitting this block is not a repair.
                self._note("thinking_dropped", "written by another model family")
            return None
        if self._left_out and identify_thought(block) in self._left_out:
            return None
        if not self._is_whole(block, kind):
            return {"type": kind}  # `pairing` then removes the response's other thinking
        return self._documented(block, kind)

    def _is_whole(self, block: Block, kind: str) -> bool:
        if not _has_required(block, kind):
            return False
        if kind == "redacted_thinking":
            return bool(block["data"])
        if not self._may_be_blank and not block["thinking"].strip():
            return False
        return bool(block["signature"])

    def _media(self, block: Block, kind: str) -> Block | None:
        fault, size = find_media_fault(block, kind, self.target)
        if fault == MISNAMED:
            self._note("media_renamed")
            block = with_true_type(block)
            fault, size = find_media_fault(block, kind, self.target)
        if not (self.target.images if kind == "image" else self.target.documents):
            fault = "has a type that this model does not accept"
        if not fault:
            data = block["source"].get("data")
            self.media.append((kind, len(data) if type(data) is str else 0))
            if len(self.media) <= self.dropped:
                fault = "was omitted to save space"
            elif self.crowded and max(size) > self.target.max_crowded_px:
                fault = "is wider or taller than allowed for a request with this many images"
        if fault:
            return self.without_media(block, fault, self._uuid)
        return self._documented(block, kind)

    def without_media(self, block: Block, fault: str, uuid: str | None) -> Block:
        """Return the text that replaces an image or document that cannot be sent."""
        self.note("media_removed", fault, uuid)
        return make_text_block(f"(this {block['type']} {fault} and is not shown)")

    def _foreign(self, block: Any, kind: str) -> Block | None:
        """Convert a block that is from another platform or is not allowed in its place.

        Return None if it is left out.
        """
        if kind == "cache_point":
            return None
        if kind in shapes.THINKING:
            self._note("thinking_dropped", "in a user message")
            return None
        return self._told(block, kind)

    def _told(self, block: Any, kind: str) -> Block | None:
        self._note("block_unknown", kind)
        words = as_text(block)
        return make_text_block(words) if words.strip() else None

    def _documented(self, block: Block, kind: str) -> Block:
        """Return `block` with only the fields allowed in requests; cache marks are set later."""
        allowed_fields = shapes.FIELDS[kind]
        if block.keys() <= allowed_fields and "cache_control" not in block:
            return block
        extra = block.keys() - allowed_fields
        if extra:
            self._note("fields_dropped", f"{kind}: {', '.join(sorted(map(str, extra)))}")
        return {k: v for k, v in block.items() if k in allowed_fields and k != "cache_control"}


def _escaped(value: Any, depth: int = 0) -> Any:
    """Escape clew's tags in a tool's output; return the same object if nothing changed."""
    if type(value) is str:
        return escape_tags(value)
    if depth > MAX_ESCAPED_DEPTH:
        return value
    if type(value) is dict:
        copy = {name: _escaped(inner, depth + 1) for name, inner in value.items()}
        return value if all(map(_same, copy.values(), value.values())) else copy
    if type(value) is list:
        listed = [_escaped(inner, depth + 1) for inner in value]
        return value if all(map(_same, listed, value)) else listed
    return value


def _same(value: object, other: object) -> bool:
    return value is other


def _listed(content: Any) -> list[Any]:
    if type(content) is list:
        return content
    return (
        [] if content is None else [make_text_block(content) if type(content) is str else content]
    )


def _has_required(block: Block, kind: str) -> bool:
    return all(type(block.get(name)) is wanted for name, wanted in shapes.REQUIRED.get(kind, ()))


def as_word(value: Any, longest: int) -> str:
    """Replace characters that are invalid in an ID or name with `_`, and truncate to `longest`."""
    if shapes.is_word(value, longest):
        return str(value)
    text = value if type(value) is str else ""
    return "".join(c if c in shapes.WORD else "_" for c in text[:longest])


def as_text(value: Any) -> str:
    """Return the content of a block as text, for a place that cannot contain the block."""
    if type(value) is not dict:
        return value if type(value) is str else as_json(value)
    if shapes.is_too_deep(value):
        return "(omitted: nested too deeply)"
    kind = kind_of(value)
    if kind == "tool_use":
        return f"(called tool {value.get('name')} with {as_json(value.get('input'))})"
    if kind == "tool_result":
        return f"(tool result: {_all_text(value.get('content'))})"
    if kind in shapes.MEDIA or kind == "video":
        return f"(block of type {kind})"
    if kind == "guard_content" or kind == "text":
        return _all_text(value.get("text"))
    if kind == "reasoning":
        return _all_text(value.get("reasoning_text"))
    return as_json(value)


def _all_text(content: Any) -> str:
    if type(content) is list:
        return "\n".join(as_text(inner) for inner in content)
    if type(content) is dict and type(content.get("text")) is str:
        return str(content["text"])
    return as_text(content)


def as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, RecursionError):
        return "(omitted: cannot be encoded)"
