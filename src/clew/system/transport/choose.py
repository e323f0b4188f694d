"""Which transport a network needs: clew's own, or the larger one where HTTP/2 is wanted."""

from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import Transport, TransportError

MISSING = "HTTP/2 needs the extra `http2` (pip install 'clew[http2]'); without it, unset CLEW_HTTP2"


def choose_transport(network: Network) -> Transport:
    """The larger one takes longer to start, so it is loaded when it is asked for."""
    if network.http2:
        try:
            from clew.system.transport.wide import WideTransport
        except ImportError as error:
            raise TransportError("configuration", MISSING) from error
        return WideTransport(network)
    return HttpTransport(network)
