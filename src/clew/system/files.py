"""Replace files atomically, and inspect paths.

Owns the atomic replacement: write a new file next to the old one, sync it, and rename it over the
old one. Links are followed, so a settings file stored elsewhere remains a link. New files are
private to their owner; existing files keep their permission bits. A reader sees either the old or
the new text, never a mixture.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from os.path import exists as is_there
from os.path import isdir as is_folder
from os.path import isfile as is_file
from os.path import islink as is_link
from pathlib import Path

NOT_REGULAR = "is not a regular file"

# Checks of what is at a path, which raise no error. If access to a path is denied, the path is
# considered missing.


__all__ = ["is_file", "is_folder", "is_link", "is_there", "require_open_folder", "why_closed"]


def find_way_out(path: Path, root: Path) -> str:
    """Return the real path of a file if a link leads out of `root`; else an empty string."""
    real = os.path.realpath(path)
    return "" if Path(real).is_relative_to(os.path.realpath(root)) else real


def is_of_user(path: Path) -> bool:
    """Return whether a file, and the link that leads to it, belong to this user or to root."""
    try:
        owners = {path.lstat().st_uid, path.stat().st_uid}
    except OSError:
        return False
    return owners <= {0, os.geteuid()}


def why_closed(folder: Path) -> str | None:
    """Return why the contents of a folder cannot be read, naming the folder that prevents it.

    Return None for a readable folder and for a missing one. A broken link is reported, because its
    target may be on a disk that is not mounted.
    """
    ancestor = folder
    try:
        for ancestor in (*reversed(folder.parents), folder):
            (
                ancestor / ".."
            ).stat()  # `..` can only be resolved with permission to search the folder.
        next(folder.iterdir(), None)
    except (FileNotFoundError, NotADirectoryError):
        # `Path.is_symlink`, which the linter suggests, raises an error where access is denied.
        return f"{ancestor} is a broken link" if is_link(ancestor) else None
    except OSError as error:
        return f"{ancestor} cannot be read: {error.strerror}"
    return None


def require_open_folder(folder: Path) -> None:
    """Raise `OSError` if the contents of a folder cannot be read."""
    closed = why_closed(folder)
    if closed is not None:
        raise PermissionError(closed)


# Opens a path that was checked before, and parts of which may have been replaced by links since.


# macOS has a flag for a path without links. Elsewhere, each folder is opened in the one above it.
NO_LINKS = getattr(os, "O_NOFOLLOW_ANY", 0)
# On Linux, opening a folder as a place requires no right to list it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def open_without_links(path: str, flags: int) -> int:
    """Open an absolute path. Raise `OSError` (ELOOP) if any part of it is a link.

    Replacing a file or folder with a link at the same time cannot make this function open another
    file.
    """
    try:
        return os.open(path, flags | NO_LINKS) if NO_LINKS else _open_part_by_part(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "a part of the path was replaced by a link", path) from None


def _open_part_by_part(path: str, flags: int) -> int:
    place = os.open("/", FOLDER)
    *folders, name = [part for part in path.split("/") if part] or ["."]
    try:
        for folder in folders:
            above, place = place, _open_part(folder, FOLDER, place)
            os.close(above)
        return _open_part(name, flags, place)
    finally:
        os.close(place)


def _open_part(name: str, flags: int, place: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=place)
    except NotADirectoryError:
        if not stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            raise
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def make_folder_without_links(folder: str) -> None:
    """Create a folder and its missing parents, none of which may be a link."""
    try:
        os.close(open_without_links(folder, FOLDER))
    except FileNotFoundError:
        above, name = os.path.split(folder)
        make_folder_without_links(above)
        place = open_without_links(above, FOLDER)
        try:
            os.mkdir(name, dir_fd=place)
        except FileExistsError:
            os.close(open_without_links(folder, FOLDER))
        finally:
            os.close(place)


# Opens files in untrusted folders, where a name may be a pipe, a device or a terminal.


def open_only_files(path: str, flags: int) -> int:
    """Open a file only if it is a regular file, for `open(..., opener=open_only_files)`.

    Links are followed: the target must be a regular file.
    """
    return _refuse_other_kinds(path, os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))


def _refuse_other_kinds(path: str, descriptor: int) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor  # `open` itself reports that the path is a folder.
    os.close(descriptor)
    raise OSError(errno.EINVAL, NOT_REGULAR, path)


def read_content(path: Path, most_bytes: int = -1, *, through_links: bool = True) -> bytes:
    """Return the contents of a file, limited to its first `most_bytes` bytes if given.

    Without `through_links`, raise `OSError` if the path contains a link.
    """
    with open(path, "rb", opener=open_only_files if through_links else _open_no_link) as file:
        return file.read(most_bytes)


def _open_no_link(path: str, flags: int) -> int:
    return _refuse_other_kinds(path, open_without_links(path, flags | os.O_NONBLOCK | os.O_NOCTTY))


# No lock is waited for any longer: a process that holds it for this long was probably stopped
# midway.
WAITS_S = 10.0
LOOK_S = 0.005


@contextlib.contextmanager
def hold_lock(home: Path) -> Iterator[None]:
    """Hold the lock for changes to the files in this config home and to project settings.

    Hold the lock to read a file, change it and write it back. Without the lock, the later of two
    writers would undo the earlier writer's change. If the folder cannot be created or does not
    support locks, or if another process holds the lock for too long, continue without it.

    The lock is on the config home itself, which is never replaced like the files in it. It also
    covers project files, because a lock file in a project would remain there.
    """
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            make_private(home)
            handle = os.open(home, os.O_RDONLY)
            opened.callback(os.close, handle)
            until_s = time.monotonic() + WAITS_S
            while not try_lock(handle) and time.monotonic() < until_s:
                time.sleep(LOOK_S)  # `flock` can only wait forever or not at all.
        yield


def try_lock(handle: int) -> bool:
    """Try to lock an open file or folder. Return False if another process holds the lock.

    Also return True if locks are not supported, because the caller then continues without a lock.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file's text.

    `mode` also sets the permissions of an existing file, for files that must always be private.
    """
    target = path.resolve()
    make_private(target.parent)
    bits = mode if mode is not None else bits_of(target)
    import tempfile

    handle, name = tempfile.mkstemp(prefix=".clew-", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), bits)
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner.

    Existing folders stay unchanged.
    """
    for ancestor in reversed([p for p in (folder, *folder.parents) if not is_there(p)]):
        ancestor.mkdir(mode=0o700, exist_ok=True)


