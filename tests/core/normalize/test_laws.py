"""The laws of requests, over seeded damaged histories.

Each request is valid, each prefix is stable.
"""

from random import Random
from typing import Any

import pytest

from clew.core.normalize.for_api import Outgoing, Projected, for_api
from clew.core.normalize.target import Target
from clew.core.normalize.validate import validate
from clew.testing.strict import BLOCK_KEYS, find_complaint
from tests.core.normalize.build import as_entries
from tests.core.normalize.generator import Entry, history
from tests.requirements import requirement

TARGETS = (
    Target(),
    Target(system_messages=True),
    Target(family="gpt", foreign_thinking="text", server_tools=False),
    Target(max_images=3, crowd=1, max_body_bytes=80_000),
    Target(images=False, documents=False, blank_thinking=True),
)
TOOLS: tuple[list[dict[str, Any]] | None, ...] = (
    None,
    [],
    [{"name": "Bash", "input_schema": {"type": "object"}}],
)
QUICK = range(500)
CHUNK = 2_500
DEEP = [range(start, start + CHUNK) for start in range(1_000_000, 1_100_000, CHUNK)]


def _case(seed: int) -> tuple[list[Entry], Target, list[dict[str, Any]] | None, Random]:
    random = Random(seed)
    return history(random), TARGETS[seed % len(TARGETS)], TOOLS[seed % len(TOOLS)], random


def _hold_the_laws(seed: int) -> None:
    entries, target, tools, random = _case(seed)
    made = for_api(entries, target, tools=tools)
    assert made.violations == [], seed
    assert validate(made.messages, target, tools=tools) == [], seed
    assert find_complaint(_as_judged(made.messages, tools)) is None, seed
    _twice_is_once(made, target, tools, seed)
    _growing_is_the_same(entries, made, target, tools, random, seed)
    _the_prefix_stays(entries, target, tools, random, seed)


def _as_judged(messages: list[dict[str, Any]], tools: Any) -> dict[str, Any]:
    """Return a body for the loopback service, which knows fewer block kinds than may be sent."""

    def known(block: dict[str, Any]) -> dict[str, Any]:
        if block["type"] == "mcp_tool_use":
            return {k: v for k, v in block.items() if k != "server_name"} | {
                "type": "server_tool_use"
            }
        is_known = block["type"] in BLOCK_KEYS or block["type"].endswith("_tool_result")
        return block if is_known else {"type": "text", "text": "of a kind of tomorrow"}

    said = [m | {"content": [known(b) for b in m["content"]]} for m in messages]
    body = {"model": "m", "max_tokens": 1, "messages": said}
    return body if tools is None else body | {"tools": tools}


def _twice_is_once(made: Projected, target: Target, tools: Any, seed: int) -> None:
    model = "claude-x" if target.family == "claude" else target.family
    entries = as_entries(made.messages, model)
    for entry in entries:
        entry["thinkingDisplay"] = "omitted"
    again = for_api(entries, target, tools=tools)
    assert again.messages == made.messages, seed
    assert again.repairs == [], seed


def _growing_is_the_same(
    entries: list[Entry], made: Projected, target: Target, tools: Any, random: Random, seed: int
) -> None:
    growing = Outgoing(target, tools=tools)
    at = 0
    while at < len(entries):
        cut = at + random.randrange(1, 4)
        growing.extend(entries[at:cut])
        at = cut
        if random.random() < 0.5:
            growing.request()
    assert growing.request() == made, seed


def _the_prefix_stays(
    entries: list[Entry], target: Target, tools: Any, random: Random, seed: int
) -> None:
    """Check that an answered request is the beginning of every later one."""
    answered = [at for at in range(len(entries)) if _answers(entries, at)]
    if not answered:
        return
    cut = random.choice(answered)
    until = random.randrange(cut, len(entries)) + 1
    if any(map(_changes_the_past, entries[cut:until])):
        return
    roomy = Target(system_messages=target.system_messages, server_tools=target.server_tools)
    before = for_api(entries[:cut], roomy, tools=tools).messages
    made = for_api(entries[:until], roomy, tools=tools)
    after = made.messages
    if before[-1]["role"] == "assistant":  # a pause: the answer goes on in the same message
        if any(repair.kind == "server_call_open" for repair in made.repairs):
            return  # what it waited for never came, and somebody spoke
        kept = before.pop()["content"]
        assert after[len(before)]["content"][: len(kept)] == kept, seed
    assert after[: len(before)] == before, seed


def _answers(entries: list[Entry], at: int) -> bool:
    message = entries[at].get("message")
    if entries[at].get("type") != "assistant" or not isinstance(message, dict):
        return False
    if entries[at].get("isApiErrorMessage") or entries[at].get("isVirtual"):
        return False
    earlier = [e["message"].get("id") for e in entries[:at] if isinstance(e.get("message"), dict)]
    content = message.get("content")
    says = isinstance(content, list) and any(
        isinstance(b, dict) and b.get("type") == "text" and str(b.get("text")).strip()
        for b in content
    )
    return says and message.get("id") not in [None, *earlier]


def _changes_the_past(entry: Entry) -> bool:
    return entry.get("isCompactSummary") is True or entry.get("isApiErrorMessage") is True


@requirement("R038", "R039", "R040", "R041", "R042", "R043", "R044", "R093", "R095", "R099", "R260")
@requirement("W10", "W11", "W21", "C7", "V1", "V2", "V3", "V4", "V6")
def test_every_request_from_any_history_is_valid_and_every_prefix_stable(
    record_property: Any,
) -> None:
    for seed in QUICK:
        _hold_the_laws(seed)
    record_property("histories without an invalid request", len(QUICK))


@pytest.mark.laws
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", DEEP, ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_at_depth_too(seeds: range, record_property: Any) -> None:
    for seed in seeds:
        _hold_the_laws(seed)
    record_property("histories without an invalid request", len(seeds))
