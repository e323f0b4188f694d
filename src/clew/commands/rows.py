"""Rows of two columns, as a command shows them."""

from collections.abc import Iterable


def table(rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {words}".rstrip() for name, words in rows)