def bits_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600


def sync_folder(folder: Path) -> None:
    """Make a rename durable, where the file system supports it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


# Finds Markdown files in untrusted folders, within limits, visiting each folder only once.


MAX_FILES = 2_000
MAX_FOLDERS = 500
MAX_DEPTH = 5


def list_names(folder: Path, faults: list[str]) -> list[str]:
    """Return the names in a folder, except hidden ones. A missing folder has none."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        faults.append(f"{folder}: {error.strerror}")
        return []
    if len(names) > MAX_FILES:
        faults.append(f"{folder}: only the first {MAX_FILES} of {len(names)} entries are read")
    return [name for name in names[:MAX_FILES] if not name.startswith(".")]


def find_markdown(folder: Path, faults: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of every Markdown file, with the names of its folders and its own name.

    Files near the top come first, so that an endless folder tree does not exclude other files.
    """
    seen: set[tuple[int, int]] = set()
    waiting: deque[tuple[str, tuple[str, ...]]] = deque([(str(folder), ())])
    files = 0
    while waiting:
        current_folder, above = waiting.popleft()
        place = _place(current_folder)
        if place is None or place in seen:
            continue
        seen.add(place)
        if len(seen) > MAX_FOLDERS or files > MAX_FILES:
            faults.append(
                f"{folder}: too many folders or files; "
                f"{current_folder} and later folders are not read"
            )
            return
        for name in list_names(Path(current_folder), faults):
            path = f"{current_folder}/{name}"
            if name.endswith(".md"):
                files += 1
                yield path, (*above, name.removesuffix(".md"))
            elif len(above) < MAX_DEPTH:
                waiting.append((path, (*above, name)))


def _place(path: str) -> tuple[int, int] | None:
    """Return a folder's identity, independent of its path, or None if it is not a folder."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
