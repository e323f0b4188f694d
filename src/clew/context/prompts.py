"""The instructions and tools that sessions began with, each kept once under its hash, and taken up again.

A conversation goes on with the very bytes it began with, also under a newer clew, because they are the
beginning of what the service has in its cache. Only what a person changed on purpose changes them: the
model, the words on the command line, the tools that are there. The transcript holds hashes alone, so that
no file can speak here that clew did not write itself.

Decision: docs/decisions/082-frozen-system-prompt.md
"""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.config.there import is_there

Json: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Standing(Struct, frozen=True, kw_only=True):
    """What every request of a session begins with. `asked` are the person's own words in it, hashed;
    `version` is the clew that made it."""

    model: str
    system: list[Json]
    tools: list[Json]
    asked: str
    version: str


class TakenUp(Struct, frozen=True, kw_only=True):
    """What the requests of this run begin with, and what became another than the last run's."""

    standing: Standing
    changed: tuple[str, ...] = ()
    # Whether tools may join that are not of a server: those of a newer clew are for new sessions.
    may_grow: bool = True


def digest(value: Any) -> str:
    return hashlib.sha256(_encode(value)).hexdigest()


class Prompts:
    """A folder of clew's own. What cannot be written or read there is made anew and costs only money."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, value: list[Json]) -> str | None:
        """The hash under which `value` is kept from now on; None if no disk takes it."""
        data = _encode(value)
        name = hashlib.sha256(data).hexdigest()
        path = self._path(name)
        if is_there(path):
            return name
        beside = path.with_name(f"{name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            beside.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            return None
        return name

    def get(self, name: object) -> list[Json] | None:
        """What is kept under a hash; None if it is not there, or not what it was."""
        if type(name) is not str or len(name) != 64 or not name.isalnum():
            return None
        try:
            data = self._path(name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() != name:
            return None
        value: list[Json] = msgspec.json.decode(data)
        return value

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def record_of(self, standing: Standing) -> Json | None:
        """Keeps what a session begins with; the members of the line that names it."""
        system, tools = self.keep(standing.system), self.keep(standing.tools)
        if system is None or tools is None:
            return None
        return {
            "systemSha256": system,
            "toolsSha256": tools,
            "model": standing.model,
            "askedSha256": standing.asked,
            "version": standing.version,
        }

    def take_up(self, made: Standing, record: Json) -> TakenUp:
        """`made`, with everything from the recorded session that no person changed; a record that says
        nothing, since no disk took one, says of nothing that it changed."""
        system, tools = self.get(record.get("systemSha256")), self.get(record.get("toolsSha256"))
        if record.get("model", made.model) != made.model:
            return TakenUp(standing=made, changed=("the model",))
        if system is None or tools is None:
            is_known = record.get("systemSha256") is not None
            return TakenUp(standing=made, changed=("the instructions",) if is_known else ())
        changed: list[str] = []
        if record.get("askedSha256") != made.asked:
            changed.append("the instructions")
            system = made.system
        is_same_clew = record.get("version") == made.version
        offered = same_tools(tools, made.tools, may_grow=is_same_clew)
        if offered != tools:
            changed.append("the tools")
        standing = msgspec.structs.replace(made, system=system, tools=offered)
        return TakenUp(standing=standing, changed=tuple(changed), may_grow=is_same_clew)


def same_tools(kept: Sequence[Json], made: Sequence[Json], *, may_grow: bool) -> list[Json]:
    """The tools as the session knows them, without those that are gone. What a newer clew brought is for
    new sessions; a tool of a server, or one that a person switched on, is added behind."""
    there = {tool.get("name") for tool in made}
    known = {tool.get("name") for tool in kept}
    more = [tool for tool in made if tool.get("name") not in known]
    if not may_grow:
        more = [tool for tool in more if str(tool.get("name")).startswith("mcp__")]
    return [*(tool for tool in kept if tool.get("name") in there), *more]
