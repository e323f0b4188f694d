"""What the kernel says of a process: when it began, who its parent is. Nothing where it does not say.

A number alone may be another process's by now; together with when it began it is one for good.
"""

from pathlib import Path


def began(pid: int) -> int:
    """When a process began, in the kernel's ticks; 0 where it is not, or nobody says."""
    words = stat(pid)
    return int(words[19]) if words else 0


def lives(pid: int, since: int) -> bool:
    """Whether the very process that began then runs, and was not only left on the table."""
    words = stat(pid)
    return bool(words) and int(words[19]) == since != 0 and words[0] not in (b"Z", b"X")


def parent(pid: int) -> int:
    words = stat(pid)
    return int(words[1]) if words else 0


def stat(pid: int) -> list[bytes]:
    """The words of /proc/PID/stat behind the name, which may hold anything; none if it is not."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return data.rpartition(b")")[2].split()
