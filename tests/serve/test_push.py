"""Pushes: which browsers get one, what it contains, and which addresses the server contacts."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.serve.push.delivery import PushNetwork
from clew.serve.push.encryption import decode, encode, encrypt
from clew.system.transport.addresses import is_admitted
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from tests.serve.push_service import PushBrowser, PushService, check_vapid
from tests.serve.served import Served, served
from tests.serve.web.test_pages import add_session, question, said

PUSH = "/v1/web/push"
SECRET_WORDS = ("deploy --production", "Release of plugh")


@asynccontextmanager
async def pushing(folder: Path, service: PushService) -> AsyncIterator[Served]:
    """A server that may reach the push service, and sends without a delay."""
    allowed = [service.place]

    def admits(host: str, port: int, address: str) -> bool:
        return is_admitted(host, port, address, allowed)

    network = Network(cert_file=str(service.authority.file))
    transport = HttpTransport(network, admits=admits)
    try:
        pushes = PushNetwork(transport=transport, allowed=tuple(allowed), wait_s=0.2)
        async with served(folder, about={"pushes": pushes}) as server:
            yield server
    finally:
        await transport.aclose()


async def subscribe(
    server: Served, service: PushService, browser: PushBrowser, detail: str, token: str
) -> None:
    body = {"endpoint": f"{service.origin}/{token}", "keys": browser.keys, "detail": detail}
    assert await server.ask("PUT", PUSH, body, token=token) == (200, {"detail": detail})


def test_a_push_is_encrypted_as_the_example_of_the_standard() -> None:
    body = encrypt(
        b"When I grow up, I want to be a watermelon",
        decode("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
        decode("BTBZMqHH6r4Tts7J_aSIgg"),
        private="yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
        salt=decode("DGv6ra1nlYgDCS1FRnbzlw"),
        padded_bytes=0,
    )  # fmt: skip
    assert encode(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


async def test_each_browser_gets_what_it_chose_and_the_service_sees_nothing(tmp_path: Path) -> None:
    service, browsers = PushService(tmp_path), {}
    with service.running():
        async with pushing(tmp_path, service) as server:
            _, about = await server.ask("GET", PUSH)
            assert about["detail"] == ""
            for detail in ("none", "title", "question"):
                browsers[detail] = PushBrowser()
                await server.add_device(detail, "view")
                await subscribe(server, service, browsers[detail], detail, detail)
            # Neither other owners nor revoked devices get a push.
            for name, owner in (("other", "somebody"), ("gone", "owner")):
                await server.add_device(name, "view", owner=owner)
                await subscribe(server, service, PushBrowser(), "question", name)
            await server.revoke("gone")
            assert (await server.ask("GET", PUSH, token="title"))[1] == about | {"detail": "title"}
            session = await add_session(
                server, said("hi"), question(SECRET_WORDS[0]), title=SECRET_WORDS[1]
            )
            opened: dict[str, Any] = {}
            for _ in browsers:
                path, headers, body = await asyncio.to_thread(service.take)
                detail = path[1:]
                opened[detail] = browsers[detail].open(body)
                assert check_vapid(headers["authorization"], service.origin, about["key"])
                assert (headers["content-encoding"], headers["urgency"]) == ("aes128gcm", "high")
                assert len(body) == len(decode(about["key"])) + 21 + 1024 + 16
                told = f"{path}{headers}"
                assert not [word for word in (*SECRET_WORDS, session) if word in told]
            waits = "A session waits for your answer"
            assert opened == {
                "none": {"session": session, "title": "clew", "body": waits},
                "title": {"session": session, "title": SECRET_WORDS[1], "body": waits},
                "question": {"session": session, "title": SECRET_WORDS[1], "body": SECRET_WORDS[0]},
            }
            assert service.requests.empty()


async def test_an_answered_question_and_an_unsubscribed_browser_need_no_push(
    tmp_path: Path,
) -> None:
    service, browser = PushService(tmp_path), PushBrowser()
    with service.running():
        async with pushing(tmp_path, service) as server:
            await subscribe(server, service, browser, "question", server.token)
            session = await add_session(server, question("first", "q1"))
            answer = {"subtype": "success", "request_id": "q1", "response": {"behavior": "deny"}}
            sent = {"type": "control_response", "uuid": str(uuid.uuid4()), "response": answer}
            path = f"/v1/code/sessions/{session}/events"
            await server.ask("POST", path, {"events": [{"payload": sent}]})
            await add_session(server, question("second"))
            _, _, body = await asyncio.to_thread(service.take)
            assert browser.open(body)["body"] == "second"
            # The push service says that the browser has unsubscribed.
            service.status = 410
            await add_session(server, question("third"))
            await asyncio.to_thread(service.take)
            async with asyncio.timeout(20):
                while (await server.ask("GET", PUSH))[1]["detail"]:  # noqa: ASYNC110 -- No event tells it.
                    await asyncio.sleep(0.05)
            await subscribe(server, service, browser, "none", server.token)
            assert (await server.ask("DELETE", PUSH))[0] == 204
            assert (await server.ask("GET", PUSH))[1]["detail"] == ""


async def test_only_push_services_on_the_internet_are_contacted(tmp_path: Path) -> None:
    service, browser = PushService(tmp_path), PushBrowser()
    good = {"endpoint": "https://push.example/x", "keys": browser.keys, "detail": "none"}
    port = service.place.rpartition(":")[2]
    with service.running():
        async with pushing(tmp_path, service) as server:
            for endpoint in (
                "http://push.example/x", "https://10.0.0.1/x", "https://127.0.0.1/x", "https://[::1]/x",
                "https://169.254.169.254/x", "https://user@push.example/x", "https:///x", "https://a:b/",
                "https://push.example/\n", "https://push.example/" + "x" * 2_000, 5,
            ):  # fmt: skip
                status, _ = await server.ask("PUT", PUSH, good | {"endpoint": endpoint})
                assert status == 400, endpoint
            wrongs: tuple[dict[str, Any], ...] = (
                {"detail": "all"},
                {"keys": {}},
                {"keys": browser.keys | {"auth": "AAAA"}},
                {"keys": browser.keys | {"p256dh": encode(b"\x04" + bytes(64))}},
                {"keys": browser.keys | {"p256dh": "*"}},
            )
            for wrong in wrongs:
                assert (await server.ask("PUT", PUSH, good | wrong))[0] == 400, wrong
            # A name that leads to this machine is found out when it is resolved.
            name = {"endpoint": f"https://localhost:{port}/x"}
            assert (await server.ask("PUT", PUSH, good | name))[0] == 200
            await add_session(server, question("first"))
            await server.add_device("second", "view")
            await subscribe(server, service, browser, "none", "second")
            await add_session(server, question("second"))
            path, _, _ = await asyncio.to_thread(service.take)
            while path != "/second":
                path, _, _ = await asyncio.to_thread(service.take)
            assert "/x" not in {entry[0] for entry in list(service.requests.queue)}


async def test_a_link_gets_no_pushes_and_a_server_without_them_says_so(tmp_path: Path) -> None:
    service, browser = PushService(tmp_path), PushBrowser()
    with service.running():
        async with pushing(tmp_path, service) as server:
            session = await add_session(server, said("hi"))
            share = {"name": "Ben", "scopes": ["view"], "hours": 1}
            path = f"/v1/web/sessions/{session}/shares"
            _, made = await server.ask("POST", path, share)
            body = {"endpoint": "https://push.example/", "keys": browser.keys, "detail": "none"}
            assert (await server.ask("PUT", PUSH, body, token=made["token"]))[0] == 403
    (tmp_path / "other").mkdir()
    async with served(tmp_path / "other") as server:
        assert (await server.ask("GET", PUSH))[0] == 404


@pytest.mark.parametrize("text", ["a", "a*bc", "é"])
def test_other_text_is_not_decoded(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(text)
