"""The next request out of the story: what is new is normalised, what was sent before stays as it was.

Owns the growing projection of one history to one model. Begins anew when the history is another one
than before (a withdrawal, a rewind), because then nothing of the old prefix may be trusted.
"""

from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.engine.story import Story
from clew.normalize.block_rules import Violation
from clew.normalize.for_api import Outgoing
from clew.normalize.repairs import Repair
from clew.normalize.target import Target
from clew.providers.base import Request

Json: TypeAlias = dict[str, Any]


class Prepared(Struct, frozen=True, kw_only=True):
    """A request, what the history needed to become one, and what the service would refuse in it."""

    request: Request
    repairs: list[Repair]
    violations: list[Violation]


class Requests:
    """`template` is the request without its messages."""

    def __init__(self, template: Request, target: Target) -> None:
        self._template = template
        self._target = target
        self._outgoing = self._begin()
        self._revision = 0
        self._taken = 0

    def _begin(self) -> Outgoing:
        return Outgoing(self._target, tools=self._template.tools)

    def __call__(self, story: Story) -> Prepared:
        if story.revision != self._revision:
            self._outgoing, self._taken = self._begin(), 0
            self._revision = story.revision
        history = story.history
        self._outgoing.extend(history[i] for i in range(self._taken, len(history)))
        self._taken = len(history)
        projected = self._outgoing.request()
        return Prepared(
            request=replace(self._template, messages=projected.messages),
            repairs=projected.repairs,
            violations=projected.violations,
        )
