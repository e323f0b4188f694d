"""Colours by name: what each part of a screen is drawn with, as parameters of SGR. Pure.

A theme without colours says the same by weight and underlining alone; `NO_COLOR` asks for it.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

# What a terminal can do, as far as its environment tells. Pure.


Pictures = Literal["", "kitty", "iterm2"]

# Terminals whose own links are known to work, by what they call themselves.
_LINKS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})


class Abilities(Struct, frozen=True, kw_only=True):
    """What may be sent beside text with styles."""

    links: bool = False
    pictures: Pictures = ""


def detect_abilities(environment: Mapping[str, str]) -> Abilities:
    """Inside a multiplexer pictures stay out: what it does not know, it prints or swallows."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if term in ("", "dumb", "linux"):
        return Abilities()
    is_inside = bool(environment.get("TMUX") or environment.get("STY"))
    is_kitty = "kitty" in term or "KITTY_WINDOW_ID" in environment
    is_ghostty = program == "ghostty" or "ghostty" in term
    links = (
        program in _LINKS
        or is_kitty
        or is_ghostty
        or "WT_SESSION" in environment
        or _number(environment.get("VTE_VERSION", "")) >= 5000
        or bool(environment.get("KONSOLE_VERSION"))
    )
    if is_inside:
        return Abilities(links=links)
    if is_kitty or is_ghostty:
        return Abilities(links=links, pictures="kitty")
    return Abilities(links=links, pictures="iterm2" if program in ("iTerm.app", "WezTerm") else "")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


# Beside colour: what a part is drawn with in every theme.
_WEIGHT = {
    "title": "1;4", "heading": "1", "strong": "1", "emphasis": "3", "struck": "9", "link": "4",
    "thinking": "3", "quiet": "2", "person": "1", "tool": "1", "error": "1", "code_keyword": "1",
    "table_head": "1",
}  # fmt: skip

_DARK = {
    "title": "38;5;117",
    "heading": "38;5;117",
    "link": "38;5;111",
    "code": "38;5;180",
    "quote": "38;5;245",
    "rule": "38;5;240",
    "thinking": "38;5;245",
    "quiet": "38;5;245",
    "person": "38;5;152",
    "marker": "38;5;109",
    "running": "38;5;179",
    "done": "38;5;114",
    "error": "38;5;210",
    "notice": "38;5;179",
    "added": "38;5;114",
    "removed": "38;5;210",
    "added_line": "48;5;22",
    "removed_line": "48;5;52",
    "code_keyword": "38;5;176",
    "code_string": "38;5;150",
    "code_number": "38;5;180",
    "code_comment": "38;5;244",
    "code_name": "38;5;117",
    "code_type": "38;5;116",
    "code_operator": "38;5;152",
    "code_error": "38;5;210",
}

_LIGHT = {
    "title": "38;5;25",
    "heading": "38;5;25",
    "link": "38;5;26",
    "code": "38;5;94",
    "quote": "38;5;242",
    "rule": "38;5;250",
    "thinking": "38;5;242",
    "quiet": "38;5;242",
    "person": "38;5;24",
    "marker": "38;5;30",
    "running": "38;5;130",
    "done": "38;5;28",
    "error": "38;5;160",
    "notice": "38;5;130",
    "added": "38;5;28",
    "removed": "38;5;160",
    "added_line": "48;5;194",
    "removed_line": "48;5;224",
    "code_keyword": "38;5;90",
    "code_string": "38;5;28",
    "code_number": "38;5;94",
    "code_comment": "38;5;243",
    "code_name": "38;5;25",
    "code_type": "38;5;30",
    "code_operator": "38;5;238",
    "code_error": "38;5;160",
}

# Sixteen colours, the person's own: their terminal says what they look like.
_ANSI = {
    "title": "36", "heading": "36", "link": "34", "code": "33", "marker": "36", "person": "36",
    "running": "33", "done": "32", "error": "31", "notice": "33", "added": "32", "removed": "31",
    "added_line": "32", "removed_line": "31", "code_keyword": "35", "code_string": "32",
    "code_number": "33", "code_name": "34", "code_type": "36", "code_error": "31",
}  # fmt: skip

