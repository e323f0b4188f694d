"""Themes: the color of each part of the screen, as SGR parameters. Does no I/O.

A theme without colors uses only weight and underlining; `NO_COLOR` selects such a theme.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.fronts.render.folders import Folders
from clew.fronts.render.rows import GUTTER

# The features of a terminal, as far as the environment reveals them.


Pictures = Literal["", "kitty", "iterm2"]

# Values of TERM_PROGRAM whose hyperlinks are known to work.
_LINKS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})


class Abilities(Struct, frozen=True, kw_only=True):
    """The features of a terminal beyond styled text."""

    links: bool = False
    pictures: Pictures = ""


def detect_abilities(environment: Mapping[str, str]) -> Abilities:
    """Detect the terminal's features from environment variables.

    Images are disabled inside a multiplexer, which would print or drop the unknown escape
    sequences.
    """
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


# Styles of parts in every theme, in addition to colors.
_WEIGHT = {
    "title": "1;4", "heading": "1", "strong": "1", "emphasis": "3", "struck": "9", "link": "4",
    "thinking": "3", "person": "1", "tool": "1", "error": "1", "code_keyword": "1",
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
    "person_line": "48;5;236",
    "marker": "38;5;109",
    "running": "38;5;179",
    "done": "38;5;114",
    "error": "38;5;210",
    "notice": "38;5;179",
    "added": "38;5;114",
    "removed": "38;5;210",
    "added_line": "48;5;235",
    "removed_line": "48;5;235",
    "added_word": "48;5;22",
    "removed_word": "48;5;88",
    "code_keyword": "38;5;176",
    "code_string": "38;5;150",
    "code_number": "38;5;180",
    "code_comment": "38;5;246",
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
    "person_line": "48;5;254",
    "marker": "38;5;23",
    "running": "38;5;130",
    "done": "38;5;28",
    "error": "38;5;160",
    "notice": "38;5;130",
    "added": "38;5;28",
    "removed": "38;5;160",
    "added_line": "48;5;194",
    "removed_line": "48;5;224",
    "added_word": "48;5;151",
    "removed_word": "48;5;217",
    "code_keyword": "38;5;90",
    "code_string": "38;5;28",
    "code_number": "38;5;94",
    "code_comment": "38;5;243",
    "code_name": "38;5;25",
    "code_type": "38;5;23",
    "code_operator": "38;5;238",
    "code_error": "38;5;160",
}

# Subtle backgrounds for terminals with 24-bit colors. The dark greens and reds of the 256 colors
# are saturated, so the bands above are gray, and the signs and words on them have the colors.
_DARK_TRUE = {
    "person_line": "48;2;44;46;52", "added_line": "48;2;26;50;34", "removed_line": "48;2;62;30;34",
    "added_word": "48;2;36;88;50", "removed_word": "48;2;118;44;52",
}  # fmt: skip
_LIGHT_TRUE = {
    "person_line": "48;2;238;240;243", "added_line": "48;2;224;247;230",
    "removed_line": "48;2;255;232;230", "added_word": "48;2;168;234;186",
    "removed_word": "48;2;255;196;190",
}  # fmt: skip

# The sixteen colors that the user's terminal defines. Their backgrounds may hide the text, so
# changed words are reversed instead.
_ANSI = {
    "title": "36", "heading": "36", "link": "34", "code": "33", "marker": "36", "person": "36",
    "running": "33", "done": "32", "error": "31", "notice": "33", "added": "32", "removed": "31",
    "added_line": "32", "removed_line": "31", "added_word": "7", "removed_word": "7",
    "code_keyword": "35", "code_string": "32", "code_number": "33", "code_name": "34",
    "code_type": "36", "code_error": "31", "quiet": "2",
}  # fmt: skip

# Blue and orange instead of green and red.
_DALTONIZED_DARK = {
    "done": "38;5;75", "error": "38;5;215", "added": "38;5;75", "removed": "38;5;215",
    "added_word": "48;5;24", "removed_word": "48;5;58",
}  # fmt: skip
_DALTONIZED_LIGHT = {
    "done": "38;5;25", "error": "38;5;130", "added": "38;5;25", "removed": "38;5;130",
    "added_line": "48;5;195", "removed_line": "48;5;223", "added_word": "48;5;117",
    "removed_word": "48;5;216",
}  # fmt: skip
_DALTONIZED_DARK_TRUE = {
    "added_line": "48;2;18;44;74", "removed_line": "48;2;66;42;16", "added_word": "48;2;26;80;136",
    "removed_word": "48;2;118;72;18",
}  # fmt: skip
_DALTONIZED_LIGHT_TRUE = {
    "added_line": "48;2;221;238;255", "removed_line": "48;2;255;238;216",
    "added_word": "48;2;165;210;255", "removed_word": "48;2;255;205;145",
}  # fmt: skip


class Theme(Struct, frozen=True, kw_only=True):
    """The style of each named part; an unknown name has no style."""

    name: str
    styles: Mapping[str, str]

    def __getitem__(self, part: str) -> str:
        return self.styles.get(part, "")


# The accent colors: for 256 colors, and the nearest of the terminal's own sixteen.
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
    """Return the theme with a session's accent color for the prompt marks.

    The theme stays unchanged if it has no colors or the accent color is unknown.
    """
    if color not in ACCENTS or theme in (BARE, PLAIN):
        return theme
    deep, plain = ACCENTS[color]
    return Theme(
        name=theme.name, styles={**theme.styles, "marker": plain if theme is ANSI else deep}
    )


def _theme(name: str, *layers: Mapping[str, str]) -> Theme:
    colors = {part: style for layer in layers for part, style in layer.items()}
    parts = _WEIGHT.keys() | colors.keys()
    styles = {p: ";".join(filter(None, (_WEIGHT.get(p), colors.get(p)))) for p in parts}
    return Theme(name=name, styles=styles)


# No escape sequences, for pipes and screen readers.
BARE = Theme(name="bare", styles={})
PLAIN = _theme("plain", {"quiet": "2", "added_word": "4", "removed_word": "4"})
DARK = _theme("dark", _DARK)
LIGHT = _theme("light", _LIGHT)
ANSI = _theme("ansi", _ANSI)

# The themes by their names in the settings, for terminals with 256 colors.
THEMES: dict[str, Theme] = {
    "dark": DARK,
    "light": LIGHT,
    "dark-daltonized": _theme("dark-daltonized", _DARK, _DALTONIZED_DARK),
    "light-daltonized": _theme("light-daltonized", _LIGHT, _DALTONIZED_LIGHT),
    "dark-ansi": ANSI,
    "light-ansi": ANSI,
    "plain": PLAIN,
}
# The same themes for terminals with 24-bit colors.
TRUE_THEMES: dict[str, Theme] = THEMES | {
    "dark": _theme("dark", _DARK, _DARK_TRUE),
    "light": _theme("light", _LIGHT, _LIGHT_TRUE),
    "dark-daltonized": _theme(
        "dark-daltonized", _DARK, _DARK_TRUE, _DALTONIZED_DARK, _DALTONIZED_DARK_TRUE
    ),
    "light-daltonized": _theme(
        "light-daltonized", _LIGHT, _LIGHT_TRUE, _DALTONIZED_LIGHT, _DALTONIZED_LIGHT_TRUE
    ),
}
_TRUE = frozenset({"truecolor", "24bit"})


def choose_theme(
    wish: str, environment: Mapping[str, str], *, is_light: bool | None = None
) -> Theme:
    """Return the theme for the theme setting and the terminal.

    If there is no setting, the theme fits the background, given by `is_light` or, if that is None
    because the terminal has not reported it, by an environment variable.
    """
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return PLAIN
    deep = "256color" in environment.get("TERM", "") or environment.get("COLORTERM")
    themes = TRUE_THEMES if environment.get("COLORTERM") in _TRUE else THEMES
    if wish in themes and (deep or themes[wish] in (ANSI, PLAIN)):
        return themes[wish]
    if not deep:
        return ANSI
    if is_light is None:
        is_light = environment.get("COLORFGBG", "").rsplit(";", 1)[-1] in ("7", "15")
    return themes["light" if is_light else "dark"]


# The width, colors and features for which everything is painted.


# Longer lines of prose are hard to read.
PROSE_CELLS = 100


class Look(Struct, frozen=True):
    """The width, theme and features for which output is painted."""

    width: int
    theme: Theme
    abilities: Abilities = Abilities()
    # Whether text names its speaker, for users who see neither color nor position.
    says_who: bool = False
    # Whether long output is shown in full.
    is_verbose: bool = False
    # The folders to which paths are relative.
    folders: Folders = Folders()

    @property
    def prose_cells(self) -> int:
        """The maximum width of prose in cells; 0 in line mode, where the terminal wraps lines."""
        return 0 if self.says_who else PROSE_CELLS

    @property
    def gutter(self) -> str:
        """The indentation of text; empty in modes where text names its speaker."""
        return "" if self.says_who else GUTTER

    @property
    def inner(self) -> "Look":
        """The look of the content to the right of the gutter."""
        return self.narrowed(len(self.gutter))

    def narrowed(self, cells: int) -> "Look":
        """Return a look that is narrower by this number of cells."""
        return replace(self, width=max(1, self.width - cells))
