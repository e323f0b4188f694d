"""A service with a context window.

Counts its input, rejects what does not fit, and plays a role.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from clew.core.messages.encoding import encode
from clew.core.normalize.tokens import (
    estimate_block_tokens,
    estimate_content_tokens,
    estimate_message_tokens,
    estimate_tool_tokens,
)

Json: TypeAlias = dict[str, Any]
Part: TypeAlias = Callable[[Json], Json]

WINDOW = 24_000
# A model of the settings, so that a test's window is small.
SETTINGS = (
    '{"models": {"small": {"contextWindow": 24000, "maxOutput": 4000}}, '
    '"permissions": {"allow": ["Bash(*)", "Read", "Write"]}}'
)
ARGS = ("--model", "small", "--settings", SETTINGS)
SUMMARY = "<summary>The person wants the lighthouse painted; the north side is done.</summary>"


def size_of(body: Json) -> int:
    """Return the input size that the service reports.

    It is clew's own estimate, so that tests can aim.
    """
    system = body.get("system") or []
    return (
        estimate_content_tokens(system)
        + sum(map(estimate_tool_tokens, body.get("tools") or ()))
        + estimate_message_tokens(body["messages"])
    )


def said_last(body: Json) -> str:
    """Return the text of the last user message."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(b.get("text", "") for b in content if b.get("type") == "text")


def is_summary_request(body: Json) -> bool:
    return "</summary>" in said_last(body)


def answered(content: Any, body: Json, **more: Any) -> Json:
    blocks = content if isinstance(content, list) else [content]
    said = sum(
        estimate_block_tokens(b if isinstance(b, dict) else {"type": "text", "text": b})
        for b in blocks
    )
    usage = {"input_tokens": size_of(body), "output_tokens": said}
    return {"content": blocks, "usage": usage, **more}


class Window:
    """Answers prompts with `part` and summary requests with `summary`; both receive the body.

    `refused` and `summaries` are the bodies that were too long, and those that asked for a summary.
    """

    def __init__(self, part: Part, *, summary: Part | None = None, limit: int = WINDOW) -> None:
        self._part = part
        self._summary = summary or (lambda body: answered(SUMMARY, body))
        self._limit = limit
        self.asked: list[Json] = []
        self.refused: list[Json] = []
        self.summaries: list[Json] = []

    def __call__(self, body: Json) -> Json:
        size = size_of(body)
        asks_for_summary = is_summary_request(body)
        (self.summaries if asks_for_summary else self.asked).append(body)
        if size > self._limit:
            self.refused.append(body)
            words = f"prompt is too long: {size} tokens > {self._limit} maximum"
            return {"status": 400, "error": {"type": "invalid_request_error", "message": words}}
        return self._summary(body) if asks_for_summary else self._part(body)


def text_of(body: Json) -> str:
    """Return all text of a request, for searching."""
    return encode(body["messages"]).decode()