# Blue and orange in the place of green and red.
_DALTONIZED = {"done", "error", "added", "removed", "added_line", "removed_line"}
_DALTONIZED_DARK = {
    "done": "38;5;75", "error": "38;5;215", "added": "38;5;75", "removed": "38;5;215",
    "added_line": "48;5;18", "removed_line": "48;5;94",
}  # fmt: skip
_DALTONIZED_LIGHT = {
    "done": "38;5;25", "error": "38;5;166", "added": "38;5;25", "removed": "38;5;166",
    "added_line": "48;5;153", "removed_line": "48;5;223",
}  # fmt: skip


class Theme(Struct, frozen=True, kw_only=True):
    """What each named part is drawn with; a name that is not there is drawn plainly."""

    name: str
    styles: Mapping[str, str]

    def __getitem__(self, part: str) -> str:
        return self.styles.get(part, "")


# The published names of colours, of the terminal's own sixteen where there are no more: a name without one
# there is the nearest.
ACCENTS = {
    "red": ("38;5;203", "31"),
    "blue": ("38;5;75", "34"),
    "green": ("38;5;71", "32"),
    "yellow": ("38;5;178", "33"),
    "purple": ("38;5;140", "35"),
    "orange": ("38;5;208", "33"),
    "pink": ("38;5;205", "35"),
    "cyan": ("38;5;37", "36"),
}


def accent_theme(theme: Theme, color: str) -> Theme:
    """The theme with the marks of its prompts in a session's own colour; as it was where it has no colours, or
    nobody knows that one."""
    if color not in ACCENTS or theme in (BARE, PLAIN):
        return theme
    deep, plain = ACCENTS[color]
    return Theme(
        name=theme.name, styles={**theme.styles, "marker": plain if theme is ANSI else deep}
    )


def _theme(name: str, *layers: Mapping[str, str]) -> Theme:
    colours = {part: style for layer in layers for part, style in layer.items()}
    parts = _WEIGHT.keys() | colours.keys()
    styles = {p: ";".join(filter(None, (_WEIGHT.get(p), colours.get(p)))) for p in parts}
    return Theme(name=name, styles=styles)


# Not a sequence: for pipes, and for terminals that read lines out.
BARE = Theme(name="bare", styles={})
PLAIN = _theme("plain")
DARK = _theme("dark", _DARK)
LIGHT = _theme("light", _LIGHT)
ANSI = _theme("ansi", _ANSI)

THEMES: dict[str, Theme] = {
    "dark": DARK,
    "light": LIGHT,
    "dark-ansi": ANSI,
    "light-ansi": ANSI,
    "dark-daltonized": _theme("dark-daltonized", _DARK, _DALTONIZED_DARK),
    "light-daltonized": _theme("light-daltonized", _LIGHT, _DALTONIZED_LIGHT),
}


def choose_theme(
    wish: str, environment: Mapping[str, str], *, is_light: bool | None = None
) -> Theme:
    """The theme of a setting in a terminal; without a wish the terminal's own word for its ground:
    `is_light` where it told, else a variable."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return PLAIN
    deep = "256color" in environment.get("TERM", "") or environment.get("COLORTERM")
    if wish in THEMES and (deep or wish.endswith("-ansi")):
        return THEMES[wish]
    if not deep:
        return ANSI
    if is_light is None:
        is_light = environment.get("COLORFGBG", "").rsplit(";", 1)[-1] in ("7", "15")
    return LIGHT if is_light else DARK


# How things look here: the width, the colours, what the terminal can do. Pure.


class Look(Struct, frozen=True):
    """What everything is painted for."""

    width: int
    theme: Theme
    abilities: Abilities = Abilities()
    # Whether words say whose they are: for who hears them and sees neither colour nor place.
    says_who: bool = False

    def narrowed(self, cells: int) -> "Look":
        """The same with less room."""
        return Look(max(1, self.width - cells), self.theme, self.abilities, self.says_who)
