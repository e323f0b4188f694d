"""The entry point of `clew` and `python -m clew`.

On a full disk, Python stores a truncated bytecode file and then fails on every start, even after
space is available again. The loader is therefore patched to delete truncated files. The bytecode of
this module, and of the two that are imported before it, is small enough to be written completely or
not at all.
"""

import os

import clew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_loader: "Any" = type(clew.__loader__)
_write = getattr(_loader, "set_data", None)  # a zip loader cannot write


def write_whole(self: object, path: str, data: bytes, **options: int) -> None:
    assert _write is not None
    _write(self, path, data, **options)
    try:
        # Only `os`, because importing pathlib here would slow down the start.
        is_part = os.stat(path).st_size != len(data)  # noqa: PTH116
        if is_part:
            os.unlink(path)  # noqa: PTH108
    except OSError:
        return  # not written, or already deleted by another process


if _write is not None:
    _loader.set_data = write_whole


def main() -> int:
    try:
        from clew.cli import main

        return main()
    except KeyboardInterrupt:
        return 130  # also while modules are being imported


if __name__ == "__main__":
    raise SystemExit(main())
