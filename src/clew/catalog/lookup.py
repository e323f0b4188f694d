"""Finds a model's entry by any of the names it goes by; `added` takes in the ones a person adds.

Owns how ids are spelt on each platform. Must never guess: a name that only resembles a known one is
unknown, because a wrong window loses a conversation and a wrong price misleads quietly.

Decision: docs/decisions/081-cost-from-the-log.md
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from clew.catalog.models import Model, unknown_model
from clew.catalog.table import ALIASES, MODELS, SPELLINGS

MILLION_SUFFIX = "[1m]"
MILLION_TOKENS = 1_000_000

# us.anthropic.claude-x-20250101-v1:0 (Bedrock), claude-x@20250101 (Vertex), claude-x-latest.
_PREFIX = re.compile(r"^(?:[a-z-]+\.)?anthropic\.")
_SUFFIX = re.compile(r"(?:@\w+|-v\d+(?::\d+)?|-latest|-\d{8})+$")


def plain_id(name: str) -> str:
    """A model's id without what a platform or a date adds to it."""
    last = name.strip().rpartition("/")[2].lower()
    return _SUFFIX.sub("", _PREFIX.sub("", last))


class Catalog:
    """Entries by name; never changes."""

    def __init__(self, models: Iterable[Model], aliases: Mapping[str, str]) -> None:
        self._models = {model.id: model for model in models}
        self._aliases = {alias.lower(): model_id for alias, model_id in aliases.items()}

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(self._models.values())

    @property
    def aliases(self) -> Mapping[str, str]:
        return dict(self._aliases)

    def find(self, name: str) -> Model | None:
        """The entry `name` means, its `id` being what to send; None if nobody knows it."""
        wanted, million = _without_million(name.strip())
        meant = self._aliases.get(wanted.lower())
        entry = self._by_id(wanted) if meant is None else self._models.get(meant)
        if entry is None:
            return None
        if meant is None:
            # Dates and platforms pin something: what was asked for is what is sent.
            entry = replace(entry, id=wanted)
        return _widened(entry) if million else entry

    def entry(self, name: str) -> Model:
        """Like `find`; an unknown name gets an entry that assumes nothing."""
        return self.find(name) or unknown_model(_without_million(name.strip())[0])

    def _by_id(self, name: str) -> Model | None:
        plain = plain_id(name)
        return self._models.get(name) or self._models.get(SPELLINGS.get(plain, plain))


def _without_million(name: str) -> tuple[str, bool]:
    if name.lower().endswith(MILLION_SUFFIX):
        return name[: -len(MILLION_SUFFIX)], True
    return name, False


def _widened(entry: Model) -> Model:
    """The entry with the large window, where a beta gives it one."""
    if entry.million_beta is None:
        return entry
    return replace(entry, context_window=MILLION_TOKENS, betas=(*entry.betas, entry.million_beta))


CATALOG = Catalog(MODELS, ALIASES)


def known_models(settings: Mapping[str, Any]) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog with the models that the settings describe."""
    described = settings.get("models")
    if not isinstance(described, dict) or not described:
        return CATALOG, ()
    from clew.catalog.added import with_models  # most people add none

    catalog, problems = with_models(CATALOG, described)
    return catalog, tuple(problems)
