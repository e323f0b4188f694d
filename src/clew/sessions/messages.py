"""Messages of a session by what a person types: a uuid, or its beginning if only one begins so."""

from pathlib import Path

from clew.rewind.restore import START
from clew.rewind.story import read
from clew.sessions.output import CannotError


def uuid_of(path: Path, text: str) -> str:
    if text == START:
        return text
    places = read(path).places
    if text in places:
        return text
    found = [uuid for uuid in places if uuid.startswith(text)] if text else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise CannotError(f"no message {text!r}; `clew sessions tree {path.stem}` shows them")
    raise CannotError(f"{len(found)} messages begin with {text!r}")
