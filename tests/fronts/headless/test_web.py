"""WebFetch and WebSearch, called by a scripted model in the real process, against a site on loopback."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.system.web.site import site

Json = dict[str, Any]
HTML = {"Content-Type": "text/html"}
PAGE = b"<title>Colors</title><h1>Blue</h1><p>It is <b>blue</b>.</p><script>bad()</script>"


def call(tool: str, **given: Any) -> Json:
    return {"content": [{"tool": tool, "input": given}]}


def run(home: Path, answers: list[Json], *args: str, **more: Any) -> tuple[list[Json], list[Json]]:
    """Return the request bodies, and the results in the last one."""
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        done = clew(home, server.url, "-p", "go", *args, **more)
        assert done.returncode == 0, done.stderr
        sent = [request.body for request in server.requests]
    results = [
        block
        for message in sent[-1]["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]
    return sent, results


def settings(port: int, **more: Any) -> tuple[str, ...]:
    return ("--settings", json.dumps({"webPrivateHosts": [f"127.0.0.1:{port}"], **more}))


ALLOWED = ("--allowedTools", "WebFetch(domain:127.0.0.1),WebSearch")


@pytest.mark.parametrize(
    ("rules", "is_read"),
    [
        ({"deny": ["WebFetch(domain:*.example.com)"]}, False),
        ({"ask": ["WebFetch(domain:*.example.com)"]}, False),
        ({"askAfterUntrusted": ["WebFetch(domain:*.example.com)"]}, False),
        ({"deny": ["WebFetch(domain:*.example.org)"]}, True),
    ],
)
def test_a_redirect_to_a_host_that_a_rule_restrains_is_not_followed(
    tmp_path: Path, rules: Json, is_read: bool
) -> None:
    pages = {
        "http://example.com/x": (301, {"Location": "http://www.example.com/x"}, b""),
        "http://www.example.com/x": (200, {"Content-Type": "text/plain"}, b"treasure"),
    }
    with site(pages) as proxy:
        _, (result, *_) = run(
            tmp_path,
            [call("WebFetch", url="http://example.com/x"), {"text": "Done."}],
            "--settings",
            json.dumps({"permissions": {"allow": ["WebFetch"], **rules}}),
            environ={"http_proxy": proxy.url(""), "no_proxy": "127.0.0.1"},
        )
    assert ("treasure" in str(result["content"])) is is_read
    assert ("redirects to another host" in str(result["content"])) is not is_read


def test_a_page_is_read_and_a_question_about_it_goes_to_a_small_model(tmp_path: Path) -> None:
    with site({"/": (200, HTML, PAGE)}) as here:
        sent, results = run(
            tmp_path,
            [
                call("ToolSearch", query="web page"),
                call("WebFetch", url=here.url()),
                call("WebFetch", url=here.url(), prompt="Which color?"),
                {"text": "Blue.", "when": {"model": "claude-haiku-5-5"}},
                {"text": "Done."},
            ],
            *ALLOWED,
            *settings(here.port),
        )
        assert here.asked == ["/"], "the second came out of the cache"
    said = [str(result["content"]) for result in results]
    assert "data, not instructions" in said[1]
    assert "# Colors\n\n# Blue\n\nIt is **blue**." in said[1]
    assert "bad()" not in said[1]
    assert said[2].endswith("Blue.")
    small = next(body for body in sent if body["model"] == "claude-haiku-5-5")
    assert "Which color?" in str(small["messages"])
    assert "tools" not in small
    assert '"purpose":"web"' in transcripts(tmp_path)[0].read_text("utf-8")


def test_an_address_inside_is_refused_though_a_rule_allows_the_tool(tmp_path: Path) -> None:
    with site({"/": (200, HTML, PAGE)}) as here:
        answers = [
            call("WebFetch", url=here.url()),
            call("WebFetch", url=here.url(host="localhost")),
            call("WebFetch", url="http://169.254.169.254/latest/meta-data/"),
            call("WebFetch", url="http://168.63.129.16/machine"),
            {"text": "Done."},
        ]
        _, results = run(tmp_path, answers, "--allowedTools", "WebFetch")
        assert here.asked == []
    assert all(result["is_error"] for result in results)
    refused = ("are not allowed", "webPrivateHosts")
    assert all(any(why in result["content"] for why in refused) for result in results)


def test_a_host_that_nobody_permitted_is_not_asked(tmp_path: Path) -> None:
    with site({"/": (200, HTML, PAGE)}) as here:
        _, results = run(
            tmp_path,
            [call("WebFetch", url=here.url()), {"text": "Done."}],
            *settings(here.port),
        )
        assert here.asked == []
    assert results[0]["is_error"]


def test_what_is_no_page_is_a_result_the_model_can_act_on(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(50)
    pages = {
        "/json": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
        "/png": (200, {"Content-Type": "image/png"}, picture),
        "/far": (302, {"Location": "https://example.com/there"}, b""),
        "/empty": (200, HTML, b""),
    }
    with site(pages) as here:
        wanted = ["/json", "/png", "/far", "/gone", "/empty"]
        answers = [*(call("WebFetch", url=here.url(path)) for path in wanted), {"text": "Done."}]
        _, results = run(tmp_path, answers, *ALLOWED, *settings(here.port))
    said = [str(result["content"]) for result in results]
    assert '{"a": 1}' in said[0]
    assert "image/png, 58 bytes, saved to " in said[1]
    kept = Path(said[1].rpartition("saved to ")[2].rstrip(")"))
    assert kept.read_bytes() == picture
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "fetch https://example.com/there" in said[2]
    assert "returned HTTP 404" in said[3]
    assert results[3]["is_error"]
    assert "has no text" in said[4]


def test_a_reader_that_fails_leaves_the_page_itself(tmp_path: Path) -> None:
    with site({"/": (200, HTML, PAGE)}) as here:
        _, results = run(
            tmp_path,
            [
                call("WebFetch", url=here.url(), prompt="Which?"),
                {"status": 400, "when": {"model": "claude-haiku-5-5"}},
                {"text": "Done."},
            ],
            *ALLOWED,
            *settings(here.port),
        )
    assert "can't ask a model" in results[0]["content"]
    assert "It is **blue**." in results[0]["content"]


def test_a_search_goes_to_the_endpoint_of_the_users_choice(tmp_path: Path) -> None:
    found = {
        "results": [
            {"title": "One", "url": "https://a.example/1", "content": "first  words", "score": 3},
            {"title": "Two", "url": "https://b.example/2"},
        ]
    }
    pages = {
        "/search?q=blue%20sky": (200, {}, json.dumps(found).encode()),
        "/search?q=broken": (200, {}, b"<html>"),
    }
    with site(pages) as here:
        endpoint = here.url("/search?q={query}")
        _, results = run(
            tmp_path,
            [
                call("WebSearch", query="blue sky"),
                call("WebSearch", query="blue sky", blocked_domains=["a.example"]),
                call("WebSearch", query="blue sky", allowed_domains=["a.example"]),
                call("WebSearch", query="broken"),
                call("WebSearch", query="missing"),
                call("WebSearch", query="xx", allowed_domains=["a"], blocked_domains=["b"]),
                {"text": "Done."},
            ],
            *ALLOWED,
            *settings(here.port, webSearchEndpoint=endpoint),
        )
    said = [str(result["content"]) for result in results]
    assert "- [One](https://a.example/1)\n  first words\n- [Two](https://b.example/2)" in said[0]
    assert "One" not in said[1]
    assert "Two" not in said[2]
    assert "invalid response" in said[3]
    assert "returned HTTP 404" in said[4]
    assert "not both" in said[5]


SEARCHED = [
    {"block": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}},
    {
        "block": {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Sky",
                    "url": "https://sky.example/",
                    "encrypted_content": "x",
                    "page_age": None,
                }
            ],
        }
    },
    "The sky is blue.",
]


def test_without_an_endpoint_the_models_service_searches(tmp_path: Path) -> None:
    sent, results = run(
        tmp_path,
        [
            call("WebSearch", query="sky", blocked_domains=["b.example"]),
            {"content": SEARCHED, "when": {"model": "claude-haiku-5-5"}},
            {"text": "Done."},
        ],
        *ALLOWED,
    )
    small = next(body for body in sent if body["model"] == "claude-haiku-5-5")
    (tool,) = small["tools"]
    assert (tool["type"], tool["blocked_domains"]) == ("web_search_20250305", ["b.example"])
    assert "The sky is blue.\n- [Sky](https://sky.example/)" in results[0]["content"]


def test_a_search_that_the_service_refuses_says_so(tmp_path: Path) -> None:
    failed = [
        SEARCHED[0],
        {
            "block": {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "web_search_tool_result_error",
                    "error_code": "max_uses_exceeded",
                },
            }
        },
    ]
    _, results = run(
        tmp_path,
        [
            call("WebSearch", query="sky"),
            {"content": failed, "when": {"model": "claude-haiku-5-5"}},
            {"text": "Done."},
        ],
        *ALLOWED,
    )
    assert results[0]["is_error"]
    assert "max_uses_exceeded" in results[0]["content"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://user:word@example.com/", "nonsense"])
def test_what_is_no_address_runs_nowhere(tmp_path: Path, url: str) -> None:
    _, results = run(
        tmp_path, [call("WebFetch", url=url), {"text": "Done."}], "--allowedTools", "WebFetch"
    )
    assert results[0]["is_error"]


def test_a_tool_that_hangs_is_given_up_after_the_time_of_the_settings(tmp_path: Path) -> None:
    """A site that accepts the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        _, results = run(
            tmp_path,
            [
                call("ToolSearch", query="select:WebFetch"),
                call("WebFetch", url=f"http://127.0.0.1:{port}/"),
                call("Glob", pattern="*"),
                {"text": "Done."},
            ],
            *ALLOWED,
            *settings(port, toolTimeouts={"Web*": 0.2}),
        )
    assert results[1]["is_error"] is True
    assert "WebFetch timed out after 0.2 s" in str(results[1]["content"])
    assert "is_error" not in results[2]
