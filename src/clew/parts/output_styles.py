"""The output style and the language of a session, as a part of it."""

from clew.agent.context.output_styles import Speech
from clew.parts.part import Part


class OutputStyles(Speech, Part):
    """What `Speech` finds wrong is told at the start."""

    name = "output styles"

    def notices(self) -> tuple[str, ...]:
        return self.faults
