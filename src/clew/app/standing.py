"""What a session's requests begin with: made anew for a new one, taken up for one that goes on."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.app.stamps import now
from clew.catalog.lookup import Catalog
from clew.context.prompts import Prompts, Standing, TakenUp, digest, same_tools
from clew.messages.wording import SYNTHETIC_MODEL
from clew.options import Options
from clew.providers.base import Request
from clew.session.recache import last_size, recached
from clew.transcript.load import Loaded
from clew.transcript.record import Recorder
from clew.version import VERSION

Json: TypeAlias = dict[str, Any]


def spoke_with(loaded: Loaded | None, catalog: Catalog) -> str | None:
    """The model a session was asked to speak with last; of a session of another program, the one that
    answered last, if it is known here."""
    if loaded is None:
        return None
    named = recorded(loaded).get("model")
    if isinstance(named, str) and named:
        return named
    return next((m for m in answered_by(loaded) if catalog.find(m) is not None), None)


def asked_last(loaded: Loaded) -> str | None:
    """The model that gave the last answer, by the name under which it was asked: a gateway may sign with
    another."""
    for entry in reversed(loaded.messages):
        said = entry.get("message") if entry.get("type") == "assistant" else None
        if isinstance(said, dict) and said.get("model") != SYNTHETIC_MODEL:
            name = entry.get("requestedModel") or said.get("model")
            return name if isinstance(name, str) else None
    return None


def answered_by(loaded: Loaded) -> Iterator[str]:
    """The models that answered, the last one first."""
    said = (m.get("message") for m in reversed(loaded.messages) if m.get("type") == "assistant")
    names = (each.get("model") for each in said if isinstance(each, dict))
    return (name for name in names if isinstance(name, str) and name != SYNTHETIC_MODEL)


class Beginning(Struct, frozen=True, kw_only=True):
    """What all of this run's requests begin as, and what is to be said before one is sent."""

    request: Request
    may_grow: bool
    # Whether that is what the requests of the log began as.
    is_as_recorded: bool = False
    notices: tuple[str, ...] = ()

    def tools_of(self, there: list[Json]) -> list[Json]:
        """The tools to offer while those in `there` exist: as they were, and new ones behind."""
        return same_tools(self.request.tools or [], there, may_grow=self.may_grow)


def taken_up(
    made: Request,
    options: Options,
    prompts: Prompts,
    recorder: Recorder,
    loaded: Loaded | None,
    catalog: Catalog,
    style: str = "",
) -> Beginning:
    record = None if loaded is None or not options.keeps_prompt else recorded(loaded)
    found = as_before(made, options, prompts, record, style)
    if options.persists and options.keeps_prompt:
        named = prompts.record_of(found.standing)
        if named is not None and not is_named(record, named):
            recorder.prompt_hashes(**named)
    return Beginning(
        request=replace(made, system=found.standing.system, tools=found.standing.tools),
        may_grow=found.may_grow,
        is_as_recorded=bool(record) and not found.changed,
        notices=() if loaded is None else told(loaded, made.model, found.changed, catalog),
    )


def recorded(loaded: Loaded) -> Json:
    """The line that names what the session began with; empty if it has none."""
    return loaded.side.current.get("prompt-hashes", {})


def as_before(
    made: Request, options: Options, prompts: Prompts, record: Json | None, style: str = ""
) -> TakenUp:
    """What requests begin with: `made`, as far as the session does not stand on another."""
    asked = [options.system_prompt, options.append_system_prompt]
    fresh = Standing(
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


def told(loaded: Loaded, model: str, changed: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
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
