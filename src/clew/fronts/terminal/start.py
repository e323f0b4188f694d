"""The first moments on a terminal: it is taken over before anything is loaded that takes its time.

What is typed from then on is not echoed by the system and again by the prompt. Imports nothing heavy.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from clew.fronts.terminal.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.agent.options import Options


def main(options: Options | None = None) -> int:
    """Without options there was nothing to be read: the prompt need not wait for what reads them."""
    gc.disable()
    terminal = Terminal(os.environ)
    terminal.take()
    try:
        code: int = import_module("clew.fronts.terminal.app").main(options, terminal)
    finally:
        terminal.give_back()
    return code


def stands() -> None:
    """A session stands there. What was made on the way stays to the end, modules and a conversation:
    nobody looks for garbage in it, now or in the middle of an answer."""
    gc.freeze()
    gc.enable()
