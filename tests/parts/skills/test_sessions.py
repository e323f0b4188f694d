"""A folder of commands and skills in the published layouts, through the real program."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.core.messages.text import NOBODY_TO_ASK
from clew.testing.server import serving
from tests.agent.compaction.window import SUMMARY, is_summary_request
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

Json: TypeAlias = dict[str, Any]
PUBLISHED = Path(__file__).parent / "published"
FINE = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(PUBLISHED / "home", tmp_path / "config")
    shutil.copytree(PUBLISHED / "project", tmp_path / "work" / ".claude")
    (tmp_path / "work" / "notes.txt").write_text("remember the milk\n", "utf-8")
    return tmp_path


def trust(home: Path) -> None:
    folder = home / "config" / "clew"
    folder.mkdir(parents=True, exist_ok=True)
    work = str((home / "work").resolve())
    (folder / "trust.json").write_text(json.dumps({"folders": [work]}), "utf-8")


def run(home: Path, *args: str, plan: Any = FINE) -> tuple[Any, list[Json]]:
    with serving(plan, strict=True) as server:
        done = clew(home, server.url, "-p", *args)
        return done, [request.body for request in server.requests]


def said(body: Json) -> str:
    """Return all text of a request, except its tools and instructions."""
    return json.dumps(body["messages"], ensure_ascii=False)


def entries(home: Path) -> list[Json]:
    return [json.loads(line) for line in transcripts(home)[0].read_text("utf-8").splitlines()]


def skill(**given: str) -> Json:
    return {"content": [{"tool": "Skill", "input": given}]}


def plan_of(*answers: Json) -> Json:
    return {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}


def results(body: Json) -> list[Json]:
    return [
        block
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]


@requirement("R221")
def test_a_command_file_is_what_its_line_stands_for(home: Path) -> None:
    done, (body,) = run(home, "/ticket 12 'very high'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
    words = said(body)
    assert "Work on ticket 12 with priority very high." in words
    assert "Branch: feature/12" in words
    assert "remember the milk" in words
    assert "haiku" in body["model"]
    log = entries(home)
    typed = next(e for e in log if e["type"] == "user")
    assert typed["message"]["content"] == (
        "<command-message>ticket</command-message>\n<command-name>/ticket</command-name>\n"
        "<command-args>12 'very high'</command-args>"
    )
    text = next(e for e in log if e.get("isMeta"))
    assert text["origin"]["source"] == "user"
    assert next(e for e in log if e["type"] == "last-prompt")["lastPrompt"].startswith("/ticket 12")


def test_the_users_own_files_go_before_the_projects_which_stay_in_reach(home: Path) -> None:
    _, (body,) = run(home, "/project:ticket")
    assert "the project has taken over" in said(body)


def test_no_file_hides_a_command_of_clews_own(home: Path) -> None:
    done, bodies = run(home, "/help")
    assert not bodies
    assert "/front:check" in done.stdout
    assert "Checks the front end" in done.stdout
    assert "hide /help" not in done.stdout


def test_a_projects_command_runs_nothing_before_the_folder_is_trusted(home: Path) -> None:
    done, bodies = run(home, "/front:check")
    assert (done.returncode, bodies) == (1, [])
    assert "the command 'touch made-by-command' of" in done.stderr
    assert "clew config trust" in done.stderr
    assert not (home / "work" / "made-by-command").exists()
    trust(home)
    done, _ = run(home, "/front:check")
    assert done.returncode == 0
    assert (home / "work" / "made-by-command").exists()


def test_a_line_that_nobody_allows_names_the_rule_that_would(home: Path) -> None:
    line = "touch made && touch 'made too'"
    (home / "config" / "commands" / "poke.md").write_text(f"Look:\n\n!`{line}`\n", "utf-8")
    with serving(FINE, strict=True) as server:
        refused = clew(home, server.url, "-p", "/poke", "--output-format", "json")
        (why,) = json.loads(refused.stdout)["errors"]
        _, _, way = why.partition("To allow the command, run: clew ")
        words = shlex.split(way.partition(", or ")[0])
        added = clew(home, server.url, *words)
        allowed = clew(home, server.url, "-p", "/poke")
        asked = len(server.requests)
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["terminal_reason"] is None
    assert NOBODY_TO_ASK not in why
    assert (added.returncode, allowed.returncode, asked) == (0, 0, 1), allowed.stderr
    assert (home / "work" / "made too").exists()


@pytest.mark.parametrize(
    "words",
    [("--managed-settings",), ("--settings",)],
    ids=["of an administrator", "of the command line"],
)
def test_no_skill_runs_a_command_where_settings_disable_that(
    home: Path, words: tuple[str, ...]
) -> None:
    setting = '{"disableSkillShellExecution": true}'
    done, (body,) = run(home, "/ticket 12 high", *words, setting)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Work on ticket 12 with priority high." in said(body)
    assert "feature/12" not in said(body)
    assert "disableSkillShellExecution is set" in said(body)


def test_a_project_cannot_lift_what_the_users_settings_disable(home: Path) -> None:
    (home / "config" / "settings.json").write_text('{"disableSkillShellExecution": true}', "utf-8")
    (home / "work" / ".claude" / "settings.json").write_text(
        '{"disableSkillShellExecution": false}', "utf-8"
    )
    _, (body,) = run(home, "/ticket 12 high")
    assert "feature/12" not in said(body)


def test_a_file_that_a_command_names_in_vain_is_told_of(home: Path) -> None:
    text = "Read @docs/gone.md as @somebody does, with @angular/core.\n"
    (home / "config" / "commands" / "vain.md").write_text(text, "utf-8")
    done, bodies = run(home, "/vain")
    assert len(bodies) == 1
    assert done.stderr == ("clew: @docs/gone.md: file or folder not found; sent as plain text\n")


def test_a_skill_tells_where_its_files_are(home: Path) -> None:
    _, (body,) = run(home, "/changelog the new flag")
    words = said(body)
    assert f"The files of this skill are in {home / 'config' / 'skills' / 'changelog'}" in words
    assert "add an entry about: the new flag" in words


@requirement("R221")
def test_the_model_is_told_of_skills_and_loads_one(home: Path) -> None:
    plan = plan_of(skill(skill="/changelog", args="the flag"))
    done, bodies = run(home, "write the changelog", plan=plan)
    assert done.returncode == 0, done.stderr
    first, second = map(said, bodies)
    assert "- changelog: Writes an entry of the changelog." in first
    assert "migrations" not in first
    assert "- init" not in first
    assert "add an entry" not in first
    assert "add an entry about: the flag" in second
    assert bodies[0]["tools"] == bodies[1]["tools"]
    result = next(e for e in entries(home) if "toolUseResult" in e)["toolUseResult"]
    assert (result["commandName"], result["source"]) == ("changelog", "user")


@requirement("R221")
def test_skills_at_work_outlive_a_summary_within_their_budget(home: Path) -> None:
    long = home / "config" / "skills" / "endless" / "SKILL.md"
    long.parent.mkdir(parents=True)
    long.write_text(f"---\ndescription: Endless\n---\nAlways begin so. {'word ' * 50_000}", "utf-8")
    loads = iter([skill(skill="changelog", args="the flag"), {"text": "Done."}])

    def model(body: Json) -> Json:
        if is_summary_request(body):
            return {"text": SUMMARY}
        return next(loads, {"text": "Done."})

    with serving(model, strict=True) as server:
        assert clew(home, server.url, "-p", "write it").returncode == 0
        # Long enough that the second summary makes the conversation smaller.
        longer = "go on" + " please" * 10_000
        for line in ("/endless", "/compact", longer, "/compact", "and again"):
            done = clew(home, server.url, "-p", "--continue", line)
            assert done.returncode == 0, done.stderr
        bodies = [said(request.body) for request in server.requests]
    once, twice = bodies[-3], bodies[-1]
    for words in (once, twice):
        assert words.count("These skills were loaded earlier and still apply:") == 1
        assert words.count("add an entry about: the flag") == 1
        assert "Always begin so." in words
        assert "[... cut off]" in words
        assert len(words.replace(longer, "")) < 60_000
    assert "wants the lighthouse painted" in twice


def test_what_the_model_may_not_load_is_said(home: Path) -> None:
    plan = plan_of(
        skill(skill="init"), skill(skill="changelogs"), skill(search="commit"), skill(skill="")
    )
    _, bodies = run(home, "go", plan=plan)
    for_people, unknown, found, nothing = (one["content"] for one in results(bodies[-1]))
    assert "ask the user to type /init" in for_people
    assert "did you mean changelog?" in unknown
    assert found.startswith("- commit: Commit the work")
    assert "Skill not found: ''" in nothing


def test_a_skill_that_brings_rules_is_asked_about_and_they_end_with_the_prompt(home: Path) -> None:
    command = {"content": [{"tool": "Bash", "input": {"command": "echo again | tee b.txt"}}]}
    done, bodies = run(home, "go", plan=plan_of(skill(skill="ticket", args="1 low"), command))
    assert [one.get("is_error") for one in results(bodies[-1])] == [True, True]
    done, bodies = run(
        home,
        "go",
        "--allowedTools",
        "Skill(ticket)",
        plan=plan_of(skill(skill="ticket", args="1 low"), command),
    )
    loaded, ran = results(bodies[-1])
    assert "Branch: feature/1" in loaded["content"]
    assert "haiku" in bodies[1]["model"]
    assert ran["content"].strip() == "again"
    assert done.returncode == 0


GUARDED = """---
description: Looks, and leaves all as it is
disallowed-tools: Write, Bash(rm:*)
hooks:
  PreToolUse:
    - matcher: Read
      hooks:
        - type: command
          command: echo read >> reads.txt
        - type: command
          command: echo once >> reads.txt
          once: true
