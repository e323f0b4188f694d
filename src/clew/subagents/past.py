"""Which agents of a session the conversation has not heard the end of. Pure: reads entries alone."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from clew.messages.messages import Assistant

Json: TypeAlias = dict[str, Any]

# Messages about an agent, and whether they tell how it ended.
HEARD = {"task-notification": True, "task-left": False}
SHOWN_STEPS = 8
SHOWN_CHARACTERS = 120


def told_ends(entries: Iterable[Json]) -> dict[str, bool]:
    """Of each agent that a conversation speaks of, whether the last that was said is how it ended."""
    told: dict[str, bool] = {}
    for entry in entries:
        raw = entry.get("toolUseResult")
        if type(raw) is dict and type(raw.get("agentId")) is str:
            told[raw["agentId"]] = raw.get("status") != "async_launched"
        origin = entry.get("origin")
        if type(origin) is dict and origin.get("kind") in HEARD:
            told[str(origin.get("runId"))] = HEARD[origin["kind"]]
    return told


def steps(entries: Iterable[Json]) -> list[str]:
    """The calls that an agent made, a line each."""
    return [
        step_of(block)
        for entry in entries
        if entry.get("type") == "assistant"
        for block in Assistant(entry).message["content"]
        if block.get("type") == "tool_use"
    ]


def step_of(block: Json) -> str:
    """A call by its tool and the first text of its input."""
    given = block.get("input")
    texts = [v for v in given.values() if type(v) is str] if type(given) is dict else []
    words = " ".join(texts[0].split())[:SHOWN_CHARACTERS] if texts else ""
    return f"{block.get('name')} {words}".rstrip()


def account(said: str, done: list[str]) -> str:
    """What an agent had come to when it was cut off."""
    lines = [f"It had used {len(done)} tools" + (", last:" if done else ".")]
    lines += [f"- {step}" for step in done[-SHOWN_STEPS:]]
    lines.append(f"It said last: {said}" if said else "It had said nothing.")
    return "\n".join(lines)
