"""A host starts sessions on request, keeps them running when they are killed, and ends them."""

import json
import os
import signal
from pathlib import Path

from clew.record.transcript.running import find_holder
from clew.testing.server import serving
from tests.fronts.headless.clew_process import until
from tests.fronts.remote.yard import Running, Yard
from tests.requirements import requirement

ANSWER = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}


def begin_host(yard: Yard, *folders: Path) -> Running:
    settings = yard.home / "config" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"remoteFolders": [str(folder) for folder in folders]}), "utf-8")
    host = yard.run("host", "--name", "tower")
    host.until(lambda line: line.startswith("host tower"))
    return host


def holder_of(yard: Yard) -> int:
    holder = find_holder(yard.home / "config", yard.session)
    return 0 if holder is None else holder.pid


@requirement("R288", "R291")
def test_a_task_begun_on_another_machine_is_watched_answered_and_ended(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Bash", "input": {"command": "touch made"}}]},
            {"text": "Done.", "times": "always"},
        ],
    }
    project = tmp_path / "project"
    project.mkdir()
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        host = begin_host(yard, project)
        phone = {"CLEW_CONFIG_DIR": str(tmp_path / "phone")}

        def is_listed() -> bool:
            listed = yard.run("remote", "hosts", **phone)
            assert listed.end() == 0
            return [line.split()[0] for line in listed.lines] == ["tower", str(project)]

        until(is_listed)  # it reports its folders once it is connected
        started = yard.run("remote", "start", str(project), "make a file", **phone)
        assert started.end() == 0, started.lines
        yard.session = started.lines[-1]
        viewer = yard.viewer(**phone)
        assert viewer.question()["request"]["input"]["command"] == "touch made"
        viewer.type("y")
        viewer.result()
        assert (project / "made").exists()
        # The session's process is killed: the host starts it again, and it answers.
        os.kill(holder_of(yard), signal.SIGKILL)
        viewer.type("and now?")
        viewer.result()
        # The host is killed: the next one takes its sessions over.
        host.kill()
        host = begin_host(yard, project)
        viewer.type("still there?")
        viewer.result()
        prompts = [e["message"]["content"] for e in yard.entries() if e.get("origin")]
        assert prompts == ["make a file", "and now?", "still there?"]
        assert yard.run("remote", "end", yard.session, **phone).end() == 0
        host.until(lambda line: line.startswith(f"session {yard.session} has ended"))
        assert holder_of(yard) == 0
        host.process.terminate()
        assert host.process.wait(30) == 0


@requirement("R288")
def test_a_host_starts_nothing_elsewhere_and_nothing_unsigned(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with serving(ANSWER) as model, Yard(tmp_path, model.url) as yard:
        nowhere = yard.run("host")
        assert nowhere.end() == 1
        assert "remoteFolders" in nowhere.lines[-1]
        begin_host(yard, project)
        for folder in (tmp_path, project / "..", Path("/"), project / "sub"):
            refused = yard.run("remote", "start", str(folder), "hello")
            assert refused.end() == 1
            assert "start a session in" in refused.lines[-1]
        # After a pairing, who has only a token can start nothing.
        paired = tmp_path / "config" / "clew" / "remote" / "paired.json"
        paired.write_text('{"phone": "00"}', "utf-8")
        unsigned = yard.run("remote", "start", str(project), "hello")
        assert unsigned.end() == 1
        assert "not signed" in unsigned.lines[-1]
        until(lambda: not list((tmp_path / "config").glob("projects/*/*.jsonl")))
