"""A service with a prompt cache, which reports each request's cache reads, writes and misses.

It checks clew's own estimate independently and deliberately shares no code with it. A request reads
the longest prefix that an earlier request cached, byte for byte, until the prefix expires according
to the clock that is passed in. Reads and writes renew the lifetime. It must never repair a request.
"""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from clew.core.json_object import Json

Rule: TypeAlias = Callable[[Json], Json]

LIFETIME_S = {"5m": 300.0, "1h": 3600.0}
PIECE_TOKENS = 1_000


class Caching:
    """A rule that adds the usage of a prompt cache to the answers of `rule`.

    `piece_tokens` is the size counted for each tool and each block of the system prompt or a
    message.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        now_s: Callable[[], float],
        lifetime_s: dict[str, float] | None = None,
        piece_tokens: int = PIECE_TOKENS,
    ) -> None:
        self._rule = rule
        self._now_s = now_s
        self._lifetime_s = lifetime_s or LIFETIME_S
        self._piece_tokens = piece_tokens
        # Each cached prefix, with its expiry and the lifetime that a read renews.
        self._kept: dict[tuple[str, ...], tuple[float, float]] = {}
        # The usage of each request, and whether it only filled the cache.
        self.usages: list[Json] = []
        self.warmed: list[bool] = []

    def forget(self) -> None:
        """Drop the entire cache before its lifetime ends."""
        self._kept.clear()

    def __call__(self, body: Json) -> Json:
        is_warming = body.get("max_tokens") == 0
        usage = self._count(body)
        self.usages.append(usage)
        self.warmed.append(is_warming)
        if is_warming:
            return {
                "content": [],
                "stop_reason": "max_tokens",
                "usage": {**usage, "output_tokens": 0},
            }
        answer = self._rule(body)
        return answer | {"usage": {**usage, **answer.get("usage", {})}}

    def _count(self, body: Json) -> Json:
        now_s = self._now_s()
        pieces, marks = _pieces(body)
        self._kept = {key: entry for key, entry in self._kept.items() if entry[0] > now_s}
        read = max(
            (n for n in range(1, len(pieces) + 1) if tuple(pieces[:n]) in self._kept), default=0
        )
        last, ttl = max(marks, default=(0, "5m"))
        lifetime_s = self._lifetime_s[ttl]
        for end, _ in marks:
            self._kept[tuple(pieces[:end])] = now_s + lifetime_s, lifetime_s
        written = max(0, last - read) * self._piece_tokens
        return {
            "input_tokens": (len(pieces) - max(read, last)) * self._piece_tokens,
            "cache_read_input_tokens": read * self._piece_tokens,
            "cache_creation_input_tokens": written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written if ttl == "5m" else 0,
                "ephemeral_1h_input_tokens": written if ttl == "1h" else 0,
            },
        }


def _pieces(body: Json) -> tuple[list[str], list[tuple[int, str]]]:
    """Return a request's parts in the service's order, and the points up to which it is cached."""
    pieces, marks = [json.dumps(["model", body.get("model")])], []
    system = body.get("system") or []
    parts: list[tuple[str, Any]] = [("tools", tool) for tool in body.get("tools") or []]
    parts += [("system", block) for block in ([system] if isinstance(system, str) else system)]
    for message in body.get("messages", []):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        parts += [(str(message.get("role")), block) for block in blocks]
    for where, part in parts:
        mark = part.get("cache_control") if isinstance(part, dict) else None
        plain = {k: v for k, v in part.items() if k != "cache_control"} if mark else part
        pieces.append(json.dumps([where, plain], sort_keys=True))
        if isinstance(mark, dict):
            marks.append((len(pieces), str(mark.get("ttl", "5m"))))
    return pieces, marks
