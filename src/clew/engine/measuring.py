"""How much of the window a request takes, before it leaves: estimated, and counted where that decides.

The anchor is what the service counted last; what came since is estimated, and the estimate learns. Far
from the limit nothing is said of it. Where the answer's own room decides, the estimate does, in steps, so
that one turn asks for as much room as the next. Where it is decided whether to send at all, the service
is asked to count.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.catalog.lookup import Catalog
from clew.messages.history import History
from clew.messages.wording import SYNTHETIC_MODEL
from clew.normalize.select import begun_at, is_micro
from clew.normalize.tokens import content_tokens, message_tokens, tool_tokens
from clew.providers.base import Failure, Request
from clew.providers.request_body import output_limit
from clew.session.estimate import Estimator
from clew.session.spending import Tokens, tokens_of

Json: TypeAlias = dict[str, Any]
Count: TypeAlias = Callable[[Request], Awaitable[int | Failure]]

# Of the window: from here on the service counts, and this much an estimate may be off.
CLOSE = 0.85
MARGIN = 0.05
STEP_TOKENS = 8_192


class Measure:
    """Gives a request the size of its input where a decision hangs on it."""

    def __init__(self, count: Count, catalog: Catalog) -> None:
        self._count = count
        self._catalog = catalog
        self._estimator = Estimator()
        self._guess: tuple[int, int] | None = None  # what was known, what was estimated on top

    async def __call__(self, request: Request, history: History) -> Request:
        model = self._catalog.entry(request.model)
        window = model.context_window
        known, since, freed = anchored(history)
        self._learn(known)
        raw = message_tokens(since) if known else whole(request)
        total = max(0, known.total - freed) if known else 0
        self._guess = (total, raw)
        size = total + round(raw * self._estimator.factor)
        if window is None or size + output_limit(request, model) <= window * (1 - MARGIN):
            return request
        if size < window * CLOSE:
            return replace(request, input_tokens=_stepped(size))
        counted = await self._count(request)
        return replace(request, input_tokens=size if isinstance(counted, Failure) else counted)

    def estimate(self, request: Request, history: History) -> int:
        """About how long the input of a request is; nobody is asked."""
        known, since, freed = anchored(history)
        if known is None:
            return round(whole(request) * self._estimator.factor)
        return max(0, known.total - freed) + round(message_tokens(since) * self._estimator.factor)

    def _learn(self, known: Tokens | None) -> None:
        """Holds the last estimate against what the service counted for it."""
        if known is not None and self._guess is not None:
            total, raw = self._guess
            if known.prompt > total:
                self._estimator.learn(raw, known.prompt - total)
        self._guess = None


def anchored(history: History) -> tuple[Tokens | None, list[Json], int]:
    """What the service counted with the last answer, what was said since, as messages, and about
    how much was taken out since. What it counted before a compaction says nothing any more."""
    since: list[Json] = []
    freed = 0
    for place in range(len(history) - 1, begun_at(history) - 1, -1):
        entry = history[place]
        freed += _freed(entry)
        message = entry.get("message")
        if entry.get("type") == "assistant" and isinstance(message, dict):
            tokens = tokens_of(message.get("usage"))
            if message.get("model") != SYNTHETIC_MODEL and tokens.total:
                return tokens, since, freed
        elif isinstance(message, dict):
            since.append(message)
        else:
            since += [p for p in _rendered(entry) if isinstance(p, dict)]
    return None, since, 0


def _freed(entry: Json) -> int:
    metadata = entry.get("microcompactMetadata") if is_micro(entry) else None
    saved = metadata.get("tokensSaved") if isinstance(metadata, dict) else None
    return saved if type(saved) is int else 0


def _rendered(entry: Json) -> Sequence[Any]:
    rendered = entry.get("rendered")
    return rendered if isinstance(rendered, list) else ()


def whole(request: Request) -> int:
    """About how long the input of a request is, all of it."""
    system = request.system
    told = content_tokens(system) + sum(map(tool_tokens, request.tools or ()))
    return told + message_tokens(request.messages)


def _stepped(size: int) -> int:
    """Rounded up, so that the room for the answer does not change with every turn."""
    return -(-round(size * (1 + MARGIN)) // STEP_TOKENS) * STEP_TOKENS
