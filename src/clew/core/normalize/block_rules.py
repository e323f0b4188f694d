"""The rules for a single block of a request: fields, types, text and media. Part of `validate`."""

from typing import Any

from msgspec import Struct

from clew.core.catalog.models import is_later
from clew.core.normalize import shapes
from clew.core.normalize.shapes import find_media_fault
from clew.core.normalize.target import Target

_TEXT = frozenset({"type", "text"})
_USE = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})


class RequestViolation(Struct, frozen=True, kw_only=True):
    """One reason why the service would reject a request.

    Fields:
        rule: The number of the rule.
        where: The place in the request.
        what: A description of the problem.
    """

    rule: str
    where: str
    what: str

    @property
    def is_of_size(self) -> bool:
        """True if the messages together are too large, in which case a compaction helps."""
        return self.rule == "V8" and self.where == "messages"


def kind_of(block: Any) -> str:
    """Return the block's type, or an empty string if it has none."""
    kind = block.get("type") if type(block) is dict else None
    return kind if type(kind) is str else ""


def is_plain(block: dict[str, Any], kind: str) -> bool:
    """Return whether this is an ordinary text, call or result block that needs no further checks.

    Most blocks are ordinary, which keeps the validation of a long history within milliseconds.
    """
    if kind == "text":
        return block.keys() == _TEXT and says_something(block)
    if kind == "tool_use":
        return block.keys() == _USE and type(block["input"]) is dict
    if kind == "tool_result" and block.keys() <= _RESULT:
        content = block.get("content")
        is_said = type(content) is str and content.strip() != ""
        return is_said and type(block.get("is_error", False)) is bool and "tool_use_id" in block
    return False


def says_something(block: dict[str, Any]) -> bool:
    words = block.get("text")
    return type(words) is str and words.strip() != ""


class BlockJudge:
    """A checker for single blocks; it collects violations and counts cache marks and images."""

    def __init__(self, target: Target, violations: list[RequestViolation]) -> None:
        self._target = target
        self._found = violations
        self.tools: frozenset[str] | None = None
        self.marks = 0
        self.images = 0
        self.documents = 0
        self.oversized: list[tuple[str, int]] = []

    def branch(self, violations: list[RequestViolation]) -> "BlockJudge":
        other = BlockJudge(self._target, violations)
        other.tools, other.marks, other.images = self.tools, self.marks, self.images
        other.documents = self.documents
        other.oversized = list(self.oversized)
        return other

    def _say(self, rule: str, where: str, what: str) -> None:
        self._found.append(RequestViolation(rule=rule, where=where, what=what))

    def only_text(self, block: Any, where: str) -> None:
        """Check a block in a place that allows only text."""
        if kind_of(block) == "text":
            self.judge(block, "text", where)
        else:
            self._say("V1", where, "must be a text block")

    def judge(self, block: dict[str, Any], kind: str, where: str) -> None:
        """Check a block by the rules for its kind, whatever its role; skip kinds without rules."""
        if kind not in shapes.FIELDS:  # an assistant block of a kind newer than this table
            return
        self._shape(block, kind, where)
        if kind == "text":
            self._text(block, where)
        elif kind == "tool_result":
            self._result(block, where)
        elif kind == "thinking":
            self._thinking(block, where)
        elif kind in shapes.MEDIA:
            self._media(block, kind, where)

    def _shape(self, block: dict[str, Any], kind: str, where: str) -> None:
        for extra in block.keys() - shapes.FIELDS[kind]:
            self._say("V1", f"{where}.{extra}", f"is not a field of a {kind} block")
        for name, wanted in shapes.REQUIRED.get(kind, ()):
            if type(block.get(name)) is not wanted:
                rule = "V6" if name == "input" else "V1"
                self._say(rule, f"{where}.{name}", f"must be of type {wanted.__name__}")
        self.marks += block.get("cache_control") is not None

    def _text(self, block: dict[str, Any], where: str) -> None:
        if not says_something(block):
            self._say("V4", where, "is a blank text block")
        citations = block.get("citations")
        if citations is not None and type(citations) is not list:
            self._say("V1", f"{where}.citations", "must be a list")
        for place, citation in enumerate(citations if type(citations) is list else ()):
            allowed_fields = shapes.CITATIONS.get(kind_of(citation))
            if allowed_fields is None or not citation.keys() <= allowed_fields:
                self._say("V1", f"{where}.citations[{place}]", "is not a supported citation")

    def uncited(self, block: dict[str, Any], kind: str, where: str) -> None:
        """Check that user content has no citations where the API version forbids them.

        Version 2026-10-21 and later reject citations in text, and also in search results within a
        message or a tool result.
        """
        if not is_later(self._target.api_version):
            return
        if kind == "text" and block.get("citations"):
            self._say("V1", f"{where}.citations", "is not allowed in user content")
        if kind not in ("search_result", "tool_result"):
            return
        content = block.get("content")
        for place, inner in enumerate(content if type(content) is list else ()):
            of_kind = kind_of(inner)
            if of_kind == ("text" if kind == "search_result" else "search_result"):
                self.uncited(inner, of_kind, f"{where}.content[{place}]")

    def _result(self, block: dict[str, Any], where: str) -> None:
        if type(block.get("is_error", False)) is not bool:
            self._say("V1", f"{where}.is_error", "must be a boolean")
        content = block.get("content")
        if type(content) is str:
            content = [{"type": "text", "text": content}]
        if type(content) is not list:
            self._say("V1", f"{where}.content", "must be a string or a list")
            return
        if not content:
            self._say("V4", f"{where}.content", "is empty")
        is_text_alone = block.get("is_error") is True and not self._target.error_media
        for place, inner in enumerate(content):
            self._inside(inner, f"{where}.content[{place}]")
            if is_text_alone and kind_of(inner) != "text":
                self._say(
                    "V1",
                    f"{where}.content[{place}]",
                    "must be text, because the result is an error",
                )

    def _inside(self, block: Any, where: str) -> None:
        kind = kind_of(block)
        if kind not in shapes.IN_RESULT:
            self._say("V1", where, f"is not allowed in a tool result: {kind or 'unknown block'}")
            return
        self.judge(block, kind, where)
        if kind == "tool_reference" and str(block.get("tool_name")) not in self._known_tools(block):
            self._say("V9", where, "refers to a tool that the request does not offer")

    def _known_tools(self, block: dict[str, Any]) -> frozenset[str]:
        """Return the request's tool names or, if they are unknown, only the name in `block`."""
        return frozenset({str(block.get("tool_name"))}) if self.tools is None else self.tools

    def _thinking(self, block: dict[str, Any], where: str) -> None:
        if block.get("signature") == "":
            self._say("V5", where, "is a thinking block without a signature")
        words = block.get("thinking")
        if type(words) is str and not words.strip() and not self._target.blank_thinking:
            self._say("V5", where, "is a thinking block without text")

    def _media(self, block: dict[str, Any], kind: str, where: str) -> None:
        target = self._target
        if not (target.images if kind == "image" else target.documents):
            self._say("V8", where, f"has a type that this model does not accept: {kind}")
        fault, size = find_media_fault(block, kind, target)
        if fault:
            self._say("V8", where, fault)
        self.images += kind == "image"
        self.documents += kind == "document"
        if max(size) > target.max_crowded_px:
            self.oversized.append((where, max(size)))
