"""One TLS context for all connections, built once, off the way of whoever waits for an answer.

Owns which certificates are trusted: the system's, or SSL_CERT_FILE/SSL_CERT_DIR in their place, and
those of NODE_EXTRA_CA_CERTS on top. Must never switch verification off.
"""

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial

from clew.transport.aside import aside
from clew.transport.seam import TransportError


class Trust:
    """Builds the context when it is first asked for; `warm` asks without waiting."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._building: asyncio.Future[ssl.SSLContext] | None = None

    def warm(self) -> None:
        if self._building is None:
            self._building = aside(partial(build_context, self._environment))
            # A fault is told to whoever connects; nobody may ever ask for a warmed context.
            self._building.add_done_callback(lambda f: f.cancelled() or f.exception())

    async def context(self) -> ssl.SSLContext:
        self.warm()
        assert self._building is not None
        # Shielded: who gives up waiting must not take the context from the others.
        return await asyncio.shield(self._building)


def build_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    instead_file = environment.get("SSL_CERT_FILE") or None
    instead_folder = environment.get("SSL_CERT_DIR") or None
    context = _loaded("SSL_CERT_FILE or SSL_CERT_DIR", instead_file, instead_folder, None)
    extra = environment.get("NODE_EXTRA_CA_CERTS") or None
    if extra is not None:
        context = _loaded("NODE_EXTRA_CA_CERTS", extra, None, context)
    # HTTP/2 is not spoken here; saying so lets a server that prefers it fall back at once.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _loaded(
    variable: str, file: str | None, folder: str | None, onto: ssl.SSLContext | None
) -> ssl.SSLContext:
    try:
        if folder is not None:
            _must_be_folder(folder)
        if onto is None:
            return ssl.create_default_context(cafile=file, capath=folder)
        onto.load_verify_locations(cafile=file, capath=folder)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        named = file or folder
        raise TransportError(
            "configuration",
            f"{variable} names {named!r}, which is no readable list of certificates ({error})",
        ) from error
    return onto


def _must_be_folder(path: str) -> None:
    """OpenSSL takes a folder that is not there for an empty one, and then trusts nobody."""
    from pathlib import Path

    if not Path(path).is_dir():
        raise NotADirectoryError("no such folder")
