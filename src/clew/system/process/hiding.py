"""Hide this process's memory and environment, which contain the keys, from the programs it starts.

Only root can read the environment, memory and descriptors of a process that is not dumpable. Other
processes of the same user cannot. Imports almost nothing. See prctl(2), proc(5).
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SET_DUMPABLE = 4


def hide() -> None:
    """Make this process unreadable to other processes of the same user.

    The effect ends when this process executes another program.
    """
    if sys.platform != "linux" or os.environ.get("CLEW_DUMPABLE") == "1":
        return
    # Without ctypes, which takes three times as long to import, because this is part of every
    # start.
    import _ctypes

    integer = type("integer", (_ctypes._SimpleCData,), {"_type_": "i"})
    fields = {"_flags_": _ctypes.FUNCFLAG_CDECL, "_restype_": integer}
    call = type("call", (_ctypes.CFuncPtr,), fields)
    this_program: Any = None
    call(_ctypes.dlsym(_ctypes.dlopen(this_program, 0), "prctl"))(SET_DUMPABLE, 0, 0, 0, 0)
