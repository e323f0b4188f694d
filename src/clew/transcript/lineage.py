"""Where a session comes from, by the first line of its file, and which one was made of it by repair."""

from pathlib import Path
from typing import Any

from clew.messages.encoding import decode
from clew.transcript import light
from clew.transcript.light import is_uuid
from clew.transcript.load import Loaded, load
from clew.transcript.paths import Place, find_session

LONGEST_HEADER_BYTES = 1 << 16


def header_of(path: Path) -> dict[str, Any]:
    """The first line; an empty one where it is none of ours or cannot be read."""
    try:
        with path.open("rb") as file:
            line = decode(file.readline(LONGEST_HEADER_BYTES))
    except (OSError, ValueError):
        return {}
    return line if type(line) is dict else {}


def origins(home: Path, place: Place, loaded: Loaded) -> list[Place]:
    """The sessions that one is a copy of, or has parts of, as far as they are there: what calls said
    at length lies with them."""
    found: dict[str, Place] = {}
    wanted = [_id_in(message.get("graftedFrom")) for message in loaded.messages]
    wanted += _made_of(place.transcript)
    while wanted:
        session_id = wanted.pop()
        if not is_uuid(session_id) or session_id in (place.session_id, *found):
            continue
        for path in find_session(home, session_id)[:1]:
            found[session_id] = Place(session_id=session_id, project_dir=path.parent)
            wanted += _made_of(path)
    return list(found.values())


def _made_of(path: Path) -> list[str]:
    header = header_of(path)
    return [_id_in(header.get(key)) for key in ("forkedFrom", "repairedFrom")]


def _id_in(said: Any) -> str:
    return str(said.get("sessionId", "")) if type(said) is dict else ""


def repaired_copy(path: Path, loaded: Loaded) -> Path | None:
    """The repaired copy beside a file that holds the whole conversation `loaded` from it.

    Where somebody went on in the original after the repair, the copy stands for it no more.
    """
    wanted = {node.uuid for node in loaded.chain.nodes() if not node.is_boundary}
    for other in light.session_files(path.parent):
        made_of = header_of(other).get("repairedFrom")
        if type(made_of) is not dict or made_of.get("sessionId") != path.stem:
            continue
        if wanted <= set(load(other, whole=True).chain.links.index):
            return other
    return None
