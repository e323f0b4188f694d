"""What attackers try, over HTTP and on the connection: everything is refused, and nothing is stored."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from clew.serve.access import DeviceRates, ProxyUsers
from clew.serve.log import RefusedError
from clew.serve.sqlite import SqliteDatabase
from tests.serve.served import Served, served
from tests.serve.test_server import (
    CODE,
    PROMPT,
    QUESTION,
    SESSION,
    answer_to,
    begin,
    status_by_name,
)

EVENTS = f"{CODE}/events"
WORKER = f"{CODE}/worker"
LINES = f"/v1/entries?session={SESSION}"


def request_of(subtype: str, **fields: Any) -> dict[str, Any]:
    asked = {"subtype": subtype, **fields}
    frame = {"type": "control_request", "request_id": "r", "request": asked}
    return {"events": [{"payload": frame}]}


def sent(payload: dict[str, Any]) -> dict[str, Any]:
    return {"events": [{"payload": payload}]}


BASH = sent({"type": "bash_command", "command": "id"})
LAXER = request_of("set_permission_mode", mode="bypassPermissions")
WITHDRAWN = sent({"type": "control_cancel_request", "request_id": "q1"})
SAID_BY_MODEL = sent({"type": "assistant", "message": {"role": "assistant", "content": "x"}})
PAIRING = {"claim": "0" * 64, "scopes": "view"}
NOBODY = "/v1/code/sessions/cse_" + "0" * 32
LARGE = "x" * 1_001

# status, method, path, body, and the token or headers
ATTACKS: tuple[tuple[int, str, str, Any, dict[str, str]], ...] = (
    # without a valid token
    (401, "GET", "/v1/entries/keys", None, {"token": ""}),
    (401, "GET", "/v1/entries/keys", None, {"token": "guess"}),
    (401, "GET", f"/v1/entries/keys?token={'owner-token'}", None, {"token": ""}),
    (401, "GET", "/v1/code/sessions", None, {"token": "", "cookie": "token=owner-token"}),
    (401, "GET", "/v1/code/sessions", None, {"token": "", "x_forwarded_user": "owner"}),
    (401, "POST", EVENTS, sent(PROMPT), {"token": ""}),
    (401, "GET", f"{EVENTS}/stream", None, {"token": ""}),
    # a token for something else
    (401, "GET", WORKER, None, {}),
    (401, "GET", "/v1/code/sessions", None, {"token": "worker"}),
    (401, "POST", EVENTS, sent(PROMPT), {"token": "worker"}),
    (401, "GET", f"{NOBODY}/worker", None, {"token": "worker"}),
    # other sites
    (403, "GET", "/v1/entries/keys", None, {"origin": "https://evil.example"}),
    (403, "GET", "/v1/entries/keys", None, {"origin": "null"}),
    (403, "POST", EVENTS, sent(PROMPT), {"origin": "http://127.0.0.1.evil.example"}),
    # without the scope
    (403, "POST", EVENTS, sent(PROMPT), {"token": "viewer"}),
    (403, "POST", EVENTS, sent(answer_to("q1", "a1")), {"token": "viewer"}),
    (403, "POST", EVENTS, request_of("interrupt"), {"token": "viewer"}),
    (403, "POST", EVENTS, sent(PROMPT), {"token": "answers"}),
    (403, "POST", EVENTS, LAXER, {"token": "answers"}),
    (403, "POST", EVENTS, request_of("start_session", folder="/"), {"token": "prompts"}),
    (403, "POST", EVENTS, request_of("end_session"), {"token": "prompts"}),
    (403, "POST", "/v1/code/sessions", {}, {"token": "prompts"}),
    (403, "POST", f"{CODE}/bridge", {}, {"token": "prompts"}),
    (403, "POST", f"{LINES}&at=0", b"{}\n", {"token": "prompts"}),
    (403, "DELETE", LINES, None, {"token": "prompts"}),
    (403, "PUT", "/v1/blobs/" + "0" * 64, b"", {"token": "prompts"}),
    (403, "POST", "/v1/pairings", PAIRING, {"token": "prompts"}),
    (403, "GET", "/v1/devices", None, {"token": "prompts"}),
    (403, "DELETE", "/v1/devices/owner-token", None, {"token": "prompts"}),
    # what no viewer may say
    (400, "POST", EVENTS, BASH, {}),
    (400, "POST", EVENTS, SAID_BY_MODEL, {}),
    (400, "POST", EVENTS, WITHDRAWN, {}),
    (400, "POST", EVENTS, request_of("mcp_set_servers", servers={}), {}),
    (400, "POST", EVENTS, request_of("update_settings", settings={}), {}),
    (400, "POST", EVENTS, request_of("add_directory", path="/"), {}),
    # somebody else's session, and names that are none
    (404, "GET", NOBODY, None, {}),
    (404, "GET", f"{NOBODY}/events/stream", None, {}),
    (404, "POST", EVENTS, sent(PROMPT), {"token": "eve"}),
    (404, "POST", f"{CODE}/bridge", {}, {"token": "eve"}),
    (404, "GET", "/v1/entries?session=..%2f..%2fetc", None, {}),
    (404, "GET", "/v1/code/sessions/..%2f..", None, {}),
    (404, "DELETE", "/v1/devices/owner-token", None, {"token": "eve"}),
    (404, "POST", f"/v1/pairings/{'0' * 64}/claim", {"name": "eve"}, {"token": ""}),
    # lines and files that are not what they should be
    (400, "PUT", "/v1/blobs/" + "0" * 64, b"other", {}),
    (404, "GET", "/v1/blobs/" + "0" * 64, None, {}),
    (409, "POST", f"{LINES}&at=7", b"{}\n", {}),
    (409, "POST", f"{LINES}&at=0", b'{"other":1}\n', {}),
    (400, "POST", f"{LINES}&at=-1", b"{}\n", {}),
    (400, "POST", f"{LINES}&at=0", b"{}", {}),
    (400, "GET", f"{LINES}&subpath={LARGE}", None, {}),
    # bodies
    (400, "POST", EVENTS, b"[" * 100_000, {}),
    (400, "POST", EVENTS, b"\xff", {}),
    (400, "POST", EVENTS, {"events": 5}, {}),
    (400, "GET", f"{EVENTS}/stream?from_sequence_num=x", None, {}),
    (413, "POST", EVENTS, b"x" * (9 << 20), {}),
)


async def test_forty_attacks_and_more_are_refused(tmp_path: Path) -> None:
    assert len(ATTACKS) >= 40
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        for name, scopes in (
            ("viewer", ("view",)),
            ("answers", ("view", "answer")),
            ("prompts", ("view", "answer", "prompt")),
        ):
            await server.add_device(name, *scopes)
        await server.add_device("eve", "view", "answer", "prompt", "start", "admin", owner="eve")
        await server.ask("POST", f"{LINES}&at=0", b'{"kept":1}\n')
        upload = {"worker_epoch": epoch, "events": [{"payload": QUESTION}]}
        await server.ask("POST", f"{WORKER}/events", upload, token=token)
        for wanted, method, path, body, headers in ATTACKS:
            named = {n: token if v == "worker" else v for n, v in headers.items()}
            status, said = await server.ask(method, path, body, **named)
            assert status == wanted, (method, path, headers, said)
        assert (await server.ask("GET", CODE))[1]["session"]["last_sequence_num"] == 1
        assert await server.ask("GET", LINES) == (200, {"kept": 1})


async def test_a_server_answers_only_to_its_names(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for path in ("/v1/entries/keys", "/v1/health", "/v1/code/sessions"):
            for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil"):
                assert await status_by_name(server, host, path) == 421


async def test_guesses_are_slowed_down_and_valid_tokens_are_not(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, _ = await begin(server)
        statuses = [(await server.ask("GET", CODE, token=f"guess{n}"))[0] for n in range(30)]
        assert (statuses[0], statuses[-1]) == (401, 429)
        # Whoever has a valid token is not locked out, though a proxy gives all the same address.
        assert (await server.ask("GET", CODE))[0] == 200
        assert (await server.ask("GET", WORKER, token=token))[0] == 200


async def test_a_device_that_sends_too_much_is_slowed_down(tmp_path: Path) -> None:
    async with served(tmp_path, about={"rates": DeviceRates(per_second=0, burst=3)}) as server:
        await server.add_device("phone", "view", "prompt")
        await begin(server)
        for token, wanted in (("owner-token", [200, 200, 200, 429]), ("phone", [200])):
            found = [await server.ask("POST", EVENTS, {"events": []}, token=token) for _ in wanted]
            assert [status for status, _ in found] == wanted
    rates = DeviceRates(per_second=1, burst=1)
    for at_s in (10.0, 11.0, 12.5):
        rates.take("a", at_s)
    with pytest.raises(RefusedError):
        rates.take("a", 13.0)


async def test_a_pairing_ends_after_its_time_and_gives_one_token(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "serve.db")
    async with served(tmp_path, database) as server:
        claim = "1" * 64
        pairing = f"/v1/pairings/{claim}"
        steps: tuple[tuple[int, str, str, Any, str], ...] = (
            (200, "POST", "/v1/pairings", {"claim": claim, "scopes": "view"}, server.token),
            (202, "POST", f"{pairing}/claim", {"name": "phone"}, ""),
            (200, "POST", f"{pairing}/confirm", {"name": "phone"}, server.token),
            (200, "POST", f"{pairing}/claim", {"name": "phone"}, ""),
        )
        # It expires before it is claimed, before it is confirmed, and before the token is fetched.
        for done in range(1, len(steps)):
            for wanted, method, path, body, token in steps[:done]:
                assert (await server.ask(method, path, body, token=token))[0] == wanted
            await database.write(lambda t: t.run("UPDATE pairing SET expires_at=1"))
            for _, method, path, body, token in steps[1:]:
                assert (await server.ask(method, path, body, token=token))[0] == 404
            assert (await server.ask("GET", pairing))[0] == 404
        assert len((await server.ask("GET", "/v1/devices"))[1]["data"]) == 1
        for wanted, method, path, body, token in (*steps, (404, *steps[-1][1:])):
            status, said = await server.ask(method, path, body, token=token)
            assert status == wanted
        assert "token" not in said
        assert len((await server.ask("GET", "/v1/devices"))[1]["data"]) == 2


async def test_a_worker_reaches_no_other_session(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        other = str(uuid.uuid4())
        code = f"/v1/code/sessions/{other}"
        await server.ask("POST", "/v1/code/sessions", {"session_id": other})
        await server.ask("POST", f"{code}/bridge", {})
        await server.ask("POST", f"{code}/events", sent(PROMPT))
        update = {"event_id": PROMPT["uuid"], "status": "processed"}
        for method, path, body in (
            ("GET", "", None),
            ("PUT", "", {"worker_status": "running"}),
            ("POST", "/register", {}),
            ("POST", "/heartbeat", {}),
            ("POST", "/events", {"events": [{"payload": {"type": "assistant"}}]}),
            ("POST", "/events/delivery", {"updates": [update]}),
            ("GET", "/events/stream?from_sequence_num=0", None),
        ):
            about = None if body is None else body | {"worker_epoch": epoch}
            status, _ = await server.ask(method, f"{code}/worker{path}", about, token=token)
            assert status == 401, (method, path)
        # Nor does it change the other session's events by naming them in its own.
        delivery = {"worker_epoch": epoch, "updates": [update]}
        assert (await server.ask("POST", f"{WORKER}/events/delivery", delivery, token=token))[
            0
        ] == 200
        [seen] = await server.frames(f"{code}/events/stream", 1)
        assert "delivery_status" not in seen
        assert (await server.ask("GET", code))[1]["session"]["worker_epoch"] == 1


async def ends(server: Served, path: str, token: str) -> None:
    """Read a stream until the server ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[-1]))
    about = f"host: 127.0.0.1\r\nauthorization: Bearer {token}"
    writer.write(f"GET {path} HTTP/1.1\r\n{about}\r\n\r\n".encode())
    assert b"200" in await reader.readline()
    await reader.readuntil(b": connected")
    async with asyncio.timeout(10):
        while await reader.readline() != b"0\r\n":
            pass
    writer.close()


