"""Subagents after a restart of clew.

After a kill, they are continued by name, with the same type.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from claude_agent_sdk import get_subagent_messages, list_subagents

from clew.parts.agents.all_agents import NO_TYPE
from clew.parts.agents.checkouts import IN_WORKTREE
from clew.parts.agents.past import CUT_OFF
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files, endless, heard, lines, subtypes
from tests.fronts.headless.test_kept import told
from tests.requirements import requirement
from tests.system.sandbox.walls import Kind, can

Json: TypeAlias = dict[str, Any]
MAKES = {"tool": "Bash", "input": {"command": "mkdir made"}}


@requirement("R199", "R201")
def test_after_a_kill_the_session_knows_what_its_agents_had_done_and_they_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "go": [
            uses(agent("dig", run_in_background=True, name="mole"), agent("build")),
        ],
        "dig": [uses({"tool": "LS", "input": {"path": "."}}), endless("dig")],
        "build": [uses(MAKES), endless("build")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash(mkdir:*)") as host,
    ):
        host.say("go")
        host.until(lambda _: subtypes(host.frames).count("task_progress") >= 4)
        until(lambda: len(server.requests) == 5)
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    (session,) = transcripts(tmp_path)
    # What they had cost stands in the session's own record, for whoever goes on with it.
    costs = [x["purpose"] for x in lines(session) if x["type"] == "request-cost"]
    assert costs.count("subagent") == 2
    then = {
        "what now": [
            uses({"tool": "SendMessage", "input": {"to": "mole", "message": "go on"}}),
            {"text": "sent"},
        ],
        "go on": [heard("dig")],
        "<task-notification>": [heard("dig: True")],
    }
    with serving(by_prompt(then), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, "what now")
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == "sent\n\ndig: True: True\n"
        told = json.dumps(server.requests[0].body["messages"])
    assert told.count("<task-notification>") == 2
    assert told.count(CUT_OFF) == 2
    assert "- Bash mkdir made" in told
    assert "- LS ." in told
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    work = str(tmp_path / "work")
    ids = list_subagents(session.stem, directory=work)
    assert sorted(ids) == sorted(p.stem.removeprefix("agent-") for p in agent_files(tmp_path))
    for one in ids:
        messages = get_subagent_messages(session.stem, one, directory=work)
        assert [m.type for m in messages][:2] == ["user", "assistant"]
        assert all(m.parent_tool_use_id for m in messages)
    # What was told once is not told again.
    with serving(by_prompt({"and": [{"text": "ok"}]}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "--resume", session.stem, "and")
        said = json.dumps(server.requests[0].body["messages"])
        assert said.count(CUT_OFF) == 2


def first_run(home: Path, *args: str, **given: Any) -> Path:
    """A session in which one agent has worked and ended."""
    asked = {"go": [uses(agent("dig", **given)), {"text": "done"}], "dig": [{"text": "gold"}]}
    with serving(by_prompt(asked), strict=True) as server:
        assert clew(home, server.url, "-p", *args, "go").returncode == 0
    (path,) = agent_files(home)
    return path


def resumed(home: Path, path: Path) -> tuple[str, list[Json]]:
    """Return the result of a call that continues the agent of a file, and its requests."""
    agent_id = path.stem.removeprefix("agent-")
    asked = {
        "more": [
            uses(agent("deeper", resume=agent_id)),
            lambda body: {"text": results(body)[0].split("\n")[0]},
        ],
        "deeper": [heard("gold")],
    }
    (session,) = transcripts(home)
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(home, server.url, "-p", "--resume", session.stem, "more")
        return ran.stdout, [r.body for r in server.requests]


@requirement("R199", "R203", "W32")
def test_a_repaired_session_has_the_agents_of_the_one_it_was_made_of(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    (session,) = transcripts(tmp_path)
    results_of = session.with_suffix("") / "tool-results"
    results_of.mkdir()
    (results_of / "task-s1.txt").write_text("up\n", "utf-8")
    tasks = tmp_path / "config" / "tasks"
    (tasks / session.stem).mkdir(parents=True)
    (tasks / session.stem / "1.json").write_text('{"id":"1"}', "utf-8")
    before = path.read_bytes()
    said = session.read_text("utf-8")
    (parent,) = {e["parentUuid"] for e in lines(session) if "done" in str(e.get("message"))}
    session.write_text(said.replace(f'"parentUuid":"{parent}"', '"parentUuid":"gone"'), "utf-8")
    done = clew(tmp_path, "http://127.0.0.1:1", "sessions", "repair", session.stem)
    assert ", with 1 subagent; " in done.stdout, done
    (copy,) = set(transcripts(tmp_path)) - {session}
    (own,) = set(agent_files(tmp_path)) - {path}
    assert own.is_relative_to(copy.with_suffix(""))
    assert {line["sessionId"] for line in lines(own)} == {copy.stem}
    assert (copy.with_suffix("") / "tool-results" / "task-s1.txt").read_text("utf-8") == "up\n"
    assert (tasks / copy.stem / "1.json").read_text("utf-8") == '{"id":"1"}'
    session.rename(tmp_path / "away.jsonl")
    assert resumed(tmp_path, own)[0] == "gold: True\n"
    assert path.read_bytes() == before


@requirement("R205")
def test_remote_agents_of_another_program_are_listed_and_read_and_not_ended_here(
    tmp_path: Path,
) -> None:
    def typed(words: str) -> str:
        ran = clew(tmp_path, "http://127.0.0.1:1", "-p", "--continue", words)
        return ran.stdout + ran.stderr

    with serving(by_prompt({"go": [{"text": "done"}]}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go")
    (session,) = transcripts(tmp_path)
    assert "No background tasks" in typed("/tasks")
    folder = session.with_suffix("") / "remote-agents"
    folder.mkdir(parents=True)
    said = {"taskId": "r7", "title": "Paint it", "sessionId": "elsewhere-1", "log": ["x"]}
    (folder / "r7.meta.json").write_text(json.dumps(said), "utf-8")
    (folder / "torn.meta.json").write_text('{"taskId": "t', "utf-8")
    (folder / "deep.meta.json").write_text("[" * 100_000, "utf-8")
    os.mkfifo(folder / "pipe.meta.json")
    (line,) = (line for line in typed("/tasks").splitlines() if "remote agent" in line)
    assert line.split(maxsplit=1) == [
        "r7",
        "remote agent of another program, status unknown: Paint it",
    ]
    assert "elsewhere-1" in typed("/tasks r7")
    for word in ("stop", "keep"):
        assert "r7 runs in another program" in typed(f"/tasks {word} r7")
    assert 'unknown task "r8"' in typed("/tasks r8")


@requirement("R157", "R199")
def test_an_agent_of_a_group_continues_in_its_groups_folder(tmp_path: Path) -> None:
    asked: dict[str, list[Any]] = {
        "go": [uses(agent("dig", name="mole")), {"text": "done"}],
        "dig": [{"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go")
    (session,) = transcripts(tmp_path)
    (alone,) = agent_files(tmp_path)
    # As programs lay out what the agents of one workflow said.
    group = alone.parent / "workflows" / "run-7"
    group.mkdir(parents=True)
    for file in (alone, alone.with_suffix(".meta.json")):
        file.rename(group / file.name)
    for to in ("mole", alone.stem.removeprefix("agent-")):
        then = {
            "what now": [
                uses({"tool": "SendMessage", "input": {"to": to, "message": f"deeper, {to}"}}),
                {"text": "sent"},
            ],
            "deeper": [heard("dug")],
            "<task-notification>": [heard("dug: True")],
        }
        with serving(by_prompt(then), strict=True) as server:
            ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, "what now")
        assert ran.stdout == "sent\n\ndug: True: True\n", ran.stderr
        assert [path.name for path in alone.parent.rglob("agent-*.jsonl")] == [alone.name]
        assert f"deeper, {to}" in (group / alone.name).read_text("utf-8")


@requirement("R199", "R203")
def test_an_agent_continues_as_the_kind_it_was_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "digger.md").write_text(
        "---\ndescription: Digs\ntools: Read\n---\nYou dig.\n", "utf-8"
    )
    path = first_run(tmp_path, subagent_type="digger")
    said, requests = resumed(tmp_path, path)
    for _ in range(2):
        assert said == "gold: True\n"
        assert requests[1]["system"][0]["text"] == "You dig."
        assert [tool["name"] for tool in requests[1]["tools"]] == ["Read"]
        # The call that began it says what it was, too.
        path.with_suffix(".meta.json").unlink()
        said, requests = resumed(tmp_path, path)
    (folder / "digger.md").unlink()
    said, requests = resumed(tmp_path, path)
    assert "its type digger is no longer defined" in said
    path.with_suffix(".meta.json").unlink()
    other = path.rename(path.with_name("agent-of-no-call.jsonl"))
    said, requests = resumed(tmp_path, other)
    assert NO_TYPE in said
    assert len(requests) == 2


@requirement("R199", "R203")
def test_what_no_folder_took_of_agents_that_were_cut_off_is_known_from_their_calls(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path)
    inner = agent("hold", name="lamp", isolation="worktree")
    asked = {
        "go": [uses(agent("dig", run_in_background=True, name="mole")), {"text": "begun"}],
        "dig": [uses(inner)],
        "hold": [uses(WRITES), endless("hold")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, *FREE) as host,
    ):
        host.say("go")
        host.result()
        until(lambda: len([r for r in server.requests if "of an agent" in told(r.body)]) == 1)
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    before = {path: json.loads(path.read_bytes()) for path in metas(tmp_path)}
    for path in before:
        path.unlink()
    then = {
        "what now": [
            uses({"tool": "SendMessage", "input": {"to": "mole", "message": "go on"}}),
            {"text": "sent"},
        ],
        "go on": [
            uses({"tool": "SendMessage", "input": {"to": "lamp", "message": "up"}}),
            heard("lamp went on"),
        ],
        "<teammate-message": [{"text": "lamp went on"}],
        "<task-notification>": [heard("lamp went on: True")],
    }
    with serving(by_prompt(then), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", *FREE, "--continue", "what now")
        assert ran.returncode == 0, ran.stderr
        assert CUT_OFF in told(server.requests[0].body)
        assert any("lamp went on" in told(r.body) for r in server.requests)
    kept = {path: json.loads(path.read_bytes()) for path in metas(tmp_path)}
    same = ("agentType", "description", "toolUseId", "name", "cwd", "model", "parentAgentId")
    more = ("spawnDepth", "worktreePath", "worktreeBranch", "worktreeRepository")
    for path, said in before.items():
        for key in (*same, *more):
            assert kept[path].get(key) == said.get(key), key
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    assert (tree / "new.txt").exists()


def metas(home: Path) -> list[Path]:
    return [path.with_suffix(".meta.json") for path in agent_files(home)]


def test_an_agent_whose_folder_is_gone_does_not_go_on_elsewhere(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    meta = path.with_suffix(".meta.json")
    kept = json.loads(meta.read_text("utf-8"))
    meta.write_text(json.dumps(kept | {"cwd": str(tmp_path / "gone")}), "utf-8")
    said, _ = resumed(tmp_path, path)
    assert "its folder no longer exists" in said


def git(work: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=work, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def repository(home: Path) -> Path:
    work = home / "work"
    work.mkdir()
    git(work, "init")
    (work / "kept.txt").write_text("as it was\n", "utf-8")
    git(work, "add", ".")
    git(work, "commit", "-m", "first")
    git(work, "config", "user.name", "a")
    git(work, "config", "user.email", "a@b")
    return work


WRITES = {"tool": "Write", "input": {"file_path": "new.txt", "content": "of an agent\n"}}
FREE = ("--permission-mode", "acceptEdits")


def in_a_checkout(home: Path, *steps: Json) -> str:
    asked = {
        "go": [
            uses(agent("dig", isolation="worktree")),
            lambda body: {"text": results(body)[0]},
        ],
        "dig": [*steps, {"text": "dug"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(home, server.url, "-p", *FREE, "go")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def test_an_agent_in_a_worktree_of_its_own_leaves_the_repository_as_it_is_and_its_work_is_kept(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path)
    said = in_a_checkout(tmp_path, uses(WRITES))
    assert IN_WORKTREE in said
    assert not (work / "new.txt").exists()
    assert git(work, "status", "--porcelain") == ""
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    assert (tree / "new.txt").read_text("utf-8") == "of an agent\n"
    assert (tree / "kept.txt").exists()
    (session,) = transcripts(tmp_path)
    agent_id = tree.name.removeprefix("agent-")
    with serving(by_prompt({}), strict=True) as server:
        nameless = clew(tmp_path, server.url, "-p", "/agents merge")
        nobodys = clew(tmp_path, server.url, "-p", "/agents merge a0")
        elsewhere = clew(tmp_path, server.url, "-p", f"/agents merge {agent_id}")
        _, line = (
            (elsewhere.stdout + elsewhere.stderr).strip().split("merge its worktree, run: clew ")
        )
        merged = clew(tmp_path, server.url, *shlex.split(line))
    assert "/agents merge ID" in nameless.stdout + nameless.stderr
    assert "no worktree found for agent a0" in nobodys.stdout + nobodys.stderr
    assert session.stem in line
    assert merged.returncode == 0, merged.stdout
    assert (work / "new.txt").read_text("utf-8") == "of an agent\n"
    assert not tree.exists()
    assert git(work, "branch", "--list", "clew/*") == ""


def test_a_checkout_that_nothing_came_of_is_gone_again_and_back_when_its_agent_is(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path)
    said = in_a_checkout(tmp_path)
    assert IN_WORKTREE not in said
    assert not list((work / ".claude" / "worktrees").glob("agent-*"))
    assert git(work, "branch", "--list", "clew/*") == ""
    (path,) = agent_files(tmp_path)
    agent_id = path.stem.removeprefix("agent-")
    asked = {
        "more": [uses(agent("again", resume=agent_id)), {"text": "done"}],
        "again": [uses(WRITES), {"text": "written"}],
    }
    (session,) = transcripts(tmp_path)
    with serving(by_prompt(asked), strict=True) as server:
        clew(tmp_path, server.url, "-p", *FREE, "--resume", session.stem, "more")
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    assert (tree / "new.txt").exists()
    assert not (work / "new.txt").exists()
    with serving(by_prompt({}), strict=True) as server:
        said = clew(
            tmp_path, server.url, "-p", "--resume", session.stem, f"/agents discard {agent_id}"
        ).stdout
    assert agent_id in said
    assert not tree.exists()


BUILDS = """\
echo made > by-shell.txt
git add -A && git commit -qm two; echo "commit $?"
top=$(git rev-parse --git-common-dir)
for place in ../../settings.json $top/hooks/pre-commit $top/config ../other.txt .git .claude/x \\
    $top/worktrees/$(basename $PWD)/commondir
