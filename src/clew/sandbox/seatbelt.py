"""Walls by macOS's sandbox-exec: a policy as a profile in its language, given on the command line.

Written after the published profiles of that system and never run: no such machine was at hand. Nothing
is promised by it that `box.probe` has not seen hold there.
"""

from clew.sandbox.policy import Policy

PROGRAM = "/usr/bin/sandbox-exec"


def arguments(policy: Policy, *, port: int | None) -> list[str]:
    return [PROGRAM, "-p", profile(policy, port=port)]


def profile(policy: Policy, *, port: int | None) -> str:
    """Later rules count before earlier ones."""
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
