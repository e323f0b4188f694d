"""The first start without a configured model: shows what is missing and how to configure it.

If a model server runs on this machine, the user can choose one of its models; the choice is saved
in the user settings.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from clew.providers.local import LocalServer, find_local_servers, list_usual_servers
from clew.session.session import Session
from clew.system.config.environment import freeze
from clew.system.config.load import assign
from clew.system.config.paths import find_places
from clew.system.config.settings import read_object
from clew.system.files import is_there

MISSING = """\
No model configured. Choose one of these:
  API key:      run clew login, or set ANTHROPIC_API_KEY
  Local model:  {what}
  Demo:         run clew demo (scripted, offline)"""
NONE = "none found; start Ollama, llama.cpp, LM Studio or vLLM, then restart clew"


async def show_ways(
    session: Session, say: Callable[[str], None], ask: Callable[[str], Awaitable[str | None]] | None
) -> bool:
    """Show how to configure a model and offer local models; return True if settings were changed."""
    standing = session.rules.standing
    servers = await find_local_servers(list_usual_servers(freeze(standing.environ).text("ollama")))
    offers = [(server, model) for server in servers for model in server.models]
    what = ", ".join(f"{server.name} at {server.url}" for server in servers) or NONE
    lines = [MISSING.format(what=what)]
    if ask is not None:
        lines += (f"  {n} = {model} ({server.name})" for n, (server, model) in enumerate(offers, 1))
    say("\n".join(lines))
    if not offers or ask is None:
        return False
    answer = (await ask("  Number of the model to use from now on (Enter to skip): ") or "").strip()
    if not (answer.isdecimal() and 0 < int(answer) <= len(offers)):
        return False
    keep(session, *offers[int(answer) - 1])
    return True


def keep(session: Session, server: LocalServer, model: str) -> None:
    places = session.rules.standing.places
    assign(places, "user", "env.ANTHROPIC_BASE_URL", server.url)
    assign(places, "user", "model", model)


# The offer of a sandbox at the first interactive start; the answer is saved in user settings.


def is_first_start() -> bool:
    """Return whether clew has never saved anything on this machine."""
    return not is_there(find_places(os.environ, Path.cwd()).own)


async def offer_sandbox(session: Session, ask: Callable[[], Awaitable[bool | None]]) -> bool:
    """Offer to set up the sandbox; return whether the settings were changed.

    No offer is made if `sandbox.enabled` is set, permissions are bypassed, or no sandbox is available.
    """
    standing = session.rules.standing
    standing.places.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_decided = "enabled" in read_object(standing.settings, "sandbox")
    if is_decided or session.mode == "bypassPermissions" or not session.parts.sandbox.has_walls:
        return False
    answer = await ask()
    if answer is not None:
        assign(standing.places, "user", "sandbox.enabled", answer)
    return answer is not None
