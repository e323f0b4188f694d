"""What a person reads where a line of a skill's text was refused: that it was, and what lets it run."""

import shlex

from clew.skills.skill import Skill
from clew.tools.base import ToolError


class LineRefusedError(ToolError):
    """In the words that the model reads; `for_person` are those for who called the skill."""

    def __init__(self, words: str, for_person: str) -> None:
        super().__init__(words)
        self.for_person = for_person


def way_out(one: Skill, line: str, *, counts: bool) -> str:
    """What lets a line run where nobody can be asked; `counts`: whether the skill's own rules do."""
    rule = shlex.quote(f"{one.shell}({line})")
    waits = "" if counts or not one.allowed_tools else f"; {WAITING}"
    return (
        f"nobody can be asked here. It runs with this rule: clew permissions add --scope user {rule}, or "
        f"--allowedTools {rule} for one run{waits}"
    )


WAITING = "the allowed-tools of its file count once the folder is trusted: clew config trust"
