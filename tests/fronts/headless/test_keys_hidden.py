"""Programs that clew starts can't read the keys that clew was started with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import command, environment
from tests.fronts.headless.test_sandbox import bash, settings, write
from tests.requirements import requirement
from tests.system.sandbox.walls import can

# What the kernel says of the process once a session is over.
PROGRAM = """
import ctypes
from clew.cli import main
main(["-p", "go"])
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
LOOK = "for each in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $each 2>/dev/null; done\n"


@requirement("R220")
@pytest.mark.parametrize("walled", [True, False])
def test_no_command_reads_the_key_from_the_environment_of_a_process(
    tmp_path: Path, walled: bool
) -> None:
    """Without walls root may look into every process: the keeper's has no key all the same."""
    script = write(tmp_path / "work" / "look.sh", LOOK)
    settings(tmp_path, {"enabled": walled})
    answers = [bash(f"bash {script} > out.txt; true"), {"text": "Done.", "times": "always"}]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        variables = environment(tmp_path, server.url) | {"ANTHROPIC_API_KEY": "sk-ant-hidden-1234"}
        del variables["CLEW_DUMPABLE"]
        subprocess.run(
            command("-p", "go", "--allowedTools", "Bash"),
            cwd=tmp_path / "work",
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
    seen = (tmp_path / "work" / "out.txt").read_text("utf-8", "replace")
    is_walled = walled and (can("landlock") or can("bubblewrap"))
    holders = seen.count("sk-ant-hidden-1234")
    # Of clew itself, where root looks and nothing stands before it.
    assert holders == (1 if os.geteuid() == 0 and not is_walled else 0)


@pytest.mark.parametrize("lets_in", [True, False])
def test_debuggers_are_let_in_where_a_variable_says_so(tmp_path: Path, lets_in: bool) -> None:
    (tmp_path / "work").mkdir()
    with serving({"scenario": 1, "answers": [{"text": "Done."}]}, strict=True) as server:
        variables = environment(tmp_path, server.url) | {"CLEW_DUMPABLE": "1" if lets_in else "0"}
        program = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            program, cwd=tmp_path / "work", env=variables, capture_output=True, text=True,
            encoding="utf-8", timeout=60, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert done.stdout.split()[-1] == ("1" if lets_in else "0")


def test_a_server_that_quotes_a_secret_of_a_request_is_not_repeated(tmp_path: Path) -> None:
    """It reaches neither the screen nor the transcript's record of the failure."""
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    (tmp_path / "work").mkdir()
    message = f"messages.0.content: {secret} is not allowed here"
    refusal = {"status": 400, "error": {"type": "invalid_request_error", "message": message}}
    with serving({"scenario": 1, "answers": [refusal | {"times": "always"}]}) as server:
        done = subprocess.run(
            command("-p", "go", "--output-format", "json", "--debug"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
    assert "is not allowed here" in done.stdout
    assert secret not in done.stdout + done.stderr
    kept = [path.read_text("utf-8") for path in (tmp_path / "config").rglob("*.jsonl")]
    assert any("is not allowed here" in text for text in kept)
    assert not any(secret in text for text in kept)
