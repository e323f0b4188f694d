"""The first moments on a terminal: it is taken over before anything is loaded that takes its time.

What is typed from then on is not echoed by the system and again by the prompt. Imports nothing heavy.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from clew.tui.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from clew.options import Options


def main(options: Options | None = None) -> int:
    """Without options there was nothing to be read: the prompt need not wait for what reads them."""
    terminal = Terminal(os.environ)
    terminal.take()
    try:
        code: int = loaded("clew.tui.app").main(options, terminal)
    finally:
        terminal.give_back()
    return code


def loaded(name: str) -> ModuleType:
    """A module; what loading it makes stays, so nobody looks for garbage in it meanwhile."""
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.enable()
