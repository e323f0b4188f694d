"""Servers at URLs: what each request contains, and what follows every odd response."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.parts.mcp.http import in_header, within
from clew.parts.mcp.line import CannotReachError
from tests.parts.mcp.web_server import Web, event, reply, web
from tests.parts.mcp.yard import yard
from tests.requirements import requirement


@requirement("W26")
async def test_a_session_is_named_in_every_request_and_ended(tmp_path: Path) -> None:
    with web() as there:
        async with yard(
            tmp_path, {"one": {"url": there.url, "headers": {"X-Own": "mine"}}}
        ) as here:
            assert (await here.use("mcp__one__go")).content == "gone"
        # The stream that is listened to is asked for beside these, at any moment.
        methods = [method for method in there.methods() if method != "GET"]
        assert methods[:3] == [
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/list",
        ]
        assert methods[-1] == "DELETE"
        for verb, headers, message in there.seen:
            assert headers["x-own"] == "mine"
            if message.get("method") != "initialize":
                assert headers["mcp-session-id"] == "session-1", (verb, message)
                assert headers["mcp-protocol-version"] == "2025-11-25"


async def test_a_session_the_server_forgot_is_begun_again(tmp_path: Path) -> None:
    forgot: list[bool] = []

    def act(there: Web, message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/call" and not forgot:
            forgot.append(True)
            return 404, "text/plain", b"no session", {}
        return None

    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url}}) as here:
            lost = await here.use("mcp__one__go")
            assert "no longer knows the session" in str(lost.content)
            assert (await here.use("mcp__one__go")).content == "gone"
            assert there.sessions == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, "text/html", b"<h1>oops</h1>", {}), "status 500"),
        ((302, "", b"", {"Location": "https://evil.example/"}), "redirects to https://evil.example/"),
        ((202, "", b"", {}), "without a response"),
        ((200, "application/json", b"{", {}), "invalid response"),
        ((200, "text/event-stream", b"data: {\n\n", {}), "invalid response"),
        ((200, "text/event-stream", b": nothing\n\n", {}), "cut off"),
        (
            (400, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-5,"message":"bad"}}', {}),
            "bad (-5)",
        ),
        ((200, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-6,"message":"x"}}', {}), "x (-6)"),
    ],
)  # fmt: skip
async def test_odd_answers_end_the_call_and_nothing_else(
    tmp_path: Path, answer: Any, words: str
) -> None:
    def act(_: Web, message: dict[str, Any]) -> Any:
        odd = message.get("method") == "tools/call" and not message["params"]["arguments"]
        return answer if odd else None

    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url}}) as here:
            result = await here.use("mcp__one__go")
            assert result.is_error
            assert words in str(result.content)
            assert (await here.use("mcp__one__go", fine=1)).content == "gone"
            assert "evil" not in "".join(there.methods())


async def test_a_stream_that_breaks_off_is_continued(tmp_path: Path) -> None:
    waiting: list[dict[str, Any]] = []

    def act(_: Web, message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/call":
            waiting.append(message)
            return 200, "text/event-stream", b"id: 7\nretry: 10\ndata:\n\n", {}
        # The stream that is listened to is asked for at any moment, and after nothing.
        if message["verb"] == "GET" and message["after"] == "7":
            said = event(waiting[0], {"content": [{"type": "text", "text": "late"}]}, identity="8")
            return 200, "text/event-stream", said, {}
        return None

    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url}}) as here:
            assert (await here.use("mcp__one__go")).content == "late"


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_is_not_there_is_tried_again(tmp_path: Path, kind: str) -> None:
    value = {"type": kind, "url": "http://127.0.0.1:9/mcp"}
    async with yard(tmp_path, {"one": value}, settle=False) as here:
        await here.until("waiting")
        assert "cannot connect" in here.server().problem


async def test_the_stateless_era_says_all_in_each_request(tmp_path: Path) -> None:
    def act(_: Web, message: dict[str, Any]) -> Any:
        method = message.get("method")
        if method == "initialize":
            data = {"supported": ["2026-07-28"]}
            error = {"code": -32022, "message": "old", "data": data}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
            return 400, "application/json", body, {}
        if method == "server/discover":
            return reply(
                message, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            )
        if method == "tools/list":
            schema = {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            }}  # fmt: skip
            return reply(message, {"tools": [{"name": "gö", "inputSchema": schema}]})
        if method == "tools/call" and "inputResponses" not in message["params"]:
            asked = {"root": {"method": "roots/list"}}
            return reply(
                message,
                {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"},
            )
        if method == "tools/call":
            assert message["params"]["requestState"] == "s1"
            assert message["params"]["inputResponses"]["root"]["roots"]
            return reply(message, {"resultType": "complete", "content": []})
        return None

    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url}}) as here:
            server = here.server()
            assert server.agreement is not None, server.problem
            assert server.agreement.era == "stateless"
            done = await here.use("mcp__one__g_", region="west", deep={"on": True})
            assert not done.is_error, done.content
        (headers, message) = next(
            (h, m) for _, h, m in there.seen if m.get("method") == "tools/call"
        )
        assert headers["mcp-method"] == "tools/call"
        assert headers["mcp-name"] == in_header("gö")
        assert headers["mcp-param-region"] == "west"
        assert headers["mcp-param-on"] == "true"
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "clew"
        assert "mcp-session-id" not in headers
        assert "DELETE" not in there.methods()


async def test_a_server_that_asks_back_without_end_is_given_up(tmp_path: Path) -> None:
    def act(_: Web, message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/call":
            asked = {"a": {"method": "ping"}}
            return reply(message, {"resultType": "input_required", "inputRequests": asked})
        return None

    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url}}) as here:
            assert "asked for input 10 times" in str((await here.use("mcp__one__go")).content)


async def test_a_helper_prints_headers_and_is_asked_again_when_they_are_turned_down(
    tmp_path: Path,
) -> None:
    counter = tmp_path / "count"
    counter.write_text("0", "utf-8")
    program = (
        "import pathlib, json; p = pathlib.Path('count'); n = int(p.read_text()) + 1;"
        "p.write_text(str(n)); print(json.dumps({'X-Key': f'key-{n}'}))"
    )

    def act(there: Web, _: dict[str, Any]) -> Any:
        good = there.seen[-1][1].get("x-key") == "key-2"
        return None if good else (401, "", b"", {})

    helper = f'{sys.executable} -c "{program}"'
    with web(act) as there:
        async with yard(tmp_path, {"one": {"url": there.url, "headersHelper": helper}}) as here:
            assert (await here.use("mcp__one__go")).content == "gone"
        assert counter.read_text("utf-8") == "2"


async def test_a_helper_that_fails_ends_nothing_but_the_server(tmp_path: Path) -> None:
    with web() as there:
        entries = {"one": {"url": there.url, "headersHelper": "echo nonsense; exit 1"}}
        async with yard(tmp_path, entries, settle=False) as here:
            await here.until("waiting")
            assert "headersHelper" in here.server().problem


def test_what_a_header_cannot_carry_is_marked() -> None:
    assert in_header("plain") == "plain"
    assert in_header("ö") == "=?base64?w7Y=?="
    assert in_header(" a") == "=?base64?IGE=?="
    assert in_header("=?base64?x?=").startswith("=?base64?PT9")


def test_messages_go_to_the_servers_own_origin_alone() -> None:
    assert within("https://x/sse", "/messages?a=1") == "https://x/messages?a=1"
    assert within("https://x/sse", "https://x/m") == "https://x/m"
    for given in ("https://evil/m", "http://x/m", "nonsense"):
        with pytest.raises(CannotReachError):
            within("https://x/sse", given)
