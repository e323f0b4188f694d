"""The session part for the output style and the language of answers."""

from clew.agent.context.output_styles import Speech
from clew.parts.part import Part


class OutputStyles(Speech, Part):
    """The session part for output styles; problems that `Speech` finds become notices."""

    name = "output styles"

    def notices(self) -> tuple[str, ...]:
        return self.faults
