"""Schedules, loops and goals with a host: automatic turns that end."""

import json
import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.commands.slash.tasks import wish
from clew.parts.goals import QUESTION, UNREADABLE
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement
from tests.wording import head

Json: TypeAlias = dict[str, Any]


def call(tool: str, **given: Any) -> Json:
    return {"content": [{"tool": tool, "input": given}]}


def told(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@requirement("R139")
def test_the_model_wakes_itself_and_lists_and_deletes(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            call("ToolSearch", query="select:ScheduleCron,ScheduleList,ScheduleDelete"),
            call("ScheduleCron", prompt="Look again", after_s=1),
            call("ScheduleCron", prompt="Every hour", cron="0 * * * *"),
            call("ScheduleCron", prompt="Wrong", cron="0 * * *"),
            call("ScheduleList"),
            call("ScheduleDelete", id="s2"),
            {"text": "I wait.", "times": 1},
            {"text": "I looked.", "times": "always"},
        ],
    }
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("wait a second")
        assert host.result()["result"] == "I wait."
        woken = host.result()
        assert woken["result"] == "I looked."
        assert woken["origin"]["kind"] == "task-notification"
        assert woken["origin"]["producer"] == "schedule"
        assert host.end() == 0
        last = told(server.requests[-1].body)
    assert "[Schedule s1, once on " in last
    assert "Look again" in last
    assert "expected five fields" in last
    assert "0 * * * *, next " in last
    assert "Deleted schedule s2." in last


def test_a_prompt_that_the_model_schedules_loads_no_skill(tmp_path: Path) -> None:
    """A skill can bring permissions, and the Skill tool, which asks, would be bypassed."""
    skill = tmp_path / "config" / "skills" / "publish"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: publish\ndescription: d\nallowed-tools: Bash(touch:*)\n---\nPublish it all.",
        "utf-8",
    )
    plan = {
        "scenario": 1,
        "answers": [
            call("ToolSearch", query="select:ScheduleCron"),
            call("ScheduleCron", prompt="/publish now", after_s=1),
            {"text": "I wait.", "times": 1},
            call("Bash", command="touch published"),
            {"text": "I tried.", "times": "always"},
        ],
    }
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("wait a second")
        assert host.result()["result"] == "I wait."
        assert host.result()["result"] == "I tried."
        assert host.end() == 0
        last = told(server.requests[-1].body)
    assert "/publish now" in last
    assert "Publish it all." not in last
    assert not (host.work / "published").exists()


def test_a_session_that_ends_with_its_answer_schedules_nothing(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "hi")
        assert "ScheduleCron" not in json.dumps(server.requests[0].body)
        assert "requires an interactive session" in clew(tmp_path, server.url, "-p", "/loop").stderr


