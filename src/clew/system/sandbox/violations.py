"""What a command behind walls ran into, in words, and what would allow it. Pure.

The kernel does not tell; a program does, in the words of its system. Found are the lines in which
programs say that they could not, about paths and hosts that the policy holds back.
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
# Quoted; else what stands right before the reason; else what looks like a path.
QUOTED = re.compile(r"['\"‘`]([^'\"’`\n]+)['\"’`]")
BEFORE = re.compile(rf"(?:^|: )([^:\s]+|[~./][^:]*): {HELD_BACK.pattern}")
BARE = re.compile(r"((?:~|\.{0,2})/[^\s:;,'\"]+)")
NO_NETWORK = re.compile(
    r"Could not resolve host: (\S+)|Network is unreachable|Temporary failure in name resolution|"
    r"Name or service not known|failed to connect|unable to resolve host address ['‘]?([^'’\s]+)",
    re.IGNORECASE,
)
# Refused, and not because of a path: a signal, a socket, a mode.
REFUSED = re.compile(r"Operation not permitted|Read-only file system")
MOST_LINES = 200
MOST_SHOWN = 5


Kind: TypeAlias = Literal["writing", "reading", "reaching", "an operation that changes something"]
SETTINGS: dict[Kind, str] = {
    "writing": "sandbox.filesystem.allowWrite",
    "reading": "sandbox.filesystem.allowRead",
    "reaching": "sandbox.network.allowedDomains",
}
# Whether clew itself may do something with a path, as `os.access` says.
IS_THERE, MAY_WRITE = 0, 2
CanDo: TypeAlias = Callable[[str, int], bool]


class SandboxViolation(Struct, frozen=True, kw_only=True):
    """One thing held back; where it is about a path or a host, a setting names what may pass."""

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
    """What the last lines of an output say was held back, and the hosts the proxy refused."""
    violations = [SandboxViolation(kind="reaching", target=host) for host in refused]
    for line in output.split("\n")[-MOST_LINES:]:
        before = len(violations)
        if HELD_BACK.search(line):
            for text in paths_in(line):
                about = about_path(text, policy, cwd, home, can_do)
                # What is missing is missing, unless a wall hides it: no write was blocked.
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
    # Nothing may be written behind the read-only wall, so that what is refused must be told from what
    # the user may not do either.
    place = path if can_do(path, IS_THERE) else posixpath.dirname(path)
    if policy.is_read_only and not can_do(place, MAY_WRITE):
        return []
    return [SandboxViolation(kind="writing", target=path)]


def list_violations(violations: Iterable[SandboxViolation]) -> str:
    return "; ".join(map(str, violations))


def describe_violations(violations: Sequence[SandboxViolation], *, is_read_only: bool) -> str:
    """The note for a command's result; empty if nothing was held back."""
    if not violations:
        return ""
    if is_read_only:
        return (
            "This command ran without anybody being asked, behind a read-only wall, which blocked "
            f"{list_violations(violations)}."
        )
    listing = "; ".join(f"{violation} ({SETTINGS[violation.kind]})" for violation in violations)
    return (
        f"The sandbox may have held this back: {listing}. Only the user can allow it, by the setting "
        "named, in their own settings."
    )
