"""`clew serve`: run the session server, and manage the devices that may use it."""

import argparse
import asyncio
import contextlib
import os
import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.core.messages.errors import UserError
from clew.record.transcript.paths import get_own_dir
from clew.serve import devices
from clew.serve.frames import NAME, now_ms
from clew.serve.log import OWNER
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config.environment import freeze
from clew.system.installation import describe_extra

if TYPE_CHECKING:
    from clew.serve.database import Database
    from clew.serve.push.delivery import PushNetwork

LISTEN = "127.0.0.1:7480"


def main(argv: list[str], home: Path) -> int:
    # The default subcommand is `run`.
    words = ["run", *argv] if not argv or argv[0].startswith("-") else argv
    words = argv if argv in (["-h"], ["--help"]) else words
    return parser().carry_out(words, lambda options: options.run(home, options))


def parser() -> Group:
    db = argument(
        "--db",
        metavar="DATABASE",
        help="sqlite:PATH (default: in clew's folder) or a postgresql:// URL",
    )
    scopes = argument(
        "--scopes",
        default="view,answer,prompt",
        metavar="NAMES",
        help="Scopes of the device: view, answer, prompt, start, admin",
    )
    owner = argument(
        "--owner", default=OWNER, metavar="NAME", help="Owner whose sessions the device can use"
    )
    group = Group(
        prog="clew serve",
        description="Run a server with durable copies of sessions, to view and answer remotely.",
    )
    runs = (
        argument("--listen", default=LISTEN, metavar="HOST:PORT", help=f"Default: {LISTEN}"),
        argument(
            "--host",
            action="append",
            default=[],
            metavar="NAME",
            help="Additional host name that the server accepts",
        ),
        argument("--tls", nargs=2, metavar=("CERT", "KEY"), help="Certificate and key for HTTPS"),
        switch("--behind-proxy", "Serve HTTP behind a proxy that handles TLS"),
        argument(
            "--proxy",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="Address of the proxy (default: this machine)",
        ),
        argument(
            "--user-header",
            default="",
            metavar="NAME",
            help="Header with the user's name, such as x-forwarded-user",
        ),
        argument(
            "--user-scopes",
            default="view,answer,prompt",
            metavar="NAMES",
            help="Scopes of users that the proxy identifies",
        ),
        argument(
            "--push-host",
            action="append",
            default=[],
            metavar="HOST:PORT",
            help="Private push service that browsers may name",
        ),
        argument(
            "--public-url",
            default="",
            metavar="URL",
            help="URL at which clients reach the server",
        ),
    )
    name, device = argument("name", metavar="NAME"), argument("device", metavar="DEVICE")
    return group.add_words(
        {
            "run": GroupWord(do(run), *runs, db, line="Run the server (the default)"),
            "add": GroupWord(
                do(add), name, scopes, owner, db, line="Add a device and print its token"
            ),
            "devices": GroupWord(do(list_all), db, line="List devices"),
            "revoke": GroupWord(do(revoke), device, db, line="Revoke a device's token"),
        }
    )


def do(
    word: Callable[[Path, argparse.Namespace], Coroutine[Any, Any, int]],
) -> Callable[[Path, argparse.Namespace], int]:
    return lambda home, options: asyncio.run(word(home, options))


def find_database(home: Path, name: str | None) -> "Database":
    from clew.serve.sqlite import SqliteDatabase

    kind, _, path = (name or "").partition(":")
    if kind in ("postgresql", "postgres"):
        try:
            from clew.serve.postgres import PostgresDatabase
        except ImportError:
            raise UserError(
                f"--db postgresql needs a driver that is not installed; {describe_extra('postgres')}"
            ) from None
        return PostgresDatabase(name or "")
    if name and kind != "sqlite":
        raise UserError(f"--db {kind}: expected sqlite:PATH or postgresql://...")
    return SqliteDatabase(Path(path).expanduser() if path else get_own_dir(home) / "serve.db")


