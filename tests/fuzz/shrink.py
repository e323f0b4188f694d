"""Makes a finding small: text is left out as long as the line still does its harm."""

from collections.abc import Callable


def shrink(text: str, is_finding: Callable[[str], bool], *, most_tries: int = 60) -> str:
    """Return the shortest line found that still is a finding (delta debugging)."""
    tries = 0
    size = max(1, len(text) // 2)
    while size >= 1:
        place, shorter = 0, False
        while place < len(text):
            candidate = text[:place] + text[place + size :]
            tries += 1
            if tries > most_tries:
                return text
            if candidate and is_finding(candidate):
                text, shorter = candidate, True
            else:
                place += size
        if not shorter:
            size //= 2
    return text
