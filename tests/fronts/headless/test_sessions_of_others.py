"""Sessions from someone else: their files grant nothing and reach no other files."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.permissions.decision import verdict
from clew.permissions.in_session import SessionRules
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_agents_kept import first_run, repository

Json: TypeAlias = dict[str, Any]
DIARY = "dear diary"
SESSION = "11111111-2222-4333-8444-555555555555"


def private(home: Path) -> Path:
    file = home / "private" / "diary.txt"
    file.parent.mkdir()
    file.write_text(f"{DIARY}\n", "utf-8")
    return file


def reads(file: Path) -> Json:
    return uses({"tool": "Read", "input": {"file_path": str(file)}})


def resume_agent(home: Path, path: Path, *steps: Json) -> str:
    """Return the result of a call that continues the agent of a file."""
    agent_id = path.stem.removeprefix("agent-")
    asked = {
        "more": [
            uses(agent("deeper", resume=agent_id)),
            lambda body: {"text": results(body)[0]},
        ],
        "deeper": [*steps, lambda body: {"text": results(body)[0] if steps else "went on"}],
    }
    (session,) = transcripts(home)
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(home, server.url, "-p", "--resume", session.stem, "more")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def claim(path: Path, **fields: str) -> None:
    """Make the record of an agent claim something else."""
    record = path.with_suffix(".meta.json")
    record.write_text(json.dumps(json.loads(record.read_bytes()) | fields), "utf-8")


def test_a_folder_that_an_agents_record_claims_as_its_worktree_is_no_workspace(
    tmp_path: Path,
) -> None:
    work, diary = repository(tmp_path), private(tmp_path)
    path = first_run(tmp_path)
    claim(
        path,
        worktreePath=str(diary.parent),
        worktreeBranch="clew/x",
        worktreeBase="unknown",
        worktreeRepository=str(work),
    )
    said = resume_agent(tmp_path, path, reads(diary))
    assert "outside the workspace" in said
    assert DIARY not in said


@pytest.mark.parametrize("by_link", [False, True])
def test_a_worktree_is_never_made_again_outside_of_the_repository(
    tmp_path: Path, *, by_link: bool
) -> None:
    work = repository(tmp_path)
    path = first_run(tmp_path)
    target = tmp_path / "autostart"
    target.mkdir()
    if by_link:
        (work / ".claude").mkdir()
        (work / ".claude" / "worktrees").symlink_to(target)
        tree = work / ".claude" / "worktrees" / path.stem
    else:
        tree = target / "new"
    claim(
        path,
        cwd=str(tree),
        worktreePath=str(tree),
        worktreeBranch=f"clew/{path.stem}",
        worktreeBase="unknown",
        worktreeRepository=str(work),
    )
    assert "Can't resume agent" in resume_agent(tmp_path, path)
    assert not any(target.iterdir())


def test_a_new_worktree_does_not_follow_a_link_out_of_an_untrusted_repository(
    tmp_path: Path,
) -> None:
    work, target = repository(tmp_path), tmp_path / "autostart"
    target.mkdir()
    (work / ".claude").mkdir()
    (work / ".claude" / "worktrees").symlink_to(target)
    asked = {
        "go": [
            uses(agent("dig", isolation="worktree")),
            lambda body: {"text": results(body)[0]},
        ],
        "dig": [{"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        assert "is not trusted" in clew(tmp_path, server.url, "-p", "go").stdout
        assert not any(target.iterdir())
        assert clew(tmp_path, server.url, "config", "trust").returncode == 0
        assert "dug" in clew(tmp_path, server.url, "-p", "go").stdout


@pytest.mark.parametrize("link", ["", "tool-results", "tool-results/task-s1.txt", "subagents/x"])
def test_a_session_whose_files_are_links_is_neither_resumed_nor_imported(
    tmp_path: Path, link: str
) -> None:
    repository(tmp_path)
    diary = private(tmp_path)
    first_run(tmp_path)
    (session,) = transcripts(tmp_path)
    shipped = tmp_path / "work" / f"{SESSION}.jsonl"
    shipped.write_text(session.read_text("utf-8").replace(session.stem, SESSION), "utf-8")
    place = shipped.with_suffix("") / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(diary if place.suffix == ".txt" else diary.parent)
    with serving(by_prompt({"more": [{"text": "went on"}]}), strict=True) as server:
        for words in (
            ("-p", "--resume", shipped.name, "more"),
            ("-p", "--resume", shipped.name, "--fork-session", "more"),
            ("sessions", "import", shipped.name),
        ):
            ran = clew(tmp_path, server.url, *words)
            assert ran.returncode != 0, words
            assert f"{place.relative_to(tmp_path / 'work')} is a symlink" in ran.stdout + ran.stderr
        assert not server.requests
        place.unlink()
        ran = clew(tmp_path, server.url, "-p", "--resume", shipped.name, "more")
        assert ran.stdout == "went on\n"


def test_results_that_are_a_link_are_no_place_to_read(tmp_path: Path) -> None:
    diary = private(tmp_path)
    folder = tmp_path.resolve() / SESSION / "tool-results"
    work = tmp_path / "work"
    work.mkdir()
    rules = SessionRules({"HOME": str(tmp_path)}, work, mode=None, command_line=None)
    calls = [{"file_path": str(place / diary.name)} for place in (folder, diary.parent)]

    def verdicts() -> list[str]:
        rules.keeps_results_in(folder)
        return [verdict(rules.judge("Read", call, cwd=str(work))) for call in calls]

    folder.mkdir(parents=True)
    assert verdicts() == ["allow", "ask"]
    folder.rmdir()
    folder.symlink_to(diary.parent)
    assert verdicts() == ["ask", "ask"]


def test_notes_of_an_agent_that_are_a_link_out_of_an_untrusted_project_are_not_sent(
    tmp_path: Path,
) -> None:
    work, diary = repository(tmp_path), private(tmp_path)
    notes = work / ".claude" / "agent-memory" / "keeper"
    notes.mkdir(parents=True)
    (work / ".claude" / "agents").mkdir()
    (work / ".claude" / "agents" / "keeper.md").write_text(
        "---\nname: keeper\ndescription: keeps\nmemory: project\n---\nKeep.\n", "utf-8"
    )
    asked = {
        "go": [uses(agent("dig", subagent_type="keeper")), {"text": "done"}],
        "dig": [{"text": "dug"}],
    }
    for content in (None, "plain notes\n"):
        if content is None:
            (notes / "MEMORY.md").symlink_to(diary)
        else:
            (notes / "MEMORY.md").unlink()
            (notes / "MEMORY.md").write_text(content, "utf-8")
        with serving(by_prompt(asked), strict=True) as server:
            assert clew(tmp_path, server.url, "-p", "go").returncode == 0
            sent = json.dumps([request.body for request in server.requests])
        assert DIARY not in sent
        assert ("plain notes" in sent) == (content is not None)
        assert ("can't be read" in sent) == (content is None)


def test_an_agent_continues_in_no_folder_outside_of_the_workspace(tmp_path: Path) -> None:
    repository(tmp_path)
    diary = private(tmp_path)
    path = first_run(tmp_path)
    claim(path, cwd=str(diary.parent))
    said = resume_agent(tmp_path, path, uses({"tool": "Bash", "input": {"command": "ls"}}))
    assert "is outside the workspace" in said
    assert diary.name not in said
