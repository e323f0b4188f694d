"""Whether the service answers: one request to the API's own address, and to nothing else."""

import asyncio

from clew.config.environment import Environment
from clew.doctor.finding import Finding, fault, fine
from clew.providers.endpoint import Endpoint, request_headers
from clew.transport.choose import transport_for
from clew.transport.network import network_from
from clew.transport.seam import HttpRequest, TransportError

SUBJECT = "network"
WAIT_S = 10.0
REMEDIES = {
    "proxy": "look at HTTPS_PROXY and NO_PROXY (clew config variables lists them)",
    "tls": "a proxy with its own certificates needs NODE_EXTRA_CA_CERTS or SSL_CERT_FILE",
}


async def reached(endpoint: Endpoint, environment: Environment) -> Finding:
    """Asks for the list of models: it costs nothing, and says whether the key is good."""
    transport = transport_for(network_from(environment))
    request = HttpRequest(
        method="GET",
        url=endpoint.url("/v1/models"),
        headers=request_headers(endpoint, betas=(), stream=False),
    )
    exchange = transport.exchange(request)
    try:
        async with asyncio.timeout(WAIT_S):
            head = await exchange.open()
    except TransportError as error:
        return fault(
            SUBJECT,
            f"{endpoint.shown} cannot be reached: {endpoint.hide(str(error))}",
            REMEDIES.get(error.kind, "is the machine on the network, and the address right?"),
        )
    except TimeoutError:
        return fault(
            SUBJECT,
            f"{endpoint.shown} did not answer within {WAIT_S:.0f} s",
            "is something between here and there that drops packets, such as a firewall?",
        )
    finally:
        await exchange.close()
        await transport.aclose()
    return answered(endpoint, head.status)


def answered(endpoint: Endpoint, status: int) -> Finding:
    if status in (401, 403):
        return fault(
            SUBJECT,
            f"{endpoint.shown} answers, and refuses the {endpoint.credentials} ({status})",
            "keep a good key: clew login",
        )
    if status >= 500:
        return fault(
            SUBJECT,
            f"{endpoint.shown} answers with {status}",
            "the service has trouble of its own; try again later",
        )
    return fine(SUBJECT, f"{endpoint.shown} answers ({status}); nothing else was asked")
