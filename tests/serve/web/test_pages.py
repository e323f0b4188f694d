"""The page's files and requests: what browsers may load, and what they are told of the log."""

import asyncio
import gzip
import json
import re
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from clew.record.exchange.pages import STYLE
from clew.serve.web.assets import POLICY, list_assets, strip
from clew.serve.web.lists import describe_question
from tests.serve.served import Served, served

# Ways of turning text into markup or code, and of leaving the server.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|"
    r"createContextualFragment|setHTML|javascript:|@import|\son[a-z]+=|style=|<script>"
)
COLOR = r"--([a-z-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)"
MOST_BYTES, MOST_SENT_BYTES = 170_000, 62_000


async def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    about = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=about)

    def ask() -> tuple[int, dict[str, str], bytes]:
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, dict(response.headers), response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    return await asyncio.to_thread(ask)


async def add_session(server: Served, *payloads: dict[str, Any], title: str = "one") -> str:
    """Make a session whose worker sent these payloads."""
    session = str(uuid.uuid4())
    base = f"/v1/code/sessions/{session}"
    body = {"session_id": session, "title": title, "config": {"cwd": "/work"}}
    assert (await server.ask("POST", "/v1/code/sessions", body))[0] == 200
    _, given = await server.ask("POST", f"{base}/bridge", {})
    events = [{"payload": payload} for payload in payloads]
    sent = {"worker_epoch": given["worker_epoch"], "events": events}
    status, _ = await server.ask("POST", f"{base}/worker/events", sent, token=given["worker_jwt"])
    assert status == 200
    return session


def said(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": str(uuid.uuid4()), "message": message}


def question(command: str, request_id: str = "q1") -> dict[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}}
    return {
        "type": "control_request",
        "uuid": str(uuid.uuid4()),
        "request_id": request_id,
        "request": request,
    }


def test_the_page_is_small_and_makes_no_markup_from_text() -> None:
    files = list_assets()
    assert sum(len(data) for data, _ in files.values()) <= MOST_BYTES
    assert sum(len(gzip.compress(data, 9)) for data, _ in files.values()) <= MOST_SENT_BYTES
    for name, (data, _) in files.items():
        if name.endswith((".js", ".html", ".css")):
            text = data.decode()
            assert not MARKUP.search(text), (name, MARKUP.search(text))
            links = set(re.findall(r"https?://[\w.]+", text))
            assert links <= {"http://www.w3.org"}, (name, links)
    for forbidden in ("unsafe-inline", "unsafe-eval", "*", "https:"):
        assert forbidden not in POLICY


