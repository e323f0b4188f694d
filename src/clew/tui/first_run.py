"""A person without a way to a model: what is missing, and three ways to get going.

A server that is found on this machine is offered, and kept in the person's own settings if they say so.
"""

from collections.abc import Awaitable, Callable

from clew.app.session import Session
from clew.config.answers import assign
from clew.config.environment import freeze
from clew.providers.local import LocalServer, local_servers, usual

MISSING = "! clew has no way to a model yet. Three ways to get going:"
KEY = "    a key of the service:  clew login, or ANTHROPIC_API_KEY in the environment"
LOCAL = "    a model on this machine:  {what}"
DEMO = "    without either:  clew demo plays a scripted conversation"
NONE = "none was found; start Ollama, llama.cpp, LM Studio or vLLM, and clew again"


async def ways(
    session: Session, say: Callable[[str], None], ask: Callable[[str], Awaitable[str | None]] | None
) -> bool:
    """Says the ways, offers a model that was found; True if settings lead to it from now on."""
    standing = session.rules.standing
    found = await local_servers(usual(freeze(standing.environ).text("ollama")))
    offers = [(server, model) for server in found for model in server.models]
    say(MISSING)
    say(KEY)
    say(LOCAL.format(what=", ".join(f"{one.name} at {one.url}" for one in found) or NONE))
    say(DEMO)
    if not offers or ask is None:
        return False
    for number, (server, model) in enumerate(offers, 1):
        say(f"    {number} = {model} ({server.name})")
    answer = (await ask("  a number to use it from now on, or Enter: ") or "").strip()
    if not (answer.isdecimal() and 0 < int(answer) <= len(offers)):
        return False
    keep(session, *offers[int(answer) - 1])
    return True


def keep(session: Session, server: LocalServer, model: str) -> None:
    places = session.rules.standing.places
    assign(places, "user", "env.ANTHROPIC_BASE_URL", server.url)
    assign(places, "user", "model", model)
