"""The totals that a session saves on exit, and how a later run restores them.

Owns the format of the `cost-state` line. The transcript is authoritative. If a model's totals in
the line exceed the sums over the entries that were read, the difference becomes one earlier charge.

Decision: docs/decisions/081-cost-from-the-log.md
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from msgspec import Struct

from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.json_object import list_of
from clew.core.ledger.ledger import Charge, Ledger, Spend, Sums, find_charges
from clew.core.ledger.spending import TokenCounts
from clew.core.ledger.state import LinesChanged, SessionTracker

BEFORE = "(before)"
_COUNTS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write_5m": "cacheCreationInputTokens",
    "web_searches": "webSearchRequests",
}


class Past(Struct, frozen=True, kw_only=True):
    """The totals of earlier runs of the session."""

    spend: Spend = Spend()
    started_at: Any = None
    api_ms: float = 0
    api_without_retries_ms: float = 0
    tool_ms: float = 0
    duration_ms: float = 0
    lines_added: int = 0
    lines_removed: int = 0
    commits: int = 0
    pull_requests: int = 0


def sum_usage_by_model(ledger: Sums) -> dict[str, dict[str, Any]]:
    """Return each model's totals in the format of transcripts; an unknown price is null."""
    return {name: _usage(spend) for name, spend in ledger.by_model().items()}


def describe_model_usage(ledger: Sums, catalog: ModelCatalog) -> dict[str, dict[str, Any]]:
    """Return each model's totals for programs, with the model's limits as far as they are known."""
    return {
        name: {**used, **_limits(catalog.find(name))}
        for name, used in sum_usage_by_model(ledger).items()
    }


def _limits(model: Model | None) -> dict[str, int]:
    limits = (
        {}
        if model is None
        else {
            "contextWindow": model.context_window,
            "maxOutputTokens": model.max_output,
        }
    )
    return {name: count for name, count in limits.items() if count is not None}


def _usage(spend: Spend) -> dict[str, Any]:
    tokens = spend.tokens
    return {
        "inputTokens": tokens.input,
        "outputTokens": tokens.output,
        "cacheReadInputTokens": tokens.cache_read,
        "cacheCreationInputTokens": tokens.cache_write_5m + tokens.cache_write_1h,
        "webSearchRequests": tokens.web_searches,
        "costUSD": float(spend.usd) if spend.is_complete else None,
    }


def make_cost_state(session: SessionTracker, past: Past, *, duration_ms: float) -> dict[str, Any]:
    """Return the session's totals at the end of a run, including earlier runs."""
    state, total = session.state, session.ledger.total
    shipped = {
        "totalCommits": past.commits + state.commits,
        "totalPullRequests": past.pull_requests + state.pull_requests,
    }
    return {
        "totalCostUSD": float(total.usd),
        "totalAPIDuration": round(past.api_ms + state.api_ms),
        "totalAPIDurationWithoutRetries": round(
            past.api_without_retries_ms + state.api_without_retries_ms
        ),
        "totalToolDuration": round(past.tool_ms + state.tool_ms),
        "totalLinesAdded": past.lines_added + state.lines_added,
        "totalLinesRemoved": past.lines_removed + state.lines_removed,
        "totalDuration": round(past.duration_ms + duration_ms),
        "startTime": past.started_at or state.started_at,
        "modelUsage": sum_usage_by_model(session.ledger),
        "hasUnknownModelCost": not total.is_complete,
        **{name: count for name, count in shipped.items() if count},
    }


def restore(
    line: dict[str, Any],
    covered: Iterable[dict[str, Any]],
    after: Iterable[dict[str, Any]],
    catalog: ModelCatalog,
) -> tuple[Ledger, Past]:
    """Restore the ledger and past totals of a session; `line` summarizes the `covered` entries."""
    ledger = Ledger(find_charges(covered, catalog))
    usage_by_model = line.get("modelUsage")
    spend_by_model = ledger.by_model()
    for model, usage in usage_by_model.items() if type(usage_by_model) is dict else ():
        new_charge = _more(str(model), usage, spend_by_model.get(str(model), Spend()))
        if new_charge is not None:
            ledger.add(new_charge)
    for charge in find_charges(after, catalog):
        ledger.add(charge)
    past = Past(
        spend=ledger.total,
        started_at=line.get("startTime"),
        api_ms=_number(line.get("totalAPIDuration")),
        api_without_retries_ms=_number(line.get("totalAPIDurationWithoutRetries")),
        tool_ms=_number(line.get("totalToolDuration")),
        duration_ms=_number(line.get("totalDuration")),
        lines_added=int(_number(line.get("totalLinesAdded"))),
        lines_removed=int(_number(line.get("totalLinesRemoved"))),
        commits=int(_number(line.get("totalCommits"))),
        pull_requests=int(_number(line.get("totalPullRequests"))),
    )
    return ledger, past


def _more(model: str, usage: Any, spend: Spend) -> Charge | None:
    """Return a charge for usage that the line reports but the entries do not, or None."""
    if type(usage) is not dict:
        return None
    counted_usage = _usage(spend)
    counts = {
        field: max(0, int(_number(usage.get(key))) - counted_usage[key])
        for field, key in _COUNTS.items()
    }
    if not any(counts.values()):
        return None
    cost = usage.get("costUSD")
    is_known = type(cost) in (int, float) and spend.is_complete
    return Charge(
        message_id=f"{BEFORE} {model}",
        request_id="",
        model=model,
        at="",
        tokens=TokenCounts(**counts),
        usd=max(Decimal(0), Decimal(str(cost)) - spend.usd) if is_known else None,
        purpose="other",
    )


def _number(value: Any) -> float:
    """Return a count or duration from a line, or 0 if it is missing, not a number or too large."""
    return value if type(value) in (int, float) and abs(value) < 1e18 else 0


def count_changed_lines(outcome: Any) -> LinesChanged | None:
    """Return how many lines an edit added and removed, according to the patch in its result.

    A new file has no patch; all its lines are new. Return None if no lines changed.
    """
    if type(outcome) is not dict:
        return None
    hunks = list_of(outcome.get("structuredPatch"))
    content = outcome.get("content")
    if outcome.get("type") == "create" and not hunks and type(content) is str and content:
        return LinesChanged(added=len(content.splitlines()), removed=0)
    lines = [line for hunk in hunks for line in hunk["lines"]]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return LinesChanged(added=added, removed=removed) if added or removed else None
