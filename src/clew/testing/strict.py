"""Check requests against the rules of the Messages API; report the first violation.

The report is in the API's style. This module works independently and deliberately shares no code
with clew's own normalizer: a test that passes with a strict server has sent no invalid request. It
must never repair anything, and does no I/O.
"""

from itertools import pairwise
from typing import Any

from clew.core.json_object import Json

BODY_KEYS = frozenset({
    "model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice", "thinking",
    "metadata", "stop_sequences", "temperature", "top_k", "top_p", "service_tier", "output_config",
    "output_format", "context_management", "container", "mcp_servers", "inference_geo",
    "cache_control", "speed", "diagnostics",
})  # fmt: skip
BLOCK_KEYS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    # type -> (required members, allowed members besides type and cache_control)
    "text": (frozenset({"text"}), frozenset({"citations"})),
    "image": (frozenset({"source"}), frozenset()),
    "document": (frozenset({"source"}), frozenset({"title", "context", "citations"})),
    "search_result": (frozenset({"source", "title", "content"}), frozenset({"citations"})),
    "tool_use": (frozenset({"id", "name", "input"}), frozenset({"caller"})),
    "tool_result": (frozenset({"tool_use_id"}), frozenset({"content", "is_error"})),
    "thinking": (frozenset({"thinking", "signature"}), frozenset()),
    "redacted_thinking": (frozenset({"data"}), frozenset()),
    "server_tool_use": (frozenset({"id", "name", "input"}), frozenset({"caller"})),
    "mcp_tool_use": (frozenset({"id", "name", "input", "server_name"}), frozenset()),
    "container_upload": (frozenset({"file_id"}), frozenset()),
    "tool_reference": (frozenset({"tool_name"}), frozenset()),
    "compaction": (frozenset({"content"}), frozenset()),
}
# The versions of the API, and the members that only the first one accepts.
API_VERSIONS = ("2023-06-01", "2026-10-21")
REMOVED_KEYS = ("temperature", "top_k", "top_p")
ROLES = ("user", "assistant", "system")
MAX_CACHE_MARKS = 4
TOOL_USES = ("tool_use", "server_tool_use", "mcp_tool_use")
ASSISTANT_ONLY = (*TOOL_USES, "thinking", "redacted_thinking", "compaction")


class RequestRefusedError(Exception):
    """Raised when a request violates a rule of the API. The text is the API's error message."""


def find_complaint(
    body: Any, *, counting: bool = False, api_version: str = API_VERSIONS[-1]
) -> str | None:
    """Return the first violation in a request, or None. `counting` is for count_tokens."""
    try:
        _check(body, counting=counting)
        if api_version != API_VERSIONS[0]:
            _check_later(body)
    except RequestRefusedError as refused:
        return str(refused)
    return None


def _check(body: Any, *, counting: bool) -> None:
    if not isinstance(body, dict):
        raise RequestRefusedError("the body is not an object")
    for key in body:
        if key not in BODY_KEYS:
            raise RequestRefusedError(f"{key}: Extra inputs are not permitted")
    needed = ("model", "messages") if counting else ("model", "messages", "max_tokens")
    for key in needed:
        if key not in body:
            raise RequestRefusedError(f"{key}: Field required")
    _limits(body)
    _diagnostics(body.get("diagnostics"))
    _tools(body.get("tools"))
    _system(body.get("system"))
    _messages(body.get("messages"))
    if count_marks(body) > MAX_CACHE_MARKS:
        raise RequestRefusedError(
            f"A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided"
        )


def _check_later(body: Json) -> None:
    """Check an otherwise valid body for fields that only API version 2026-10-21 refuses."""
    for key in REMOVED_KEYS:
        if key in body:
            raise RequestRefusedError(f"{key}: Extra inputs are not permitted")
    for i, message in enumerate(body["messages"]):
        content = message["content"]
        for k, block in enumerate(content if isinstance(content, list) else ()):
            place = f"messages.{i}.content.{k}"
            if message["role"] == "assistant" and block["type"] == "document":
                raise RequestRefusedError(f"{place}: document blocks are not permitted here")
            if message["role"] == "user":
                _uncited(block, place)


