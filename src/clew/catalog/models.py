"""The shape of a model's entry. Owns the types only; the facts are in `table`, the search in `lookup`.

An entry says what a request to the model may hold. Every fact may be unknown (None), and unknown is
never read as nothing, nor as zero: a request then leaves the choice to the service.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.catalog.prices import Price

ThinkingMode: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]


class Model(Struct, frozen=True, kw_only=True):
    """One model; `id` is what a request names, `prices` are in the order of their dates."""

    id: str
    name: str
    family: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    # What a request asks for when nobody says otherwise.
    default_output: int | None = None
    thinking: tuple[ThinkingMode, ...] | None = None
    effort: tuple[EffortLevel, ...] | None = None
    # How long its service keeps what it cached, where that is neither five minutes nor an hour.
    cache_seconds: float | None = None
    prefill: bool | None = None
    system_in_messages: bool | None = None
    images: bool | None = None
    pdfs: bool | None = None
    # Whether it takes definitions of tools that are loaded when a result refers to them.
    deferred_tools: bool | None = None
    # Whether each of its thoughts is bound to all that stood before it, and refused behind anything else.
    binds_thinking: bool | None = None
    # Betas without which the model lacks something that clew uses.
    betas: tuple[str, ...] = ()
    # The beta that gives this model a window of a million tokens, where it has none of itself.
    million_beta: str | None = None
    prices: tuple[Price, ...] = ()

    @property
    def known(self) -> bool:
        return self.context_window is not None


def unknown_model(model_id: str) -> Model:
    """A model nobody has described: usable, with nothing assumed of it."""
    return Model(id=model_id, name=model_id)
