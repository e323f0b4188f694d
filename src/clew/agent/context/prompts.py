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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.agent.options import Options
from clew.core.catalog.lookup import ModelCatalog
from clew.core.json_object import Json
from clew.core.ledger.spending import last_size, recached
from clew.core.messages.text import SYNTHETIC_MODEL
from clew.providers.base import ModelRequest
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.clock import now
from clew.system.files import is_there
from clew.version import VERSION

_encode = msgspec.json.Encoder().encode


class PromptOpening(Struct, frozen=True, kw_only=True):
    """What every request of a session begins with. `asked` are the person's own words in it, hashed;
    `version` is the clew that made it."""

    model: str
    system: list[Json]
    tools: list[Json]
    asked: str
    version: str


class TakenUp(Struct, frozen=True, kw_only=True):
    """What the requests of this run begin with, and what became another than the last run's."""

    standing: PromptOpening
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

    def record_of(self, standing: PromptOpening) -> Json | None:
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

    def take_up(self, made: PromptOpening, record: Json) -> TakenUp:
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


# What a session's requests begin with: made anew for a new one, taken up for one that goes on.


def spoke_with(loaded: LoadedSession | None, catalog: ModelCatalog) -> str | None:
    """The model a session was asked to speak with last; of a session of another program, the one that
    answered last, if it is known here."""
    if loaded is None:
        return None
    named = recorded(loaded).get("model")
    if isinstance(named, str) and named:
        return named
    return next((m for m in answered_by(loaded) if catalog.find(m) is not None), None)


def asked_last(loaded: LoadedSession) -> str | None:
    """The model that gave the last answer, by the name under which it was asked: a gateway may sign with
    another."""
    for entry in reversed(loaded.messages):
        said = entry.get("message") if entry.get("type") == "assistant" else None
        if isinstance(said, dict) and said.get("model") != SYNTHETIC_MODEL:
            name = entry.get("requestedModel") or said.get("model")
            return name if isinstance(name, str) else None
    return None


def answered_by(loaded: LoadedSession) -> Iterator[str]:
    """The models that answered, the last one first."""
    said = (m.get("message") for m in reversed(loaded.messages) if m.get("type") == "assistant")
    names = (each.get("model") for each in said if isinstance(each, dict))
    return (name for name in names if isinstance(name, str) and name != SYNTHETIC_MODEL)


class RequestBeginning(Struct, frozen=True, kw_only=True):
    """What all of this run's requests begin as, and what is to be said before one is sent."""

    request: ModelRequest
    may_grow: bool
    # Whether that is what the requests of the log began as.
    is_as_recorded: bool = False
    notices: tuple[str, ...] = ()

    def tools_of(self, there: list[Json]) -> list[Json]:
        """The tools to offer while those in `there` exist: as they were, and new ones behind."""
        return same_tools(self.request.tools or [], there, may_grow=self.may_grow)


def taken_up(
    made: ModelRequest,
    options: Options,
    prompts: Prompts,
    recorder: Recorder,
    loaded: LoadedSession | None,
    catalog: ModelCatalog,
    style: str = "",
) -> RequestBeginning:
    record = None if loaded is None or not options.keeps_prompt else recorded(loaded)
    found = as_before(made, options, prompts, record, style)
    if options.persists and options.keeps_prompt:
        named = prompts.record_of(found.standing)
        if named is not None and not is_named(record, named):
            recorder.prompt_hashes(**named)
    return RequestBeginning(
        request=replace(made, system=found.standing.system, tools=found.standing.tools),
        may_grow=found.may_grow,
        is_as_recorded=bool(record) and not found.changed,
        notices=() if loaded is None else told(loaded, made.model, found.changed, catalog),
    )


def recorded(loaded: LoadedSession) -> Json:
    """The line that names what the session began with; empty if it has none."""
    return loaded.side.current.get("prompt-hashes", {})


def as_before(
    made: ModelRequest, options: Options, prompts: Prompts, record: Json | None, style: str = ""
) -> TakenUp:
    """What requests begin with: `made`, as far as the session does not stand on another."""
    asked = [options.system_prompt, options.append_system_prompt]
    fresh = PromptOpening(
        model=made.model,
        system=made.system if isinstance(made.system, list) else [],
        tools=made.tools or [],
        asked=digest([*asked, style] if style else asked),
        version=VERSION,
    )
    return TakenUp(standing=fresh) if record is None else prompts.take_up(fresh, record)


def is_named(record: Json | None, named: Json) -> bool:
    """Whether the session's log says this already; the version that said so stays."""
    return record is not None and all(
        record.get(key) == value for key, value in named.items() if key != "version"
    )


def told(
    loaded: LoadedSession, model: str, changed: tuple[str, ...], catalog: ModelCatalog
) -> tuple[str, ...]:
    """What a change costs, before it is paid."""
    last = last_size(loaded.messages)
    before = asked_last(loaded) or model
    if not changed and before != model and catalog.entry(before).id != model:
        changed = ("the model",)
    if not changed or last is None or not last.total:
        return ()
    cost = recached(last, model=model, before=before, at=now(), catalog=catalog)
    what = " and ".join(changed)
    are = "are" if what.endswith("s") else "is"
    return (f"{what} {are} not as in the last request, so nothing is cached for it: {cost}",)
