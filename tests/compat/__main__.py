"""Drives published programs and other projects' tests with clew, where only this machine is reached.

`make compat` runs this. It installs the programs, runs each part in a network namespace, prints a
verdict for each program, writes a table, and compares it with docs/extending/compatibility.md. With
CLEW_DRAW=1, it updates the rows there instead.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from tests.compat.programs import NOT_RUN, PROGRAMS, install

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "extending" / "compatibility.md"
OUTPUT = ROOT / ".build" / "compat"
NO_CHECKOUT = "not run: needs"
PYTHON_SDK, SDK_TESTS, NEOVIM = "claude-agent-sdk", "claude-agent-sdk-python", "claudecode.nvim"
HEADER = "| program | version | date | what is driven | result |"
RULE = "| --- | --- | --- | --- | --- |"
REASON_CHARACTERS = 120
INSIDE = [sys.executable, "-m", "tests.compat.offline"]
PYTEST = [*INSIDE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Row:
    """A row of the table. `result` is "pass", or why the program does not pass."""

    name: str
    version: str
    driven: str
    result: str

    def line(self, date: str) -> str:
        return f"| {self.name} | {self.version} | {date} | {self.driven} | {self.result} |"


@dataclass
class Outcome:
    """What a program's tests did."""

    passed: int = 0
    why_failed: str = ""

    @property
    def result(self) -> str:
        if self.why_failed:
            return f"fails: {self.why_failed}"
        return "pass" if self.passed else "fails: no test ran"


