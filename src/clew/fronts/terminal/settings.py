"""`/config` on the screen: a searchable list of settings, with their values and sources.

Selecting a switch toggles it, and selecting a setting with fixed values lists them. For any other
setting, the user types the value. Left and Right choose the settings file to write.
"""

from clew.commands.slash.pages import list_keys, read_layers, set_value
from clew.core.input import Outcome, Show
from clew.core.messages.errors import SettingsError
from clew.fronts.dialog import Choice
from clew.fronts.terminal.app import TerminalFront
from clew.fronts.terminal.choosing import Chooser
from clew.session.session import Session
from clew.system.config.layers import Scope, find_origins, find_value
from clew.system.config.load import format_value, parse_value
from clew.system.config.paths import Places
from clew.system.config.settings import BOOLEAN, SettingKey

SCOPES: tuple[Scope, ...] = ("user", "project", "local")
VALUE_CHARACTERS = 40


class SettingsChooser(Chooser):
    """A searchable list of settings. Left and Right choose the settings file to write."""

    has_tabs = True

    def __init__(self, choices: list[Choice], at: int, scope: Scope) -> None:
        super().__init__("", choices, searches=True, at=at)
        self.scope = scope
        self.moves = "←→ file"
        self._name()

    def _name(self) -> None:
        self.title = f"Settings · changes go to the {self.scope} settings"

    def press(self, key: str) -> None:
        if key in ("left", "right"):
            at = SCOPES.index(self.scope) + (1 if key == "right" else -1)
            self.scope = SCOPES[at % len(SCOPES)]
            self._name()
        else:
            super().press(key)


async def edit_settings(front: TerminalFront, session: Session) -> Outcome:
    """Let the user change settings until they close the list; return what was changed."""
    places = session.rules.standing.places
    keys, at, scope = list_keys(), 0, SCOPES[0]
    done: list[str] = []
    while True:
        choices = describe_settings(keys, places)
        chooser = SettingsChooser(choices, at, scope)
        answer = await front.stage.answered(front.stage.show(chooser))
        if answer is None:
            return Show(text="\n".join(done) or "No settings changed")
        at, scope = answer.chosen[0], chooser.scope
        key = keys[at]
        text = await ask_value(front, key, current(key, places))
        if text is None:
            continue
        try:
            value = parse_value(key.name, text)
            done.append(await set_value(session, key.name, value, scope))
            front.stage.hint(f"{key.name} = {text} in the {scope} settings")
        except SettingsError as error:
            front.stage.hint(str(error))


def describe_settings(keys: list[SettingKey], places: Places) -> list[Choice]:
    """Return a choice for each setting: its name, its value and source, and its description."""
    layers, settings = read_layers(places)
    choices = []
    for key in keys:
        path = tuple(key.name.split("."))
        is_set, value = find_value(settings, path)
        value_text = format_value(value if is_set else key.default)[:VALUE_CHARACTERS]
        scope = find_origins(layers, path)[0].layer.scope if is_set else "default"
        state = f"{value_text} ({scope})" if is_set or key.default is not None else "not set"
        choices.append(Choice(label=f"{key.name}: {state}", hint=key.meaning))
    return choices


def current(key: SettingKey, places: Places) -> object:
    is_set, value = find_value(read_layers(places)[1], tuple(key.name.split(".")))
    return value if is_set else key.default


async def ask_value(front: TerminalFront, key: SettingKey, value: object) -> str | None:
    """Ask for a setting's new value; return it as text, or None to keep the current one.

    A boolean is toggled without asking; other values are chosen or typed.
    """
    if key.kind == BOOLEAN:
        return "false" if value is True else "true"
    if key.choices:
        choices = [Choice(label=choice) for choice in key.choices]
        at = key.choices.index(value) if value in key.choices else 0
        chooser = Chooser(f"{key.name}: {key.meaning}", choices, at=at)
        answer = await front.stage.answered(front.stage.show(chooser))
        return None if answer is None else key.choices[answer.chosen[0]]
    field = Chooser(f"{key.name}: {key.meaning}", [Choice(label=key.kind, asks_words=True)])
    answer = await front.stage.answered(front.stage.show(field))
    return None if answer is None else answer.words
