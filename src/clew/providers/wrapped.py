"""A wrapper around an attempt that changes its events."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping

from clew.core.json_object import Json
from clew.providers.base import Attempt, Failure


class WrappedAttempt(ABC):
    """An attempt that uses another attempt's connection; see `clew.providers.base.Attempt`."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def bytes_received(self) -> int:
        return self._attempt.bytes_received

    @property
    def request_id(self) -> str | None:
        return self._attempt.request_id

    @property
    def headers(self) -> Mapping[str, str]:
        return self._attempt.headers

    @property
    def refusal(self) -> Failure | None:
        return self._attempt.refusal

    def __aiter__(self) -> AsyncIterator[Json | Failure]:
        return self

    @abstractmethod
    async def __anext__(self) -> Json | Failure:
        """Return the next event, which may be derived from an event of the other attempt."""

    async def aclose(self) -> None:
        await self._attempt.aclose()
