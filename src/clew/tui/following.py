"""How a session in a terminal begins, ends and is followed by another; the same for each way to show it."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.commands.outcome import Clear, Resume
    from clew.options import Options

FAREWELLS = ("exit", "quit")
HUNG_UP = 129
ENDED_BY = {signal.SIGTERM: 143, signal.SIGHUP: HUNG_UP}
INTERRUPTED = 130


def following(options: Options, then: Clear | Resume) -> Options:
    """The same wishes for another session."""
    from msgspec.structs import replace

    return replace(
        options,
        prompt="",
        continues=False,
        fork=False,
        session_id=None,
        name=None,
        resume_at=None,
        drops_turn=None,
        resume=getattr(then, "session", None),
        is_cleared=not hasattr(then, "session"),
    )
