"""Find in a command's output what the sandbox blocked, and which setting allows it. Does no I/O.

The kernel does not report this, but programs do, in the wording of their system. This module finds
lines in which programs report a failure with a path or host that the policy blocks.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.system.sandbox.policy import SandboxPolicy

HELD_BACK = re.compile(
    r"(?:Read-only file system|Permission denied|Operation not permitted|"
    r"No such file or directory|Invalid cross-device link)"
)
MISSING = "No such file or directory"
# Where to look for a path: in quotes, otherwise before the reason, otherwise anything like a path.
QUOTED = re.compile(r"['\"‘`]([^'\"’`\n]+)['\"’`]")
BEFORE = re.compile(rf"(?:^|: )([^:\s]+|[~./][^:]*): {HELD_BACK.pattern}")
BARE = re.compile(r"((?:~|\.{0,2})/[^\s:;,'\"]+)")
NO_NETWORK = re.compile(
    r"Could not resolve host: (\S+)|Network is unreachable|Temporary failure in name resolution|"
    r"Name or service not known|failed to connect|unable to resolve host address ['‘]?([^'’\s]+)",
    re.IGNORECASE,
)
# Refused for a reason other than a path: a signal, a socket, a mode.
REFUSED = re.compile(r"Operation not permitted|Read-only file system")
MOST_LINES = 200
MOST_SHOWN = 5


Kind: TypeAlias = Literal["writing", "reading", "reaching", "an operation that changes something"]
SETTINGS: dict[Kind, str] = {
    "writing": "sandbox.filesystem.allowWrite",
    "reading": "sandbox.filesystem.allowRead",
    "reaching": "sandbox.network.allowedDomains",
}
# Returns whether clew itself may access a path, with the modes of `os.access`.
IS_THERE, MAY_WRITE = 0, 2
CanDo: TypeAlias = Callable[[str, int], bool]


class SandboxViolation(Struct, frozen=True, kw_only=True):
    """An action that was blocked. If it concerns a path or a host, a setting can allow it."""

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.target}".rstrip()


def find_violations(
    output: str,
    policy: SandboxPolicy,
    *,
    cwd: str,
    home: str,
    refused: Iterable[str] = (),
    can_do: CanDo,
) -> list[SandboxViolation]:
    """Return what was blocked, judging by the end of a command's output and the refused hosts."""
    violations = [SandboxViolation(kind="reaching", target=host) for host in refused]
    for line in output.split("\n")[-MOST_LINES:]:
        before = len(violations)
        if HELD_BACK.search(line):
            for text in paths_in(line):
                about = about_path(text, policy, cwd, home, can_do)
                # A missing file is a violation only if the sandbox hides it. It never means that a
                # write was blocked.
                violations += [
                    violation
                    for violation in about
                    if MISSING not in line or violation.kind == "reading"
                ]
        network = NO_NETWORK.search(line)
        if network is not None and not refused:
            violations.append(
                SandboxViolation(kind="reaching", target=network[1] or network[2] or "the network")
            )
        if policy.is_read_only and len(violations) == before and REFUSED.search(line):
            violations.append(SandboxViolation(kind="an operation that changes something"))
    return list(dict.fromkeys(violations))[:MOST_SHOWN]


def paths_in(line: str) -> list[str]:
    for pattern in (QUOTED, BEFORE, BARE):
        paths = pattern.findall(line)
        if paths:
            return paths
    return []


def about_path(
    text: str, policy: SandboxPolicy, cwd: str, home: str, can_do: CanDo
) -> list[SandboxViolation]:
    path = home + text[1:] if text.startswith("~") else text
    path = posixpath.normpath(posixpath.join(cwd, path))
    if not policy.may_read(path):
        return [SandboxViolation(kind="reading", target=path)]
    if policy.may_write(path):
        return []
    # The read-only sandbox blocks every write. Writes that the user's own permissions forbid are no
    # violation.
    place = path if can_do(path, IS_THERE) else posixpath.dirname(path)
    if policy.is_read_only and not can_do(place, MAY_WRITE):
        return []
    return [SandboxViolation(kind="writing", target=path)]


def list_violations(violations: Iterable[SandboxViolation]) -> str:
    return "; ".join(map(str, violations))


def describe_violations(violations: Sequence[SandboxViolation], *, is_read_only: bool) -> str:
    """Return the note to add to a command's result, or an empty string if nothing was blocked."""
    if not violations:
        return ""
    if is_read_only:
        return (
            "This command ran without asking the user, in the read-only sandbox, which blocked "
            f"{list_violations(violations)}."
        )
    listing = "; ".join(f"{violation} ({SETTINGS[violation.kind]})" for violation in violations)
    return (
        f"The sandbox may have blocked this: {listing}. Only the user can allow it, with the named "
        "setting in their own settings."
    )
