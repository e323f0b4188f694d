"""Plugins that change or disappear while their parts are in use.

Nothing hangs, and the session continues.
"""

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

from clew.parts.mcp.tools import UNSURE
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_controls import done, make_plugin
from tests.fronts.headless.test_leaving import gated, opened
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
FREE = ("--allowedTools", "Bash,mcp__plugin_kit_notes")


@requirement("R098")
def test_a_call_to_a_server_of_a_plugin_that_goes_is_answered(tmp_path: Path) -> None:
    answers = {
        "go": [
            uses({"tool": "mcp__plugin_kit_notes__hang", "input": {}}),
            last_result,
        ],
        "again": [
            uses({"tool": "mcp__plugin_kit_notes__hang", "input": {}}),
            last_result,
        ],
    }
    plugin = tmp_path / "kit"
    make_plugin(plugin, tool="one")
    note = tmp_path / "note"
    rude = json.dumps({"mcpServers": {"notes": entry("rude", str(note))}})
    (plugin / ".mcp.json").write_text(rude, "utf-8")
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, *FREE, "--plugin-dir", str(plugin)) as host,
    ):
        done(host, "initialize")
        host.say("go")
        # From the call on the note says that alone.
        until(lambda: note.exists() and note.read_text("utf-8") == "hangs")
        shutil.rmtree(plugin)
        host.send(type="control_request", request_id="r", request={"subtype": "reload_plugins"})
        until_both(host)
        host.say("again")
        said = host.result()["result"]
        assert "mcp__plugin_kit_notes__hang is no longer available: " in said
        assert "did not run" in said
        assert host.end() == 0
        assert "Traceback" not in host.errors()


def last_result(body: Json) -> Json:
    """Return the result of the last call; a note about the reload may follow it."""
    found = [said for message in body["messages"] for said in results({"messages": [message]})]
    return {"text": found[-1]}


def until_both(host: Hosted) -> None:
    """Wait for the end of the turn and for the host's answer, in any order."""
    host.until(lambda frame: frame["type"] == "result" or is_answer(frame))
    host.until(lambda frame: frame["type"] == "result" or is_answer(frame))
    (result,) = [f for f in host.frames if f["type"] == "result"]
    (answer,) = filter(is_answer, host.frames)
    assert "The server plugin:kit:notes disconnected during the call" in result["result"]
    assert UNSURE in result["result"]
    assert answer["response"]["response"]["mcpServers"] == []


def is_answer(frame: Json) -> bool:
    return frame["type"] == "control_response" and frame["response"]["request_id"] == "r"


def test_an_agent_of_a_plugin_that_goes_ends_its_work_and_is_not_continued(
    tmp_path: Path,
) -> None:
    answers = {
        "go": [
            uses(agent("dig", subagent_type="kit:helper", run_in_background=True, name="ada")),
            {"text": "begun"},
        ],
        "dig": [uses(gated("hole")), {"text": "dug"}],
        "<task-notification>": [{"text": "heard"}],
        "again": [
            uses({"tool": "SendMessage", "input": {"to": "ada", "message": "more"}}),
            lambda body: {"text": results(body)[0]},
        ],
        "more": [{"text": "dug more"}],
    }
    plugin = tmp_path / "kit"
    make_plugin(plugin, tool="one")
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, *FREE, "--plugin-dir", str(plugin)) as host,
    ):
        done(host, "initialize")
        host.say("go")
        assert host.result()["result"] == "begun"
        until((tmp_path / "work" / "hole").exists)
        shutil.rmtree(plugin)
        assert "kit:helper" not in json.dumps(done(host, "reload_plugins")["agents"])
        opened(tmp_path, "hole")
        assert host.result()["result"] == "heard"
        assert host.end() == 0
    with serving(by_prompt(answers), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--continue", "again", *FREE)
    assert "kit:helper is no longer defined" in ran.stdout, ran.stderr
