"""Results of pairings on this machine: other devices' keys, and this machine's token and key."""

import os
from pathlib import Path

import msgspec

from clew.core.json_object import Json
from clew.core.messages.errors import UserError, describe_error
from clew.fronts.remote.sealed import seal_frame
from clew.fronts.remote.signing import sign
from clew.record.stores.sealing import Sealer
from clew.record.transcript.paths import get_own_dir
from clew.system.config.own_files import KEY, write_own
from clew.system.config.paths import find_config_home
from clew.system.files import make_private


def find_folder() -> Path:
    return get_own_dir(find_config_home(os.environ, Path.cwd())) / "remote"


def read_paired() -> Json:
    """Return the keys of the devices that are paired with this machine, by ID.

    Browsers opened by `clew web` are included only if another device is paired, too. Otherwise, the
    result is empty, so that browsers alone do not make signatures mandatory.
    """
    paired = read_file("paired.json")
    return read_file("web.json") | paired if paired else {}


def protect(payload: Json, session: str, sealer: Sealer | None) -> Json:
    """Return a message, sealed if there is a `sealer`, and signed if this machine is paired."""
    if sealer is not None:
        payload = seal_frame(sealer.choose(session), session, payload)
    if device := read_device():
        payload = sign(payload, session, str(device.get("device")), str(device.get("key")))
    return payload


def read_device() -> Json:
    """Return this machine's own pairing: `url`, `token`, `device` and `key`."""
    return read_file("device.json")


def write_file(name: str, value: Json) -> None:
    folder = find_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_private(folder)
        write_own(folder / name, value)
    except OSError as error:
        raise UserError(describe_error(error)) from None


def read_file(name: str) -> Json:
    """Return the object in a file of keys, or an empty object if the file does not exist.

    Raise an error if the file is damaged: without its keys, unsigned messages would be accepted.
    """
    path = find_folder() / name
    try:
        value: Json = msgspec.json.decode(path.read_bytes(), type=dict)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; delete the file and pair again") from None
    return {member: about for member, about in value.items() if member != KEY}
