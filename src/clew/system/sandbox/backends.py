"""Build sandboxes from a policy, for bubblewrap, Landlock and seatbelt.

Landlock can only grant access, and only to entire trees. To make a place unreadable, everything
next to it is therefore granted instead. A place inside a writable folder cannot be made read-only
(docs/using/sandbox.md says so). In the read-only sandbox, a system call filter covers what Landlock
does not.

Decision: docs/decisions/131-sandbox.md
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clew.system.files import is_folder, is_there
from clew.system.process.walls import (
    HAS_SCOPES,
    HAS_TCP,
    HAS_TRUNCATE,
    OF_FILES,
    READ_DIR,
    READING,
    Walls,
    list_rights,
)
from clew.system.sandbox.filters import (
    INET,
    INET6,
    NETLINK,
    UNIX,
    make_socket_filter,
    read_only_filter,
)
from clew.system.sandbox.policy import SandboxPolicy, covers, is_written
from clew.system.sandbox.protected_paths import Listing

# Bubblewrap: the command gets its own namespaces, and the disk is read-only except for some
# folders.


BUBBLEWRAP = "bwrap"
# Arguments that take root's privileges from a command, the strongest first. The next one is used
# where the version or the system does not support it. The first also prevents the command from
# regaining privileges in another namespace.
UNPRIVILEGED = (
    ("--unshare-user", "--cap-drop", "ALL", "--disable-userns"),
    ("--unshare-user", "--cap-drop", "ALL"),
    ("--cap-drop", "ALL"),
)
# Places that root may write without any privilege, although they affect the entire machine.
OF_THE_MACHINE = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def make_bubblewrap_arguments(
    policy: SandboxPolicy,
    cwd: str,
    *,
    filter_fd: int | None = None,
    unprivileged: Sequence[str] = UNPRIVILEGED[0],
) -> list[str]:
    """Return all bubblewrap arguments before the command. Later arguments override earlier ones."""
    arguments = [
        BUBBLEWRAP,
        *unprivileged,
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    for path in present(OF_THE_MACHINE):
        arguments += ["--ro-bind", path, path]
    for path, may_write in held(policy):
        arguments += ["--bind" if may_write else "--ro-bind", path, path]
    for path in present(policy.no_read):
        arguments += ["--tmpfs", path] if is_folder(path) else ["--ro-bind", os.devnull, path]
    for path in present(policy.read):
        if covers(policy.no_read, path):
            arguments += ["--bind" if policy.may_write(path) else "--ro-bind", path, path]
    arguments += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    if filter_fd is not None:
        arguments += ["--seccomp", str(filter_fd)]
    return [*arguments, "--die-with-parent", "--chdir", cwd, "--"]


def held(policy: SandboxPolicy) -> list[tuple[str, bool]]:
    """Return the places to mount, parents first, and whether each may be written.

    These are the existing places of the policy, and the writable folders above protected places.
    Without a mount of its own, such a folder could be moved away together with the protected place
    in it, and be replaced by another folder.
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
    grants = {path: may for path, may in (between | places).items() if is_there(path)}
    return sorted(grants.items(), key=lambda place: place[0].count("/"))


def present(paths: Sequence[str]) -> list[str]:
    """Return the existing paths, parents first, because later arguments override earlier ones."""
    return sorted((path for path in paths if is_there(path)), key=lambda p: p.count("/"))


def make_bubblewrap_filter(policy: SandboxPolicy) -> bytes:
    """Return the system call filter for a command in bubblewrap.

    For ordinary commands it only limits sockets, because the namespace has no network except its
    own loopback.
    """
    if policy.is_read_only:
        # Only processes of its own PID namespace can receive its signals.
        return read_only_filter(os.uname().machine, has_signals=True)
    families = {INET, INET6, NETLINK} | ({UNIX} if policy.unix_sockets else set())
    return make_socket_filter(os.uname().machine, families=frozenset(families), stream_only=False)


DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
# A read-only command has no terminal of its own and does not read the terminals of other programs.
LOOKED_AT = ("null", "zero", "full", "random", "urandom", "tty")


