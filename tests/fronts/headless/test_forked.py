"""A forked clew is what an executed one is: its streams, its environment, its end, its parent."""

import signal
import subprocess
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import command, environment, transcripts, until
from tests.fronts.headless.forked import Forked, run

FINE = {"scenario": 1, "answers": [{"text": "F\u00efne.", "times": "always"}]}


@pytest.mark.parametrize(
    ("words", "fed"),
    [
        (["--version"], None),
        (["-p", "hi"], b"piped \xf0\x9f\xa7\xb6\r\n"),
        (["-p", "--bogus"], b""),
        (["sessions", "list"], None),
        (["config", "set", "modle", "opus"], None),
    ],
)
def test_its_outputs_and_code_are_those_of_an_executed_one(
    words: list[str], fed: bytes | None, tmp_path: Path
) -> None:
    with serving(FINE) as server:
        env = environment(tmp_path, server.url)
        streams = {"input": fed} if fed is not None else {"stdin": subprocess.DEVNULL}
        done = run(words, env=env, cwd=tmp_path, **streams)
        as_usual = subprocess.run(
            command(*words), env=env, cwd=tmp_path, capture_output=True, check=False, **streams
        )
        bodies = [request.body["messages"][0] for request in server.requests]
    assert (done.returncode, done.stdout, done.stderr) == (
        as_usual.returncode, as_usual.stdout, as_usual.stderr,
    )  # fmt: skip
    assert len(bodies) in (0, 2)
    assert bodies[:1] == bodies[1:]


def test_it_is_a_child_that_a_signal_ends(tmp_path: Path) -> None:
    late = {"text": "Late.", "faults": [{"after_events": 2, "stall_s": "forever"}]}
    with serving({"scenario": 1, "answers": [late]}) as server:
        env = environment(tmp_path, server.url)
        with Forked(["-p", "hi"], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL) as process:
            until(lambda: bool(transcripts(tmp_path)))
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL


def test_what_python_runs_before_a_program_is_run_before_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('began')", "utf-8")
    env = environment(tmp_path, "") | {"PYTHONPATH": str(tmp_path)}
    printed = run(["--version"], env=env, cwd=tmp_path).stdout
    assert printed.startswith(b"began")
    assert b"clew" in printed


def test_one_that_needs_another_interpreter_is_executed(tmp_path: Path) -> None:
    env = environment(tmp_path, "") | {"PYTHONPROFILEIMPORTTIME": "1"}
    assert b"clew.version" in run(["--version"], env=env, cwd=tmp_path).stderr
