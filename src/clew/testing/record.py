"""Record a live run as a scenario, with a loopback proxy between a client and the real service.

Run `python -m clew.testing.record --upstream URL --to FILE`, and point the client's base URL to the
printed URL. Bodies are forwarded unchanged and recorded byte for byte. Credentials are forwarded
but never recorded. The proxy must never listen on any address except 127.0.0.1.
"""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from types import TracebackType

from clew.core.messages.text import format_count
from clew.system.config.environment import freeze
from clew.system.transport import seam
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import Head, TransportError
from clew.testing.http import (
    LAST_CHUNK,
    BadRequest,
    HttpPeer,
    Listener,
    ServedRequest,
    encode_chunk,
    encode_response_head,
    find_secrets,
)
from clew.testing.options import base_url, describe_error, parse_port
from clew.testing.recording import RecordedAnswer, Recording
from clew.testing.scenario_steps import ENDPOINTS

# Headers of the connection to the proxy, not of the request; the transport adds its own.
NOT_FORWARDED = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "expect"}
)
# The framing of the upstream connection; the proxy adds its own toward the client.
NOT_RETURNED = frozenset({"connection", "content-length", "transfer-encoding", "content-encoding"})


class RecordingProxy:
    """A proxy that forwards every request to `upstream` and stores the answers in `recording`."""

    def __init__(
        self, upstream: str, recording: Recording, *, to: Path | None = None, port: int = 0
    ) -> None:
        self.recording = recording
        self._upstream = upstream.rstrip("/")
        self._to = to
        self._transport = HttpTransport(read_network(freeze(os.environ)))
        self._listener = Listener(self._serve, port)

    @property
    def url(self) -> str:
        return self._listener.url

    async def __aenter__(self) -> "RecordingProxy":
        self._write()
        await self._listener.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._listener.close()
        await self._transport.aclose()
        self._write()

    async def _serve(self, peer: HttpPeer) -> bool:
        """Forward one request. Return False if the connection can't be reused."""
        request = await peer.next_request()
        if request is None or isinstance(request, BadRequest):
            return False
        endpoint = ENDPOINTS.get(request.path)
        body = _object(request.body)
        heard = None
        if endpoint is not None and body is not None:
            heard = self.recording.begin(endpoint, body, secrets=find_secrets(request.headers))
            heard.broken = "close"  # until the answer is complete
        else:
            _say(f"forwarded but not recorded: {request.method} {request.path}")
        is_complete = await peer.unless_gone(self._pass(request, peer, heard))
        if heard is not None:
            self._write()
        return bool(is_complete) and request.keep_alive

    async def _pass(
        self, request: ServedRequest, peer: HttpPeer, heard: RecordedAnswer | None
    ) -> bool:
        exchange = self._transport.exchange(self._forwarded(request))
        try:
            head = await exchange.open()
            if heard is not None:
                heard.status, heard.headers = head.status, list(head.headers.items())
            await peer.write(_returned(head))
            while piece := await exchange.read():
                if heard is not None:
                    heard.pieces.append(piece)
                await peer.write(encode_chunk(piece))
            if heard is not None:
                heard.broken = None
            await peer.write(LAST_CHUNK)
        except TransportError as error:
            _say(f"{request.method} {request.path}: {error}")
            if heard is not None and heard.status is not None and error.kind == "reset":
                heard.broken = "reset"
            return False
        finally:
            await exchange.close()
        return True

    def _forwarded(self, request: ServedRequest) -> seam.HttpRequest:
        headers = tuple((k, v) for k, v in request.headers if k not in NOT_FORWARDED)
        url = self._upstream + request.target
        return seam.HttpRequest(method=request.method, url=url, headers=headers, body=request.body)

    def _write(self) -> None:
        """Write the entire file, so that an interrupted run leaves a valid scenario."""
        if self._to is None:
            return
        text = json.dumps(self.recording.scenario(), ensure_ascii=False, indent=1)
        beside = self._to.with_name(self._to.name + ".part")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(text.encode("utf-8") + b"\n")
        beside.replace(self._to)


def _returned(head: Head) -> bytes:
    headers = [(k, v) for k, v in head.headers.items() if k not in NOT_RETURNED]
    return encode_response_head(head.status, [*headers, ("transfer-encoding", "chunked")])


def _object(body: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


async def _record(options: argparse.Namespace) -> None:
    recording = Recording(match=options.match, chunks=options.chunks)
    proxy = RecordingProxy(options.upstream, recording, to=options.to, port=options.port)
    async with proxy:
        try:
            sys.stdout.write(f"{proxy.url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        finally:
            _say(f"recorded {format_count(len(recording.heard), 'answer')} in {options.to}")


def _json_file(text: str) -> Path:
    if not text.endswith(".json"):
        raise argparse.ArgumentTypeError("must end in .json")
    return Path(text)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m clew.testing.record",
        description="Record the answers of the Messages API to a client as a scenario. "
        "Print the URL to configure in the client; stop with Ctrl-C.",
    )
    parser.add_argument(
        "--upstream", required=True, metavar="URL", type=base_url, help="Base URL of the service"
    )
    parser.add_argument(
        "--to", required=True, metavar="FILE", type=_json_file, help="JSON file to write"
    )
    parser.add_argument(
        "--match",
        choices=("order", "body"),
        default="order",
        help="Match answers by order (default) or by request body",
    )
    parser.add_argument("--chunks", action="store_true", help="Record the chunk boundaries")
    parser.add_argument("--port", type=parse_port, default=0, help="Port (default: any free port)")
    try:
        asyncio.run(_record(parser.parse_args(argv)))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        _say(describe_error(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
