"""How this machine reaches others: its proxies and whom it trusts, as a value made once.

Nothing here asks the process's environment: the variables are handed in, under the fields of
`clew.config.environment`.
"""

from typing import Protocol

from msgspec import Struct


class Variables(Protocol):
    """What the variables say, by field."""

    def text(self, field: str) -> str | None: ...

    def switch(self, field: str) -> bool: ...


class Network(Struct, frozen=True, kw_only=True):
    """What the usual variables say; nothing, where they are silent. Proxies may hold a password."""

    http_proxy: str | None = None
    https_proxy: str | None = None
    # Hosts reached without a proxy: words parted by commas or spaces.
    exceptions: str = ""
    # Certificates in place of the system's, and on top of those in force.
    cert_file: str | None = None
    cert_folder: str | None = None
    extra_certs: str | None = None
    # HTTP/2 is spoken where a server offers it; needs the extra `http2`.
    http2: bool = False


def network_from(environment: Variables, *, proxy: str | None = None) -> Network:
    """`proxy` stands above the proxy variables, not above their exceptions."""
    everything = proxy or None
    usual = environment.text("all_proxy")
    return Network(
        http_proxy=everything or environment.text("http_proxy") or usual,
        https_proxy=everything or environment.text("https_proxy") or usual,
        exceptions=environment.text("no_proxy") or "",
        cert_file=environment.text("cert_file"),
        cert_folder=environment.text("cert_folder"),
        extra_certs=environment.text("extra_certs"),
        http2=environment.switch("http2"),
    )
