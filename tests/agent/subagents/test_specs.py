"""Definitions of subagents from any source, and the tools that they grant."""

import os
from pathlib import Path
from typing import Any

import pytest

from clew.agent.subagents.files import MAX_BYTES, read_agent_folder, read_agent_object
from clew.agent.subagents.offer import list_refusals, mode_of, select_tools
from clew.agent.subagents.specs import (
    BUILT_IN,
    NAMES,
    NO_DESCRIPTION,
    AgentCatalog,
    AgentSpec,
    Origin,
    UnusableSpec,
    spec_of,
)
from clew.system.config import frontmatter
from clew.system.config.frontmatter import Frontmatter
from clew.system.files import NOT_REGULAR

TOOLS = ["Agent", "Bash", "Edit", "Read", "Config", "ToolSearch", "mcp__gh__issues", "mcp__db__ask"]


def spec(origin: Origin = "user", **fields: Any) -> AgentSpec:
    values = {"description": "does it", **fields}
    found, faults = spec_of(Frontmatter(values=values, body="Do it."), name="it", origin=origin)
    assert isinstance(found, AgentSpec)
    assert not faults
    return found


def test_a_file_in_the_published_layout_is_an_agent() -> None:
    head = frontmatter.read(
        "---\nname: reviewer\ndescription: Reviews: use it after a change\ntools: Read, Bash(git diff:*)\n"
        "model: opus\npermissionMode: plan\nmaxTurns: 5\nbackground: true\nisolation: worktree\n"
        "skills:\n  - lint\n  - style\nmemory: project\neffort: high\ninitialPrompt: Begin.\n"
        "color: red\n---\n\nYou review.\n"
    )
    found, faults = spec_of(head, name="file", origin="project", where="reviewer.md")
    assert not faults
    assert found == AgentSpec(
        name="reviewer",
        description="Reviews: use it after a change",
        prompt="You review.",
        origin="project",
        where="reviewer.md",
        tools=("Read", "Bash(git diff:*)"),
        model="opus",
        mode="plan",
        effort="high",
        max_turns=5,
        skills=("lint", "style"),
        memory="project",
        background=True,
        in_worktree=True,
        first_words="Begin.",
    )


@pytest.mark.parametrize(
    ("fields", "body", "why"),
    [({}, "x", NO_DESCRIPTION), ({"description": "d"}, "", "the prompt is missing")],
)
def test_what_is_no_agent_is_told(fields: dict[str, Any], body: str, why: str) -> None:
    found, _ = spec_of(Frontmatter(values=fields, body=body), name="it", origin="user")
    assert isinstance(found, UnusableSpec)
    assert why in found.why


def test_what_a_member_cannot_be_is_left_out_and_reported() -> None:
    values = {
        "description": "d",
        "prompt": "p",
        "permissionMode": "everything",
        "maxTurns": "many",
        "background": "perhaps",
        "mcpServers": ["x", 3],
        "hooks": ["x"],
        "hue": "red",
    }
    found, faults = spec_of(Frontmatter(values=values, body=""), name="it", origin="flag")
    assert found == AgentSpec(
        name="it", description="d", prompt="p", origin="flag", named_servers=("x",)
    )
    assert sorted(fault.split(":")[0] for fault in faults) == [
        "background",
        "hooks",
        "maxTurns",
        "mcpServers",
        "permissionMode",
        'unknown key "hue"',
    ]


def test_tools_that_are_no_names_are_none_at_all_and_reported() -> None:
    values = {"description": "d", "prompt": "p", "tools": {"Read": "Bash"}}
    found, faults = spec_of(Frontmatter(values=values, body=""), name="it", origin="user")
    assert isinstance(found, AgentSpec)
    assert found.tools == ()
    assert faults == [f"tools: {NAMES}"]


def test_servers_are_named_or_described_in_a_list_or_an_object() -> None:
    listed = spec(mcpServers=["gh", {"memo": {"command": "memo"}}])
    assert (listed.named_servers, listed.servers) == (("gh",), {"memo": {"command": "memo"}})
    assert spec(mcpServers={"memo": {}}).servers == {"memo": {}}
    assert spec(mcpServers="gh, db").named_servers == ("gh", "db")
    assert spec(hooks={"Stop": []}).hooks == {"Stop": []}


def test_nothing_that_a_plugins_agent_would_start_or_widen_counts() -> None:
    given = {"description": "d", "prompt": "p", "hooks": {"Stop": []}, "permissionMode": "plan"}
    found = read_agent_object({"it": {**given, "mcpServers": {"memo": {}}}}, "plugin")
    (one,) = found.specs
    assert (one.mode, one.hooks, one.servers) == (None, {}, {})
    assert found.faults == [
        f"agent it: {key}: ignored in plugin agents"
        for key in ("permissionMode", "hooks", "mcpServers")
    ]


def test_every_tool_is_what_nothing_or_a_star_says() -> None:
    assert spec().tools is None
    assert spec(tools="*").tools is None
    assert spec(tools=[]).tools == ()
    assert spec(model="inherit").model is None


