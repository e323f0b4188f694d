"""Flags that change the kind of session: an agent type, a worktree, a token budget."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.core.messages.errors import CommandLineError
from clew.fronts.headless.permission import FAILED
from clew.session.flags import parse
from clew.session.worktree import NO_REPOSITORY
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.parts.mcp.yard import entry
from tests.requirements import requirement
from tests.wording import head

Json: TypeAlias = dict[str, Any]
YES = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}
KINDS = {
    "reviewer": {
        "description": "reviews",
        "prompt": "You review and change nothing.",
        "tools": ["Read", "Grep", "mcp__memo__echo"],
        "model": "haiku",
        "effort": "low",
        "permissionMode": "plan",
        "initialPrompt": "Look first.",
        "mcpServers": {"memo": entry("honest")},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch stopped"}]}]},
    }
}
AGENT = ("--agents", json.dumps(KINDS), "--agent", "reviewer")


def names(body: Json) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


def words(body: Json) -> str:
    return json.dumps(body["messages"])


def system(body: Json) -> str:
    return "\n".join(block["text"] for block in body["system"])


def ran(home: Path, url: str, *args: str, code: int = 0, **more: Any) -> str:
    done = clew(home, url, "-p", "go", *args, **more)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize("own", ["acceptEdits", "plan"])
def test_a_resumed_session_does_not_choose_an_agent_with_a_wider_mode(
    tmp_path: Path, own: str
) -> None:
    """A transcript may come from someone else, and name an agent of the user's own."""
    folder = tmp_path / "config" / "agents"
    folder.mkdir(parents=True)
    text = f"---\nname: fixer\ndescription: fixes\npermissionMode: {own}\n---\nFix it.\n"
    (folder / "fixer.md").write_text(text, "utf-8")
    write = {"content": [{"tool": "Write", "input": {"file_path": "made", "content": "x"}}]}
    plan = {"scenario": 1, "answers": [{"text": "Hello!"}, write, {"text": "Y", "times": "always"}]}
    frames = ("--output-format", "stream-json", "--verbose")
    with serving(plan, strict=True) as server:
        first = ran(tmp_path, server.url, "--agent", "fixer", *frames)
        again = ran(tmp_path, server.url, "--continue", *frames)
        assert system(server.requests[-1].body).startswith("Fix it.")
        chosen = ran(tmp_path, server.url, "--continue", "--agent", "fixer", *frames)
    modes = [json.loads(out.splitlines()[0])["permissionMode"] for out in (first, again, chosen)]
    assert modes == [own, "default" if own == "acceptEdits" else "plan", own]
    assert not (tmp_path / "work" / "made").exists()


def test_a_session_is_an_agent_of_a_kind_and_stays_one(tmp_path: Path) -> None:
    with serving(YES, strict=True) as server:
        ran(tmp_path, server.url, *AGENT)
        body = server.requests[-1].body
        assert system(body).startswith("You review and change nothing.")
        assert "You are clew" not in system(body)
        assert "haiku" in body["model"]
        assert body["output_config"] == {"effort": "low"}
        assert names(body) == ["Grep", "Read", "ToolSearch", "mcp__memo__echo"]
        assert "Look first.\\n\\ngo" in words(body)
        assert (tmp_path / "work" / "stopped").exists()
        (path,) = transcripts(tmp_path)
        assert '"agentSetting":"reviewer"' in path.read_text("utf-8")

        ran(tmp_path, server.url, "--continue", *AGENT[:2])
        again = server.requests[-1].body
        assert (again["model"], system(again)) == (body["model"], system(body))
        assert names(again) == names(body)
        assert words(again).count("Look first.") == 1
        assert path.read_text("utf-8").count('"agentSetting"') == 1

        done = clew(tmp_path, server.url, "-p", "go", "--continue")
        assert "the session continues without an agent: unknown agent type reviewer" in done.stderr


