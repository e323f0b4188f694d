"""A push service on loopback with HTTPS, and a browser's keys, which open what it receives."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clew.serve.push.encryption import decode, encode
from tests.system.transport.servers import Authority

WAIT_S = 20
SECRET = bytes(range(16))


def stretch(key: bytes, salt: bytes, about: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=about).derive(key)


def read_point(data: bytes) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)


class PushBrowser:
    """The keys of a browser's subscription."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.point = self._key.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        self.keys = {"p256dh": encode(self.point), "auth": encode(SECRET)}

    def open(self, body: bytes) -> Any:
        """Return the content of a push, as RFC 8291 and RFC 8188 describe it."""
        salt, length = body[:16], body[20]
        sender, sealed = body[21 : 21 + length], body[21 + length :]
        shared = self._key.exchange(ec.ECDH(), read_point(sender))
        key = stretch(shared, SECRET, b"WebPush: info\0" + self.point + sender, 32)
        cipher = AESGCM(stretch(key, salt, b"Content-Encoding: aes128gcm\0", 16))
        nonce = stretch(key, salt, b"Content-Encoding: nonce\0", 12)
        text = cipher.decrypt(nonce, sealed, None).rstrip(b"\0")
        assert text.endswith(b"\x02")
        return json.loads(text[:-1])


def check_vapid(header: str, audience: str, key: str) -> dict[str, Any]:
    """Return the claims of a request to a push service, if the server's key signed them."""
    scheme, _, rest = header.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert (scheme, fields["k"]) == ("vapid", key)
    signed, _, signature = fields["t"].rpartition(".")
    raw = decode(signature)
    numbers = [int.from_bytes(part, "big") for part in (raw[:32], raw[32:])]
    der = encode_dss_signature(*numbers)
    read_point(decode(key)).verify(der, signed.encode(), ec.ECDSA(SHA256()))
    claims: dict[str, Any] = json.loads(decode(signed.split(".")[1]))
    assert claims["aud"] == audience
    return claims


class PushService:
    """A scripted push service. It answers with `status`."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.status = 201
        self.requests: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                service.requests.put((self.path, headers, body))
                self.send_response(service.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = self.authority.context.wrap_socket(
            self._server.socket, server_side=True
        )
        self.place = f"127.0.0.1:{self._server.server_port}"
        self.origin = f"https://{self.place}"

    def take(self) -> tuple[str, dict[str, str], bytes]:
        return self.requests.get(timeout=WAIT_S)

    @contextmanager
    def running(self) -> Iterator["PushService"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
