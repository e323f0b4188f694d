"""Only the API is contacted, according to the kernel's counters in a loopback-only network."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.e2e
def test_a_prompt_a_doctor_and_a_user_contact_nothing_but_the_api(tmp_path: Path) -> None:
    inside = [sys.executable, "-m", "tests.commands.doctor.alone", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", *inside],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert "unshare failed" not in done.stderr, f"no network namespace is to be had: {done.stderr}"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "one_prompt: alone with the API",
        "doctor: alone with the API",
        "person: alone with the API",
    ]
