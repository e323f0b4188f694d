"""`clew import-config` in the real program: what it offers, what it writes, and what it says."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.commands.importing.offer import Offer
from clew.commands.importing.programs import read_codex_rules, read_rule
from tests.fronts.headless.clew_process import clew

NOWHERE = "http://127.0.0.1:9"


class Machine:
    """A home and a project that other agents were used in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.config = folder / "config"

    def write(self, name: str, content: Any) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return clew(self.folder, NOWHERE, "import-config", *args, environ={"HOME": str(self.home)})

    def lines(self, *args: str) -> dict[str, tuple[str, str]]:
        done = self.run("--json", *args)
        assert done.returncode == 0, done.stderr
        return {line["what"]: (line["to"], line["why_not"]) for line in json.loads(done.stdout)}

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text("utf-8"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return Machine(tmp_path)


def test_a_codex_configuration_is_offered_first_and_written_on_request(machine: Machine) -> None:
    machine.write(
        "home/.codex/config.toml",
        'model = "gpt-5.2"\napproval_policy = "never"\n[mcp_servers.docs]\ncommand = "npx"\n'
        'args = ["-y", "docs"]\nstartup_timeout_sec = 5\n[mcp_servers.web]\n'
        'url = "https://mcp.example.com/mcp"\nbearer_token_env_var = "WEB_TOKEN"\n'
        "[mcp_servers.old]\nenabled = false\ncommand = 'x'\n[tui]\nnotifications = true\n",
    )
    machine.write(
        "home/.codex/rules/default.rules",
        'prefix_rule(pattern=["git", ["status", "log"]], decision="allow")\n'
        'prefix_rule(pattern=["rm"], decision="forbidden")\nload("x")\n',
    )
    machine.write("home/.codex/AGENTS.md", "Answer in verse.\n")
    settings = str(machine.config / "settings.json")
    offered = machine.lines("codex")
    assert not machine.config.joinpath("settings.json").exists()
    assert offered["MCP server docs"] == offered["allow Bash(git log:*)"] == (settings, "")
    assert "startup_timeout_sec" in "".join(offered)
    assert offered["MCP server old"][1] == "disabled"
    assert offered["model gpt-5.2"][1].startswith("unknown model")
    assert offered["tui"][1] == "clew has no equivalent"
    assert {name for name in offered if name.startswith(("approval_policy", "line"))} == {
        "approval_policy = never",
        "line 3",
    }

    done = machine.run("codex", "--write")
    assert done.stdout.splitlines()[-1] == "6 imported, 6 skipped"
    written = machine.read("config/settings.json")
    assert written["mcpServers"] == {
        "docs": {"command": "npx", "args": ["-y", "docs"]},
        "web": {
            "type": "http",
            "url": "https://mcp.example.com/mcp",
            "headers": {"Authorization": "Bearer ${WEB_TOKEN}"},
        },
    }
    assert written["permissions"] == {
        "allow": ["Bash(git status:*)", "Bash(git log:*)"],
        "deny": ["Bash(rm:*)"],
    }
    assert (machine.config / "rules" / "codex-agents.md").read_text("utf-8") == "Answer in verse.\n"
    assert {to for to, _ in machine.lines("codex").values()} == {""}


def test_gemini_and_opencode_bring_servers_models_and_permissions(machine: Machine) -> None:
    machine.write(
        "home/.gemini/settings.json",
        {
            "mcpServers": {
                "a": {"httpUrl": "https://a.example.com", "headers": {"X-Key": "$A_KEY"}},
                "b": {"url": "https://b.example.com/sse", "trust": True},
            },
            "model": {"name": "gemini-3-pro"},
            "tools": {
                "allowed": ["run_shell_command(git diff)", "read_file", "fly"],
                "exclude": ["web_fetch"],
                "sandbox": "docker",
            },
        },
    )
    machine.write(
        "work/opencode.jsonc",
        """{
          // comments are common here: "x": 1,
          "model": "anthropic/claude-sonnet-4-5",
          "mcp": {"c": {"type": "local", "command": ["bun", "c"], "environment": {"K": "{env:C_KEY}"}},
                  "d": {"type": "remote", "url": "https://d.example.com", "headers": {"K": "{file:k}"}}},
          "permission": {"edit": "deny", "webfetch": "ask", "bash": {"*": "ask", "git *": "allow"}},
          "theme": "system", /* and trailing commas */
        }""",
    )
    lines = machine.lines("--write")
    user, project = machine.read("config/settings.json"), machine.read("work/.claude/settings.json")
    assert user["mcpServers"]["a"] == {
        "type": "http",
        "url": "https://a.example.com",
        "headers": {"X-Key": "${A_KEY}"},
    }
    assert user["mcpServers"]["b"]["type"] == "sse"
    assert user["permissions"] == {"allow": ["Bash(git diff:*)", "Read"], "deny": ["WebFetch"]}
    assert project["model"] == "claude-sonnet-4-5"
    assert project["permissions"] == {"allow": ["Bash(git *)"], "deny": ["Edit"]}
    assert machine.read("work/.mcp.json") == {
        "mcpServers": {"c": {"command": "bun", "args": ["c"], "env": {"K": "${C_KEY}"}}}
    }
    left = {what: why for what, (_, why) in lines.items() if why}
    assert set(left) == {
        "MCP server b: trust", "model gemini-3-pro", "allow fly", "tools.sandbox", "MCP server d",
        "theme",
    }  # fmt: skip
    assert "{file:k}" in left["MCP server d"]


def test_rules_of_editors_become_rules_and_skills_and_replace_nothing(machine: Machine) -> None:
    machine.write("work/.cursor/rules/all.mdc", "---\nalwaysApply: true\n---\nSpeak plainly.\n")
    machine.write("work/.cursor/rules/ts.mdc", "---\nglobs: src/*.{ts,tsx},*.js\n---\nNo any.\n")
    machine.write("work/.cursor/rules/db.mdc", "---\ndescription: Migrations\n---\nUse alembic.\n")
    machine.write("work/.cursor/rules/old.mdc", "---\nalwaysApply: false\n---\nOld.\n")
    machine.write("work/.github/copilot-instructions.md", "Use tabs.\n")
    machine.write(
        "work/.github/instructions/py.instructions.md", '---\napplyTo: "**/*.py"\n---\nType all.\n'
    )
    machine.write(
        "work/.windsurf/rules/w.md", "---\ntrigger: model_decision\ndescription: Web\n---\nW.\n"
    )
    machine.write("work/.claude/rules/copilot-instructions.md", "Mine.\n")
    machine.write(
        "home/.cursor/cli-config.json",
        {"permissions": {"allow": ["Shell(ls)", "Mcp(db:*)"], "deny": ["Read(.env*)", "Fly(x)"]}},
    )
    (machine.work / ".cursorrules").symlink_to("/etc/hostname")
    lines = machine.lines("--write")
    rules, skills = machine.work / ".claude" / "rules", machine.work / ".claude" / "skills"
    assert (rules / "cursor-all.md").read_text("utf-8") == "Speak plainly.\n"
    assert 'paths:\n  - "src/*.{ts,tsx}"\n  - "*.js"\n' in (rules / "cursor-ts.md").read_text(
        "utf-8"
    )
    assert '"**/*.py"' in (rules / "copilot-py.md").read_text("utf-8")
    assert (rules / "copilot-instructions.md").read_text("utf-8") == "Mine.\n"
    assert "description: Migrations" in (skills / "cursor-db" / "SKILL.md").read_text("utf-8")
    assert (skills / "windsurf-w" / "SKILL.md").exists()
    assert machine.read("config/settings.json")["permissions"] == {
        "allow": ["Bash(ls:*)", "mcp__db"],
        "deny": ["Read(.env*)"],
    }
    left = {what: why for what, (_, why) in lines.items() if why}
    assert set(left) == {
        "rule cursor-old", "rule copilot-instructions", "deny Fly(x)", "the file",
    }  # fmt: skip
    assert "outside the project" in left["the file"]
    explained = clew(machine.folder, NOWHERE, "memory", "explain", "--json").stdout
    assert str(rules / "cursor-all.md") in explained


def test_files_that_are_broken_and_programs_that_are_unknown_are_named(machine: Machine) -> None:
    assert machine.run().stdout == "No configuration files of other agents found.\n"
    machine.write("home/.codex/config.toml", "[[[")
    machine.write("home/.cursor/mcp.json", [1])
    machine.write("home/.copilot/mcp-config.json", {"mcpServers": {"x": {}, "y": 1}})
    text = machine.run("--scope", "user").stdout
    assert text.count("- the file: can't be read: ") == 2
    assert "- MCP server x: has neither a command nor a URL" in text
    assert text.endswith("0 can be imported, 4 skipped\n")
    done = machine.run("vim")
    assert (done.returncode, 'unknown program "vim"' in done.stderr) == (2, True)


def test_folders_that_variables_move_are_found(machine: Machine) -> None:
    machine.write("elsewhere/config.toml", "[tui]\n")
    machine.write("xdg/opencode/opencode.json", {"theme": "x"})
    environ = {
        "HOME": str(machine.home),
        "CODEX_HOME": str(machine.folder / "elsewhere"),
        "XDG_CONFIG_HOME": str(machine.folder / "xdg"),
    }
    done = clew(machine.folder, NOWHERE, "import-config", "--json", environ=environ)
    assert {line["what"] for line in json.loads(done.stdout)} == {"tui", "theme"}


def test_what_is_no_rule_is_named() -> None:
    offer = Offer("codex", "x.rules")
    read_codex_rules(offer, "prefix_rule(")
    read_rule(offer, "empty", "---\nalwaysApply: true\n---\n")
    assert [left.what for left in offer.left_out] == ["all rules", "rule empty"]
