"""The models that an administrator allows or denies.

An entry names a family (`opus`), a version (`opus-5` or `claude-opus-5`) or an ID. Unknown names
are compared like known ones, so a model that clew doesn't know is not exempt. This module does no
I/O.
"""

from collections.abc import Iterable

from msgspec import Struct

from clew.core.catalog.lookup import ModelCatalog, plain_id
from clew.core.catalog.models import Model

CLAUDE = "claude-"
FAST = "-fast"


class ModelLimits(Struct, frozen=True, kw_only=True):
    """The models that a session may use.

    `allowed` is None if every model is allowed. `is_exact` means that an ID allows no later
    versions of the model; `binds_default`, that the default model must be allowed too.
    """

    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    is_exact: bool = False
    binds_default: bool = False

    def describe_refusal(
        self, catalog: ModelCatalog, name: str, *, exempt: Iterable[str] = ()
    ) -> str:
        """Return why a model may not be used, or an empty string.

        `exempt` lists models that need not be among the allowed ones.
        """
        if self.allowed is None and not self.denied:
            return ""
        model = catalog.entry(name).id
        if any(covers(entry, model) for entry in self.denied):
            return f"{model}: this model is denied by deniedModels in the managed settings"
        if self.allowed is None or model in {catalog.entry(one).id for one in exempt}:
            return ""
        if any(_allows(entry, model, is_exact=self.is_exact) for entry in self.allowed):
            return ""
        names = ", ".join(self.allowed) or "only the default model"
        return f"{model}: this model is not in availableModels (allowed: {names})"

    def choose_default(self, catalog: ModelCatalog, default: str) -> str | None:
        """Return the model to use by default, or None if no model may be used."""
        exempt = () if self.binds_default else (default,)
        entries = self.allowed or ()
        for name in (default, *_name_models(catalog, entries), *_ids(catalog.models)):
            if not self.describe_refusal(catalog, name, exempt=exempt):
                return name
        return None


def _name_models(catalog: ModelCatalog, entries: Iterable[str]) -> Iterable[str]:
    """Yield the names of the models that the entries cover, in the order of the entries."""
    for entry in entries:
        if catalog.find(entry) is not None:
            yield entry
        elif covered := [one for one in _ids(catalog.models) if covers(entry, one)]:
            yield from covered
        elif "-" in entry or "/" in entry:
            yield entry


def _ids(models: Iterable[Model]) -> list[str]:
    return [model.id for model in models]


def covers(entry: str, model: str) -> bool:
    """Return whether an entry covers a model, in any spelling of the model's ID."""
    wanted, name = _strip(entry), _strip(model)
    is_family = wanted.isalpha() and wanted in plain_id(model).split("-")
    return is_family or (bool(wanted) and f"{name}-".startswith(f"{wanted}-"))


def _allows(entry: str, model: str, *, is_exact: bool) -> bool:
    """Return whether an entry allows a model. A path in the entry must match the model's path."""
    path = entry.strip().lower().rpartition("/")[0]
    if path and path != model.lower().rpartition("/")[0]:
        return False
    is_other = is_exact and not _strip(entry).isalpha() and _strip(entry) != _strip(model)
    return covers(entry, model) and not is_other


def _strip(name: str) -> str:
    """Return a model's name without vendor, path, date and other parts that vary."""
    plain = plain_id(name.strip().lower().removesuffix("[1m]")).removesuffix(FAST)
    return plain.removeprefix(CLAUDE)
