"""HTTP as servers really speak it: what comes is read whole or ends in a typed error, and the pool
holds only connections that can be used again.
"""

import asyncio
import gzip
import zlib

import pytest

from clew.system.transport.body import PIECE_BYTES, choose_decoder
from clew.system.transport.http import MAX_IDLE, HttpTransport
from clew.system.transport.seam import HttpRequest
from tests.system.transport.servers import (
    BOUND_S,
    Authority,
    Handler,
    answer,
    answering,
    fault,
    fetch,
    network,
    nobody,
    read_request,
    serving,
)


def transport_of(**environment: str) -> HttpTransport:
    return HttpTransport(network(environment))


def whole(reply: bytes) -> tuple[int, bytes]:
    """Status and body of one exchange with a server that gives this reply and hangs up."""

    async def main() -> tuple[int, bytes]:
        async with serving(answering(reply)) as server:
            transport = transport_of()
            head, body = await fetch(transport, server.url)
            await transport.aclose()
            return head.status, body

    return asyncio.run(main())


def broken(reply: bytes) -> tuple[str, str]:
    """Kind and text of the error this reply ends in; nothing may be left of it."""

    async def main() -> tuple[str, str]:
        async with serving(answering(reply)) as server:
            transport = transport_of()
            error = await fault(transport, server.url)
            assert transport.connections[0] == 0
            await transport.aclose()
            return error.kind, error.message

    return asyncio.run(main())


def encoded(body: bytes, coding: str) -> bytes:
    return answer(body, headers=f"Content-Encoding: {coding}\r\n")


RAW_DEFLATE = zlib.compressobj(wbits=-15)
PLAIN = b"some text that is long enough to be worth it " * 40

BOMB = gzip.compress(bytes(80 << 20), mtime=0)


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (answer(b"hello"), b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: x\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(b"late"), b"late"),
        (encoded(gzip.compress(PLAIN, mtime=0), "gzip"), PLAIN),
        (encoded(gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0) + b"\0\0", "gzip"), b"ab"),
        (encoded(zlib.compress(PLAIN), "deflate"), PLAIN),
        (encoded(RAW_DEFLATE.compress(PLAIN) + RAW_DEFLATE.flush(), "deflate"), PLAIN),
        (encoded(b"as it is", "identity"), b"as it is"),
        (encoded(b"", "gzip"), b""),
    ],
)  # fmt: skip
def test_bodies_of_every_framing_and_encoding_are_read(reply: bytes, body: bytes) -> None:
    assert whole(reply) == (200, body)


def test_what_a_few_bytes_say_comes_in_pieces_between_which_others_have_their_turn() -> None:
    body = b"".join(b"%d;" % (number % 10) for number in range(200_000))
    packed = gzip.compress(body, mtime=0)
    assert len(body) > 99 * len(packed), "all of it comes with one read"

    async def main() -> None:
        async with serving(answering(encoded(packed * 2, "gzip"))) as server:
            exchange = (transport := transport_of()).exchange(
                HttpRequest(method="GET", url=server.url)
            )
            await exchange.open()
            turns, sizes = [0], []

            async def other() -> None:
                while True:
                    turns[0] += 1
                    await asyncio.sleep(0)

            waiting = asyncio.ensure_future(other())
            while data := await exchange.read():
                sizes.append(len(data))
            waiting.cancel()
            assert sum(sizes) == 2 * len(body)
            assert max(sizes) <= PIECE_BYTES
            assert turns[0] >= len(sizes) - 2
            await exchange.close()
            await transport.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw"])
