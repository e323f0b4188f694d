"""The variables of proxies and certificates, as the transport wants them."""

from clew.config.environment import Environment
from clew.transport.network import Network


def network_from(environment: Environment, *, proxy: str | None = None) -> Network:
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
