"""Links to one session: what they open, until when, and that nothing else opens with them."""

import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew.serve.sqlite import SqliteDatabase
from tests.serve.served import Served, served
from tests.serve.web.test_pages import add_session, question, said


async def share(server: Served, session: str, *scopes: str, **more: Any) -> Any:
    body = {"name": "Ben", "scopes": scopes or ["view"], "hours": 1} | more
    status, made = await server.ask("POST", f"/v1/web/sessions/{session}/shares", body)
    assert status == 200, made
    return made


def answer(behavior: str) -> dict[str, Any]:
    response = {"subtype": "success", "request_id": "q1", "response": {"behavior": behavior}}
    return {"type": "control_response", "uuid": str(uuid.uuid4()), "response": response}


async def test_a_link_opens_its_session_as_far_as_it_says_and_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        session = await add_session(server, said("one"), question("ls"))
        other = await add_session(server, said("two"), title="other")
        made = await share(server, session, "view", "answer", note="Please look at the tests.")
        guest = made["token"]
        _, me = await server.ask("GET", "/v1/web/me", token=guest)
        assert (me["name"], me["scopes"], me["session"]) == ("Ben", ["answer", "view"], session)
        _, listed = await server.ask("GET", "/v1/web/sessions", token=guest)
        assert [one["session_id"] for one in listed["data"]] == [session]
        _, page = await server.ask("GET", f"/v1/web/sessions/{session}/events", token=guest)
        notice = page["events"][-1]["payload"]["content"]
        assert notice == (
            "owner-token shared this session with Ben (view, answer): Please look at the tests."
        )
        send = f"/v1/code/sessions/{session}/events"
        prompt = {"type": "user", "uuid": str(uuid.uuid4()), "message": {"content": "hi"}}
        refused, _ = await server.ask("POST", send, {"events": [{"payload": prompt}]}, token=guest)
        assert refused == 403
        sent = {"events": [{"payload": answer("deny")}]}
        assert (await server.ask("POST", send, sent, token=guest))[0] == 200
        # The log says who it was.
        _, page = await server.ask("GET", f"/v1/web/sessions/{session}/events")
        assert page["events"][-1]["by"] == "Ben"
        for method, path in (
            ("GET", f"/v1/web/sessions/{other}/events"),
            ("GET", f"/v1/web/stream?session={other}"),
            ("GET", "/v1/web/search?q=two"),
            ("GET", "/v1/code/sessions"),
            ("GET", f"/v1/code/sessions/{other}"),
            ("POST", f"/v1/code/sessions/{session}/bridge"),
            ("GET", "/v1/entries/keys"),
            ("GET", f"/v1/blobs/{'0' * 64}"),
            ("POST", f"/v1/web/sessions/{session}/shares"),
            ("DELETE", f"/v1/web/sessions/{session}/shares/{made['id']}"),
            ("POST", "/v1/pairings"),
        ):
            status, _ = await server.ask(method, path, {}, token=guest)
            assert status in (400, 403), (method, path, status)


async def test_a_link_ends_when_it_expires_or_is_taken_back(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "shares.db")
    async with served(tmp_path, database) as server:
        session = await add_session(server, said("one"))
        first, second = [await share(server, session) for _ in range(2)]
        path = f"/v1/web/sessions/{session}/shares"
        _, listed = await server.ask("GET", path)
        assert {one["id"] for one in listed["data"]} == {first["id"], second["id"]}
        assert (await server.ask("DELETE", f"{path}/{first['id']}"))[0] == 204
        assert (await server.ask("DELETE", f"{path}/{first['id']}"))[0] == 404
        assert (await server.ask("GET", "/v1/web/me", token=first["token"]))[0] == 401
        assert (await server.ask("GET", "/v1/web/me", token=second["token"]))[0] == 200
        expire = partial(lambda t, name: t.run("UPDATE share SET expires_at=1 WHERE id=?", name))
        await database.write(partial(expire, name=second["id"]))
        assert (await server.ask("GET", "/v1/web/me", token=second["token"]))[0] == 401
        assert (await server.ask("GET", path))[1]["data"] == []
        _, page = await server.ask("GET", f"/v1/web/sessions/{session}/events")
        assert "revoked the link shared with Ben" in page["events"][-1]["payload"]["content"]


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": ["answer"]},
        {"scopes": ["view", "admin"]},
        {"scopes": "view"},
        {"hours": 0},
        {"hours": 10_000},
        {"hours": True},
        {"name": " "},
        {"name": "x" * 61},
    ],
)
async def test_a_link_that_allows_too_much_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    async with served(tmp_path) as server:
        session = await add_session(server, said("one"))
        whole = {"name": "Ben", "scopes": ["view"], "hours": 1} | body
        path = f"/v1/web/sessions/{session}/shares"
        assert (await server.ask("POST", path, whole))[0] == 400
        # Nobody gives away what they don't have.
        await server.add_device("watcher", "view")
        wider = {"name": "Ben", "scopes": ["view", "prompt"], "hours": 1}
        assert (await server.ask("POST", path, wider, token="watcher"))[0] == 403
