"""Encrypt messages for one browser (RFC 8291), and sign requests to push services (RFC 8292).

A push service sees neither text nor session: only the browser has the key. Random bytes and the
time are arguments.
"""

import base64
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

POINT_BYTES, SECRET_BYTES, SALT_BYTES = 65, 16, 16
RECORD_BYTES = 4096
# Messages are padded, so that their size does not tell what they contain.
PADDED_BYTES = 1024
VALID_S = 12 * 3600


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return decoded bytes. Raise ValueError for other text."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def make_private_key() -> str:
    from cryptography.hazmat.primitives.asymmetric import ec

    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return encode(number.to_bytes(32, "big"))


def load_private_key(private: str) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(int.from_bytes(decode(private), "big"), ec.SECP256R1())


def find_public_key(private: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = load_private_key(private).public_key()
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def is_point(data: bytes) -> bool:
    """Return whether these bytes are a public key of a browser."""
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)
    except ValueError:
        return False
    return len(data) == POINT_BYTES


def encrypt(
    text: bytes,
    receiver: bytes,
    secret: bytes,
    *,
    private: str,
    salt: bytes,
    padded_bytes: int = PADDED_BYTES,
) -> bytes:
    """Return the body of a push. `private` is a key that is used for this message only."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), receiver)
    shared = load_private_key(private).exchange(ec.ECDH(), point)
    sender = find_public_key(private)
    key = derive(shared, secret, b"WebPush: info\0" + receiver + sender, 32)
    cipher = AESGCM(derive(key, salt, b"Content-Encoding: aes128gcm\0", 16))
    nonce = derive(key, salt, b"Content-Encoding: nonce\0", 12)
    padded = (text + b"\x02").ljust(padded_bytes, b"\0")
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(sender)]) + sender
    return head + cipher.encrypt(nonce, padded, None)


def derive(key: bytes, salt: bytes, about: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=about).derive(key)


def authorize(endpoint: str, subject: str, private: str, now_s: int) -> str:
    """Return the `Authorization` header with which a push service recognizes this server."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    parts = urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": now_s + VALID_S, "sub": subject}
    head = {"typ": "JWT", "alg": "ES256"}
    signed = ".".join(encode(msgspec.json.encode(part)) for part in (head, claims))
    der = load_private_key(private).sign(signed.encode(), ec.ECDSA(SHA256()))
    signature = b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(der))
    return f"vapid t={signed}.{encode(signature)}, k={encode(find_public_key(private))}"
