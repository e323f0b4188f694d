"""One session over five wires, from each to each: each service gets only its own state back."""

import json
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from clew.testing.wires import WireService, secret_of, serving_wire
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.wire_judges import JUDGES, history, own_parts

MODELS = {
    "responses": "r/gpt-6-sol",
    "chat": "c/gpt-9",
    "gemini": "g/gemini-3-pro",
    "converse": "v/us.amazon.nova-2-pro-v1:0",
    "messages": "m/opus",
}
LIKE = {
    "responses": {"like": "openai"},
    "chat": {"like": "openai", "wire": "chat"},
    "gemini": {"like": "gemini"},
    "converse": {"like": "converse", "region": "us-east-1"},
    "messages": {"like": "foundry", "resource": "x"},
}
# A tour that goes from each wire to each other one, once.
TOUR = [0, 1, 2, 3, 4, 0, 2, 4, 1, 3, 0, 3, 1, 4, 2, 0, 4, 3, 2, 1, 0]


def answers(turn: int) -> list[list[dict[str, Any]]]:
    call = {
        "type": "tool_use",
        "id": f"call_{turn}",
        "name": "Read",
        "input": {"file_path": "a.txt"},
    }
    thought = {"type": "thinking", "thinking": f"Thought {turn}."}
    first = [thought, {"type": "text", "text": f"Looking {turn}."}, call]
    return [first, [{"type": "text", "text": f"Answer {turn}."}]]


def without_marks(value: Any) -> Any:
    """Return a body without the marks of the cache, which move with each request."""
    if isinstance(value, list):
        return [without_marks(one) for one in value if one != {"cachePoint": {"type": "default"}}]
    if isinstance(value, dict):
        return {k: without_marks(v) for k, v in value.items() if k != "cache_control"}
    return value


def test_a_tour_over_all_ordered_pairs_of_five_wires(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("alpha\n", "utf-8")
    wires = list(MODELS)
    assert len({(a, b) for a, b in pairwise(TOUR)}) == 20
    with ExitStack() as opened:
        services: dict[str, WireService] = {}
        for number, wire in enumerate(wires):
            turns = [turn for turn, place in enumerate(TOUR) if place == number]
            given = [answer for turn in turns for answer in answers(turn)]
            services[wire] = opened.enter_context(serving_wire(wire, *given))
        rows = {
            MODELS[wire].partition("/")[0]: LIKE[wire]
            | {"url": services[wire].url, "key": "env:KEY"}
            for wire in wires
        }
        settings = json.dumps({"services": rows})
        with Hosted(
            tmp_path, "", "--settings", settings, "--model", MODELS[wires[0]], KEY="k-0123456789"
        ) as host:
            for turn, place in enumerate(TOUR):
                if turn:
                    host.ask("set_model", model=MODELS[wires[place]])
                host.say(f"Prompt {turn}")
                result = host.result()
                assert result["result"] == f"Answer {turn}.", (turn, wires[place], result)
            assert host.end() == 0
    secrets = {
        wire: {
            secret_of(wire, number, place)
            for number in range(1, len(service.requests) + 1)
            for place in range(4)
        }
        for wire, service in services.items()
    }
    for wire, service in services.items():
        for body in service.requests:
            text = json.dumps(body)
            foreign = [
                w for w, held in secrets.items() if w != wire and any(s in text for s in held)
            ]
            assert foreign == [], f"{wire} was sent the state of {foreign}"
            if wire in JUDGES:
                assert JUDGES[wire](body) == []
        for one, two in pairwise(service.requests):
            before, after = (without_marks(history(wire, body)) for body in (one, two))
            assert after[: len(before)] == before, f"{wire}: a prefix"
            own = own_parts(wire, one)
            assert own_parts(wire, two)[: len(own)] == own
        last = json.dumps(service.requests[-1])
        turn = max(turn for turn, place in enumerate(TOUR) if wires[place] == wire)
        # A service's own words go back as they arrived, which may be in pieces.
        others = [number for number in range(turn) if wires[TOUR[number]] != wire]
        missing = [number for number in others if f"Answer {number}." not in last]
        assert missing == [], f"{wire}: everybody's words go along"
    for wire in ("responses", "chat", "gemini"):
        last = json.dumps(services[wire].requests[-1])
        assert any(secret in last for secret in secrets[wire]), f"{wire} gets its own state back"
