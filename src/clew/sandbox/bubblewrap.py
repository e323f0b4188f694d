"""Walls by bubblewrap: a command in name spaces of its own, the disk read-only but for some folders.

Owns the arguments of `bwrap(1)`; running it is its caller's. The processes of a command are a world of
their own and end with its shell. Without hosts that may be reached there is no network at all.

Decision: docs/decisions/131-sandbox.md
"""

import os
from collections.abc import Sequence
from pathlib import Path

from clew.config.there import is_folder, is_there
from clew.sandbox.filters import INET, INET6, NETLINK, UNIX, read_only_filter, socket_filter
from clew.sandbox.policy import Policy, covers, is_written

PROGRAM = "bwrap"
# What takes the privileges of root from a command, from the strongest on: a version or a system that
# does not know one has the next. The first also keeps a command from getting them in another name space.
UNPRIVILEGED = (
    ("--unshare-user", "--cap-drop", "ALL", "--disable-userns"),
    ("--unshare-user", "--cap-drop", "ALL"),
    ("--cap-drop", "ALL"),
)
# What root may write there without any privilege: it belongs to the whole machine.
OF_THE_MACHINE = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def arguments(
    policy: Policy,
    cwd: str,
    *,
    filter_fd: int | None = None,
    unprivileged: Sequence[str] = UNPRIVILEGED[0],
) -> list[str]:
    """Everything before the command; later walls stand in front of earlier ones."""
    made = [PROGRAM, *unprivileged, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in present(OF_THE_MACHINE):
        made += ["--ro-bind", path, path]
    for path, may_write in held(policy):
        made += ["--bind" if may_write else "--ro-bind", path, path]
    for path in present(policy.no_read):
        made += ["--tmpfs", path] if is_folder(path) else ["--ro-bind", os.devnull, path]
    for path in present(policy.read):
        if covers(policy.no_read, path):
            made += ["--bind" if policy.may_write(path) else "--ro-bind", path, path]
    made += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    if filter_fd is not None:
        made += ["--seccomp", str(filter_fd)]
    return [*made, "--die-with-parent", "--chdir", cwd, "--"]


def held(policy: Policy) -> list[tuple[str, bool]]:
    """The places of a policy that are there, and the folders between them.

    A folder that is no place of its own could be moved away with what is shut in it, and another be put
    there.
    """
    every = dict(policy.written)
    places = {path: may for path, may in every.items() if may or covers(policy.write, path)}
    between = {
        str(parent): True
        for path, may_write in places.items()
        if not may_write
        for parent in Path(path).parents
        if is_written(every, str(parent))
    }
    found = {path: may for path, may in (between | places).items() if is_there(path)}
    return sorted(found.items(), key=lambda place: place[0].count("/"))


def present(paths: Sequence[str]) -> list[str]:
    """What is there, the higher first, so that the deeper counts."""
    return sorted((path for path in paths if is_there(path)), key=lambda p: p.count("/"))


def filter_program(policy: Policy) -> bytes:
    """Which sockets may be made: the name space has no network but its own loopback."""
    if policy.is_read_only:
        # Only processes of its own are there to be signalled.
        return read_only_filter(os.uname().machine, has_signals=True)
    families = {INET, INET6, NETLINK} | ({UNIX} if policy.unix_sockets else set())
    return socket_filter(os.uname().machine, families=frozenset(families), stream_only=False)
