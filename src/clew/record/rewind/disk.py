"""States of paths: seen as they are, links not followed, and brought about again, each in one step."""

import contextlib
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from clew.record.rewind.changes import FileState
from clew.record.transcript.files import Files
from clew.record.transcript.paths import own_dir

# Contents of files by their sha256, each kept once, below clew's own folder.


def blobs_dir(home: Path) -> Path:
    return own_dir(home) / "files"


class Blobs:
    """Contents by name. With `syncs`, `put` returns when one would survive a power cut."""

    def __init__(self, folder: Path, *, syncs: bool = False) -> None:
        self._folder = folder
        self._syncs = syncs
        self._files = Files()

    @property
    def home(self) -> Path:
        """The config home that they lie in."""
        return self._folder.parent.parent

    def put(self, data: bytes) -> str:
        """Keeps a content and answers its name; raises `OSError` if the disk does not take it."""
        name = sha256(data).hexdigest()
        path = self._path(name)
        try:
            if path.stat().st_size == len(data):
                return name
        except FileNotFoundError:
            self._files.make_folder(path.parent)
        beside = path.with_name(f".{uuid4().hex}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                if self._syncs:
                    self._files.sync(file.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        return name

    def get(self, name: str) -> bytes | None:
        """A content; None if it is not there or is not what its name says."""
        try:
            data = self._path(name).read_bytes()
        except OSError:
            return None
        return data if sha256(data).hexdigest() == name else None

    def each(self) -> Iterator[tuple[str, int]]:
        """Every content that is kept, and its size."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            if not path.name.startswith("."):
                yield path.name, path.stat().st_size

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name


KEPT_MAX_BYTES = 64 << 20
# So many files below a folder that a command names.
BELOW_MAX = 2000


class CannotRestoreError(Exception):
    """A state cannot be brought about; nothing at the path was changed."""


def look(path: str, blobs: Blobs | None) -> FileState:
    """What stands at a path; its content is kept if `blobs` takes it."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileState(kind="absent", under=_first_missing(path))
    except (OSError, ValueError):
        return FileState(kind="other", why="it cannot be looked at")
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return FileState(kind="link", target=os.readlink(path))
    if stat.S_ISDIR(found.st_mode):
        return FileState(kind="folder", mode=mode)
    if not stat.S_ISREG(found.st_mode):
        return FileState(kind="other", mode=mode, why="it is no file")
    if found.st_size > KEPT_MAX_BYTES:
        return _unkept(found, f"larger than {KEPT_MAX_BYTES >> 20} MiB")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(KEPT_MAX_BYTES + 1)
        name = _named(data) if blobs is None else blobs.put(data)
    except OSError as error:
        return _unkept(found, error.strerror or str(error))
    return FileState(kind="file", sha256=name, size=len(data), mode=mode)


def _unkept(found: os.stat_result, why: str) -> FileState:
    mode = stat.S_IMODE(found.st_mode)
    return FileState(kind="unkept", size=found.st_size, mode=mode, why=why)


def _named(data: bytes) -> str:
    return sha256(data).hexdigest()


def _first_missing(path: str) -> str:
    """The topmost folder above `path` that is not there; empty if its own folder is."""
    missing = ""
    for folder in Path(path).parents:
        if os.path.lexists(folder):
            break
        missing = str(folder)
    return missing


def take_away(path: str, state: FileState) -> None:
    """Removes what stands at a path, a folder only if it is empty, and with `state` absent the
    folders that were made for it."""
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path) if _is_folder(path) else os.unlink(path)
    _leave(path, state.under)


def bring_about(path: str, state: FileState, blobs: Blobs) -> None:
    """Makes `path` what it was. Raises `CannotRestoreError`, or `OSError` with nothing changed."""
    match state.kind:
        case "file":
            data = blobs.get(state.sha256)
            if data is None:
                raise CannotRestoreError(f"{path}: its content is not kept any more")
            _replace(path, data, state.mode)
        case "folder":
            os.makedirs(path, exist_ok=True)
            os.chmod(path, state.mode)
        case "link":
            beside = _beside(path)
            os.symlink(state.target, beside)
            os.replace(beside, path)
        case _:
            raise CannotRestoreError(f"{path}: {state.why or 'its content is not known'}")


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _replace(path: str, data: bytes, mode: int) -> None:
    beside = _beside(path)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def _beside(path: str) -> str:
    """A name in the same folder: of each path the same, so that a crash leaves no second one."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    name = sha256(os.fsencode(path)).hexdigest()[:32]
    beside = f"{folder}/.{name}.clew"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    return beside


def _leave(path: str, under: str) -> None:
    """Takes away the folders that were made for a file, as far as they are empty."""
    if not under:
        return
    top = Path(under)
    for folder in Path(path).parents:
        if not folder.is_relative_to(top):
            return
        try:
            folder.rmdir()
        except OSError:
            return


def below(path: str) -> Iterator[str]:
    """What lies below a folder, as far as it is counted; nothing for anything else."""
    waiting = [path]
    left = BELOW_MAX
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.path
        except OSError:
            continue
