"""A scenario in play: a request in, a response out. What every host of a scenario shares.

Must never send anything: the loopback server does it over a socket, `scripted` in memory.
"""

from collections.abc import Callable

from clew.providers.scenario import Scenario, from_value
from clew.providers.scenario_answer import Renderer, Reply
from clew.providers.scenario_rules import ESTIMATE, Chosen, Endpoint, NoAnswer, Player, facts_of
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


class RuleHost:
    """Answers each request with what a function of it says: for a model that knows what it is asked."""

    __slots__ = ("_renderer", "_requests", "_rule")

    def __init__(self, rule: Callable[[Json], Json]) -> None:
        self._rule = rule
        self._renderer = Renderer(from_value({"scenario": 1, "answers": []}).defaults)
        self._requests = 0

    def respond(self, endpoint: Endpoint, body: Json) -> tuple[str | None, Reply]:
        self._requests += 1
        facts = facts_of(body, self._requests)
        place = f"request {self._requests}"
        if endpoint == "count_tokens":
            return place, self._renderer.count(Chosen(answer=ESTIMATE, place=place, facts=facts))
        answer = from_value({"scenario": 1, "answers": [self._rule(body)]}).answers[0]
        return place, self._renderer.reply(Chosen(answer=answer, place=place, facts=facts))

    def unused(self) -> list[str]:
        """Nothing is left over where nothing was laid out."""
        return []
