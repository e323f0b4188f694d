"""The model that a session speaks with, and how it thinks: chosen at the start, changed between requests."""

from msgspec.structs import replace

from clew.app.asking import target_of
from clew.catalog.lookup import Catalog
from clew.catalog.models import Model
from clew.engine.requests import Requests
from clew.providers.base import Effort, Thinking
from clew.providers.endpoint import Endpoint
from clew.session.state import ModelChosen
from clew.session.state import Session as Spending


class Speaking:
    """`model` is the one that the next request names."""

    def __init__(
        self,
        model: Model,
        requests: Requests,
        spending: Spending,
        catalog: Catalog,
        endpoint: Endpoint,
    ) -> None:
        self.model = model
        self.catalog = catalog
        self._endpoint = endpoint
        self._requests = requests
        self._spending = spending

    def choose(self, name: str) -> Model:
        """Goes over to another model; what was said so far goes with the next request."""
        self.model = self.catalog.entry(name)
        template = replace(self._requests.template, model=self.model.id)
        self._requests.change(template, target_of(self.model, self._endpoint))
        self._spending.change(ModelChosen(model=self.model.id))
        return self.model

    def think(self, thinking: Thinking | None) -> None:
        """How the model thinks from the next request on; None leaves it to what is known of it."""
        template = replace(self._requests.template, thinking=thinking)
        self._requests.change(template, target_of(self.model, self._endpoint))

    @property
    def effort_now(self) -> Effort | None:
        return self._requests.template.effort

    def effort(self, effort: Effort | None) -> None:
        template = replace(self._requests.template, effort=effort)
        self._requests.change(template, target_of(self.model, self._endpoint))
