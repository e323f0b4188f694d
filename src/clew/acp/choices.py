"""What a client may set of a session: its mode, its model, how hard the model thinks.

Each stands in both of the protocol's forms where it has two. What this process may not be in is not
offered.
"""

from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.app.session import Session
from clew.messages.errors import SettingsError
from clew.permissions.in_session import entered
from clew.permissions.modes import MODES, Refused
from clew.permissions.request import Mode
from clew.providers.base import Effort

Json: TypeAlias = dict[str, Any]

MODE_WORDS: dict[Mode, tuple[str, str]] = {
    "default": ("Ask", "Ask before edits and commands that no rule allows"),
    "acceptEdits": ("Accept edits", "Make edits in the workspace without asking"),
    "plan": ("Plan", "Look and plan, and change nothing"),
    "auto": ("Auto", "A reviewer decides what no rule does"),
    "dontAsk": ("Don't ask", "What no rule allows does not run"),
    "bypassPermissions": ("Bypass permissions", "Run everything without asking"),
}
EFFORTS: dict[str, Effort | None] = {
    "default": None,
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}


class Choices:
    """The settings of one session; a value that is none of those offered is refused in words."""

    def __init__(self, session: Session, *, may_bypass: bool) -> None:
        self._session = session
        self._may_bypass = may_bypass

    def modes(self) -> Json:
        return {
            "currentModeId": self._session.mode,
            "availableModes": [
                {"id": mode, "name": name, "description": words}
                for mode, (name, words) in MODE_WORDS.items()
                if mode in self._modes()
            ],
        }

    def options(self) -> list[Json]:
        modes = [
            {"value": mode, "name": name, "description": words}
            for mode, (name, words) in MODE_WORDS.items()
            if mode in self._modes()
        ]
        efforts = [{"value": word, "name": word.capitalize()} for word in EFFORTS]
        effort = self._session.requests.template.effort or "default"
        return [
            select("mode", "Mode", self._session.mode, modes),
            select("model", "Model", self._session.model.id, self._models()),
            select("thought_level", "Effort", effort, efforts),
        ]

    async def set(self, key: str, value: Any) -> None:
        """Raises `SettingsError` where there is no such setting or value."""
        if not isinstance(value, str):
            raise SettingsError(f"{key}: expected the id of a value")
        match key:
            case "mode":
                self.set_mode(value)
            case "model":
                await self._session.switching.to(value)
            case "thought_level" if value in EFFORTS:
                self._session.speaking.effort(EFFORTS[value])
            case "thought_level":
                raise SettingsError(f"thought_level: there are {', '.join(EFFORTS)}")
            case _:
                raise SettingsError(f"{key}: there is no such option")

    def set_mode(self, word: str) -> None:
        if word == "bypassPermissions" and not self._may_bypass:
            raise SettingsError(
                "bypassPermissions: start clew acp with --allow-dangerously-skip-permissions"
            )
        if word == "plan":
            self._session.own.enter_plan()
        else:
            mode = self._session.rules.set_mode(word)
            self._session.story.recorder.permission_mode(mode)

    def _modes(self) -> list[Mode]:
        standing = self._session.rules.standing
        return [
            mode
            for mode in MODES
            if not isinstance(
                entered(replace(standing, context=replace(standing.context, mode=mode))), Refused
            )
            and (mode != "bypassPermissions" or self._may_bypass or mode == self._session.mode)
        ]

    def _models(self) -> list[Json]:
        models = {model.id: model for model in self._session.speaking.catalog.models}
        models.setdefault(self._session.model.id, self._session.model)
        return [{"value": model.id, "name": model.name} for model in models.values()]


def select(key: str, name: str, current: str, values: list[Json]) -> Json:
    return {
        "id": key,
        "name": name,
        "category": key,
        "type": "select",
        "currentValue": current,
        "options": values,
    }
