"""Find the versions in git repositories of files that rules deny or ask about.

Owns the search through the index and every commit that a ref or a reflog leads to. git itself
performs the search. Also owns how long a result stays valid. Never starts a program that the
repository names, and never runs longer than its limit. Whatever could not be searched is reported
as unknown.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew.permissions.git_contents import find_restraining_rule, make_pathspecs
from clew.permissions.patterns import find_original
from clew.permissions.request import HeldByGit
from clew.permissions.rules import RuleSet
from clew.system.config.git_guard import OWN_GIT, WITHOUT_FETCHING, prepare_git_reading
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

SEARCH_LIMIT_S = 4.0
KEEP_BYTES = 8 << 20
# If a file changed this shortly before a search, a later change may leave its timestamp the same.
UNSETTLED_NS = 1_000_000_000
QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
}
WHERE = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
INDEX = ("ls-files", "-s", "-z", "--full-name", "--")
COMMITS = (
    "log", "--all", "--reflog", "--full-history", "-m", "--raw", "--no-abbrev", "--no-renames",
    "--ignore-submodules=none", "--no-color", "--format=", "-z",
)  # fmt: skip
# Names of commits that may be neither in a ref nor in a reflog.
HEADS = ("HEAD", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
WATCHED = ("index", "logs/HEAD", "packed-refs", "reftable", *HEADS)
STAGED = re.compile(rb"\d{6} ([0-9a-f]{40,64}) \d\t([^\0]+)\0")
CHANGED = re.compile(rb":\d{6} \d{6} ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [A-Z]\d*\0([^\0]+)\0")
NO_REPOSITORY = b"not a git repository"

Stamp: TypeAlias = tuple[tuple[int, ...] | None, ...]
Shape: TypeAlias = tuple[tuple[str, bool, tuple[str, ...]], ...]


class Searched(Struct, frozen=True, kw_only=True):
    """The result of one search, and the state of the repository that the result is based on.

    A result without folders is valid for one decision only.
    """

    held: HeldByGit
    folders: tuple[str, ...] = ()
    stamp: Stamp = ()
    at_ns: int = 0


class GitHistory:
    """A cache of the restrained files in the index and history of git repositories.

    `held` returns what earlier searches found and notes the folders that must still be searched;
    `look_up` searches them.
    """

    def __init__(
        self,
        launcher: Launcher,
        environ: Mapping[str, str],
        *,
        limit_s: float = SEARCH_LIMIT_S,
        unsettled_ns: int = UNSETTLED_NS,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launcher = launcher
        self._environ = environ
        self._limit_s = limit_s
        self._unsettled_ns = unsettled_ns
        self._monotonic_s = monotonic_s
        self._known: dict[tuple[str, Shape], Searched] = {}
        self._fresh: set[tuple[str, Shape]] = set()
        self._wanted: dict[tuple[str, Shape], RuleSet] = {}
        # Repositories whose search did not finish within the limit.
        self._given_up: set[str] = set()

    def held(self, folder: str, rules: RuleSet) -> HeldByGit:
        key = (folder, shape(rules))
        cached = self._known.get(key)
        if cached is not None and (key in self._fresh or holds(cached, self._unsettled_ns)):
            self._fresh.discard(key)
            return cached.held
        if folder not in self._given_up:
            self._wanted[key] = rules
        return HeldByGit()

    @property
    def is_asked(self) -> bool:
        """True if `held` was called for a folder that `look_up` still has to search."""
        return bool(self._wanted)

    async def look_up(self) -> bool:
        """Run the pending searches. Return whether there were any."""
        wanted, self._wanted = self._wanted, {}
        for key, rules in wanted.items():
            self._known[key] = await self._search(key[0], rules)
            self._fresh.add(key)
        return bool(wanted)

    async def _search(self, folder: str, rules: RuleSet) -> Searched:
        unknown = Searched(held=HeldByGit())
        until_s = self._monotonic_s() + self._limit_s
        code, output, errors = await self._ask(folder, WHERE, until_s)
        if code != 0:
            if NO_REPOSITORY in errors:
                return Searched(held=HeldByGit(is_known=True))
            return unknown
        lines = output.rstrip(b"\n").split(b"\n")
        if len(lines) != len(WHERE) - 1:
            return unknown  # The name of a file contains a newline.
        top, git, common = map(os.fsdecode, lines)
        folders = (git, str(Path(folder, common)))
        at_ns, stamp = time.time_ns(), stamp_of(folders)
        # Rules for a file in the repository also apply to its copy in a worktree.
        own, others = make_pathspecs(rules, top), make_pathspecs(rules, find_original(top) or top)
        if own is None or others is None:
            return unknown
        specs = tuple(dict.fromkeys((*own, *others)))
        if not specs:
            holdings = HeldByGit(is_known=True, top=top)
            return Searched(held=holdings, folders=folders, stamp=stamp, at_ns=at_ns)
        heads = [name for name in HEADS if is_there(Path(git, name))]
        staged, now, _ = await self._ask(folder, (*INDEX, *specs), until_s)
        logged, then, _ = await self._ask(
            folder, (*COMMITS, "--ignore-missing", *heads, "--", *specs), until_s
        )
        if staged != 0 or logged != 0:
            if self._monotonic_s() > until_s:
                self._given_up.add(folder)
            return unknown
        holdings = found(rules, top, STAGED.findall(now), CHANGED.findall(then))
        return Searched(held=holdings, folders=folders, stamp=stamp, at_ns=at_ns)

    async def _ask(
        self, folder: str, arguments: tuple[str, ...], until_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run git. Return its exit code (-1 if the output is incomplete), output and errors."""
        environ = {**self._environ, **QUIET, **WITHOUT_FETCHING}
        environ = prepare_git_reading(environ, Path(folder)).environment
        output, errors = ProcessOutput(keep_bytes=KEEP_BYTES), ProcessOutput(keep_bytes=4_096)
        left_s = until_s - self._monotonic_s()
        if left_s <= 0:
            return -1, b"", b""
        try:
            ended = await run(
                self._launcher,
                [*OWN_GIT, "-c", "log.showRoot=true", *arguments],
                cwd=folder,
                env=environ,
                stdout=output,
                stderr=errors,
                timeout_s=left_s,
            )
        except OSError:
            return -1, b"", b""
        is_whole = not ended.timed_out and output.size == len(output.head)
        return ended.exit.code if is_whole else -1, bytes(output.head), bytes(errors.head)


