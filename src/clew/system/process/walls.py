"""Kernel restrictions on a child's access to the disk, the network and other processes.

Landlock restricts files, TCP ports and signals; a system call filter restricts the rest; root loses
its privileges. All restrictions are permanent and also apply to the descendants of the process. The
child applies them to itself before it executes its program, which costs a few system calls and no
extra program. Imports almost nothing, like the keeper (see `watcher`). Formats: landlock(7),
seccomp(2), capabilities(7).
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
# The rights of version 1: three for reading, writing, and ten for creating and removing.
FIRST = (1 << 13) - 1
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
BIND, CONNECT = 1, 2
FOLDER, LINK = 0o040000, 0o120000
ABSTRACT_SOCKETS, SIGNALS = 1, 2
HAS_TRUNCATE, HAS_TCP, HAS_SCOPES = 3, 4, 6

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
# For capset(2): the version of its header, and three sets in each of two halves.
CAPABILITIES, SETS_BYTES = 0x20080522, 24

Walls = dict[str, object]
_libraries: "list[ctypes.CDLL]" = []


def can_build_wall() -> bool:
    """Return whether the read-only sandbox is probably available.

    The check is cheap. Only a command that runs in the sandbox shows for certain whether it works.
    """
    if sys.platform == "darwin":
        return os.access("/usr/bin/sandbox-exec", os.X_OK)
    # Without `shutil`, which takes longer to import than this entire check.
    programs = (f"{folder}/bwrap" for folder in os.get_exec_path())
    is_installed = any(os.access(program, os.X_OK) for program in programs)
    return is_installed or read_version() >= HAS_TRUNCATE


def read_version() -> int:
    """Return the Landlock version of this kernel, or 0 if it is unsupported or forbidden."""
    if sys.platform != "linux":
        return 0
    import ctypes

    return max(0, int(load_system_calls().syscall(CREATE, None, ctypes.c_size_t(0), VERSION)))


def load_system_calls() -> "ctypes.CDLL":
    """Return the system's C library. The keeper loads it once, before it forks."""
    if not _libraries:
        import ctypes

        _libraries.append(ctypes.CDLL(None, use_errno=True))
    return _libraries[0]


def list_rights(version: int) -> int:
    """Return all file access rights that a Landlock version supports, as a bit mask."""
    rights = FIRST
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)):
        if version >= since:
            rights |= right
    return rights


def put_up(walls: Walls) -> None:
    """Restrict this process permanently. Raise OSError if that is impossible.

    In `walls`, `known` is the Landlock version; `rules` are the permitted (path, rights); `ports`
    are the TCP ports that may be connected to, or None for any; `filter` is a system call filter,
    or empty. Root keeps its user ID, but no privileges.
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
    # struct sock_fprog: a 16-bit count and an aligned pointer.
    header = (len(program) // 8).to_bytes(2, sys.byteorder) + bytes(6)
    called(library.prctl(SECCOMP, FILTER, header + pointer.to_bytes(8, sys.byteorder), 0, 0))
