"""Signatures of remote messages, and the keys for them. Pure.

A pairing gives its two machines a secret that the server never sees. The machine that runs a session
takes prompts, answers and requests only if they carry a signature made with it, so whoever controls
the server can read, delay and drop messages, but not make any.
"""

import base64
import hashlib
import hmac

import msgspec

from clew.core.json_object import Json, object_of

MEMBER = "clew_mac"
SECRET_BYTES = 20


def write_code(secret: bytes) -> str:
    """Return a secret as letters and digits in groups of four."""
    text = base64.b32encode(secret).decode()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def read_code(code: str) -> bytes:
    """Return the secret that a code stands for. Raise ValueError."""
    text = code.replace("-", "").replace(" ", "").upper()
    secret = base64.b32decode(text)
    if len(secret) != SECRET_BYTES:
        raise ValueError("wrong length")
    return secret


def make_claim(secret: bytes) -> str:
    """Return the name of the pairing, from which the secret can't be found."""
    return hmac.new(secret, b"clew pairing claim", hashlib.sha256).hexdigest()


def make_key(secret: bytes) -> str:
    return hmac.new(secret, b"clew pairing key", hashlib.sha256).hexdigest()


def sign(payload: Json, session: str, device: str, key: str) -> Json:
    """Return a message with a signature for this session."""
    return payload | {MEMBER: {"device": device, "mac": compute_mac(payload, session, key)}}


def is_signed(payload: Json, session: str, keys: Json) -> bool:
    """Return whether a message carries the signature of a paired device for this session."""
    mark = object_of(payload.get(MEMBER))
    key, mac = keys.get(str(mark.get("device"))), mark.get("mac")
    if not isinstance(key, str) or not isinstance(mac, str):
        return False
    plain = {name: value for name, value in payload.items() if name != MEMBER}
    return hmac.compare_digest(compute_mac(plain, session, key).encode(), mac.encode())


def compute_mac(payload: Json, session: str, key: str) -> str:
    text = session.encode() + b"\n" + msgspec.json.encode(payload, order="sorted")
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()
