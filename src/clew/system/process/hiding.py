"""Keeps this process's memory and environment, where the keys are, from what it starts.

A process that is not dumpable is nobody's to read but root's: not its environment, not its memory, not
its descriptors, though a reader be of the same user. Imports next to nothing; see prctl(2), proc(5).
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SET_DUMPABLE = 4


def hide() -> None:
    """Makes this process unreadable for others of its user; programs that it becomes are not."""
    if sys.platform != "linux" or os.environ.get("CLEW_DUMPABLE") == "1":
        return
    # Not by ctypes, which takes three times as long to import: this is part of every start.
    import _ctypes

    integer = type("integer", (_ctypes._SimpleCData,), {"_type_": "i"})
    fields = {"_flags_": _ctypes.FUNCFLAG_CDECL, "_restype_": integer}
    call = type("call", (_ctypes.CFuncPtr,), fields)
    this_program: Any = None
    call(_ctypes.dlsym(_ctypes.dlopen(this_program, 0), "prctl"))(SET_DUMPABLE, 0, 0, 0, 0)
