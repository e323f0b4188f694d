"""`clew permissions` and `clew config` as a user runs them: in a process, in a folder."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.fronts.headless import forked
from tests.requirements import requirement


class Terminal:
    """A shell in a project, with a home of its own."""

    def __init__(self, root: Path) -> None:
        self.cwd, self.home = root / "work", root / "home"
        (self.cwd / ".claude").mkdir(parents=True)
        self.home.mkdir()
        self.settings = self.cwd / ".claude" / "settings.json"

    def run(self, *words: str, given: str | None = None, **more: str) -> tuple[int, str, str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CLEW", "CLAUDE"))}
        done = forked.run(
            words,
            cwd=self.cwd,
            env={**environment, "HOME": str(self.home), "COLUMNS": "80", **more},
            text=True,
            encoding="utf-8",
            **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
        )
        return done.returncode, done.stdout, done.stderr

    def user(self, settings: object) -> Path:
        path = self.home / ".claude" / "settings.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings, indent=2), "utf-8")
        return path


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path.resolve())


def test_a_call_is_decided_and_the_rule_is_named_with_its_file_and_line(terminal: Terminal) -> None:
    path = terminal.user(
        {"permissions": {"allow": ["Bash(npm run *)"], "deny": ["Bash(git push *)"]}}
    )
    given = json.dumps({"command": "npm run build && git push origin"})
    code, out, _ = terminal.run("permissions", "check", "Bash", given)
    assert code == 1
    assert out == (f"deny: git push origin: denied by Bash(git push *) ({path}:7)\n")
    code, out, _ = terminal.run("permissions", "check", "Bash", "npm run build")
    assert (code, out) == (0, f"allow: npm run build: allowed by Bash(npm run *) ({path}:4)\n")


def test_explain_says_why_each_part_was_judged_so_and_what_would_allow_it(
    terminal: Terminal,
) -> None:
    code, out, _ = terminal.run("permissions", "explain", "Bash", "ls && make all | tee log")
    assert code == 1
    assert out == (
        "ask (mode default)\n"
        "  allow  ls: read-only\n"
        "  ask    make all: not covered by an allow rule\n"
        "  ask    tee log: changes files\n"
        "  suggested rule: Bash(make all *)\n"
        "  suggested rule: Bash(tee log)\n"
    )


def test_an_answer_can_be_read_by_a_program(terminal: Terminal) -> None:
    code, out, _ = terminal.run(
        "permissions", "check", "Read", '{"file_path": "/etc/passwd"}', "--json", "--mode", "auto"
    )
    assert code == 1
    data = json.loads(out)
    assert (data["decision"], data["mode"]) == ("review", "auto")
    assert data["findings"][0]["reason"] == "outside the workspace"
    assert data["suggestions"] == ["Read(//etc/**)"]
    code, out, _ = terminal.run("permissions", "explain", "Bash", "ls", "--json")
    assert (code, json.loads(out)["decision"]) == (0, "allow")


def test_settings_of_the_command_line_count_and_can_come_from_a_file(
    terminal: Terminal, tmp_path: Path
) -> None:
    text = '{"permissions": {"deny": ["Bash(ls:*)"]}}'
    assert terminal.run("permissions", "check", "Bash", "ls", "--settings", text)[1] == (
        "deny: ls: denied by Bash(ls:*) ((cli))\n".replace("((cli))", "((cli))")
    )
    file = tmp_path / "more.json"
    file.write_text(text, "utf-8")
    out = terminal.run("permissions", "check", "Bash", "ls", "--settings", str(file))[1]
    assert out == f"deny: ls: denied by Bash(ls:*) ({file}:1)\n"


def test_untrusted_text_is_named_on_the_command_line(terminal: Terminal) -> None:
    terminal.user({"permissions": {"askAfterUntrusted": ["Bash(ls:*)"]}})
    assert terminal.run("permissions", "check", "Bash", "ls")[0] == 0
    assert terminal.run("permissions", "check", "Bash", "ls", "--untrusted", "web")[0] == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["check", "Read", "{"], "not valid JSON"),
        (["check", "Bash", ""], "clew permissions: the command is empty"),
        (["explain", "Bash", " "], "clew permissions: the command is empty"),
        (["check", "Read", "x"], 'Read expects an object such as {"file_path": "..."}'),
        (["check", "Bsh", "ls"], 'clew permissions: unknown tool "Bsh" (did you mean "Bash"?)'),
        (["add", "deny", "Bsh"], "clew permissions add --list deny Bsh\n"),
        (["remove", "Bash(ls)", "Read"], "clew permissions remove --list allow 'Bash(ls) Read'\n"),
        (["check", "Read", "[]"], "must be a JSON object"),
        (["check", "Bash", "ls", "--mode", "yolo"], "yolo: unknown mode"),
        (["check", "Bash", "ls", "--settings", "{"], "--settings: "),
        (["check", "Bash", "ls", "--settings", "nowhere.json"], "--settings: "),
        (["list", "--settings", "[]"], "--settings: "),
        (["add", "Bash(x"], "expected Tool or Tool(content)"),
        (["remove", "Bash(x)"], 'rule "Bash(x)" not found'),
        (["test", "nowhere.json"], "nowhere.json"),
    ],
)
def test_what_cannot_be_asked_is_reported(
    terminal: Terminal, words: list[str], complaint: str
) -> None:
    code, _, err = terminal.run("permissions", *words)
    assert code == 2
    assert complaint in err


@requirement("R141")
def test_bypass_mode_is_refused_as_root_outside_a_sandbox(terminal: Terminal) -> None:
    words = ("permissions", "check", "Bash", "make", "--mode", "bypassPermissions")
    code, out, err = terminal.run(*words, IS_SANDBOX="0")
    if os.geteuid() == 0:
        assert code == 2
        assert "not allowed as root" in err
    else:
        assert code == 0
    assert terminal.run(*words, IS_SANDBOX="1")[0] == 0
    terminal.user({"permissions": {"disableBypassPermissionsMode": "disable"}})
    code, out, err = terminal.run(*words, IS_SANDBOX="1")
    assert (code, out) == (2, "")
    assert "disabled in settings" in err


def test_a_table_of_cases_is_run_and_what_turns_out_otherwise_is_shown(
    terminal: Terminal,
) -> None:
    terminal.user({"permissions": {"deny": ["Read(.env)"]}})
    cases = terminal.cwd / "cases.json"
    rows = [
        {"tool": "Read", "input": {"file_path": ".env"}, "expect": "deny"},
        {"command": "cat .env", "expect": "deny"},
        {"command": "make", "expect": "review", "mode": "auto"},
    ]
    cases.write_text(json.dumps(rows), "utf-8")
    assert terminal.run("permissions", "test", "cases.json") == (0, "3 cases, 0 failed\n", "")
    wrong = {"name": "the build", "command": "make", "expect": "allow"}
    cases.write_text(json.dumps([*rows, wrong]), "utf-8")
    code, out, _ = terminal.run("permissions", "test", "cases.json")
    assert code == 1
    assert out == (
        "case 3 (Bash the build): expected allow, got ask: make: not covered by an allow rule\n"
        "4 cases, 1 failed\n"
    )
    code, out, _ = terminal.run("permissions", "test", "cases.json", "--json")
    assert json.loads(out)["cases"] == 4
    for broken in ("{}", "[3]"):
        cases.write_text(broken, "utf-8")
        assert terminal.run("permissions", "test", "cases.json")[0] == 2


def test_rules_are_added_listed_and_removed_and_the_rest_of_the_file_stays(
    terminal: Terminal,
) -> None:
    local = terminal.cwd / ".claude" / "settings.local.json"
    code, out, _ = terminal.run("permissions", "add", "--list", "deny", "Bash(rm *)")
    assert (code, out) == (0, f"{local}: added Bash(rm *) to deny\n")
    before = '{\n    "own":   [1,2],\n    "permissions": {"deny": ["Bash(rm *)"]}\n}\n'
    local.write_text(before, "utf-8")
    assert terminal.run("permissions", "add", "--list", "deny", "Read(.env)")[0] == 0
    assert local.read_text("utf-8") == before.replace(
        '["Bash(rm *)"]', '["Bash(rm *)", "Read(.env)"]'
    )
    assert "already" in terminal.run("permissions", "add", "--list", "deny", "Read(.env)")[1]
    assert terminal.run("permissions", "list")[1] == (
        f"deny   Bash(rm *)  {local}:3\ndeny   Read(.env)  {local}:3\n"
    )
    listed = json.loads(terminal.run("permissions", "list", "--json")[1])
    assert listed[1]["rule"] == "Read(.env)"
    assert terminal.run("permissions", "remove", "--list", "deny", "Read(.env)")[0] == 0
    assert local.read_text("utf-8") == before
    local.write_text("{", "utf-8")
    code, _, err = terminal.run("permissions", "add", "Bash(ls)")
    assert code == 2
    assert "invalid JSON" in err
    assert local.read_text("utf-8") == "{"
    local.write_text('{"permissions": {"allow": 3}}', "utf-8")
    assert "must be an array" in terminal.run("permissions", "add", "Bash(ls)")[2]


@requirement("R143")
def test_an_allow_rule_of_a_folder_counts_once_the_folder_is_trusted(terminal: Terminal) -> None:
    terminal.settings.write_text('{"permissions": {"allow": ["Bash(make *)"]}}', "utf-8")
    code, out, err = terminal.run("permissions", "check", "Bash", "make all")
    assert (code, out) == (1, "ask: make all: not covered by an allow rule\n")
    assert err.startswith(f"{terminal.settings}: permissions.allow: ignored because ")
    added = terminal.run("permissions", "add", "Bash(ls)", "--scope", "project")[1]
    assert added.endswith(": clew config trust\n")
    assert terminal.run("config", "trust")[1] == f"trusted: {terminal.cwd}\n"
    assert terminal.run("permissions", "check", "Bash", "make all")[0] == 0
    assert terminal.run("config", "untrust")[1] == f"not trusted: {terminal.cwd}\n"
    assert terminal.run("permissions", "check", "Bash", "make all")[0] == 1


@requirement("C16")
def test_the_effective_settings_can_be_asked_with_their_provenance(terminal: Terminal) -> None:
    user = terminal.user(
        {"language": "a", "env": {"X": "1"}, "permissions": {"deny": ["Read(.env)"]}}
    )
    terminal.settings.write_text('{\n"language": "b", "apiKeyHelper": "x"}', "utf-8")
    assert terminal.run("config", "get", "language")[:2] == (0, "b\n")
    assert terminal.run("config", "explain", "language")[1] == (
        "language: Language of the model's responses; a string\n"
        f"  project  b  ({terminal.settings}:2) in force\n"
        f"  user     a  ({user}:2) overridden\n"
    )
    assert terminal.run("config", "explain", "apiKeyHelper")[1].endswith(
        f"  project  ignored because the folder is not trusted ({terminal.settings}:2)\n  not set\n"
    )
    listed = terminal.run("config", "list")[1].splitlines()
    assert sorted(listed) == [
        f'env               {{"X": "1"}}      ({user}:3)',
        f"language          b               ({terminal.settings}:2)",
        f'permissions.deny  ["Read(.env)"]  ({user}:7)',
    ]
    assert json.loads(terminal.run("config", "list", "--json")[1])["language"] == "b"
    code, _, err = terminal.run("config", "get", "Model")
    assert (code, err) == (1, 'Model: not set (did you mean "model"?)\n')


def test_settings_are_set_in_place_and_wrong_ones_are_not_written(terminal: Terminal) -> None:
    path = terminal.user({"model": "a", "verbose": False})
    assert terminal.run("config", "set", "model", "b")[0] == 0
    assert terminal.run("config", "set", "verbose", "true")[0] == 0
    assert terminal.run("config", "set", "env.FOO", '"1"')[0] == 0
    assert json.loads(path.read_text("utf-8")) == {
        "model": "b",
        "verbose": True,
        "env": {"FOO": "1"},
    }
    before = path.read_text("utf-8")
    for words in (
        ["set", "verbose", "maybe"],
        ["set", "permissions.defaultMode", "yolo"],
        ["set", "", "x"],
        ["unset", "theme"],
    ):
        code, _, err = terminal.run("config", *words)
        assert code == 2, words
        assert err.startswith("clew config: ")
    assert path.read_text("utf-8") == before
    for unknown in ("them", "foo", "permissions.foo"):
        code, _, err = terminal.run("config", "set", unknown, "x")
        assert (code, f'unknown key "{unknown}"' in err) == (2, True)
    assert 'did you mean "theme"?' in terminal.run("config", "set", "them", "x")[2]
    assert path.read_text("utf-8") == before
    assert 'did you mean "theme"?' in terminal.run("config", "set", "them", "x", "--force")[2]
    assert terminal.run("config", "unset", "them")[0] == 0
    assert path.read_text("utf-8") == before
    path.write_text("{", "utf-8")
    assert "invalid JSON" in terminal.run("config", "set", "model", "x")[2]
    project = terminal.run("config", "set", "model", "p", "--scope", "project")
    assert project[1] == f"{terminal.settings}: model = p\n"


def test_a_secret_in_the_settings_is_not_shown(terminal: Terminal) -> None:
    key = "sk-ant-api03-AbCdEf0123456789"
    terminal.user({"env": {"ANTHROPIC_API_KEY": key}})
    for words in (["list"], ["list", "--json"], ["get", "env"], ["explain", "env"]):
        out = terminal.run("config", *words)[1]
        assert "masked" in out
        assert key not in out


def test_login_keeps_the_key_in_a_private_file_and_logout_forgets_it(terminal: Terminal) -> None:
    key = "sk-ant-api03-AbCdEf0123456789"
    path = terminal.home / ".claude" / "clew" / "credentials.json"
    code, out, _ = terminal.run("login", given=f"{key}\n")
    assert (code, out) == (0, f"saved ...6789 in {path}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert terminal.run("logout")[1] == f"deleted the API key from {path}\n"
    assert not path.exists()
    assert terminal.run("logout")[1] == "no saved API key\n"
    for wrong in ("", "two words\n"):
        assert terminal.run("login", given=wrong)[0] == 2
    assert not path.exists()


def test_a_rule_for_a_tool_that_nobody_has_stands_and_is_remarked_upon(terminal: Terminal) -> None:
    why = 'unknown tool "Bsh" (did you mean "Bash"?)'
    code, out, err = terminal.run("permissions", "add", "Bsh", "--list", "deny", "--scope", "user")
    assert (code, out) == (2, "")
    assert err.startswith(f"clew permissions: Bsh: {why}; rule not added")
    path = terminal.home / ".claude" / "settings.json"
    assert not path.exists()
    terminal.user({"permissions": {"deny": ["Bsh"]}})
    code, out, err = terminal.run("permissions", "list")
    (line,) = err.splitlines()
    assert line.startswith(f"{path}:")
    assert line.endswith(f": deny Bsh: {why}")
    assert (code, out.split()[:2]) == (0, ["deny", "Bsh"])
    code, out, err = terminal.run("permissions", "check", "Bsh")
    assert (code, err.splitlines()[-1]) == (1, why)
    assert "denied by Bsh" in out


@pytest.mark.parametrize("expect", ['"allowed"', "null", "true"])
def test_a_case_that_expects_no_decision_is_an_error(terminal: Terminal, expect: str) -> None:
    file = terminal.home / "cases.json"
    file.write_text(f'[{{"command": "ls", "expect": {expect}}}]', "utf-8")
    code, out, err = terminal.run("permissions", "test", str(file))
    assert (code, out) == (2, "")
    assert f"case 0: expect must be one of allow, review, ask, deny, got {expect}" in err
