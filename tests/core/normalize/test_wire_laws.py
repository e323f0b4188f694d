"""The laws of other wires, over seeded hostile histories with the secret state of other services.

A body is valid for the official types, holds nothing of what another service attached to its
responses, answers each call once under an injective map of IDs, and is the beginning of the body of
a longer history.
"""

import json
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from clew.core.normalize.dialects import (
    bedrock_faults,
    for_chat,
    for_converse,
    to_bedrock,
    to_openai,
)
from clew.core.normalize.for_api import for_api
from clew.core.normalize.gemini import for_gemini, to_gemini
from clew.core.normalize.origin import seal_origin
from clew.core.normalize.responses import for_responses, to_responses
from clew.core.normalize.target import NO_FAMILY, Reader, Target
from tests.core.normalize.generator import Entry, history
from tests.fronts.headless.wire_judges import judge_chat, judge_gemini, judge_responses

WIRES = ("responses", "chat", "gemini", "converse")
TOOLS = [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}]
SECRET = "c2VjcmV0LW9mLWFub3RoZXI"
QUICK = range(200)
CHUNK = 2_500
DEEP = [range(start, start + CHUNK) for start in range(2_000_000, 2_100_000, CHUNK)]


def attach_foreign_state(entries: list[Entry], random: Random) -> int:
    """Attach records of another service to responses; return how many."""
    count = 0
    for entry in entries:
        message = entry.get("message") if isinstance(entry, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if entry.get("type") != "assistant" or not isinstance(content, list) or not content:
            continue
        if random.random() < 0.5:
            wire = random.choice(WIRES)
            record = {"service": "another", "wire": wire, "model": "m", "items": [{"x": SECRET}]}
            entry["origin"] = seal_origin(record, content[0])
            count += 1
    return count


def target_for(wire: str) -> Target:
    reader = Reader(service="mine", wire=wire, family="gpt")
    narrow = {
        "responses": for_responses,
        "chat": for_chat,
        "gemini": for_gemini,
        "converse": lambda target: replace(for_converse(target), family=NO_FAMILY),
    }[wire]
    return replace(narrow(Target()), reader=reader)


def body_for(wire: str, messages: list[Any]) -> dict[str, Any]:
    match wire:
        case "responses":
            return {"model": "m", "stream": True, **to_responses(messages, system="s", tools=TOOLS)}
        case "chat":
            return {"model": "m", "stream": True, **to_openai(messages, system="s", tools=TOOLS)}
        case "gemini":
            body = to_gemini(messages, system="s", tools=TOOLS, is_signed=True, holds_media=True)
            return body | {"generationConfig": {}}
        case _:
            return to_bedrock(messages, system="s", tools=TOOLS)


JUDGES: dict[str, Any] = {
    "responses": judge_responses,
    "chat": judge_chat,
    "gemini": judge_gemini,
    "converse": bedrock_faults,
}
GROWING = {"responses": "input", "gemini": "contents"}


def calls_and_results(wire: str, body: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the IDs of calls, and of results, in their order."""
    calls: list[Any] = []
    results: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for inner in value:
                walk(inner)
        elif isinstance(value, dict):
            match wire:
                case "responses" if value.get("type") == "function_call":
                    calls.append(value["call_id"])
                case "responses" if value.get("type") == "function_call_output":
                    results.append(value["call_id"])
                case "chat" if value.get("role") == "tool":
                    results.append(value["tool_call_id"])
                case "chat" if "tool_calls" in value:
                    calls.extend(call["id"] for call in value["tool_calls"])
                case "gemini" if isinstance(value.get("functionCall"), dict):
                    calls.append(value["functionCall"]["id"])
                case "gemini" if isinstance(value.get("functionResponse"), dict):
                    results.append(value["functionResponse"]["id"])
                case "converse" if isinstance(value.get("toolUse"), dict):
                    calls.append(value["toolUse"]["toolUseId"])
                case "converse" if isinstance(value.get("toolResult"), dict):
                    results.append(value["toolResult"]["toolUseId"])
                case _:
                    for inner in value.values():
                        walk(inner)

    walk(body[GROWING.get(wire, "messages")])
    return calls, results


def hold_the_laws(seed: int) -> None:
    random = Random(seed)
    entries = history(random)
    attach_foreign_state(entries, random)
    wire = WIRES[seed % len(WIRES)]
    target = target_for(wire)
    made = for_api(entries, target, tools=TOOLS)
    assert made.violations == [], seed
    if not made.messages:
        return
    body = body_for(wire, made.messages)
    assert JUDGES[wire](body) == [], (seed, wire)
    text = json.dumps(body)
    assert SECRET not in text, (seed, wire)
    assert '"signature"' not in text, (seed, wire)
    calls, results = calls_and_results(wire, body)
    assert sorted(calls) == sorted(results), (seed, wire)
    assert len(set(calls)) == len(calls), (seed, wire)
    shorter = body_for(wire, made.messages[: random.randrange(1, len(made.messages) + 1)])
    growing = GROWING.get(wire, "messages")
    part, whole = shorter[growing], body[growing]
    # The last message of the shorter body may still grow.
    assert whole[: len(part) - 1] == part[:-1], (seed, wire)


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", QUICK)
def test_the_laws_hold_for_each_wire(seed: int) -> None:
    hold_the_laws(seed)


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_the_laws_hold_for_a_hundred_thousand_histories(seeds: range) -> None:
    for seed in seeds:
        hold_the_laws(seed)
