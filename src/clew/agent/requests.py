"""Build the next request from the story: normalize new messages and keep sent ones unchanged.

This module maintains a growing projection of one history for one model. The projection starts over
when the history is replaced (by a withdrawal or a rewind), because the old prefix is then invalid.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.cache_watch import last_answer_id
from clew.agent.story import Story
from clew.core.catalog.lookup import ModelCatalog
from clew.core.json_object import Json
from clew.core.ledger.spending import Estimator, TokenCounts, tokens_of
from clew.core.messages.encoding import decode, encode
from clew.core.messages.history import History
from clew.core.messages.text import SYNTHETIC_MODEL
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.for_api import Outgoing, Projected
from clew.core.normalize.prefix import (
    Bound,
    RequestVerdict,
    Thoughts,
    binds_nothing,
    digest_system,
    digest_tools,
)
from clew.core.normalize.repairs import Repair
from clew.core.normalize.select import find_beginning, is_micro
from clew.core.normalize.target import MARK, Target, find_references, select_definitions
from clew.core.normalize.tokens import (
    estimate_content_tokens,
    estimate_message_tokens,
    estimate_tool_tokens,
)
from clew.core.normalize.validate import validate
from clew.providers.base import Failure, ModelRequest, Off, PrepareFunction
from clew.providers.request_body import choose_output_limit

# The size of a request before it is sent: estimated, or counted if a decision depends on it.


Count: TypeAlias = Callable[[ModelRequest], Awaitable[int | Failure]]

# Fractions of the window: from CLOSE on, the service counts; MARGIN allows for estimation errors.
CLOSE = 0.85
MARGIN = 0.05
STEP_TOKENS = 8_192
# No text has more characters per token, on average over a whole history.
MOST_CHARS = 12


class Measure:
    """Adds the input size to a request if a decision depends on the size."""

    def __init__(self, count: Count, catalog: ModelCatalog) -> None:
        self._count = count
        self._catalog = catalog
        self._estimator = Estimator()
        # The response whose usage is implausible for the text before it.
        self._distrusted: object = None
        self._guess: tuple[int, int] | None = (
            None  # the known tokens, and the estimate for the rest
        )

    async def __call__(self, request: ModelRequest, history: History) -> ModelRequest:
        model = self._catalog.entry(request.model)
        window = model.context_window
        counts, since, freed = anchored(history, self._distrusted)
        self._learn(counts)
        raw = estimate_message_tokens(since) if counts else estimate_input_tokens(request)
        total = max(0, counts.total - freed) if counts else 0
        self._guess = (total, raw)
        size = total + round(raw * self._estimator.factor)
        if window is None or size + choose_output_limit(request, model) <= window * (1 - MARGIN):
            return request
        if size < window * CLOSE:
            return replace(request, input_tokens=_stepped(size))
        counted = await self._count(request)
        return replace(request, input_tokens=size if isinstance(counted, Failure) else counted)

    def estimate(self, request: ModelRequest, history: History) -> int:
        """Estimate the input size of a request without asking the service."""
        counts, since, freed = anchored(history, self._distrusted)
        if counts is None:
            return round(estimate_input_tokens(request) * self._estimator.factor)
        return max(0, counts.total - freed) + round(
            estimate_message_tokens(since) * self._estimator.factor
        )

    def check_usage(self, history: History, text_chars: int) -> None:
        """Ignore the last recorded usage if a text of this length can't have so few tokens."""
        for place in range(len(history) - 1, find_beginning(history) - 1, -1):
            counts = _counted(history[place])
            if counts is not None:
                if counts.total * MOST_CHARS < text_chars:
                    self._distrusted = history[place].get("uuid")
                return

    def _learn(self, counts: TokenCounts | None) -> None:
        """Compare the last estimate with the service's count and adjust the estimator."""
        if counts is not None and self._guess is not None:
            total, raw = self._guess
            if counts.prompt > total:
                self._estimator.learn(raw, counts.prompt - total)
        self._guess = None


def anchored(
    history: History, distrusted: object = None
) -> tuple[TokenCounts | None, list[Json], int]:
    """Return the last usage that the service counted, and what changed since then.

    The changes are the messages added and the number of tokens removed. Counts from before a
    compaction are ignored, and so are those up to and including the response `distrusted`.
    """
    since: list[Json] = []
    freed = 0
    for place in range(len(history) - 1, find_beginning(history) - 1, -1):
        entry = history[place]
        freed += _freed(entry)
        message = entry.get("message")
        if entry.get("type") == "assistant" and isinstance(message, dict):
            counts = _counted(entry)
            if counts is not None and entry.get("uuid") == distrusted:
                break
            if counts is not None:
                return counts, since, freed
        elif isinstance(message, dict):
            since.append(message)
        else:
            since += [p for p in _rendered(entry) if isinstance(p, dict)]
    return None, since, 0


