"""What a run writes for other readers contains no secret, in whatever format it came."""

from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.system.config.secret_samples import SAMPLES

# One line each, and short enough to be shown whole.
SHORT = [s for s in SAMPLES if "\n" not in s.text and len(s.text) < 150 and s.text.isprintable()]


def test_no_format_of_a_secret_is_in_a_debug_log(tmp_path: Path) -> None:
    calls = [{"tool": "Bash", "input": {"command": s.text}} for s in SHORT]
    plan = {
        "scenario": 1,
        "answers": [{"content": calls}, {"text": "Done.", "times": "always"}],
    }
    with serving(plan) as server:
        done = clew(
            tmp_path,
            server.url,
            "-p",
            "look",
            "--debug",
            "--debug-file",
            "seen.txt",
            "--disallowedTools=Bash(*)",
        )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "work" / "seen.txt").read_text("utf-8")
    assert len(SHORT) > 90
    assert log.count("ToolUseReady") == len(SHORT)
    left = [s.name for s in SHORT for secret in s.secrets if secret in log]
    assert log.count("[masked]") >= len(SHORT)
    assert not left
