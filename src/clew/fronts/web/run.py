"""`clew web`: show the sessions on this machine in a local browser, without any setup.

The server listens on this machine only. The browser is paired with a secret from a file that only
the user can read, because other users can see command lines.
"""

import argparse
import asyncio
import html
import os
import secrets
import socket
import sys
import urllib.request
import uuid
import webbrowser
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.json_object import list_of
from clew.core.messages.errors import UserError
from clew.fronts.ends import hear_signals, run_front
from clew.fronts.remote.keys import read_file, write_file
from clew.fronts.remote.signing import SECRET_BYTES, make_claim, make_key, write_code
from clew.record.transcript.paths import get_own_dir
from clew.system.command_groups import show
from clew.system.config.paths import find_config_home
from clew.system.files import make_private, replace
from clew.system.installation import describe_extra

if TYPE_CHECKING:
    from clew.serve.database import Database, Transaction

PORT = 7481
# How many ports to try, beginning with the first.
PORTS = 20
PAIRING_MS = 120_000
SCOPES = ("view", "answer", "prompt", "start")
NAME = "Browser on this machine"
# The address of the running `clew web`, and the folders in which the command was started.
ADDRESS = "web-address.json"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew web",
        description="Show and use the sessions on this machine in a browser.",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="Session to open")
    parser.add_argument("--port", type=int, default=0, metavar="N", help=f"Default: {PORT}")
    parser.add_argument(
        "--no-open", action="store_true", help="Print the URL instead of opening a browser"
    )
    options = parser.parse_args(argv)
    return run_front(lambda: run(options))


async def run(options: argparse.Namespace) -> int:
    try:
        from clew.serve.app import SessionServer
        from clew.serve.listener import HttpListener
        from clew.serve.sqlite import SqliteDatabase
    except ModuleNotFoundError:
        raise UserError(
            f"clew web needs packages that are not installed; {describe_extra('serve')}"
        ) from None

    class WebListener(HttpListener):
        """A listener that leaves signals to this module, which must end its workers first."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    from clew.fronts.web.hosting import Workers
    from clew.fronts.web.shelf import LocalShelf
    from clew.serve import log
    from clew.serve.access import LOOPBACK
    from clew.serve.frames import show_session
    from clew.serve.log import RefusedError
    from clew.serve.run import make_device, open_pushes

    home = find_config_home(os.environ, Path.cwd())
    folder = get_own_dir(home) / "web"
    folder.parent.mkdir(parents=True, exist_ok=True)
    make_private(folder)
    database = SqliteDatabase(folder / "web.db")
    pushes = AsyncExitStack()
    try:
        cwd = str(Path.cwd())
        if url := find_running():
            folders = [name for name in read_folders() if name != cwd]
            write_file(ADDRESS, {"url": url, "folders": [cwd, *folders]})
            await open_page(database, folder, url, options)
            return 0
        port = options.port or find_port()
        url = f"http://127.0.0.1:{port}"
        token = await make_device(database, "clew web", ("view", "start"))

        async def is_connected(session: str) -> bool:
            try:
                session_row = await database.read(partial(log.find_session, session=session))
            except RefusedError:
                return False
            return bool(show_session(session_row)["connection_status"] == "connected")

        async def has_event(session: str, event_id: str) -> bool:
            query = partial(log.has_event, session=session, event_id=event_id)
            return await database.read(query)

        workers = Workers(url, token, os.environ, is_connected, has_event)
        shelf = LocalShelf(home, workers, read_folders)
        network = await pushes.enter_async_context(open_pushes())
        server = SessionServer(database, hosts=LOOPBACK, shelf=shelf, pushes=network)
        listener = WebListener(server, "127.0.0.1", port)

        def stop(_number: int) -> None:
            listener.should_exit = True

        hear_signals(stop)
        opening = asyncio.create_task(
            open_when_ready(listener.is_ready, database, folder, url, options), name="open the page"
        )
        try:
            write_file(ADDRESS, {"url": url, "folders": [cwd]})
            await listener.serve()
        finally:
            opening.cancel()
            await asyncio.wait([opening])
            write_file(ADDRESS, {})
            await workers.aclose()
        if not opening.cancelled() and (error := opening.exception()):
            raise error
    finally:
        await pushes.aclose()
        await database.aclose()
    return 0


def find_running() -> str:
    """Return the address of the `clew web` that this user is running, or an empty string."""
    url = str(read_file(ADDRESS).get("url", ""))
    if url.startswith("http://127.0.0.1:"):
        with suppress(OSError), urllib.request.urlopen(f"{url}/v1/health", timeout=2) as response:
            if response.status == 200:
                return url
    return ""


def read_folders() -> list[str]:
    """Return the folders in which `clew web` was started, the last one first."""
    return [name for name in list_of(read_file(ADDRESS).get("folders")) if isinstance(name, str)]


def find_port() -> int:
    for port in range(PORT, PORT + PORTS):
        with suppress(OSError), socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
            return port
    raise UserError(
        f"ports {PORT} to {PORT + PORTS - 1} are all in use; choose another port with --port"
    )


async def open_when_ready(
    is_ready: asyncio.Event,
    database: "Database",
    folder: Path,
    url: str,
    options: argparse.Namespace,
) -> None:
    await is_ready.wait()
    await open_page(database, folder, url, options)


async def open_page(
    database: "Database", folder: Path, url: str, options: argparse.Namespace
) -> None:
    """Create a pairing code for one browser, and open the page in it."""
    secret = secrets.token_bytes(SECRET_BYTES)
    device = uuid.uuid4().hex[:8]
    await database.write(partial(admit, claim=make_claim(secret), device=device))
    write_file("web.json", read_file("web.json") | {device: make_key(secret)})
    opened = f"&open=/s/{options.session}" if options.session else ""
    address = f"{url}/#pair={write_code(secret)}&quiet=1{opened}"
    show(f"open {address}")
    show("The URL works once and expires in two minutes. Press Ctrl-C to stop clew web.")
    sys.stdout.flush()
    if options.no_open:
        return
    page = folder / "open.html"
    link = html.escape(address, quote=True)
    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}">'
    replace(page, f'<!doctype html>{head}<a href="{link}">clew</a>\n', mode=0o600)
    if not await asyncio.to_thread(webbrowser.open, page.as_uri()):
        show("can't start a browser; open the URL above")
        sys.stdout.flush()


def admit(transaction: "Transaction", claim: str, device: str) -> None:
    """Add a pairing that is already confirmed. Only the user's own browser receives its secret."""
    from clew.serve.frames import now_ms
    from clew.serve.log import OWNER

    transaction.run(
        "INSERT INTO pairing VALUES (?, ?, ?, ?, '', ?, ?, '')",
        claim,
        OWNER,
        ",".join(SCOPES),
        NAME,
        device,
        now_ms() + PAIRING_MS,
    )
