"""`clew sessions stats`: all sessions in numbers."""

import argparse
from typing import Any

from clew.library.stats import stats
from clew.messages.counts import count_of, size_of
from clew.sessions.output import FINE, Bar, home, say, say_closed, say_json

SHOWN = 8


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(options: argparse.Namespace) -> int:
    say_closed(everywhere=True)
    with Bar("reading sessions") as bar:
        found = stats(home(), bar)
    if options.json:
        say_json(found)
        return FINE
    unknown = " + unknown" if found["unpricedResponses"] else ""
    say(
        f"{count_of(found['sessions'], 'session')} and {count_of(found['subagents'], 'subagent')}, {size_of(found['sizeBytes'])}: "
        f"{count_of(found['prompts'], 'prompt')}, {count_of(found['responses'], 'response')}, {count_of(found['tokens'], 'token')}, "
        f"${found['knownCostUSD']:,.4f}{unknown}"
    )
    _table("models", "name", "responses", found["models"])
    _table("tools", "name", "calls", found["tools"])
    _table("projects", "cwd", "sessions", found["projects"])
    return FINE


def _table(title: str, name: str, number: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        say(f"\n{title}")
    for row in rows[:SHOWN]:
        say(f"{row[number]:>9,}  {row[name]}")
    if len(rows) > SHOWN:
        say(f"{'':>9}  and {len(rows) - SHOWN} more")