async def test_streams_end_at_once_when_their_device_is_revoked(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.add_device("phone", "view", "start")
        await begin(server)
        given = (await server.ask("POST", f"{CODE}/bridge", {}, token="phone"))[1]
        async with asyncio.TaskGroup() as group:
            group.create_task(ends(server, f"{EVENTS}/stream", "phone"))
            group.create_task(ends(server, f"{WORKER}/events/stream", given["worker_jwt"]))
            await asyncio.sleep(0)
            listed = (await server.ask("GET", "/v1/devices"))[1]["data"]
            assert {device["id"] for device in listed} == {"owner-token", "phone"}
            while not await is_watched(server, given):
                pass
            assert (await server.ask("DELETE", "/v1/devices/phone"))[0] == 204
        assert (await server.ask("GET", CODE, token="phone"))[0] == 401
        assert (await server.ask("GET", WORKER, token=given["worker_jwt"]))[0] == 401


async def is_watched(server: Served, given: dict[str, Any]) -> bool:
    body = {"worker_epoch": given["worker_epoch"], "events": []}
    _, said = await server.ask("POST", f"{WORKER}/events", body, token=given["worker_jwt"])
    return bool(said["has_subscribers"])


async def test_a_revocation_by_another_process_ends_streams_too(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.add_device("phone", "view")
        await begin(server)
        async with asyncio.TaskGroup() as group:
            group.create_task(ends(server, f"{EVENTS}/stream", "phone"))
            await asyncio.sleep(0.2)
            await server.revoke_now("phone")  # As `clew serve revoke` does.


async def test_only_the_proxy_names_users(tmp_path: Path) -> None:
    users = ProxyUsers(header="x-forwarded-user", scopes=frozenset({"view", "answer"}))
    async with served(tmp_path, about={"users": users}) as server:
        await begin(server)
        ada = {"token": "", "x_forwarded_user": "ada@example.com"}
        assert (await server.ask("GET", "/v1/code/sessions", **ada)) == (200, {"data": []})
        assert (await server.ask("GET", CODE, **ada))[0] == 404  # the owner's session
        assert (await server.ask("POST", "/v1/code/sessions", {}, **ada))[0] == 403
        # The stream of the page lasts, although there is no token that could be revoked.
        server.token, token = "", server.token
        frames = await server.frames("/v1/web/stream", 2, x_forwarded_user="ada@example.com")
        assert frames == [{"last": 0}, []]
        server.token = token
        odd = {"token": "", "x_forwarded_user": "ada:*"}
        assert (await server.ask("GET", "/v1/code/sessions", **odd))[0] == 403
        # A token counts more than the header.
        owner = {"x_forwarded_user": "ada@example.com"}
        assert (await server.ask("GET", CODE, **owner))[0] == 200
    elsewhere = {"users": users, "proxies": ["10.0.0.1"]}
    async with served(tmp_path / "elsewhere", about=elsewhere) as server:
        assert (await server.ask("GET", "/v1/code/sessions", **ada))[0] == 401


# Requests that a proxy in front of the server may read in another way. `HEAD` has a valid token.
SMUGGLED = {
    "two kinds of length": (
        "POST /v1/code/sessions HTTP/1.1\r\nHEADContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/devices HTTP/1.1\r\nHEAD\r\n"
    ),
    "two lengths": (
        "POST /v1/code/sessions HTTP/1.1\r\nHEADContent-Length: 2\r\nContent-Length: 0\r\n\r\n{}"
    ),
    "a signed length": "POST /v1/code/sessions HTTP/1.1\r\nHEADContent-Length: +2\r\n\r\n{}",
    "an unknown encoding": (
        "POST /v1/code/sessions HTTP/1.1\r\nHEADTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
    ),
    "a space before the colon": (
        "POST /v1/code/sessions HTTP/1.1\r\nHEADContent-Length : 2\r\n\r\n{}"
    ),
    "a negative chunk": (
        "POST /v1/code/sessions HTTP/1.1\r\nHEADTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"
    ),
    "two hosts": "GET /v1/devices HTTP/1.1\r\nHEADHost: evil.example\r\n\r\n",
    "a bare line end": "GET /v1/devices HTTP/1.1\r\nHEADX: b\nHost: evil.example\r\n\r\n",
    "a NUL": "GET /v1/devices HTTP/1.1\r\nHEADX: \0\r\n\r\n",
    "two tokens": "GET /v1/devices HTTP/1.1\r\nHEADAuthorization: Bearer other\r\n\r\n",
    "two users": "GET /v1/devices HTTP/1.1\r\nHEADX-User: ada\r\nX-User: eve\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_a_request_with_two_readings_is_refused_and_ends_its_connection(
    tmp_path: Path, name: str
) -> None:
    users = ProxyUsers(header="x-user", scopes=frozenset({"view"}))
    async with served(tmp_path, about={"users": users}) as server:
        address = server.url.removeprefix("http://")
        head = f"Host: {address}\r\nAuthorization: Bearer {server.token}\r\n"
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(SMUGGLED[name].replace("HEAD", head).encode())
        async with asyncio.timeout(20):
            response = await reader.read()
        writer.close()
        assert response.startswith(b"HTTP/1.1 400 ")
        assert response.count(b"HTTP/1.1 ") == 1
