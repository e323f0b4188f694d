"""The services of one session: each request goes to the service that its model's name selects.

A service is opened when the first request goes to it. Owns the names: a service receives its own
model IDs, and responses contain the full names (`openai/gpt-6-sol`). A key goes only to the service
that it belongs to, because each service has its own endpoint and headers. Must never use a service
that the model's name does not select.

Decision: docs/decisions/332-services.md
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model, make_unknown_model
from clew.core.catalog.services import ServiceRow
from clew.core.json_object import Json
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Attempt, Description, Failure, ModelRequest
from clew.providers.endpoint import Endpoint
from clew.providers.failure_kinds import refuses_tools
from clew.providers.message_threads import Threads
from clew.providers.wrapped import WrappedAttempt
from clew.system.transport.seam import Transport

OpenRow = Callable[[ServiceRow], AnthropicProvider]


class ServedCatalog(ModelCatalog):
    """The models of one service under the IDs that the service itself uses."""

    def __init__(self, catalog: ModelCatalog, service: str) -> None:
        super().__init__((), {})
        self._catalog = catalog
        self._service = service

    def find(self, name: str) -> Model | None:
        entry = self._catalog.find(f"{self._service}/{name}")
        return None if entry is None else replace(entry, id=self._plain(entry.id))

    def entry(self, name: str) -> Model:
        return self.find(name) or make_unknown_model(name)

    def _plain(self, full_name: str) -> str:
        return full_name.removeprefix(f"{self._service}/")


class Router:
    """All services of a session as one provider. `first` serves names without a service."""

    def __init__(
        self,
        first: AnthropicProvider,
        catalog: ModelCatalog,
        open_row: OpenRow | None = None,
        home: str = "",
    ) -> None:
        self.first = first
        self._catalog = catalog
        self._open_row = open_row
        self._home = home
        # Models that turned out not to accept tools, until the user has been told.
        self.without_tools: list[str] = []
        self._opened: dict[str, AnthropicProvider] = {"": first}
        if home:
            self._opened[home] = first
        elif first.endpoint.is_default:
            self._opened["anthropic"] = first

    def _service(self, name: str) -> tuple[str, str]:
        """Return the name of a model's service, empty for the first, and its ID for the model."""
        if self._open_row is None:
            return "", name
        return self._catalog.locate(name)

    def serving(self, name: str) -> AnthropicProvider:
        """Return the provider for a model, opening it if necessary."""
        return self._provider(self._service(name)[0])

    def _provider(self, service: str) -> AnthropicProvider:
        provider = self._opened.get(service)
        if provider is None:
            assert self._open_row is not None
            provider = self._open_row(self._catalog.services[service])
            self._opened[service] = provider
        return provider

    def reopen(self, row: ServiceRow) -> None:
        """Replace the open provider of a service."""
        assert self._open_row is not None
        provider = self._open_row(row)
        self._opened[row.name] = provider
        if row.name == self._home:
            self.first = self._opened[""] = provider

    def endpoint_for(self, name: str) -> Endpoint:
        return self.serving(name).endpoint

    def gate_key(self, name: str) -> str:
        """Return the key of a model's rate limit: each service has its own."""
        return self._service(name)[0]

    def providers(self) -> Iterator[AnthropicProvider]:
        """Yield the providers opened so far."""
        yield from dict.fromkeys(self._opened.values())

    @property
    def is_function(self) -> bool:
        return self.first.is_function

    @property
    def transport(self) -> Transport:
        return self.first.transport

    def threads_for(self, name: str) -> Threads | None:
        return self.serving(name).threads

    def stream(self, request: ModelRequest) -> Attempt:
        service, model = self._service(request.model)
        named = replace(request, model=model)
        can_call = not request.tools or self._catalog.entry(request.model).tools
        if can_call is False:
            attempt = self._stream_as_text(service, named)
        else:
            attempt = self._provider(service).stream(named)
        if can_call is None and not self._provider(service).endpoint.is_default:

            def without_tools() -> Attempt:
                known = replace(self._catalog.entry(request.model), tools=False)
                self._catalog.learn(known)
                self.without_tools.append(request.model)
                return self._stream_as_text(service, named)

            attempt = UncertainAttempt(attempt, without_tools)
        # The names of Anthropic's models need no service.
        return RenamedAttempt(attempt, service) if service not in ("", "anthropic") else attempt

    def _stream_as_text(self, service: str, request: ModelRequest) -> Attempt:
        # Most models can call tools.
        from clew.providers.text_tools import TextToolsAttempt, in_text

        attempt = self._provider(service).stream(in_text(request))
        return TextToolsAttempt(attempt, request.tools or [])

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        service, model = self._service(request.model)
        return await self._provider(service).count_tokens(replace(request, model=model))

    def adjustments(self, request: ModelRequest) -> tuple[str, ...]:
        """Return notes on what was changed in a request because the model does not support it."""
        service, model = self._service(request.model)
        return self._provider(service).adjustments(replace(request, model=model))

    def describe(self) -> Description:
        return self.first.describe()

    async def aclose(self) -> None:
        for provider in self.providers():
            await provider.aclose()


class UncertainAttempt(WrappedAttempt):
    """An attempt with a model that may reject tools; if so, another one follows without them."""

    def __init__(self, attempt: Attempt, without_tools: Callable[[], Attempt]) -> None:
        super().__init__(attempt)
        self._without_tools: Callable[[], Attempt] | None = without_tools

    async def __anext__(self) -> Json | Failure:
        event = await self._attempt.__anext__()
        again, self._without_tools = self._without_tools, None
        if again is None or not isinstance(event, Failure) or not refuses_tools(event):
            return event
        await self._attempt.aclose()
        self._attempt = again()
        return await self._attempt.__anext__()


class RenamedAttempt(WrappedAttempt):
    """An attempt whose message carries the full name of its model."""

    def __init__(self, attempt: Attempt, service: str) -> None:
        super().__init__(attempt)
        self._service = service

    async def __anext__(self) -> Json | Failure:
        event = await self._attempt.__anext__()
        if isinstance(event, dict) and event.get("type") == "message_start":
            message = event.get("message")
            model = message.get("model") if isinstance(message, dict) else None
            if isinstance(message, dict) and isinstance(model, str):
                return event | {"message": message | {"model": f"{self._service}/{model}"}}
        return event