def _counted(entry: Json) -> TokenCounts | None:
    """Return the usage that the service counted for a response, or None."""
    message = entry.get("message") if entry.get("type") == "assistant" else None
    if not isinstance(message, dict) or message.get("model") == SYNTHETIC_MODEL:
        return None
    counts = tokens_of(message.get("usage"))
    return counts if counts.total else None


def _freed(entry: Json) -> int:
    metadata = entry.get("microcompactMetadata") if is_micro(entry) else None
    saved = metadata.get("tokensSaved") if isinstance(metadata, dict) else None
    return saved if type(saved) is int else 0


def _rendered(entry: Json) -> Sequence[Any]:
    rendered = entry.get("rendered")
    return rendered if isinstance(rendered, list) else ()


def estimate_input_tokens(request: ModelRequest) -> int:
    """Estimate the input size of a complete request."""
    system = request.system
    fixed_tokens = estimate_content_tokens(system) + sum(
        map(estimate_tool_tokens, request.tools or ())
    )
    return fixed_tokens + estimate_message_tokens(request.messages)


def _stepped(size: int) -> int:
    """Round up in steps, so that the output limit does not change with every turn."""
    return -(-round(size * (1 + MARGIN)) // STEP_TOKENS) * STEP_TOKENS


class Prepared(Struct, frozen=True, kw_only=True):
    """A request, the repairs to the history that it needed, and what the service would reject."""

    request: ModelRequest
    repairs: list[Repair]
    violations: list[RequestViolation]
    # The repairs that have not been reported before.
    news: list[Repair] = []
    # What the response's thinking is bound to; None if it is not bound.
    bound: Bound | None = None


class Requests:
    """Builds a session's requests from a template that has no messages.

    The tools are read for each request, because a session may gain tools and ToolSearch may load
    some.
    """

    def __init__(
        self,
        template: ModelRequest,
        target: Target,
        tools: Callable[[], list[Json]] | None = None,
        known: Iterable[Repair] = (),
        *,
        binds: Callable[[str], bool] = binds_nothing,
        is_as_recorded: bool = False,
        target_of: Callable[[str], Target] | None = None,
        edit: PrepareFunction | None = None,
    ) -> None:
        """Set up the requests of a session.

        `known` contains the repairs that the transcript already reports. `binds` returns whether a
        model binds its thinking. `is_as_recorded` says that the template equals the template of the
        recorded requests. `target_of` returns what a fallback model accepts. `edit` may change the
        messages of each request, but not the history.
        """
        self._template = template
        self._reported = set(known)
        self._thoughts = Thoughts(
            binds=binds, repairs=self._reported, is_as_recorded=is_as_recorded
        )
        self._left_out: frozenset[str] = frozenset()
        self._system = digest_system(template.system)
        self._target = target
        self._edit = edit
        self._target_of = target_of or (lambda _: target)
        self._definitions = tools or (lambda: template.tools or [])
        self._revealed: dict[str, None] = {}
        self._tools = self._offered()
        self._tools_digest = digest_tools(self._tools)
        self._outgoing = self._begin()
        self._revision = 0
        self._taken = 0

    def _offered(self) -> list[Json]:
        return select_definitions(
            self._definitions(), self._revealed, takes_deferred=self._target.deferred_tools
        )

    def _begin(self) -> Outgoing:
        return Outgoing(self._target, tools=self._tools, left_out=self._left_out)

    @property
    def template(self) -> ModelRequest:
        return self._template

    def change(self, template: ModelRequest, target: Target) -> None:
        """Use a different model or different instructions from the next request on."""
        if target != self._target or template.tools != self._template.tools:
            # A projection for one model says nothing about what another accepts.
            self._revision = -1
        if template.system != self._template.system:
            self._system = digest_system(template.system)
        self._template, self._target = template, target

    def for_fallback(self, story: Story, model: str) -> Prepared:
        """Return the next request for a fallback model; later ones use the usual model again."""
        usual = self._template, self._target
        self.change(replace(self._template, model=model), self._target_of(model))
        try:
            return self(story)
        finally:
            self.change(*usual)

    def continues(self, story: Story, request: ModelRequest) -> bool:
        """Return whether the next request would begin like `request`, as far as is known now."""
        now = self._template
        fixed = ("model", "system", "thinking", "effort", "cache", "betas", "output_format")
        return (
            story.revision == self._revision
            and all(getattr(now, name) == getattr(request, name) for name in fixed)
            and self._offered() == request.tools
        )

    @property
    def binds_thinking(self) -> bool:
        """True if thinking is bound to the preceding messages."""
        return self._target.binds_thinking

    def deferred(self) -> list[str]:
        """Return the names of the tools that requests list without a description."""
        return [
            str(definition["name"]) for definition in self._definitions() if definition.get(MARK)
        ]

    def offers(self, name: str) -> bool:
        """Return whether requests offer a tool; those of an older session may not."""
        return any(definition["name"] == name for definition in self._definitions())

    def projected(self, entries: Iterable[Json]) -> Projected:
        """Return the messages of a request that is built from `entries` instead of the history."""
        outgoing = self._begin()
        outgoing.extend(entries)
        return outgoing.request()

    def __call__(self, story: Story) -> Prepared:
        history = story.history
        if story.revision != self._revision:
            self._revealed, self._taken = {}, 0
        new = [history[i] for i in range(self._taken, len(history))]
        self._revealed.update(dict.fromkeys(find_references(new)))
        tools = self._offered()
        if story.revision != self._revision or tools != self._tools:
            # The valid messages depend on the tools, so the messages are built again.
            self._tools, self._revision = tools, story.revision
            self._tools_digest = digest_tools(tools)
            self._outgoing, new = self._begin(), list(history)
        self._thoughts.learn(new)
        self._outgoing.extend(story.edits.apply(new))
        self._taken = len(history)
        projected, look, withheld = self._fitting(story)
        news = [repair for repair in projected.repairs if repair not in self._reported]
        self._reported.update(news)
        self._reported.update(withheld)
        messages, violations = projected.messages, projected.violations
        if self._edit is not None:
            messages = edit_messages(self._edit, decode(encode(messages)))
            violations = validate(messages, self._target, tools=tools)
        return Prepared(
            request=replace(
                self._template,
                messages=messages,
                tools=tools,
                thought_binding=look.behavior,
                compares_with=last_answer_id(history),
            ),
            repairs=projected.repairs,
            violations=violations,
            news=[*news, *withheld],
            bound=self._thoughts.bound,
        )

    def _fitting(self, story: Story) -> tuple[Projected, RequestVerdict, list[Repair]]:
        """Return the messages, leaving out thinking blocks that the service would reject.

        Also return the verdict on the thinking blocks and the repairs to report.
        """
        withheld: list[Repair] = []
        while True:
            projected = self._outgoing.request()
            look = self._thoughts.look(
                projected.messages,
                system=self._system,
                tools=self._tools_digest,
                reader=self._template.model,
                may_control=self._may_control,
            )
            withheld += look.repairs
            if look.leave_out == self._left_out:
                return projected, look, withheld
            self._left_out = look.leave_out
            self._outgoing = self._begin()
            self._outgoing.extend(story.edits.apply(story.history))

    @property
    def _may_control(self) -> bool:
        return self._target.binding_control and not isinstance(self._template.thinking, Off)

    def refused(self, words: str) -> bool:
        """Handle a rejection with this message; return whether the next request will differ."""
        return self._thoughts.refused(words, may_control=self._may_control)

    def dropped(self, answer: Json) -> list[Repair]:
        """Note which thinking blocks the service dropped from the last request.

        Return those that were not reported before.
        """
        news = self._thoughts.dropped(answer.get("input_transformations"))
        self._reported.update(news)
        return news

    @property
    def bound(self) -> Bound | None:
        """The prefix to which the latest response's thinking is bound; None if it is not bound."""
        return self._thoughts.bound


def edit_messages(edit: PrepareFunction, messages: list[Json]) -> list[Json]:
    """Return the messages as the host program's function edits them.

    Raise TypeError if the function does not return a list of messages.
    """
    try:
        edited: object = edit(messages)
        if not isinstance(edited, list):
            raise TypeError(f"expected a list of messages, got {type(edited).__name__}")
        for index, message in enumerate(edited):
            if not isinstance(message, dict):
                kind = type(message).__name__
                raise TypeError(f"expected each message to be a dict, got {kind} at index {index}")
    except Exception as error:
        error.add_note("(in the program's `prepare` function)")
        raise
    return edited
