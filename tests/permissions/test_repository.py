"""Programs that an untrusted repository would make git start are known to a decision."""

import subprocess
from pathlib import Path

import pytest

from clew.permissions.in_session import SessionRules
from clew.permissions.session_rules import load_current_rules
from clew.system.config.load import trust
from clew.system.config.paths import find_places


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home, and beside it `work`, a repository that names a pager of its own."""
    home = tmp_path.resolve() / "home"
    home.mkdir()
    work = home.parent / "work"
    (work / "below").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    subprocess.run(["git", "config", "core.pager", "x"], cwd=work, check=True)
    return home


def rules(home: Path, folder: Path) -> SessionRules:
    return SessionRules({"HOME": str(home)}, folder, mode=None, command_line=None)


def trusted(home: Path, folder: Path) -> None:
    trust(find_places({"HOME": str(home)}, folder), str(folder))


def test_a_folder_that_is_not_trusted_brings_what_its_repository_names(home: Path) -> None:
    work = home.parent / "work"
    assert load_current_rules({"HOME": str(home)}, work).context.git_programs == ("core.pager",)
    assert rules(home, work).git_programs(str(work / "below")) == ("core.pager",)


def test_trust_in_the_folder_is_trust_in_what_its_repository_names(home: Path) -> None:
    work = home.parent / "work"
    trusted(home, work)
    assert load_current_rules({"HOME": str(home)}, work).context.git_programs == ()
    assert rules(home, work).git_programs(str(work / "below")) == ()


def test_trust_in_a_folder_is_no_trust_in_another_repository_below_it(home: Path) -> None:
    work = home.parent / "work"
    trusted(home, work)
    now = rules(home, work)
    for folder in ("vendor/package/src", "plain"):
        (work / folder).mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=work / "vendor" / "package", check=True)
    assert now.git_programs(str(work / "vendor" / "package")) == ()
    words = ["git", "config", "core.fsmonitor", "y"]
    subprocess.run(words, cwd=work / "vendor" / "package", check=True)
    assert now.git_programs(str(work / "vendor" / "package" / "src")) == ("core.fsmonitor",)
    assert now.git_programs(str(work / "vendor")) == ()
    (work / "plain" / ".git").write_text("gitdir: ../.git\n", "utf-8")
    assert now.git_programs(str(work / "plain")) == ()
    (work / "plain" / ".git").write_text("gitdir: ../vendor/package/.git\n", "utf-8")
    assert now.git_programs(str(work / "plain"))[:1] == ("core.fsmonitor",)
    (work / "plain" / ".git").write_text("x" * 20_000, "utf-8")
    assert now.git_programs(str(work / "plain")) != ()


def test_the_folder_counts_in_which_the_shell_is_now(home: Path) -> None:
    work, other = home.parent / "work", home.parent / "other"
    other.mkdir()
    trusted(home, other)
    now = rules(home, other)
    assert now.git_programs(str(other)) == ()
    assert now.git_programs(str(work)) == ("core.pager",)
    trusted(home, work)
    assert now.git_programs(str(work)) == ()


def test_a_setting_that_comes_during_the_session_is_known_at_the_next_call(home: Path) -> None:
    work = home.parent / "work"
    now = rules(home, work)
    subprocess.run(["git", "config", "core.fsmonitor", "y"], cwd=work, check=True)
    assert now.git_programs(str(work)) == ("core.pager", "core.fsmonitor")