def test_an_agent_has_the_tools_its_definition_names_of_those_there_are() -> None:
    everything = select_tools(spec(), TOOLS, may_delegate=True)
    assert everything == [name for name in TOOLS if name != "Config"]
    assert "Agent" not in select_tools(spec(), TOOLS, may_delegate=False)
    named = spec(tools="Task, Bash(git:*), mcp__gh", disallowedTools="Read")
    assert select_tools(named, TOOLS, may_delegate=True) == ["Agent", "Bash", "mcp__gh__issues"]
    without = spec(disallowedTools="Bash(rm:*), Edit, mcp__db__*, mcp__gh__other")
    assert select_tools(without, TOOLS, may_delegate=False) == [
        "Bash",
        "Read",
        "ToolSearch",
        "mcp__gh__issues",
    ]
    assert list_refusals(without) == ("Bash(rm:*)",)


@pytest.mark.parametrize(
    ("origin", "own", "session", "trusted", "bypass", "mode"),
    [
        ("project", None, "acceptEdits", False, False, "acceptEdits"),
        ("project", "plan", "bypassPermissions", False, True, "plan"),
        ("project", "acceptEdits", "default", False, True, "default"),
        ("project", "acceptEdits", "default", True, False, "acceptEdits"),
        ("plugin", "acceptEdits", "default", True, True, "default"),
        ("user", "acceptEdits", "default", False, False, "acceptEdits"),
        ("user", "bypassPermissions", "default", True, False, "default"),
        ("project", "bypassPermissions", "default", True, True, "default"),
        ("host", "bypassPermissions", "default", False, True, "bypassPermissions"),
        ("user", "acceptEdits", "plan", True, True, "plan"),
        ("host", "bypassPermissions", "plan", True, True, "plan"),
    ],
)
def test_a_definition_narrows_and_only_a_users_own_widens(
    origin: Origin, own: str | None, session: str, trusted: bool, bypass: bool, mode: str
) -> None:
    agent = spec(origin=origin, **({} if own is None else {"permissionMode": own}))
    assert mode_of(agent, session, is_trusted=trusted, may_bypass=bypass) == mode


def test_an_agent_that_only_a_transcript_names_narrows_and_widens_nothing() -> None:
    for own, mode in (("plan", "plan"), ("acceptEdits", "default"), ("default", "default")):
        agent = spec(origin="user", permissionMode=own)
        with_mode = mode_of(agent, "default", is_trusted=True, may_bypass=True, is_chosen=False)
        assert with_mode == mode


def test_the_nearer_definition_of_a_name_counts_and_the_other_comes_back() -> None:
    of_user, of_host = spec(), spec(origin="host", name="Explore")
    catalog = AgentCatalog([of_host, of_user])
    assert catalog.find("explore") is of_host
    assert catalog.find("it") is of_user
    catalog.add([spec(origin="plugin", name="it")])
    assert catalog.find("it") is of_user
    assert {one.name for one in catalog.shadowed} == {"Explore", "it"}
    catalog.remove("host")
    assert catalog.find("Explore") in BUILT_IN
    assert catalog.find("expl") is None
    assert (catalog.nearest("Explor"), catalog.nearest("zzz")) == ("Explore", None)
    assert [one.name for one in catalog] == ["Explore", "Plan", "general-purpose", "it"]


def test_the_files_of_a_folder_are_read_and_odd_ones_told(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.md").write_text("---\ndescription: d\n---\nDo it.", "utf-8")
    (tmp_path / "note.md").write_text("about the agents here", "utf-8")
    (tmp_path / "odd.md").write_bytes(b"---\nname: \xff\n---\n")
    (tmp_path / "none.md").write_text("---\nname: x\n---\nDo it.", "utf-8")
    named = tmp_path / "deep" / "two.md"
    named.write_text("---\nname: other\ndescription: d\n---\nDo it.", "utf-8")
    found = read_agent_folder(tmp_path, "plugin", prefix="kit:")
    assert [one.name for one in found.specs] == ["kit:one", "kit:other"]
    assert [one.name for one in read_agent_folder(named, "user").specs] == ["other"]
    assert sorted(fault.rpartition("/")[2] for fault in found.faults) == [
        f"none.md: {NO_DESCRIPTION}",
        "odd.md: not UTF-8",
    ]


def test_a_hostile_folder_of_agents_costs_no_more_than_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("---\ndescription: d\n---\nDo it.", "utf-8")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "all").symlink_to("/")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "zero.md").symlink_to("/dev/zero")
    (tmp_path / "loop.md").symlink_to("loop.md")
    with (tmp_path / "vast.md").open("wb") as vast:
        vast.write(b"---\ndescription: d\n---\nDo it.")
        vast.truncate(1 << 40)
    (tmp_path / "wide.md").write_text(f"---\ndescription: d\n---\n{'é' * MAX_BYTES}", "utf-8")
    (tmp_path / "binary.md").write_bytes(b"\x7fELF" + bytes(range(256)))
    found = read_agent_folder(tmp_path, "project")
    assert "good" in {one.name for one in found.specs}
    said = "\n".join(found.faults)
    assert f"pipe.md: {NOT_REGULAR}" in said
    assert f"zero.md: {NOT_REGULAR}" in said
    assert "vast.md: larger than 256 KiB" in said
    assert "wide.md: larger than 256 KiB" in said
    assert "binary.md: not UTF-8" in said


def test_the_agents_of_an_object_are_read_and_odd_ones_told() -> None:
    given = {
        "a": {"description": "d", "prompt": "p", "tools": ["Read"], "model": None, "maxTurns": 2},
        "b": "no",
        "c": {"description": "d"},
    }
    found = read_agent_object(given, "host")
    assert found.specs == [
        AgentSpec(
            name="a", description="d", prompt="p", origin="host", tools=("Read",), max_turns=2
        )
    ]
    assert len(found.faults) == 2
