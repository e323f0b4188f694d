"""Files that rules deny and git stores: what a session shows of them without asking."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.fronts.headless.clew_process import command, environment
from tests.fronts.headless.test_read_only_wall import run
from tests.fronts.headless.test_sandbox import bash, said, write
from tests.requirements import requirement

SECRET = "hunter2-of-the-first-commit"
RULES = {"permissions": {"deny": ["Read(.env)"]}}


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=n", "-c", "user.email=e@example.com")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository whose history holds a file that a rule denies, and whose tree no longer does."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    write(folder / ".env", SECRET)
    write(folder / "a.py", "print('shown')\n")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "rm", "-q", ".env")
    git(folder, "commit", "-q", "-m", "second")
    write(tmp_path / "config" / "settings.json", json.dumps(RULES))
    return folder


@requirement("R146")
def test_a_session_prints_nothing_of_it_unasked(work: Path, tmp_path: Path) -> None:
    shown = ["git log -p", "git show HEAD", "git diff HEAD~1", "git log -p -- a.py"]
    shown += ["git log -p -- . ':!.env'", "git log --oneline --stat"]
    done, told = run(tmp_path, *map(bash, shown), args=("--allowedTools", "Bash(git log:*)"))
    assert SECRET not in said(told) + done.stdout + done.stderr
    texts = [said([one]) for one in told]
    for text in texts[:3]:
        assert "could show .env, which is stored in git and which Read(.env) denies" in text
    for text in texts[3:5]:
        assert "print('shown')" in text
    assert "first" in texts[5]


def test_what_is_committed_in_the_meantime_is_noticed(work: Path, tmp_path: Path) -> None:
    rules = {"permissions": {"deny": ["Read(later)"]}}
    write(tmp_path / "config" / "settings.json", json.dumps(rules))
    program = (
        f"echo {SECRET} > later; git add -f .; git -c user.name=n -c user.email=e commit -qm x"
    )
    write(work / "make.sh", program)
    calls = [bash("git show HEAD"), bash("sh make.sh"), bash("git show HEAD")]
    _, told = run(tmp_path, *calls, args=("--allowedTools", "Bash(sh make.sh)"))
    texts = [said([one]) for one in told]
    assert "second" in texts[0]
    assert "could show later" in texts[2], texts
    assert SECRET not in texts[2]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("git show HEAD", "could show .env"),
        ("git show HEAD -- a.py", "read-only"),
        ("git show --stat", "read-only"),
    ],
)
def test_the_command_line_says_the_same(work: Path, tmp_path: Path, line: str, answer: str) -> None:
    done = subprocess.run(
        command("permissions", "check", "Bash", line),
        cwd=work,
        env=environment(tmp_path, "http://127.0.0.1:1"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert answer in done.stdout, done.stderr
    assert done.returncode == (0 if answer == "read-only" else 1)
