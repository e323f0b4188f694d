"""The paths of a session: the folder's name, the ID's form, switching to another session."""

import os
from pathlib import Path

import pytest
from claude_agent_sdk import project_key_for_directory

from clew.record.transcript import paths
from clew.system.config.paths import find_config_home
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
OTHER = "1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"


@requirement("R158")
def test_the_config_home_is_what_the_environment_says_now() -> None:
    both = {"CLEW_CONFIG_DIR": "/a", "CLAUDE_CONFIG_DIR": "/b"}
    assert find_config_home(both, Path("/w")) == Path("/a")
    assert find_config_home({"CLAUDE_CONFIG_DIR": "b"}, Path("/w")) == Path("/w/b")
    assert find_config_home({"HOME": "/home/e\u0301va"}, Path("/w")) == Path(
        "/home/\u00e9va/.claude"
    )
    assert paths.get_projects_dir(Path("/a")) == Path("/a/projects")


@requirement("C17", "R166")
@pytest.mark.parametrize(
    "folder",
    [
        "/home/ada/a_b.c d/é",
        "/" + "x" * 198,
        "/" + "x" * 199,
        "/" + "x" * 200,
        "/home" + "/deep" * 60,
        "/",
    ],
)
def test_a_folder_is_named_as_the_published_reader_names_it(folder: str) -> None:
    assert paths.encode_path(folder) == project_key_for_directory(folder)


@requirement("C17")
def test_each_utf_16_unit_outside_letters_and_digits_becomes_a_dash() -> None:
    assert paths.encode_path("/a🙂b") == "-a--b"
    assert paths.encode_path("/a-b") == paths.encode_path("/a/b") == "-a-b"
    assert paths.encode_path(os.fsdecode(b"/a\xff")) == "-a-"


def test_a_long_folder_written_under_another_hash_is_found(tmp_path: Path) -> None:
    cwd = "/" + "long/" * 50
    name = paths.encode_path(paths.resolve_folder(cwd))
    foreign = paths.get_projects_dir(tmp_path) / (name[:201] + "zzzzzz")
    assert paths.get_project_dir(tmp_path, cwd).name == name
    foreign.mkdir(parents=True)
    assert paths.get_project_dir(tmp_path, cwd) == foreign
    (paths.get_projects_dir(tmp_path) / name).mkdir()
    assert paths.get_project_dir(tmp_path, cwd).name == name


@requirement("R165")
@pytest.mark.parametrize(
    "bad", ["", "x", f"{SESSION}\n", f" {SESSION}", f"../{SESSION}", SESSION[:-1], "g" * 36]
)
def test_what_is_not_a_uuid_never_becomes_a_path(bad: str) -> None:
    with pytest.raises(ValueError, match="session ID"):
        paths.SessionPlace(session_id=bad, project_dir=Path("/p"))
    assert paths.find_session(Path("/p"), bad) == []


@requirement("R165")
def test_a_uuid_may_be_in_capitals() -> None:
    assert paths.is_uuid(SESSION.upper())


@requirement("R155", "R156", "R159", "R161")
def test_a_symlinked_start_folder_writes_where_its_target_writes(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    home = tmp_path / "home"
    by_link = paths.SessionPaths(home=home, cwd=str(tmp_path / "link"), session_id=SESSION)
    by_name = paths.SessionPaths(home=home, cwd=str(real), session_id=SESSION)
    assert by_link.place == by_name.place
    folder = home / "projects" / paths.encode_path(paths.resolve_folder(str(real)))
    assert by_link.place.transcript == folder / f"{SESSION}.jsonl"
    assert by_link.agent("a1") == folder / SESSION / "subagents" / "agent-a1.jsonl"
    assert by_link.place.tool_results == folder / SESSION / "tool-results"


@requirement("R157")
def test_agents_of_one_run_share_a_folder_from_before_they_run_until_they_end(
    tmp_path: Path,
) -> None:
    session = paths.SessionPaths(home=tmp_path, cwd="/", session_id=SESSION)
    session.group_agent("a1", "workflows/run7")
    assert session.agent("a1").parent.parts[-3:] == ("subagents", "workflows", "run7")
    assert paths.get_sidecar(session.agent("a1")).name == "agent-a1.meta.json"


@pytest.mark.parametrize("bad", ["../x", "a/../../b", "/etc", "a//b", "a b"])
def test_neither_an_agent_nor_a_group_leads_out_of_the_folder(tmp_path: Path, bad: str) -> None:
    session = paths.SessionPaths(home=tmp_path, cwd="/", session_id=SESSION)
    with pytest.raises(ValueError, match="group"):
        session.group_agent("a1", bad)
    with pytest.raises(ValueError, match="agent ID"):
        session.agent(bad)


@requirement("R160", "R162")
def test_id_and_folder_change_together_and_the_current_path_is_the_written_path(
    tmp_path: Path,
) -> None:
    session = paths.SessionPaths(home=tmp_path, cwd="/", session_id=SESSION)
    session.group_agent("a1", "g")
    elsewhere = tmp_path / "projects" / "elsewhere"
    place = session.switch(OTHER, elsewhere)
    assert session.place is place
    assert place.transcript == elsewhere / f"{OTHER}.jsonl"
    assert session.of(OTHER) is place, "the current id means the current folder, not a guess"
    assert session.of(SESSION).project_dir == paths.get_project_dir(tmp_path, "/")
    assert session.of(SESSION, elsewhere).project_dir == elsewhere
    assert session.agent("a1").parent.name == "subagents", "groups belong to the old session"


def test_a_session_is_found_in_whatever_project(tmp_path: Path) -> None:
    for name in ("-b", "-a"):
        (tmp_path / "projects" / name).mkdir(parents=True)
        (tmp_path / "projects" / name / f"{SESSION}.jsonl").touch()
    assert [p.parent.name for p in paths.find_session(tmp_path, SESSION)] == ["-a", "-b"]
