"""Git in the sandbox: commits work in every kind of checkout, and git can't be led elsewhere."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.system.sandbox.protected_paths import linked, list_commit_paths
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, command, environment
from tests.fronts.headless.test_agents_kept import git, repository
from tests.system.sandbox.walls import can

WALLED = ("--settings", '{"sandbox": {"enabled": true}}')
COMMITS = "echo new > new.txt && git add new.txt && git commit -qm new && git log --format=%s -1"
EVIL = "[core]\n\tfsmonitor = touch {out} #\n"

bubblewrapped = can("bubblewrap")


def bash(command: str) -> dict[str, object]:
    return {"content": [{"tool": "Bash", "input": {"command": command}}]}


def run(home: Path, line: str, *, cwd: str = "work") -> str:
    """What a walled command of the model's printed, in a real session begun in a folder."""
    answers = {"scenario": 1, "answers": [bash(line), {"text": "Done.", "times": "always"}]}
    with serving(answers, strict=True) as server:
        subprocess.run(
            command("-p", "go", *WALLED, "--allowedTools", "Bash"),
            cwd=home / cwd,
            env=environment(home, server.url),
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=True,
        )
        return str(server.requests[-1].body["messages"][-1]["content"])


def test_a_commit_in_the_sandbox(tmp_path: Path) -> None:
    work = repository(tmp_path)
    run(tmp_path, COMMITS)
    assert git(work, "log", "--format=%s", "-1").strip() == "new"


def test_a_commit_in_a_linked_checkout_in_the_sandbox(tmp_path: Path) -> None:
    work = repository(tmp_path)
    git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    said = run(tmp_path, COMMITS, cwd="linked")
    assert git(tmp_path / "linked", "log", "--format=%s", "-1").strip() == "new", said
    assert git(work, "log", "--format=%s", "-1").strip() != "new"


def test_an_agent_commits_in_a_worktree_of_its_own_in_the_sandbox(tmp_path: Path) -> None:
    work = repository(tmp_path)
    asked = {
        "go": [uses(agent("dig", isolation="worktree")), {"text": "done"}],
        "dig": [uses({"tool": "Bash", "input": {"command": COMMITS}}), {"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", *WALLED, "--allowedTools", "Bash,Agent")
    (branch,) = git(work, "branch", "--list", "clew/*", "--format=%(refname)").split()
    assert git(work, "log", "--format=%s", "-1", branch).strip() == "new"


@pytest.mark.parametrize(
    "attack",
    [
        "mv .git g; cp -r g .git; printf '{evil}' >> .git/config",
        "cp -r .git g; printf '{evil}' >> g/config; printf ../g > .git/commondir",
        "cp -r .git g; printf '{evil}' >> g/config; rm -rf .git; mv g .git",
        "mkdir .git/commondir; rmdir .git/commondir; ln -s /dev/null .git/commondir",
    ],
)
def test_nobody_has_git_read_a_configuration_of_his_own(tmp_path: Path, attack: str) -> None:
    """Landlock cannot hold this back, as docs/using/sandbox.md says; there the rest is held to all the same."""
    work = repository(tmp_path)
    out = tmp_path / "out"
    run(tmp_path, attack.format(evil=EVIL.format(out=out).replace("\n", "\\n")))
    git(work, "status", "--porcelain")
    assert not (work / ".git" / "commondir").exists()
    assert not out.exists() or not bubblewrapped


def test_nor_in_a_linked_checkout(tmp_path: Path) -> None:
    work = repository(tmp_path)
    out = tmp_path / "out"
    git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    evil = EVIL.format(out=out).replace("\n", "\\n")
    run(
        tmp_path,
        f"printf '{evil}' > config.worktree; own=$(git rev-parse --git-dir); rm -f .git; "
        f"cp -r $own ../elsewhere; mkdir .git; printf '{evil}' > .git/config; "
        f"printf ../../../linked > $own/commondir; printf '{evil}' > $own/config.worktree",
        cwd="linked",
    )
    git(tmp_path / "linked", "status", "--porcelain")
    assert not out.exists() or not bubblewrapped
    (own,) = (work / ".git" / "worktrees").iterdir()
    assert (own / "commondir").read_text("utf-8").strip() == "../.." or not bubblewrapped


def test_a_file_that_only_says_it_is_a_checkout_opens_nothing(tmp_path: Path) -> None:
    work = repository(tmp_path)
    git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    (own,) = (work / ".git" / "worktrees").iterdir()
    assert linked(tmp_path / "linked") == (own.resolve(), (work / ".git").resolve())
    assert list_commit_paths(str(work)) == []
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {own}\n", "utf-8")
    assert list_commit_paths(str(forged)) == []
    (tmp_path / "secrets").mkdir()
    (forged / ".git").write_text(f"gitdir: {tmp_path / 'secrets'}\n", "utf-8")
    assert list_commit_paths(str(forged)) == []


def test_a_pipe_in_the_place_of_gits_own_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert linked(tmp_path) is None
