"""Subagents as rows: the tree of running agents, and the totals of a finished one.

Does no I/O.
"""

from collections.abc import Sequence

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.text import format_count, format_duration, format_tokens
from clew.fronts.render.rows import GUTTER, Row, Span, clip_spans, join_lines
from clew.fronts.render.theme import Theme


class AgentRow(Struct, frozen=True, kw_only=True):
    """A running agent; `depth` is 0 for the agents of the main conversation."""

    name: str
    depth: int = 0
    calls: int = 0
    tokens: int = 0
    lasted_s: float = 0.0
    step: str = ""
    is_background: bool = False


def describe_work(calls: int, tokens: int, lasted_s: float) -> str:
    """Describe the work of an agent: `12 calls · 8.1k tokens · 34s`."""
    parts = (
        format_count(calls, "call") if calls else "",
        f"{format_tokens(tokens)} tokens" if tokens else "",
        format_duration(lasted_s),
    )
    return " · ".join(filter(None, parts))


def describe_totals(raw: Json) -> str:
    """Describe the work of a finished agent; empty unless the transcript has all totals."""
    totals = [raw.get(f"total{name}") for name in ("ToolUseCount", "Tokens", "DurationMs")]
    numbers = [total for total in totals if type(total) is int]
    if len(numbers) < len(totals):
        return ""
    return describe_work(numbers[0], numbers[1], numbers[2] / 1000)


def render_agents(agents: Sequence[AgentRow], width: int, most: int, theme: Theme) -> list[Row]:
    """Return one row per agent. If there are more than `most`, the last row counts the others."""
    shown = agents if len(agents) <= most else agents[: max(0, most - 1)]
    rows = [_agent(agent, width, theme) for agent in shown]
    if len(shown) < len(agents) and most > 0:
        more = format_count(len(agents) - len(shown), "more agent")
        rows.append(clip_spans([Span(f"{GUTTER}… {more}", theme["quiet"])], width))
    return rows


def _agent(agent: AgentRow, width: int, theme: Theme) -> Row:
    work = describe_work(agent.calls, agent.tokens, agent.lasted_s)
    parts = ("in the background" if agent.is_background else "", work, join_lines(agent.step))
    beside = "".join(f" · {part}" for part in parts if part)
    mark = Span(f"{GUTTER * agent.depth}○ ", theme["running"])
    name = Span(join_lines(agent.name), theme["tool"])
    return clip_spans([mark, name, Span(beside, theme["quiet"])], width)
