"""`clew remote`: start and end sessions on other machines.

Each step is a request with an ID, so sending it again has no second effect.
"""

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable

from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages.errors import UserError
from clew.core.messages.text import replace_unprintable
from clew.fronts.ends import run_front
from clew.fronts.remote.keys import protect
from clew.fronts.remote.sealed import SEALED_TITLE
from clew.fronts.remote.service import (
    CODE,
    ServiceError,
    SessionService,
    delay_s,
    follow,
    open_service,
    read_session_id,
)
from clew.system.clock import make_id
from clew.system.command_groups import Group, GroupWord, argument, show

# The longest wait for a host's answer.
ANSWER_S = 60.0
MOST_ATTEMPTS = 20


def main(argv: list[str]) -> int:
    return parser().carry_out(argv, lambda options: options.run(options))


def parser() -> Group:
    server = argument("--server", default="", metavar="URL", help="Default: CLEW_REMOTE_URL")
    folder = argument(
        "folder", metavar="FOLDER", help="Folder listed in the host's remoteFolders setting"
    )
    prompt = argument("prompt", metavar="PROMPT", help="First prompt")
    host = argument("--host", default="", metavar="NAME", help="Host, if several are connected")
    session = argument("session", metavar="SESSION")
    group = Group(
        prog="clew remote",
        description="Start and end sessions on machines that run clew host. "
        "Follow and answer them with clew attach.",
    )
    return group.add_words(
        {
            "hosts": GroupWord(do_hosts, server, line="List hosts and their folders"),
            "start": GroupWord(
                do_start, folder, prompt, host, server, line="Start a session and print its ID"
            ),
            "end": GroupWord(do_end, session, server, line="End a session"),
        }
    )


def do_hosts(options: argparse.Namespace) -> int:
    return run_front(lambda: list_hosts(options))


def do_start(options: argparse.Namespace) -> int:
    return run_front(lambda: start(options))


def do_end(options: argparse.Namespace) -> int:
    return run_front(lambda: end(options))


async def list_hosts(options: argparse.Namespace) -> int:
    async with open_service(options.server, os.environ) as service:
        for host in await find_hosts(service):
            about = object_of(host.get("external_metadata"))
            state = "on" if host.get("connection_status") == "connected" else "away"
            show(f"{clean(host.get('title'))}  {state}  {len(about.get('sessions') or [])} running")
            for folder in about.get("folders") or []:
                show(f"  {clean(folder)}")
    return 0


def clean(text: object) -> str:
    return replace_unprintable(str(text), mark="?")


async def find_hosts(service: SessionService) -> list[Json]:
    return await service.list_sessions("?kind=host")


async def start(options: argparse.Namespace) -> int:
    async with open_service(options.server, os.environ) as service:
        host = choose_host(await find_hosts(service), options.host)
        show(await start_session(service, host, options.folder, options.prompt))
    return 0


async def start_session(service: SessionService, host: Json, folder: str, prompt: str) -> str:
    """Ask a host to start a session, send the session a prompt, and return its ID."""
    session = make_id()
    asked = {"session_id": session, "folder": folder}
    request = wire.make_request(make_id(), "start_session", asked) | {"uuid": make_id()}
    refusal = await ask_host(service, str(host["session_id"]), request)
    if refusal:
        raise UserError(f"{clean(host.get('title'))}: {clean(refusal)}")
    # With a key, the server does not learn what the session is about.
    title = SEALED_TITLE if service.sealer is not None else clean(prompt)[:80]
    about = {"session_id": session, "title": title}
    await until_sent(lambda: service.ask("POST", CODE, about))
    said = {"role": "user", "content": prompt}
    await send(service, session, {"type": "user", "uuid": make_id(), "message": said})
    return session


def choose_host(hosts: list[Json], name: str) -> Json:
    there = [host for host in hosts if host.get("connection_status") == "connected"]
    named = [host for host in there if name in ("", host.get("title"), host.get("session_id"))]
    names = ", ".join(sorted(clean(host.get("title")) for host in there))
    if not there:
        raise UserError(
            "no host is connected; run clew host on the machine that should run the session"
        )
    if not named:
        raise UserError(f"host {name!r} is not connected; connected hosts: {names}")
    if len(named) > 1:
        raise UserError(f"several hosts are connected; choose one with --host: {names}")
    return named[0]


async def ask_host(service: SessionService, host: str, request: Json) -> str:
    """Send a request to a host; return the reason for a refusal, or an empty string."""
    [shown] = [h for h in await find_hosts(service) if h["session_id"] == host]
    after = int(shown["last_sequence_num"])
    await send(service, host, request)
    try:
        async with asyncio.timeout(ANSWER_S):
            async for about in follow(service, host, after):
                response = object_of(object_of(about.get("payload")).get("response"))
                if response.get("request_id") == request["request_id"]:
                    is_done = response.get("subtype") == "success"
                    return "" if is_done else str(response.get("error"))
    except TimeoutError:
        pass
    raise UserError("the host did not answer in time; it will start the session when it reconnects")


async def end(options: argparse.Namespace) -> int:
    session = read_session_id(options.session)
    async with open_service(options.server, os.environ) as service:
        await end_session(service, session)
    show(f"asked the host to end session {session}")
    return 0


async def end_session(service: SessionService, session: str) -> None:
    """Interrupt a session, which may be waiting for an answer, and end it."""
    for subtype in ("interrupt", "end_session"):
        request = wire.make_request(make_id(), subtype, {}) | {"uuid": make_id()}
        await send(service, session, request)


async def send(service: SessionService, session: str, payload: Json) -> None:
    """Send a frame, with retries. Because of its UUID, the server stores it only once."""
    payload = protect(payload, session, service.sealer)
    await until_sent(lambda: service.send(session, [payload]))


async def until_sent(work: Callable[[], Awaitable[object]]) -> None:
    attempt = 0
    while True:
        try:
            await work()
        except ServiceError as error:
            if not error.is_passing or attempt >= MOST_ATTEMPTS:
                raise
            await asyncio.sleep(delay_s(attempt, random.random))
            attempt += 1
            continue
        return
