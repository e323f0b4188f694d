"""A program that has the terminal for a while, as an editor or a pager does.

Unlike every other child it stays in clew's own session, so that the terminal lets it read; whoever
calls this has put the terminal in order before, and does so again afterwards.
"""

import asyncio
import os
import signal
from collections.abc import Sequence


async def in_foreground(argv: Sequence[str]) -> int:
    """Its exit code, once it has ended. Raises OSError when it cannot be started."""
    # Ctrl-C in there is that program's own.
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, preexec_fn=None, env=os.environ, start_new_session=False
        )
        return await child.wait()
    finally:
        signal.signal(signal.SIGINT, was)
