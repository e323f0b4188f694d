"""The output style and language of a session, as a part."""

from clew.agent.context.output_styles import Speech
from clew.parts.part import Part


class OutputStyles(Speech, Part):
    """The output style part; problems found by `Speech` become notices."""

    name = "output styles"

    def notices(self) -> tuple[str, ...]:
        return self.faults
