"""Rows of two columns, as a command shows them."""

from collections.abc import Iterable, Iterator

# A first column that is wider leaves too little for the second in a terminal of eighty columns.
WIDEST = 32


def table(rows: Iterable[tuple[str, str]]) -> str:
    """What does not fit the first column stands above its words."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows if len(name) <= WIDEST), default=2)
    return "\n".join(line for name, words in rows for line in _lines(name, words, width))


def _lines(name: str, words: str, width: int) -> Iterator[str]:
    if len(name) <= width or not words:
        yield f"{name:<{width}}  {words}".rstrip()
        return
    yield name
    yield f"{'':<{width}}  {words}"
