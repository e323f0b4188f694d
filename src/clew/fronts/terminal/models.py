"""`/model` on the screen: models with prices and context windows; Left and Right set the effort."""

from typing import get_args

import msgspec

from clew.commands.slash.pages import (
    describe_abilities,
    describe_change,
    describe_effort,
    describe_model,
    list_models,
)
from clew.core.input import Show
from clew.fronts.dialog import Choice
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.stage import Stage
from clew.providers.base import Effort
from clew.session.session import Session

AUTO = "auto"
LEVELS: tuple[str, ...] = (AUTO, *get_args(Effort))


class ModelChooser(Chooser):
    """A list of models; Left and Right choose the effort."""

    has_tabs = True

    def __init__(self, choices: list[Choice], at: int, effort: str) -> None:
        super().__init__("", choices, at=at)
        self.effort = effort
        self.moves = "←→ effort"
        self._name()

    def _name(self) -> None:
        self.title = f"Select a model · effort: {self.effort}"

    def press(self, key: str) -> None:
        if key in ("left", "right"):
            at = LEVELS.index(self.effort) + (1 if key == "right" else -1)
            self.effort = LEVELS[max(0, min(at, len(LEVELS) - 1))]
            self._name()
        else:
            super().press(key)


async def pick_model(stage: Stage, session: Session) -> Show:
    """Let the user choose a model and the effort, and apply both from the next request on."""
    models = await list_models(session)
    choices = [
        Choice(
            label=name if entry.id == name else f"{entry.name}  {name}",
            hint=" · ".join(filter(None, (*describe_model(entry), describe_abilities(entry)))),
        )
        for name, entry in models
    ]
    current_id = session.model.id
    at = next((n for n, (_, entry) in enumerate(models) if entry.id == current_id), 0)
    chooser = ModelChooser(choices, at, describe_effort(session))
    answer = await stage.answered(stage.show(chooser))
    if answer is None:
        return Show(text=f"Model unchanged: {current_id}")
    chosen = await session.model_access.switching.to(models[answer.chosen[0]][0])
    level = None if chooser.effort == AUTO else msgspec.convert(chooser.effort, Effort)
    session.model_access.speaking.effort(level)
    change = describe_change(session)
    return Show(text=f"Model set to {chosen.id}, effort {chooser.effort}{change}")
