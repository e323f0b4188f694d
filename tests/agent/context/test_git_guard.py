"""clew's own git calls start no program that a repository names, and return the right data."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.agent.context import git
from clew.agent.subagents.worktree import Git, make
from clew.core.messages.errors import UserError
from tests.agent.context.test_git import with_launcher
from tests.system.config.test_repository import IDENTITY, WAYS, by_a_filter, by_a_hook, top
from tests.system.config.test_repository import git as run_git

__all__ = ["top"]


def environment(folder: Path, *, trusted: bool = False) -> dict[str, str]:
    """Return variables with a home of their own, in which `folder` is trusted or not."""
    home = folder.parent / "home"
    store = home / ".claude" / "clew" / "trust.json"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps({"folders": [str(folder.resolve())] if trusted else []}), "utf-8")
    return {"PATH": os.environ["PATH"], "HOME": str(home), **IDENTITY}


@pytest.mark.no_cover
@pytest.mark.parametrize("way", WAYS)
def test_no_look_starts_what_an_untrusted_repository_names(
    top: Path, way: Callable[[Path, Path], Path]
) -> None:
    ran = top.parent / "ran"
    where = way(top, top.parent / "mark")
    environ = environment(where)
    ran.unlink(missing_ok=True)
    with_launcher(lambda launcher: git.report(launcher, where, environ))
    with_launcher(lambda launcher: git.read_difference(launcher, where, environ))
    with_launcher(lambda launcher: git.find_changes(launcher, where, environ))
    with_launcher(lambda launcher: git.list_files(launcher, environ, where))
    assert not ran.exists()


def test_what_has_changed_is_seen_without_the_filter(top: Path) -> None:
    where = by_a_filter(top, top.parent / "mark")
    environ = environment(where)
    found = with_launcher(lambda launcher: git.report(launcher, where, environ))
    assert (found.modified, found.untracked) == (("a",), (".gitattributes",))
    assert "+b" in with_launcher(lambda launcher: git.read_difference(launcher, where, environ))


def test_the_filter_of_a_trusted_folder_has_its_say(top: Path) -> None:
    """A filter removes what the user added, so git shows no change."""
    (top / ".gitattributes").write_text("a filter=f\n", "utf-8")
    run_git(top, "config", "filter.f.clean", "head -n 1")
    (top / "a").write_text("a\nmine\n", "utf-8")
    plain = environment(top)
    assert "+mine" in with_launcher(lambda launcher: git.read_difference(launcher, top, plain))
    trusted = environment(top, trusted=True)
    assert with_launcher(lambda launcher: git.read_difference(launcher, top, trusted)) == ""


def test_a_hook_of_a_trusted_folder_runs_at_no_look_of_clews_own(top: Path) -> None:
    where = by_a_hook(top, top.parent / "mark")
    (top.parent / "ran").unlink(missing_ok=True)
    with_launcher(lambda launcher: git.report(launcher, where, environment(where, trusted=True)))
    assert not (top.parent / "ran").exists()


def test_a_worktree_of_an_untrusted_repository_with_a_filter_is_refused(top: Path) -> None:
    where = by_a_filter(top, top.parent / "mark")
    (top.parent / "ran").unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"filter\.f\.clean.*clew config trust"):
        with_launcher(lambda launcher: make(Git(launcher, environment(where)), str(where), "one"))
    assert not (top.parent / "ran").exists()
    made = with_launcher(
        lambda launcher: make(Git(launcher, environment(where, trusted=True)), str(where), "one")
    )
    assert Path(made.path, "a").read_text(encoding="utf-8") == "a\n"
