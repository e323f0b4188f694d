"""Settings of git that a sandboxed command changes where only Landlock holds it."""

from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import IMPATIENT, clew, environment
from tests.fronts.headless.test_agents_kept import git, repository
from tests.fronts.headless.test_sandbox import bash, said, settings, trust, write

Json = dict[str, Any]
FILTER = '[filter "x"]\n\tclean = touch ../escaped; cat\n\tsmudge = touch ../escaped; cat\n'
ADDS = f"""
from pathlib import Path
config = Path(".git/config")
config.write_text(config.read_text("utf-8") + {FILTER!r}, "utf-8")
Path(".gitattributes").write_text("* filter=x\\n", "utf-8")
Path("kept.txt").write_text("changed\\n", "utf-8")
"""


def run(home: Path, *answers: Json) -> str:
    """The results of a run in which only Landlock works, and commands need no approval."""
    rules = {"allow": ["Bash(sh ../wait.sh)"]}
    settings(home, {"enabled": True, "excludedCommands": ["sh"]}, permissions=rules)
    trust(home)
    plan = {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}
    fake = write(home / "bin" / "bwrap", "#!/bin/sh\necho 'not permitted' >&2; exit 1\n")
    fake.chmod(0o755)
    with serving(plan, strict=True) as server:
        path = f"{fake.parent}:{environment(home, server.url)['PATH']}"
        done = clew(home, server.url, "-p", "go", environ=IMPATIENT | {"PATH": path})
        assert done.returncode == 0, done.stderr
        messages = server.requests[-1].body["messages"]
    return said([
        block
        for message in messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("code", "name", "is_restored"),
    [
        (ADDS, "config", True),
        ('import os; os.remove(".git/config"); os.symlink("../x", ".git/config")', "config", True),
        ('open(".git/hooks/pre-push", "a").write("touch ../escaped")', "hooks/pre-push", True),
        ('open(".git/config", "a").write("[user]\\n\\tname = b\\n")', "config", False),
        ('open(".git/config", "a").write("[user\\n")', "config", True),
    ],
)
def test_a_changed_setting_of_git_that_starts_a_program_is_put_back(
    tmp_path: Path, code: str, name: str, is_restored: bool
) -> None:
    work = repository(tmp_path)
    hook = write(work / ".git" / "hooks" / "pre-push", "#!/bin/sh\n")
    hook.chmod(0o755)
    before = (work / ".git" / name).read_bytes()
    write(tmp_path / "code.py", code)
    told = run(tmp_path, bash("python3 ../code.py"))
    assert ("restored the earlier ones" in told) is is_restored
    assert ("changed files that programs run or read" in told) is not is_restored
    file = work / ".git" / name
    assert (file.read_bytes() == before) is is_restored
    assert not file.is_symlink()
    assert hook.stat().st_mode & 0o777 == 0o755
    git(work, "status")
    assert not (tmp_path / "escaped").exists()


def test_a_link_in_place_of_git_moves_no_file_of_another_folder(tmp_path: Path) -> None:
    repository(tmp_path)
    hook = write(tmp_path / "other" / "hooks" / "pre-commit", "mine")
    write(tmp_path / "code.py", 'import os; os.rename(".git", "g"); os.symlink("../other", ".git")')
    told = run(tmp_path, bash("python3 ../code.py"))
    assert hook.read_text("utf-8") == "mine"
    assert "clew moved new files" in told
    assert not (tmp_path / "work" / ".git").exists()


def test_clew_runs_no_program_that_a_running_command_gave_to_git(tmp_path: Path) -> None:
    """A worktree for a subagent is made by clew's own git, outside of the sandbox."""
    repository(tmp_path)
    code = f"{ADDS}\nimport time\nPath('ready').touch()\ntime.sleep(60)\n"
    write(tmp_path / "code.py", code)
    agent = {"description": "dig", "prompt": "dig", "isolation": "worktree"}
    write(tmp_path / "wait.sh", "until test -e ready; do sleep 0.05; done")
    told = run(
        tmp_path,
        bash("python3 ../code.py", run_in_background=True),
        bash("sh ../wait.sh"),
        {"content": [{"tool": "Agent", "input": agent}]},
    )
    assert "a sandboxed command is running" in told
    assert not (tmp_path / "escaped").exists()
