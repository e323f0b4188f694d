"""Requirements about a session's state, counts and limits, checked in what a host receives."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.agent.tools.pictures import png
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_records import UUID
from tests.fronts.headless.test_request_records import answer, call, result
from tests.fronts.headless.test_told_records import FINE, SESSION, left, said
from tests.requirements import requirement

Json = dict[str, Any]
# $3 and $15 for a million tokens; a read costs a tenth of the input, a write a quarter more.
MODEL = "claude-sonnet-4-20250514"
USAGE = {
    "input_tokens": 1000, "output_tokens": 100,
    "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 400,
}  # fmt: skip
COST_USD = (1000 * 3 + 100 * 15 + 2000 * 0.3 + 400 * 3.75) / 1e6


def bash(line: str, **more: Any) -> Json:
    return {"content": [{"tool": "Bash", "input": {"command": line, **more}}], "usage": USAGE}


@requirement("R103", "R111", "R113", "R222", "R236", "R248", "R249", "C13")
def test_a_sessions_state_follows_each_request_and_each_change_of_folder(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            bash("mkdir sub; cd sub"),
            {"text": "Moved.", "usage": USAGE, "times": "always"},
        ],
    }
    args = ("--permission-prompt-tool", "stdio", "--model", MODEL)
    work = tmp_path / "work"
    with serving(plan, strict=True) as server:
        with Hosted(tmp_path, server.url, *args) as host:
            first = host.ask("get_session_state")["response"]
            host.say("go")
            asked = host.request("can_use_tool")
            # The second request has not left yet.
            during = host.ask("get_usage")["response"]["session"]
            host.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
            ended = host.result()
            after = host.ask("get_session_state")["response"]
            assert host.end() == 0
        with Hosted(tmp_path, server.url, *args, "--continue") as host:
            again = host.ask("get_session_state")["response"]
            host.say("on")
            resumed = host.result()
        named = server.requests[0].body["model"]
    assert named == first["model"] == MODEL
    assert UUID.fullmatch(first["session_id"])
    assert {s["session_id"] for s in (first, after, again)} == {first["session_id"]}
    assert {s["original_cwd"] for s in (first, after, again)} == {str(work)}
    assert [s["cwd"] for s in (first, after)] == [str(work), str(work / "sub")]
    assert {s["started_at"] for s in (first, after, again)} == {first["started_at"]}
    assert round(during["total_cost_usd"], 9) == round(COST_USD, 9)
    assert during["modelUsage"][MODEL]["cacheReadInputTokens"] == 2000
    assert round(ended["total_cost_usd"], 9) == round(2 * COST_USD, 9)
    assert round(resumed["total_cost_usd"], 9) == round(3 * COST_USD, 9)


def categories(home: Path, *lines: Json) -> dict[str, int]:
    home.mkdir()
    left(home, *lines)
    with (
        serving(FINE, strict=True) as server,
        Hosted(home, server.url, "--resume", SESSION) as host,
    ):
        listed = host.ask("get_context_usage")["response"]["categories"]
    return {category["name"]: category["tokens"] for category in listed}


@requirement("R035", "R245")
def test_an_estimate_counts_texts_calls_results_and_the_area_of_images(tmp_path: Path) -> None:
    data = b64encode(png(300, 250)).decode()
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }
    begin, end = said("user", 1, "word " * 460), said("assistant", 4, "one")
    plain = categories(
        tmp_path / "plain", begin, answer(2, call("")), said("user", 3, [result("", "")]), end
    )
    more = categories(tmp_path / "more", begin, answer(2, call("x" * 460)),
        said("user", 3, [result("x" * 460, [picture])]), end)  # fmt: skip
    assert plain["User"] == 500
    # The overhead, and the name and the input of the call.
    assert 20 < plain["Tool calls"] < 32
    assert plain["Tool results"] == 10
    assert more["Tool calls"] - plain["Tool calls"] == 100
    assert more["Tool results"] - plain["Tool results"] == 300 * 250 // 750


@requirement("R115", "R243", "R244", "C12")
def test_variables_are_read_at_the_start_in_either_spelling(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            # What a command sets is not read.
            bash("export BASH_DEFAULT_TIMEOUT_MS=9000; kill -0 $PPID"),
            bash("sleep 30"),
            {"text": "Done.", "times": "always"},
        ],
    }
    common = {"BASH_DEFAULT_TIMEOUT_MS": "150"}
    with serving(plan, strict=True) as server:
        for environ in ({"CLAUDE_MODEL": MODEL}, {"ANTHROPIC_MODEL": MODEL}):
            clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash",
                environ=environ | common)  # fmt: skip
        clew(tmp_path, server.url, "-p", "go",
            environ={"CLAUDE_MODEL": "haiku", "ANTHROPIC_MODEL": "haiku", "CLEW_MODEL": MODEL})  # fmt: skip
        bodies = [request.body for request in server.requests]
    assert {body["model"] for body in bodies} == {MODEL}
    (described,) = [t["description"] for t in bodies[0]["tools"] if t["name"] == "Bash"]
    assert "two minutes" in described
    assert "0.15 s" in json.dumps(bodies[2]["messages"][-1])
