"""Context usage for hosts: categories, their shares, and a grid of squares. Does no I/O."""

from collections.abc import Sequence

from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.breakdown import WindowPart

COLUMNS, ROWS = 20, 10
COLORS = {
    "system prompt": "promptBorder",
    "tools": "inactive",
    "mcp tools": "cyan_FOR_SUBAGENTS_ONLY",
    "memory files": "claude",
    "context": "warning",
}
FREE = "Free space"
# Hosts' IDs that differ from the names here.
IDS = {"tools": "system_tools"}


def describe_usage(parts: Sequence[WindowPart], model: Model, *, auto_at: int | None) -> Json:
    """Return the answer to a host's request for the context usage.

    `auto_at` is the token count that starts compaction.
    """
    sums: dict[str, int] = {}
    for part in parts:
        sums[part.kind] = sums.get(part.kind, 0) + part.tokens
    total, size = sum(sums.values()), model.context_window or 0
    categories = [
        describe_category(kind, tokens, COLORS.get(kind, "purple"), "used")
        for kind, tokens in sums.items()
    ]
    if size > total:
        categories.append(describe_category(FREE, size - total, "promptBorder", "free"))
    return {
        "categories": categories,
        "totalTokens": total,
        "maxTokens": size,
        "rawMaxTokens": size,
        "percentage": round(100 * total / size) if size else 0,
        "gridRows": grid(categories, size),
        "model": model.id,
        "memoryFiles": [],
        "mcpTools": [
            {"name": part.name, "serverName": part.name.split("__")[1], "tokens": part.tokens}
            for part in parts
            if part.kind == "mcp tools" and part.name.count("__") > 1
        ],
        "agents": [],
        "isAutoCompactEnabled": auto_at is not None,
        **({} if auto_at is None else {"autoCompactThreshold": auto_at}),
    }


def describe_category(name: str, tokens: int, color: str, kind: str) -> Json:
    """Return a category with an ID that stays the same in all languages and versions."""
    return {
        "id": IDS.get(name, name.lower().replace(" ", "_")),
        "name": name.capitalize(),
        "tokens": tokens,
        "color": color,
        "kind": kind,
    }


def grid(categories: Sequence[Json], size: int) -> list[list[Json]]:
    """Return the grid of squares. Each category but the free space has at least one square."""
    squares: list[Json] = []
    for category in categories if size else ():
        share = category["tokens"] / size
        wanted = share * COLUMNS * ROWS
        count = round(wanted) if category["name"] == FREE else max(1, round(wanted))
        square = {
            "color": category["color"],
            "isFilled": category["name"] != FREE,
            "categoryName": category["name"],
            "tokens": category["tokens"],
            "percentage": round(100 * share),
            "squareFullness": 1.0 if wanted >= 1 else round(wanted, 2),
        }
        squares += [square] * count
    squares = squares[: COLUMNS * ROWS]
    return [squares[at : at + COLUMNS] for at in range(0, len(squares), COLUMNS)]
