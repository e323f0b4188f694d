"""Resolve a path to every name it has. All tools are judged with this resolver.

Owns the meaning of a path on this machine: `~`, `..`, each symbolic link along the way, the links
in `/proc`, and names on file systems that ignore case. Opens no file. Limits: two hard links to
one file are not recognized, and a link's target may change later (see docs/using/permissions.md).
"""

import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import structs

from clew.core.json_object import Json
from clew.core.regex import lazy_pattern
from clew.permissions.patterns import find_original
from clew.permissions.request import ResolvedPath

MAX_HOPS = 40
# If a pattern has more matches, it is not resolved, and clew asks instead.
MAX_MATCHES = 2000
PATTERN = lazy_pattern(r"[*?\[]")
OWN_PROCESS = lazy_pattern(r"/proc/(?:self|thread-self)/(?:task/[^/]+/)?(cwd|root)")
SELF = frozenset({"/proc/self", "/proc/thread-self"})
OPEN_FILES = lazy_pattern(r"/proc/[^/]+/(?:task/[^/]+/)?fd(?:/|\Z)|/dev/fd(?:/|\Z)")


def make_resolver(*, cwd: str, home: str) -> Callable[[str], ResolvedPath]:
    """Return a resolver for calls in the folder `cwd` (a real path); `~` means `home`."""
    # Cached, because whether a file system ignores case does not change while a session runs.
    folding: dict[str, bool] = {}

    def folds(path: str) -> bool:
        folder = path.rpartition("/")[0]
        cached = folding.get(folder)
        if cached is None:
            cached = folding[folder] = folds_case(path)
        return cached

    def resolve(text: str) -> ResolvedPath:
        if "\0" in text:
            return ResolvedPath(names=(cwd,), known=False)
        expanded = expand(text, home)
        if expanded is None:
            return ResolvedPath(names=(posixpath.join(cwd, text),), known=False)
        path = follow(expanded, cwd, folds)
        if not PATTERN.search(expanded):
            return path
        leads_to = behind_pattern(posixpath.join(cwd, expanded), path.real)
        if leads_to is None:
            return structs.replace(path, known=False)
        return structs.replace(path, leads_to=leads_to)

    return resolve


def behind_pattern(pattern: str, real: str) -> tuple[str, ...] | None:
    """Return the targets of the links that a shell pattern currently matches, or None if unknown.

    `real` is the pattern with the links before its first wildcard resolved.
    """
    if goes_by_process(pattern, real):
        return None
    paths: list[str] = []
    for count, match in enumerate(matches_of(pattern)):
        if count >= MAX_MATCHES:
            return None
        target = os.path.realpath(match)
        if target != match:
            paths.append(target)
    return tuple(paths)


def goes_by_process(pattern: str, real: str) -> bool:
    """Return whether a pattern may lead through `/proc`.

    A command would see different links there than clew does.
    """
    spelled = pattern.split("/")
    if ".." in spelled[first_pattern(spelled) :]:
        return True
    segments = real.split("/")[1:]
    first = first_pattern(segments)
    if first == len(segments) or (fnmatchcase("proc", segments[0]) and len(segments) > 1):
        return True
    folders = ["/" + "/".join(segments[:end]) for end in range(first + 1, len(segments))]
    return any(
        os.path.realpath(match).startswith("/proc")
        for folder in folders
        for match in islice(matches_of(folder), MAX_MATCHES)
    )


def first_pattern(segments: list[str]) -> int:
    positions = (i for i, segment in enumerate(segments) if PATTERN.search(segment))
    return next(positions, len(segments))


def matches_of(pattern: str) -> Iterator[str]:
    # A shell treats `**` like `*` unless an option changes that.
    plain = re.sub(r"\*+", "*", pattern).lstrip("/")
    return map(str, Path("/").glob(plain))


