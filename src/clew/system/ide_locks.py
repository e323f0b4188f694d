"""The lock files in which editors announce themselves: `<config home>/ide/<port>.lock`.

Each is a JSON object with the editor's process ID, name and open folders, and the token that a
connection to its port needs. This module only reads them. The token is never shown. The protocol
is described in PROTOCOL.md of claudecode.nvim.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.core.messages.encoding import decode
from clew.system.files import list_names, read_content

MAX_BYTES = 64 << 10
MAX_TOKEN, MAX_NAME = 500, 60
ENDING = ".lock"


class IdeLock(Struct, frozen=True, kw_only=True):
    """A running editor that accepts connections on `port` of this machine."""

    port: int
    pid: int
    name: str
    folders: tuple[str, ...]
    token: str
    file: Path

    def has_open(self, folder: str) -> bool:
        """Return whether a folder is one of the editor's folders, or inside one."""
        real = os.path.realpath(folder)
        return any(
            os.path.commonpath((real, own)) == own for own in map(os.path.realpath, self.folders)
        )


def find_ides(config_home: Path) -> list[IdeLock]:
    """Return the running editors, ordered by port."""
    folder = config_home / "ide"
    locks = (read_ide_lock(folder / name) for name in list_names(folder, []))
    return sorted(filter(None, locks), key=lambda lock: lock.port)


def read_ide_lock(path: Path) -> IdeLock | None:
    """Return the editor that a lock file announces.

    Return None if the file is invalid or another user's, or if its process has ended.
    """
    port = path.name.removesuffix(ENDING)
    if not (path.name.endswith(ENDING) and port.isascii() and port.isdecimal()):
        return None
    try:
        if path.stat().st_uid != os.geteuid():
            return None
        fields = decode(read_content(path, MAX_BYTES))
    except (OSError, ValueError):
        return None
    lock = None if not isinstance(fields, dict) else read_fields(fields, int(port), path)
    return lock if lock is not None and is_running(lock.pid) else None


def read_fields(fields: Mapping[str, object], port: int, path: Path) -> IdeLock | None:
    pid, name, folders = (fields.get(key) for key in ("pid", "ideName", "workspaceFolders"))
    token = fields.get("authToken")
    if type(pid) is not int or pid <= 0 or not 0 < port < 65536:
        return None
    if fields.get("transport", "ws") != "ws" or not isinstance(token, str):
        return None
    if not 0 < len(token) <= MAX_TOKEN or not token.isascii() or not token.isprintable():
        return None
    return IdeLock(
        port=port,
        pid=pid,
        name=name[:MAX_NAME]
        if isinstance(name, str) and name.isprintable() and name.strip()
        else "editor",
        folders=tuple(
            folder
            for folder in (folders if isinstance(folders, list) else ())
            if isinstance(folder, str) and Path(folder).is_absolute() and "\0" not in folder
        ),
        token=token,
        file=path,
    )


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
