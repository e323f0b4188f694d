"""Becomes another program on a system whose kernel has no Landlock: `python no_landlock.py PROGRAM ...`.

A filter of system calls, inherited by all that follows, answers the calls of Landlock as an old kernel does.
"""

import ctypes
import os
import struct
import sys

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
LOAD, AT_LEAST, ABOVE, GIVE = 0x20, 0x35, 0x25, 0x06
ALLOW, UNKNOWN_CALL = 0x7FFF0000, 0x00050000 | 38
FIRST, LAST = 444, 446

STEPS = (
    (LOAD, 0, 0, 0),
    (AT_LEAST, 0, 2, FIRST),
    (ABOVE, 1, 0, LAST),
    (GIVE, 0, 0, UNKNOWN_CALL),
    (GIVE, 0, 0, ALLOW),
)


def main() -> None:
    program = b"".join(struct.pack("=HBBI", *step) for step in STEPS)
    held = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(STEPS), ctypes.addressof(held))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.prctl(SECCOMP, FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter could not be set")
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