def with_absolute_path(tool_input: Json, cwd: str, home: str) -> Json:
    """Return a call's input with an absolute file path, so that checks see a single spelling."""
    path = tool_input.get("file_path")
    if not isinstance(path, str):
        return tool_input
    whole = posixpath.join(cwd, expand(path, home) or path)
    return tool_input | {"file_path": squeezed(posixpath.normpath(whole))}


def expand(text: str, home: str) -> str | None:
    """Return a path with its `~` replaced, or None if `~name` names an unknown user."""
    if not text.startswith("~"):
        return text
    user, slash, rest = text[1:].partition("/")
    if not user:
        return home + slash + rest
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir + slash + rest
    except (KeyError, UnicodeError):
        return None


def follow(path: str, cwd: str, folds: Callable[[str], bool]) -> ResolvedPath:
    """Follow a path part by part, as the kernel does. Record the full path after each link."""
    pending = parts_of(path)
    done = "" if path.startswith("/") else cwd.rstrip("/")
    names = [whole(done, pending)]
    hops = 0
    # The file at the end of the walk, if it exists. Nothing exists below a missing folder.
    last: os.stat_result | None = None
    is_there = True
    while pending:
        part = pending.pop(0)
        if part == "..":
            done, last, is_there = done.rpartition("/")[0], None, True
            continue
        place = f"{done}/{part}"
        own = OWN_PROCESS.fullmatch(place) if place.startswith("/proc/") else None
        if own is not None:
            # Handles the root folder as well: it has no trailing slash.
            done = cwd.rstrip("/") if own[1] == "cwd" else ""
            last, is_there = None, True
            names.append(whole(done, pending))
            continue
        last = state_of(place) if is_there else None
        is_there = last is not None
        # `self` would lead to this process, whose folder is not the one in which the call runs.
        target = None if last is None or place in SELF else link_target(place, last)
        if target is None:
            done = place
            continue
        last = None
        hops += 1
        if hops > MAX_HOPS:
            return ResolvedPath(names=tuple(dict.fromkeys(names)), known=False)
        if target.startswith("/"):
            done = ""
        pending = [*parts_of(target), *pending]
        names.append(whole(done, pending))
    real = done or "/"
    names += [original for name in (*names, real) if (original := find_original(name))]
    # The last name must be the real one, even if it is equal to an earlier one.
    unique = (real,) if names == [real] else (*dict.fromkeys(n for n in names if n != real), real)
    is_known = not any(map(is_open_file, unique))
    is_file = last is not None and stat.S_ISREG(last.st_mode)
    return ResolvedPath(names=unique, known=is_known, folds_case=folds(real), is_file=is_file)


def is_open_file(name: str) -> bool:
    return name.startswith(("/proc/", "/dev/fd")) and OPEN_FILES.match(name) is not None


def state_of(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def parts_of(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


def whole(done: str, pending: list[str]) -> str:
    if ".." not in pending:
        return "/".join([done, *pending]) or "/"
    return squeezed(posixpath.normpath("/".join([done or "", *pending]) or "/"))


def squeezed(path: str) -> str:
    """Return a path with exactly one leading slash: in POSIX, `//` may have another meaning."""
    return "/" + path.lstrip("/")


def link_target(path: str, state: os.stat_result) -> str | None:
    if not stat.S_ISLNK(state.st_mode):
        return None
    try:
        return str(Path(path).readlink())
    except (OSError, ValueError):
        return None


def folds_case(path: str) -> bool:
    """Return whether the file system that contains a path ignores case.

    Look for the nearest existing folder whose name contains letters, and check whether swapping
    the case of these letters leads to the same folder.
    """
    folder = path
    while folder not in ("/", ""):
        name = posixpath.basename(folder)
        other = name.swapcase()
        if other != name:
            try:
                mine = os.lstat(folder)
                theirs = os.lstat(posixpath.join(posixpath.dirname(folder), other))
            except (OSError, ValueError):
                if os.path.lexists(folder):
                    return False
            else:
                return (mine.st_ino, mine.st_dev) == (theirs.st_ino, theirs.st_dev)
        folder = posixpath.dirname(folder)
    return False
