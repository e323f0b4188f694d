"""How this machine reaches others: its proxies and whom it trusts, as a value made once.

Read from the variables by `clew.providers.network`; nothing here asks the environment.
"""

from msgspec import Struct


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