def test_the_command_line_stands_above_the_agents_definition(tmp_path: Path) -> None:
    above = ("--model", "opus", "--effort", "high", "--system-prompt", "Mine.")
    with (
        serving(YES, strict=True) as server,
        Hosted(tmp_path, server.url, *AGENT, *above, "--permission-mode", "dontAsk") as host,
    ):
        host.say("go")
        assert host.until(lambda f: f.get("subtype") == "init")["permissionMode"] == "dontAsk"
        host.result()
        body = server.requests[-1].body
    assert "opus" in body["model"]
    assert body["output_config"] == {"effort": "high"}
    assert system(body) == "Mine."


def test_the_mode_and_the_setting_of_an_agent_hold_for_the_session(tmp_path: Path) -> None:
    settings = json.dumps({"agent": "reviewer"})
    with (
        serving(YES, strict=True) as server,
        Hosted(tmp_path, server.url, *AGENT[:2], "--settings", settings) as host,
    ):
        host.say("go")
        assert host.until(lambda f: f.get("subtype") == "init")["permissionMode"] == "plan"
        host.result()
        assert system(server.requests[-1].body).startswith("You review")


@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
def test_the_agent_of_a_folders_own_settings_waits_until_the_folder_is_trusted(
    tmp_path: Path, file: str
) -> None:
    own = tmp_path / "work" / ".claude"
    (own / "agents").mkdir(parents=True)
    (own / file).write_text('{"agent": "reviewer"}', "utf-8")
    text = "---\nname: reviewer\ndescription: Reviews\n---\nYou review.\n"
    (own / "agents" / "reviewer.md").write_text(text, "utf-8")
    with serving(YES, strict=True) as server:
        told = clew(tmp_path, server.url, "-p", "go").stderr
        assert f"{file}: agent: ignored because the folder is not trusted" in told
        assert not system(server.requests[-1].body).startswith("You review")
        assert clew(tmp_path, server.url, "config", "trust").returncode == 0
        assert "ignored because" not in clew(tmp_path, server.url, "-p", "go").stderr
        assert system(server.requests[-1].body).startswith("You review")


def test_an_agent_that_is_not_there_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    with serving(YES) as server:
        told = ran(tmp_path, server.url, *AGENT[:3], "reviewr", code=1)
        assert "--agent: unknown agent type reviewr (did you mean reviewer?)" in told
        assert server.requests == []


# -- a checkout of its own


def git(folder: Path, *args: str) -> str:
    own = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(
        ["git", *own, *args], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "sub" / "a.txt").write_text("a\n", "utf-8")
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    return work


def bash(command: str) -> Json:
    call = {"content": [{"tool": "Bash", "input": {"command": command}}]}
    return {"scenario": 1, "answers": [call, {"text": "Done.", "times": "always"}]}


