"""How things look here: the width, the colours, what the terminal can do. Pure."""

from msgspec import Struct

from clew.tui.render.abilities import Abilities
from clew.tui.render.theme import Theme


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
