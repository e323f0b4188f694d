"""The first moments on a terminal: it is taken over before anything is loaded that takes its time.

What is typed from then on is not echoed by the system and again by the prompt. Imports nothing heavy.
"""

from __future__ import annotations

import gc
import os

from clew.fronts.terminal.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.agent.options import Options
    from clew.fronts.terminal.app import OneSession


def main(options: Options | None = None) -> int:
    """Without options there was nothing to be read: the prompt need not wait for what reads them."""
    gc.disable()
    terminal = Terminal(os.environ)
    terminal.take()
    try:
        from clew.fronts.terminal import app

        code = app.main(options, terminal, load_sessions)
    finally:
        terminal.give_back()
    return code


def load_sessions() -> OneSession:
    """What opens sessions, and all that it needs; it takes its time."""
    from clew.fronts.terminal.opened import run_session

    return run_session