do (echo evil >> $place) 2>/dev/null && echo "written $place"; done; true
"""


@pytest.mark.parametrize("wall", ["bubblewrap", "landlock"])
def test_an_agent_works_in_its_checkout_in_the_sandbox_and_reaches_nothing_beside_it(
    tmp_path: Path, wall: Kind
) -> None:
    """Landlock cannot protect files in a folder that the agent writes: clew names what changed."""
    if not can(wall):
        pytest.skip(f"no {wall} here")
    work = repository(tmp_path)
    (tmp_path / "config").mkdir()
    others = {other: False for other in ("bubblewrap", "landlock") if other != wall}
    walls = {"sandbox": {"enabled": True}, "features": others}
    (tmp_path / "config" / "settings.json").write_text(json.dumps(walls), "utf-8")
    (work / "build.sh").write_text(BUILDS, "utf-8")
    git(work, "add", ".")
    git(work, "commit", "-m", "script")
    shell = {"tool": "Bash", "input": {"command": "bash build.sh"}}
    asked = {
        "go": [uses(agent("dig", isolation="worktree")), {"text": "done"}],
        "dig": [uses(shell), lambda body: {"text": results(body)[0]}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", *FREE, "--allowedTools", "Bash", "go")
        assert ran.returncode == 0, ran.stderr
        said = json.dumps(server.requests[-1].body["messages"])
    assert "commit 0" in said
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    assert (tree / "by-shell.txt").exists()
    if wall == "bubblewrap":
        assert "written" not in said
        assert git(tree, "log", "--format=%s").split() == ["two", "script", "first"]
        assert git(work, "status", "--porcelain") == ""
    else:
        named = said.partition("Check them before use:")[2]
        assert all(f"{place}" in named for place in (tree / ".git", work / ".git" / "config"))
        branch = f"clew/{tree.name}"
        assert git(work, "log", "--format=%s", branch).split() == ["two", "script", "first"]
        assert not (work / ".claude" / "settings.json").exists()
        assert not (work / ".git" / "hooks" / "pre-commit").exists()


def test_a_checkout_of_a_session_below_the_top_of_its_repository_can_be_written(
    tmp_path: Path,
) -> None:
    top = tmp_path / "work"
    top.mkdir()
    git(top, "init")
    (top / "work").mkdir()
    (top / "work" / "kept.txt").write_text("as it was\n", "utf-8")
    git(top, "add", ".")
    git(top, "commit", "-m", "first")
    asked = {
        "go": [uses(agent("dig", isolation="worktree")), {"text": "done"}],
        "dig": [uses(WRITES), lambda body: {"text": results(body)[0]}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(top, server.url, "-p", *FREE, "go")
        assert ran.returncode == 0, ran.stderr
    (tree,) = (top / ".claude" / "worktrees").glob("agent-*")
    assert (tree / "work" / "new.txt").read_text("utf-8") == "of an agent\n"
    assert (top / "work" / "kept.txt").exists()


def test_a_merge_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    work = repository(tmp_path)
    in_a_checkout(tmp_path, uses(WRITES))
    git(work, "checkout", "-b", "other")
    (work / "kept.txt").write_text("theirs\n", "utf-8")
    git(work, "commit", "-am", "theirs")
    git(work, "checkout", "-")
    (work / "kept.txt").write_text("ours\n", "utf-8")
    git(work, "commit", "-am", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(work, "merge", "other")
    (work / "kept.txt").write_text("half resolved\n", "utf-8")
    (session,) = transcripts(tmp_path)
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    line = f"/agents merge {tree.name.removeprefix('agent-')}"
    with serving(by_prompt({}), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, line)
    assert "a merge is in progress" in ran.stdout + ran.stderr
    assert (work / "kept.txt").read_text("utf-8") == "half resolved\n"
    assert git(work, "rev-parse", "MERGE_HEAD").strip() == git(work, "rev-parse", "other").strip()
    assert (tree / "new.txt").exists()


def test_a_merge_with_conflicts_is_undone_and_names_the_files(tmp_path: Path) -> None:
    work = repository(tmp_path)
    in_a_checkout(tmp_path, uses(WRITES))
    (work / "new.txt").write_text("of a person\n", "utf-8")
    git(work, "add", ".")
    git(work, "commit", "-m", "ours")
    ours = git(work, "rev-parse", "HEAD")
    (session,) = transcripts(tmp_path)
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    line = f"/agents merge {tree.name.removeprefix('agent-')}"
    with serving(by_prompt({}), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, line)
        said = ran.stdout + ran.stderr
        assert f"clew/{tree.name}: conflicts in new.txt. " in said
        assert (work / "new.txt").read_text("utf-8") == "of a person\n"
        assert git(work, "rev-parse", "HEAD") == ours
        assert git(work, "status", "--porcelain", "--untracked-files=no") == ""
        assert (tree / "new.txt").exists()
        # What it says to do next does what it says.
        with pytest.raises(subprocess.CalledProcessError):
            git(work, "merge", f"clew/{tree.name}")
        git(work, "commit", "-am", "both")
        clew(tmp_path, server.url, "-p", "--resume", session.stem, line)
    assert not tree.exists()


def test_a_checkout_begins_at_a_commit(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init")
    assert "has no commits yet" in in_a_checkout(tmp_path)


def test_a_checkout_needs_a_repository(tmp_path: Path) -> None:
    assert "git rev-parse" in in_a_checkout(tmp_path)


def test_a_hook_makes_and_takes_away_checkouts_where_it_wants_to(tmp_path: Path) -> None:
    made = tmp_path / "elsewhere"
    note = tmp_path / "removed.json"
    make = f"mkdir -p {made}; echo {made}"
    settings = {
        "hooks": {
            "WorktreeCreate": [{"hooks": [{"type": "command", "command": make}]}],
            "WorktreeRemove": [{"hooks": [{"type": "command", "command": f"cat > {note}"}]}],
        }
    }
    asked = {
        "go": [uses(agent("dig", isolation="worktree")), lambda b: {"text": results(b)[0]}],
        "dig": [uses(WRITES), {"text": "dug"}],
    }
    told = ("--settings", json.dumps(settings), "--add-dir", str(tmp_path))
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", *FREE, *told, "go")
    assert str(made) in ran.stdout
    assert (made / "new.txt").exists()
    assert json.loads(note.read_text("utf-8"))["worktree_path"] == str(made)
    failing = {"hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": "exit 1"}]}]}}
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", *FREE, "--settings", json.dumps(failing), "go")
    assert "A hook could not create a worktree" in ran.stdout


def test_an_agent_with_a_name_may_be_sent_on_before_it_waits(tmp_path: Path) -> None:
    note = tmp_path / "idle.json"
    once = f'test -e {note} && exit 0; cat > {note}; echo "tidy up first" >&2; exit 2'
    settings = {"hooks": {"TeammateIdle": [{"hooks": [{"type": "command", "command": once}]}]}}
    asked = {
        "go": [uses(agent("dig", name="mole")), lambda body: {"text": results(body)[0]}],
        "dig": [{"text": "dug"}],
        "tidy up first": [{"text": "tidy now"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--settings", json.dumps(settings), "go")
    assert ran.stdout.startswith("tidy now")
    assert json.loads(note.read_text("utf-8"))["teammate_name"] == "mole"


@requirement("R261", "R286")
def test_entries_of_named_agents_and_of_their_session_carry_the_team(tmp_path: Path) -> None:
    note = tmp_path / "idle.json"
    settings = {
        "hooks": {"TeammateIdle": [{"hooks": [{"type": "command", "command": f"cat > {note}"}]}]}
    }
    asked = {
        "go": [uses(agent("dig", name="mole"), agent("fly")), {"text": "done"}],
        "dig": [{"text": "dug"}],
        "fly": [{"text": "flown"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        clew(tmp_path, server.url, "-p", "nothing", "--settings", json.dumps(settings))
        clew(tmp_path, server.url, "-p", "go", "--settings", json.dumps(settings))
    (session,) = [path for path in transcripts(tmp_path) if path.with_suffix("").exists()]
    team = f"session-{session.stem[:8]}"
    assert json.loads(note.read_text("utf-8"))["team_name"] == team

    def members(path: Path) -> list[tuple[Any, Any]]:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [(e.get("teamName"), e.get("agentName")) for e in lines if "uuid" in e]

    def of_agents() -> list[set[tuple[Any, Any]]]:
        return [set(members(path)) for path in agent_files(tmp_path)]

    # The session has a team from the first named agent on, and what has no name is not in it.
    assert set(members(session)) == {(None, None), (team, None)}
    assert members(session)[0] == (None, None)
    assert members(session)[-1] == (team, None)
    assert {(team, "mole")} in of_agents()
    assert {(None, None)} in of_agents()

    # The next run goes on as it was, for the session and for the agent.
    then = {
        "on": [
            uses({"tool": "SendMessage", "input": {"to": "mole", "message": "deeper"}}),
            {"text": "sent"},
        ],
        "deeper": [{"text": "deeper dug"}],
        "<task-notification>": [{"text": "heard"}],
    }
    with serving(by_prompt(then), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, "on")
    assert ran.stdout == "sent\n\nheard\n", ran.stderr
    assert members(session)[-1] == (team, None)
    assert {(team, "mole")} in of_agents()

    # Readers select by it.
    listed = clew(tmp_path, "http://127.0.0.1:9", "sessions", "list", "--json", "--team", team)
    assert [(row["sessionId"], row["team"]) for row in json.loads(listed.stdout)] == [
        (session.stem, team)
    ]
    listed = clew(tmp_path, "http://127.0.0.1:9", "sessions", "list", "--json", "--team", "other")
    assert json.loads(listed.stdout) == []


def test_files_that_an_agent_changed_go_back_with_the_session(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig")), {"text": "done"}],
        "dig": [uses(WRITES), {"text": "dug"}],
    }
    prompt = "9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a01"
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, *FREE) as host,
    ):
        host.say("go", uuid=prompt)
        host.result()
        file = tmp_path / "work" / "new.txt"
        assert file.exists()
        assert host.ask("rewind_files", user_message_id=prompt)["response"]["canRewind"]
        assert not file.exists()


def test_a_stop_hook_hears_what_still_runs(tmp_path: Path) -> None:
    note = tmp_path / "stop.jsonl"
    hook = {"type": "command", "command": f"cat >> {note}; echo >> {note}"}
    settings = {"hooks": {"Stop": [{"hooks": [hook]}]}}
    asked = {
        "go": [uses(agent("dig", run_in_background=True)), {"text": "begun"}],
        "dig": [endless("dig")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url, "--settings", json.dumps(settings)) as host,
    ):
        host.say("go")
        host.result()
        (told,) = json.loads(note.read_text("utf-8").split("\n")[0])["background_tasks"]
        assert (told["task_type"], told["description"]) == ("local_agent", "some work")


def test_hundreds_of_agents_leave_no_files_open_and_the_first_still_continues(
    tmp_path: Path,
) -> None:
    many = 40

    def next_one(body: Json) -> Json:
        done = sum(m["role"] == "assistant" for m in body["messages"])
        return uses(agent(f"part {done}", name=f"n{done}"))

    asked = {
        "go": [
            *([next_one] * many),
            uses({"tool": "SendMessage", "input": {"to": "n0", "message": "again"}}),
            {"text": "sent"},
        ],
        "part": [{"text": "done"}],
        "again": [heard("part 0")],
        "<task-notification>": [heard("part 0: True")],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Hosted(tmp_path, server.url) as host,
    ):
        host.say("go")
        assert host.result()["result"] == "sent"
        assert host.result()["result"] == "part 0: True: True"
        held = [path.readlink() for path in Path(f"/proc/{host.process.pid}/fd").iterdir()]
        assert not [path for path in held if path.name.startswith("agent-")]
    assert len(agent_files(tmp_path)) == many


@requirement("R199")
def test_one_that_went_on_and_was_cut_off_is_not_said_to_have_ended(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", name="mole")), {"text": "dug"}],
        "on": [
            uses({"tool": "SendMessage", "input": {"to": "mole", "message": "deeper"}}),
            {"text": "sent"},
        ],
        "dig": [{"text": "gold"}],
        "deeper": [uses({"tool": "LS", "input": {"path": "."}}), endless("deeper")],
    }
    with serving(by_prompt(asked), strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        host.result()
        host.say("on")
        host.result()
        until(lambda: len([r for r in server.requests if "deeper" in told(r.body)]) == 3)
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    with serving(by_prompt({"what now": [{"text": "I see"}]}), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--continue", "what now")
        assert ran.stdout == "I see\n", ran.stderr
        said = told(server.requests[0].body)
    assert CUT_OFF in said
    assert "- LS ." in said


def gone_on(home: Path, agent_id: str) -> str:
    """Return the result of a message to an agent."""
    call = uses({"tool": "SendMessage", "input": {"to": agent_id, "message": "deeper"}})
    asked = {
        "more": [call, lambda body: {"text": results(body)[0]}],
        "deeper": [uses({"tool": "LS", "input": {"path": "."}}), {"text": "deep"}],
        "<task-notification>": [{"text": "it went on"}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        return clew(home, server.url, "-p", "--continue", "more").stdout


def test_a_checkout_that_is_gone_is_told_of_as_that(tmp_path: Path) -> None:
    work = repository(tmp_path)

    def takes_away(_: Json) -> Json:
        (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
        shutil.rmtree(tree)
        return {"text": "dug"}

    asked = {
        "go": [uses(agent("dig", isolation="worktree")), lambda body: {"text": results(body)[0]}],
        "dig": [uses(WRITES), takes_away],
    }
    with serving(by_prompt(asked), strict=True) as server:
        said = clew(tmp_path, server.url, "-p", *FREE, "go").stdout
    assert "no longer exists; its commits are on branch clew/agent-" in said
    assert "was kept" not in said
    (path,) = agent_files(tmp_path)
    agent_id = path.stem.removeprefix("agent-")
    (work / ".git").rename(tmp_path / "elsewhere")
    assert "was removed and can't be restored: git" in gone_on(tmp_path, agent_id)
    (tmp_path / "elsewhere").rename(work / ".git")
    assert gone_on(tmp_path, agent_id).endswith("\n\nit went on\n")


def test_a_merge_that_cannot_take_the_checkout_away_says_that_it_merged(tmp_path: Path) -> None:
    work = repository(tmp_path)
    in_a_checkout(tmp_path, uses(WRITES))
    (tree,) = (work / ".claude" / "worktrees").glob("agent-*")
    git(work, "worktree", "lock", str(tree))
    (session,) = transcripts(tmp_path)
    merge = f"/agents merge {tree.name.removeprefix('agent-')}"
    with serving(by_prompt({}), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "--resume", session.stem, merge)
    assert done.returncode == 0, done.stderr
    assert str(tree) in done.stdout
    assert "git worktree: " in done.stdout
    assert (work / "new.txt").exists()


def test_an_agent_goes_on_where_its_project_was_moved_to(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    old = str(tmp_path / "work")
    agent_id = path.stem.removeprefix("agent-")
    new = tmp_path / "new"
    new.mkdir()
    (tmp_path / "work").rename(new / "work")
    (new / "config").symlink_to(tmp_path / "config")
    done = clew(new, "http://127.0.0.1:1", "sessions", "relocate", old, str(new / "work"))
    assert done.returncode == 0, done.stderr
    assert gone_on(new, agent_id).endswith("\n\nit went on\n")
    (own,) = metas(tmp_path)
    assert json.loads(own.read_bytes())["cwd"] == str(new / "work")


def test_an_agent_changes_nothing_while_its_session_plans(tmp_path: Path) -> None:
    work = repository(tmp_path)
    editor = {"description": "edits", "prompt": "Edit.", "permissionMode": "acceptEdits"}
    asked = {
        "go": [
            uses(agent("dig", subagent_type="editor")),
            lambda body: {"text": results(body)[0]},
        ],
        "dig": [uses(WRITES), lambda body: {"text": results(body)[0]}],
    }
    said = {}
    for mode in ("plan", "default"):
        with serving(by_prompt(asked), strict=True) as server:
            words = ("-p", "--permission-mode", mode, "--agents", json.dumps({"editor": editor}))
            said[mode] = clew(tmp_path, server.url, *words, "go").stdout
        assert (work / "new.txt").exists() == (mode == "default"), said
    assert "plan mode" in said["plan"]
