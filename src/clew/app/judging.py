"""What a call is judged by: the rules of the moment, the shell's folder, and what stands before it."""

from collections.abc import Callable
from typing import Any, TypeAlias

from clew.engine.story import Story
from clew.permissions.decision import Decision
from clew.permissions.in_session import SessionRules
from clew.permissions.provenance import Provenance

Json: TypeAlias = dict[str, Any]


class Judging:
    """`shell_folder` says where the shell is now. The history is labelled as far as a rule needs it."""

    def __init__(self, rules: SessionRules, story: Story, shell_folder: Callable[[], str]) -> None:
        self._rules = rules
        self._story = story
        self._shell_folder = shell_folder
        self._begin()

    def _begin(self) -> None:
        self._provenance = Provenance(self._rules.place)
        self._revision = self._story.revision
        self._taken = 0

    def __call__(self, block: Json) -> Decision:
        rules = self._rules
        before = self.untrusted() if rules.standing.rules.heeds_untrusted else ()
        return rules.judge(
            block["name"], block["input"], cwd=self._shell_folder(), untrusted=before
        )

    def untrusted(self) -> tuple[str, ...]:
        """Where the text came from that stands in the conversation and that nobody vouches for."""
        if self._story.revision != self._revision:
            self._begin()
        history = self._story.history
        self._provenance.extend(history[i] for i in range(self._taken, len(history)))
        self._taken = len(history)
        return self._provenance.unvouched(is_trusted=self._rules.standing.is_trusted)
