"""New or changed files that programs run automatically, made by sandboxed commands.

Moved or reported.
"""

from pathlib import Path

import pytest

from clew.system.sandbox.protected_paths import Listing, Watched
from tests.fronts.headless.test_agents_kept import git, repository
from tests.requirements import requirement
from tests.system.sandbox.test_checkouts import bubblewrapped, run
from tests.system.sandbox.walls import can

WORKS = can("bubblewrap") or can("landlock")
MAKES = (
    ("echo x > .envrc", ".envrc"),
    ("echo '{}' > .mcp.json", ".mcp.json"),
    ("mkdir -p .husky && echo x > .husky/pre-commit", ".husky"),
    ("mkdir -p .githooks && echo x > .githooks/pre-commit", ".githooks"),
    ("mkdir -p .vscode && echo '{}' > .vscode/tasks.json", ".vscode"),
    ("mkdir -p .devcontainer && echo '{}' > .devcontainer/devcontainer.json", ".devcontainer"),
    ("mkdir -p .cursor && echo '{}' > .cursor/mcp.json", ".cursor"),
    ("mkdir -p .zed && echo '[]' > .zed/tasks.json", ".zed"),
    ("echo '!touch x' > .exrc", ".exrc"),
    ("mkdir -p deep/er/.claude && echo '{}' > deep/er/.claude/settings.json", "deep/er/.claude"),
    ("echo ../x > .git/commondir", ".git/commondir"),
    ("echo x > .git/config.worktree", ".git/config.worktree"),
    ("mkdir -p .git/modules/m && printf '[core]\\n fsmonitor = touch x\\n' > .git/modules/m/config", ".git/modules/m/config"),
    ("mkdir -p .git/modules/m/hooks && echo x > .git/modules/m/hooks/post-checkout", ".git/modules/m/hooks"),
    ("git init -q sub && git -C sub config core.fsmonitor 'touch x'", "sub/.git/config"),
    ("git init -q sub && echo x > sub/.git/hooks/post-commit", "sub/.git/hooks"),
)  # fmt: skip


def hidden(home: Path, line: str) -> str:
    """Runs a line out of a file, which no rule reads."""
    (home / "line.sh").write_text(line, "utf-8")
    return run(home, "bash ../line.sh")


@requirement("R220")
@pytest.mark.parametrize(("line", "place"), MAKES)
def test_what_programs_would_heed_is_moved_aside_and_said(
    tmp_path: Path, line: str, place: str
) -> None:
    work = repository(tmp_path)
    told = hidden(tmp_path, line)
    if WORKS:
        assert not (work / place).exists(), told
        assert f"{work.resolve()}/{place}" in told
        assert "clew moved new files to" in told
        aside = next((tmp_path / "config").glob("projects/*/*/**/set-aside"))
        assert list(aside.iterdir())


def test_what_git_makes_itself_stays(tmp_path: Path) -> None:
    work = repository(tmp_path)
    told = run(
        tmp_path, "git init -q sub && git -C sub remote add origin https://example.invalid/x"
    )
    if WORKS:
        assert "clew moved" not in told
        assert (work / "sub" / ".git" / "config").exists()
        assert git(work / "sub", "remote").strip() == "origin"


def test_what_was_there_cannot_be_written_or_is_reported(tmp_path: Path) -> None:
    work = repository(tmp_path)
    (work / "sub").mkdir()
    git(work / "sub", "init", "-q")
    (work / ".envrc").write_text("mine", "utf-8")
    hidden(tmp_path, "echo theirs > .envrc; git -C sub config core.fsmonitor 'touch x'; true")
    if bubblewrapped:
        assert (work / ".envrc").read_text("utf-8") == "mine"
        assert git(work / "sub", "config", "--get-all", "core.bare").strip() == "false"
        assert "fsmonitor" not in (work / "sub" / ".git" / "config").read_text("utf-8")


def test_what_changed_where_no_wall_holds_it_is_named(tmp_path: Path) -> None:
    work = repository(tmp_path)
    config = work / ".git" / "config"
    watched = Watched([str(work)], Listing())
    config.write_text(config.read_text("utf-8") + "[core]\n\tfsmonitor = touch x\n", "utf-8")
    (work / ".git" / "hooks").mkdir(exist_ok=True)
    (work / ".git" / "hooks" / "pre-push").write_text("x", "utf-8")
    told = watched.settle(tmp_path / "aside", protected_places=())
    assert "hooks/pre-push" in told[0]
    assert told[1].endswith(f"restored the earlier ones: {config}.")
    assert "fsmonitor" not in config.read_text("utf-8")
    assert watched.settle(tmp_path / "aside", protected_places=(f"{work}/.git",)) == []
    assert {path.name for path in (tmp_path / "aside").iterdir()} == {"config", "pre-push"}
    git(work, "config", "user.name", "b")
    (told,) = watched.settle(tmp_path / "aside", protected_places=())
    assert told.endswith(f"Check them before use: {config}.")


def test_agents_worktrees_and_plans_stay_where_they_are(tmp_path: Path) -> None:
    place = tmp_path / ".claude"
    (place / "worktrees" / "agent-1").mkdir(parents=True)
    (place / "worktrees" / ".gitignore").write_text("*\n", "utf-8")
    watched = Watched([str(tmp_path)], Listing())
    for name in ("worktrees/agent-1/work.py", "settings.json", "skills/plans/SKILL.md"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x", "utf-8")
    (told,) = watched.settle(tmp_path / "aside", protected_places=())
    assert f"{place}/settings.json" in told
    assert f"{place}/skills/plans/SKILL.md" in told
    assert sorted(path.name for path in place.rglob("*") if path.is_file()) == [
        ".gitignore",
        "work.py",
    ]


def test_what_clew_itself_writes_is_left_alone(tmp_path: Path) -> None:
    """In the home folder the settings and records of clew lie among what is looked at."""
    own = tmp_path / ".claude"
    own.mkdir()
    watched = Watched([str(tmp_path)], Listing(), own=str(own))
    (own / "new").write_text("of clew", "utf-8")
    (tmp_path / ".envrc").write_text("x", "utf-8")
    (told,) = watched.settle(tmp_path / "aside", protected_places=())
    assert ".envrc" in told
    assert (own / "new").exists()
