"""A worker, a server and a viewer, as programs: prompts, questions, answers and interrupts."""

import json
import urllib.request
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.test_shared import send
from tests.fronts.remote.yard import Json, Watching, Yard
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

READ_TOKEN = "printf '%s' \"$CLEW_REMOTE_TOKEN$CLEW_STORE_TOKEN\" > made"


def numbered(viewer: Watching) -> list[Json]:
    """Return the stored events that a viewer saw, without questions that were open for a time."""
    return [
        event["payload"]
        for event in viewer.events
        if "sequence_num" in event and event["payload"].get("type") != "control_request"
    ]


def states(yard: Yard) -> list[str]:
    """Return what the transcript says of the connection."""
    return [e["status"] for e in yard.entries() if e.get("subtype") == "bridge_status"]


def acts(entries: list[Json]) -> list[Json]:
    return [entry for entry in entries if str(entry.get("content")).startswith("Remote: ")]


@requirement("R014")
@requirement("R278")
def test_a_viewer_prompts_and_answers_and_the_transcript_says_so(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": READ_TOKEN}), ("Bash", {"command": "touch not-made"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        worker = yard.worker()
        viewer = yard.viewer()
        viewer.type("please make a file")
        assert viewer.question()["request"]["input"]["command"] == READ_TOKEN
        assert not (yard.work / "made").exists()
        viewer.type("y")
        viewer.question()
        viewer.type("n not that one")
        assert viewer.result()["subtype"] == "success"
        # No program can answer the session's own questions.
        assert (yard.work / "made").read_text("utf-8") == ""
        assert not (yard.work / "not-made").exists()
        entries = yard.entries()
        prompts = [e for e in entries if e["type"] == "user" and e.get("origin")]
        assert [e["message"]["content"] for e in prompts] == ["please make a file"]
        assert "not that one" in str(entries)
        # Whatever is done from afar is a line of the session, with the device.
        assert prompts[0]["origin"]["device"] == "owner"
        assert [entry["content"] for entry in acts(entries)] == [
            "Remote: owner answered Bash: allow",
            "Remote: owner answered Bash: deny",
        ]
        # Nobody loosens permissions from afar, but anybody may tighten them.
        for mode, became in (("bypassPermissions", "error"), ("plan", "success")):
            viewer.type(f"/mode {mode}")
            said = viewer.event(lambda p: p["type"] == "control_response")
            assert said["response"]["subtype"] == became
        assert [entry["content"].split(":")[1] for entry in acts(yard.entries())[2:]] == [
            " owner sent the request 'set_permission_mode', which was refused",
            " owner requested set_permission_mode",
        ]
        # A viewer that comes later sees the same.
        late = yard.viewer()
        last = viewer.events[-1]["payload"]
        late.event(lambda payload: payload == last)
        assert numbered(late) == numbered(viewer)
        # The connection is lost and comes back, and the transcript says so.
        yard.server.kill()
        yard.serve()
        viewer.type("once more")
        viewer.result()
        # Without a valid token there is nobody to talk to.
        refused = yard.run("--remote", CLEW_REMOTE_TOKEN="wrong")
        assert refused.process.wait(60) == 1
        worker.process.terminate()
        assert worker.end() == 143, "\n".join(worker.lines)
        assert states(yard) == ["made", "lost", "resumed"]
        # Another machine takes over; this one stops and says so.
        worker = yard.worker("--resume", yard.session)
        viewer.type("are you there again?")
        viewer.result()
        take_over = urllib.request.Request(
            f"{yard.url}/v1/code/sessions/{yard.session}/bridge",
            data=b"{}",
            headers={"authorization": f"Bearer {yard.token}"},
        )
        with urllib.request.urlopen(take_over) as response:
            assert response.status == 200
        viewer.type("is anybody there?")
        assert worker.end() == 1
        assert states(yard)[-1] == "refused"


def test_a_viewer_that_cannot_answer_leaves_the_question_open(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        viewer = yard.viewer()
        viewer.type("please make a file")
        request_id = viewer.question()["request_id"]
        # As the published module does without a `canUseTool`.
        failure = {"subtype": "error", "request_id": request_id, "error": "no callback" * 99}
        send(yard, {"type": "control_response", "response": failure})
        # Neither the viewer that was asked nor one that comes now has lost the question.
        late = yard.viewer()
        assert late.question()["request_id"] == request_id
        viewer.event(lambda payload: payload["type"] == "control_response")
        viewer.type("y")
        assert viewer.result()["subtype"] == "success"
        assert (yard.work / "made").exists()
        # It is too late to fail now.
        late.event(lambda payload: payload["type"] == "result")
        assert send(yard, {"type": "control_response", "response": failure})["answered_by"]
        first, second = [act["content"] for act in acts(yard.entries())]
        assert first.startswith("Remote: owner could not answer Bash (no callback")
        assert first.endswith("the question is still open")
        assert len(first) < 300
        assert second == "Remote: owner answered Bash: allow"


def test_a_growing_answer_leaves_nothing_in_the_queue(tmp_path: Path) -> None:
    slow = {"text": "word " * 400, "delta_chars": 8, "send": {"bytes_per_s": 30_000}}
    answers = {"scenario": 1, "answers": [{"text": "Yes."}, slow]}
    with serving(answers) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        viewer = yard.viewer()
        viewer.type("begin")
        viewer.result()
        viewer.type("and now in full")
        viewer.event(lambda p: p["type"] == "stream_event")
        viewer.result()
        [queue] = (tmp_path / "config" / "clew").glob(f"**/{yard.session}.jsonl")
        lines = queue.read_bytes().splitlines()
        assert b'{"sent":0}' not in lines
        # Frames that follow each other at once share a request.
        frames = sum(line.startswith(b'{"frame":') for line in lines)
        assert sum(line.startswith(b'{"sent":') for line in lines) < frames


def test_a_session_goes_on_at_another_machine_with_the_same_prefix(tmp_path: Path) -> None:
    answer = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}
    with serving(answer) as model, Yard(tmp_path, model.url) as yard:
        here = {"CLEW_STORE_TOKEN": yard.token}
        there = here | {"CLEW_CONFIG_DIR": str(tmp_path / "there")}
        store = ("--store", f"{yard.url}/v1")
        session = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
        began = ("-p", "hello", "--session-id", session, "--append-system-prompt", "Be brief.")
        assert yard.run(*began, **here).end() == 0
        [instructions] = {
            path.name
            for path in (tmp_path / "config" / "clew" / "prompts").iterdir()
            if b"Be brief." in path.read_bytes()
        }
        assert yard.run("sessions", "push", session, *store, **here).end() == 0
        assert yard.run("sessions", "pull", session, *store, **there).end() == 0
        kept = tmp_path / "there" / "clew" / "prompts" / instructions
        assert b"Be brief." in kept.read_bytes()
        more = ("--append-system-prompt", "Be brief.", "--resume", session)
        assert yard.run("-p", "more", *more, **there).end() == 0
        bodies = [request.body for request in model.requests if "system" in request.body]
        first = next(body for body in bodies if "hello" in str(body["messages"]))
        second = next(body for body in bodies if "more" in str(body["messages"]))
        for part in ("system", "tools"):
            assert json.dumps(second[part]) == json.dumps(first[part])
        asked = unmarked(first["messages"])
        assert unmarked(second["messages"])[: len(asked)] == asked


def unmarked(messages: list[Json]) -> list[str]:
    """Return messages as JSON, without marks for the cache, which move with the conversation."""
    plain = [
        [{n: v for n, v in block.items() if n != "cache_control"} for block in m["content"]]
        if isinstance(m["content"], list)
        else m["content"]
        for m in messages
    ]
    return [json.dumps(content) for content in plain]


def test_attach_shows_each_call_with_its_result(tmp_path: Path) -> None:
    """A running call is not shown as interrupted, and text for the model is not shown."""
    wanted = ("touch made; ls", "touch not-made", "ls", "sleep 60; ls")
    plan = calls(*(("Bash", {"command": command}) for command in wanted))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        viewer = yard.run("attach", yard.session)
        viewer.type("please make a file")
        viewer.until(lambda line: line.startswith("Allow this call?"))
        where = {"CLEW_REMOTE_URL": yard.url, "CLEW_REMOTE_TOKEN": yard.token}
        with Terminal(tmp_path, model.url, "attach", yard.session, **where) as terminal:
            terminal.expect("Allow this call?")
            terminal.expect("\x07")
            assert "\\x07" not in terminal.all
        assert "● Bash: touch made; ls" in viewer.lines
        viewer.type("y")
        viewer.until(lambda line: line == "  made")
        viewer.until(lambda line: line.startswith("Allow this call?"))
        viewer.type("n not that one")
        viewer.until(lambda line: line == "  not that one")
        viewer.until(lambda line: line == "  made")
        assert "Interrupted" not in viewer.lines
        viewer.until(lambda line: line == "● Bash: sleep 60; ls")
        viewer.type("/stop")
        viewer.until(lambda line: line == "Interrupted")
        # What is typed has an answer; commands of a terminal are no prompts for the model.
        viewer.type("/mode bypassPermissions")
        refused = viewer.until(lambda line: line.startswith("/mode bypassPermissions: "))
        assert not refused.endswith("done")
        viewer.type("/mode plan")
        viewer.until(lambda line: line == "/mode plan: done")
        viewer.type("/compact")
        viewer.until(lambda line: line.startswith("unknown command /compact"))
        viewer.type("once more")
        viewer.until(lambda line: line == "clew: Done.")
        assert viewer.end() == 0
        assert "/compact" not in str(yard.entries())
        shown = "\n".join(viewer.lines)
        assert "✗ Bash: touch not-made" in viewer.lines
        assert shown.count("Interrupted") == 1
        assert "remains in effect" not in shown
        assert "error:" not in shown
