"""`clew pair`: give another machine a token and a key, with a code that is valid for two minutes.

On the machine that runs the sessions, the command is used without a code; on the other machine,
with the code. Tokens and keys are in files that only their owner can read.
"""

import argparse
import asyncio
import hmac
import os
import secrets
import socket
import sys
from pathlib import Path

import msgspec

from clew.core.json_object import Json, object_of
from clew.core.messages.errors import UserError
from clew.core.messages.text import replace_unprintable
from clew.fronts.ends import run_front
from clew.fronts.headless.channel import Input
from clew.fronts.remote.host import load_own_settings
from clew.fronts.remote.keys import find_folder, read_file, write_file
from clew.fronts.remote.service import SessionService, open_service
from clew.fronts.remote.signing import SECRET_BYTES, make_claim, make_key, read_code, write_code
from clew.record.stores.sealing import Sealer, SealError, add_keys, make_sealer, read_sealer
from clew.system.command_groups import show
from clew.system.config.paths import find_config_home
from clew.system.installation import describe_extra

POLL_S = 0.5
WRAPPED = b"keys"
# A code is valid for two minutes.
POLLS = 240


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew pair",
        description="Give another machine access to this machine's remote sessions.",
        epilog="Without CODE, print a code. With CODE, use the code that another machine printed.",
    )
    parser.add_argument(
        "code", nargs="?", metavar="CODE", help="Code that the other machine printed"
    )
    parser.add_argument("--server", default="", metavar="URL", help="Default: CLEW_REMOTE_URL")
    parser.add_argument(
        "--scopes",
        default="view,answer,prompt",
        metavar="NAMES",
        help="What the new device may do: view, answer, prompt (default: all three)",
    )
    parser.add_argument(
        "--name", default=socket.gethostname(), metavar="NAME", help="Name of this device"
    )
    options = parser.parse_args(argv)
    return run_front(lambda: claim(options) if options.code else offer(options))


async def offer(options: argparse.Namespace) -> int:
    """Print a code, and ask the user to confirm the device that uses the code."""
    secret = secrets.token_bytes(SECRET_BYTES)
    name = make_claim(secret)
    async with open_service(options.server, os.environ) as service:
        await service.ask("POST", "/v1/pairings", {"claim": name, "scopes": options.scopes})
        show("On the other machine, within two minutes:")
        code = write_code(secret)
        show(f"  clew pair --server {service.url} {code}")
        show("or in a browser there:")
        page = f"{service.url}/#pair={code}"
        show(f"  {page}")
        draw_code(page)
        sys.stdout.flush()
        found = await wait_for(service, "GET", f"/v1/pairings/{name}", "name")
        who = replace_unprintable(str(found["name"]), mark="?")
        show(f"Pair {who} at {found.get('address')} (scopes: {options.scopes})? y or n")
        sys.stdout.flush()
        typed = await Input(0, asyncio.get_running_loop()).next()
        is_accepted = (typed or b"").strip().lower() in (b"y", b"yes")
        gift = wrap_keys(secret, name) if is_accepted else ""
        body = {"name": found["name"] if is_accepted else "", "gift": gift}
        made = await service.ask("POST", f"/v1/pairings/{name}/confirm", body)
    if not is_accepted:
        show("refused")
        return 1
    paired = read_file("paired.json") | {str(made.get("device")): make_key(secret)}
    write_file("paired.json", paired)
    show(f"paired with {who}; sessions on this machine now accept only signed messages")
    return 0


def draw_code(page: str) -> None:
    """Print an address as a QR code, if the output is a terminal and the package is installed."""
    if not sys.stdout.isatty():
        return
    try:
        import segno
    except ModuleNotFoundError:
        show(f"(to scan the address with a camera, {describe_extra('serve')})")
        return
    segno.make(page, error="l", micro=False).terminal(compact=True, border=2)


async def claim(options: argparse.Namespace) -> int:
    """Pair this machine with a code: wait for the confirmation, store the token and the keys."""
    try:
        secret = read_code(options.code)
    except ValueError:
        raise UserError(
            f"invalid code {options.code!r}; enter a code that clew pair printed"
        ) from None
    name = make_claim(secret)
    async with open_service(options.server, os.environ, needs_token=False) as service:
        path, body = f"/v1/pairings/{name}/claim", {"name": options.name}
        show("Confirm on the other machine.")
        sys.stdout.flush()
        given = await wait_for(service, "POST", path, "token", body)
        kept = {"url": service.url, "key": make_key(secret)}
    kept |= {member: str(given.get(member)) for member in ("token", "device")}
    keys = unwrap_keys(secret, name, str(given.get("gift") or ""))
    if keys:
        add_keys(find_folder(), keys)
    write_file("device.json", kept)
    show("paired; list the sessions with: clew attach")
    return 0


# The keys of sealed sessions, on their way to the other machine. The server passes them on, sealed
# with a key derived from the code.


def wrap_keys(secret: bytes, claim: str) -> str:
    """Return this machine's keys, sealed for the other machine; empty if there are none."""
    sealer = read_sealer(find_folder())
    if load_own_settings(find_config_home(os.environ, Path.cwd())).get("remoteSealed") is True:
        sealer = make_sealer(find_folder())
    if sealer is None:
        return ""
    keys = msgspec.json.encode([key.hex() for key in sealer.keys])
    return make_wrapper(secret).seal(claim, WRAPPED, keys)


def unwrap_keys(secret: bytes, claim: str, gift: str) -> list[bytes]:
    if not gift:
        return []
    try:
        keys = msgspec.json.decode(make_wrapper(secret).open(claim, WRAPPED, gift), type=list[str])
        return [bytes.fromhex(key) for key in keys]
    except (SealError, msgspec.DecodeError, ValueError) as error:
        raise UserError(f"can't read the keys of sealed sessions: {error}; pair again") from None


def make_wrapper(secret: bytes) -> Sealer:
    return Sealer([hmac.digest(secret, b"clew pairing seal", "sha256")])


async def wait_for(
    service: SessionService, method: str, path: str, member: str, body: Json | None = None
) -> Json:
    """Repeat a request until the response contains `member`; return that response."""
    for _ in range(POLLS):
        found = object_of(await service.ask(method, path, body))
        if found.get(member):
            return found
        await asyncio.sleep(POLL_S)
    raise UserError("the code expired before it was used; run clew pair again")
