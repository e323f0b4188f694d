"""The system prompts and tools that sessions started with, stored by hash and reused on resume.

A resumed conversation sends the same bytes as before, even with a newer clew, because they are the
start of the prefix that the service caches. They change only through the user's deliberate choices:
the model, the prompt options on the command line, the available tools. The transcript contains only
hashes, so a transcript from another source can't inject instructions that clew did not write.

Decision: docs/decisions/082-frozen-system-prompt.md
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
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
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp
from clew.system.files import is_there
from clew.version import VERSION

# A loss that costs less is not worth a notice.
LEAST_NEWS_USD = Decimal("0.01")

_encode = msgspec.json.Encoder().encode


class PromptOpening(Struct, frozen=True, kw_only=True):
    """The beginning of every request in a session: its model, system prompt and tools.

    `asked` is the hash of the user's own text in the system prompt, and `version` is the version of
    clew that composed the prompt.
    """

    model: str
    system: list[Json]
    tools: list[Json]
    asked: str
    version: str


class TakenUp(Struct, frozen=True, kw_only=True):
    """The beginning of this run's requests, and the parts that changed since the last run."""

    standing: PromptOpening
    changed: tuple[str, ...] = ()
    # False with a newer clew: its new built-in tools are only for new sessions, so only MCP tools
    # may be added.
    may_grow: bool = True


def digest(value: Any) -> str:
    return hashlib.sha256(_encode(value)).hexdigest()


class Prompts:
    """A folder of stored prompts.

    If the folder can't be read or written, prompts are rebuilt, which costs a cache miss.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, value: list[Json]) -> str | None:
        """Store `value` and return its hash, or None if the file can't be written."""
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
        """Return the value stored under a hash, or None if it is missing or corrupt."""
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
        """Store a session's opening and return the fields of its transcript entry.

        Return None if the opening can't be written.
        """
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
        """Return `opening` with every recorded part that the user did not change.

        A record without hashes, written when the disk was full, reports no change.
        """
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
    """Return the session's recorded tools that still exist, followed by new ones.

    New built-in tools are added only if `may_grow`; MCP tools are always added.
    """
    current_names = {tool.get("name") for tool in current_tools}
    recorded_names = {tool.get("name") for tool in recorded_tools}
    extra_tools = [tool for tool in current_tools if tool.get("name") not in recorded_names]
    if not may_grow:
        extra_tools = [tool for tool in extra_tools if str(tool.get("name")).startswith("mcp__")]
    return [*(tool for tool in recorded_tools if tool.get("name") in current_names), *extra_tools]


# The beginning of a session's requests: built for a new session, reused for a resumed one.


def find_last_model(loaded: LoadedSession | None, catalog: ModelCatalog) -> str | None:
    """Return the model that the session used last, or None if it is new or names none.

    If the session is from another program, this is the most recent model that answered and is in
    the catalog.
    """
    if loaded is None:
        return None
    model = read_recorded_opening(loaded).get("model")
    if isinstance(model, str) and model:
        return model
    return next((m for m in answered_by(loaded) if catalog.find(m) is not None), None)


def asked_last(loaded: LoadedSession) -> str | None:
    """Return the model name in the last answered request, or None if none was answered.

    A gateway may report a different name in its response.
    """
    for entry in reversed(loaded.messages):
        message = entry.get("message") if entry.get("type") == "assistant" else None
        if isinstance(message, dict) and message.get("model") != SYNTHETIC_MODEL:
            name = entry.get("requestedModel") or message.get("model")
            return name if isinstance(name, str) else None
    return None


def answered_by(loaded: LoadedSession) -> Iterator[str]:
    """Yield the models that answered, most recent first."""
    messages = (m.get("message") for m in reversed(loaded.messages) if m.get("type") == "assistant")
    names = (message.get("model") for message in messages if isinstance(message, dict))
    return (name for name in names if isinstance(name, str) and name != SYNTHETIC_MODEL)


class RequestBeginning(Struct, frozen=True, kw_only=True):
    """The beginning of all requests in this run, and the notices to show before the first."""

    request: ModelRequest
    may_grow: bool
    # True if the requests in the transcript began the same way.
    is_as_recorded: bool = False
    notices: tuple[str, ...] = ()

    def tools_of(self, current_tools: list[Json]) -> list[Json]:
        """Return the recorded tools that are still in `current_tools`, followed by new ones."""
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
        notices=()
        if loaded is None
        else describe_cache_loss(loaded, request.model, result.changed, catalog),
    )


def read_recorded_opening(loaded: LoadedSession) -> Json:
    """Return the transcript entry with the hashes of the session's opening, or an empty dict."""
    return loaded.side.current.get("prompt-hashes", {})


def as_before(
    request: ModelRequest, options: Options, prompts: Prompts, record: Json | None, style: str = ""
) -> TakenUp:
    """Return the beginning of the requests, reusing what the session recorded."""
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
    """Return whether `record` has the values of `expected`, whichever version of clew wrote it."""
    return record is not None and all(
        record.get(key) == value for key, value in expected.items() if key != "version"
    )


def describe_cache_loss(
    loaded: LoadedSession, model: str, changed: tuple[str, ...], catalog: ModelCatalog
) -> tuple[str, ...]:
    """Return a notice about the cost of a change that invalidates the service's prompt cache.

    The notice is shown before the next request.
    """
    last = find_last_size(loaded.messages)
    before = asked_last(loaded) or model
    if not changed and before != model and catalog.entry(before).id != model:
        changed = ("the model",)
    if not changed or last is None or not last.total:
        return ()
    cost = estimate_recaching(last, model=model, before=before, at=get_timestamp(), catalog=catalog)
    if cost.extra_usd is not None and cost.extra_usd <= LEAST_NEWS_USD:
        return ()
    what = " and ".join(changed)
    return (f"{what} changed since the last request, so the prompt cache can't be used: {cost}",)
