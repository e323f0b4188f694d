"""Sums over all sessions, from the database: how many, how much, which models and tools, which days."""

from pathlib import Path
from typing import Any

from clew.library.indexing import Tell, whole_index

Json = dict[str, Any]

# A response that several files hold, as forks do, counts once.
_ONCE = "(SELECT message, request, model, at, max(usd) AS usd, max(tokens) AS tokens FROM charge GROUP BY message, request)"


def stats(home: Path, tell: Tell | None = None) -> Json:
    """Everything as one object; the index is brought up to date first."""
    with whole_index(home, tell) as connection:
        run = connection.execute
        sessions, prompts, size = run(
            "SELECT count(*), total(prompts), total(size) FROM file WHERE agent IS NULL AND hidden IS NULL"
        ).fetchone()
        agents = run("SELECT count(*) FROM file WHERE agent IS NOT NULL").fetchone()[0]
        entries, bad = run("SELECT total(entries), total(bad_lines) FROM file").fetchone()
        usd, unpriced, tokens, responses = run(
            f"SELECT total(usd), count(*) - count(usd), total(tokens), count(*) FROM {_ONCE}"
        ).fetchone()
        return {
            "sessions": sessions,
            "subagents": agents,
            "prompts": int(prompts),
            "entries": int(entries),
            "sizeBytes": int(size),
            "unreadLines": int(bad),
            "responses": responses,
            "tokens": int(tokens),
            "knownCostUSD": round(usd, 6),
            "unpricedResponses": unpriced,
            "models": [
                {
                    "name": name,
                    "responses": count,
                    "tokens": int(used),
                    "knownCostUSD": round(cost, 6),
                }
                for name, count, used, cost in run(
                    f"SELECT model, count(*), total(tokens), total(usd) FROM {_ONCE}"
                    " GROUP BY model ORDER BY 3 DESC"
                )
            ],
            "tools": [
                {"name": name, "calls": calls}
                for name, calls in run(
                    "SELECT name, sum(calls) FROM tool GROUP BY name ORDER BY 2 DESC, 1"
                )
            ],
            "projects": [
                {"cwd": cwd, "sessions": count, "prompts": int(asked)}
                for cwd, count, asked in run(
                    "SELECT coalesce(cwd, folder), count(*), total(prompts) FROM file WHERE agent IS NULL"
                    " AND hidden IS NULL GROUP BY 1 ORDER BY 2 DESC, 1"
                )
            ],
            "days": [
                {"day": day, "responses": count, "tokens": int(used)}
                for day, count, used in run(
                    f"SELECT substr(at, 1, 10), count(*), total(tokens) FROM {_ONCE}"
                    " GROUP BY 1 ORDER BY 1"
                )
            ],
        }
