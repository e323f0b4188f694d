"""Memory files: which are loaded, in which order, and why others are not."""

import os
from pathlib import Path

import pytest

from clew.agent.context.directives import read_directives
from clew.agent.context.memory import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_RULES,
    FileCache,
    Memory,
    MemoryFile,
    Sources,
    in_order,
    load_memory,
    load_nested,
)
from tests.requirements import requirement


class Place:
    """A machine with a managed folder, a home and a project, all empty."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "work" / "project"
        self.cwd = self.root / "app"
        self.cwd.mkdir(parents=True)
        self.cache = FileCache()
        self.sources = Sources(
            cwd=self.cwd,
            root=self.root,
            home=base / "home",
            config_home=base / "home" / ".claude",
            managed_folders=(base / "managed",),
        )

    def write(self, name: str, text: str) -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def load(self) -> Memory:
        return load_memory(self.sources, self.cache)

    def said(self, memory: Memory | None = None) -> list[str]:
        return [f.text for f in (self.load() if memory is None else memory).files]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@requirement("R120", "R121", "C8")
def test_files_speak_from_the_organisation_down_to_the_folder(place: Place) -> None:
    for number, name in enumerate(
        [
            "managed/CLAUDE.md",
            "managed/rules/all.md",
            "home/.claude/CLAUDE.md",
            "home/.claude/rules/mine.md",
            "work/CLAUDE.md",
            "work/project/CLAUDE.md",
            "work/project/.claude/CLAUDE.md",
            "work/project/.claude/rules/a.md",
            "work/project/.claude/rules/deep/b.md",
            "work/project/CLAUDE.local.md",
            "work/project/app/CLAUDE.md",
            "work/project/app/CLAUDE.local.md",
        ]
    ):
        place.write(name, f"{number}")
    memory = place.load()
    assert place.said(memory) == [str(n) for n in range(12)]
    layers = [f.layer for f in memory.files]
    assert layers == ["managed"] * 2 + ["user"] * 2 + ["project"] * 5 + [
        "local",
        "project",
        "local",
    ]
    assert memory.skipped == ()


@requirement("C8")
def test_agents_files_are_read_before_the_claude_file_of_their_folder(place: Place) -> None:
    place.write("work/project/AGENTS.md", "agents")
    place.write("work/project/app/AGENTS.md", "app for all")
    place.write("work/project/app/CLAUDE.md", "claude")
    assert place.said() == ["agents", "app for all", "claude"]
    assert place.load().skipped == ()


def test_a_claude_file_with_the_content_of_the_agents_file_is_read_once(place: Place) -> None:
    agents = place.write("work/project/AGENTS.md", "the same")
    place.write("work/project/CLAUDE.md", "the same")
    place.write("work/project/app/CLAUDE.md", "more")
    memory = place.load()
    assert place.said(memory) == ["the same", "more"]
    assert [s.why for s in memory.skipped] == [f"same content as {agents}"]


@requirement("C8", "W15")
def test_what_a_file_imports_speaks_right_after_it(place: Place) -> None:
    place.write("work/project/CLAUDE.md", "first @docs/a.md")
    place.write("work/project/docs/a.md", "second @b.md @missing.md @nobody")
    place.write("work/project/docs/b.md", "third @a.md")  # a circle
    place.write("work/project/app/CLAUDE.md", "fourth")
    memory = place.load()
    assert [t.split()[0] for t in place.said(memory)] == ["first", "second", "third", "fourth"]
    assert memory.files[1].imported_by == str(place.root / "CLAUDE.md")
    why = [s.why.split()[0:2] for s in memory.skipped]
    assert why == [["already", "loaded"]] + [["imported", "by"]] * 2


@requirement("C8")
def test_imports_end_four_files_deep(place: Place) -> None:
    place.write("work/project/CLAUDE.md", "0 @1.md")
    for n in range(1, 8):
        place.write(f"work/project/{n}.md", f"{n} @{n + 1}.md")
    memory = place.load()
    assert [t.split()[0] for t in place.said(memory)] == [str(n) for n in range(MAX_DEPTH + 1)]
    assert "more than 4 levels deep" in memory.skipped[0].why


@requirement("W15")
def test_a_file_outside_the_project_waits_for_approval(place: Place) -> None:
    outside = place.write("elsewhere/secret.md", "secret")
    place.write("home/notes.md", "notes")
    place.write("work/project/CLAUDE.md", "x @~/notes.md @../../elsewhere/secret.md @link.md")
    (place.root / "link.md").symlink_to(outside)
    memory = place.load()
    assert [t.split()[0] for t in place.said(memory)] == ["x"]
    assert memory.to_approve == (
        str(place.base / "home/notes.md"),
        str(outside),
        str(place.root / "link.md"),
    )
    granted = load_memory(place.sources, place.cache, approved=lambda path: path == outside)
    assert [t.split()[0] for t in place.said(granted)] == ["x", "secret"]


def test_a_users_own_file_may_import_from_anywhere(place: Place) -> None:
    place.write("home/notes.md", "notes")
    place.write("home/.claude/CLAUDE.md", "mine @~/notes.md")
    assert place.said()[1] == "notes"


@requirement("R122")
def test_override_silences_what_came_before_but_not_the_organisation(place: Place) -> None:
    place.write("managed/CLAUDE.md", "law")
    place.write("home/.claude/CLAUDE.md", "mine")
    place.write("work/project/CLAUDE.md", "@override\nours")
    place.write("work/project/app/CLAUDE.md", "@append\napp")
    memory = place.load()
    assert place.said(memory) == ["law", "ours", "app"]
    assert memory.skipped[0].why == f"overridden by {place.root / 'CLAUDE.md'}"


@requirement("W15")
def test_one_file_under_two_names_speaks_once(place: Place) -> None:
    place.write("work/project/AGENTS.md", "agents")
    (place.root / "CLAUDE.md").symlink_to("AGENTS.md")
    os.link(place.root / "AGENTS.md", place.root / "CLAUDE.local.md")
    memory = place.load()
    assert place.said(memory) == ["agents"]
    assert [s.why for s in memory.skipped] == ["already loaded"] * 2


def test_the_config_home_inside_a_parent_folder_is_the_users_and_not_the_projects(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    cwd = home / "work"
    cwd.mkdir(parents=True)
    config = home / ".claude"
    config.mkdir()
    (config / "CLAUDE.md").write_text("mine", "utf-8")
    memory = load_memory(Sources(cwd=cwd, root=cwd, home=home, config_home=config), FileCache())
    assert [(f.layer, f.text) for f in memory.files] == [("user", "mine")]
    assert memory.skipped == ()


@requirement("R123", "W15")
def test_a_file_is_read_again_when_it_changed_and_only_then(place: Place) -> None:
    path = place.write("work/project/CLAUDE.md", "one")
    now = path.stat().st_mtime_ns
    later = [now + 1]
    cache = FileCache(now_ns=lambda: later[0])
    assert cache.read(path)[0] == "one"
    before = path.stat()
    path.write_text("two", "utf-8")  # as long, and in the same moment
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    later[0] = now + 10_000_000_000
    assert cache.read(path)[0] == "two"
    assert cache.read(path)[0] == "two"
    assert cache.reads == 2
    path.write_text("three", "utf-8")
    assert cache.read(path)[0] == "three"


def test_limits_are_named_and_hold(place: Place) -> None:
    place.write("work/project/CLAUDE.md", "x" * (MAX_FILE_BYTES + 1))
    for n in range(MAX_RULES + 2):
        place.write(f"work/project/.claude/rules/{n:03}.md", "r")
    memory = place.load()
    assert len(memory.files) == MAX_RULES
    whys = sorted({s.why.split(" in ")[0] for s in memory.skipped})
    assert whys == [
        f"exceeds the limit of {MAX_RULES} rule files",
        f"too large ({MAX_FILE_BYTES + 1:,} bytes; the limit is 256 KiB)",
    ]


def test_all_memory_files_together_have_a_limit(place: Place) -> None:
    for n in range(5):
        place.write(f"work/project/.claude/rules/{n}.md", f"{n}" * MAX_FILE_BYTES)
    memory = place.load()
    assert len(memory.files) == 4
    assert [s.why for s in memory.skipped] == [
        "exceeds the limit of 1,024 KiB for all memory files"
    ]


def test_what_cannot_be_read_is_said(place: Place) -> None:
    (place.root / "CLAUDE.md").mkdir()
    broken = place.root / "CLAUDE.local.md"
    broken.symlink_to(broken)
    memory = place.load()
    assert [s.why for s in memory.skipped] == ["can't be read: Too many levels of symbolic links"]


def test_an_empty_file_and_bad_bytes(place: Place) -> None:
    place.write("work/project/CLAUDE.md", " \n")
    (place.root / "CLAUDE.local.md").write_bytes(b"\xef\xbb\xbfa\r\n\xff")
    assert place.said() == ["a\n\ufffd"]


@requirement("C8", "W15")
def test_rules_with_paths_and_files_below_speak_when_something_there_is_read(place: Place) -> None:
    place.write("work/project/.claude/rules/py.md", "---\npaths: 'app/**/*.py'\n---\npython @x.md")
    place.write("work/project/.claude/rules/x.md", "more")
    place.write("work/project/CLAUDE.md", "always")
    place.write("work/project/app/lib/CLAUDE.md", "library")
    memory = place.load()
    assert place.said(memory) == ["always"]
    touched = place.cwd / "lib" / "a.py"

    def told(path: Path) -> list[str]:
        return [f.text.split()[0] for f in load_nested(place.sources, place.cache, memory, path)]

    assert told(touched) == ["library", "python", "more"]
    assert told(place.cwd / "lib" / "a.md") == ["library"]
    assert told(place.cwd / "a.py") == ["python", "more"]
    assert told(place.base / "outside.py") == []


def test_a_file_that_vanished_is_no_news_to_what_follows(place: Place) -> None:
    path = place.write("work/project/CLAUDE.md", "always")
    memory = place.load()
    path.unlink()
    assert load_nested(place.sources, place.cache, memory, place.cwd / "a") == []


def test_the_model_is_told_who_says_what() -> None:
    file = MemoryFile(
        path="/a/CLAUDE.md", layer="local", text=read_directives("be kind").text, sha256=""
    )
    assert in_order([file]) == (
        "Contents of /a/CLAUDE.md (the user's own instructions for this project):\n\nbe kind"
    )
