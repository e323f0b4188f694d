"""What belongs to a session beside its transcript, given to another that is made of it.

Files are copied, never shared: a session writes to its own. Subagents' lines say whose they are, so they
take the new session's id; a line that is none stays as it is.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clew.config.regular import content
from clew.config.there import is_file, is_folder
from clew.messages.encoding import decode, encode
from clew.transcript.files import Files
from clew.transcript.paths import AGENT, Place, sidecar
from clew.transcript.source import Source, reading

BUFFER_BYTES = 1 << 20


def of_agents(source: Path) -> list[Path]:
    """The transcripts of the subagents of a session's file, wherever that lies."""
    folder = source.with_suffix("") / "subagents"
    found = folder.rglob(f"{AGENT}*.jsonl") if is_folder(folder) else ()
    return sorted(path for path in found if is_file(path))


def give_agents(source: Path, target: Place) -> None:
    """The subagents of the session in the file `source`, each with what it was, in its group's folder."""
    above = source.with_suffix("")
    for agent in of_agents(source):
        own = target.folder / agent.relative_to(above)
        with reading(agent) as lines:
            write_file(own, _renamed(lines, target.session_id))
        if is_file(sidecar(agent)):
            write_file(sidecar(own), [content(sidecar(agent))])


def give_results(source: Path, target: Place) -> None:
    """What its calls and commands had to say at length."""
    for file in sorted((source.with_suffix("") / target.tool_results.name).glob("*")):
        if is_file(file):
            write_file(target.tool_results / file.name, [content(file)])


def _renamed(source: Source, session_id: str) -> Iterator[bytes]:
    for _, _, raw in source.lines(0):
        if raw.strip():
            try:
                yield renamed(raw, decode(raw), session_id)
            except ValueError:
                yield raw + b"\n"


def renamed(raw: bytes, line: Any, session_id: str) -> bytes:
    """A line as it is, but for the session that it names."""
    if type(line) is not dict or line.get("sessionId", session_id) == session_id:
        return raw + b"\n"
    return encode(line | {"sessionId": session_id}) + b"\n"


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """A file of what may be more than the memory holds."""
    files = Files()
    files.make_folder(path.parent)
    fd = files.open(path)
    try:
        with open(fd, "wb", buffering=BUFFER_BYTES, closefd=False) as file:
            file.writelines(pieces)
        files.sync(fd)
    finally:
        files.close(fd)
