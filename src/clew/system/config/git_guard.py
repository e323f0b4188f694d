"""Keep git from starting programs that a repository configures.

Covers clew's own git calls and those in commands. Owns the restrictions that depend on the folder
and on whether it is trusted; `OWN_GIT` contains those that always apply. A bare repository inside a
folder is data until the user names it, so clew has git refuse it (`safe.bareRepository`). The
exception is a trusted session that was started in a bare repository.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from clew.core.regex import lazy_pattern
from clew.system.config.git_config import (
    Setting,
    UnreadableError,
    is_include,
    list_submodules,
    read_settings,
    show_name,
    starts_program,
)
from clew.system.config.load import trusts
from clew.system.config.paths import find_places
from clew.system.files import is_file, is_folder, is_link, is_there, read_content

# Programs that git would start in a folder because of the repository's own settings.


MAX_CONFIG_BYTES = 1 << 20
MAX_NAME_BYTES = 16 << 10
MAX_INDEX_BYTES = 64 << 20
# Git follows the same number of nested includes and nested submodules.
MAX_INCLUDES = 10
MAX_DEPTH = 8
# The only hook that read-only commands run: such commands update the index if it can be refreshed.
HOOK = "hooks/post-index-change"
# A file that changed this shortly before it was read may change again with the same timestamp.
UNSETTLED_NS = 1_000_000_000

_HEAD = lazy_pattern(rb"ref:\s*refs/|[0-9a-f]{40}")

_Stamp = tuple[int, ...] | None


class _KnownFolder:
    """The settings found for a folder, and the state of every file that was searched for them."""

    def __init__(self, names: tuple[str, ...], stamps: dict[Path, _Stamp]) -> None:
        self.found = names
        self._stamps = stamps

    def holds(self) -> bool:
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())


_known: dict[str, _KnownFolder] = {}
_MOST_KNOWN = 256


def find_repository_programs(folder: str) -> tuple[str, ...]:
    """Return the settings with which git would start programs in a folder, for display."""
    return tuple(map(show_name, settings_of_repository(folder)))


def settings_of_repository(folder: str) -> tuple[str, ...]:
    """Return the names of the settings with which git would start programs in a folder.

    The names are spelled as in the files. Names from a submodule begin with its path. Files and
    settings that lead git to another repository are listed too.
    """
    cached = _known.get(folder)
    if cached is not None and cached.holds():
        return cached.found
    search = _Search()
    search.around(Path(folder))
    names = tuple(dict.fromkeys(search.found))
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    if search.is_settled(time.time_ns()):
        _known[folder] = _KnownFolder(names, search.stamps)
    return names


def is_bare(folder: Path) -> bool:
    """Return whether git would use the folder or one of its parents as a bare repository."""
    for ancestor in (folder, *folder.parents):
        if is_there(ancestor / ".git"):
            return False
        if _is_repository(ancestor):
            return ancestor.name != ".git"
    return False


def repository_of(folder: Path) -> str:
    """Return the real path of the git directory that applies to a folder, or an empty string.

    All working trees of a repository share this directory.
    """
    for ancestor in (folder, *folder.parents):
        git = _folder_named_by(ancestor / ".git")
        if git is not None:
            return os.path.realpath(_shared(git))
        if _is_repository(ancestor):
            return os.path.realpath(ancestor)
    return ""


def _folder_named_by(git: Path) -> Path | None:
    """Return the git directory that `.git` is, or that it points to if it is a file.

    Return None if `.git` does not exist.
    """
    if is_folder(git) or not is_there(git):
        return git if is_folder(git) else None
    words = os.fsdecode(read_content(git, MAX_NAME_BYTES))
    return git.parent / words.removeprefix("gitdir:").strip("\r\n").removeprefix(" ")


def _stamp(path: Path) -> _Stamp:
    try:
        seen = path.stat()
    except (OSError, ValueError):
        return None
    return (
        seen.st_mtime_ns,
        seen.st_ctime_ns,
        seen.st_size,
        seen.st_ino,
        seen.st_dev,
        seen.st_mode,
    )


def _is_repository(git: Path) -> bool:
    """Return whether git accepts a folder as a git directory."""
    try:
        head = read_content(git / "HEAD", MAX_NAME_BYTES)
    except OSError:
        try:
            head = b"ref: " + os.fsencode((git / "HEAD").readlink())
        except OSError:
            return False
    shared = _shared(git)
    return (
        _HEAD.match(head) is not None
        and is_folder(shared / "objects")
        and is_folder(shared / "refs")
    )


def _shared(git: Path) -> Path:
    """Return the git directory that all worktrees of a repository share."""
    try:
        return git / os.fsdecode(read_content(git / "commondir", MAX_NAME_BYTES)).strip()
    except (OSError, ValueError):
        return git


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])


# Where a repository's contents are, below its git folder.
STORED = ("HEAD", "index", "packed-refs", "refs", "logs", "objects")
ALTERNATES = "objects/info/alternates"
ELSEWHERE = "leads to another repository"


def is_linked(git: Path, shared: Path, top: Path) -> bool:
    """Return whether a git folder belongs to a linked working tree (`git worktree`)."""
    try:
        back = Path(git, os.fsdecode(read_content(git / "gitdir", MAX_NAME_BYTES)).strip())
    except (OSError, ValueError):
        return False
    is_among = os.path.realpath(git.parent) == os.path.realpath(shared / "worktrees")
    return is_among and os.path.realpath(back) == os.path.realpath(top / ".git")


def read_alternates(file: Path) -> list[str]:
    """Return the folders with further objects that a repository names."""
    try:
        lines = os.fsdecode(read_content(file, MAX_NAME_BYTES)).splitlines()
    except (OSError, ValueError):
        return []
    return [line.strip('"') for line in lines if line and not line.startswith("#")]


class _Search:
    """A search through all files that git would read.

    `stamps` records the files, including missing ones.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.stamps: dict[Path, _Stamp] = {}
        # The path of the submodule being searched.
        self._within = ""
        # The git folders whose settings name the working tree that leads to them.
        self._modules: set[Path] = set()

    def _name(self, what: str) -> None:
        self.found.append(f"{self._within}: {what}" if self._within else what)

    def is_settled(self, now_ns: int) -> bool:
        changed_at = (stamp[1] for stamp in self.stamps.values() if stamp is not None)
        return now_ns - max(changed_at, default=0) > UNSETTLED_NS

    def around(self, folder: Path) -> None:
        """Search the repositories that git may find from a folder upward, until one is valid."""
        for ancestor in (folder, *folder.parents):
            self._see(ancestor / ".git")
            self._see(ancestor / "HEAD")
            git = self._git_folder(ancestor)
            if git is not None:
                self._repository(git, ancestor, 0)
                if _is_repository(git):
                    return
            if _is_repository(ancestor):
                self._repository(ancestor, None, 0)
                return

    def _see(self, path: Path) -> None:
        self.stamps.setdefault(path, _stamp(path))

    def _git_folder(self, top: Path) -> Path | None:
        """Return the git directory of a working tree, following a `.git` file, or None."""
        try:
            return _folder_named_by(top / ".git")
        except (OSError, ValueError):
            self._name(f"{_short(top / '.git')} cannot be read")
            return None

    def _repository(self, git: Path, top: Path | None, depth: int) -> None:
        shared = _shared(git)
        for name in ("commondir", "HEAD"):
            self._see(git / name)
        self._settings(shared / "config", 0, top)
        self._settings(git / "config.worktree", 0, top)
        hook = shared / HOOK
        self._see(hook)
        if is_file(hook) and os.access(hook, os.X_OK):
            self._name(HOOK)
        if top is not None:
            self._leads_out(git, shared, top)
            around = self._within
            for path in self._submodules(git):
                self._within = f"{around}/{path}" if around else path
                self._submodule(top / path, depth + 1)
            self._within = around

    def _submodule(self, top: Path, depth: int) -> None:
        self._see(top / ".git")
        git = self._git_folder(top)
        if git is None:
            return
        if depth > MAX_DEPTH:
            self._name(f"{_short(top)}: submodules are nested too deeply")
        else:
            self._repository(git, top, depth)

    def _settings(self, path: Path, depth: int, top: Path | None) -> None:
        self._see(path)
        if not is_there(path):
            return
        try:
            data = read_content(path, MAX_CONFIG_BYTES + 1)
            if len(data) > MAX_CONFIG_BYTES:
                raise UnreadableError("the file is too large")
            for setting in read_settings(data):
                self._setting(setting, path, depth, top)
        except (OSError, UnreadableError) as error:
            why = error if isinstance(error, UnreadableError) else error.strerror or "not a file"
            self._name(f"{_short(path)}: {why}")

    def _setting(self, setting: Setting, file: Path, depth: int, top: Path | None) -> None:
        if starts_program(setting) or self._leads_elsewhere(setting, file.parent, top):
            self._name(setting.name)
        elif is_include(setting):
            value = setting.value or ""
            if depth >= MAX_INCLUDES or value.startswith("%("):
                self._name(setting.name)
            else:
                self._settings(file.parent / Path(value).expanduser(), depth + 1, top)

    def _leads_elsewhere(self, setting: Setting, git: Path, top: Path | None) -> bool:
        """Return whether `core.worktree` names another folder, whose files git would show."""
        if setting.name != "core.worktree" or setting.value is None:
            return False
        target = os.path.realpath(git / setting.value)
        if top is None or target != os.path.realpath(top):
            return True
        self._modules.add(git)
        return False

    def _leads_out(self, git: Path, shared: Path, top: Path) -> None:
        """Record the files that lead git to another repository, whose contents git would show.

        The git folder of a linked working tree or of a submodule is also outside the working tree,
        but names the working tree in turn.
        """
        for path in (git / "gitdir", shared / ALTERNATES, *(shared / name for name in STORED)):
            self._see(path)
        own = [top, *([git, shared] if is_linked(git, shared, top) or git in self._modules else [])]
        places = [Path(os.path.realpath(folder)) for folder in own]

        def is_out(path: Path) -> bool:
            real = Path(os.path.realpath(path))
            return not any(real.is_relative_to(place) for place in (*places, Path(os.devnull)))

        outside = [".git"] if is_out(git) else ["commondir"] if is_out(shared) else []
        outside += [name for name in STORED if is_link(shared / name) and is_out(shared / name)]
        objects = shared / "objects"
        if is_folder(objects) and any(entry.is_symlink() for entry in os.scandir(objects)):
            outside.append("objects")
        if any(is_out(objects / name) for name in read_alternates(shared / ALTERNATES)):
            outside.append(ALTERNATES)
        for name in dict.fromkeys(outside):
            self._name(f"{name} {ELSEWHERE}")

    def _submodules(self, git: Path) -> Iterator[str]:
        """Yield the folders that the index lists as submodules."""
        self._see(git / "index")
        try:
            # A split index has a second part, whose name is different each time.
            shared = [path for path in git.iterdir() if path.name.startswith("sharedindex.")]
        except OSError:
            shared = []
        for index in (git / "index", *shared):
            if not is_there(index):
                continue
            try:
                data = read_content(index, MAX_INDEX_BYTES + 1)
                if len(data) > MAX_INDEX_BYTES:
                    raise ValueError("the file is too large")
                yield from map(os.fsdecode, list_submodules(data))
            except (OSError, ValueError):
                self._name(f"{_short(index)} cannot be read")


