"""Memory files that may not be sent, in the real process: what is denied, and links out of a folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.agent.context.memory import IS_LINK, NOT_SENT
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.test_web import call
from tests.requirements import requirement

SECRET = "tangerine-4711"
YES = {"text": "Yes.", "times": "always"}


def sent(home: Path, *args: str, below: bool = False) -> tuple[str, str]:
    """Return everything that a prompt sends, and the text on standard error."""
    reads = [call("Read", file_path="below/a.txt")] if below else []
    with serving({"scenario": 1, "answers": [*reads, YES]}, strict=True) as server:
        done = clew(home, server.url, "-p", "go", *args)
        assert done.returncode == 0, done.stderr
        return json.dumps([r.body for r in server.requests]), done.stderr


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """`tmp_path/work`, with a repository's folder so that it is a project, and a secret elsewhere."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "below").mkdir()
    (folder / "below" / "a.txt").write_text("a\n", "utf-8")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "CLAUDE.md").write_text(f"{SECRET}\n", "utf-8")
    (tmp_path / "private" / "one.md").write_text(f"{SECRET}\n", "utf-8")
    return folder


def a_file(name: str) -> Callable[[Path], None]:
    def link(work: Path) -> None:
        place = work / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(work.parent / "private" / "one.md")

    return link


def the_folder_of_settings(work: Path) -> None:
    (work / ".claude").symlink_to(work.parent / "private")


def the_folder_of_rules(work: Path) -> None:
    (work / ".claude").mkdir()
    (work / ".claude" / "rules").symlink_to(work.parent / "private")


def a_chain_of_links(work: Path) -> None:
    (work / "step.md").symlink_to("../private/one.md")
    (work / "CLAUDE.md").symlink_to("below/../step.md")


LINKS = {
    **{name: a_file(name) for name in ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude/CLAUDE.md",
                                       ".claude/rules/a.md", "below/CLAUDE.md", "below/AGENTS.md")},
    "the folder of settings": the_folder_of_settings,
    "the folder of rules": the_folder_of_rules,
    "a chain of links": a_chain_of_links,
}  # fmt: skip


@pytest.mark.parametrize("way", LINKS)
def test_a_link_out_of_an_untrusted_project_is_not_sent_and_that_is_said(
    tmp_path: Path, work: Path, way: str
) -> None:
    LINKS[way](work)
    below = way.startswith("below")
    told, noticed = sent(tmp_path, below=below)
    assert SECRET not in told
    if not below:
        assert noticed.count(f"{NOT_SENT}: {IS_LINK}") == 1
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    told, noticed = sent(tmp_path, below=below)
    assert SECRET in told
    assert "is not sent" not in noticed


@pytest.mark.parametrize("name", [".claude/skills/a/SKILL.md", ".claude/commands/b.md"])
def test_a_skill_or_command_that_is_such_a_link_is_not_listed(
    tmp_path: Path, work: Path, name: str
) -> None:
    a_file(name)(work)
    told, noticed = sent(tmp_path)
    assert SECRET not in told
    assert f"{name} {NOT_SENT}: {IS_LINK}" in noticed
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    assert SECRET in sent(tmp_path)[0]


def test_an_agent_that_is_such_a_link_is_no_agent_until_the_project_is_trusted(
    tmp_path: Path, work: Path
) -> None:
    secret = tmp_path / "private" / "agent.md"
    secret.write_text(f"---\nname: spy\ndescription: {SECRET}\n---\nDo.\n", "utf-8")
    agents = work / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "spy.md").symlink_to(secret)
    told, noticed = sent(tmp_path)
    assert SECRET not in told
    assert f".claude/agents/spy.md {NOT_SENT}: {IS_LINK}" in noticed
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    assert SECRET in sent(tmp_path)[0]


def test_links_within_the_project_and_own_files_elsewhere_are_sent(
    tmp_path: Path, work: Path
) -> None:
    (work / "docs").mkdir()
    (work / "docs" / "x.md").write_text("plum\n", "utf-8")
    (work / "CLAUDE.md").symlink_to("docs/x.md")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "CLAUDE.md").symlink_to(tmp_path / "private" / "one.md")
    (tmp_path / "CLAUDE.md").write_text("cherry\n", "utf-8")
    told, noticed = sent(tmp_path)
    assert "plum" in told
    assert "cherry" in told
    assert SECRET in told
    assert "is not sent" not in noticed


