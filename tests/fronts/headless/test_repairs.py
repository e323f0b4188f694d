"""Ten small repairs: a broken project, the real program, and a check that passes at the end.

The scripted model continues only if a tool's result contains what it must (`repairs/*.yaml`).
"""

import codecs
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts

TASKS = sorted((Path(__file__).parent / "repairs").glob("*.yaml"))
SESSION = "77777777-0000-4000-8000-000000000009"


def project(task: dict[str, Any], work: Path) -> None:
    work.mkdir()
    named = {name: text.encode() for name, text in task.get("files", {}).items()}
    named |= {name: codecs.escape_decode(text)[0] for name, text in task.get("bytes", {}).items()}
    for name, data in named.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(data)


def holds(check: str, work: Path) -> bool:
    done = subprocess.run(["sh", "-c", check], cwd=work, capture_output=True, check=False)
    return done.returncode == 0


def results_folder(home: Path) -> Path:
    """Return where the session will save long results.

    Known in advance, because its ID is given.
    """
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(home / "work"))
    return home / "config" / "projects" / name / SESSION / "tool-results"


@pytest.mark.e2e
@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_repair_makes_the_check_hold(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8").replace("$RESULTS", str(results_folder(tmp_path)))
    task = yaml.safe_load(text)
    work = tmp_path / "work"
    project(task, work)
    assert not holds(task["check"], work), "there is nothing to repair"
    plan = {"scenario": 1, "name": path.stem, "answers": task["answers"]}
    with serving(plan, strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", task["prompt"], "--session-id", SESSION,
            "--permission-mode", "acceptEdits", "--allowedTools", "Bash",
                # In a sandbox a server of one command is not to be reached by another.
                "--settings", '{"sandbox": {"enabled": false}}',
        )  # fmt: skip
        places = [(request.place, request.status) for request in server.requests]
    assert places == [(f"answers[{n}]", 200) for n in range(len(task["answers"]))]
    assert done.stdout == f"{task['answers'][-1]['text']}\n"
    assert done.stderr == ""
    assert holds(task["check"], work)
    (log,) = transcripts(tmp_path)
    checked = clew(tmp_path, server.url, "sessions", "check", str(log))
    assert checked.returncode == 0, checked.stdout
    assert all(json.loads(line) for line in log.read_bytes().splitlines())


def test_there_are_ten_of_them() -> None:
    assert len(TASKS) == 10
