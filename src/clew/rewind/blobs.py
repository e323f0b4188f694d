"""Contents of files by their sha256, each kept once, below clew's own folder.

Nothing here removes one: what is no longer needed is named by `clew sessions du` and goes with
`clew sessions prune` only.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from clew.transcript.files import Files
from clew.transcript.paths import own_dir


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
