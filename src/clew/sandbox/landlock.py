"""The way from a policy to `process.walls`.

Landlock only ever grants, and grants whole trees: what may not be read is left out by naming everything
next to it, and what may not be written inside a folder that may be cannot be kept from being written
(docs/sandbox.md says so). What it does not see, a filter of system calls refuses for the read-only wall.

Decision: docs/decisions/131-sandbox.md
"""

import os
from collections.abc import Iterable, Iterator

from clew.process.walls import (
    HAS_SCOPES,
    HAS_TCP,
    HAS_TRUNCATE,
    OF_FILES,
    READ_DIR,
    READING,
    Walls,
    all_rights,
)
from clew.sandbox.filters import (
    INET,
    INET6,
    NETLINK,
    UNIX,
    read_only_filter,
    socket_filter,
)
from clew.sandbox.listing import Listing
from clew.sandbox.policy import Policy, covers

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
# A command that only looks has no terminal of its own, and reads none of another program.
LOOKED_AT = ("null", "zero", "full", "random", "urandom", "tty")


def walls(policy: Policy, *, known: int, port: int | None, listing: Listing | None = None) -> Walls:
    """The walls for a kernel whose Landlock has the version `known`; `port` is the proxy's."""
    found = each_rule(policy, known, listing or Listing())
    rules = [(os.fsencode(path), rights) for path, rights in found]
    return {
        "known": known,
        "rules": rules,
        "ports": [] if port is None else [port],
        "filter": filter_program(policy, known, has_port=port is not None),
    }


def filter_program(policy: Policy, known: int, *, has_port: bool) -> bytes:
    machine = os.uname().machine
    if policy.is_read_only:
        return read_only_filter(machine, has_signals=known >= HAS_SCOPES)
    families = {NETLINK} | ({UNIX} if policy.unix_sockets else set())
    if has_port:
        families |= {INET, INET6}
    return socket_filter(machine, families=frozenset(families), stream_only=True)


def why_not(policy: Policy, known: int) -> str:
    """Why this kernel's Landlock cannot hold a policy; empty if it can."""
    if not known:
        return "the kernel has no Landlock"
    if not filter_program(policy, known, has_port=False):
        return f"no filter of system calls is known for {os.uname().machine}"
    if policy.is_read_only and known < HAS_TRUNCATE:
        return "the kernel's Landlock cannot keep files from being emptied"
    if policy.has_network and known < HAS_TCP:
        return "the kernel's Landlock cannot hold back connections"
    return ""


def each_rule(policy: Policy, known: int, listing: Listing) -> Iterator[tuple[str, int]]:
    shut = Shut((*policy.no_read, "/dev") if policy.is_read_only else policy.no_read, listing)
    if shut:
        # Folders may be listed everywhere; what is in files may not.
        yield "/", READ_DIR
        for path in shut.beside("/"):
            yield path, READING
    else:
        yield "/", READING
    for path in policy.read:
        yield path, READING
    for path in policy.write:
        for open_path in shut.beside(path):
            yield open_path, all_rights(known)
    for name in LOOKED_AT if policy.is_read_only else DEVICES:
        yield f"/dev/{name}", OF_FILES | READ_DIR


class Shut:
    """Places that may not be read, and the trees that are left when they are taken out."""

    def __init__(self, places: Iterable[str], listing: Listing) -> None:
        self._places = frozenset(places)
        self._above = {folder for place in self._places for folder in above(place)}
        self._listing = listing

    def __bool__(self) -> bool:
        return bool(self._places)

    def beside(self, top: str) -> Iterator[str]:
        """The fewest trees at or below a folder without what is shut; none if it is shut itself."""
        if not covers(self._places, top):
            yield from self._parts(top)

    def _parts(self, top: str) -> Iterator[str]:
        if top in self._places:
            return
        if top not in self._above:
            yield top
            return
        # A right on a link is one on what it leads to, which has its own place in the walk.
        for name, what in self._listing.entries(top):
            if what != "link":
                yield from self._parts(f"{top.rstrip('/')}/{name}")


def above(path: str) -> Iterator[str]:
    """The folders that a path lies in."""
    while path := path.rpartition("/")[0]:
        yield path
    yield "/"
