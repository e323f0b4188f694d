"""The file operations of the transcript writer (log.py), which has no other access to the disk.

The class has one method for each operation and no state. Tests replace it to make the n-th call
fail or to drop unsynced data.
"""

import contextlib
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

OPEN_ELSEWHERE = "is already open"

# A forked child shares the locks of its parent, and must not end them.
PROCESS_ID = os.getpid()
FILE_MODE = 0o600
FOLDER_MODE = 0o700
_NO_LOCKS_HERE = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


def _meant(path: Path) -> Path:
    """Resolve a symlink owned by this user to its file; other or dangling links stay unresolved."""
    try:
        link = path.lstat()
    except OSError:
        return path
    is_ours = stat.S_ISLNK(link.st_mode) and link.st_uid == os.geteuid()
    return path.resolve() if is_ours and path.is_file() else path


class Files:
    """The operating system's files; every failure is an `OSError`."""

    def open(self, path: Path) -> int:
        """Open a file for reading and appending; a new one is private to its owner."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(_meant(path), flags, FILE_MODE)

    def open_to_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def sync(self, fd: int) -> None:
        """Sync a file: once this returns, its bytes survive a power failure."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable too; without its name, a new file would be lost."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, fd: int) -> bool:
        """Lock the file without waiting; the kernel releases the lock when the process ends.

        This uses `flock` and not `lockf`: closing any descriptor of a file drops its POSIX locks,
        and the loader in the same process opens and closes the file. On mounts without lock
        support, no lock is taken.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        return True

    def close(self, fd: int) -> None:
        """Close a file and end its lock, even if a forked child of this process has it open, too."""
        with contextlib.suppress(OSError):
            if os.getpid() == PROCESS_ID:
                fcntl.flock(fd, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(fd)

    def is_at(self, fd: int, path: Path) -> bool:
        """Return whether the path still names the open file, directly or through a symlink."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(fd))

    def make_folder(self, path: Path) -> None:
        """Create a private folder and its missing parents, with durable names."""
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(FOLDER_MODE)
            self.sync_folder(folder.parent)

    def is_private(self, folder: Path) -> bool:
        """Return whether only this user could have put files into the folder."""
        status = os.lstat(folder)
        ours = status.st_uid == os.geteuid()
        return ours and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
