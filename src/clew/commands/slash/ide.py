"""`/ide`: list the running editors, and connect the session to one of them."""

from typing import TYPE_CHECKING

from clew.commands.slash import SlashHandlers
from clew.core.input import Outcome, Pick, PickRow, Show
from clew.system.ide_locks import IdeLock

if TYPE_CHECKING:
    from clew.session.session import Session

USAGE = "/ide, /ide connect PORT, /ide off"


async def ide(session: "Session", arguments: str) -> Outcome:
    """List the editors, connect to one of them, or disconnect."""
    part = session.parts.ide
    word, _, name = arguments.partition(" ")
    match word:
        case "":
            return list_ides(session)
        case "off" if not name:
            lock = part.lock
            await part.disconnect()
            return Show(text=f"Disconnected from {lock.name}" if lock else "No editor is connected")
        case "connect":
            return await connect(session, name.strip())
    return Show(text=f"Usage: {USAGE}", is_error=True)


def list_ides(session: "Session") -> Outcome:
    part = session.parts.ide
    locks = part.running()
    if not locks:
        folder = session.rules.standing.places.config_home / "ide"
        return Show(
            text=f"No running editor found in {folder}. Start an editor that has the plugin installed."
        )
    rows = [
        PickRow(line=f"/ide connect {lock.port}", label=describe_lock(session, lock))
        for lock in locks
    ]
    if part.lock is not None:
        rows.append(PickRow(line="/ide off", label="Disconnect"))
    return Pick(title="Connect to an editor", rows=tuple(rows))


def describe_lock(session: "Session", lock: IdeLock) -> str:
    part = session.parts.ide
    notes = []
    if part.lock == lock:
        notes.append("connected" if part.server is not None else "connecting")
    if not lock.has_open(session.workspace.cwd):
        notes.append("has another folder open")
    folders = ", ".join(lock.folders) or "no folder"
    note = f" ({', '.join(notes)})" if notes else ""
    return f"{lock.name}: {folders}{note}"


async def connect(session: "Session", name: str) -> Outcome:
    lock = next((lock for lock in session.parts.ide.running() if str(lock.port) == name), None)
    if lock is None:
        return Show(text=f'No running editor uses port "{name}". Usage: {USAGE}', is_error=True)
    if why := await session.parts.ide.connect(lock):
        return Show(text=f"Can't connect to {lock.name}: {why}", is_error=True)
    return Show(text=f"Connected to {lock.name}")


HANDLERS: SlashHandlers = {
    "ide": ide,
}
