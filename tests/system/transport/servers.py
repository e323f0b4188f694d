"""Raw servers on loopback for tests of HTTP: each connection is a coroutine that says what it likes."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType

from clew.system.config.environment import freeze
from clew.system.transport.network import Network, read_network
from clew.system.transport.seam import Head, HttpRequest, Transport, TransportError

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BOUND_S = 20.0


def network(environ: Mapping[str, str] = MappingProxyType({})) -> Network:
    """What these variables say of the network."""
    return read_network(freeze(environ))


class Server:
    """Where a raw server listens, and how many connections it has seen."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.open_now = 0
        self.changed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until_open_now(self, count: int) -> None:
        while self.open_now != count:
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the length of a test; handlers still running at its end are cancelled."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        server.open_now += 1
        server.changed.set()
        # What was drained has left us, so that the abort below takes none of it back.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            server.open_now -= 1
            server.changed.set()
            tasks.discard(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


@contextmanager
def nobody() -> Iterator[str]:
    """A place where nobody listens, and that no other test is given meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """One request: its first line, its headers by lower-case name, its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
    return first, headers, await reader.readexactly(int(headers.get("content-length", "0")))


def answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def answering(*replies: bytes) -> Handler:
    """Reads a request and sends the next reply, as often as there are replies, then hangs up."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            await read_request(reader)
            writer.write(reply)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    return handler


async def fetch(
    transport: Transport, url: str, body: bytes = b"{}", **headers: str
) -> tuple[Head, bytes]:
    """A whole exchange, bounded."""
    exchange = transport.exchange(
        HttpRequest(method="POST", url=url, headers=tuple(headers.items()), body=body)
    )
    try:
        async with asyncio.timeout(BOUND_S):
            head = await exchange.open()
            pieces = []
            while piece := await exchange.read():
                pieces.append(piece)
            return head, b"".join(pieces)
    finally:
        await exchange.close()


async def fault(
    transport: Transport, url: str, body: bytes = b"{}", **headers: str
) -> TransportError:
    """The error an exchange ends in."""
    try:
        head, got = await fetch(transport, url, body, **headers)
    except TransportError as error:
        return error
    raise AssertionError(f"no fault: {head.status} {got!r}")


class Authority:
    """A certificate authority of a test's own, its file, and a server's context it signed."""

    def __init__(self, folder: Path) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        end = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
        ca_key = ec.generate_private_key(ec.SECP256R1())
        key = ec.generate_private_key(ec.SECP256R1())

        def builder(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
            return (
                x509.CertificateBuilder()
                .subject_name(name(subject))
                .issuer_name(name("clew test authority"))
                .public_key(public)
                .serial_number(x509.random_serial_number())
                .not_valid_before(begin)
                .not_valid_after(end)
            )

        ca = (
            builder("clew test authority", ca_key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(ca_key, hashes.SHA256())
        )
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        server = (
            builder("127.0.0.1", key.public_key())
            .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        self.file = folder / "authority.pem"
        self.file.write_bytes(ca.public_bytes(pem))
        chain = folder / "server.pem"
        chain.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            + server.public_bytes(pem)
        )
        # The server's alone: a person may trust it and not who signed it.
        self.server_file = folder / "server-alone.pem"
        self.server_file.write_bytes(server.public_bytes(pem))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(chain)
