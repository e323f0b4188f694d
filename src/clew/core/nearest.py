"""The known name that is most similar to a misspelled one, for hints in error messages."""

from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar of the known names, or None if none reaches `cutoff` (0 to 1)."""
    # Imported here, because only mistakes need it.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean "NAME"?)` with the nearest known name; empty if there is none."""
    near = find_nearest(name, known)
    return f' (did you mean "{near}"?)' if near else ""
