"""Walls that the kernel puts around a child: what it may reach of the disk, of the network, of others.

Landlock for files, TCP ports and signals; a filter of system calls for the kinds of sockets. Both hold
for a process and all it starts, and are never taken away again. Put up by a child's watcher around
itself before it starts the child, which costs a few system calls and no program. Imports next to
nothing, as the keeper does (see `watcher`); formats: landlock(7), seccomp(2).
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
HAS_TCP, HAS_SCOPES = 4, 6

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
# Of `os.uname().machine`: the kernel's number of the architecture, of `socket`, and the first of x32.
ARCHITECTURES = {"x86_64": (0xC000003E, 41, 0x40000000), "aarch64": (0xC00000B7, 198, 0)}
IO_URING_SETUP = 425
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1
UNIX, INET, NETLINK, INET6 = 1, 2, 16, 10
STREAM = 1

Walls = dict[str, object]


def version() -> int:
    """Landlock's version in this kernel; 0 where it has none or may not be used."""
    if sys.platform != "linux":
        return 0
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    return max(0, int(library.syscall(CREATE, None, ctypes.c_size_t(0), VERSION)))


def all_rights(known: int) -> int:
    """Every right over files that a version knows."""
    rights = FIRST
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)):
        if known >= since:
            rights |= right
    return rights


def put_up(walls: Walls) -> None:
    """Around this process, for good. Raises OSError; a wall that cannot stand lets nothing start.

    `rules`: (path, rights) that are left; `ports`: TCP ports that may be connected to, None for any;
    `filter`: a program of system calls, or nothing.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)

    def called(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    called(library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    rules = walls.get("rules")
    if isinstance(rules, list):
        known = version()
        ports = walls.get("ports")
        net = BIND | CONNECT if isinstance(ports, list) and known >= HAS_TCP else 0
        scopes = ABSTRACT_SOCKETS | SIGNALS if known >= HAS_SCOPES else 0
        handled = all_rights(known)
        fields = [handled, net, scopes]
        if known < HAS_SCOPES:
            fields = fields[:2] if known >= HAS_TCP else fields[:1]
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

    held = ctypes.create_string_buffer(program, len(program))
    pointer = ctypes.addressof(held)
    # struct sock_fprog: a count of 16 bits, then a pointer, aligned.
    header = (len(program) // 8).to_bytes(2, sys.byteorder) + bytes(6)
    called(library.prctl(SECCOMP, FILTER, header + pointer.to_bytes(8, sys.byteorder), 0, 0))


def socket_filter(machine: str, *, families: frozenset[int], stream_only: bool) -> bytes:
    """A filter that lets sockets of these families be made, of TCP alone if so; empty where unknown.

    A call of another architecture, and io_uring, which makes sockets past any filter, are refused.
    """
    if machine not in ARCHITECTURES:
        return b""
    architecture, socket_call, foreign = ARCHITECTURES[machine]
    load, equal, at_least, mask, give = 0x20, 0x15, 0x35, 0x54, 0x06
    inet = sorted(families & {INET, INET6})
    others = sorted(families - {INET, INET6})
    refuse = "refuse"
    steps: list[tuple[int, str, str, int]] = [
        (load, "", "", 4),
        (equal, "", refuse, architecture),
        (load, "", "", 0),
        *([(at_least, refuse, "", foreign)] if foreign else []),
        (equal, refuse, "", IO_URING_SETUP),
        (equal, "", "allow", socket_call),
        (load, "", "", 16),
        *((equal, "allow", "", family) for family in others),
        *((equal, "inet", "", family) for family in inet),
        (equal, refuse, refuse, 0),
    ]
    names = {"inet": len(steps)}
    if stream_only:
        steps += [(load, "", "", 24), (mask, "", "", 0xF), (equal, "allow", refuse, STREAM)]
    else:
        steps += [(equal, "allow", "allow", 0)]
    names |= {"allow": len(steps), "refuse": len(steps) + 1}
    program = bytearray()
    for place, (code, yes, no, value) in enumerate(steps):
        true = names[yes] - place - 1 if yes else 0
        false = names[no] - place - 1 if no else 0
        program += code.to_bytes(2, sys.byteorder) + bytes((true, false))
        program += value.to_bytes(4, sys.byteorder)
    for value in (ALLOW, REFUSE):
        program += give.to_bytes(2, sys.byteorder) + bytes(2) + value.to_bytes(4, sys.byteorder)
    return bytes(program)
