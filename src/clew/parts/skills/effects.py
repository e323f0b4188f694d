"""Temporary changes that a skill makes until the next prompt: rules, hooks, model and effort."""

import shlex
from collections.abc import Sequence

from clew.agent.hooks.handlers import Hook
from clew.agent.hooks.run import SessionHooks
from clew.agent.models import Speaking
from clew.agent.tools.base import ToolError
from clew.parts.skills.skill import Skill
from clew.permissions.in_session import SessionRules
from clew.providers.base import Effort

# The message for the user when a command in a skill's text was denied, and how to allow it.


class LineRefusedError(ToolError):
    """Raised when a command in a skill's text is denied.

    The error's text is for the model; `for_person` is the message for the user.
    """

    def __init__(self, words: str, for_person: str) -> None:
        super().__init__(words)
        self.for_person = for_person


def describe_way_out(skill: Skill, line: str, *, counts: bool) -> str:
    """Return how the user can allow a command in a session that cannot ask for approval.

    `counts` says whether the skill's own rules apply.
    """
    rule = shlex.quote(f"{skill.shell}({line})")
    waits = "" if counts or not skill.allowed_tools else f"; {WAITING}"
    return (
        "this session cannot ask for approval. To allow the command, run: "
        f"clew permissions add --scope user {rule}, or pass --allowedTools {rule} for one run{waits}"
    )


WAITING = "the skill's allowed-tools apply after you trust the folder (clew config trust)"


class SkillEffects:
    """Applies the changes that skills make, and stores the original values to restore later."""

    def __init__(self, rules: SessionRules, speaking: Speaking, hooks: SessionHooks) -> None:
        self._rules = rules
        self._hooks = hooks
        self._speaking = speaking
        self._granted: list[str] = []
        self._denied: list[str] = []
        self._hooked: set[str] = set()
        self._model: str | None = None
        self._effort: tuple[Effort | None] | None = None

    def apply(self, skill: Skill, rules: Sequence[str], hooks: Sequence[Hook] = ()) -> None:
        denied = skill.disallowed_tools
        if rules or denied:
            self._granted += [rule for rule in rules if rule not in self._granted]
            self._denied += [rule for rule in denied if rule not in self._denied]
            self._rules.lend(self._granted, self._denied)
        for source in {hook.source for hook in hooks} - self._hooked:
            self._hooked.add(source)
            self._hooks.add([hook for hook in hooks if hook.source == source])
        # A subagent's model does not change the session's.
        if skill.model and not skill.agent and not self._speaking.describe_refusal(skill.model):
            self._model = self._model or self._speaking.model.id
            self._speaking.choose(skill.model)
        if skill.effort:
            self._effort = self._effort or (self._speaking.effort_now,)
            self._speaking.effort(skill.effort)

    def take_back(self) -> None:
        if self._granted or self._denied:
            self._granted, self._denied = [], []
            self._rules.lend(())
        for source in self._hooked:
            self._hooks.remove(source)
        self._hooked.clear()
        if self._model is not None:
            model, self._model = self._model, None
            self._speaking.choose(model)
        if self._effort is not None:
            (effort,), self._effort = self._effort, None
            self._speaking.effort(effort)