async def test_the_files_are_confined_and_sent_once(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        status, headers, body = await get(server.url + "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        paths = re.findall(r'"(/web/[\w./-]+)"', body.decode())
        assert len(paths) > 8
        for path in paths:
            url, name = server.url + path, path.rpartition("/")[2]
            status, headers, _ = await get(url)
            assert status == 200, path
            # The path of a script or style contains a hash, so it is never requested again.
            is_kept = name.endswith((".js", ".css"))
            assert path.count("/") == (3 if is_kept else 2)
            assert ("immutable" in headers["cache-control"]) is is_kept
            assert (await get(url, **{"if-none-match": headers["etag"]}))[0] == 304
            _, packed, data = await get(url, **{"accept-encoding": "gzip"})
            assert packed.get("content-encoding") == "gzip"
            assert gzip.decompress(data) == list_assets()[name][0]
        # The path of another version is answered, but not kept.
        _, headers, _ = await get(f"{server.url}/web/0123456789abcdef/main.js")
        assert headers["cache-control"] == "no-cache"
        assert (await get(server.url + "/web/..%2fassets.py"))[0] == 404
        # Nothing that belongs to somebody is among the files.
        for path in ("/v1/web/me", "/v1/web/sessions", "/v1/web/stream", "/v1/web/search?q=ab"):
            assert (await get(server.url + path))[0] == 401
        foreign = {"origin": "https://evil.example", "authorization": f"Bearer {server.token}"}
        assert (await get(server.url + "/v1/web/sessions", **foreign))[0] == 403
        assert (await get(server.url + "/", host="evil.example"))[0] == 421


def test_scripts_lose_comments_and_indentation_but_no_line() -> None:
    source = (
        b"// One.\n\n/**\n * Two.\n */\nconst a = '// three'; // four\n\tcall(a);\n\t\t// Five.\n"
    )
    assert strip(source) == b"\n\n\n\n\nconst a = '// three'; // four\ncall(a);\n\n"


async def test_sessions_that_wait_come_first_and_say_for_what(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        waits = await add_session(server, said("hello"), question("rm -rf\n build"), title="old")
        idle = await add_session(server, said("hi"), title="new")
        await server.add_device("other", "view", owner="somebody")
        _, found = await server.ask("GET", "/v1/web/sessions")
        shown = [(s["session_id"], s["waiting"], s["asks"]) for s in found["data"]]
        assert shown == [(waits, 1, "rm -rf build"), (idle, 0, "")]
        assert (await server.ask("GET", "/v1/web/sessions", token="other"))[1]["data"] == []
        path = f"/v1/web/sessions/{waits}/events"
        assert (await server.ask("GET", path, token="other"))[0] == 404


async def test_history_is_read_from_the_end_without_a_gap(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        payloads = [said(f"line {number}") for number in range(50)]
        session = await add_session(server, question("ls"), *payloads)
        path = f"/v1/web/sessions/{session}/events"
        _, page = await server.ask("GET", f"{path}?limit=20")
        assert (page["last"], page["more"]) == (51, True)
        # The open question is far above, and still told at once.
        assert [q["payload"]["request_id"] for q in page["questions"]] == ["q1"]
        seen = [event["sequence_num"] for event in page["events"]]
        while page["more"]:
            _, page = await server.ask("GET", f"{path}?limit=20&before={page['first']}")
            seen = [event["sequence_num"] for event in page["events"]] + seen
        assert seen == list(range(1, 52))
        # A page of large events is cut short, but never empty.
        large = await add_session(server, *(said("x" * 300_000) for _ in range(3)))
        _, page = await server.ask("GET", f"/v1/web/sessions/{large}/events")
        assert [event["sequence_num"] for event in page["events"]] == [2, 3]


async def test_the_stream_tells_events_answers_and_the_list(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        session = await add_session(server, said("one"), question("ls"))
        await server.add_device("phone", "view", "answer")
        answer = {"subtype": "success", "request_id": "q1", "response": {"behavior": "deny"}}
        sent = {"type": "control_response", "uuid": str(uuid.uuid4()), "response": answer}
        events = {"events": [{"payload": sent}]}
        path = f"/v1/code/sessions/{session}/events"
        assert (await server.ask("POST", path, events, token="phone"))[0] == 200
        frames = await server.frames(f"/v1/web/stream?session={session}&after=1", 5)
        # The question was answered before, so it is not asked again.
        [told] = [frame for frame in frames if "payload" in frame]
        assert (told["sequence_num"], told["by"]) == (3, "phone")
        assert {"last": 3} in frames
        assert ["owner-token"] in frames
        [listed] = [
            frame for frame in frames if isinstance(frame, list) and frame[0] != "owner-token"
        ]
        assert listed[0]["session_id"] == session
        status, _ = await server.ask("GET", f"/v1/web/stream?session={uuid.uuid4()}")
        assert status == 404


async def test_a_growing_answer_is_passed_on_and_changes_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        session = await add_session(server, said("one"))
        base = f"/v1/code/sessions/{session}"
        _, given = await server.ask("POST", f"{base}/bridge", {})
        before = (await server.ask("GET", base))[1]["session"]

        async def send(words: str, epoch: object) -> int:
            delta = {"type": "stream_event", "uuid": "d", "event": {"text": words}}
            events = [{"payload": delta, "ephemeral": True}]
            body = {"worker_epoch": epoch, "events": events}
            path = f"{base}/worker/events"
            return (await server.ask("POST", path, body, token=given["worker_jwt"]))[0]

        # An event, what the page is told of the session, and two parts of an answer.
        path = f"/v1/web/stream?session={session}&after=0"
        reading = asyncio.create_task(server.frames(path, 7))
        while not reading.done():
            assert await send("part", given["worker_epoch"]) == 200
        frames = await reading
        kinds = ["payload" in f and f.get("event_type") for f in frames if isinstance(f, dict)]
        assert kinds.count("stream_event") >= 2
        # The page would draw everything again for each change of the session.
        told = [f for f in frames if isinstance(f, dict) and "updated_at" in f]
        assert len(told) == 1
        assert (await server.ask("GET", base))[1]["session"]["updated_at"] == before["updated_at"]
        # Another worker has taken over.
        assert await send("late", given["worker_epoch"] - 1) == 409


async def test_many_viewers_get_every_event_once_and_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        session = await add_session(server, *(said(f"line {n}") for n in range(300)))
        base = f"/v1/code/sessions/{session}"
        _, given = await server.ask("POST", f"{base}/bridge", {})
        # Some begin at the start, others where most of them already are.
        stream = f"/v1/web/stream?session={session}&after="
        places = [0, 0, 290, 300, 300, 300]
        reads = [asyncio.create_task(server.frames(f"{stream}{place}", 340)) for place in places]
        number = 0
        while not all(read.done() for read in reads):
            number += 1
            body = {"worker_epoch": given["worker_epoch"]}
            events = [{"payload": said(f"more {number}")}]
            path = f"{base}/worker/events"
            sent = body | {"events": events}
            status, _ = await server.ask("POST", path, sent, token=given["worker_jwt"])
            assert status == 200
        for place, read in zip(places, reads, strict=True):
            frames = [f for f in await read if isinstance(f, dict)]
            seen = [f["sequence_num"] for f in frames if "payload" in f]
            assert len(seen) > 30
            assert seen == list(range(place + 1, place + 1 + len(seen)))


async def test_words_are_found_in_prompts_answers_and_commands(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make 100%_ok"}}
        call = said("x") | {"message": {"role": "assistant", "content": [use]}}
        prompt = {"type": "user", "uuid": str(uuid.uuid4()), "message": {"content": "Ünïcode here"}}
        session = await add_session(server, said("the needle is here"), call, prompt)
        await server.add_device("other", "view", owner="somebody")
        for words, snippet in (
            ("NEEDLE", "the needle is here"),
            ("100%_ok", "make 100%_ok"),
            ("ünïcode", "Ünïcode here"),
        ):
            _, found = await server.ask("GET", f"/v1/web/search?q={quote(words)}")
            assert [(hit["session_id"], hit["snippet"]) for hit in found["data"]] == [
                (session, snippet)
            ], words
        # Names of members are not text, and neither is somebody else's session.
        assert (await server.ask("GET", "/v1/web/search?q=tool_use"))[1]["data"] == []
        assert (await server.ask("GET", "/v1/web/search?q=needle", token="other"))[1]["data"] == []
        assert (await server.ask("GET", "/v1/web/search?q=x"))[0] == 400


def quote(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


# The names of the exported page for the tokens of the page in the browser.
EXPORTED = {"mine": "accent-wash", "box": "sunk", "link": "accent", "new": "good"}


def test_a_question_is_named_by_what_it_is_about() -> None:
    def name(tool: str, **given: Any) -> str:
        return describe_question(
            json.dumps({"request": {"tool_name": tool, "input": given}}).encode()
        )

    assert name("Bash", command="make\n test") == "make test"
    assert name("AskUserQuestion", questions=[{"question": "Which?"}]) == "Which?"
    assert name("AskUserQuestion", questions=[]) == "AskUserQuestion"
    assert name("mcp__x__y", body=1) == "mcp__x__y"


def test_the_exported_page_has_the_same_colors() -> None:
    text = list_assets()["tokens.css"][0].decode()
    tokens = {name: pair for name, *pair in re.findall(COLOR, text)}
    light, dark = STYLE.split("@media(prefers-color-scheme:dark)")
    for number, part in enumerate((light, dark.split("}}")[0])):
        named = re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", part)
        assert len(named) > 10
        for name, value in named:
            assert tokens[EXPORTED.get(name, name)][number] == value, name
