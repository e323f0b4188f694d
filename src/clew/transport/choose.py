"""Which transport a network needs: clew's own, or the larger one where HTTP/2 is wanted."""

from clew.transport.http import HttpTransport
from clew.transport.network import Network
from clew.transport.seam import Transport


def transport_for(network: Network) -> Transport:
    """The larger one costs a start three times as much, so it is loaded when it is asked for."""
    if network.http2:
        from clew.transport.wide import WideTransport

        return WideTransport(network)
    return HttpTransport(network)