def shape(rules: RuleSet) -> Shape:
    """Return the part of the rules that a search's result depends on."""
    return tuple(
        (entry.base, entry.floating, entry.segments)
        for behavior in ("deny", "ask")
        for entry in rules.paths[behavior, "read"].entries
    )


def found(
    rules: RuleSet, top: str, staged: list[tuple[bytes, bytes]], changed: list[tuple[bytes, ...]]
) -> HeldByGit:
    """Return the paths in git's output that the rules restrain, and the names of their blobs."""
    contents: dict[str, set[str]] = {}
    for *oids, path in (*staged, *changed):
        ids = contents.setdefault(os.fsdecode(path), set())
        ids.update(oid.decode() for oid in oids if oid.strip(b"0"))
    paths = [
        path
        for path in sorted(contents)
        if find_restraining_rule(rules, f"{top}/{path}") is not None
    ]
    blobs = frozenset(oid for path in paths for oid in contents[path])
    return HeldByGit(is_known=True, top=top, paths=tuple(paths), blobs=blobs)


def holds(cached: Searched, unsettled_ns: int) -> bool:
    """Return whether the repository is still in the state that a search is based on.

    The last change before the search must also be old enough (see `UNSETTLED_NS`).
    """
    if not cached.folders or stamp_of(cached.folders) != cached.stamp:
        return False
    changed_at = max((part[0] for part in cached.stamp if part is not None), default=0)
    return cached.at_ns - changed_at > unsettled_ns


def stamp_of(folders: tuple[str, ...]) -> Stamp:
    """Return the stamps of files and folders that change whenever the index or a ref changes."""
    return tuple(
        look(path)
        for folder in folders
        for path in (*(f"{folder}/{name}" for name in WATCHED), *ref_folders(folder))
    )


def ref_folders(folder: str) -> Iterator[str]:
    """Yield the folders that contain refs.

    Adding, changing or removing a ref changes the modification time of its folder.
    """
    for directory, _, _ in os.walk(f"{folder}/refs"):
        yield directory


def look(path: str) -> tuple[int, ...] | None:
    try:
        seen = Path(path).stat()
    except OSError:
        return None
    return seen.st_ctime_ns, seen.st_size, seen.st_ino
