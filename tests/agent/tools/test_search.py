"""Glob and Grep: ripgrep and clew's own program return the same results, within limits."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.agent.tools import search, searching
from clew.agent.tools.base import ToolError, ToolOutcome
from clew.agent.tools.search import expand_braces
from clew.agent.tools.search_tools import Glob, Grep, GrepInput, grep
from clew.agent.tools.searching import find_ripgrep
from tests.agent.tools.workshop import Workshop
from tests.fronts.headless.clew_process import until

TREE = {
    "README.md": "# Title\n\nSome Text here\nmore text\n",
    "src/app.py": "import os\n\n\ndef main():\n    return os.getcwd()\n\n\nif main():\n    pass\n",
    "src/deep/er/lib.py": "def helper():\r\n    pass\r\n\r\ndef main():\r\n    helper()",
    "src/deep/view.ts": "const main = () => {\n  // TODO: text\n}\n",
    "src/web.tsx": "export const View = 1\n",
    "build/out.py": "def main(): pass\n",
    "logs/a.log": "main\n",
    "logs/keep.log": "main text\n",
    ".hidden/config.py": "main = True\n",
    ".git/config": "main\n",
    "data.bin": "main\0main\n",
    "empty.py": "",
    "blank.txt": "\n\n\n",
    "ümlaut/straße.py": "größe = 'main'\nSTRASSE\n",
    "with space/a b.py": "main  main\nmain\n",
}
IGNORES = {".gitignore": "build/\n*.log\n!keep.log\n", "src/.gitignore": "*.tsx\n"}


@pytest.fixture
def tree(workshop: Workshop) -> Workshop:
    for age, (name, text) in enumerate({**TREE, **IGNORES}.items()):
        path = workshop.write(name, text)
        os.utime(path, ns=(0, 10**18 - age * 10**9))
    (workshop.folder / "link.py").symlink_to(workshop.folder / "src/app.py")
    (workshop.folder / "loop").symlink_to(workshop.folder)
    return workshop


@pytest.fixture
def git_tree(tree: Workshop) -> Workshop:
    (tree.folder / ".git/config").unlink()
    (tree.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", "."], cwd=tree.folder, check=True)
    subprocess.run(["git", "add", "src/app.py", "empty.py"], cwd=tree.folder, check=True)
    (tree.folder / "empty.py").unlink()
    return tree


def own(workshop: Workshop, **given: Any) -> ToolOutcome:
    return run_grep(workshop, None, given)


def run_grep(workshop: Workshop, program: str | None, given: dict[str, Any]) -> ToolOutcome:
    import msgspec

    wanted = msgspec.convert(given, GrepInput, strict=False)
    result: ToolOutcome = workshop.use_later(lambda: grep(wanted, workshop.context(), program))
    return result


SAME: list[dict[str, Any]] = [
    {"pattern": "main"},
    {"pattern": "MAIN", "-i": True},
    {"pattern": "no such thing anywhere"},
    {"pattern": "main", "path": "src"},
    {"pattern": "main", "path": "src/app.py", "output_mode": "content"},
    {"pattern": "main", "glob": "*.py"},
    {"pattern": "main", "glob": "**/deep/**"},
    {"pattern": "main", "glob": "src/*.py"},
    {"pattern": "main", "glob": "*.{ts,py}", "output_mode": "count"},
    {"pattern": "main", "glob": "!*.py"},
    {"pattern": "main", "type": "py", "output_mode": "content"},
    {"pattern": "main", "output_mode": "content"},
    {"pattern": "main", "output_mode": "content", "-n": False},
    {"pattern": "main", "output_mode": "content", "-A": 1},
    {"pattern": "main", "output_mode": "content", "-B": 2, "-A": 1},
    {"pattern": "main", "output_mode": "content", "-C": 3},
    {"pattern": "main", "output_mode": "count"},
    {"pattern": "^def main\\(\\):", "output_mode": "content"},
    {"pattern": "pass$", "output_mode": "content"},
    {"pattern": "^$", "output_mode": "count"},
    {"pattern": "^\\s*$", "output_mode": "count", "type": "txt"},
    {"pattern": "\\bmain\\b.*\\bmain\\b", "output_mode": "content"},
    {"pattern": "t[^a]x", "output_mode": "content"},
    {"pattern": "(?i)some\\s+text", "output_mode": "content"},
    {"pattern": "gr.ße", "output_mode": "content"},
    {"pattern": "-main|-A", "output_mode": "content"},
    {"pattern": "import os.*?def main", "multiline": True, "output_mode": "content"},
    {"pattern": "\\{\\n.*TODO", "multiline": True, "output_mode": "content"},
    {"pattern": "main", "multiline": True, "output_mode": "count"},
    {"pattern": "def \\w+\\(\\):\\s+return", "multiline": True},
    {"pattern": "main", "output_mode": "content", "head_limit": 2},
    {"pattern": "main", "head_limit": 0},
    {"pattern": "main", "output_mode": "content", "offset": 3, "head_limit": 2},
    {"pattern": "main", "offset": 2},
    {"pattern": "main", "offset": 200},
    {"pattern": "main", "path": "link.py", "output_mode": "content"},
]


@pytest.mark.no_cover
@pytest.mark.parametrize("given", SAME, ids=lambda given: " ".join(map(str, given.values())))
def test_ripgrep_and_our_own_search_give_the_same(tree: Workshop, given: dict[str, Any]) -> None:
    program = find_ripgrep()
    assert program is not None
    ours, theirs = run_grep(tree, None, given), run_grep(tree, program, given)
    assert ours.content == theirs.content
    assert ours.tool_use_result == theirs.tool_use_result


@pytest.mark.parametrize("given", SAME[3:8], ids=str)
def test_they_give_the_same_where_git_knows_the_files(
    git_tree: Workshop, given: dict[str, Any]
) -> None:
    ours, theirs = run_grep(git_tree, None, given), run_grep(git_tree, find_ripgrep(), given)
    assert ours.content == theirs.content


@pytest.mark.parametrize(
    "pattern", ["*.py", "**/*.py", "src/*.py", "src/**", "*.{ts,md}", "deep/*", "*a*", "nothing*"]
)
def test_glob_gives_the_same_with_and_without_ripgrep(
    tree: Workshop, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    theirs = tree.use(Glob(), pattern=pattern)
    monkeypatch.setattr("clew.agent.tools.search_tools.find_ripgrep", lambda: None)
    ours = tree.use(Glob(), pattern=pattern)
    assert ours.content == theirs.content


def test_glob_lists_the_newest_first_and_leaves_out_what_is_ignored(tree: Workshop) -> None:
    result = tree.use(Glob(), pattern="**/*.{py,log,tsx}")
    names = [
        "src/app.py", "src/deep/er/lib.py", "logs/keep.log", ".hidden/config.py", "empty.py",
        "ümlaut/straße.py", "with space/a b.py",
    ]  # fmt: skip
    assert result.content == "\n".join(names)
    took = result.tool_use_result.pop("durationMs")
    assert took >= 0
    assert result.tool_use_result == {"filenames": names, "numFiles": 7, "truncated": False}
    assert tree.use(Glob(), pattern="*.py", path="src/deep").content == "src/deep/er/lib.py"
    assert tree.use(Glob(), pattern="*.nothing").content == "No files match."


def test_paths_elsewhere_are_absolute(tree: Workshop) -> None:
    tree.session.cwd = str(tree.folder / "src")
    result = tree.use(Grep(), pattern="Title", path=str(tree.folder))
    assert result.content == str(tree.folder / "README.md")


def test_the_three_modes(tree: Workshop) -> None:
    files = tree.use(Grep(), pattern="main", glob="*.py")
    assert files.tool_use_result["mode"] == "files_with_matches"
    assert files.tool_use_result["numFiles"] == 5
    lines = tree.use(Grep(), pattern="main", path="src/app.py", output_mode="content")
    assert lines.content == "src/app.py:4:def main():\nsrc/app.py:8:if main():"
    assert lines.tool_use_result["numLines"] == 2
    counts = tree.use(Grep(), pattern="main", path="src", output_mode="count")
    assert str(counts.content).startswith("src/app.py:2\n")
    assert counts.tool_use_result["numMatches"] == 4


def test_head_limit_tells_of_the_rest(tree: Workshop) -> None:
    result = tree.use(Grep(), pattern="main", head_limit=1)
    assert result.content == ("src/app.py\n(The first 1 of 7 files; head_limit sets the number.)")


def test_many_files_and_long_lines_are_bounded(workshop: Workshop) -> None:
    for i in range(120):
        workshop.write(f"f{i:03}.txt", "x" * 2000 + "\n")
    found = workshop.use(Glob(), pattern="*.txt")
    assert found.tool_use_result["truncated"]
    assert "(The newest 100 of 120." in str(found.content)
    lines = workshop.use(Grep(), pattern="x", output_mode="content", head_limit=1)
    assert "… [1,500 more characters]" in str(lines.content)


def test_a_result_larger_than_is_kept_says_so(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "KEPT_BYTES", 100)
    workshop.write("a.txt", "match\n" * 500)
    result = workshop.use(Grep(), pattern="match", output_mode="content")
    assert " or more lines" in str(result.content)


def test_a_flood_begins_with_the_first_file_with_ripgrep_too(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "KEPT_BYTES", 2000)
    for number in range(40):
        workshop.write(f"f{number:02}.txt", "match\n" * 30)
    given = {"pattern": "match", "output_mode": "content", "-A": 1, "head_limit": 40}
    first = str(run_grep(workshop, find_ripgrep(), given).content).split("\n")
    assert first[0] == "f00.txt:1:match"
    assert first[30] == "--"
    assert first[31] == "f01.txt:1:match"
    assert " or more lines" in first[-1]


@pytest.mark.parametrize("own_program", [True, False])
def test_a_pattern_that_is_none_is_said(workshop: Workshop, own_program: bool) -> None:
    workshop.write("a.txt", "x\n")
    with pytest.raises(ToolError, match="The search failed"):
        run_grep(workshop, None if own_program else find_ripgrep(), {"pattern": "(unclosed"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pattern": "x", "path": "nowhere"}, "File or folder not found"),
        ({"pattern": "x", "type": "cobol"}, "Unknown type cobol. Use glob, or one of: c, cpp"),
        ({"pattern": "x", "type": "py", "glob": "*.py"}, "either type or glob"),
    ],
)
def test_what_cannot_be_searched_is_said(
    workshop: Workshop, given: dict[str, str], says: str
) -> None:
    result = workshop.use(Grep(), **given)
    assert result.is_error
    assert says in str(result.content)


def test_a_search_that_takes_for_ever_is_ended(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCH_TIMEOUT_S", 1.0)
    workshop.write("a.txt", "a" * 60 + "!\n")
    with pytest.raises(ToolError, match="more than 1 s"):
        own(workshop, pattern="(a+)+$")
    assert workshop.session.shell.launcher.living == 0


def test_a_search_can_be_cancelled(workshop: Workshop) -> None:
    workshop.write("a.txt", "a" * 60 + "!\n")

    async def go() -> None:
        wanted = GrepInput(pattern="(a+)+$")
        task = asyncio.create_task(grep(wanted, workshop.context(), None))
        await asyncio.to_thread(
            until, lambda: workshop.session.shell.launcher.living > 0, within_s=60
        )
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    workshop.use_later(go)
    assert workshop.session.shell.launcher.living == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_many_files_are_searched_side_by_side_and_come_in_order(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    for number in range(search.SHARE * 3):
        path = workshop.write(f"{number % 7}/f{number}.txt", f"match {number}\n\n\nmatch\n")
        os.utime(path, ns=(0, 10**18 - number * 10**9))
    given = {"pattern": "match", "output_mode": mode, "head_limit": 0, "-A": 1}
    ours, theirs = run_grep(workshop, None, given), run_grep(workshop, find_ripgrep(), given)
    assert ours.content == theirs.content
    assert len(str(ours.content).split("\n")) >= search.SHARE * 3


def test_a_share_that_breaks_is_no_empty_answer(tmp_path: Path) -> None:
    def work(names: list[str]) -> str:
        if names == ["b"]:
            raise MemoryError
        return names[0]

    assert search.in_parallel(work, [["a"], ["c"], ["d"]]) == ["a", "c", "d"]
    with pytest.raises(ValueError, match="exited unexpectedly"):
        search.in_parallel(work, [["a"], ["b"], ["d"]])


def test_a_flood_of_matches_ends_early_and_is_known_to_be_cut(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FOUND_MAX_CHARS", 100)
    names = [str(workshop.write(f"{n}.txt", "match\n" * 10)) for n in range(50)]
    job = search.Job(pattern="match", mode="content")
    found = search.search_files(job, search.compiled(job), names)
    assert 100 < len(found) < 5000


def test_what_no_search_can_read_is_passed_over(workshop: Workshop) -> None:
    workshop.write("big.txt", "x" * (search.PIECE_BYTES * 3) + "\nmatch\n")
    workshop.write("bin", "match\0")
    os.mkfifo(workshop.folder / "pipe")
    (workshop.folder / "deaf").mkdir(mode=0)
    assert own(workshop, pattern="match").content == "big.txt"
    assert search.text_of(str(workshop.folder), None, is_open=False) is None


def test_braces_are_their_alternatives() -> None:
    assert expand_braces("*.py") == ["*.py"]
    assert expand_braces("{a,b}.{c,}") == ["a.c", "a.", "b.c", "b."]
    assert expand_braces("*.{a") == ["*.{a"]


def test_what_they_are_for_the_executor(tmp_path: Path) -> None:
    find = Glob().input_type(pattern="*.py", path="src")
    look = GrepInput(pattern="x")
    assert Glob().is_read_only(find)
    assert Grep().is_concurrency_safe(look)
    assert Glob().paths(find) == ("src",)
    assert Grep().paths(look) == (".",)
    assert Glob().title(find) == "*.py in src"
    assert Grep().title(look) == "x"
