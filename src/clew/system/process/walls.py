"""Walls that the kernel puts around a child: what it may reach of the disk, of the network, of others.

Landlock for files, TCP ports and signals; a filter of system calls for the rest; no privileges of root.
All hold for a process and what it starts, and are never taken away again. Put up by a child before it
becomes its program, which costs a few system calls and no program. Imports next to nothing, as the
keeper does (see `watcher`); formats: landlock(7), seccomp(2), capabilities(7).
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

CREATE, ADD, RESTRICT = 444, 445, 446
VERSION = 1
PATH_RULE, PORT_RULE = 1, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
# What version 1 knows: the three of reading, writing, and ten that make and remove.
FIRST = (1 << 13) - 1
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
BIND, CONNECT = 1, 2
FOLDER, LINK = 0o040000, 0o120000
ABSTRACT_SOCKETS, SIGNALS = 1, 2
HAS_TRUNCATE, HAS_TCP, HAS_SCOPES = 3, 4, 6

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
# Of capset(2): the version of its header, and three sets for each of two halves.
CAPABILITIES, SETS_BYTES = 0x20080522, 24

Walls = dict[str, object]
_libraries: "list[ctypes.CDLL]" = []


def can_build_wall() -> bool:
    """Whether a read-only wall may stand here, by a look that costs next to nothing.

    Only a command behind such a wall can tell for sure.
    """
    import shutil

    if sys.platform == "darwin":
        return shutil.which("sandbox-exec", path="/usr/bin") is not None
    return shutil.which("bwrap") is not None or read_version() >= HAS_TRUNCATE


def read_version() -> int:
    """Landlock's version in this kernel; 0 where it has none or may not be used."""
    if sys.platform != "linux":
        return 0
    import ctypes

    return max(0, int(load_system_calls().syscall(CREATE, None, ctypes.c_size_t(0), VERSION)))


def load_system_calls() -> "ctypes.CDLL":
    """The library that calls the system; loaded once, by the keeper before it forks."""
    if not _libraries:
        import ctypes

        _libraries.append(ctypes.CDLL(None, use_errno=True))
    return _libraries[0]


def list_rights(version: int) -> int:
    """Every right over files that a version knows."""
    rights = FIRST
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)):
        if version >= since:
            rights |= right
    return rights


def put_up(walls: Walls) -> None:
    """Around this process, for good. Raises OSError; a wall that cannot stand lets nothing start.

    `version`: Landlock's version; `rules`: (path, rights) that are left; `ports`: TCP ports that may be
    connected to, None for any; `filter`: a program of system calls, or nothing. Root keeps its user, and no privilege.
    """
    import ctypes

    library = load_system_calls()

    def called(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    called(library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    called(library.capset(CAPABILITIES.to_bytes(4, sys.byteorder) + bytes(4), bytes(SETS_BYTES)))
    rules, version = walls.get("rules"), walls.get("known")
    if isinstance(rules, list) and isinstance(version, int):
        ports = walls.get("ports")
        net = BIND | CONNECT if isinstance(ports, list) and version >= HAS_TCP else 0
        scopes = ABSTRACT_SOCKETS | SIGNALS if version >= HAS_SCOPES else 0
        handled = list_rights(version)
        fields = [handled, net, scopes]
        if version < HAS_SCOPES:
            fields = fields[:2] if version >= HAS_TCP else fields[:1]
        attribute = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
        ruleset = called(library.syscall(CREATE, attribute, ctypes.c_size_t(len(attribute)), 0))
        try:
            for path, rights in rules:
                allow_path(library, called, ruleset, path, rights & handled)
            for port in ports if net and isinstance(ports, list) else ():
                rule = CONNECT.to_bytes(8, sys.byteorder) + int(port).to_bytes(8, sys.byteorder)
                called(library.syscall(ADD, ruleset, PORT_RULE, rule, 0))
            called(library.syscall(RESTRICT, ruleset, 0))
        finally:
            os.close(ruleset)
    program = walls.get("filter")
    if isinstance(program, bytes) and program:
        put_up_filter(library, called, program)


def allow_path(
    library: "ctypes.CDLL", called: "Callable[[int], int]", ruleset: int, path: bytes, rights: int
) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        kind = os.fstat(descriptor).st_mode & 0o170000
        if kind == LINK:
            return
        if kind != FOLDER:
            rights &= OF_FILES
        rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        called(library.syscall(ADD, ruleset, PATH_RULE, rule, 0))
    finally:
        os.close(descriptor)


def put_up_filter(library: "ctypes.CDLL", called: "Callable[[int], int]", program: bytes) -> None:
    import ctypes

    buffer = ctypes.create_string_buffer(program, len(program))
    pointer = ctypes.addressof(buffer)
    # struct sock_fprog: a count of 16 bits, then a pointer, aligned.
    header = (len(program) // 8).to_bytes(2, sys.byteorder) + bytes(6)
    called(library.prctl(SECCOMP, FILTER, header + pointer.to_bytes(8, sys.byteorder), 0, 0))
