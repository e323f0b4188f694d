"""The skills of a session as an agent has them: their words, and nothing that they would lend.

What a skill lends (rules, a model) is the session's, and an agent's call must not change that.
"""

from collections.abc import Sequence

from clew.app.skills import SessionSkills
from clew.context.facts import Fact
from clew.messages.errors import ClewError
from clew.messages.wording import tagged
from clew.skills.tool import Loaded


class AgentSkills:
    """A `Keeper`."""

    def __init__(self, skills: SessionSkills) -> None:
        self._skills = skills

    def fault(self, name: str) -> str:
        return self._skills.fault(name)

    async def load(self, name: str, arguments: str) -> Loaded:
        return await self._skills.load(name, arguments, lends=False)

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        return self._skills.search(query)


async def begun_with(skills: SessionSkills, names: Sequence[str]) -> Fact | None:
    """What an agent knows from the beginning: the skills that its definition names, as far as they
    are there."""
    said = []
    for name in names:
        try:
            loaded = await skills.load(name, "", lends=False)
        except (ClewError, OSError) as error:
            said.append(f"The skill {name} could not be loaded: {error}")
        else:
            said.append(f"The skill {name}:\n\n{loaded.text}")
    if not said:
        return None
    words = tagged("system-reminder", "\n" + "\n\n".join(said) + "\n")
    return Fact(payload={"type": "agent_skills", "skills": list(names)}, rendered=(words,))
