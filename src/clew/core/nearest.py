"""Find the known name that is most similar to a misspelled one, for hints in error messages."""

from collections.abc import Iterable

# Shorter prefixes are more likely to be mistakes.
MIN_BEGINNING = 3


def find_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar of the known names, or None if none reaches `cutoff` (0 to 1).

    A name that is a prefix of exactly one known name matches that known name.
    """
    # Imported here, because only mistakes need it.
    from difflib import get_close_matches

    names = list(known)
    longer = [other for other in names if other.startswith(name)]
    if len(longer) == 1 and len(name) >= MIN_BEGINNING:
        return longer[0]
    return next(iter(get_close_matches(name, names, n=1, cutoff=cutoff)), None)


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean "NAME"?)` with the nearest known name; empty if there is none."""
    near = find_nearest(name, known)
    return f' (did you mean "{near}"?)' if near else ""
