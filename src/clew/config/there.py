"""What lies at a path, asked without a fault: where nobody may look, there is nothing.

`pathlib` raises there until Python 3.14, and a folder above a project may be somebody else's. Only where
"nothing" and "not to be known" must differ is `pathlib` asked.
"""

from os.path import exists as is_there
from os.path import isdir as is_folder
from os.path import isfile as is_file
from os.path import islink as is_link
from pathlib import Path

__all__ = ["held_open", "is_file", "is_folder", "is_link", "is_there", "why_closed"]


def why_closed(folder: Path) -> str | None:
    """Why nobody may know what lies in a folder, and by which one of those above it; None where one may,
    and where there is no folder. A link to nothing stands for what is away, such as a disk."""
    each = folder
    try:
        for each in (*reversed(folder.parents), folder):
            (each / "..").stat()  # only who may look into a folder finds the way back
        next(folder.iterdir(), None)
    except (FileNotFoundError, NotADirectoryError):
        # The method of a path that the linter wants raises where nobody may look.
        return f"{each} is a link to what is not there" if is_link(each) else None  # noqa: PTH114
    except OSError as error:
        return f"{each} cannot be read: {error.strerror}"
    return None


def held_open(folder: Path) -> None:
    """Raises `OSError` where nobody may know what lies in a folder."""
    closed = why_closed(folder)
    if closed is not None:
        raise PermissionError(closed)
