"""The server over HTTP: transcripts, streams, scopes, and requests that it refuses."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew.record.stores.base import HttpStore, TranscriptKey
from clew.serve import devices
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.conform_store import CASES
from tests.requirements import requirement
from tests.serve.served import Served, served

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
CODE = "/v1/code/sessions/cse_" + SESSION.replace("-", "")
PROMPT = {"type": "user", "uuid": "p1", "message": {"role": "user", "content": "hi"}}
QUESTION = {
    "type": "control_request",
    "uuid": "c1",
    "request_id": "q1",
    "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}},
}


def answer_to(request: str, name: str) -> dict[str, object]:
    response = {"subtype": "success", "request_id": request, "response": {"behavior": "allow"}}
    return {"type": "control_response", "uuid": name, "response": response}


def failure_of(request: str, name: str) -> dict[str, object]:
    response = {"subtype": "error", "request_id": request, "error": "no callback"}
    return {"type": "control_response", "uuid": name, "response": response}


async def status_by_name(server: Served, host: str, path: str) -> int:
    """Return the status for a request that addresses the server by another name (DNS rebinding)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[-1]))
    about = f"host: {host}\r\nauthorization: Bearer {server.token}\r\nconnection: close"
    writer.write(f"GET {path} HTTP/1.1\r\n{about}\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def begin(server: Served) -> tuple[str, int]:
    """Create a session and return a worker's token and epoch."""
    body = {"title": "t", "session_id": SESSION}
    assert (await server.ask("POST", "/v1/code/sessions", body))[0] == 200
    status, given = await server.ask("POST", f"{CODE}/bridge", {})
    assert status == 200
    return given["worker_jwt"], given["worker_epoch"]


@pytest.mark.parametrize("case", CASES)
async def test_a_session_store_at_the_server_conforms(tmp_path: Path, case: str) -> None:
    async with served(tmp_path) as server:
        transport = HttpTransport(Network())
        store = HttpStore(f"{server.url}/v1", transport, token=server.token)
        await CASES[case](store)
        key = TranscriptKey(session_id=SESSION)
        assert await store.append(key, [], at=0) >= 0
        await transport.aclose()


async def test_the_first_answer_wins_and_the_second_learns_whose_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        await server.add_device("phone", "view", "answer")
        upload = {"worker_epoch": epoch, "events": [{"payload": QUESTION}]}
        for _ in range(2):  # the answer to the first upload was lost
            status, stored = await server.ask("POST", f"{CODE}/worker/events", upload, token=token)
            assert status == 200
        assert stored["results"] == [{"event_id": "c1", "duplicate": True}]
        first = {"events": [{"payload": answer_to("q1", "a1")}]}
        second = {"events": [{"payload": answer_to("q1", "a2")}]}
        unasked = {"events": [{"payload": answer_to("q2", "a3")}]}
        _, one = await server.ask("POST", f"{CODE}/events", first, token="phone")
        _, two = await server.ask("POST", f"{CODE}/events", second)
        _, three = await server.ask("POST", f"{CODE}/events", unasked)
        assert [found["results"][0].get("answered_by") for found in (one, two, three)] == [
            None,
            "phone",
            "no such question",
        ]
        [inbound] = await server.frames(
            f"{CODE}/worker/events/stream", 1, authorization=f"Bearer {token}"
        )
        assert inbound["payload"]["uuid"] == "a1"
        # A viewer that joins later is not asked again.
        [seen] = await server.frames(f"{CODE}/events/stream", 1)
        assert seen["sequence_num"] == 2


async def test_a_viewer_that_cannot_answer_leaves_the_question_to_others(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        await server.add_device("mute", "view", "answer")
        upload = {"worker_epoch": epoch, "events": [{"payload": QUESTION}]}
        await server.ask("POST", f"{CODE}/worker/events", upload, token=token)

        async def send(frame: dict[str, object], by: str) -> object:
            body = {"events": [{"payload": frame}]}
            _, said = await server.ask("POST", f"{CODE}/events", body, token=by)
            return said["results"][0].get("answered_by")

        assert await send(failure_of("q1", "f1"), "mute") is None
        assert await send(failure_of("q2", "f2"), "mute") == "no such question"
        # A viewer that comes now is asked, and its answer counts.
        [seen] = await server.frames(f"{CODE}/events/stream", 1)
        assert seen["payload"]["uuid"] == "c1"
        assert await send(answer_to("q1", "a1"), server.token) is None
        assert await send(failure_of("q1", "f3"), "mute") == "owner-token"
        inbound = await server.frames(
            f"{CODE}/worker/events/stream", 2, authorization=f"Bearer {token}"
        )
        assert [frame["payload"]["uuid"] for frame in inbound] == ["f1", "a1"]


@requirement("R289")
async def test_a_stream_continues_after_the_number_that_a_reader_has(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        events = [{"payload": {"type": "assistant", "uuid": f"e{n}"}} for n in range(450)]
        upload = {"worker_epoch": epoch, "events": events}
        await server.ask("POST", f"{CODE}/worker/events", upload, token=token)
        all_frames = await server.frames(f"{CODE}/events/stream", 450)
        assert [frame["sequence_num"] for frame in all_frames] == list(range(1, 451))
        rest = await server.frames(f"{CODE}/events/stream", 2, last_event_id="448")
        assert [frame["event_id"] for frame in rest] == ["e448", "e449"]
        async with asyncio.TaskGroup() as group:
            live = group.create_task(
                server.frames(f"{CODE}/events/stream?from_sequence_num=450", 2)
            )
            has_viewer = False
            delta = {"payload": {"type": "stream_event", "uuid": "d"}, "ephemeral": True}
            while not has_viewer:  # until the stream is open
                body = {"worker_epoch": epoch, "events": [delta]}
                _, said = await server.ask("POST", f"{CODE}/worker/events", body, token=token)
                has_viewer = said["has_subscribers"]
            await server.ask("POST", f"{CODE}/events", {"events": [{"payload": PROMPT}]})
        kinds = {frame["payload"]["type"] for frame in live.result()}
        assert kinds <= {"stream_event", "user"}


async def test_a_replaced_worker_is_refused_everywhere(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        old, epoch = await begin(server)
        new, _ = await begin(server)
        worker = f"{CODE}/worker"
        for method, path, body in (
            ("PUT", worker, {"worker_status": "running"}),
            ("POST", f"{worker}/heartbeat", {}),
            ("POST", f"{worker}/events", {"events": [{"payload": {"type": "assistant"}}]}),
            ("POST", f"{worker}/events/delivery", {"updates": []}),
            ("GET", f"{worker}/events/stream", None),
        ):
            told = None if body is None else body | {"worker_epoch": epoch}
            status, said = await server.ask(method, path, told, token=old)
            assert (status, said["error"]["reason"]) == (409, "superseded_by_worker"), path
        status, _ = await server.ask(
            "POST", f"/v1/entries?session={SESSION}&at=0", b"{}\n", clew_epoch=str(epoch)
        )
        assert status == 409
        patch = {"worker_epoch": epoch + 1, "external_metadata": {"branch": "main", "x": None}}
        assert (await server.ask("PUT", worker, patch, token=new))[0] == 200
        _, shown = await server.ask("GET", CODE)
        assert shown["session"]["external_metadata"] == {"branch": "main"}
        assert shown["session"]["connection_status"] == "connected"
        status, _ = await server.ask("POST", f"{CODE}/bridge", {"expected_epoch": epoch})
        assert status == 409


async def test_owners_share_nothing(tmp_path: Path) -> None:
    entries = f"/v1/entries?project=p&session={SESSION}"
    async with served(tmp_path) as server:
        await server.add_device("eve", *devices.SCOPES, owner="eve")
        token, _ = await begin(server)
        await server.ask("POST", f"/v1/entries?session={SESSION}&at=0", b'{"uuid":"1"}\n')
        await server.ask("POST", entries, b'{"uuid":"1"}\n')
        prompt = {"events": [{"payload": PROMPT}]}
        for method, path, body in (
            ("GET", CODE, None),
            ("POST", f"{CODE}/bridge", {}),
            ("POST", f"{CODE}/events", prompt),
            ("GET", f"{CODE}/events/stream", None),
            ("POST", "/v1/code/sessions", {"session_id": SESSION}),
            ("GET", f"/v1/entries?session={SESSION}", None),
            ("GET", entries, None),
        ):
            assert (await server.ask(method, path, body, token="eve"))[0] == 404, path
        for path in ("/v1/entries/keys", "/v1/entries/keys?project=p"):
            assert await server.ask("GET", path, token="eve") == (200, [])
        assert (await server.ask("GET", "/v1/code/sessions", token="eve"))[1] == {"data": []}
        await server.ask("DELETE", entries, token="eve")
        await server.ask(
            "POST", f"/v1/entries?session={SESSION}&at=0", b'{"uuid":"2"}\n', token="eve"
        )
        assert (await server.ask("GET", entries))[0] == 200
        assert (await server.ask("GET", f"/v1/entries?session={SESSION}"))[1] == {"uuid": "1"}
        # A worker's token is worth as much as the device that asked for it.
        await server.revoke("owner-token")
        assert (await server.ask("GET", f"{CODE}/worker", token=token))[0] == 401


async def test_another_frame_under_a_known_uuid_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        token, epoch = await begin(server)
        prompts = {"events": [{"payload": PROMPT}]}
        other = {"events": [{"payload": PROMPT | {"message": {"role": "user", "content": "x"}}}]}
        assert (await server.ask("POST", f"{CODE}/events", prompts))[0] == 200
        again = dict(reversed(PROMPT.items()))  # the same frame, written in another order
        _, stored = await server.ask("POST", f"{CODE}/events", {"events": [{"payload": again}]})
        assert stored["results"] == [{"event_id": "p1", "duplicate": True}]
        status, said = await server.ask("POST", f"{CODE}/events", other)
        assert (status, said["error"]["event_id"]) == (422, "p1")
        # A worker echoes a viewer's prompt in its own form, but never changes what it said.
        echo = {"payload": PROMPT | {"isReplay": True}}
        said_once = {"payload": {"type": "assistant", "uuid": "a1"}}
        changed = {"payload": {"type": "assistant", "uuid": "a1", "message": {}}}
        new = {"payload": {"type": "assistant", "uuid": "a2"}}
        statuses = [
            (
                await server.ask(
                    "POST",
                    f"{CODE}/worker/events",
                    {"worker_epoch": epoch, "events": events},
                    token=token,
                )
            )[0]
            for events in ([echo, said_once], [new, changed])
        ]
        assert statuses == [200, 422]
        assert (await server.ask("GET", CODE))[1]["session"]["last_sequence_num"] == 2


async def test_a_slow_request_head_ends_its_connection(tmp_path: Path) -> None:
    async with served(tmp_path, head_s=0.05) as server:
        port = int(server.url.split(":")[-1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
        # A stream that is answered outlives the limit, and so does the next request.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert b"200" in await reader.readline()
            while (await reader.readline()).strip():
                pass
            await reader.readexactly(len(b'{"status":"ok"}'))
        writer.close()


def test_the_program_serves_and_manages_devices(tmp_path: Path) -> None:
    def clew(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "clew", "serve", *words],
            env={"CLAUDE_CONFIG_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    server = clew("--listen", "127.0.0.1:0")
    assert server.stdout is not None
    assert "owner" in server.stdout.readline()
    assert server.stdout.readline().startswith("listening on http://127.0.0.1:")
    said, _ = clew("add", "phone", "--scopes", "view").communicate(timeout=60)
    assert len(said.split()[-1]) > 40
    listed, _ = clew("devices").communicate(timeout=60)
    assert [line.split()[1:] for line in listed.splitlines()] == [
        ["owner", "view,answer,prompt,start,admin"],
        ["phone", "view"],
    ]
    clew("revoke", listed.splitlines()[1].split()[0]).communicate(timeout=60)
    assert len(clew("devices").communicate(timeout=60)[0].splitlines()) == 1
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    refused = clew("--listen", "0.0.0.0:0")
    assert "--tls" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 1
    assert (tmp_path / "clew" / "serve.db").stat().st_mode & 0o777 == 0o600