def make_walls(
    policy: SandboxPolicy, *, version: int, port: int | None, listing: Listing | None = None
) -> Walls:
    """Return the restrictions for a kernel with Landlock ABI `version`.

    `port` is the port of the proxy.
    """
    filesystem_rules = each_rule(policy, version, listing or Listing())
    rules = [(os.fsencode(path), rights) for path, rights in filesystem_rules]
    return {
        "known": version,
        "rules": rules,
        "ports": [] if port is None else [port],
        "filter": landlock_filter_program(policy, version, has_port=port is not None),
    }


def landlock_filter_program(policy: SandboxPolicy, version: int, *, has_port: bool) -> bytes:
    machine = os.uname().machine
    if policy.is_read_only:
        return read_only_filter(machine, has_signals=version >= HAS_SCOPES)
    families = {NETLINK} | ({UNIX} if policy.unix_sockets else set())
    if has_port:
        families |= {INET, INET6}
    return make_socket_filter(machine, families=frozenset(families), stream_only=True)


def why_not(policy: SandboxPolicy, version: int) -> str:
    """Return why the kernel's Landlock cannot enforce a policy, or an empty string if it can.

    `version` is the Landlock version of the kernel.
    """
    if not version:
        return "the kernel does not support Landlock"
    if not landlock_filter_program(policy, version, has_port=False):
        return f"no system call filter is available for {os.uname().machine}"
    if policy.is_read_only and version < HAS_TRUNCATE:
        return "the kernel's Landlock cannot prevent truncating files"
    if policy.has_network and version < HAS_TCP:
        return "the kernel's Landlock cannot restrict connections"
    return ""


def each_rule(policy: SandboxPolicy, version: int, listing: Listing) -> Iterator[tuple[str, int]]:
    shut = Shut((*policy.no_read, "/dev") if policy.is_read_only else policy.no_read, listing)
    if shut:
        # All folders may be listed, but files in unreadable places may not be read.
        yield "/", READ_DIR
        for path in shut.beside("/"):
            yield path, READING
    else:
        yield "/", READING
    for path in policy.read:
        yield path, READING
    for path in policy.write:
        for open_path in shut.beside(path):
            yield open_path, list_rights(version)
    for name in LOOKED_AT if policy.is_read_only else DEVICES:
        yield f"/dev/{name}", OF_FILES | READ_DIR


class Shut:
    """A set of places that may not be read. Finds the trees that contain none of these places."""

    def __init__(self, places: Iterable[str], listing: Listing) -> None:
        self._places = frozenset(places)
        self._above = {folder for place in self._places for folder in above(place)}
        self._listing = listing

    def __bool__(self) -> bool:
        return bool(self._places)

    def beside(self, top: str) -> Iterator[str]:
        """Yield the fewest trees at or below `top` that contain no unreadable place."""
        if not covers(self._places, top):
            yield from self._parts(top)

    def _parts(self, top: str) -> Iterator[str]:
        if top in self._places:
            return
        if top not in self._above:
            yield top
            return
        # A rule for a link would apply to its target, which the walk reaches at its own place.
        for name, what in self._listing.entries(top):
            if what != "link":
                yield from self._parts(f"{top.rstrip('/')}/{name}")


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path."""
    while path := path.rpartition("/")[0]:
        yield path
    yield "/"


# macOS sandbox-exec: the policy is passed on the command line as a profile in its language.


SANDBOX_EXEC = "/usr/bin/sandbox-exec"


def make_seatbelt_arguments(policy: SandboxPolicy, *, port: int | None) -> list[str]:
    return [SANDBOX_EXEC, "-p", profile(policy, port=port)]


def profile(policy: SandboxPolicy, *, port: int | None) -> str:
    """Return a policy in seatbelt's profile language. Later rules override earlier ones."""
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))',
        *(
            f"({'allow' if may else 'deny'} file-write* (subpath {quoted(path)}))"
            for path, may in policy.written
        ),
        *(f"(deny file-read* (subpath {quoted(path)}))" for path in policy.no_read),
        *(f"(allow file-read* (subpath {quoted(path)}))" for path in policy.read),
        "(deny network*)",
    ]
    if port is not None:
        lines.append(f'(allow network-outbound (remote ip "localhost:{port}"))')
    if policy.unix_sockets:
        lines.append("(allow network* (remote unix-socket))")
    return "\n".join(lines)


def quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
