"""Each gate fails if its rule is broken on purpose: a gate that never fails checks nothing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gates.house import ROOT

PYTHON = sys.executable
BIN = Path(PYTHON).parent
COPIED = (
    "src",
    "tests",
    "scripts",
    "docs",
    "pyproject.toml",
    "README.md",
    "AGENTS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    "LICENSE",
)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return a copy of the project in which to break rules."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def gate(house: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=house,
        env={**os.environ, "PYTHONPATH": f"{house / 'src'}{os.pathsep}{house}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )


def plant(house: Path, name: str, text: str) -> None:
    path = house / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text("utf-8") if path.exists() else "") + text, "utf-8")


def bites(house: Path, *command: str | Path, says: str) -> None:
    done = gate(house, *command)
    assert done.returncode != 0, done.stdout
    assert says in done.stdout


def test_ruff_bites_on_a_rule_and_on_the_format(house: Path) -> None:
    plant(house, "src/clew/version.py", "\nimport os\n")
    bites(house, BIN / "ruff", "check", "--no-cache", ".", says="F401")
    plant(house, "src/clew/cli.py", "\nx=1\n")
    bites(house, BIN / "ruff", "format", "--no-cache", "--check", ".", says="cli.py")


def test_mypy_bites(house: Path) -> None:
    plant(house, "src/clew/version.py", "\nWRONG: int = VERSION\n")
    # One module is enough to bite, and the whole takes minutes where much else runs.
    bites(house, BIN / "mypy", "src/clew/version.py", says="Incompatible types")


def test_an_import_upwards_bites_even_when_lazy(house: Path) -> None:
    plant(
        house, "src/clew/core/messages/__init__.py", "\n\ndef up() -> None:\n    import clew.cli\n"
    )
    bites(house, BIN / "lint-imports", "--no-cache", says="clew.core.messages -> clew.cli")


def test_a_pure_module_that_reaches_the_world_through_another_bites(house: Path) -> None:
    plant(house, "src/clew/version.py", "\nimport clew.core.messages.sly\n")
    plant(house, "src/clew/core/messages/__init__.py", "")
    plant(house, "src/clew/core/messages/sly.py", "import os\n")
    bites(house, BIN / "lint-imports", "--no-cache", says="clew.core.messages.sly -> os")


def test_a_folder_outside_the_plan_bites(house: Path) -> None:
    plant(house, "src/clew/annex.py", "")
    bites(house, BIN / "lint-imports", "--no-cache", says="annex")


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ("\n\ndef leak() -> None:\n    print('x')\n", "print()"),
        ("\n\ndef read() -> None:\n    open('x')\n", "open()"),
        ("\n\ndef clock(datetime: object) -> None:\n    datetime.now()\n", "version.py"),
        ("\n\ndef state() -> None:\n    global VERSION\n    VERSION = ''\n", "global state"),
    ],
)
def test_the_purity_test_bites(house: Path, planted: str, says: str) -> None:
    plant(house, "src/clew/version.py", planted)
    bites(
        house,
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/gates/test_house.py",
        "-k",
        "touches_no_world and version",
        says=says,
    )


def test_a_pure_branch_without_a_test_bites(house: Path) -> None:
    measured = (
        PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov", "--cov-report=term",
        "tests/cli/test_startup.py", "-k", "version_and_help",
    )  # fmt: skip
    # So few tests leave much else without one; this module they hold in whole.
    assert "src/clew/version.py" not in gate(house, *measured).stdout
    plant(house, "src/clew/version.py", "\n\ndef extra(a: int) -> int:\n    return a\n")
    done = gate(house, *measured)
    assert done.returncode != 0
    assert "Required test coverage of 100.0% not reached" in done.stdout
    assert "src/clew/version.py" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # A record that nothing shows.
        (
            r"(RECORDS: .* = \()",
            r'\1\n    Record("R998", "Never shown", "done"),',
            "done, but no test",
        ),
        (r'Record\("R219"', 'Record("R999"', "R999"),
    ],
)
def test_the_requirements_table_bites(house: Path, old: str, new: str, says: str) -> None:
    table = house / "tests" / "requirements.py"
    text = table.read_text("utf-8")
    changed, count = re.subn(old, new, text, count=1)
    assert count == 1
    table.write_text(changed, "utf-8")
    bites(
        house, PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "tests/gates/test_requirements.py", says=says,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ("\n```console\n$ clew --version\nclew 0.0.0\n```\n", "printed something else"),
        ("\n```console\n$ clew --version\n```\n", "printed something else"),
        ("\n```python\nprint(1 + 1)  # -> 3\n```\n", "expected the output"),
        ("\n```python no-run\ndef (\n```\n", "does not compile"),
        ("\n[gone](docs/no-such-page.md)\n", "dead link"),
        ("\n<!-- generated: clew --version -->\nstale\n<!-- end -->\n", "make docs"),
    ],
)
def test_the_docs_check_bites(house: Path, planted: str, says: str) -> None:
    plant(house, "docs/planted.md", planted)
    bites(house, PYTHON, "-m", "scripts.docs", "docs/planted.md", says=says)


def test_a_heavy_import_at_start_up_bites(house: Path) -> None:
    plant(house, "src/clew/version.py", "\nimport json\n")
    bites(
        house,
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/cli/test_startup.py",
        "-k",
        "load_nothing",
        says="load_nothing",
    )


@pytest.mark.parametrize(
    ("fake", "says"),
    [
        ('case "$*" in *version_info*) exit 1;; esac\n', "Python 3.11 or newer"),
        ('case "$*" in *ensurepip*) exit 1;; esac\n', "apt-get install python3-venv"),
    ],
)
def test_setup_says_what_is_missing_in_one_line(tmp_path: Path, fake: str, says: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "dev.txt").touch()
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{fake}exit 0\n", "utf-8")
    python.chmod(0o755)
    done = gate(tmp_path, "make", "setup", f"PYTHON={python}")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert len(lines) == 1
    assert says in lines[0]


def test_make_alone_prints_every_target_with_a_line() -> None:
    shown = gate(ROOT, "make", "--no-print-directory").stdout
    targets = [line.split()[1] for line in shown.splitlines()]
    wanted = "setup demo test laws e2e crash bench lint type fmt docs-check parity check clean"
    assert set(wanted.split()) <= set(targets)
    assert all(len(line.split()) > 3 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("page", "planted", "says"),
    [
        (
            "docs/glossary.md",
            "\n[gone](using/no-such-page.md)\n",
            "dead link using/no-such-page.md",
        ),
        ("docs/glossary.md", "\n[gone](using/cost.md#no-such-heading)\n", "no heading for"),
        ("docs/glossary.md", f"\n{'wide ' * 21}\n", "at_most_100_columns"),
        ("docs/using/planted.md", "# Planted\n", "list_every_page"),
        ("src/clew/version.py", "\n# docs/using/no-such-page.md\n", "no page docs/using"),
    ],
)
def test_the_gate_of_the_pages_bites(house: Path, page: str, planted: str, says: str) -> None:
    gates = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gates/test_docs.py")
    plant(house, page, planted)
    bites(house, *gates, says=says)