def test_a_link_to_credentials_is_not_sent_by_a_trusted_project_either(
    tmp_path: Path, work: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text(f"{SECRET}\n", "utf-8")
    (work / "CLAUDE.md").symlink_to(tmp_path / ".ssh" / "id_rsa")
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    told, noticed = sent(tmp_path)
    assert SECRET not in told
    assert f"CLAUDE.md {NOT_SENT}: contains credentials" in noticed


def denied_by_its_name(work: Path) -> str:
    (work / "CLAUDE.md").write_text(f"{SECRET}\n", "utf-8")
    return "Read(./CLAUDE.md)"


def denied_where_a_link_leads(work: Path) -> str:
    (work / "secrets").mkdir()
    (work / "secrets" / "x").write_text(f"{SECRET}\n", "utf-8")
    (work / "CLAUDE.md").symlink_to("secrets/x")
    return "Read(./secrets/**)"


def denied_to_import(work: Path) -> str:
    (work / "secrets").mkdir()
    (work / "secrets" / "x.md").write_text(f"{SECRET}\n", "utf-8")
    (work / "CLAUDE.md").write_text("Look at @secrets/x.md\n", "utf-8")
    return "Read(./secrets/**)"


def denied_behind_an_imported_link(work: Path) -> str:
    denied_to_import(work)
    (work / "plain.md").symlink_to("secrets/x.md")
    (work / "CLAUDE.md").write_text("Look at @plain.md\n", "utf-8")
    return "Read(./secrets/**)"


def denied_as_a_rule(work: Path) -> str:
    (work / ".claude" / "rules").mkdir(parents=True)
    (work / ".claude" / "rules" / "a.md").write_text(f"{SECRET}\n", "utf-8")
    return "Read(./.claude/rules/**)"


def denied_below(work: Path) -> str:
    (work / "below" / "CLAUDE.md").write_text(f"{SECRET}\n", "utf-8")
    return "Read(**/CLAUDE.md)"


DENIED = [
    denied_by_its_name, denied_where_a_link_leads, denied_to_import, denied_behind_an_imported_link,
    denied_as_a_rule, denied_below,
]  # fmt: skip


@pytest.mark.parametrize("behavior", ["deny", "ask"])
@pytest.mark.parametrize("way", DENIED)
def test_a_memory_file_that_may_not_be_read_is_not_sent(
    tmp_path: Path, work: Path, way: Callable[[Path], str], behavior: str
) -> None:
    rule = way(work)
    below = way is denied_below
    assert SECRET in sent(tmp_path, below=below)[0]
    settings = json.dumps({"permissions": {behavior: [rule]}})
    assert SECRET not in sent(tmp_path, "--settings", settings, below=below)[0]


def test_a_folder_does_not_deny_your_own_instructions(tmp_path: Path, work: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "CLAUDE.md").write_text("quince\n", "utf-8")
    rules = {"permissions": {"deny": ["Read(//**)"]}}
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text(json.dumps(rules), "utf-8")
    assert "quince" in sent(tmp_path)[0]
    (tmp_path / "config" / "settings.json").write_text(json.dumps(rules), "utf-8")
    assert "quince" not in sent(tmp_path)[0]


def test_memory_explain_says_why_a_file_is_left_out(tmp_path: Path, work: Path) -> None:
    a_file("CLAUDE.md")(work)
    told = clew(tmp_path, "http://127.0.0.1:1", "memory", "explain").stdout
    assert f"{work}/CLAUDE.md: {IS_LINK} {tmp_path}/private/one.md" in told


@requirement("W15", "C8")
def test_each_instruction_file_speaks_once_as_it_was_when_the_session_began(
    tmp_path: Path, work: Path
) -> None:
    (tmp_path / "mine.md").write_text("ELDER\n", "utf-8")
    (work / "inside.md").write_text("BIRCH\n", "utf-8")
    (tmp_path / "elsewhere.md").write_text("HAZEL\n", "utf-8")
    (work / "CLAUDE.md").write_text(
        f"ALDER\n@inside.md\n@~/mine.md\n@{tmp_path / 'elsewhere.md'}\n", "utf-8"
    )
    # Other names of one file; names and imports of two files.
    (work / "AGENTS.md").hardlink_to(work / "CLAUDE.md")
    (work / "below").mkdir(exist_ok=True)
    (work / "below" / "CLAUDE.md").write_text("MAPLE\n", "utf-8")
    (work / "below" / "a.txt").write_text("text\n", "utf-8")
    read = {"tool": "Read", "input": {"file_path": "below/a.txt"}}
    write = {"tool": "Bash", "input": {"command": "echo LATER > CLAUDE.md"}}
    answers = [{"content": [write, read]}, {"text": "Fine.", "times": "always"}]
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
        assert done.returncode == 0, done.stderr
        clew(tmp_path, server.url, "-p", "again")
        first, second, *_, fresh = (json.dumps(r.body["messages"]) for r in server.requests)
    assert [first.count(word) for word in ("ALDER", "BIRCH", "MAPLE")] == [1, 1, 0]
    # A project's file brings in nothing from outside unless the user approves it.
    assert ("ELDER" in first, "HAZEL" in first) == (False, False)
    assert second.count("MAPLE") == 1
    assert second.count("LATER") == 1
    assert "ALDER" in second
    assert "ALDER" not in fresh
    assert "LATER" in fresh
