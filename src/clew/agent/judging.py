"""Decide whether calls may run, by the current rules and the reviewer.

The decision also depends on the shell's folder and on untrusted text in the conversation.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clew.agent.calls import BoundCall
from clew.agent.deps import Reviewed
from clew.agent.side_question import SMALL
from clew.agent.story import Story
from clew.agent.tools.base import AskModel
from clew.permissions.decision import Decision, Finding, NeedsReview, make_decision
from clew.permissions.in_session import SessionRules
from clew.permissions.modes import apply_mode, apply_review
from clew.permissions.provenance import Provenance
from clew.permissions.request import Mode
from clew.system.config.layers import OF_THE_FOLDER
from clew.system.config.settings import read_text

if TYPE_CHECKING:
    from clew.agent.reviewer import Reviewer


class Judging:
    """Decides about the calls of one conversation.

    The origins of text in the conversation are traced only if a rule needs them.
    """

    def __init__(
        self,
        rules: SessionRules,
        story: Story,
        shell_folder: Callable[[], str],
        *,
        ask_model: AskModel,
        spared: Callable[[BoundCall, Decision], Decision] = lambda _call, decided: decided,
        secrets: Sequence[str] = (),
        mode: Callable[[], Mode] | None = None,
        denied: Sequence[str] = (),
        folders: Sequence[str] = (),
        is_model_of_project: bool = False,
    ) -> None:
        """Set up the decisions for one conversation.

        `mode` and `folders` are passed only for a subagent's conversation. `is_model_of_project`
        means that a project's definition of the session's agent chose the main model.
        """
        self._is_model_of_project = is_model_of_project
        self._folders = folders
        self._denied = denied
        self._mode = mode or (lambda: rules.mode)
        self._rules = rules
        self._story = story
        self._shell_folder = shell_folder
        self._ask_model = ask_model
        self._secrets = secrets
        self._spared = spared
        self._reviewer: Reviewer | None = None
        self._begin()

    def _begin(self) -> None:
        self._provenance = Provenance(self._rules.place)
        self._revision = self._story.revision
        self._taken = 0

    def __call__(self, call: BoundCall) -> Decision:
        rules = self._rules
        before = self.untrusted() if rules.standing.rules.heeds_untrusted else ()
        decision = rules.judge(
            call.name,
            call.block["input"],
            cwd=self._shell_folder(),
            untrusted=before,
            mode=self._mode(),
            denied=self._denied,
            folders=self._folders,
            line=call.line,
            places=call.places,
        )
        return self._spared(call, decision)

    def under_mode(self, finding: Finding) -> Decision:
        """Apply the current permission mode to a finding that does not come from a rule."""
        return make_decision([apply_mode(self._mode(), finding)])

    async def review(self, call: BoundCall, needed: NeedsReview) -> Reviewed:
        """Return the reviewer's decision on a call (mode auto).

        The reviewer depends on the main model. If an untrusted folder chose that model, the user
        decides instead.
        """
        if self._may_review_itself():
            why = "the model was set by this folder, which is not trusted"
            return Reviewed(
                decision=apply_review(needed, None, why), record={"verdict": "none", "why": why}
            )
        if self._reviewer is None:
            from clew.agent.reviewer import Reviewer

            self._reviewer = Reviewer(
                self._ask_model,
                model=self._model,
                history=lambda: self._story.history,
                untrusted=self.untrusted,
                secrets=self._secrets,
            )
        return await self._reviewer(call, needed)

    def _may_review_itself(self) -> bool:
        standing = self._rules.standing
        return (
            not standing.is_trusted
            and self._model() == SMALL
            and (
                self._is_model_of_project
                or any(
                    "model" in layer.data
                    for layer in standing.layers
                    if layer.scope in OF_THE_FOLDER
                )
            )
        )

    def _model(self) -> str:
        return read_text(self._rules.standing.settings, "permissions.reviewer") or SMALL

    def untrusted(self) -> tuple[str, ...]:
        """Return the sources of untrusted text in the conversation."""
        if self._story.revision != self._revision:
            self._begin()
        history = self._story.history
        self._provenance.extend(history[i] for i in range(self._taken, len(history)))
        self._taken = len(history)
        return self._provenance.unvouched(is_trusted=self._rules.standing.is_trusted)
