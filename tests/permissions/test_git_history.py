"""Denied files in a repository's history, as git itself finds them, in real repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.permissions.git_history import GitHistory
from clew.permissions.request import HeldByGit
from clew.permissions.rules import Anchors, PermissionRule, RuleSet, RuleSource, parse_rule
from clew.system.process.spawn import Launcher
from tests.requirements import requirement


class Repository:
    def __init__(self, top: Path) -> None:
        top.mkdir()
        self.top = top
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(top.parent)}
        self.git("init", "-q", "-b", "main")
        self.launcher = Launcher()
        self.history = GitHistory(self.launcher, self.environ)

    def git(self, *words: str) -> str:
        settings = ("-c", "user.name=n", "-c", "user.email=e@example.com")
        done = subprocess.run(
            ["git", *settings, *words],
            cwd=self.top,
            env=self.environ,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        return done.stdout.strip()

    def commit(self, name: str, text: str | None) -> None:
        path = self.top / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", "one")

    def rules(self, *texts: str) -> RuleSet:
        source = RuleSource(scope="user")
        made = [parse_rule(text, "deny", root=str(self.top), source=source) for text in texts]
        anchors = Anchors(cwd=str(self.top), home=str(self.top.parent))
        return RuleSet([rule for rule in made if isinstance(rule, PermissionRule)], anchors=anchors)

    async def look_up(self) -> bool:
        try:
            return await self.history.look_up()
        finally:
            await self.launcher.aclose()

    async def held(self, *texts: str, folder: Path | None = None) -> HeldByGit:
        rules = self.rules(*(texts or ("Read(.env)", "Read(secrets/**)")))
        place = str(folder or self.top)
        known = self.history.held(place, rules)
        return self.history.held(place, rules) if await self.look_up() else known


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve() / "work")


@requirement("R146")
async def test_what_the_index_or_any_commit_names_is_known(repository: Repository) -> None:
    assert await repository.held() == HeldByGit(is_known=True, top=str(repository.top))
    repository.commit("a.py", "x\n")
    assert (await repository.held()).paths == ()
    (repository.top / ".env").write_text("staged", "utf-8")
    repository.git("add", "-f", ".env")
    found = await repository.held()
    assert found.paths == (".env",)
    assert found.blobs == {repository.git("rev-parse", ":.env")}
    repository.git("rm", "-q", "--cached", ".env")
    repository.commit("secrets/key", "k\n")
    blob = repository.git("rev-parse", "HEAD:secrets/key")
    repository.commit("secrets/key", None)
    repository.git("rm", "-q", "--cached", ".env")
    found = await repository.held("Read(secrets/**)")
    assert (found.paths, found.blobs) == (("secrets/key",), {blob})
    assert (await repository.held("Read(SECRETS/**)")).paths == ("secrets/key",)
    assert (await repository.held("Read(other)")).paths == ()
    assert (await repository.held("Read(//nowhere)")).paths == ()


@pytest.mark.parametrize("way", ["branch", "merge", "tag", "reflog", "stash", "fetch", "first"])
async def test_it_is_found_wherever_it_was_committed(repository: Repository, way: str) -> None:
    git = repository.git
    if way == "first":
        git("config", "log.showRoot", "false")
        repository.commit(".env", "k")
        repository.commit(".env", None)
        assert (await repository.held()).paths == (".env",)
        return
    repository.commit("a.py", "x")
    git("checkout", "-q", "-b", "other")
    if way == "stash":
        (repository.top / ".env").write_text("k", "utf-8")
        git("stash", "-u")
    else:
        repository.commit(".env", "k")
    if way in ("merge", "fetch"):
        repository.commit(".env", None)
    git("checkout", "-q", "main")
    if way == "merge":
        # Its own change is undone before: by the first parent nothing ever happened.
        repository.commit("b.py", "x")
        git("merge", "-q", "--no-ff", "-m", "m", "other")
        git("branch", "-q", "-D", "other")
    elif way == "tag":
        git("tag", "-a", "v1", "-m", "t", "other")
        git("branch", "-q", "-D", "other")
    elif way == "reflog":
        git("branch", "-q", "-D", "other")
    elif way == "fetch":
        away = repository.top.parent / "away"
        git("clone", "-q", "--bare", str(repository.top), str(away))
        git("branch", "-q", "-D", "other")
        git("reflog", "expire", "--expire=all", "--all")
        git("fetch", "-q", str(away), "other")
    assert (await repository.held()).paths == (".env",)


async def test_what_was_found_holds_until_the_repository_changes(repository: Repository) -> None:
    repository.history = GitHistory(repository.launcher, repository.environ, unsettled_ns=-(10**18))
    repository.commit("a.py", "x")
    rules = repository.rules("Read(.env)")
    top = str(repository.top)
    assert not repository.history.held(top, rules).is_known
    assert await repository.look_up()
    for _ in range(3):
        assert repository.history.held(top, rules).is_known
        assert not await repository.look_up()
    repository.commit(".env", "k")
    assert not repository.history.held(top, rules).is_known
    assert (await repository.held("Read(.env)")).paths == (".env",)
    repository.git("update-ref", "refs/heads/deep/er", "HEAD")
    assert not repository.history.held(top, rules).is_known


async def test_a_change_of_this_very_moment_is_searched_again(repository: Repository) -> None:
    repository.commit("a.py", "x")
    rules = repository.rules("Read(.env)")
    assert (await repository.held("Read(.env)")).is_known
    assert not repository.history.held(str(repository.top), rules).is_known


async def test_what_cannot_be_searched_is_unknown(repository: Repository, tmp_path: Path) -> None:
    repository.commit("a.py", "x")
    assert await repository.held(folder=tmp_path) == HeldByGit(is_known=True)
    assert not (await repository.held(*(f"Read(x{i})" for i in range(300)))).is_known
    assert not (await repository.held(folder=tmp_path / "nowhere")).is_known
    bare = tmp_path / "bare"
    repository.git("clone", "-q", "--bare", str(repository.top), str(bare))
    assert not (await repository.held(folder=bare)).is_known
    broken = tmp_path / "line\nbreak"
    repository.git("clone", "-q", str(repository.top), str(broken))
    assert not (await repository.held(folder=broken)).is_known
    (repository.top / ".git" / "index").write_bytes(b"DIRC-not")
    assert not (await repository.held()).is_known
    repository.history = GitHistory(repository.launcher, repository.environ, limit_s=0.0)
    assert not (await repository.held()).is_known


async def test_a_repository_that_is_too_large_is_given_up(
    repository: Repository,
) -> None:
    repository.commit("a.py", "x")
    clock = iter([0.0, 0.0, 1.0, 99.0, 99.0])
    repository.history = GitHistory(
        repository.launcher, repository.environ, monotonic_s=lambda: next(clock)
    )
    assert not (await repository.held()).is_known
    assert not (await repository.held()).is_known
    assert not await repository.look_up()


async def test_no_program_of_an_untrusted_repository_is_started(repository: Repository) -> None:
    ran = repository.top.parent / "ran"
    program = repository.top / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n", "utf-8")
    program.chmod(0o755)
    repository.commit(".gitattributes", "* diff=evil filter=evil\n")
    repository.commit(".env", "k")
    for name in (
        "core.fsmonitor",
        "core.pager",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "diff.external",
        "gpg.program",
        "core.sshCommand",
    ):
        repository.git("config", name, str(program))
    repository.git("config", "log.showSignature", "true")
    assert (await repository.held()).paths == (".env",)
    assert not ran.exists()


async def test_a_program_that_is_missing_leaves_it_unknown(repository: Repository) -> None:
    repository.history = GitHistory(repository.launcher, {"PATH": "/nowhere"})
    assert not (await repository.held()).is_known
