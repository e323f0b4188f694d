"""A subagent that outgrows its window continues; the session's own transcript is not affected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.agent.compaction.test_in_headless import PARAGRAPH, SAID, boundaries
from tests.agent.compaction.window import ARGS, Window, answered, text_of
from tests.fronts.headless.agents_model import agent, results
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files, lines

Json = dict[str, Any]
ROUNDS = 24


def digging(rounds: list[Json]) -> Callable[[Json], Json]:
    """A model whose agent digs for so many rounds; `rounds` takes what the agent was asked with."""

    def part(body: Json) -> Json:
        if "with one task" not in body["system"][0]["text"]:
            told = results(body)
            return answered(f"heard {told[0]}" if told else [agent("dig deep")], body)
        rounds.append(body)
        if len(rounds) > ROUNDS:
            return answered("I found gold.", body)
        call = {"tool": "Bash", "input": {"command": f"echo {len(rounds)}"}}
        return answered([f"I dig. {PARAGRAPH}", call], body)

    return part


def test_an_agents_conversation_near_its_window_is_summarised_and_continues(tmp_path: Path) -> None:
    rounds: list[Json] = []
    window = Window(digging(rounds))
    with serving(window, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "Dig for gold.", *ARGS)
    assert done.stdout.startswith("heard I found gold."), done.stderr
    assert not window.refused
    assert window.summaries
    assert SAID in text_of(rounds[-1])
    (path,) = agent_files(tmp_path)
    found = [e for e in lines(path) if e.get("subtype") == "compact_boundary"]
    assert len(found) == len(window.summaries)
    assert all(e["isSidechain"] for e in found)
    assert not boundaries(tmp_path)
    kept = json.loads(path.with_suffix(".meta.json").read_text("utf-8"))
    assert kept["finished"] == "completed"


def test_a_host_learns_of_an_agents_work_and_not_of_its_summaries(tmp_path: Path) -> None:
    """A boundary without a parent would end what a host shows of the session itself."""
    rounds: list[Json] = []
    window = Window(digging(rounds))
    told = ("--include-partial-messages", "--forward-subagent-text")
    with serving(window, strict=True) as server, Hosted(tmp_path, server.url, *ARGS, *told) as host:
        host.say("Dig for gold.")
        assert host.result()["result"].startswith("heard I found gold.")
        assert host.end() == 0
    assert window.summaries
    own = [f for f in host.frames if not f.get("parent_tool_use_id")]
    assert not [f for f in own if f.get("subtype") == "compact_boundary"]
    assert not [f for f in own if f.get("status") == "compacting"]
    assert SAID not in json.dumps(host.frames)
    of_agent = [f for f in host.frames if f.get("parent_tool_use_id") and f["type"] == "assistant"]
    assert len(of_agent) >= ROUNDS
    assert len({f["uuid"] for f in of_agent}) == len(of_agent)
