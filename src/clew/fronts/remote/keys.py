"""Results of pairings on this machine: other devices' keys, and this machine's token and key."""

import os
from pathlib import Path

import msgspec

from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.record.transcript.paths import get_own_dir
from clew.system.config.paths import find_config_home
from clew.system.files import make_private, replace


def find_folder() -> Path:
    return get_own_dir(find_config_home(os.environ, Path.cwd())) / "remote"


def read_paired() -> Json:
    """Return the keys of the devices that are paired with this machine, by ID.

    Browsers that `clew web` opened are included, but they alone do not make signatures mandatory.
    """
    paired = read_file("paired.json")
    return read_file("web.json") | paired if paired else {}


def read_device() -> Json:
    """Return this machine's own pairing: `url`, `token`, `device` and `key`."""
    return read_file("device.json")


def write_file(name: str, value: Json) -> None:
    folder = find_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    make_private(folder)
    replace(folder / name, msgspec.json.encode(value).decode() + "\n", mode=0o600)


def read_file(name: str) -> Json:
    """Return a file's object.

    A damaged file raises an error: ignoring it would accept any message.
    """
    path = find_folder() / name
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; delete the file and pair again") from None
