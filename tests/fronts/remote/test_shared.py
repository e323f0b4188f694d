"""A session that a person uses in a terminal while viewers elsewhere use it too."""

import json
import re
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Json, Yard
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

ANSWER = {"scenario": 1, "answers": [{"text": "Understood.", "times": "always"}]}


def environ_of(yard: Yard) -> dict[str, str]:
    return {"CLEW_REMOTE_URL": yard.url, "CLEW_REMOTE_TOKEN": yard.token}


def until(holds: Callable[[], Any], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def send(yard: Yard, payload: Json) -> Json:
    """Send a viewer's frame as it is, and return what became of it."""
    body = {"events": [{"payload": {"uuid": str(uuid.uuid4())} | payload}]}
    request = urllib.request.Request(
        f"{yard.url}/v1/code/sessions/{yard.session}/events",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {yard.token}"},
    )
    with urllib.request.urlopen(request) as response:
        results: list[Json] = json.loads(response.read())["results"]
    return results[0]


@requirement("R278")
@requirement("R210")
def test_a_session_on_a_screen_is_shared_with_viewers(tmp_path: Path) -> None:
    commands = [f"touch made-{n}" for n in range(4)]
    plan = calls(*(("Bash", {"command": command}) for command in commands))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        screen = OnScreen(tmp_path, model.url, env=environ_of(yard), columns=110, rows=40)
        with screen:
            screen.expect(READY)
            screen.type("/remote off\r")
            screen.expect("Not connected")
            screen.type("make four files\r")
            screen.expect("touch made-0")
            # Connected while a question is open: viewers are asked too, and see what came before.
            screen.type("/remote\r")
            screen.expect("follow it with")
            yard.session = re.findall(r"session (\S+) at", screen.text)[-1]
            viewer = yard.viewer()
            viewer.event(lambda p: p["type"] == "user" and "make four files" in str(p))
            assert viewer.question()["request"]["input"]["command"] == "touch made-0"
            viewer.type("y")
            screen.expect("Remote: owner answered Bash: allow")
            screen.expect("touch made-1")
            assert (yard.work / "made-0").exists()
            # Answered here, the question is closed there, and a late answer is refused.
            request_id = viewer.question()["request_id"]
            screen.type("y")
            viewer.event(lambda p: p["type"] == "control_cancel_request")
            late = {
                "subtype": "success",
                "request_id": request_id,
                "response": {"behavior": "deny"},
            }
            assert send(yard, {"type": "control_response", "response": late})["answered_by"]
            screen.expect("touch made-2")
            assert (yard.work / "made-1").exists()
            viewer.question()
            viewer.type("n not that one")
            screen.expect("touch made-3")
            viewer.question()
            viewer.type("/stop")
            screen.expect("Interrupted")
            viewer.result()
            assert not list(yard.work.glob("made-[23]"))
            # A viewer's prompt runs here; nothing in it is a command.
            send(yard, {"type": "user", "message": {"role": "user", "content": "/exit"}})
            screen.expect("> /exit")
            viewer.result()
            screen.expect_rest()
            viewer.type("/mode plan")
            viewer.event(lambda p: p["type"] == "control_response")
            screen.expect("plan mode")
            ending = {"type": "control_request", "request_id": "r1"}
            send(yard, ending | {"request": {"subtype": "end_session"}})
            said = viewer.event(lambda p: p["type"] == "control_response")
            assert said["response"]["subtype"] == "error"
            # The connection is lost and comes back; the status line says so.
            yard.server.kill()
            screen.expect("remote: not connected")
            yard.serve()
            screen.expect(lambda text: "remote" in text and "not connected" not in text)
            screen.type("/remote off\r")
            screen.expect("Disconnected")
            screen.type("only here\r")
            screen.expect_rest()
            screen.type("/remote\r")
            screen.expect("follow it with")
            viewer.event(lambda p: p["type"] == "user" and "only here" in str(p))
            screen.type("\x04")
            assert screen.end() == 0
        states = [e["status"] for e in yard.entries() if e.get("subtype") == "bridge_status"]
        assert states == ["made", "lost", "resumed", "closed", "made", "closed"]
        prompts = [e for e in yard.entries() if e["type"] == "user" and e.get("origin")]
        assert [e["origin"].get("device") for e in prompts] == [None, "owner", None]


def test_a_rewind_reaches_the_screen_and_the_viewers(tmp_path: Path) -> None:
    with serving(ANSWER) as model, Yard(tmp_path, model.url) as yard:
        env = environ_of(yard)
        with OnScreen(tmp_path, model.url, "--remote", env=env, columns=110, rows=40) as screen:
            screen.expect("follow it with")
            yard.session = re.findall(r"session (\S+) at", screen.text)[-1]
            viewer = yard.viewer()
            sent = {}
            for words in ("first", "second", "third"):
                viewer.type(words)
                frame = viewer.event(lambda p, w=words: p["type"] == "user" and w in str(p))
                sent[words] = frame["uuid"]
                viewer.result()
            screen.expect_rest()
            # The user of the terminal rewinds.
            screen.type(f"/rewind {sent['third']} conversation\r")
            frame = viewer.event(lambda p: p.get("subtype") == "rewound")
            assert frame["removed"][0] == sent["third"]
            assert (len(frame["removed"]), frame["restored"]) == (2, [])
            screen.expect("Undo with /rewind redo")
            screen.type("\x15/rewind redo\r")
            again = viewer.event(lambda p: p.get("subtype") == "rewound")
            assert (again["removed"], again["restored"]) == ([], frame["removed"])
            # A viewer rewinds. The prompt is not put into the box of this terminal.
            request = {"subtype": "rewind_conversation", "message_uuid": sent["second"]}
            asked = {"type": "control_request", "request_id": "r1", "request": request}
            send(yard, asked)
            frame = viewer.event(lambda p: p.get("subtype") == "rewound")
            assert frame["removed"][0] == sent["second"]
            assert len(frame["removed"]) == 4
            screen.expect("Remote: owner requested rewind_conversation")
            screen.expect("The conversation now ends before “second”")
            send(yard, asked | {"request_id": "r2"})
            said = viewer.event(lambda p: p.get("response", {}).get("request_id") == "r2")
            assert "no longer contains this prompt" in said["response"]["error"]
            screen.type("after\r")
            viewer.event(lambda p: p["type"] == "user" and "after" in str(p))
            viewer.result()
            told = str(model.requests[-1].body["messages"])
            assert "first" in told
            assert "after" in told
            assert "second" not in told
            screen.type("\x04")
            assert screen.end() == 0


def test_a_viewer_that_cannot_answer_leaves_the_question_on_the_screen(tmp_path: Path) -> None:
    plan = calls(*(("Bash", {"command": f"touch made-{n}"}) for n in range(2)))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        env = environ_of(yard)
        with OnScreen(tmp_path, model.url, "--remote", env=env, columns=110, rows=40) as screen:
            screen.expect("follow it with")
            yard.session = re.findall(r"session (\S+) at", screen.text)[-1]
            viewer = yard.viewer()
            viewer.type("make two files")
            answers = [lambda: viewer.type("y"), lambda: screen.type("y")]
            for number, answer in enumerate(answers):
                request_id = viewer.question()["request_id"]
                screen.expect(f"touch made-{number}")
                failure = {"subtype": "error", "request_id": request_id, "error": f"no {number}"}
                send(yard, {"type": "control_response", "response": failure})
                screen.expect(f"Remote: owner could not answer Bash (no {number})")
                viewer.event(lambda payload: payload["type"] == "control_response")
                answer()
                until(lambda number=number: (yard.work / f"made-{number}").exists())
            viewer.result()


def test_a_waiting_prompt_of_a_viewer_is_done_once_after_a_crash(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        env = environ_of(yard)
        with OnScreen(tmp_path, model.url, "--remote", env=env, columns=110, rows=40) as screen:
            screen.expect("follow it with")
            yard.session = re.findall(r"session (\S+) at", screen.text)[-1]
            screen.type("make a file\r")
            screen.expect("touch made")
            name = str(uuid.uuid4())
            message = {"role": "user", "content": "paint it blue"}
            send(yard, {"type": "user", "message": message, "uuid": name})
            screen.expect("for the next step: paint it blue")
            until(lambda: [e for e in yard.entries() if e.get("messageUuid") == name])
            screen.child.kill()
            screen.child.wait()
        viewer = yard.viewer()
        resumed = ("--remote", "--resume", yard.session)
        with OnScreen(tmp_path, model.url, *resumed, env=env, columns=110, rows=40) as screen:
            screen.expect("Remote: owner sent a prompt")
            viewer.result()
            screen.expect_rest()
            assert "Not sent before" not in screen.text
            # Nothing is in the prompt that the user could send a second time.
            screen.type("\r")
            screen.settle()
            screen.type("\x04")
            assert screen.end() == 0
        told = [e for e in yard.entries() if e["type"] == "user" and "paint it blue" in str(e)]
        assert [entry["uuid"] for entry in told] == [name]


@requirement("R278")
def test_a_session_in_line_mode_is_shared_from_its_start(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch more"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        terminal = Terminal(tmp_path, model.url, "--remote", **environ_of(yard))
        with terminal:
            terminal.expect("follow it with")
            yard.session = re.findall(r"session (\S+) at", terminal.all)[-1]
            viewer = yard.viewer()
            viewer.type("make two files")
            terminal.expect("owner> make two files")
            viewer.question()
            terminal.expect("Run this command?")
            viewer.type("y")
            terminal.expect("Remote: owner answered Bash: allow")
            assert viewer.question()["request"]["input"]["command"] == "touch more"
            terminal.expect("touch more")
            terminal.type("n\n")
            viewer.event(lambda p: p["type"] == "control_cancel_request")
            viewer.result()
            assert [(yard.work / name).exists() for name in ("made", "more")] == [True, False]
            terminal.expect("> ")
            terminal.type("/remote\n")
            terminal.expect("Connected; follow")
            # The next session of this terminal is connected, too.
            terminal.type("/clear\n")
            terminal.expect("follow it with")
            terminal.expect("> ")
            yard.session = re.findall(r"session (\S+) at", terminal.all)[-1]
            second = yard.viewer()
            second.type("hello")
            terminal.expect("owner> hello")
            second.result()
            # Taken over by another machine, it goes on here alone.
            terminal.expect("> ")
            take_over = urllib.request.Request(
                f"{yard.url}/v1/code/sessions/{yard.session}/bridge",
                data=b"{}",
                headers={"authorization": f"Bearer {yard.token}"},
            )
            urllib.request.urlopen(take_over).close()
            second.type("is anybody there?")
            terminal.expect("another machine has taken")
            terminal.expect("> ")
            terminal.type("/remote off\n")
            terminal.expect("Not connected")
            terminal.type("only here\n")
            terminal.expect("Done.")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        states = [e["status"] for e in yard.entries() if e.get("subtype") == "bridge_status"]
        assert (states[0], states[-1]) == ("made", "refused")


def test_a_refused_or_missing_server_leaves_the_session_alone(tmp_path: Path) -> None:
    with serving(ANSWER) as model, Yard(tmp_path, model.url) as yard:
        wrong = environ_of(yard) | {"CLEW_REMOTE_TOKEN": "wrong"}
        with Terminal(tmp_path, model.url, "--remote", **wrong) as terminal:
            terminal.expect("a valid bearer token is required")
            terminal.expect("> ")
            terminal.type("/remote nowhere\n")
            terminal.expect("expected a URL")
            terminal.type("hello\n")
            terminal.expect("Understood.")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
        alone = {"CLEW_REMOTE_URL": "", "CLEW_REMOTE_TOKEN": ""}
        unsaved = ("--no-session-persistence", "--linear")
        with Terminal(tmp_path, model.url, *unsaved, **environ_of(yard)) as terminal:
            terminal.expect("> ")
            terminal.type("/remote\n")
            terminal.expect("not saved")
            terminal.type("\x04")
            assert terminal.end() == 0
        with Terminal(tmp_path, model.url, "--remote", **alone) as terminal:
            terminal.expect("expected a URL")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
