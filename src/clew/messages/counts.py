"""How many of something, as a person says it. Pure."""


def count_of(number: int, one: str, several: str = "") -> str:
    """`1 line`, `2 lines`, `1,000 lines`; `several` where an s behind the word does not make it many."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
