"""The tree of running subagents as rows, and the line of a finished one."""

from typing import Any

import pytest

from clew.core.messages.text import format_duration, format_tokens
from clew.fronts.render.agents import AgentRow, describe_totals, render_agents
from clew.fronts.render.rows import format_row
from clew.fronts.render.theme import BARE
from tests.fronts.terminal.render.test_transcript import call, fed, finished, transcript

TOTALS = {"totalToolUseCount": 12, "totalTokens": 8_123, "totalDurationMs": 34_500}


def rows(*agents: AgentRow, most: int = 8, width: int = 60) -> list[str]:
    return [format_row(row) for row in render_agents(agents, width, most, BARE)]


def test_each_agent_has_a_row_below_the_one_that_started_it() -> None:
    dig = AgentRow(name="Plan: dig", calls=2, tokens=950, lasted_s=61, step="Bash: ls\n-l")
    below = AgentRow(name="look", depth=1, lasted_s=3.9)
    beside = AgentRow(name="wait", calls=1, is_background=True)
    assert rows(dig, below, beside) == [
        "○ Plan: dig · 2 calls · 950 tokens · 1m01s · Bash: ls -l",
        "  ○ look · 3s",
        "○ wait · in the background · 1 call · 0s",
    ]
    assert rows(dig, width=20) == ["○ Plan: dig · 2 cal…"]


def test_agents_without_room_are_counted() -> None:
    agents = [AgentRow(name=f"a{number}") for number in range(4)]
    assert rows(*agents, most=3) == ["○ a0 · 0s", "○ a1 · 0s", "  … 2 more agents"]
    assert rows(*agents, most=1) == ["  … 4 more agents"]
    assert rows(*agents, most=0) == []


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.9, "0s"), (59.9, "59s"), (65, "1m05s"), (7_380, "2h03m")]
)
def test_durations(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


@pytest.mark.parametrize(("number", "said"), [(999, "999"), (8_123, "8.1k"), (1_200_000, "1.2M")])
def test_tokens(number: int, said: str) -> None:
    assert format_tokens(number) == said


@pytest.mark.parametrize("raw", [{}, TOTALS | {"totalTokens": "7"}])
def test_totals_that_are_not_all_there_are_not_told(raw: dict[str, Any]) -> None:
    assert describe_totals(raw) == ""


def test_a_finished_agent_is_one_line_and_its_report_is_folded() -> None:
    shown, block = transcript(), call("Agent", description="dig deep")
    out = fed(shown, finished(block, "# Report\n\n- found", TOTALS))
    assert out == ["● dig deep · 12 calls · 8.1k tokens · 34s (ctrl+o to expand)"]
    assert shown.see("1") == ["Report", "", "• found"]


def test_line_mode_tells_the_work_of_an_agent_below_its_call() -> None:
    shown = transcript(announces=True, see_with="/see")
    out = fed(shown, finished(call("Agent", description="dig deep"), "found", TOTALS))
    assert out == ["● Agent: dig deep", "  12 calls · 8.1k tokens · 34s (/see 1 to expand)"]


def test_a_failed_agent_says_why() -> None:
    failed = finished(call("Agent", description="dig"), "broke", TOTALS, is_error=True)
    assert fed(transcript(), failed)[0] == "✗ Agent: dig"
