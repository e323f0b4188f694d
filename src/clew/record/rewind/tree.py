"""A working folder at a glance: which files it has and how each looks. Reads no file but ignore rules.

What `.gitignore` excludes is not looked at: it is made from other files, or is nobody's to copy.
"""

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from clew.permissions.patterns import ignore_rules
from clew.system.files import only_files

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Size, times, number and mode: a change of any means another content or mode.
Look: TypeAlias = tuple[int, int, int, int, int]
Glance: TypeAlias = dict[str, Look]
Specs: TypeAlias = "tuple[tuple[str, GitIgnoreSpec], ...]"

SEEN_MAX = 20_000
# Made from other files, or by other programs' bookkeeping.
PASSED = frozenset(
    {
        ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".hypothesis",
    }
)  # fmt: skip


def look_of(found: os.stat_result) -> Look:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


class FolderTree:
    """One folder, looked at again and again. Remembers what is ignored until the rules change."""

    def __init__(self, folder: str, *, passed: str = "") -> None:
        """`passed` is one folder more that is not looked into."""
        self.folder = folder
        self._passed = passed
        self._rules: dict[str, tuple[Look, GitIgnoreSpec | None]] = {}
        self._verdicts: dict[str, bool] = {}
        # The files of rules that the last glance heeded, each as it looked.
        self.heeded: frozenset[tuple[str, Look]] = frozenset()
        self._heeding: set[tuple[str, Look]] = set()

    def glance(self, tracked: Mapping[str, object], parents: Collection[str]) -> Glance | None:
        """Every file below the folder that git tracks or no rule excludes; None if they are too many
        to look at around each call. `parents` are the folders that hold tracked files."""
        self._heeding = set()
        seen: Glance = {}
        waiting: list[tuple[str, Specs]] = [(self.folder, self._rules_above())]
        while waiting and len(seen) <= SEEN_MAX:
            folder, specs = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except OSError:
                continue
            specs = self._with_own(folder, entries, specs)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in PASSED or entry.path == self._passed:
                        continue
                    if entry.path in parents or not self._ignored(f"{entry.path}/", specs):
                        waiting.append((entry.path, specs))
                elif entry.path in tracked or not self._ignored(entry.path, specs):
                    try:
                        seen[entry.path] = look_of(entry.stat(follow_symlinks=False))
                    except OSError:
                        continue  # it went meanwhile
        self.heeded = frozenset(self._heeding)
        return seen if len(seen) <= SEEN_MAX else None

    def _rules_above(self) -> Specs:
        """Rules of folders above this one, up to the repository's, and of the repository itself."""
        top = self.folder
        while not os.path.lexists(f"{top}/.git"):
            if top == os.path.dirname(top):
                return ()
            top = os.path.dirname(top)
        specs = self._with_rules(top, f"{top}/.git/info/exclude", ())
        below = os.path.relpath(self.folder, top).split(os.sep)
        folders = [top, *(os.path.join(top, *below[:n]) for n in range(1, len(below)))]
        for folder in folders if top != self.folder else ():
            specs = self._with_rules(folder, f"{folder}/.gitignore", specs)
        return specs

    def _with_own(self, folder: str, entries: list[os.DirEntry[str]], specs: Specs) -> Specs:
        if any(entry.name == ".gitignore" for entry in entries):
            return self._with_rules(folder, f"{folder}/.gitignore", specs)
        return specs

    def _with_rules(self, folder: str, path: str, specs: Specs) -> Specs:
        """The rules so far and those of a file, which is read when it changed."""
        try:
            look = look_of(os.stat(path))
        except OSError:
            return specs
        self._heeding.add((path, look))
        known = self._rules.get(path)
        if known is None or known[0] != look:
            self._verdicts = {}
            known = self._rules[path] = (look, _read(path))
        return specs if known[1] is None else (*specs, (folder, known[1]))

    def _ignored(self, path: str, specs: Specs) -> bool:
        """The nearest rules that have an opinion decide."""
        if not specs:
            return False
        verdict = self._verdicts.get(path)
        if verdict is None:
            verdict = self._verdicts[path] = _decided(path, specs)
        return verdict


def _decided(path: str, specs: Specs) -> bool:
    for folder, spec in reversed(specs):
        said = spec.check_file(path[len(folder) + 1 :]).include
        if said is not None:
            return said
    return False


def _read(path: str) -> "GitIgnoreSpec | None":
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=only_files) as file:
            return ignore_rules(file)
    except (OSError, ValueError):
        return None


def differing(before: Glance, after: Glance) -> set[str]:
    return {path for path, _ in before.items() ^ after.items()}
