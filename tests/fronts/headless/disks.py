"""The disks of tests/record/transcript/disk.py, to which the real program's log writes."""

from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.files import Files
from tests.fronts.headless.clew_process import until
from tests.record.transcript.disk import Faulty, Powered

_REPOSITORY = Path(__file__).parents[3]
# Python runs a file of this name before the program it was started for.
_BEFORE = """
from functools import partial

import clew.record.transcript.log
from tests.fronts.headless import disks

clew.record.transcript.log.Files = partial(disks.{kind}, *{args!r}, **{more!r})
"""


class Cut(Powered):
    """A folder that contains, for each file, what a power cut would leave of it at the moment."""

    def __init__(self, left: str) -> None:
        super().__init__()
        self._left = Path(left)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._leave(self._paths[fd])

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        for each in self._content:
            self._leave(each)

    def _leave(self, path: Path) -> None:
        if path in self._named:
            beside = self._left / f"{path.name}.new"
            beside.write_bytes(self._content[path][: self._synced[path]])
            beside.rename(self._left / path.name)


class Failing(Faulty):
    """Fails at a call, as `Faulty` does, and writes the number of calls to a file."""

    def __init__(self, n: int, under: str, calls: str, **more: Any) -> None:
        super().__init__(n, under=Path(under), **more)
        self._told = Path(calls)

    def _strike(self, path: Path) -> bool:
        is_hit = super()._strike(path)
        self._told.write_text(str(self.calls), "ascii")
        return is_hit


class Slow(Files):
    """Makes nothing durable while a file exists; another file reports that a caller waits."""

    def __init__(self, while_there: str) -> None:
        self._held = Path(while_there)

    def sync(self, fd: int) -> None:
        if self._held.exists():
            self._held.with_suffix(".waits").touch()
            until(lambda: not self._held.exists())
        super().sync(fd)


def laid_below(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    kind: type[Cut | Failing | Slow],
    *args: Any,
    **more: Any,
) -> None:
    """Let every clew that starts from now on use such a disk."""
    folder.mkdir(exist_ok=True)
    before = _BEFORE.format(kind=kind.__name__, args=args, more=more)
    (folder / "sitecustomize.py").write_text(before, "utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{_REPOSITORY}")
