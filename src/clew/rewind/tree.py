"""A working folder at a glance: which files it has and when each was written last. Reads no file."""

import os
from typing import TypeAlias

# What stands for each file: size, times and number; a change of any means another content or mode.
Glance: TypeAlias = dict[str, tuple[int, int, int, int]]

SEEN_MAX = 20_000
# Made from other files, or by other programs' bookkeeping.
PASSED = frozenset(
    {
        ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".hypothesis",
    }
)  # fmt: skip


def glance(folder: str) -> Glance | None:
    """Every file below a folder; None if there are too many to look at around each call."""
    seen: Glance = {}
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in PASSED:
                            waiting.append(entry.path)
                        continue
                    found = entry.stat(follow_symlinks=False)
                    seen[entry.path] = (
                        found.st_size,
                        found.st_mtime_ns,
                        found.st_ctime_ns,
                        found.st_ino,
                    )
        except OSError:
            continue
        if len(seen) > SEEN_MAX:
            return None
    return seen


def differing(before: Glance, after: Glance) -> set[str]:
    return {path for path, _ in before.items() ^ after.items()}
