"""Sign tokens for Google service accounts with RSA and SHA-256 (RS256), using a PEM key.

Formats: PKCS #8 and PKCS #1 (RFC 8017) in DER. A signature takes milliseconds and is needed once an
hour, so no library is required. Must never put a key into an error.
"""

import json
from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

# The prefix of a SHA-256 hash in a signature (RFC 8017, 9.2).
PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
INTEGER, OCTETS, SEQUENCE = 0x02, 0x04, 0x30


class InvalidKeyError(ValueError):
    """Raised when a private key cannot be read."""


def make_token(claims: dict[str, Any], pem: str, key_id: str = "") -> str:
    """Return a signed JSON Web Token with these claims."""
    head = {"alg": "RS256", "typ": "JWT"} | ({"kid": key_id} if key_id else {})
    text = b".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
    return b".".join((text, _encode(sign(text, pem)))).decode()


def sign(data: bytes, pem: str) -> bytes:
    """Return the signature of data."""
    modulus, exponent = read_key(pem)
    size = (modulus.bit_length() + 7) // 8
    digest = PREFIX + sha256(data).digest()
    padding = size - len(digest) - 3
    if padding < 8:
        raise InvalidKeyError("the private key is too short")
    padded = b"\x00\x01" + b"\xff" * padding + b"\x00" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def read_key(pem: str) -> tuple[int, int]:
    """Return the modulus and the private exponent of a PEM key."""
    lines = [line.strip() for line in pem.strip().splitlines()]
    try:
        der = b64decode("".join(line for line in lines if not line.startswith("-----")))
        fields = _read_all(_read(der, 0)[1])
        if len(fields) >= 3 and fields[1][0] == SEQUENCE and fields[2][0] == OCTETS:
            # PKCS #8 wraps the key of PKCS #1.
            fields = _read_all(_read(fields[2][1], 0)[1])
        numbers = [int.from_bytes(value, "big") for kind, value in fields if kind == INTEGER]
        _, modulus, _, exponent = numbers[:4]
    except (ValueError, IndexError) as error:
        raise InvalidKeyError("the private key is not an RSA key in PEM form") from error
    return modulus, exponent


def _read(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Return the tag and content of one DER value, and the offset of the next one."""
    kind, length = data[at], data[at + 1]
    at += 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + length > len(data):
        raise ValueError("truncated")
    return kind, data[at : at + length], at + length


def _read_all(data: bytes) -> list[tuple[int, bytes]]:
    values, at = [], 0
    while at < len(data):
        kind, value, at = _read(data, at)
        values.append((kind, value))
    return values


def _encode(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
