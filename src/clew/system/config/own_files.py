"""clew's own JSON files in the config home, such as trust, keys, plugins and MCP logins.

Each file contains its format version. A file with a newer version can be read but not changed,
because an older clew would lose data that it does not know.
"""

import errno
import json
from pathlib import Path

from clew.core.json_object import Json
from clew.system.files import read_content, replace

VERSION = 1
KEY = "version"


def read_own(path: Path) -> Json:
    """Return the object in a file, without its version; empty if the file can't be read."""
    return {name: value for name, value in read_whole(path).items() if name != KEY}


def read_version(path: Path) -> int:
    """Return the version of a file's format, or 0 if the file or its version is missing."""
    version = read_whole(path).get(KEY)
    return version if isinstance(version, int) else 0


def read_whole(path: Path) -> Json:
    try:
        data = json.loads(read_content(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def write_own(path: Path, data: Json) -> None:
    """Replace a file that only its owner can read.

    Raise `OSError`, as for a read-only file, if a newer clew wrote it.
    """
    version = read_version(path)
    if version > VERSION:
        raise OSError(errno.EROFS, describe_newer(version), str(path))
    replace(path, json.dumps({KEY: VERSION} | data, indent=2) + "\n", mode=0o600)


def describe_newer(version: int) -> str:
    """Return the reason why a file from a newer version is not changed."""
    return (
        f"a newer version of clew wrote this file (format {version}; this version supports up to "
        f"{VERSION}); update clew"
    )
