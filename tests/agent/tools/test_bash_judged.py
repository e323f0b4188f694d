"""Which command lines are known to change nothing, known to be destructive, or neither."""

import pytest

from clew.agent.tools.bash import Bash
from tests.requirements import requirement

LOOKS = [
    "ls -la",
    "git status",
    "cat a | grep b | wc -l",
    "find . -name x",
    "ls 2>/dev/null",
    "time ls",
    "sed -n 1p a",
]
DESTROYS = [
    "rm x",
    "ls; rm x",
    "echo $(rm x)",
    "find . -delete",
    "find . | xargs rm",
    "sudo mkfs.ext4 /dev/sda",
    "mv a b",
    "git reset --hard",
    "git push -f",
    "git stash drop",
    "git clean -fd",
    "echo 'open",
]
NEITHER = [
    "echo $(date)",
    "for f in *; do cat $f; done",
    "echo hi > f",
    "python x.py",
    "git push",
    "sed -i s/a/b/ f",
    "mkdir x",
    "git checkout -b x",
]


@requirement("W25")
@pytest.mark.parametrize("command", LOOKS)
def test_a_command_known_to_look_is_read_only_and_may_run_beside_others(command: str) -> None:
    given = Bash().input_type(command=command)
    assert Bash().is_read_only(given)
    assert Bash().is_concurrency_safe(given)
    assert not Bash().is_destructive(given)


@requirement("W25")
@pytest.mark.parametrize("command", DESTROYS)
def test_a_command_known_to_take_things_away_is_destructive(command: str) -> None:
    given = Bash().input_type(command=command)
    assert Bash().is_destructive(given)
    assert not Bash().is_read_only(given)
    assert not Bash().is_concurrency_safe(given)


@requirement("W25")
@pytest.mark.parametrize("command", NEITHER)
def test_a_command_that_may_change_something_runs_alone(command: str) -> None:
    given = Bash().input_type(command=command)
    assert not Bash().is_read_only(given)
    assert not Bash().is_destructive(given)


def test_a_look_from_another_folder_runs_alone_because_the_folder_carries_over() -> None:
    given = Bash().input_type(command="cd src && ls")
    assert Bash().is_read_only(given)
    assert not Bash().is_concurrency_safe(given)