def test_a_body_of_any_size_is_undone_whole(size: int, coding: str) -> None:
    body = bytes(size)
    if coding == "gzip":
        packed = gzip.compress(body, mtime=0)
    else:
        packer = zlib.compressobj(wbits=-15 if coding == "raw" else 15)
        packed = packer.compress(body) + packer.flush()
    for cut in (1, 7, len(packed)):
        decoder = choose_decoder("gzip" if coding == "gzip" else "deflate")
        found = b""
        for start in range(0, len(packed), cut):
            found += decoder.feed(packed[start : start + cut])
            while decoder.has_more:
                found += decoder.feed(b"")
        assert found + decoder.close() == body


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (b"", "reset", "before a response arrived"),
        (b"HTTP/1.1 200", "truncated", "too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "truncated", "too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "truncated", "too early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "truncated", "too early"),
        (b"220 mail.example ESMTP\r\n\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 two hundred\r\n\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 200_000, "protocol", "not HTTP/1.1"),
        (b"\x00\xff\x15\x03\x01" * 9, "protocol", "not HTTP/1.1"),
        (encoded(gzip.compress(PLAIN, mtime=0)[:-9], "gzip"), "truncated", "inside its gzip"),
        (encoded(b"<html>not gzip", "gzip"), "content", "not valid gzip"),
        (encoded(BOMB, "gzip"), "content", "expands to more than 100 times its size"),
        (encoded(gzip.compress(b"x", mtime=0) + b"tail", "gzip"), "content", "not valid gzip"),
        (encoded(b"\xff\xff\xff not deflate", "deflate"), "content", "not valid deflate"),
        (encoded(b"x", "br"), "content", "'br'"),
        (encoded(b"x", "gzip, gzip"), "content", "gzip, gzip"),
    ],
)  # fmt: skip
def test_what_is_not_an_answer_ends_in_an_error_that_says_what_came(
    reply: bytes, kind: str, said: str
) -> None:
    got, message = broken(reply)
    assert got == kind
    assert said in message


def test_what_came_before_a_cut_is_read_before_the_cut_is_reported() -> None:
    async def main() -> None:
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nkept"
        async with serving(answering(reply)) as server:
            transport = transport_of()
            exchange = transport.exchange(HttpRequest(method="GET", url=server.url))
            await exchange.open()
            assert await exchange.read() == b"kept"
            assert exchange.bytes_received == len(reply)
            with pytest.raises(Exception, match="too early"):
                await exchange.read()
            await exchange.close()
            await exchange.close()
            assert await exchange.read() == b""

    asyncio.run(main())


def test_turns_share_one_connection() -> None:
    async def main() -> None:
        replies = [answer(str(i).encode()) for i in range(5)]
        async with serving(answering(*replies)) as server:
            transport = transport_of()
            for i in range(5):
                assert (await fetch(transport, server.url))[1] == str(i).encode()
                assert transport.connections == (0, 1)
            assert server.connections == 1
            await transport.aclose()
            assert transport.connections == (0, 0)

    asyncio.run(main())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
SPENT = {
    "close header": answer(b"x", headers="Connection: keep-alive, Close\r\n"),
    "read to the end": b"HTTP/1.1 200 OK\r\n\r\nx",
    "closed by the server": answer(b"x"),
    "old protocol": b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "extra bytes": answer(b"x") + b"HTTP/1.1 200 OK\r\n\r\n",
    "extra bytes behind chunks": CHUNKED + b"\r\n1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "its length twice": CHUNKED + b"Content-Length: 16\r\n\r\n1\r\nx\r\n0\r\n\r\n",
}
HELD_OPEN = ("extra bytes", "extra bytes behind chunks", "its length twice", "old protocol")


@pytest.mark.parametrize("how", SPENT)
def test_a_connection_that_is_spent_is_not_used_again(how: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SPENT[how])
        await writer.drain()
        if how in HELD_OPEN:
            await reader.read()

    async def main() -> None:
        async with serving(handler) as server:
            transport = transport_of()
            for i in range(3):
                assert (await fetch(transport, server.url))[1] == b"x"
                await server.until_open_now(0) if how not in HELD_OPEN else None
                assert server.connections == i + 1
            await transport.aclose()

    asyncio.run(main())