def test_what_looks_like_a_span_and_is_none_is_refused(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Polled.", "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        for first in ("5min", "99x", "1.5h", "2hours"):
            host.say(f"/loop {first} check it")
            assert host.result()["errors"][0].startswith(f"/loop: invalid duration {first}: ")
        host.say("/loop")
        assert "No schedules" in host.result()["result"]
        assert server.requests == []
        host.say("/loop 5m 99x check it")
        assert "99x check it" in host.result()["result"]
        assert host.result()["result"] == "Polled."
        assert host.end() == 0


def test_a_loop_begins_at_once_calls_a_command_and_is_stopped(tmp_path: Path) -> None:
    commands = tmp_path / "config" / "commands"
    commands.mkdir(parents=True)
    (commands / "poll.md").write_text("Poll $1 now.", "utf-8")
    plan = {"scenario": 1, "answers": [{"text": "Polled.", "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/loop 5m --times 3 --budget 2 /poll builds")
        began = host.result()["result"]
        assert host.result()["result"] == "Polled."
        host.say("/loop")
        listed = host.result()["result"]
        host.say("/loop stop s9")
        assert host.result()["result"] == 'Unknown schedule "s9" (expected one of: s1)'
        host.say("/loop stop s1")
        assert host.result()["result"] == "Stopped: s1"
        host.say("/loop stop")
        assert host.result()["result"] == "No schedules"
        host.say("/loop")
        assert "No schedules" in host.result()["result"]
        assert host.end() == 0
        (body,) = (request.body for request in server.requests)
    assert "s1  every 5m" in began
    assert "Each run costs a turn" in began
    assert "1 of 3 submitted" in listed
    spent = re.search(r"\$(\d\.\d{4}) of \$2\.00 spent since it started: /poll builds", listed)
    assert spent is not None
    assert float(spent[1]) > 0
    assert "Poll builds now." in told(body)


def goal_plan() -> Json:
    return {
        "scenario": 1,
        "answers": [
            {"when": {"user": head(QUESTION), "model": "haiku"}, "text": '{"met": false, "why": "No test ran."}', "times": 1},
            {"when": {"user": head(QUESTION), "model": "haiku"}, "text": '{"met": true, "why": "12 passed."}', "times": 1},
            {"text": "I think it works."},
            {"text": "I ran them: 12 passed."},
            {"text": "Anything else.", "times": "always"},
        ],
    }  # fmt: skip


def test_a_goal_is_worked_for_until_it_is_met(tmp_path: Path) -> None:
    with serving(goal_plan(), strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/goal all tests pass")
        assert host.result()["result"] == "I ran them: 12 passed."
        host.say("/goal")
        assert host.result()["result"].startswith("No goal")
        host.say("go on")
        assert host.result()["result"] == "Anything else."
        assert host.end() == 0
        bodies = [told(request.body) for request in server.requests]
    assert "Work until this goal is met" in bodies[0]
    assert any("The goal is not met yet: No test ran." in body for body in bodies)
    assert len(bodies) == 5


def test_a_goal_says_what_is_asked_why_it_continues_and_how_it_ends(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"when": {"user": head(QUESTION)}, "text": '{"met": false, "why": "No test ran."}', "times": "always"},
            {"text": "Trying.", "times": "always"},
        ],
    }  # fmt: skip
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("You> ")
        terminal.type("/goal all tests pass\n")
        terminal.expect("! Goal: all tests pass. ")
        terminal.expect("/goal clear ends the goal")
        terminal.expect("! goal not met yet, continuing: No test ran. (check 1 of 40)")
        terminal.expect("(check 8 of 40)")
        terminal.expect("! the goal is not met: No test ran. The turn was continued 8 times")
        terminal.expect("/goal clear removes it")
        terminal.expect("You> ")
        terminal.type("go on\n")
        terminal.expect("(check 10 of 40)")
        terminal.expect("(check 17 of 40)")
        terminal.expect("it ends here")
        terminal.expect("You> ")
        terminal.type("/goal clear\n")
        terminal.expect("Goal cleared")
        assert "Stop hook" not in terminal.all


def test_a_loop_that_is_ended_as_a_task_is_told_of_in_words(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Polled.", "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/loop 5m poll")
        host.result()
        assert host.result()["result"] == "Polled."
        host.say("/tasks stop s1")
        assert host.result()["result"] == "Stopped s1"
        host.say("hello")
        host.result()
        assert host.end() == 0
        last = told(server.requests[-1].body)
    assert "(no content)" not in last
    assert "Background schedule “poll” stopped" in last


def test_a_goal_can_be_shown_and_cleared(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"when": {"user": head(QUESTION)}, "text": "no idea", "times": "always"},
            {"text": "Trying.", "times": "always"},
        ],
    }  # fmt: skip
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/goal the impossible")
        host.result()
        host.say("/goal")
        shown = host.result()["result"]
        host.say("/goal clear")
        cleared = host.result()["result"]
        assert host.end() == 0
        asked = len(server.requests)
    assert "the impossible" in shown
    assert UNREADABLE in shown
    assert cleared == "Goal cleared: the impossible"
    assert asked == 4


def test_a_goal_that_cannot_be_checked_ends_the_turn_and_says_so(tmp_path: Path) -> None:
    def says(body: Json) -> Json:
        is_check = head(QUESTION) in told(body)
        return {"text": "I am not sure what you want." if is_check else "Trying."}

    with serving(says, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("You> ")
        terminal.type("/goal all tests pass\n")
        terminal.expect("(check 1 of 40)")
        terminal.expect("! the goal could not be checked")
        terminal.expect("/goal clear removes it")
        terminal.expect("You> ")
        assert len(server.requests) == 4
        terminal.type("go on\n")
        terminal.expect("3 times in a row")
        terminal.expect("You> ")
        assert len(server.requests) == 6


def test_a_goal_is_checked_again_after_one_unreadable_answer(tmp_path: Path) -> None:
    asks = {"user": head(QUESTION)}
    answers = ("?", '{"met": false, "why": "No test."}', '"met"', '{"met": true, "why": "Passed."}')
    plan = {
        "scenario": 1,
        "answers": [
            *({"when": asks, "text": text, "times": 1} for text in answers),
            {"text": "Trying.", "times": "always"},
        ],
    }
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("You> ")
        terminal.type("/goal all tests pass\n")
        terminal.expect("goal met after 4 checks: Passed.")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("5m", "prompt missing"),
        ("--often x", "--times"),
        ("--times no x", "number"),
        ("--for ever x", "duration"),
        ("--budget much x", "dollars"),
        ('"* *" x', "expected five fields"),
    ],
)
def test_what_is_wrong_with_a_loop_is_said(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        wish(line)


def test_a_line_of_loop_is_read() -> None:
    cron = wish('"*/5 * * * *" check')
    assert (cron.expression, cron.prompt, cron.at_once) == ("*/5 * * * *", "check", False)
    plain = wish("check the build")
    assert (plain.every_s, plain.prompt, plain.at_once) == (600, "check the build", True)
    full = wish("1h --times 3 --for 2d --budget $2 check")
    assert (full.every_s, full.times, full.budget_usd, full.prompt) == (3600, 3, 2.0, "check")


def test_hooks_at_a_turns_end_are_told_what_is_scheduled(tmp_path: Path) -> None:
    command = {"type": "command", "command": "cat > ../stop.json"}
    settings = json.dumps({"hooks": {"Stop": [{"hooks": [command]}]}})
    plan = {"scenario": 1, "answers": [{"text": "Polled.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--settings", settings) as host,
    ):
        host.say("/loop 5m poll")
        host.result()
        host.result()
        assert host.end() == 0
    (told_of,) = json.loads((tmp_path / "stop.json").read_text("utf-8"))["session_crons"]
    expected = {"id": "s1", "schedule": "every 5m", "recurring": True, "prompt": "poll"}
    assert told_of == expected
