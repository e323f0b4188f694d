"""The tokens of a response are those that an independent reader of each service's bodies finds.

The reader is `genai_prices.extract_usage`. The bodies have random counts in the members that the
service's own documentation or client names.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from genai_prices import extract_usage

from clew.core.json_object import Json
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.chat import events_of_completion
from clew.core.stream.converse import events_of_converse
from clew.core.stream.decode import events_of_body
from clew.core.stream.events import MessageFinished, StreamFault
from clew.core.stream.gemini import events_of_gemini
from clew.core.stream.responses import events_of_response

QUICK = range(500)
CHUNK = 2_500
DEEP = [range(start, start + CHUNK) for start in range(4_000_000, 4_100_000, CHUNK)]


def of_messages(random: Random) -> Json:
    written = [random.randrange(1000), random.randrange(1000)]
    usage: Json = {
        "input_tokens": random.randrange(10**6), "output_tokens": random.randrange(10**5),
        "cache_read_input_tokens": random.randrange(10**5),
        "cache_creation_input_tokens": sum(written),
    }  # fmt: skip
    if random.random() < 0.5:
        names = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        usage["cache_creation"] = dict(zip(names, written, strict=True))
    content = [{"type": "text", "text": "x"}]
    return {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-5",
            "content": content, "stop_reason": "end_turn", "stop_sequence": None,
            "usage": usage}  # fmt: skip


def of_chat(random: Random) -> Json:
    read, written, fresh = (random.randrange(10**5) for _ in range(3))
    answer = random.randrange(10**5)
    usage: Json = {"prompt_tokens": read + written + fresh, "completion_tokens": answer}
    usage["total_tokens"] = usage["prompt_tokens"] + answer
    details = {"cached_tokens": read, "cache_write_tokens": written}
    if random.random() < 0.8:
        usage["prompt_tokens_details"] = details
        usage["completion_tokens_details"] = {"reasoning_tokens": random.randrange(answer + 1)}
    message = {"role": "assistant", "content": "x"}
    return {"id": "c", "model": "gpt-5", "object": "chat.completion", "created": 1, "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


def of_responses(random: Random) -> Json:
    read, written, fresh = (random.randrange(10**5) for _ in range(3))
    answer = random.randrange(10**5)
    usage = {
        "input_tokens": read + written + fresh, "output_tokens": answer,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens_details": {"reasoning_tokens": random.randrange(answer + 1)},
        "total_tokens": read + written + fresh + answer,
    }  # fmt: skip
    part = {"type": "output_text", "text": "x", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part],
            "status": "completed"}  # fmt: skip
    return {"id": "r", "object": "response", "model": "gpt-5", "status": "completed",
            "output": [item], "usage": usage}  # fmt: skip


def of_gemini(random: Random) -> Json:
    prompt = random.randrange(10**6)
    usage = {
        "promptTokenCount": prompt, "cachedContentTokenCount": random.randrange(prompt + 1),
        "candidatesTokenCount": random.randrange(10**5),
        "thoughtsTokenCount": random.randrange(10**5),
    }  # fmt: skip
    if random.random() < 0.3:
        usage["toolUsePromptTokenCount"] = random.randrange(10**4)
    usage["totalTokenCount"] = sum(usage.values()) - usage["cachedContentTokenCount"]
    content = {"role": "model", "parts": [{"text": "x"}]}
    return {"responseId": "g", "modelVersion": "gemini-2.5-pro", "usageMetadata": usage,
            "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]}  # fmt: skip


def of_converse(random: Random) -> Json:
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
    usage = {name: random.randrange(10**5) for name in names}
    usage["totalTokens"] = sum(usage.values())
    message = {"role": "assistant", "content": [{"text": "x"}]}
    return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage,
            "metrics": {"latencyMs": 1}}  # fmt: skip


Events = list[Json | StreamFault]
SERVICES: list[tuple[str, str, Callable[[Random], Json], Callable[[bytes], Events]]] = [
    ("anthropic", "default", of_messages, events_of_body),
    ("openai", "chat", of_chat, events_of_completion),
    ("openai", "responses", of_responses, events_of_response),
    ("google", "default", of_gemini, events_of_gemini),
    ("aws", "default", of_converse, events_of_converse),
]


def hold_the_law(seed: int) -> None:
    random = Random(seed)
    provider, flavor, make_body, read_events = SERVICES[seed % len(SERVICES)]
    body = make_body(random)
    reader = Accumulator(new_tool_id=lambda: "x")
    events = [o for event in read_events(json.dumps(body).encode()) for o in reader.feed(event)]
    (finished,) = [event for event in events if isinstance(event, MessageFinished)]
    ours = finished.message["usage"]
    theirs: Any = extract_usage(body, provider_id=provider, api_flavor=flavor).usage
    read = ours.get("cache_read_input_tokens", 0)
    written = ours.get("cache_creation_input_tokens", 0)
    assert ours["output_tokens"] == theirs.output_tokens, (seed, ours, theirs)
    assert read == (theirs.cache_read_tokens or 0), (seed, ours, theirs)
    assert written == (theirs.cache_write_tokens or 0), (seed, ours, theirs)
    assert ours["input_tokens"] + read + written == theirs.input_tokens, (seed, ours, theirs)


def test_the_tokens_are_those_of_an_independent_reader() -> None:
    for seed in QUICK:
        hold_the_law(seed)


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_the_tokens_agree_for_a_hundred_thousand_bodies(seeds: range) -> None:
    for seed in seeds:
        hold_the_law(seed)
