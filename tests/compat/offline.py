"""Runs a command in a network namespace of its own, in which only this machine can be reached.

`python -m tests.compat.offline COMMAND ...`. All that the command starts is in the namespace too.
The user stays the same, and needs no privileges if the kernel lets users create namespaces.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SET_INTERFACE_FLAGS, IS_UP = 0x8914, 1
# Addresses for documentation, which no machine has. A route to them leads elsewhere.
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def is_offline() -> bool:
    """Return whether no other machine can be reached. Sends nothing."""
    for family, address in ELSEWHERE:
        with socket.socket(family, socket.SOCK_DGRAM) as asks:
            try:
                asks.connect((address, 9))
            except OSError:
                continue
            return False
    return True


def leave_network() -> None:
    """Move this process, which must have one thread only, to a namespace with loopback only."""
    user, group = os.getuid(), os.getgid()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(NEW_NETWORK) != 0:
        # A user who may not do this may do it in a user namespace.
        if library.unshare(NEW_USER | NEW_NETWORK) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", name).write_text(text, "utf-8")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IS_UP)
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, request)


def main(command: list[str]) -> NoReturn:
    try:
        leave_network()
    except (OSError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else "this needs Linux"
        sys.stderr.write(
            f"can't create a network namespace: {why}; run this as root, or let users create "
            "namespaces (sysctl user.max_user_namespaces, user.max_net_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)\n"
        )
        sys.exit(2)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