---
Look around.
"""


def guarded(home: Path, where: str, text: str = GUARDED) -> None:
    path = home / where / "skills" / "look" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")


READ = {"tool": "Read", "input": {"file_path": "notes.txt"}}
WRITE = {"tool": "Write", "input": {"file_path": "new.txt", "content": "x"}}


@pytest.mark.parametrize("before", ["", "\n  - "])
def test_what_a_skill_brings_and_takes_ends_with_the_prompt(home: Path, before: str) -> None:
    guarded(home, "config", GUARDED.replace("tools: ", f"tools: {before}"))
    remove = {"tool": "Bash", "input": {"command": "rm notes.txt"}}
    plan = plan_of(
        {"content": [READ, READ, WRITE, remove]}, {"text": "One."}, {"content": [READ, WRITE]}
    )
    with (
        serving(plan, strict=True) as server,
        Hosted(home, server.url, "--allowedTools", "Write,Bash") as host,
    ):
        host.ask("initialize")
        host.say("/look")
        assert host.result()["result"] == "One."
        host.say("go on")
        assert host.result()["result"] == "Done."
        assert host.end() == 0
        bodies = [request.body for request in server.requests]
    first, last = results(bodies[1]), results(bodies[-1])
    assert [one.get("is_error", False) for one in first] == [False, False, True, True]
    assert [one.get("is_error", False) for one in last[4:]] == [False, False]
    assert sorted((home / "work" / "reads.txt").read_text("utf-8").split()) == [
        "once",
        "read",
        "read",
    ]
    assert (home / "work" / "notes.txt").exists()
    assert (home / "work" / "new.txt").exists()


def test_hooks_of_a_projects_skill_wait_until_the_folder_is_trusted(home: Path) -> None:
    guarded(home, "work/.claude")
    reads = home / "work" / "reads.txt"
    done, _ = run(home, "/skills")
    assert "hooks ignored until trusted" in done.stdout
    plan = plan_of({"content": [READ, WRITE]})
    _, bodies = run(home, "/look", "--allowedTools", "Write", plan=plan)
    assert [one.get("is_error", False) for one in results(bodies[-1])] == [False, True]
    assert not reads.exists()
    trust(home)
    run(home, "/look", "--allowedTools", "Write", plan=plan)
    assert reads.exists()


def test_a_skill_with_hooks_is_asked_about_and_wrong_ones_are_said(home: Path) -> None:
    guarded(home, "config")
    _, bodies = run(home, "go", plan=plan_of(skill(skill="look")))
    assert [one.get("is_error") for one in results(bodies[-1])] == [True]
    path = home / "config" / "skills" / "look" / "SKILL.md"
    path.write_text(GUARDED.replace("PreToolUse", "Sometimes"), "utf-8")
    done, _ = run(home, "hi")
    assert f"{path}: hooks.Sometimes" in done.stderr
    assert "unknown event" in done.stderr


def test_a_skill_for_another_shell_is_run_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "config" / "skills" / "shell" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nshell: powershell\n---\nIt says !`Get-Location`.", "utf-8")
    programs = home / "programs"
    programs.mkdir()
    fake = programs / "pwsh"
    fake.write_text("#!/bin/sh\necho from pwsh\n", "utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done, bodies = run(home, "/shell", "--allowedTools", "PowerShell")
    assert done.returncode == 0, done.stderr
    assert "It says from pwsh." in said(bodies[0])


def test_a_skill_for_certain_files_is_told_when_one_is_touched(home: Path) -> None:
    sql = home / "work" / "db" / "1.sql"
    sql.parent.mkdir()
    sql.write_text("select 1;\n", "utf-8")
    nested = home / "work" / "db" / ".claude" / "skills" / "seed"
    nested.mkdir(parents=True)
    (nested / "SKILL.md").write_text("---\ndescription: Fills the tables\n---\nGo", "utf-8")
    read = {"content": [{"tool": "Read", "input": {"file_path": str(sql)}}]}
    _, bodies = run(home, "go", plan=plan_of(read))
    assert "migrations" not in said(bodies[0])
    assert "- migrations: Rules for database migrations" in said(bodies[1])
    assert "- seed: Fills the tables" in said(bodies[1])
    _, (body,) = run(home, "--continue", "and on")
    assert said(body).count("migrations: Rules") == 1
    assert "gone" not in said(body)


def test_a_host_sees_commands_and_skills_and_calls_them(home: Path) -> None:
    with serving(FINE, strict=True) as server, Hosted(home, server.url) as host:
        answer = host.ask("initialize")["response"]
        host.say("/ticket 7 low")
        assert host.result()["result"] == "Done."
        host.say([{"type": "text", "text": "on"}])
        host.result()
        assert host.end() == 0
        models = [request.body["model"] for request in server.requests]
    known = {one["name"]: one for one in answer["commands"]}
    assert known["ticket"]["argumentHint"] == "[number] [priority]"
    assert not known["ticket"]["builtin"]
    assert known["commit"]["builtin"]
    assert "migrations" not in known
    init = next(f for f in host.frames if f.get("subtype") == "init")
    assert {"ticket", "changelog", "front:check", "clear"} <= set(init["slash_commands"])
    assert {"changelog", "migrations", "verify"} <= set(init["skills"])
    assert ["haiku" in model for model in models] == [True, False]


def test_a_session_without_setting_sources_has_what_is_bundled(home: Path) -> None:
    with (
        serving(FINE, strict=True) as server,
        Hosted(home, server.url, "--setting-sources", "") as host,
    ):
        host.say("hi")
        host.result()
        host.end()
    init = next(f for f in host.frames if f.get("subtype") == "init")
    assert "ticket" not in init["slash_commands"]
    assert sorted(init["skills"]) == ["commit", "init", "review", "verify"]


def test_what_is_wrong_with_a_file_is_said_and_costs_no_more(home: Path) -> None:
    bad = home / "config" / "commands" / "bad.md"
    bad.write_text("---\ndescription: Bad\nhooks:\n  - a: 1\n b\n---\nStill here.", "utf-8")
    done, (body,) = run(home, "/bad")
    assert f"clew: {bad}:3: hooks: " in done.stderr
    assert "Still here." in said(body)


def test_a_skill_of_an_agents_is_done_by_one(home: Path) -> None:
    folder = home / "config" / "skills" / "count"
    folder.mkdir()
    head = "---\ndescription: Counts\ncontext: fork\nagent: Explore\n---\n"
    (folder / "SKILL.md").write_text(f"{head}Count the $ARGUMENTS.", "utf-8")
    plan = plan_of(skill(skill="count", args="files"), {"text": "There are two."})
    _, bodies = run(home, "how many?", plan=plan)
    assert "Count the files." in said(bodies[1])
    assert "how many?" not in said(bodies[1])
    (result,) = results(bodies[2])
    assert "There are two." in json.dumps(result)
    _, (body,) = run(home, "/count folders")
    assert "Have an agent of the type Explore do the following" in said(body)


def test_a_host_chooses_which_skills_are_the_models_and_has_them_looked_for(home: Path) -> None:
    with serving(FINE, strict=True) as server, Hosted(home, server.url) as host:
        commands = host.ask("initialize", skills=["changelog", "late"])["response"]["commands"]
        host.say("hi")
        host.result()
        late = home / "config" / "skills" / "late"
        late.mkdir()
        (late / "SKILL.md").write_text("---\ndescription: Came late\n---\nLate.", "utf-8")
        skills = host.ask("reload_skills")["response"]["skills"]
        changed = next(f for f in host.frames if f.get("subtype") == "commands_changed")
        assert "late" not in {row["name"] for row in commands}
        assert "late" in {row["name"] for row in changed["commands"]}
        assert {"late": "Came late"}.items() <= {
            s["name"]: s["description"] for s in skills
        }.items()
        host.say("on")
        host.result()
        assert host.end() == 0
        first, second = (said(request.body) for request in server.requests)
    assert "- changelog: " in first
    assert "- commit" not in first
    assert "- late: Came late" in second


def test_a_user_is_asked_for_what_a_command_wants_run(home: Path) -> None:
    with serving(FINE, strict=True) as server, Terminal(home, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("/front:check\n")
        terminal.expect("touch made-by-command")
        terminal.expect("runs this command before the model reads the skill")
        terminal.expect("anything else = ")
        terminal.type("n\n")
        terminal.expect("was denied")
        terminal.expect("> ")
        terminal.type("/front:check\n")
        terminal.expect("anything else = ")
        terminal.type("y\n")
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("exit\n")
        assert terminal.end() == 0
    assert (home / "work" / "made-by-command").exists()
    assert len(server.requests) == 1
