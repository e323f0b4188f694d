"""How many of something, and how much, as a person says it. Pure."""


def count_of(number: int, one: str, several: str = "") -> str:
    """`1 line`, `2 lines`, `1,000 lines`; `several` where an s behind the word does not make it many."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def size_of(size_bytes: float) -> str:
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:.1f} GB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"
