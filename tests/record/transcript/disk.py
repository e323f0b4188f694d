"""Disks that fail: the n-th call, every call from the n-th on, or the power."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from clew.record.transcript.files import Files

# The calls that reach the disk; the others only look.
REACHING = ("open", "write", "sync", "sync_folder", "make_folder", "lock", "rename", "remove")


class Faulty(Files):
    """Fails the n-th call below `under` (from 1), once or for good; a write may be cut short first."""

    def __init__(
        self,
        n: int,
        *,
        under: Path,
        code: int = errno.EIO,
        is_lasting: bool = False,
        short_bytes: int | None = None,
    ) -> None:
        self._left = n
        self._under = under
        self._code = code
        self._is_lasting = is_lasting
        self._short_bytes = short_bytes
        self._paths: dict[int, Path] = {}
        self.calls = 0
        self.is_healed = False

    def heal(self) -> None:
        self.is_healed = True

    def fail_from_now(self, n: int) -> None:
        self._left = n

    def _strike(self, path: Path) -> bool:
        if self.is_healed or not path.is_relative_to(self._under):
            return False
        self.calls += 1
        self._left -= 1
        return self._left == 0 or (self._is_lasting and self._left < 0)

    def _hit(self, path: Path) -> None:
        if self._strike(path):
            raise OSError(self._code, os.strerror(self._code))

    def open(self, path: Path) -> int:
        self._hit(path)
        fd = super().open(path)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes) -> int:
        if self._strike(self._paths[fd]):
            if self._short_bytes is not None and self._left == 0:
                return super().write(fd, data[: self._short_bytes])
            raise OSError(self._code, os.strerror(self._code))
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._hit(self._paths[fd])
        super().sync(fd)

    def sync_folder(self, path: Path) -> None:
        self._hit(path)

    def lock(self, fd: int) -> bool:
        self._hit(self._paths[fd])
        return super().lock(fd)

    def make_folder(self, path: Path) -> None:
        self._hit(path)
        super().make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._hit(target)
        super().rename(source, target)
        for fd, path in self._paths.items():
            if path == source:
                self._paths[fd] = target


class Powered(Files):
    """Remembers what each file would hold after a power cut: what was synced, and what might be."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._content: dict[Path, bytearray] = {}
        self._synced: dict[Path, int] = {}
        self._named: set[Path] = set()

    def open(self, path: Path) -> int:
        is_new = not path.exists()
        fd = super().open(path)
        self._paths[fd] = path
        content = self._content.setdefault(path, bytearray(path.read_bytes()))
        if is_new:
            self._synced[path] = 0
        else:
            self._synced.setdefault(path, len(content))
            self._named.add(path)
        return fd

    def write(self, fd: int, data: bytes) -> int:
        self._content[self._paths[fd]] += data
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        path = self._paths[fd]
        self._synced[path] = len(self._content[path])

    def sync_folder(self, path: Path) -> None:
        self._named |= {p for p in self._content if p.parent == path}

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def after_cut(self, path: Path) -> Iterator[bytes]:
        """The contents a power cut now may leave: any prefix of the rest, zeros, or none of it."""
        if path not in self._named:
            yield b""
            return
        content, safe = bytes(self._content[path]), self._synced[path]
        for end in range(safe, len(content) + 1):
            yield content[:end]
        rest = len(content) - safe
        if rest:
            yield content[:safe] + b"\0" * rest
            yield content[:safe] + b"\0" * (rest // 2) + content[safe + rest // 2 :]
