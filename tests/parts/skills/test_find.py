"""Folders in any state are searched: errors are reported, and no cycle is followed."""

from pathlib import Path

from clew.parts.skills.folders import (
    BUNDLED,
    FromPlugin,
    SkillFolder,
    SkillLibrary,
    SkillListing,
    body_of,
    commands_in,
    skills_in,
)
from clew.system.files import MAX_FILES, MAX_FOLDERS


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_commands_have_the_names_of_their_folders(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "A")
    write(tmp_path / "front" / "end" / "b.md", "B")
    write(tmp_path / "two words.md", "C")
    write(tmp_path / ".hidden.md", "D")
    write(tmp_path / "notes.txt", "E")
    (tmp_path / "front" / "again").symlink_to(tmp_path)
    found = SkillListing([], [])
    commands_in(tmp_path, "user", found)
    names = {one.name for one in found.skills}
    assert {"a", "front:end:b"} <= names
    assert len(names) < 20
    assert any("two words.md: the name of a skill" in fault for fault in found.faults)


def test_a_folder_that_cannot_be_read_and_a_file_that_is_none_are_complaints(
    tmp_path: Path,
) -> None:
    write(tmp_path / "x" / "SKILL.md" / "a", "a folder")
    write(tmp_path / "y" / "other.md", "no skill")
    write(tmp_path / "z" / "SKILL.md", "---\nname: z\n---\nZ")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    found = SkillListing([], [])
    skills_in(tmp_path, "user", found)
    assert [one.name for one in found.skills] == ["z"]
    assert any("SKILL.md: Is a directory" in fault for fault in found.faults)
    skills_in(tmp_path / "loop", "user", found)
    assert any("Too many levels" in fault for fault in found.faults)


def test_a_head_longer_than_a_first_look_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "x" / "SKILL.md", f"---\nother: {'x' * 9000}\ndescription: far\n---\nBody")
    found = SkillListing([], [])
    skills_in(tmp_path, "user", found)
    assert found.skills[0].description == "far"
    assert body_of(found.skills[0]) == "Body"


def test_of_a_vast_text_the_beginning_is_called_and_said_to_be_one(tmp_path: Path) -> None:
    write(tmp_path / "x" / "SKILL.md", "---\ndescription: vast\n---\n" + "word " * 2_000_000)
    found = SkillListing([], [])
    skills_in(tmp_path, "user", found)
    body = body_of(found.skills[0])
    assert len(body) < 530_000
    assert body.endswith(f"(Only the first 512 KiB of {tmp_path}/x/SKILL.md are included.)")


def test_a_folder_of_too_many_files_is_read_in_part(tmp_path: Path) -> None:
    for i in range(MAX_FILES + 1):
        (tmp_path / f"{i}.md").touch()
    found = SkillListing([], [])
    commands_in(tmp_path, "user", found)
    assert len(found.skills) == MAX_FILES
    assert "only the first" in found.faults[0]


def test_folders_that_lead_into_themselves_are_gone_through_once(tmp_path: Path) -> None:
    write(tmp_path / "commands" / "a.md", "A")
    for n in range(30):
        (tmp_path / "commands" / f"l{n}").symlink_to(tmp_path / "commands")
    found = SkillListing([], [])
    commands_in(tmp_path / "commands", "user", found)
    assert [one.name for one in found.skills] == ["a"]


def test_no_more_than_so_many_folders_are_gone_through(tmp_path: Path) -> None:
    for n in range(MAX_FOLDERS + 2):
        write(tmp_path / f"f{n:04}" / "a.md", "A")
    found = SkillListing([], [])
    commands_in(tmp_path, "user", found)
    assert len(found.skills) == MAX_FOLDERS - 1  # and the one they lie in
    assert "are not read" in found.faults[-1]


def test_every_bundled_skill_can_be_listed_and_called() -> None:
    found = SkillListing([], [])
    skills_in(BUNDLED, "bundled", found)
    assert {one.name for one in found.skills} >= {"commit", "init", "review", "verify"}
    assert not found.faults
    assert all(one.description and body_of(one) for one in found.skills)


def test_a_shelf_sees_what_comes_and_what_a_plugin_brings(tmp_path: Path) -> None:
    write(tmp_path / "skills" / "a" / "SKILL.md", "A")
    shelf = SkillLibrary([SkillFolder(folder=tmp_path, origin="user")])
    assert "a" in shelf.all()
    write(tmp_path / "skills" / "b" / "SKILL.md", "B")
    shelf.refresh()
    assert "b" in shelf.all()
    plugin = tmp_path / "plugin"
    write(plugin / "one.md", "One")
    write(plugin / "more" / "two.md", "Two")
    write(plugin / "alone" / "SKILL.md", "Three")
    brought = FromPlugin(
        name="p",
        root=plugin,
        command_files=(plugin / "one.md",),
        command_folders=(plugin / "more",),
        single_skills=(plugin / "alone",),
    )
    shelf.replace_plugins([brought])
    assert {"p:one", "p:two", "p:alone"} <= set(shelf.all())
    assert shelf.all()["p:one"].plugin_root == str(plugin)
    assert not shelf.add(SkillFolder(folder=tmp_path, origin="user"))
    assert not shelf.add(SkillFolder(folder=tmp_path / "empty", origin="project"))
    write(tmp_path / "nested" / "commands" / "c.md", "C")
    assert shelf.add(SkillFolder(folder=tmp_path / "nested", origin="project"))
    assert "c" in shelf.all()
