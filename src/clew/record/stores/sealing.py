"""Sealing: a server or store receives a session encrypted, with keys that it never has.

Sealed data is the base64 form of a format byte, a nonce and the ciphertext (AES-256-GCM). Each
session has its own key, derived from the machine's key. The nonce is derived from the plaintext and
its position. Therefore the same plaintext at the same position always gives the same bytes, and
sealed data can't be moved to another position or session.

Decision: docs/decisions/333-sealed-sessions.md
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.messages.errors import ClewError, UserError, describe_error
from clew.system.config.own_files import read_whole, write_own
from clew.system.files import is_there, make_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = b"\x01"
KEY_BYTES, NONCE_BYTES = 32, 12
FILE = "seal.json"


class SealError(ClewError):
    """Sealed data could not be opened."""


class Sealer:
    """Seals with the first of its keys, and opens with any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = tuple(keys)
        # The key that opened sealed data of a session, by session.
        self._found: dict[str, bytes] = {}

    def choose(self, session: str) -> "Sealer":
        """Return a sealer for messages to the machine that seals this session."""
        found = self._found.get(session)
        return self if found is None else Sealer((found,))

    def seal(self, session: str, place: bytes, text: bytes) -> str:
        cipher, nonce_key = derive(self.keys[0], session)
        about = len(place).to_bytes(8, "big") + place + text
        nonce = hmac.digest(nonce_key, about, "sha256")[:NONCE_BYTES]
        return base64.b64encode(FORMAT + nonce + cipher.encrypt(nonce, text, place)).decode()

    def open(self, session: str, place: bytes, sealed: str) -> bytes:
        """Return the plaintext. Raise `SealError` if none of the keys opens `sealed`."""
        try:
            from cryptography.exceptions import InvalidTag
        except ModuleNotFoundError:
            raise SealError(describe_missing()) from None
        try:
            data = base64.b64decode(sealed, validate=True)
        except ValueError:
            data = b""
        if data[:1] != FORMAT:
            raise SealError("the sealed data has an unknown format")
        nonce, hidden = data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :]
        for key in self.keys:
            try:
                text = derive(key, session)[0].decrypt(nonce, hidden, place)
            except (InvalidTag, ValueError):
                continue
            self._found[session] = key
            return text
        raise SealError("this machine has no key that opens it")


def describe_missing() -> str:
    from clew.system.installation import describe_extra

    return f"sealed sessions need a package that is not installed; {describe_extra('serve')}"


@lru_cache(maxsize=64)
def derive(key: bytes, session: str) -> "tuple[AESGCM, bytes]":
    """Return the cipher of a session, and the key from which its nonces are derived."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError:
        raise UserError(describe_missing()) from None
    return AESGCM(expand(key, f"clew seal\n{session}")), expand(key, f"clew seal nonce\n{session}")


def expand(key: bytes, about: str) -> bytes:
    """Return a key derived from another one (HKDF with SHA-256, without a salt)."""
    root = hmac.digest(bytes(hashlib.sha256().digest_size), key, "sha256")
    return hmac.digest(root, about.encode() + b"\x01", "sha256")


# The keys of this machine, in a file that only its user can read.


def read_sealer(folder: Path) -> Sealer | None:
    """Return the sealer that opens sealed data on this machine; None if the machine has no key."""
    path = folder / FILE
    if not is_there(path):
        return None
    try:
        keys = [bytes.fromhex(key) for key in read_whole(path)["keys"]]
    except (KeyError, TypeError, ValueError):
        keys = []
    if not keys or {len(key) for key in keys} != {KEY_BYTES}:
        # A new key could not open the data that the old one sealed.
        raise UserError(f"{path}: can't read the keys of sealed sessions; restore the file")
    return Sealer(keys)


def make_sealer(folder: Path) -> Sealer:
    """Return the sealer of this machine; create a key if it has none."""
    sealer = read_sealer(folder)
    return add_keys(folder, [secrets.token_bytes(KEY_BYTES)]) if sealer is None else sealer


def add_keys(folder: Path, keys: Sequence[bytes]) -> Sealer:
    """Add the keys of another machine. This machine still seals with its own key, if it has one."""
    before = read_sealer(folder)
    sealer = Sealer(tuple(dict.fromkeys((*(before.keys if before else ()), *keys))))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_private(folder)
        write_own(folder / FILE, {"keys": [key.hex() for key in sealer.keys]})
    except OSError as error:
        raise UserError(describe_error(error)) from None
    return sealer
