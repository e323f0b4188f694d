"""Walls by Landlock, where bubblewrap does not work: rights over files, TCP ports, kinds of sockets.

Owns the way from a policy to `process.walls`. Landlock only ever grants, and grants whole trees: what
may not be read is left out by naming everything beside it, and what may not be written inside a folder
that may be cannot be held back (docs/sandbox.md says so).
"""

import os
from collections.abc import Iterator

from clew.process.walls import (
    HAS_TCP,
    INET,
    INET6,
    NETLINK,
    OF_FILES,
    READ_DIR,
    READING,
    UNIX,
    Walls,
    all_rights,
    socket_filter,
)
from clew.sandbox.policy import Policy, covers

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def walls(policy: Policy, *, known: int, port: int | None) -> Walls:
    """The walls for a kernel whose Landlock has the version `known`; `port` is the proxy's."""
    rules = [(os.fsencode(path), rights) for path, rights in each_rule(policy, known)]
    families = {NETLINK} | ({UNIX} if policy.unix_sockets else set())
    if port is not None:
        families |= {INET, INET6}
    return {
        "rules": rules,
        "ports": [] if port is None else [port],
        "filter": socket_filter(os.uname().machine, families=frozenset(families), stream_only=True),
    }


def why_not(policy: Policy, known: int) -> str:
    """Why this kernel's Landlock cannot hold a policy; empty if it can."""
    if not known:
        return "the kernel has no Landlock"
    if not socket_filter(os.uname().machine, families=frozenset({UNIX}), stream_only=True):
        return f"no filter of system calls is known for {os.uname().machine}"
    if policy.has_network and known < HAS_TCP:
        return "the kernel's Landlock cannot hold back connections"
    return ""


def each_rule(policy: Policy, known: int) -> Iterator[tuple[str, int]]:
    if policy.no_read:
        # Folders may be listed everywhere; what is in files may not.
        yield "/", READ_DIR
        for path in beside(policy):
            yield path, READING
    else:
        yield "/", READING
    for path in policy.read:
        yield path, READING
    for path in policy.write:
        for open_path in (path,) if not covers_any(path, policy.no_read) else parts(path, policy):
            yield open_path, all_rights(known)
    for name in DEVICES:
        yield f"/dev/{name}", OF_FILES | READ_DIR


def covers_any(root: str, paths: tuple[str, ...]) -> bool:
    return any(covers((root,), path) for path in paths)


def beside(policy: Policy) -> Iterator[str]:
    """Everything that may be read, as the fewest trees there are now."""
    return parts("/", policy)


def parts(top: str, policy: Policy) -> Iterator[str]:
    """The trees below `top` without what may not be read."""
    if covers(policy.no_read, top):
        return
    if not covers_any(top, policy.no_read):
        yield top
        return
    try:
        entries = list(os.scandir(top))
    except OSError:
        return
    for entry in entries:
        # A right on a link is one on what it leads to, which has its own place in the walk.
        if not entry.is_symlink():
            yield from parts(entry.path, policy)
