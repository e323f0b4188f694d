"""`make compat` runs without a network, and its table, its tests and the documentation match."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.__main__ import Outcome, Row, compare, other_rows, read_document, read_outcomes
from tests.compat.programs import PROGRAMS

HERE = Path(__file__).parent
OFFLINE = [sys.executable, "-m", "tests.compat.offline"]
LOOK = """
import os, socket
from tests.compat.offline import is_offline
server = socket.create_server(("127.0.0.1", 0))
with socket.socket() as client:
    client.connect(server.getsockname())
print(is_offline(), os.getuid())
"""
# The kernel lets a process without privileges write its own maps only if it can be debugged.
AS_ANOTHER = """
import ctypes, os, socket
from tests.compat.offline import is_offline, leave_network
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
leave_network()
print(is_offline(), os.getuid())
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=HERE.parents[1], capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_only_this_machine_can_be_reached_and_the_user_stays_the_same() -> None:
    done = run(*OFFLINE, sys.executable, "-c", LOOK)
    assert (done.stdout, done.returncode) == (f"True {os.getuid()}\n", 0), done.stderr


def test_no_privileges_are_needed() -> None:
    is_root = os.getuid() == 0
    words = (
        (sys.executable, "-c", AS_ANOTHER) if is_root else (*OFFLINE, sys.executable, "-c", LOOK)
    )
    done = run(*words)
    assert done.stdout == f"True {65534 if is_root else os.getuid()}\n", done.stderr


def test_without_a_namespace_one_line_says_what_to_do() -> None:
    without = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
    done = run("unshare", "--map-root-user", "sh", "-c", without, "sh", *OFFLINE, "true")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "can't create a network namespace" in line
    assert "run this as root" in line


def test_the_documentation_has_the_programs_and_what_is_driven() -> None:
    rows = {name: (row.version, row.driven) for name, (_, row) in read_document().items()}
    known = {name: (program.version, program.driven) for name, program in PROGRAMS.items()}
    known |= {row.name: (row.version, row.driven) for row in other_rows()}
    assert {name: rows.get(name) for name in known} == known
    assert compare(other_rows()) == []
    assert sorted(rows.keys() - known.keys()) == ["claude-agent-sdk", "claude-agent-sdk-python"]


def test_each_program_has_a_test_that_drives_it() -> None:
    text = "".join(path.read_text("utf-8") for path in HERE.glob("test_*.py"))
    calls = re.findall(r"^@drives\((.*)\)$", text, re.M)
    driven = [name for call in calls for name in re.findall(r'"([^"]+)"', call)]
    assert sorted(driven) == sorted(PROGRAMS)


REPORT = """<testsuites><testsuite>
<testcase><properties><property name="program" value="good"/></properties></testcase>
<testcase><properties><property name="program" value="bad"/></properties></testcase>
<testcase><properties><property name="program" value="bad"/></properties>
<failure message="assert 1 == 2 | no"/></testcase>
<testcase/>
</testsuite></testsuites>"""


def test_a_program_passes_only_if_all_its_tests_do(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT, "utf-8")
    outcomes = read_outcomes(tmp_path / "report.xml", "other")
    results = {name: outcome.result for name, outcome in outcomes.items()}
    assert results == {"good": "pass", "bad": "fails: assert 1 == 2 / no", "other": "pass"}
    assert Outcome().result == "fails: no test ran"


@pytest.mark.parametrize("change", [{"version": "0"}, {"result": "fails: x"}, {"name": "other"}])
def test_a_row_that_differs_from_the_documentation_is_named(change: dict[str, str]) -> None:
    (_, row) = read_document()["happy"]
    cells = {name: getattr(row, name) for name in ("name", "version", "driven", "result")}
    assert compare([row]) == []
    (line,) = compare([Row(**cells | change)])
    assert (cells | change)["name"] in line
