"""Sign and check remote messages, and derive the keys for them. Does no I/O.

When two machines are paired, both get a secret that the server never sees. The machine that runs a
session accepts only messages that are signed with that secret. An attacker who controls the server
can therefore read, delay and drop messages, but not forge them.
"""

import base64
import hashlib
import hmac

import msgspec

from clew.core.json_object import Json, object_of

MEMBER = "clew_mac"
SECRET_BYTES = 20


def write_code(secret: bytes) -> str:
    """Return a secret as a code of letters and digits in groups of four."""
    text = base64.b32encode(secret).decode()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def read_code(code: str) -> bytes:
    """Return the secret that a code contains. Raise ValueError if the code is invalid."""
    text = code.replace("-", "").replace(" ", "").upper()
    secret = base64.b32decode(text)
    if len(secret) != SECRET_BYTES:
        raise ValueError("wrong length")
    return secret


def make_claim(secret: bytes) -> str:
    """Return the name of a pairing, from which its secret cannot be derived."""
    return hmac.new(secret, b"clew pairing claim", hashlib.sha256).hexdigest()


def make_key(secret: bytes) -> str:
    return hmac.new(secret, b"clew pairing key", hashlib.sha256).hexdigest()


def sign(payload: Json, session: str, device: str, key: str) -> Json:
    """Return a message with a signature that is valid for this session only."""
    return payload | {MEMBER: {"device": device, "mac": compute_mac(payload, session, key)}}


def derive_share_key(key: str, session: str, share: str) -> str:
    """Return the key of a shared link.

    It can be derived only with the key of the link's creator.
    """
    text = f"clew share\n{session}\n{share}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def allows(share: str, payload: Json, now_ms: int) -> bool:
    """Return whether a shared link (`ID.RIGHTS.EXPIRY`) is still valid and permits a message."""
    _, _, rest = share.partition(".")
    rights, _, expiry = rest.partition(".")
    request = object_of(payload.get("request"))
    match payload.get("type"):
        case "control_response":
            needed = "answer"
        case "control_request" if request.get("subtype") == "interrupt":
            needed = "answer"
        case _:
            needed = "prompt"
    return expiry.isdecimal() and int(expiry) >= now_ms and needed in rights.split(",")


def is_signed(payload: Json, session: str, keys: Json, now_ms: int = 0) -> bool:
    """Return whether a message carries the signature of a paired device for this session.

    A signature with the key of a link that such a device created is accepted if the link permits
    the message.
    """
    mark = object_of(payload.get(MEMBER))
    key, mac = keys.get(str(mark.get("device"))), mark.get("mac")
    share = mark.get("share")
    if isinstance(share, str) and isinstance(key, str):
        if not allows(share, payload, now_ms):
            return False
        key = derive_share_key(key, session, share)
    if not isinstance(key, str) or not isinstance(mac, str):
        return False
    plain = {name: value for name, value in payload.items() if name != MEMBER}
    return hmac.compare_digest(compute_mac(plain, session, key).encode(), mac.encode())


def compute_mac(payload: Json, session: str, key: str) -> str:
    text = session.encode() + b"\n" + msgspec.json.encode(payload, order="sorted")
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()
