"""The next request out of the story: what is new is normalised, what was sent before stays as it was.

Owns the growing projection of one history to one model. Begins anew when the history is another one
than before (a withdrawal, a rewind), because then nothing of the old prefix may be trusted.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.engine.story import Story
from clew.normalize.block_rules import Violation
from clew.normalize.for_api import Outgoing, Projected
from clew.normalize.offered import MARK, offered, references
from clew.normalize.repairs import Repair
from clew.normalize.target import Target
from clew.providers.base import Request

Json: TypeAlias = dict[str, Any]


class Prepared(Struct, frozen=True, kw_only=True):
    """A request, what the history needed to become one, and what the service would refuse in it."""

    request: Request
    repairs: list[Repair]
    violations: list[Violation]
    # Those of the repairs that were not there before.
    news: list[Repair] = []


class Requests:
    """`template` is the request without its messages; `tools` are asked for each time, since a
    session may gain some, and a conversation may have found some."""

    def __init__(
        self,
        template: Request,
        target: Target,
        tools: Callable[[], list[Json]] | None = None,
        mended: Iterable[Repair] = (),
    ) -> None:
        """`mended` are the repairs that the session's log tells of already."""
        self._template = template
        self._mended = set(mended)
        self._target = target
        self._definitions = tools or (lambda: template.tools or [])
        self._revealed: dict[str, None] = {}
        self._tools = self._offered()
        self._outgoing = self._begin()
        self._revision = 0
        self._taken = 0

    def _offered(self) -> list[Json]:
        return offered(
            self._definitions(), self._revealed, takes_deferred=self._target.deferred_tools
        )

    def _begin(self) -> Outgoing:
        return Outgoing(self._target, tools=self._tools)

    @property
    def template(self) -> Request:
        return self._template

    def change(self, template: Request, target: Target) -> None:
        """Another model, or other instructions, from the next request on."""
        if target != self._target or template.tools != self._template.tools:
            # What was made for the one model says nothing of what the other takes.
            self._revision = -1
        self._template, self._target = template, target

    def deferred(self) -> list[str]:
        """The tools that a request of this session names and does not describe."""
        return [str(one["name"]) for one in self._definitions() if one.get(MARK)]

    def offers(self, name: str) -> bool:
        """Whether requests name a tool: a session may be older than it."""
        return any(one["name"] == name for one in self._definitions())

    def projected(self, entries: Iterable[Json]) -> Projected:
        """The messages that a request of other entries would have."""
        outgoing = self._begin()
        outgoing.extend(entries)
        return outgoing.request()

    def __call__(self, story: Story) -> Prepared:
        history = story.history
        if story.revision != self._revision:
            self._revealed, self._taken = {}, 0
        new = [history[i] for i in range(self._taken, len(history))]
        self._revealed.update(dict.fromkeys(references(new)))
        tools = self._offered()
        if story.revision != self._revision or tools != self._tools:
            # What may stand in messages depends on the tools, so the messages are made anew.
            self._tools, self._revision = tools, story.revision
            self._outgoing, new = self._begin(), list(history)
        self._outgoing.extend(story.edits.apply(new))
        self._taken = len(history)
        projected = self._outgoing.request()
        news = [repair for repair in projected.repairs if repair not in self._mended]
        self._mended.update(news)
        return Prepared(
            request=replace(self._template, messages=projected.messages, tools=tools),
            repairs=projected.repairs,
            violations=projected.violations,
            news=news,
        )
