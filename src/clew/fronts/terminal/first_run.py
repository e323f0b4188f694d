"""The first start: instructions for configuring a model, and the offer of a sandbox."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from clew.providers.local import find_local_servers, list_usual_servers
from clew.session.session import Session
from clew.system.config.environment import freeze
from clew.system.config.load import assign
from clew.system.config.paths import find_places
from clew.system.config.settings import read_object
from clew.system.files import is_there

MISSING = """\
No model configured. Choose one of these:
  API key:      {login}, or set ANTHROPIC_API_KEY
  Other keys:   {login} SERVICE (openai, gemini, openrouter ...), or set its variable
  Local model:  {what}
  Demo:         run clew demo (scripted, offline)"""
NONE = "start Ollama, llama.cpp, LM Studio or vLLM, then restart clew"


async def show_ways(session: Session, say: Callable[[str], None]) -> None:
    """Show how to configure a model, and list the models of local servers."""
    environ = session.rules.standing.environ
    servers = await find_local_servers(list_usual_servers(freeze(environ).text("ollama")))
    models = [f"{server.service}/{model}" for server in servers for model in server.models]
    what = f"run clew --model {models[0]}" if models else NONE
    # Without a terminal, there is no /login, because a key can't be typed.
    can_log_in = any(command.name == "login" for command in session.commands)
    say(MISSING.format(login="type /login" if can_log_in else "run clew login", what=what))


# The offer of a sandbox at the first interactive start; the answer is saved in user settings.


def is_first_start() -> bool:
    """Return whether clew has never saved anything on this machine."""
    return not is_there(find_places(os.environ, Path.cwd()).own)


async def offer_sandbox(session: Session, ask: Callable[[], Awaitable[bool | None]]) -> bool:
    """Offer to set up the sandbox; return whether the settings were changed.

    No offer is made if `sandbox.enabled` is set, permissions are bypassed, or no sandbox is
    available.
    """
    standing = session.rules.standing
    try:
        standing.places.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False  # The answer couldn't be saved. The session reports the problem.
    is_decided = "enabled" in read_object(standing.settings, "sandbox")
    if is_decided or session.mode == "bypassPermissions" or not session.parts.sandbox.has_walls:
        return False
    answer = await ask()
    if answer is not None:
        assign(standing.places, "user", "sandbox.enabled", answer)
    return answer is not None
