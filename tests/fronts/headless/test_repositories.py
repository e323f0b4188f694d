"""Repositories that configure programs, in the real process: none of them runs without asking."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.test_web import call, run
from tests.system.config.test_repository import (
    WAYS,
    by_a_bare_repository,
    by_a_false_folder_first,
    by_a_filter,
    by_a_folder_below,
    by_a_hook,
    by_a_linked_worktree,
    by_a_repository_within,
    by_config,
)
from tests.system.config.test_repository import git as run_git

Json = dict[str, Any]
Way = Callable[[Path, Path], Path]


def repository(home: Path) -> Path:
    """Create `home/work` with one commit, and a program that leaves a file named `ran`."""
    work = home / "work"
    work.mkdir()
    run_git(work, "init", "-q")
    (work / "a").write_text("a\n", "utf-8")
    run_git(work, "add", "a")
    run_git(work, "commit", "-q", "-m", "one")
    mark = home / "mark"
    mark.write_text(f"#!/bin/sh\ntouch {home}/ran\n", "utf-8")
    mark.chmod(0o755)
    return work


def bare(home: Path) -> Path:
    """Make `home/work` a bare repository, with settings that start a program."""
    repository(home)
    (home / "work").rename(home / "plain")
    run_git(home, "clone", "-q", "--bare", "plain", "work")
    text = f"[core]\nrepositoryformatversion = 0\nworktree = .\nfsmonitor = {home}/mark\n"
    (home / "work" / "config").write_text(text, "utf-8")
    return home / "work"


@pytest.mark.parametrize("way", [by_config, by_a_filter, by_a_hook, by_a_repository_within])
def test_a_session_begins_without_what_the_repository_names(tmp_path: Path, way: Way) -> None:
    way(repository(tmp_path), tmp_path / "mark")
    (tmp_path / "ran").unlink(missing_ok=True)
    sent, results = run(
        tmp_path,
        [call("Glob", pattern="*"), call("Grep", pattern="a"), {"text": "Done."}],
    )
    assert "Branch: " in str(sent[0]["messages"])
    assert len(results) == 2
    assert not (tmp_path / "ran").exists()


ELSEWHERE = (
    by_a_bare_repository,
    by_a_false_folder_first,
    by_a_folder_below,
    by_a_linked_worktree,
)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ELSEWHERE])
def test_a_look_with_git_asks_where_an_untrusted_repository_names_a_program(
    tmp_path: Path, way: Way
) -> None:
    way(repository(tmp_path), tmp_path / "mark")
    (tmp_path / "ran").unlink(missing_ok=True)
    looks = [call("Bash", command=f"git {word}") for word in ("status", "diff", "log -1")]
    _, results = run(tmp_path, [*looks, {"text": "Done."}])
    assert not (tmp_path / "ran").exists()
    for result in results:
        assert "this untrusted repository" in result["content"]


def test_a_look_with_git_is_not_asked_about_once_the_folder_is_trusted(tmp_path: Path) -> None:
    by_config(repository(tmp_path), tmp_path / "mark")
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    _, results = run(tmp_path, [call("Bash", command="git status --short"), {"text": "Done."}])
    assert "is_error" not in results[0]


def test_a_look_with_git_asks_in_another_repository_below_a_trusted_folder(tmp_path: Path) -> None:
    work = repository(tmp_path)
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    (work / "vendor").mkdir()
    run_git(work / "vendor", "init", "-q")
    by_config(work / "vendor", tmp_path / "mark")
    looks = [call("Bash", command=line) for line in ("cd vendor", "git status")]
    _, results = run(tmp_path, [*looks, {"text": "Done."}])
    assert "is_error" not in results[0]
    assert "this untrusted repository" in results[1]["content"]


def test_git_of_a_command_refuses_a_bare_repository_that_nobody_named(tmp_path: Path) -> None:
    work = bare(tmp_path)
    _, results = run(
        tmp_path,
        [
            call("Bash", command="git status"),
            call("Bash", command="cd refs && git status"),
            call("Bash", command=f"git --git-dir={work} log --format=%s"),
            {"text": "Done."},
        ],
        "--allowedTools",
        "Bash",
    )
    refused, below, named = (str(result["content"]) for result in results)
    assert "cannot use bare repository" in refused
    assert "cannot use bare repository" in below
    assert "one" in named
    assert not (tmp_path / "ran").exists()


def test_a_command_that_nobody_was_asked_about_has_the_same_wall_against_bare_repositories(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    looks = call("Bash", command="git config --get safe.bareRepository")
    _, results = run(tmp_path, [looks, {"text": "Done."}])
    assert str(results[0]["content"]).strip() == "explicit"


def test_who_trusts_a_bare_repository_works_in_it(tmp_path: Path) -> None:
    bare(tmp_path)
    (tmp_path / "work" / "config").write_text(
        "[core]\nrepositoryformatversion = 0\nbare = true\n", "utf-8"
    )
    assert clew(tmp_path, "http://127.0.0.1:1", "config", "trust").returncode == 0
    _, results = run(
        tmp_path,
        [call("Bash", command="git log --format=%s"), {"text": "Done."}],
        "--allowedTools",
        "Bash",
    )
    assert str(results[0]["content"]).strip() == "one"


def test_settings_for_git_that_the_user_brings_along_stay_in_force(tmp_path: Path) -> None:
    repository(tmp_path)
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "my.own", "GIT_CONFIG_VALUE_0": "kept"}
    _, results = run(
        tmp_path,
        [
            call("Bash", command="git config my.own; git config safe.bareRepository"),
            {"text": "Done."},
        ],
        "--allowedTools",
        "Bash",
        "--settings",
        json.dumps({"env": own}),
    )
    assert str(results[0]["content"]).split() == ["kept", "explicit"]
