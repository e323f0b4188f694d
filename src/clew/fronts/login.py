"""`/login` after the user has entered a key: check it, save it, and reopen the session with it.

Asking for the key without showing it is up to each front end.
"""

from collections.abc import Callable

from clew.commands.login import INVALID, RejectedKeyError, check_saved_key, is_key, save_key
from clew.core.input import Clear, Outcome, Resume, Show
from clew.session.session import Session
from clew.system.config.environment import freeze


async def use_key(session: Session, secret: str | None, tell: Callable[[str], object]) -> Outcome:
    """Save a key if the API accepts it, or cannot be reached; `None` cancels."""
    if secret is None:
        return Show(text="Cancelled; nothing was saved")
    if not is_key(secret):
        return Show(text=f"/login: {INVALID}", is_error=True)
    environ = session.rules.standing.environ
    environment = freeze(environ)
    try:
        checked = await check_saved_key(secret, environ)
    except RejectedKeyError as error:
        return Show(text=f"/login: {error}", is_error=True)
    done = f"{checked[0].upper()}{checked[1:]}; {save_key(secret, session.rules.standing.places)}"
    if environment.text("api_key"):
        name = environment.source("api_key")
        return Show(text=f"{done}. {name} is set and takes precedence over it.")
    tell(done)
    # A session has the key that it was opened with.
    has_begun = len(session.story.history) and session.story.recorder.is_kept
    return Resume(session=session.session_id) if has_begun else Clear()
