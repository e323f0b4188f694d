"""`clew cost`: show what sessions cost, from their transcripts. Needs no model and no API key.

Every response is counted once. A response without a known price is listed as such, never as free.

Decision: docs/decisions/081-cost-from-the-log.md
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.commands.sessions.output import OTHER_AGENTS, refresh_others
from clew.core.catalog.added import load_models
from clew.core.ledger.cache_miss import sum_up
from clew.core.ledger.ledger import Charge, Spend
from clew.core.messages.errors import SessionError, SettingsError, describe_error
from clew.core.messages.text import format_count, replace_unprintable
from clew.core.page import draw_bar
from clew.parts.resuming import find_or_adopt
from clew.permissions.session_rules import load_current_rules
from clew.record.library.costs import CostReport, SessionCost, gather
from clew.record.transcript import choose, light, paths
from clew.system.clock import format_local, format_local_timestamp
from clew.system.command_groups import Group
from clew.system.config.paths import find_config_home
from clew.system.files import require_open_folder

# Plain tables and bars for a terminal: text left-aligned, numbers right-aligned.


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of equal length as aligned lines. The first and last columns are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    for row in rows:
        cells = (
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


Sums: TypeAlias = Callable[[SessionCost], dict[str, Spend]]

NO_DAY = "(no date)"
BARS = 24
SHOWN_MISSES = 5


@lru_cache(maxsize=4096)
def _day(minute: str) -> str:
    return format_local(datetime.fromisoformat(f"{minute}:00+00:00").timestamp())[:10]


def day_of(charge: Charge) -> str:
    """Return the local date of a response."""
    try:
        return _day(charge.at[:16])
    except (ValueError, OverflowError):
        return NO_DAY


BY: dict[str, Sums] = {
    "session": lambda session: {session.session_id: session.ledger.total},
    "project": lambda session: {session.project: session.ledger.total},
    "day": lambda session: session.ledger.by(day_of),
    "model": lambda session: session.ledger.by_model(),
    "tool": lambda session: session.ledger.by_tool(),
    "server": lambda session: session.ledger.by_server(),
    "agent": lambda session: session.ledger.by_agent(),
    "turn": lambda session: {
        f"{session.session_id[:8]} {turn}": spend
        for turn, spend in session.ledger.by_turn().items()
    },
    "purpose": lambda session: session.ledger.by_purpose(),
}


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        # The user's own models have prices too.
        catalog, _ = load_models(load_current_rules(os.environ, Path.cwd()).settings)
        costs = gather(transcripts(options), catalog, counts=within(options.since, options.until))
    except (SessionError, SettingsError, OSError) as error:
        sys.stderr.write(f"clew cost: {describe_error(error)}\n")
        return 2
    if options.json:
        sys.stdout.write(_encoder.encode(as_json(costs, options.by)).decode() + "\n")
    else:
        for line in shown(costs, options.by):
            sys.stdout.write(replace_unprintable(line).rstrip() + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Group(
        prog="clew cost",
        description="Show what sessions cost (default: the sessions of this folder).",
    )
    add = parser.add_argument
    add("session", nargs="*", metavar="SESSION", help="Session ID, title or file")
    add("--all", action="store_true", help="Include the sessions of all folders")
    add(*OTHER_AGENTS.names, **OTHER_AGENTS.options)
    add("--by", choices=tuple(BY), help="Show only this breakdown")
    add("--since", type=date.fromisoformat, metavar="DAY", help="First day, such as 2026-01-31")
    add("--until", type=date.fromisoformat, metavar="DAY", help="Last day")
    add("--json", action="store_true", help="Print JSON")
    return parser


def transcripts(options: argparse.Namespace) -> list[Path]:
    """Return the requested transcripts.

    Named sessions keep their order. Others are sorted, oldest first, so that copies come after
    their originals.
    """
    home, cwd = find_config_home(os.environ, Path.cwd()), str(Path.cwd())
    if options.session:
        return [find_or_adopt(home, cwd, name, is_read_only=True) for name in options.session]
    files = _list_transcripts(home, cwd, everywhere=options.all)
    if options.other_agents:
        others = refresh_others()
        copies = _list_transcripts(others.home, cwd, everywhere=options.all)
        files += [path for path in copies if not others.is_double(path, path.stem)]
    return files


def _list_transcripts(home: Path, cwd: str, *, everywhere: bool) -> list[Path]:
    canonical = paths.resolve_folder(cwd)
    folders = choose.list_folders(home, canonical, everywhere=everywhere)
    for folder in (paths.get_projects_dir(home), *folders):
        require_open_folder(folder)  # a partial sum would look like the total
    files = [path for folder in folders for path in reversed(light.list_session_files(folder))]
    return files if everywhere else [p for p in files if _cwd(p) in (None, canonical, cwd)]


def _cwd(transcript: Path) -> str | None:
    ends = light.read_ends(transcript)
    return None if ends is None else light.find_string_field(ends.head, "cwd")


def within(since: date | None, until: date | None) -> Callable[[Charge], bool]:
    """Return a filter for responses between two days.

    If either day is given, responses without a date are excluded.
    """
    if since is None and until is None:
        return lambda _: True
    first = "" if since is None else since.isoformat()
    last = "~" if until is None else until.isoformat()
    return lambda charge: first <= (day := day_of(charge)) <= last and day != NO_DAY


# -- JSON output

_encoder = msgspec.json.Encoder(decimal_format="number")


def as_json(costs: CostReport, by: str | None) -> dict[str, Any]:
    """Return every breakdown of the cost, or only the requested one. Each adds up to the total."""
    titles = {
        session.session_id: {"title": session.title, "project": session.project}
        for session in costs.sessions
    }
    return {
        "sessions": len(costs.sessions),
        "total": _sum(costs.total),
        "by": {
            name: [
                {"name": key, **(titles[key] if name == "session" else {}), **_sum(spend)}
                for key, spend in _rows(costs, name)
            ]
            for name in ([by] if by else BY)
        },
        "cacheMisses": [miss.as_json() | {"at": miss.at} for miss in costs.misses],
        "unreadLines": costs.unread,
    }


def _sum(spend: Spend) -> dict[str, Any]:
    """Return the JSON output for a sum.

    `costUSD` is null if a price is unknown; `knownCostUSD` covers known prices.
    """
    tokens = spend.tokens
    return {
        "requests": spend.requests,
        "inputTokens": tokens.input,
        "cacheReadInputTokens": tokens.cache_read,
        "cacheCreation5mInputTokens": tokens.cache_write_5m,
        "cacheCreation1hInputTokens": tokens.cache_write_1h,
        "outputTokens": tokens.output,
        "webSearchRequests": tokens.web_searches,
        "costUSD": spend.usd if spend.is_complete else None,
        "knownCostUSD": spend.usd,
        "unpricedRequests": spend.unpriced,
    }


def _rows(costs: CostReport, by: str) -> list[tuple[str, Spend]]:
    """Return the rows of a table: days in order, other rows by descending cost."""
    rows = list(costs.by(BY[by]).items())
    if by == "day":
        return sorted(rows)
    return sorted(rows, key=lambda row: (-row[1].usd, -row[1].tokens.total, row[0]))


# -- text output


def shown(costs: CostReport, by: str | None) -> Iterator[str]:
    total = costs.total
    if not total.requests:
        yield f"No model responses in {format_count(len(costs.sessions), 'session')}."
    else:
        yield (
            f"{format_count(len(costs.sessions), 'session')}, {format_count(total.requests, 'response')}: "
            f"{money(total)}"
        )
        for name in [by] if by else ["model", "day"]:
            yield ""
            yield from _table(name, _rows(costs, name), total)
        yield from _unpriced(costs)
        yield from _missed(costs)
    if costs.unread:
        yield f"{format_count(costs.unread, 'line')} could not be read. For details, run clew sessions check"


def _missed(costs: CostReport) -> Iterator[str]:
    """Yield a summary of the prompt cache misses, then the latest ones."""
    misses = costs.misses
    if misses:
        yield ""
        yield f"Prompt cache misses: {sum_up(misses)}."
        for miss in misses[-SHOWN_MISSES:]:
            yield f"  {format_local_timestamp(miss.at)}  {miss}"


def _table(by: str, rows: list[tuple[str, Spend]], total: Spend) -> Iterator[str]:
    most = max((spend.usd for _, spend in rows), default=Decimal(0))
    head = [by, "responses", "input", "cache read", "cache write", "output", "cost", ""]
    body = [
        [*_cells(name or "(none)", spend), draw_bar(spend.usd, most, BARS)] for name, spend in rows
    ]
    yield from format_table([head, *body, [*_cells("total", total), ""]])


def _cells(name: str, spend: Spend) -> list[str]:
    tokens = spend.tokens
    written = tokens.cache_write_5m + tokens.cache_write_1h
    counts = (spend.requests, tokens.input, tokens.cache_read, written, tokens.output)
    return [name, *(f"{count:,}" for count in counts), money(spend)]


def money(spend: Spend) -> str:
    """Format dollars with four decimals, marking unknown amounts."""
    if spend.unpriced and not spend.usd:
        return "unknown"
    return f"${spend.usd:,.4f}" + (" + unknown" if spend.unpriced else "")


def _unpriced(costs: CostReport) -> Iterator[str]:
    for model, spend in _rows(costs, "model"):
        if spend.unpriced:
            tokens = format_count(spend.tokens.total, "token")
            yield ""
            yield (
                f"{format_count(spend.unpriced, 'response')} from {model} without a known price: "
                f"the totals include {tokens}, but not the cost."
            )