def test_a_connection_the_server_closed_in_the_meantime_is_replaced_once() -> None:
    """The server answers, then cuts the second request on the same connection without a byte."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"x"))
        await writer.drain()
        await reader.readexactly(1)

    async def main() -> None:
        async with serving(handler) as server:
            transport = transport_of()
            for i in range(3):
                assert (await fetch(transport, server.url))[1] == b"x"
                assert server.connections == i + 1
            await transport.aclose()

    asyncio.run(main())


def test_a_fresh_connection_that_is_cut_is_not_tried_again() -> None:
    async def main() -> None:
        async with serving(answering(b"")) as server:
            error = await fault(transport_of(), server.url)
            assert error.kind == "reset"
            assert server.connections == 1

    asyncio.run(main())


def test_an_answer_that_comes_while_the_body_is_still_going_out_is_read() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"too large", status="413 Payload Too Large"))
        await reader.read()

    async def main() -> None:
        async with serving(handler) as server:
            transport = transport_of()
            head, body = await fetch(transport, server.url, b"x" * 30_000_000)
            assert (head.status, body) == (413, b"too large")
            assert transport.connections == (0, 0)

    asyncio.run(main())


def test_a_slow_reader_holds_the_server_back_instead_of_filling_memory() -> None:
    size = 40_000_000

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 1_000_000):
            writer.write(b"x" * 1_000_000)
            await writer.drain()

    async def main() -> None:
        async with serving(handler) as server:
            transport = transport_of()
            exchange = transport.exchange(HttpRequest(method="GET", url=server.url))
            await exchange.open()
            largest = total = 0
            while piece := await exchange.read():
                total += len(piece)
                largest = max(largest, len(piece))
                for _ in range(5):
                    await asyncio.sleep(0)
            assert total == size
            assert largest < 4_000_000
            await exchange.close()
            await transport.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("end_mark", ["comes", "does not come", "is garbage"])
def test_an_answer_read_to_its_last_word_leaves_the_connection_for_the_next(end_mark: str) -> None:
    """The end mark of a chunked body comes after the last word, or never."""
    sent = {"comes": b"0\r\n\r\n", "does not come": b"", "is garbage": b"zz\r\n"}[end_mark]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
            await writer.drain()
            said.set()
            await marked.wait()
            writer.write(sent)
            await writer.drain()

    async def main() -> None:
        async with serving(handler) as server, asyncio.timeout(BOUND_S):
            transport = transport_of()
            for _ in range(2):
                exchange = transport.exchange(HttpRequest(method="GET", url=server.url))
                await exchange.open()
                assert await exchange.read() == b"hi"
                await exchange.close(answered=True)
                # Of garbage that came with the last word it is known that nothing follows.
                kept = {(0, 1), (0, 0)} if end_mark == "is garbage" else {(0, 1)}
                assert transport.connections in kept
                marked.set()
                for _ in range(50):
                    await asyncio.sleep(0)
            assert server.connections == (1 if end_mark == "comes" else 2)
            await transport.aclose()

    said, marked = asyncio.Event(), asyncio.Event()
    asyncio.run(main())


def test_the_pool_keeps_a_few_connections_and_lets_the_oldest_go() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"x"))
        await reader.read()

    async def main() -> None:
        async with serving(handler) as server, asyncio.timeout(BOUND_S):
            transport = transport_of()
            exchanges = [
                transport.exchange(HttpRequest(method="GET", url=server.url)) for _ in range(12)
            ]
            for exchange in exchanges:
                await exchange.open()
            assert transport.connections == (12, 0)
            for exchange in exchanges:
                while await exchange.read():
                    pass
                await exchange.close()
            assert transport.connections == (0, MAX_IDLE)
            await transport.aclose()
            await server.until_open_now(0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("x-key", "secret\r\nx: y", "x-key"),
        ("x-key", " secret", "x-key"),
        ("bad name", "secret", "'bad name'"),
        ("", "secret", "''"),
    ],
)
def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    name: str, value: str, said: str
) -> None:
    error = asyncio.run(fault(transport_of(), "http://127.0.0.1:1", **{name: value}))
    assert error.kind == "configuration"
    assert said in error.message
    assert "secret" not in error.message


def test_the_user_and_password_of_a_url_are_sent_and_a_header_stands_above_them() -> None:
    seen: list[str | None] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, headers, _ = await read_request(reader)
        seen.append(headers.get("authorization"))
        writer.write(answer(b"x", headers="Connection: close\r\n"))

    async def main() -> None:
        async with serving(handler) as server:
            url = f"http://me:p%40ss@127.0.0.1:{server.port}"
            await fetch(transport_of(), url)
            await fetch(transport_of(), url, Authorization="Bearer t")

    asyncio.run(main())
    assert seen == ["Basic bWU6cEBzcw==", "Bearer t"]


@pytest.mark.parametrize("url", ["api.example", "ftp://api.example/", "https://user:secret@:x/"])
def test_a_base_url_that_cannot_be_used_is_said_before_anything_is_sent(url: str) -> None:
    error = asyncio.run(fault(transport_of(), url))
    assert error.kind == "configuration"
    assert "secret" not in error.message


def test_a_refused_connection_is_said_with_its_place() -> None:
    async def main() -> None:
        with nobody() as url:
            error = await fault(transport_of(), url)
        assert error.kind == "no_server"
        assert url.removeprefix("http://") in error.message

    asyncio.run(main())


def test_a_handshake_that_never_comes_ends_in_a_connect_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with serving(silent) as server:
            transport = HttpTransport(network(), connect_timeout_s=0.05)
            error = await fault(transport, f"https://127.0.0.1:{server.port}")
            assert error.kind == "connect_timeout"
            assert "0.05 s" in error.message

    asyncio.run(main())


def test_tls_is_verified_and_says_how_to_trust_a_certificate(tmp_path) -> None:
    authority = Authority(tmp_path)

    async def main() -> None:
        handler: Handler = answering(answer(b"secure"))
        async with serving(handler, authority.context) as server:
            url = f"https://127.0.0.1:{server.port}"
            error = await fault(transport_of(), url)
            assert error.kind == "tls"
            assert "CLEW_CA_FILE" in error.message
            for variable in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CLEW_CA_FILE"):
                transport = transport_of(**{variable: str(authority.file)})
                transport.warm(url)
                assert (await fetch(transport, url))[1] == b"secure"
                await transport.aclose()
            transport = transport_of(CLEW_CA_FILE=str(authority.server_file))
            assert (await fetch(transport, url))[1] == b"secure"
            await transport.aclose()
            wrong_name = f"https://localhost:{server.port}"
            error = await fault(transport_of(SSL_CERT_FILE=str(authority.file)), wrong_name)
            assert error.kind == "tls"

    asyncio.run(main())


def test_tls_with_a_server_that_speaks_none_is_said() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"plain", status="400 Bad Request"))
        await reader.read()

    async def main() -> None:
        async with serving(plain) as server:
            error = await fault(transport_of(), f"https://127.0.0.1:{server.port}")
            assert error.kind == "tls"
            assert "TLS" in error.message

    asyncio.run(main())


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"])
def test_a_list_of_certificates_that_cannot_be_read_is_named(variable: str, tmp_path) -> None:
    wrong = tmp_path / "certificates.pem"
    wrong.write_text("no certificate", "utf-8")
    named = str(wrong)
    error = asyncio.run(fault(transport_of(**{variable: named}), "https://127.0.0.1:1"))
    assert error.kind == "configuration"
    assert variable in error.message


@pytest.mark.parametrize("point", ["connecting", "waiting for the head", "in the body"])
def test_a_cancel_leaves_nothing_open_wherever_it_strikes(point: str, tmp_path) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if point == "connecting":
            await reader.read()
        await read_request(reader)
        if point == "in the body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await reader.read()

    async def main() -> None:
        async with serving(handler) as server:
            transport = transport_of()
            scheme = "https" if point == "connecting" else "http"
            url = f"{scheme}://127.0.0.1:{server.port}"
            task = asyncio.create_task(fetch(transport, url))
            await server.until_open_now(1)
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert transport.connections == (0, 0)
            await server.until_open_now(0)

    asyncio.run(main())


async def test_closing_waits_for_the_certificates_that_are_being_read() -> None:
    transport = transport_of()
    transport.warm("https://127.0.0.1:1")
    await transport.aclose()
    asked = asyncio.ensure_future(transport.trust.context())
    for _ in range(3):
        await asyncio.sleep(0)
    assert asked.done()
    await transport_of().aclose()
