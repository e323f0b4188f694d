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
from clew.core.ledger.spending import estimate_recaching, find_last_size
from clew.core.messages.text import SYNTHETIC_MODEL
from clew.providers.base import ModelRequest
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp
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

    def take_up(self, opening: PromptOpening, record: Json) -> TakenUp:
        """`opening`, with everything from the recorded session that no person changed; a record that says
        nothing, since no disk took one, says of nothing that it changed."""
        system, tools = self.get(record.get("systemSha256")), self.get(record.get("toolsSha256"))
        if record.get("model", opening.model) != opening.model:
            return TakenUp(standing=opening, changed=("the model",))
        if system is None or tools is None:
            is_known = record.get("systemSha256") is not None
            return TakenUp(standing=opening, changed=("the instructions",) if is_known else ())
        changed: list[str] = []
        if record.get("askedSha256") != opening.asked:
            changed.append("the instructions")
            system = opening.system
        is_same_clew = record.get("version") == opening.version
        offered = same_tools(tools, opening.tools, may_grow=is_same_clew)
        if offered != tools:
            changed.append("the tools")
        standing = msgspec.structs.replace(opening, system=system, tools=offered)
        return TakenUp(standing=standing, changed=tuple(changed), may_grow=is_same_clew)


def same_tools(
    recorded_tools: Sequence[Json], current_tools: Sequence[Json], *, may_grow: bool
) -> list[Json]:
    """The tools as the session knows them, without those that are gone. What a newer clew brought is for
    new sessions; a tool of a server, or one that a person switched on, is added behind."""
    current_names = {tool.get("name") for tool in current_tools}
    recorded_names = {tool.get("name") for tool in recorded_tools}
    extra_tools = [tool for tool in current_tools if tool.get("name") not in recorded_names]
    if not may_grow:
        extra_tools = [tool for tool in extra_tools if str(tool.get("name")).startswith("mcp__")]
    return [*(tool for tool in recorded_tools if tool.get("name") in current_names), *extra_tools]


# What a session's requests begin with: made anew for a new one, taken up for one that goes on.


def find_last_model(loaded: LoadedSession | None, catalog: ModelCatalog) -> str | None:
    """The model a session was asked to speak with last; of a session of another program, the one that
    answered last, if it is known here."""
    if loaded is None:
        return None
    model = read_recorded_opening(loaded).get("model")
    if isinstance(model, str) and model:
        return model
    return next((m for m in answered_by(loaded) if catalog.find(m) is not None), None)


def asked_last(loaded: LoadedSession) -> str | None:
    """The model that gave the last answer, by the name under which it was asked: a gateway may sign with
    another."""
    for entry in reversed(loaded.messages):
        message = entry.get("message") if entry.get("type") == "assistant" else None
        if isinstance(message, dict) and message.get("model") != SYNTHETIC_MODEL:
            name = entry.get("requestedModel") or message.get("model")
            return name if isinstance(name, str) else None
    return None


def answered_by(loaded: LoadedSession) -> Iterator[str]:
    """The models that answered, the last one first."""
    messages = (m.get("message") for m in reversed(loaded.messages) if m.get("type") == "assistant")
    names = (message.get("model") for message in messages if isinstance(message, dict))
    return (name for name in names if isinstance(name, str) and name != SYNTHETIC_MODEL)


class RequestBeginning(Struct, frozen=True, kw_only=True):
    """What all of this run's requests begin as, and what is to be said before one is sent."""

    request: ModelRequest
    may_grow: bool
    # Whether that is what the requests of the log began as.
    is_as_recorded: bool = False
    notices: tuple[str, ...] = ()

    def tools_of(self, current_tools: list[Json]) -> list[Json]:
        """The tools to offer while those in `current_tools` exist: as they were, and new ones behind."""
        return same_tools(self.request.tools or [], current_tools, may_grow=self.may_grow)


def begin_requests(
    request: ModelRequest,
    options: Options,
    prompts: Prompts,
    recorder: Recorder,
    loaded: LoadedSession | None,
    catalog: ModelCatalog,
    style: str = "",
) -> RequestBeginning:
    record = None if loaded is None or not options.keeps_prompt else read_recorded_opening(loaded)
    result = as_before(request, options, prompts, record, style)
    if options.persists and options.keeps_prompt:
        opening_record = prompts.record_of(result.standing)
        if opening_record is not None and not is_named(record, opening_record):
            recorder.prompt_hashes(**opening_record)
    return RequestBeginning(
        request=replace(request, system=result.standing.system, tools=result.standing.tools),
        may_grow=result.may_grow,
        is_as_recorded=bool(record) and not result.changed,
        notices=() if loaded is None else told(loaded, request.model, result.changed, catalog),
    )


def read_recorded_opening(loaded: LoadedSession) -> Json:
    """The line that names what the session began with; empty if it has none."""
    return loaded.side.current.get("prompt-hashes", {})


def as_before(
    request: ModelRequest, options: Options, prompts: Prompts, record: Json | None, style: str = ""
) -> TakenUp:
    """What requests begin with: `request`, as far as the session does not stand on another."""
    system_prompts = [options.system_prompt, options.append_system_prompt]
    fresh = PromptOpening(
        model=request.model,
        system=request.system if isinstance(request.system, list) else [],
        tools=request.tools or [],
        asked=digest([*system_prompts, style] if style else system_prompts),
        version=VERSION,
    )
    return TakenUp(standing=fresh) if record is None else prompts.take_up(fresh, record)


def is_named(record: Json | None, expected: Json) -> bool:
    """Whether the session's log says this already; the version that said so stays."""
    return record is not None and all(
        record.get(key) == value for key, value in expected.items() if key != "version"
    )


def told(
    loaded: LoadedSession, model: str, changed: tuple[str, ...], catalog: ModelCatalog
) -> tuple[str, ...]:
    """What a change costs, before it is paid."""
    last = find_last_size(loaded.messages)
    before = asked_last(loaded) or model
    if not changed and before != model and catalog.entry(before).id != model:
        changed = ("the model",)
    if not changed or last is None or not last.total:
        return ()
    cost = estimate_recaching(last, model=model, before=before, at=get_timestamp(), catalog=catalog)
    what = " and ".join(changed)
    are = "are" if what.endswith("s") else "is"
    return (f"{what} {are} not as in the last request, so nothing is cached for it: {cost}",)
