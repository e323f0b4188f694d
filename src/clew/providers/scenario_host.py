"""A scenario in play: a request in, a response out. What every host of a scenario shares.

Must never send anything: the loopback server does it over a socket, `scripted` in memory.
"""

from clew.providers.scenario import Scenario
from clew.providers.scenario_answer import Renderer, Reply
from clew.providers.scenario_rules import Endpoint, NoAnswer, Player
from clew.providers.scenario_text import Json

ENDPOINTS: dict[str, Endpoint] = {
    "/v1/messages": "answers",
    "/v1/messages/count_tokens": "count_tokens",
}


class ScenarioHost:
    """Answers requests in the order they are given to it; that order is all that counts."""

    __slots__ = ("_player", "_renderer")

    def __init__(self, scenario: Scenario) -> None:
        self._player = Player(scenario)
        self._renderer = Renderer(scenario.defaults)

    def respond(self, endpoint: Endpoint, body: Json) -> tuple[str | None, Reply]:
        """The path of the answer in the scenario, None where none fitted, and the response."""
        choice = self._player.choose(body, endpoint)
        render = self._renderer.reply if endpoint == "answers" else self._renderer.count
        return None if isinstance(choice, NoAnswer) else choice.place, render(choice)

    def unused(self) -> list[str]:
        """The answers that nobody asked for."""
        return self._player.unused()
