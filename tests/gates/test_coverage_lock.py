"""A measured run cannot hang in the measuring: the tracer of this configuration takes no lock."""

import subprocess
import sys

from tests.gates.house import ROOT

PROGRAM = """
import coverage
measured = coverage.Coverage(data_file=None, config_file="pyproject.toml")
measured.start()
lock = measured._collector.data_lock
measured.stop()
print("no lock" if lock is None else f"a lock: {lock}")
"""


def test_the_first_call_into_a_measured_file_takes_no_lock() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert run.stdout == "no lock\n"
