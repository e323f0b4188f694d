"""Estimate the tokens of text, images and documents before the service counts them.

The estimate uses the kinds of characters, the size of an image and the length of a document.
`core.ledger.spending` corrects it with actual counts.
"""

from collections.abc import Iterable
from typing import Any

from clew.core.messages.encoding import encode
from clew.core.normalize.shapes import UNKNOWN_SIZE, find_media_fault
from clew.core.normalize.target import Target

USE_OVERHEAD = 20
RESULT_OVERHEAD = 10
MESSAGE_OVERHEAD = 4
# The service scales an image down to this length per side and charges by area.
MAX_SIDE_PX = 1568
PX_PER_TOKEN = 750
UNKNOWN_PICTURE = 1600
BYTES_PER_PAGE = 50_000
TOKENS_PER_PAGE = 2000

_LETTERS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \n")
_ANY = Target(max_image_px=10**9, max_image_bytes=10**9, max_document_bytes=10**9)


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of `text`; letters, ASCII symbols and the rest have different weights."""
    if not text:
        return 0
    if text.isascii():
        marks, wide = len(text.translate(_LETTERS)), 0
        letters = len(text) - marks
    else:
        plain = text.encode("ascii", "ignore")
        marks = len(plain.decode().translate(_LETTERS))
        letters = len(plain) - marks
        wide = len(text.encode("utf-8", "replace")) - len(plain)
    return max(1, round(letters / 4.6 + marks / 1.9 + wide / 2.7))


def estimate_block_tokens(block: Any) -> int:
    """Estimate the tokens of one message block."""
    if type(block) is not dict:
        return estimate_text_tokens(block) if type(block) is str else 0
    match block.get("type"):
        case "text":
            return _said(block.get("text"))
        case "tool_use":
            return _json_tokens(block.get("input")) + _said(block.get("name")) + USE_OVERHEAD
        case "tool_result":
            return estimate_content_tokens(block.get("content")) + RESULT_OVERHEAD
        case "thinking":
            return _said(block.get("thinking"))
        case "image" | "document" as kind:
            return _media_tokens(block, kind)
    return _json_tokens(block)


def estimate_content_tokens(content: Any) -> int:
    """Estimate the tokens of the content of a message or a tool result, whatever its type."""
    if type(content) is list:
        return sum(map(estimate_block_tokens, content))
    return _said(content)


def estimate_message_tokens(messages: Iterable[dict[str, Any]]) -> int:
    return sum(estimate_content_tokens(m.get("content")) + MESSAGE_OVERHEAD for m in messages)


def count_text_chars(content: Any) -> int:
    """Return the approximate length of a content's text, without media and without thinking.

    This is much faster than an estimate, and sufficient to detect a history that is too long for
    any request.
    """
    if type(content) is not list:
        return len(content) if type(content) is str else 0
    count = 0
    for block in content:
        if type(block) is dict:
            text, arguments = block.get("text"), block.get("input")
            count += len(text) if type(text) is str else 0
            if type(arguments) is dict:
                count += sum(len(value) for value in arguments.values() if type(value) is str)
            if block.get("type") == "tool_result":
                count += count_text_chars(block.get("content"))
    return count


def estimate_tool_tokens(tool: Any) -> int:
    return _json_tokens(tool)


def _said(value: Any) -> int:
    return estimate_text_tokens(value) if type(value) is str else 0


def _json_tokens(value: Any) -> int:
    return estimate_text_tokens(encode(value).decode())


def picture_tokens(width: int, height: int) -> int:
    """Estimate the tokens of an image of this size after the service's scaling."""
    longest = max(width, height)
    if longest > MAX_SIDE_PX:
        width, height = width * MAX_SIDE_PX // longest, height * MAX_SIDE_PX // longest
    return max(1, width * height // PX_PER_TOKEN)


def _media_tokens(block: dict[str, Any], kind: str) -> int:
    _, size = find_media_fault(block, kind, _ANY)
    if size != UNKNOWN_SIZE:
        return picture_tokens(*size)
    source = block.get("source")
    data = source.get("data") if type(source) is dict else None
    if kind == "image" or type(data) is not str:
        return UNKNOWN_PICTURE
    if source is not None and source.get("type") == "text":
        return estimate_text_tokens(data)
    return TOKENS_PER_PAGE * (1 + len(data) // BYTES_PER_PAGE)
