"""Messages of sessions by what a person types."""

from pathlib import Path

from clew.rewind.restore import START
from clew.rewind.story import named


def uuid_of(path: Path, text: str) -> str:
    return text if text == START else named(path, text)
