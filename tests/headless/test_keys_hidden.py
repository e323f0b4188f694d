"""The keys that clew was started with are out of reach of what it starts."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.headless.clew_process import command, environment
from tests.headless.test_sandbox import bash, settings, write
from tests.requirements import requirement
from tests.sandbox.walls import can

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