async def run(home: Path, options: argparse.Namespace) -> int:
    try:
        from clew.serve.app import SessionServer
        from clew.serve.listener import HttpListener
    except ModuleNotFoundError:
        raise UserError(
            f"clew serve needs packages that are not installed; {describe_extra('serve')}"
        ) from None
    from clew.serve.access import LOOPBACK, ProxyUsers, is_loopback, split_address

    try:
        host, port = split_address(options.listen)
    except ValueError as error:
        raise UserError(f"--listen {error}") from None
    if not is_loopback(host) and not (options.tls or options.behind_proxy):
        raise UserError(
            f"--listen {options.listen}: other machines can reach this address, so it requires"
            f" --tls CERT KEY, or --behind-proxy if a proxy handles TLS"
        )
    if (options.proxy or options.user_header) and not options.behind_proxy:
        raise UserError("--proxy and --user-header require --behind-proxy")
    proxies = tuple(options.proxy) or (LOOPBACK if options.behind_proxy else ())
    users = None
    if options.user_header:
        scopes = frozenset(parse_scopes("--user-scopes", options.user_scopes))
        users = ProxyUsers(header=options.user_header, scopes=scopes)
    async with opened(home, options) as database, open_pushes(options.push_host) as pushes:
        await first_device(database)
        server = SessionServer(
            database,
            pushes=pushes,
            hosts=[*LOOPBACK, host, *options.host],
            public_url=options.public_url.rstrip("/"),
            users=users,
            proxies=proxies,
        )
        cert, key = options.tls or ("", "")
        await HttpListener(server, host, port, certificate=cert, key=key, proxies=proxies).serve()
    return 0


@contextlib.asynccontextmanager
async def open_pushes(allowed: Sequence[str] = ()) -> "AsyncIterator[PushNetwork]":
    """Yield the way to push services: to public addresses, and to the hosts in `allowed`."""
    from clew.serve.push.delivery import PushNetwork
    from clew.system.transport.addresses import is_admitted
    from clew.system.transport.http import HttpTransport
    from clew.system.transport.network import read_network

    def admits(host: str, port: int, address: str) -> bool:
        return is_admitted(host, port, address, allowed)

    transport = HttpTransport(read_network(freeze(os.environ)), admits=admits)
    try:
        yield PushNetwork(transport=transport, allowed=tuple(allowed))
    finally:
        await transport.aclose()


async def first_device(database: "Database") -> None:
    """Create a token for the owner if no device exists yet."""
    if not await database.read(devices.list_devices):
        token = await make_device(database, "owner", devices.SCOPES)
        show(f'token of the device "owner", shown only once: {token}')


async def make_device(
    database: "Database", name: str, scopes: tuple[str, ...], owner: str = OWNER
) -> str:
    token = secrets.token_urlsafe(32)
    await database.write(
        partial(
            devices.add_device,
            device=uuid.uuid4().hex[:8],
            name=name,
            token=token,
            scopes=scopes,
            now_ms=now_ms(),
            owner=owner,
        )
    )
    return token


@contextlib.asynccontextmanager
async def opened(home: Path, options: argparse.Namespace) -> AsyncIterator["Database"]:
    database = find_database(home, options.db)
    try:
        yield database
    finally:
        await database.aclose()


def parse_scopes(option: str, text: str) -> tuple[str, ...]:
    scopes = tuple(filter(None, text.split(",")))
    unknown = [scope for scope in scopes if scope not in devices.SCOPES]
    if unknown or not scopes:
        raise UserError(f"{option} {text!r}: expected one or more of {', '.join(devices.SCOPES)}")
    return scopes


async def add(home: Path, options: argparse.Namespace) -> int:
    scopes = parse_scopes("--scopes", options.scopes)
    if not NAME.fullmatch(options.owner):
        raise UserError(f"--owner {options.owner!r}: expected only letters, digits, - and _")
    async with opened(home, options) as database:
        token = await make_device(database, options.name, scopes, options.owner)
    show(f"token, shown only once: {token}")
    return 0


async def list_all(home: Path, options: argparse.Namespace) -> int:
    async with opened(home, options) as database:
        for device in await database.read(devices.list_devices):
            owner = "" if device["owner"] == OWNER else f"  of {device['owner']}"
            show(f"{device['id']}  {device['name']}  {','.join(device['scopes'])}{owner}")
    return 0


async def revoke(home: Path, options: argparse.Namespace) -> int:
    async with opened(home, options) as database:
        await database.write(partial(devices.revoke_device, device=options.device, now_ms=now_ms()))
    show(f"{options.device} revoked")
    return 0