# Options and variables for the git calls that clew makes itself, in every folder.


OWN_GIT = (
    "git",
    "-c", "core.fsmonitor=false",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "log.showSignature=false",
    "-c", "safe.bareRepository=explicit",
    "--no-pager",
)  # fmt: skip
# Do not enter submodules, because git would then read their settings.
OUTSIDE_SUBMODULES = ("--ignore-submodules=dirty",)
# Objects missing from a repository are not fetched.
WITHOUT_FETCHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


def with_git_settings(
    environ: Mapping[str, str], settings: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the variables with git settings added after those that they already contain."""
    variables = dict(environ)
    count = variables.get("GIT_CONFIG_COUNT", "") or "0"
    if not count.isdecimal():
        return variables  # Git itself reports this error.
    number = int(count)
    for name, value in settings:
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        number += 1
    return variables | ({"GIT_CONFIG_COUNT": str(number)} if number else {})


# Settings that have no effect on clew's own calls, even if the repository sets them. Names from a
# submodule begin differently (see `settings_of_repository`).
NEVER_STARTED = (
    "alias.", "browser.", "core.alternaterefscommand", "core.editor", "core.fsmonitor", "core.hookspath",
    "core.pager", "credential.", "difftool.", "guitool.", "hooks/", "imap.", "instaweb.", "interactive.",
    "man.", "mergetool.", "pager.", "sendemail.", "sequence.", "tar.", "trailer.",
)  # fmt: skip


class Reading(Struct, frozen=True, kw_only=True):
    """The environment for clew's git calls that only read, and arguments for status and diff."""

    environment: dict[str, str]
    of_status: tuple[str, ...] = ()
    # Whether git would show another repository or folder than the untrusted one that it was asked
    # about.
    is_elsewhere: bool = False


def prepare_git_reading(environ: Mapping[str, str], folder: Path) -> Reading:
    """Return how to query git in a folder without running programs from an untrusted repository."""
    if is_trusted_folder(environ, folder):
        return Reading(environment=dict(environ))
    without = [pair for driver in filters_of(folder) for pair in _without_filter(driver)]
    environment = with_git_settings({**environ, **WITHOUT_FETCHING}, without)
    return Reading(
        environment=environment,
        of_status=OUTSIDE_SUBMODULES,
        is_elsewhere=any(
            name == "core.worktree" or name.endswith(ELSEWHERE)
            for name in settings_of_repository(str(folder))
        ),
    )


def is_trusted_folder(environ: Mapping[str, str], folder: Path) -> bool:
    """Return whether clew's own git may run programs from a folder's project."""
    return not _doubts and trusts(find_places(environ, folder))


# The sandboxed commands that are running and could write git settings.
_doubts: set[object] = set()


@contextmanager
def doubting() -> Iterator[None]:
    """Let clew's own git run no programs from any repository until the context ends.

    This is for commands whose sandbox can't protect git's settings. Programs that such a command
    adds to the settings must not run outside the sandbox.
    """
    doubt = object()
    _doubts.add(doubt)
    try:
        yield
    finally:
        _doubts.discard(doubt)


def why_untrusted(folder: str, programs: Iterable[str]) -> str:
    """Return why clew's own git runs no programs from a folder, and what the user can do."""
    names = ", ".join(map(show_name, programs))
    if _doubts:
        return (
            f"a sandboxed command is running, and the repository of {folder} configures programs "
            f"that git would run outside the sandbox: {names}. "
            "Try again after the command has ended"
        )
    return (
        f"{folder} is not trusted, and its repository configures programs that git would run: "
        f"{names}. Trust the folder first (clew config trust), or remove these settings"
    )


def filters_of(folder: Path) -> list[str]:
    """Return the names of the filters that the repository's settings define or affect."""
    names: dict[str, None] = {}
    for name in settings_of_repository(str(folder)):
        section, _, rest = name.partition(".")
        if section == "filter":
            names[rest.rpartition(".")[0]] = None
        elif section == "lfs":
            names["lfs"] = None
    return list(names)


def _without_filter(driver: str) -> list[tuple[str, str]]:
    words = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return [(f"filter.{driver}.{word}", value) for word, value in words]


def find_started_programs(environ: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the settings that start untrusted programs when clew makes changes with git.

    Examples are filters and merge drivers.
    """
    if is_trusted_folder(environ, folder):
        return ()
    names = settings_of_repository(str(folder))
    return tuple(name for name in names if not name.startswith(NEVER_STARTED))


def without_bare(environ: Mapping[str, str], folder: Path, *, is_trusted: bool) -> dict[str, str]:
    """Return an environment for commands that makes git ignore bare repositories inside folders."""
    if is_trusted and is_bare(folder):
        return dict(environ)
    return with_git_settings(environ, [("safe.bareRepository", "explicit")])
