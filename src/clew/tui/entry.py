"""What a person sent off: the text, and what its placeholders stand for. Pure."""

from msgspec import Struct

from clew.commands.pasted import Pasted, placeholder


class Entry(Struct, frozen=True, kw_only=True):
    """`pasted` may hold what the text no longer mentions; `meant` is what is sent."""

    text: str
    pasted: tuple[Pasted, ...] = ()

    @property
    def meant(self) -> tuple[Pasted, ...]:
        """What the text still mentions, in the order of the text."""
        placed = [(self.text.find(placeholder(one)), one) for one in self.pasted]
        return tuple(one for at, one in sorted(placed, key=lambda each: each[0]) if at >= 0)