def test_a_session_works_in_a_worktree_of_its_own_and_its_work_is_kept(
    tmp_path: Path, repository: Path
) -> None:
    tree = repository / ".claude" / "worktrees" / "fix"
    with serving(bash("echo b > sub/a.txt; pwd"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--worktree=fix", "--allowedTools", "Bash")
        assert done.returncode == 0
        assert done.stderr == f"clew: kept the worktree {tree} on branch clew/fix\n"
        assert str(tree) in words(server.requests[-1].body)
        assert (tree / "sub" / "a.txt").read_text("utf-8") == "b\n"
        assert (repository / "sub" / "a.txt").read_text("utf-8") == "a\n"
        (path,) = transcripts(tmp_path)
        lines = map(json.loads, path.read_text("utf-8").splitlines())
        (state,) = [line["worktreeSession"] for line in lines if line["type"] == "worktree-state"]
        assert state["worktreePath"] == str(tree)
        assert (state["worktreeName"], state["worktreeBranch"]) == ("fix", "clew/fix")
        assert state["originalHeadCommit"] == git(repository, "rev-parse", "HEAD").strip()

        # The same name is the same checkout, and the session in it goes on.
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix", "--continue")
        assert (done.returncode, done.stderr) == (0, "")
        done = clew(tmp_path, server.url, "-p", "go", "--resume", path.stem)
        assert (
            f"this session ran in {tree}; to resume it there, run clew --worktree fix --resume"
            in done.stderr
        )


def test_a_checkout_in_which_nothing_came_of_it_is_gone_again(
    tmp_path: Path, repository: Path
) -> None:
    with serving(bash("git branch --show-current"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash", "-w")
        assert (done.returncode, done.stderr) == (0, "")
        assert "clew/session-" in words(server.requests[-1].body)
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "branch", "--list", "clew/*") == ""


def test_what_git_ignores_is_work_too_but_not_what_tools_make_again(
    tmp_path: Path, repository: Path
) -> None:
    (repository / ".gitignore").write_text(".env\n__pycache__/\n", "utf-8")
    git(repository, "add", ".gitignore")
    git(repository, "commit", "-qm", "second")
    trees = repository / ".claude" / "worktrees"
    with serving(bash("mkdir sub/__pycache__; touch sub/__pycache__/a.pyc"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w=one", "--allowedTools", "Bash")
        assert (done.returncode, done.stderr) == (0, "")
    assert not (trees / "one").exists()
    with serving(bash("echo secret > .env"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w=two", "--allowedTools", "Bash")
        assert done.returncode == 0
    assert "clew: kept the worktree " in done.stderr
    assert (trees / "two" / ".env").read_text("utf-8") == "secret\n"


def test_a_checkout_needs_a_commit_to_begin_at(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    git(tmp_path / "work", "init")
    with serving(YES) as server:
        assert "{} has no commits yet".format(tmp_path / "work") in ran(
            tmp_path, server.url, "--worktree", code=1
        )
        assert server.requests == []


def test_a_checkout_needs_a_repository_and_a_name_that_is_one(tmp_path: Path) -> None:
    with serving(YES) as server:
        assert NO_REPOSITORY in ran(tmp_path, server.url, "--worktree", code=1)
        for name in ("../up", "a..b", "one.lock", "end.", ".hid", "x" * 65):
            said = ran(tmp_path, server.url, f"--worktree={name}", code=1)
            assert f"--worktree {name}: the name must consist of" in said
        assert server.requests == []


# -- what is named in vain


def test_a_tool_that_nobody_has_and_a_folder_that_is_not_there_are_said(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    named = ("--allowedTools", "Reed,bash(git log *),Bash(git *),mcp__a__b,mcp__a,Task,Config")
    others = ("--disallowedTools", "Nonsense mcp__* Foo*", "--add-dir", "../lib", "--add-dir", "../lbi")  # fmt: skip
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", *named, *others)
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert done.stderr.splitlines() == [
        'clew: --allowedTools Reed: unknown tool "Reed" (did you mean "Read"?)',
        'clew: --allowedTools bash(git log *): unknown tool "bash" (did you mean "Bash"?)',
        'clew: --disallowedTools Nonsense: unknown tool "Nonsense"',
        f"clew: --add-dir ../lbi: {tmp_path}/work/../lbi does not exist; "
        "clew will use it once the folder exists",
    ]


def test_rules_of_settings_for_a_tool_that_nobody_has_are_said_with_their_place(
    tmp_path: Path,
) -> None:
    own = tmp_path / "config" / "settings.json"
    own.parent.mkdir(exist_ok=True)
    deny = ["Bsh", "Raed(x)", "mcp__a__b", "Foo*", "CronList", "KillBash", "Bash(rm *)"]
    own.write_text(json.dumps({"permissions": {"deny": deny}}, indent=1), "utf-8")
    given = json.dumps({"permissions": {"allow": ["bash(ls)", "Read"]}})
    forbidden = json.dumps({"permissions": {"ask": ["Wrte"]}, "disallowBypass": 1})
    with serving(YES, strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "go", "--allowedTools", "Reed", "--settings", given,
            "--managed-settings", forbidden,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert sorted(done.stderr.splitlines()) == [
        'clew: --allowedTools Reed: unknown tool "Reed" (did you mean "Read"?)',
        'clew: --managed-settings:1: ask Wrte: unknown tool "Wrte" (did you mean "Write"?)',
        'clew: --managed-settings:1: unknown key "disallowBypass" '
        '(did you mean "permissions.disableBypassPermissionsMode"?)',
        'clew: --settings: allow bash(ls): unknown tool "bash" (did you mean "Bash"?)',
        f'clew: {own}:4: deny Bsh: unknown tool "Bsh" (did you mean "Bash"?)',
        f'clew: {own}:5: deny Raed(x): unknown tool "Raed" (did you mean "Read"?)',
    ]


def test_an_agents_file_that_names_a_tool_that_nobody_has_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config" / "agents" / "looker.md"
    file.parent.mkdir(parents=True)
    head = "name: looker\ndescription: looks\ntools: Read, Grp, mcp__a, Bash(ls *)\ndisallowedTools: Wrte"
    file.write_text(f"---\n{head}\n---\nLook.\n", "utf-8")
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go")
    assert done.stdout == "Yes.\n"
    assert done.stderr.splitlines() == [
        f'clew: {file}: tools: unknown tool "Grp" (did you mean "Grep"?)',
        f'clew: {file}: disallowedTools: unknown tool "Wrte" (did you mean "Write"?)',
    ]


def test_that_there_is_nothing_to_continue_with_is_said(tmp_path: Path) -> None:
    with serving(YES, strict=True) as server:
        first = clew(tmp_path, server.url, "-p", "go", "--continue")
        second = clew(tmp_path, server.url, "-p", "go", "--continue")
    assert (first.returncode, first.stdout) == (0, "Yes.\n")
    assert (
        first.stderr
        == "clew: --continue: no session to continue in this folder; starting a new session\n"
    )
    assert (second.returncode, second.stderr) == (0, "")
    assert len(transcripts(tmp_path)) == 1


def test_what_is_named_rightly_is_not_remarked_upon(tmp_path: Path) -> None:
    every = "Agent,Bash,Edit,Glob,Grep,LSP,Read,Skill,Task,TodoWrite,WebFetch,WebSearch,Write,NotebookEdit,ToolSearch,ExitPlanMode,AskUserQuestion,PowerShell,KillShell,BashOutput,SlashCommand"
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", every)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "-p go --allowedTools Bash Write Read",
        "-p --allowed-tools=Bash Write go",
        "--allowedTools Bash Write -p -- go",
        "-p --disallowedTools Glob Grep --allowedTools mcp__a__b Write go",
    ],
)
def test_a_flag_takes_every_rule_after_it_and_leaves_the_prompt(tmp_path: Path, line: str) -> None:
    made = tmp_path / "work" / "made"
    writes = {"tool": "Write", "input": {"file_path": str(made), "content": "x"}}
    scenario = {"scenario": 1, "answers": [{"content": [writes]}, *YES["answers"]]}
    with serving(scenario, strict=True) as server:
        done = clew(tmp_path, server.url, *line.split())
        said = json.dumps(server.requests[0].body["messages"])
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert made.read_text("utf-8") == "x"
    assert said.startswith('[{"role": "user", "content": "go"}') or '"text": "go"' in said


# -- what the model is told


def test_the_model_is_told_a_budget_for_the_task_and_no_agent_of_the_session_is(
    tmp_path: Path,
) -> None:
    with serving(YES, strict=True) as server:
        ran(tmp_path, server.url, "--task-budget", "64000")
        request = server.requests[-1]
        budget = {"type": "tokens", "total": 64_000}
        assert request.body["output_config"]["task_budget"] == budget
        assert "task-budgets-2026-03-13" in dict(request.headers)["anthropic-beta"]
    with pytest.raises(CommandLineError, match="at least 1"):
        parse(["--task-budget=0"])


def test_without_a_snapshot_every_run_makes_its_own_system_prompt(tmp_path: Path) -> None:
    with serving(YES, strict=True) as server:
        ran(tmp_path, server.url, "--system-prompt-snapshot", "off")
        (path,) = transcripts(tmp_path)
        assert "prompt-hashes" not in path.read_text("utf-8")
        assert not (tmp_path / "config" / "clew" / "prompts").exists()
        ran(tmp_path, server.url, "--continue", "--system-prompt-snapshot=on")
        assert "prompt-hashes" in path.read_text("utf-8")


@requirement("C2")
def test_no_fact_of_the_machine_stands_in_the_system_prompt_whatever_is_said(
    tmp_path: Path,
) -> None:
    with serving(YES, strict=True) as server:
        ran(tmp_path, server.url)
        ran(tmp_path, server.url, "--exclude-dynamic-system-prompt-sections")
        plain, excluded = (request.body for request in server.requests)
    assert plain["system"] == excluded["system"]
    assert str(tmp_path) not in system(plain)
    assert str(tmp_path) in words(plain)


# -- who is asked


MAKES: Json = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "Done.", "times": "always"},
    ],
}

ASKED = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    method, given = said.get("method"), said.get("params", {})
    if "id" not in said:
        continue
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
    elif method == "tools/list":
        result = {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        asked = given["arguments"]
        assert asked["tool_name"] == "Bash" and asked["tool_use_id"]
        result = {"content": [{"type": "text", "text": VERDICT.replace("CMD", asked["input"]["command"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("form", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("verdict", "told", "made"),
    [
        ('{"behavior": "allow", "updatedInput": {"command": "CMD-other"}}', "Done.", "made-other"),
        ('{"behavior": "deny", "message": "Not today."}', "Not today.", ""),
        ("neither", "Tool permission request failed", ""),
        ('{"behavior": "perhaps"}', "Tool permission request failed", ""),
    ],
)
def test_a_tool_of_a_server_is_asked_for_permission(
    tmp_path: Path, form: str, verdict: str, told: str, made: str
) -> None:
    program = tmp_path / "asked.py"
    program.write_text(f"VERDICT = {verdict!r}\n{ASKED}", "utf-8")
    server_entry = {"command": sys.executable, "args": ["-I", "-S", str(program)]}
    config = json.dumps({"mcpServers": {"desk": server_entry}})
    asks = ("--mcp-config", config, "--permission-prompt-tool", "mcp__desk__ask")
    with serving(MAKES, strict=True) as server:
        ran(tmp_path, server.url, *asks, "--output-format", form, "--verbose")
        assert told in words(server.requests[-1].body) + "Done."
    found = [path.name for path in (tmp_path / "work").iterdir() if path.name.startswith("made")]
    assert found == ([made] if made else [])


def test_a_tool_for_permission_that_is_not_there_denies(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server:
        ran(tmp_path, server.url, "--permission-prompt-tool", "mcp__desk__ask")
        assert head(FAILED) in words(server.requests[-1].body)
    assert not (tmp_path / "work" / "made").exists()


def test_nobody_is_asked_where_prompts_are_none(tmp_path: Path) -> None:
    none = ("--permission-prompt-tool", "stdio", "--permission-prompts=none")
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *none) as host:
        host.say("go")
        said = host.result()
        assert [one["tool_name"] for one in said["permission_denials"]] == ["Bash"]
        assert not any(frame["type"] == "control_request" for frame in host.frames)
        assert "AskUserQuestion" not in names(server.requests[0].body)
    with pytest.raises(CommandLineError, match="requires --print"):
        parse(["--permission-prompts", "none"])


# -- what a host hears and when


def test_what_may_be_asked_next_is_said_after_the_second_turn(tmp_path: Path) -> None:
    def answer(body: Json) -> Json:
        return {"text": "Run the\n tests" if "haiku" in body["model"] else "Done."}

    with serving(answer) as server, Hosted(tmp_path, server.url, "--prompt-suggestions") as host:
        host.say("mend the dates")
        host.result()
        host.say("and the times")
        host.result()
        said = host.until(lambda f: f["type"] == "prompt_suggestion")
        assert said["suggestion"] == "Run the tests"
        asked = [r.body for r in server.requests if "haiku" in r.body["model"]]
        assert len(asked) == 1
        assert "The person: mend the dates" in words(asked[0])
        assert "The agent: Done." in words(asked[0])
        host.say("run them")
        host.result()
        # Nothing more is said; the guess behind the last turn is still told.
        assert host.end() == 0
        assert host.frames[-1]["type"] in ("prompt_suggestion", "system")
        assert [f["type"] for f in host.frames].count("prompt_suggestion") == 2


@pytest.mark.parametrize(
    ("words_of", "environ"),
    [
        (["--settings", '{"promptSuggestionEnabled": false}'], {}),
        ([], {"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}),
        (["--permission-mode", "plan"], {}),
        (["--prompt-suggestions=off"], {}),
    ],
)
def test_nothing_is_guessed_where_nobody_wants_it(
    tmp_path: Path, words_of: list[str], environ: dict[str, str]
) -> None:
    with (
        serving(YES) as server,
        Hosted(tmp_path, server.url, "--prompt-suggestions=on", *words_of, **environ) as host,
    ):
        for _ in range(3):
            host.say("go")
            host.result()
        assert host.end() == 0
        assert "prompt_suggestion" not in host.kinds()
        assert len(server.requests) == 3


def test_nothing_begins_before_the_host_has_introduced_itself(tmp_path: Path) -> None:
    with (
        serving(YES, strict=True) as server,
        Hosted(tmp_path, server.url, "--await-initialize") as host,
    ):
        host.say("go")
        assert host.ask("initialize", systemPrompt=["Be brief."])["subtype"] == "success"
        host.result()
        assert system(server.requests[-1].body) == "Be brief."
    with (
        serving(YES, strict=True) as server,
        Hosted(tmp_path, server.url, "--await-initialize") as host,
    ):
        # A host that never does is served all the same once it says nothing more.
        host.say("one")
        host.say("two")
        assert host.end() == 0
        assert host.kinds().count("success") == 2


HOOK_MAKES = {
    "type": "command",
    "command": "read -r said; d=$HOME/made; git clone -q . $d 2>/dev/null || mkdir -p $d; "
    'echo "$said" > $HOME/asked.json; echo making; echo $d',
}
HOOK_TAKES = {"type": "command", "command": "cat > $HOME/taken.json; rm -r $HOME/made"}


def with_hooks(home: Path, *, makes: Json = HOOK_MAKES, **events: Any) -> tuple[Path, Path, Path]:
    made = {
        "WorktreeCreate": [{"hooks": [makes]}],
        "WorktreeRemove": [{"hooks": [HOOK_TAKES]}],
        **events,
    }
    write(home / "config" / "settings.json", json.dumps({"hooks": made}))
    return home / "made", home / "asked.json", home / "taken.json"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_a_hook_makes_the_checkout_of_a_session_and_takes_it_away(
    tmp_path: Path, repository: Path
) -> None:
    made, asked, taken = with_hooks(tmp_path)
    with serving(bash("pwd"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix")
        assert done.returncode == 0, done.stderr
        assert str(made) in json.dumps(server.requests[-1].body["messages"])
    assert json.loads(asked.read_text("utf-8"))["name"] == "fix"
    assert json.loads(taken.read_text("utf-8"))["worktree_path"] == str(made)
    assert not made.exists()
    assert not (repository / ".claude" / "worktrees").exists()
    (path,) = transcripts(tmp_path)
    assert '"hookBased":true' in path.read_text("utf-8")


def test_a_checkout_of_a_hook_is_kept_with_what_stands_in_it(
    tmp_path: Path, repository: Path
) -> None:
    made, _, taken = with_hooks(tmp_path)
    with serving(bash("echo mine > kept.txt"), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix", "--allowedTools", "Bash")
    assert (made / "kept.txt").read_text("utf-8") == "mine\n"
    assert f"kept the worktree {made}, created by a hook" in done.stderr
    assert not taken.exists()
    assert not (repository / "kept.txt").exists()


def test_a_hook_makes_checkouts_of_what_is_no_repository(tmp_path: Path) -> None:
    made, _, taken = with_hooks(tmp_path)
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix")
    assert done.returncode == 0, done.stderr
    # Nobody can say whether anything came of it.
    assert made.is_dir()
    assert not taken.exists()
    assert f"kept the worktree {made}, created by a hook" in done.stderr


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo not today >&2; exit 1", "a hook failed to create the worktree"),
        ("echo /nowhere/at/all", "which is not a folder"),
    ],
)
def test_a_hook_that_makes_no_checkout_begins_no_session(
    command: str, why: str, tmp_path: Path
) -> None:
    with_hooks(tmp_path, makes={"type": "command", "command": command})
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix")
        assert server.requests == []
    assert done.returncode == 1
    assert why in done.stderr


def test_a_folder_nobody_trusts_makes_no_checkouts(tmp_path: Path) -> None:
    hook = {"type": "command", "command": "touch $HOME/ran; echo $HOME"}
    said = {"hooks": {"WorktreeCreate": [{"hooks": [hook]}]}}
    write(tmp_path / "work" / ".claude" / "settings.json", json.dumps(said))
    with serving(YES, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "-w", "fix")
    assert NO_REPOSITORY in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_handshake_brings_servers_plugins_a_title_and_the_shape_of_the_answer(
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "kit"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "kit"}', "utf-8")
    (plugin / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": entry("honest")}}), "utf-8")
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    shaped = {"content": [{"tool": "StructuredOutput", "input": {"ok": True}}]}
    plan = {"scenario": 1, "answers": [shaped, {"text": "There.", "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        request = {
            "subtype": "initialize",
            "sdkMcpServers": ["calc"],
            "mcpServers": {"memo": entry("honest")},
            "plugins": [{"type": "local", "path": str(plugin), "skipMcpDiscovery": True}],
            "jsonSchema": schema,
            "title": "Sums",
            "systemPromptSnapshot": False,
        }
        host.send(type="control_request", request_id="r", request=request)
        asked = host.until(lambda f: f["type"] == "control_request")
        assert asked["request"]["server_name"] == "calc"
        refusal = {"subtype": "error", "request_id": asked["request_id"], "error": "not now"}
        host.send(type="control_response", response=refusal)
        host.until(lambda f: f["type"] == "control_response")
        host.say("go")
        init = host.until(lambda f: f.get("subtype") == "init")
        assert [one["name"] for one in init["plugins"]] == ["kit"]
        assert sorted(one["name"] for one in init["mcp_servers"]) == ["calc", "memo"]
        assert host.result()["structured_output"] == {"ok": True}
        assert host.end() == 0
    (path,) = transcripts(tmp_path)
    assert '"customTitle":"Sums"' in path.read_text("utf-8")
    assert "prompt-hashes" not in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--agent", "a"),
        ("--worktree", "a"),
        ("--task-budget", "5"),
        ("--permission-prompts", "host"),
        ("--prompt-suggestions", "on"),
        ("--system-prompt-snapshot", "off"),
        ("--plugin-dir-no-mcp", "a"),
    ],
)
def test_a_value_may_stand_after_a_space_or_an_equals_sign(flag: str, value: str) -> None:
    assert parse(["-p", flag, value]) == parse(["-p", f"{flag}={value}"])
    with pytest.raises(CommandLineError, match=f"did you mean {flag}"):
        parse([f"{flag[:-1]}x"])


def test_values_that_only_a_newer_client_knows_are_ignored_for_hosts(tmp_path: Path) -> None:
    """The Agent SDK's own client does the same; a user who mistypes gets an error."""
    flags = ("--effort", "huge", "--tools", "Bash,Bsh")
    with serving(YES, strict=True) as server, Hosted(tmp_path, server.url, *flags) as host:
        host.say("go")
        assert host.result()["subtype"] == "success"
        assert host.end() == 0
        said = host.errors()
        body = server.requests[0].body
        assert (names(body), body.get("output_config")) == (["Bash"], None)
    assert "--effort huge: expected one of low" in said
    assert '--tools: unknown tool "Bsh" (did you mean "Bash"?)' in said
    with pytest.raises(CommandLineError, match="--effort huge: expected one of low"):
        parse(["-p", "--effort", "huge"])
