"""Remote tasks of a session: begun on another machine, watched, answered and ended from here."""

import json
import signal
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import until
from tests.fronts.remote.test_host import begin_host
from tests.fronts.remote.test_shared import environ_of
from tests.fronts.remote.yard import Json, Yard
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement


def play(body: Json) -> Json:
    """Make a file for "make FILE", and answer everything else in a few words."""
    content = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if any(block["type"] == "tool_result" for block in blocks):
        return {"text": "The file is there."}
    for block in blocks:
        if str(block.get("text")).startswith("make "):
            command = f"touch {block['text'].split()[1]}"
            return {"content": [{"tool": "Bash", "input": {"command": command}}]}
    return {"text": "Understood."}


def here_of(yard: Yard) -> dict[str, str]:
    """Return the environment of another machine than the host's."""
    return environ_of(yard) | {"CLEW_CONFIG_DIR": str(yard.home / "here")}


@requirement("R291")
def test_a_remote_task_is_watched_answered_and_reported(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "here" / "clew").mkdir(parents=True)
    with serving(play) as model, Yard(tmp_path, model.url) as yard:
        host = begin_host(yard, project)
        with OnScreen(tmp_path, model.url, env=here_of(yard), columns=110, rows=40) as screen:
            screen.expect(READY)
            screen.type("/remote start somewhere\r")
            screen.expect("Usage: /remote start")
            screen.type(f"/remote start {tmp_path} make made-0\r")
            screen.expect("can't start a session in")
            screen.type("hello\r")
            screen.expect_rest()
            screen.type(f"/remote start {project} make made-1\r")
            screen.expect("Starting task r1")
            # The question of the other machine is asked here; nothing of this one concerns it.
            screen.expect("make made-1 on tower”: Allow Bash?")
            assert "don't ask again" not in screen.text
            screen.type("y")
            until((project / "made-1").exists)
            host.until(lambda line: " has ended (" in line)
            screen.expect_gone("running: make")
            screen.type("/tasks\r")
            screen.expect("remote agent completed")
            screen.type("/tasks r1\r")
            screen.expect("● Bash")
            screen.expect("The file is there.")
            # The model is told with the next prompt.
            screen.type("and now?\r")
            screen.expect_rest()
            said = json.dumps(model.requests[-1].body["messages"], ensure_ascii=False)
            assert "Background remote agent “make made-1” completed" in said
            assert "The file is there." in said
            # Rejected here, the call does not run there.
            screen.type(f"/remote start {project} make made-2\r")
            screen.expect("make made-2 on tower”: Allow Bash?")
            screen.type("w")
            screen.type("not this one\r")
            host.until(lambda line: " has ended (" in line)
            assert not (project / "made-2").exists()
            # Stopped here, it ends there.
            screen.type(f"/remote start {project} make made-3\r")
            screen.expect("make made-3 on tower”: Allow Bash?")
            screen.type("/tasks stop\r")
            screen.expect("Stopped r3")
            host.until(lambda line: " has ended (" in line)
            screen.expect_gone("Allow Bash?")
            assert not (project / "made-3").exists()
            screen.type("\x04")
            assert screen.end() == 0


@requirement("R291")
def test_a_remote_task_continues_without_this_clew(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "here" / "clew").mkdir(parents=True)
    with serving(play) as model, Yard(tmp_path, model.url) as yard:
        host = begin_host(yard, project)
        with Terminal(tmp_path, model.url, **here_of(yard)) as terminal:
            terminal.expect("> ")
            terminal.type("hello\n")
            terminal.expect("Understood.")
            terminal.expect("> ")
            terminal.type(f'/remote start --host tower "{project}" make made-1\n')
            terminal.expect("Allow Bash?")
            terminal.child.send_signal(signal.SIGTERM)
            terminal.expect("Still running: remote agent r1 make made-1")
            assert terminal.end() == 143
        [record] = (tmp_path / "here" / "projects").glob("*/*/remote-agents/r1.meta.json")
        about = json.loads(record.read_bytes())
        assert about["status"] == "running"
        with Terminal(tmp_path, model.url, "--continue", **here_of(yard)) as terminal:
            terminal.expect("make made-1 on tower”: Allow Bash?")
            terminal.type("y\n")
            until((project / "made-1").exists)
            host.until(lambda line: about["sessionId"] in line and " has ended (" in line)
            until(lambda: json.loads(record.read_bytes())["status"] == "completed")
            terminal.type("/tasks\n")
            terminal.expect("remote agent completed: make made-1")
            terminal.expect("> ")
            terminal.type("\x04")
            assert terminal.end() == 0
