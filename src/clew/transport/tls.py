"""One TLS context for all connections, built once, off the way of whoever waits for an answer.

Owns which certificates are trusted: the system's, or others in their place, and some on top. Must never switch verification off.

Decision: docs/decisions/030-http-transport.md
"""

import asyncio
import ssl
from functools import partial

from clew.transport.aside import aside
from clew.transport.network import Network
from clew.transport.seam import TransportError

BUILT_S = 2.0


class Trust:
    """Builds the context when it is first asked for; `warm` asks without waiting."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._building: asyncio.Future[ssl.SSLContext] | None = None

    def warm(self) -> None:
        if self._building is None:
            self._building = aside(partial(build_context, self._network))
            # A fault is told to whoever connects; nobody may ever ask for a warmed context.
            self._building.add_done_callback(lambda f: f.cancelled() or f.exception())

    async def context(self) -> ssl.SSLContext:
        self.warm()
        assert self._building is not None
        # Shielded: who gives up waiting must not take the context from the others.
        return await asyncio.shield(self._building)

    async def aclose(self) -> None:
        """Waits, within bounds, for a context that is being built: an interpreter that ends while a
        thread of it is inside the TLS library ends with a fault of memory."""
        if self._building is not None:
            await asyncio.wait({self._building}, timeout=BUILT_S)


def build_context(network: Network) -> ssl.SSLContext:
    context = _loaded("SSL_CERT_FILE or SSL_CERT_DIR", network.cert_file, network.cert_folder, None)
    if network.extra_certs is not None:
        context = _loaded("CLEW_CA_FILE or NODE_EXTRA_CA_CERTS", network.extra_certs, None, context)
    # The same in each version of Python: from 3.13 on authorities of companies' own proxies that miss
    # a formality are refused, and before it a certificate that is named is trusted as a root alone.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Saying what is spoken lets a server that prefers HTTP/2 fall back at once.
    context.set_alpn_protocols(["h2", "http/1.1"] if network.http2 else ["http/1.1"])
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
