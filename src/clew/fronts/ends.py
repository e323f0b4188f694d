"""Front-end shutdown: signals, exit codes and the final error message.

This module imports nothing that is slow to load.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import sys

from clew.core.messages.errors import ClewError, CommandLineError, find_first_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

INTERRUPTED, HUNG_UP = 130, 129
ENDED_BY = {signal.SIGTERM: 143, signal.SIGHUP: HUNG_UP}
SIGNALS = (signal.SIGINT, *ENDED_BY)


def run_front(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a front end and return its exit code; print clew's own errors to standard error."""
    try:
        with asyncio.Runner() as runner:
            return runner.run(work())
    except (ClewError, ExceptionGroup) as raised:
        error = find_first_error(raised)
        if not isinstance(error, ClewError):
            raise
        print(f"clew: {error}", file=sys.stderr)
        return 2 if isinstance(error, CommandLineError) else 1
    finally:
        # The exit code is settled. A signal during interpreter exit would replace it.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def hear_signals(heard: Callable[[int], object]) -> None:
    """Call `heard` in the event loop for each signal.

    Signals that arrive after the loop is closed end the process with the same exit codes. asyncio's
    own handlers would be removed when the loop closes.
    """
    loop = asyncio.get_running_loop()
    pending: set[int] = set()

    def tell(number: int, _frame: object) -> None:
        if loop.is_closed():
            os._exit(128 + number)
        # As in the kernel, several waiting signals of the same kind count as one. Python runs a
        # handler inside a handler, so a flood of signals would otherwise exhaust the stack.
        if number not in pending:
            pending.add(number)
            loop.call_soon_threadsafe(hear, number)

    def hear(number: int) -> None:
        pending.discard(number)
        heard(number)

    for number in SIGNALS:
        signal.signal(number, tell)


def code_of(number: int) -> int:
    """Return the exit code of a process that was ended by the signal `number`."""
    return ENDED_BY.get(signal.Signals(number), INTERRUPTED)


def is_connected(file: int) -> bool:
    """Return whether what is written to a file descriptor can still be read.

    False for a closed descriptor, and for a pipe or socket without a reader.
    """
    try:
        mode = os.fstat(file).st_mode
    except OSError:
        return False
    # Not every system can poll terminals.
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    poll = select.poll()
    poll.register(file, 0)
    return poll.poll(0) == []
