"""What a terminal can do, as far as its environment tells. Pure."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Pictures = Literal["", "kitty", "iterm2"]

# Terminals whose own links are known to work, by what they call themselves.
_LINKS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})


class Abilities(Struct, frozen=True, kw_only=True):
    """What may be sent beside text with styles."""

    links: bool = False
    pictures: Pictures = ""


def abilities(environment: Mapping[str, str]) -> Abilities:
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