def _uncited(block: Json, place: str) -> None:
    inside = block.get("content") if block["type"] in ("search_result", "tool_result") else None
    for k, inner in enumerate(inside if isinstance(inside, list) else ()):
        if block["type"] == "search_result" or inner.get("type") == "search_result":
            _uncited(inner, f"{place}.content.{k}")
    if block["type"] == "text" and block.get("citations"):
        raise RequestRefusedError(f"{place}.text.citations: Extra inputs are not permitted")


def _limits(body: Json) -> None:
    most = body.get("max_tokens")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
        raise RequestRefusedError("max_tokens: must be an integer of at least 0")
    if most == 0:
        _only_fills_the_cache(body)
    if not isinstance(body.get("model", ""), str):
        raise RequestRefusedError("model: must be a string")
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < 1024:
        raise RequestRefusedError("thinking.budget_tokens: must be an integer of at least 1024")
    if isinstance(most, int) and budget >= most:
        raise RequestRefusedError("thinking.budget_tokens: must be less than max_tokens")


def _only_fills_the_cache(body: Json) -> None:
    """Check a request that only fills the prompt cache (`max_tokens: 0`).

    Such a request must not ask for output.
    """
    thinking, config = body.get("thinking"), body.get("output_config")
    choice = body.get("tool_choice")
    wanted = {
        "stream": body.get("stream") is True,
        "thinking.type enabled": isinstance(thinking, dict) and thinking.get("type") == "enabled",
        "output_config.format": isinstance(config, dict) and config.get("format") is not None,
        "output_format": body.get("output_format") is not None,
        "tool_choice": isinstance(choice, dict) and choice.get("type") in ("any", "tool"),
    }
    for member, is_there in wanted.items():
        if is_there:
            raise RequestRefusedError(f"max_tokens: 0 is not supported with {member}")


def _diagnostics(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, dict) or value.keys() - {"previous_message_id"}:
        raise RequestRefusedError("diagnostics: Extra inputs are not permitted")
    if not isinstance(value.get("previous_message_id"), str | None):
        raise RequestRefusedError("diagnostics.previous_message_id: Input should be a valid string")


def _tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise RequestRefusedError("tools: must be a list")
    names = [tool.get("name") if isinstance(tool, dict) else None for tool in tools]
    for i, (tool, name) in enumerate(zip(tools, names, strict=True)):
        if not isinstance(tool, dict) or not isinstance(name, str) or not name:
            raise RequestRefusedError(f"tools.{i}.name: Field required")
        if name in names[:i]:
            raise RequestRefusedError("tools: Tool names must be unique.")
        if "type" not in tool and not isinstance(tool.get("input_schema"), dict):
            raise RequestRefusedError(f"tools.{i}.input_schema: Field required")


def _system(system: Any) -> None:
    if isinstance(system, list):
        for i, block in enumerate(system):
            if not isinstance(block, dict) or block.get("type") != "text":
                raise RequestRefusedError(f"system.{i}: must be a text block")
            _block(block, f"system.{i}", "system")
    elif system is not None and not isinstance(system, str):
        raise RequestRefusedError("system: must be a string or a list of text blocks")


def _messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise RequestRefusedError("messages: at least one message is required")
    for i, message in enumerate(messages):
        _shape(message, f"messages.{i}")
    spoken = [(i, m) for i, m in enumerate(messages) if m.get("role") != "system"]
    if not spoken or spoken[0][1]["role"] != "user":
        raise RequestRefusedError("messages: first message must use the user role")
    for (_, before), (i, message) in pairwise(spoken):
        if before["role"] == message["role"]:
            raise RequestRefusedError(
                f'messages.{i}: roles must alternate between "user" and "assistant"'
            )
    _pairs(spoken)
    if spoken[-1][1]["role"] == "assistant" and not _paused(spoken[-1][1]["content"]):
        raise RequestRefusedError("messages: the conversation must end with a user message")


def _paused(content: Any) -> bool:
    """Return whether the content may be the last message, as after `pause_turn`."""
    kind = content[-1]["type"] if isinstance(content, list) else ""
    return kind in TOOL_USES or kind.endswith("_tool_result")


