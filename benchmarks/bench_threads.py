"""A request of a long conversation with and without message threads: its size and the cost of
building it.
"""

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure
from clew.core.catalog.lookup import CATALOG
from clew.providers.base import ModelRequest
from clew.providers.message_threads import ThreadedRequest, Threads
from clew.providers.request_body import build
from clew.providers.writing import Writing

Json = dict[str, Any]
TURNS = 2_000
MODEL = CATALOG.entry("opus")


def message(role: str, words: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": words}]}


def answered(threads: Threads, request: ModelRequest, number: int) -> ThreadedRequest:
    """Return a request that has been answered."""
    asked = ThreadedRequest(
        threads, request, MODEL, lambda r: build(r, MODEL), api_version="2026-10-21", now_s=zero
    )
    usage = {"input_tokens": 5_000 + 200 * number}
    start = {"id": f"msg_{number}", "content": [], "usage": usage}
    block = message("assistant", f"answer {number}")["content"][0]
    for event in (
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ):
        asked.hear(event)
    return asked


def zero() -> float:
    return 0.0


def figures() -> Iterator[Figure]:
    threads, with_threads, without = Threads(), Writing(), Writing()
    messages: list[Json] = []
    sizes: list[tuple[int, int]] = []
    spent_s = [0.0, 0.0]
    for number in range(TURNS):
        messages.append(message("user", "word " * 100))
        request = ModelRequest(
            model="opus", messages=messages, system="word " * 4_000, in_thread=True
        )
        begin = time.process_time()
        whole = len(without.body(build(request, MODEL).body, None))
        middle = time.process_time()
        asked = answered(threads, request, number)
        new = len(with_threads.body(asked.built.body, None))
        spent_s[0] += middle - begin
        spent_s[1] += time.process_time() - middle
        sizes.append((new, whole))
        messages = [*messages, message("assistant", f"answer {number}")]
    yield Figure(
        name="bytes of the 2,000th request with message threads / of the 2nd",
        value=sizes[-1][0] / sizes[1][0],
        unit="x",
        at_most=1.1,
    )
    yield Figure(
        name="bytes of the 2,000th request without them / with them",
        value=sizes[-1][1] / sizes[-1][0],
        unit="x",
        at_least=1_000,
    )
    yield Figure(
        name="making 2,000 requests with message threads / without, CPU",
        value=spent_s[1] / spent_s[0],
        unit="x",
        note="including the decision and reading each answer",
    )
