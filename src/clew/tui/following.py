"""How a session in a terminal begins, ends and is followed by another; the same for each way to show it."""

import signal

from msgspec.structs import replace

from clew.commands.outcome import Clear, Resume
from clew.engine.events import TurnEnded
from clew.options import Options

FAREWELLS = ("exit", "quit")
ENDED_BY = {signal.SIGTERM: 143, signal.SIGHUP: 129}
INTERRUPTED = 130


def following(options: Options, then: Clear | Resume) -> Options:
    """The same wishes for another session."""
    return replace(
        options,
        prompt="",
        continues=False,
        fork=False,
        session_id=None,
        name=None,
        resume_at=None,
        drops_turn=None,
        resume=then.session if isinstance(then, Resume) else None,
    )


def closing(ended: TurnEnded) -> str:
    if ended.reason.startswith("aborted"):
        return "[stopped]"
    return f"[{ended.reason}: {ended.message}]" if ended.is_error else ""