def _shape(message: Any, place: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise RequestRefusedError(f"{place}.role: must be one of {', '.join(ROLES)}")
    for key in message:
        if key not in ("role", "content"):
            raise RequestRefusedError(f"{place}.{key}: Extra inputs are not permitted")
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise RequestRefusedError(f"{place}: must have non-empty content")
    for k, block in enumerate(content):
        _block(block, f"{place}.content.{k}", message["role"])


def _block(block: Any, place: str, role: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise RequestRefusedError(f"{place}.type: Field required")
    if kind.endswith("_tool_result"):
        return
    if kind not in BLOCK_KEYS:
        raise RequestRefusedError(
            f"{place}: Input tag {kind!r} does not match any of the expected tags"
        )
    needed, allowed = BLOCK_KEYS[kind]
    for key in sorted(needed - block.keys()):
        raise RequestRefusedError(f"{place}.{kind}.{key}: Field required")
    for key in sorted(block.keys() - needed - allowed - {"type", "cache_control"}):
        raise RequestRefusedError(f"{place}.{kind}.{key}: Extra inputs are not permitted")
    if kind in ASSISTANT_ONLY and role != "assistant":
        raise RequestRefusedError(f"{place}: {kind} blocks can only be in assistant messages")
    if kind == "tool_result" and role != "user":
        raise RequestRefusedError(f"{place}: tool_result blocks can only be in user messages")
    _inside(block, kind, place, role)


def _inside(block: Json, kind: str, place: str, role: str) -> None:
    if kind == "text":
        text = block.get("text")
        if not isinstance(text, str) or not text:
            raise RequestRefusedError(f"{place}: text content blocks must be non-empty")
        if not text.strip():
            raise RequestRefusedError(
                f"{place}: text content blocks must contain non-whitespace text"
            )
    if kind in TOOL_USES and not isinstance(block.get("input"), dict):
        raise RequestRefusedError(f"{place}.{kind}.input: Input should be a valid dictionary")
    if "cache_control" in block and kind in ("thinking", "redacted_thinking"):
        raise RequestRefusedError(f"{place}.{kind}.cache_control: Extra inputs are not permitted")
    content = block.get("content")
    if kind == "tool_result" and isinstance(content, list):
        for k, inner in enumerate(content):
            _block(inner, f"{place}.tool_result.content.{k}", role)
            if block.get("is_error") is True and inner["type"] != "text":
                raise RequestRefusedError(
                    f"{place}.tool_result: all content must be type `text` if `is_error` is true"
                )


def _pairs(spoken: list[tuple[int, Json]]) -> None:
    """Check that the next message has a result for each tool_use, and no other results."""
    seen: set[str] = set()
    ids: list[str] = []
    for i, message in spoken:
        blocks = message["content"] if isinstance(message["content"], list) else []
        blocks = [block for block in blocks if isinstance(block, dict)]
        results = [str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"]
        if missing := [use for use in ids if use not in results]:
            raise RequestRefusedError(
                f"messages.{i}: tool_use ids were found without tool_result blocks immediately "
                f"after: {', '.join(missing)}"
            )
        for k, result in enumerate(results):
            if result not in ids:
                raise RequestRefusedError(
                    f"messages.{i}: unexpected tool_use_id found in tool_result blocks: {result}"
                )
            if result in results[:k]:
                raise RequestRefusedError(
                    f"messages.{i}: each tool_use must have a single result: {result}"
                )
        kinds = [b.get("type") for b in blocks]
        if "tool_result" in kinds[len(results) :]:
            raise RequestRefusedError(
                f"messages.{i}: tool_result blocks must come before other content"
            )
        ids = [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
        for use in ids:
            if use in seen or ids.count(use) > 1:
                raise RequestRefusedError(f"messages.{i}: tool_use ids must be unique: {use}")
        seen.update(ids)
    if ids:
        raise RequestRefusedError(
            f"messages: tool_use ids without tool_result blocks: {', '.join(ids)}"
        )


def count_marks(value: Any) -> int:
    """Return the number of cache marks in a request."""
    if isinstance(value, list):
        return sum(map(count_marks, value))
    if not isinstance(value, dict):
        return 0
    own = 1 if isinstance(value.get("cache_control"), dict) else 0
    return own + sum(count_marks(value.get(k)) for k in ("system", "tools", "messages", "content"))
