"""`/login` after the user has entered a key: check it, save it, and reopen the session with it.

Asking for the key without showing it is up to each front end.
"""

from collections.abc import Awaitable, Callable

from clew.commands.login import (
    INVALID,
    RejectedKeyError,
    check_saved_key,
    find_row,
    is_key,
    save_key,
)
from clew.core.catalog.services import ServiceRow
from clew.core.input import Clear, Outcome, Resume, Show
from clew.core.messages.errors import UserError
from clew.session.session import Session


async def log_in(
    session: Session,
    service: str,
    ask: Callable[[ServiceRow], Awaitable[str | None]],
    tell: Callable[[str], object],
) -> Outcome:
    """Ask for a service's API key, and save it if the API accepts it or cannot be reached."""
    standing = session.rules.standing
    environ = standing.environ
    try:
        row = find_row(service.strip() or "anthropic", standing.settings)
        secret = await ask(row)
        if secret is None:
            return Show(text="Cancelled; nothing was saved")
        if not is_key(secret):
            return Show(text=f"/login: {INVALID}", is_error=True)
        checked = await check_saved_key(secret, environ, row)
        saved = save_key(secret, standing.places, row)
    except (RejectedKeyError, UserError) as error:
        return Show(text=f"/login: {error}", is_error=True)
    done = f"{checked[0].upper()}{checked[1:]}; {saved}"
    if variable := next((name for name in row.key_variables if environ.get(name)), ""):
        return Show(text=f"{done}. {variable} is set and takes precedence over the saved key.")
    if row.name != "anthropic" and row.model and not session.model_access.lacks_key:
        done += f". Run /model {row.name}/{row.model} to use it"
    tell(done)
    # A session has the key that it was opened with.
    has_begun = len(session.story.history) and session.story.recorder.is_kept
    return Resume(session=session.session_id) if has_begun else Clear()
