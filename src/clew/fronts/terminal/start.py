"""Start-up on a terminal: takes over the terminal before anything slow is loaded.

From then on, the terminal no longer echoes typed keys. Otherwise, they would appear twice: as the
echo and in the prompt. This module imports nothing that is slow to load.
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
    """Start on the terminal; return the exit code.

    `options` is None if the command line has no arguments to parse.
    """
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
    """Import and return the function that runs sessions; the import takes time."""
    from clew.fronts.terminal.opened import run_session

    return run_session
