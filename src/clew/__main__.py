"""`clew`, and `python -m clew`: the first lines that run.

On a full disk Python keeps the part of a module's compiled form that fitted, and fails over it at every
start from then on, long after there is room again. So what is not whole is taken away, from here on; this
file and the two before it are small enough to be kept whole or not at all.
"""

import os

import clew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_loader: "Any" = type(clew.__loader__)
_write = getattr(_loader, "set_data", None)  # a loader of archives writes nothing


def write_whole(self: object, path: str, data: bytes, **options: int) -> None:
    assert _write is not None
    _write(self, path, data, **options)
    try:
        # `os` alone: pathlib is not loaded for this.
        is_part = os.stat(path).st_size != len(data)  # noqa: PTH116
        if is_part:
            os.unlink(path)  # noqa: PTH108
    except OSError:
        return  # it was not written, or another process has taken it away


if _write is not None:
    _loader.set_data = write_whole


def main() -> int:
    from clew.cli import main

    return main()


if __name__ == "__main__":
    raise SystemExit(main())
