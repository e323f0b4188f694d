"""The structure of a folder: cached, refreshed, and sent only if wanted."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from clew.agent.context.structure import MOST_NAMES, Structure, listed
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

ANSWERS = {"scenario": 1, "answers": [{"text": "Well.", "times": "always"}]}


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", "utf-8")


async def of(structure: Structure, folder: Path) -> str:
    fact = await structure.fact(folder)
    return "" if fact is None else str(fact.rendered[0])


@requirement("R119")
async def test_a_folder_that_did_not_change_is_not_looked_at_twice(tmp_path: Path) -> None:
    write(tmp_path / "src" / "a.py")
    asked: list[Path] = []

    async def files(folder: Path) -> list[str] | None:
        asked.append(folder)
        return None

    structure = Structure(files)
    before = await of(structure, tmp_path)
    assert "src/a.py" in before
    assert await of(structure, tmp_path) == before
    assert len(asked) == 1
    write(tmp_path / "src" / "b.py")
    os.utime(tmp_path / "src", ns=(7, 7))  # a file system may count in coarse steps
    assert "src/b.py" in await of(structure, tmp_path)
    assert len(asked) == 2
    assert await of(structure, tmp_path / "gone") == ""


def test_elsewhere_than_in_a_repository_two_levels_are_listed_within_bounds(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c.txt")
    write(tmp_path / ".hidden" / "x")
    write(tmp_path / "z.txt")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("/")
    assert list(listed(tmp_path)) == ["a/b/", "empty", "link", "z.txt"]
    for number in range(MOST_NAMES + 5):
        write(tmp_path / "many" / f"{number}")
    assert len(list(listed(tmp_path))) == MOST_NAMES


@requirement("R119")
@pytest.mark.parametrize("is_repository", [True, False])
def test_who_wants_it_is_told_what_lies_here(tmp_path: Path, *, is_repository: bool) -> None:
    work = tmp_path / "work"
    write(work / "src" / "deep" / "er" / "a.py")
    write(work / "notes.txt")
    write(work / "build" / "out.bin")
    write(work / ".gitignore")
    (work / ".gitignore").write_text("build/\n", "utf-8")
    if is_repository:
        subprocess.run(["git", "init", "-q", str(work)], check=True)
    with serving(ANSWERS, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
        assert "Files here" not in json.dumps(server.requests[-1].body)
        write(tmp_path / "config" / "settings.json")
        wanted = json.dumps({"includeDirectoryStructure": True})
        (tmp_path / "config" / "settings.json").write_text(wanted, "utf-8")
        with Hosted(tmp_path, server.url) as host:
            host.say("hi")
            host.result()
            first = json.dumps(server.requests[-1].body)
            assert "Files here, two levels deep" in first
            assert "notes.txt" in first
            assert "src/deep/" in first
            assert ("build/out.bin" in first) is not is_repository
            write(work / "later.txt")
            host.say("/clear")
            host.result()
            host.say("again")
            host.result()
            assert "later.txt" in json.dumps(server.requests[-1].body)
            assert host.end() == 0