def read_document() -> dict[str, tuple[str, Row]]:
    """Return the rows of the documentation with their dates, by program."""
    rows: dict[str, tuple[str, Row]] = {}
    table = DOCUMENT.read_text("utf-8").partition(HEADER)[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        name, version_, date, driven, result = (c.strip() for c in line.strip("|").split(" | "))
        rows[name] = (date, Row(name, version_, driven, result))
    return rows


def write_document(rows: list[Row]) -> None:
    """Replace the table of the documentation. Only a row that passed gets a new date."""
    known, today = read_document(), f"{datetime.now(UTC):%Y-%m-%d}"
    latest = {name: row.line(date) for name, (date, row) in known.items()}
    for row in rows:
        if row.result.startswith(NO_CHECKOUT):
            continue
        is_new = row.result == "pass" or row.name not in known
        latest[row.name] = row.line(today if is_new else known[row.name][0])
    text = DOCUMENT.read_text("utf-8")
    begin = text.index(HEADER)
    end = text.index("\n\n", begin)
    lines = [HEADER, RULE, *latest.values()]
    DOCUMENT.write_text(text[:begin] + "\n".join(lines) + text[end:], "utf-8")


def other_rows() -> list[Row]:
    """Return the rows of the programs that no test drives."""
    return [Row(name, *cells) for name, cells in NOT_RUN.items()]


def unavailable(name: str, variable: str) -> Row:
    return Row(name, "", "", f"{NO_CHECKOUT} {variable}=CHECKOUT")


def read_outcomes(report: Path, default: str) -> dict[str, Outcome]:
    """Return what a JUnit report says of each program, which a property of each test names."""
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        named = [p.get("value", "") for p in case.iter("property") if p.get("name") == "program"]
        outcome = outcomes.setdefault(named[0] if named else default, Outcome())
        problems = [p for tag in ("failure", "error") for p in case.iter(tag)]
        if not problems:
            outcome.passed += 1
        elif not outcome.why_failed:
            words = " ".join((problems[0].get("message") or "").split()).replace("|", "/")
            outcome.why_failed = words[:REASON_CHARACTERS] or "see above"
    return outcomes


class Compat:
    """One run: installs, drives, and collects rows."""

    def __init__(self, only: str) -> None:
        self._only = only
        self.rows: list[Row] = []

    def drive_programs(self) -> None:
        """Install the selected programs, and run the tests that drive them."""
        names = [name for name in PROGRAMS if self._only in name]
        failures: dict[str, str] = {}
        for name in names:
            try:
                install(name)
            except (OSError, subprocess.SubprocessError) as error:
                failures[name] = f"fails: can't be installed: {error}".replace("\n", " ")
        outcomes = self._run(
            "programs", "-m", "compat", "-n", "2", "--timeout", "900", "tests/compat"
        )
        for name in names:
            published = PROGRAMS[name]
            result = failures.get(name) or outcomes.get(name, Outcome()).result
            self._add(Row(name, published.version, published.driven, result))
        if self._only in PYTHON_SDK:
            outcome = outcomes.get(PYTHON_SDK, Outcome())
            driven = "what the page lists under [Python](#python)"
            self._add(Row(PYTHON_SDK, version(PYTHON_SDK), driven, outcome.result))

    def drive_sdk_tests(self, checkout: str) -> None:
        """Run the end-to-end tests in a checkout of the Agent SDK's repository."""
        folder = Path(checkout)
        if not (folder / "e2e-tests").is_dir():
            raise SystemExit(
                f"{checkout}/e2e-tests not found: SDK must be a checkout of {SDK_TESTS}"
            )
        plugin = ("-c", "/dev/null", "--rootdir", ".", "-p", "tests.compat.sdk_plugin")
        words = (*plugin, "--timeout", "120", str(folder / "e2e-tests"))
        outcome = self._run("sdk", *words, default=SDK_TESTS)[SDK_TESTS]
        about = (folder / "src" / "claude_agent_sdk" / "_version.py").read_text("utf-8")
        found = re.search(r'__version__ = "(.*?)"', about)
        driven = f"the {outcome.passed} end-to-end tests of the SDK's repository"
        self._add(Row(SDK_TESTS, found[1] if found else "", driven, outcome.result))

    def drive_neovim(self, checkout: str) -> None:
        """Run Neovim with a checkout of the plug-in claudecode.nvim."""
        if not (Path(checkout) / "lua" / "claudecode").is_dir():
            raise SystemExit(f"{checkout}/lua/claudecode not found: NVIM_PLUGIN must be a checkout")
        outcome = self._run("neovim", "tests/compat/neovim_plugin.py", default=NEOVIM)[NEOVIM]
        driven = "selections, and diffs that are approved, changed and rejected in Neovim"
        done = subprocess.run(
            ["git", "-C", checkout, "describe", "--tags", "--always"],
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        self._add(Row(NEOVIM, done.stdout.strip().removeprefix("v"), driven, outcome.result))

    def _run(self, part: str, *words: str, default: str = "") -> dict[str, Outcome]:
        report = OUTPUT / f"{part}.xml"
        report.unlink(missing_ok=True)
        done = subprocess.run([*PYTEST, f"--junitxml={report}", *words], cwd=ROOT, check=False)
        if not report.exists():
            # Without a namespace nothing runs, which the program has already said.
            raise SystemExit(done.returncode)
        return read_outcomes(report, default)

    def _add(self, row: Row) -> None:
        self.rows.append(row)


def compare(rows: list[Row]) -> list[str]:
    """Return what differs between a run and the documentation."""
    known = {name: row for name, (_, row) in read_document().items()}
    return [
        f"the documentation says of {row.name}: {known[row.name].line('') if row.name in known else 'nothing'}"
        for row in rows
        if known.get(row.name) != row and not row.result.startswith(NO_CHECKOUT)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument("--sdk", default="", help="a checkout of claude-agent-sdk-python")
    parser.add_argument("--nvim-plugin", default="", help="a checkout of claudecode.nvim")
    parser.add_argument("--only", default="", help="only programs with this in their name")
    given = parser.parse_args()
    began_s = time.monotonic()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    os.environ |= {"CLEW_COMPAT_ONLY": given.only, "NVIM_PLUGIN": given.nvim_plugin}
    os.environ |= {"CLEW_TESTS_EXEC": "1", "PYTHONWARNDEFAULTENCODING": "1"}
    os.environ.pop("CLEW_TESTS_TARGET", None)
    compat = Compat(given.only)
    compat.drive_programs()
    if given.sdk:
        compat.drive_sdk_tests(given.sdk)
    if given.nvim_plugin:
        compat.drive_neovim(given.nvim_plugin)
    rows = [*compat.rows, *(row for row in other_rows() if given.only in row.name)]
    if not (given.sdk or given.only):
        rows.append(unavailable(SDK_TESTS, "SDK"))
    if not (given.nvim_plugin or given.only):
        rows.append(unavailable(NEOVIM, "NVIM_PLUGIN"))
    if os.environ.get("CLEW_DRAW") == "1":
        write_document(rows)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    (OUTPUT / "table.md").write_text(
        "\n".join([HEADER, RULE, *(row.line(today) for row in rows)]) + "\n", "utf-8"
    )
    for row in rows:
        print(f"{row.name} {row.version}: {row.result} ({row.driven})")
    differences = compare(rows)
    for line in differences:
        print(line)
    failed, passed = (sum(r.result.startswith(word) for r in rows) for word in ("fails", "pass"))
    words = [f"compat: {passed} passed, {failed} failed, {len(rows) - passed - failed} not run"]
    if differences:
        words.append("the table in the documentation differs (CLEW_DRAW=1 updates it)")
    minutes, seconds = divmod(round(time.monotonic() - began_s), 60)
    print(", ".join([*words, f"{minutes}:{seconds:02}"]))
    return int(failed > 0 or bool(differences))


if __name__ == "__main__":
    sys.exit(main())
