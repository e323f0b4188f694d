"""The offer of a sandbox at the first start of a user interface; the answer is kept in user settings."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from clew.app.session import Session
from clew.config.answers import assign
from clew.config.paths import find_places
from clew.config.there import is_there

QUESTION = "Shall commands that you approve run in a sandbox?"
EXPLANATION = (
    "There a command writes this folder and a temporary one, reads no secrets, and reaches no host but "
    "those you name. Commands that only look run behind a stricter wall in any case. "
    "/permissions sandbox says what holds here; sandbox.enabled in your settings changes it."
)


def is_first_start() -> bool:
    """Whether clew has kept nothing here yet."""
    return not is_there(find_places(os.environ, Path.cwd()).own)


async def offered(session: Session, ask: Callable[[], Awaitable[bool | None]]) -> bool:
    """Offers the sandbox, once; whether settings say something else from now on."""
    standing = session.rules.standing
    said = standing.settings.get("sandbox")
    standing.places.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_decided = isinstance(said, dict) and "enabled" in said
    if is_decided or session.mode == "bypassPermissions" or not session.sandbox.has_walls:
        return False
    answer = await ask()
    if answer is not None:
        assign(standing.places, "user", "sandbox.enabled", answer)
    return answer is not None
