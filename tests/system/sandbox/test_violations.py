"""What the sandbox blocked, found in the output of a command."""

import os

import pytest

from clew.system.sandbox.policy import SandboxPolicy
from clew.system.sandbox.violations import (
    SETTINGS,
    SandboxViolation,
    describe_violations,
    find_violations,
    list_violations,
)

POLICY = SandboxPolicy(write=("/work",), no_write=("/work/.git/hooks",), no_read=("/home/me/.ssh",))


def told(output: str, **more: object) -> list[str]:
    refused = more.get("refused", ())
    assert isinstance(refused, tuple)
    violations = find_violations(
        output, POLICY, cwd="/work/sub", home="/home/me", refused=refused, can_do=os.access
    )
    return [f"{each} ({SETTINGS[each.kind]})" for each in violations]


WRITE = "(sandbox.filesystem.allowWrite)"
READ = "(sandbox.filesystem.allowRead)"
NET = "(sandbox.network.allowedDomains)"


@pytest.mark.parametrize(
    ("line", "violation"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", f"writing /etc/x {WRITE}"),
        ("bash: line 1: /etc/x: Permission denied", f"writing /etc/x {WRITE}"),
        ("bash: ../../out: Read-only file system", f"writing /out {WRITE}"),
        (
            "mkdir: cannot create directory ‘/etc/d’: Read-only file system",
            f"writing /etc/d {WRITE}",
        ),
        ("PermissionError: [Errno 13] Permission denied: '/etc/x'", f"writing /etc/x {WRITE}"),
        ("cp: ~/x: Permission denied", f"writing /home/me/x {WRITE}"),
        ("sh: /work/.git/hooks/a: Read-only file system", f"writing /work/.git/hooks/a {WRITE}"),
        ("cat: /home/me/.ssh/id: No such file or directory", f"reading /home/me/.ssh/id {READ}"),
        ("cat: /home/me/.ssh/id: Permission denied", f"reading /home/me/.ssh/id {READ}"),
        ("curl: (6) Could not resolve host: example.com", f"reaching example.com {NET}"),
        ("wget: unable to resolve host address ‘example.com’", f"reaching example.com {NET}"),
        ("connect: Network is unreachable", f"reaching the network {NET}"),
    ],
)
def test_each_is_named_with_what_would_allow_it(line: str, violation: str) -> None:
    assert told(f"before\n{line}\nafter") == [violation]


@pytest.mark.parametrize(
    "line",
    [
        "cat: /work/none: No such file or directory",
        "cat: none: No such file or directory",
        "ls: cannot access '/etc/none': No such file or directory",
        "ls: cannot access '/work/x': Permission denied",
        "all is well with /etc/x",
        "Permission denied (publickey)",
    ],
)
def test_what_the_walls_have_no_part_in_is_not_named(line: str) -> None:
    assert told(line) == []


def test_each_is_named_once_and_not_too_many() -> None:
    line = "touch: cannot touch '/etc/x': Read-only file system\n"
    assert len(told(line * 3)) == 1
    many = "".join(f"touch: cannot touch '/etc/{n}': Read-only file system\n" for n in range(9))
    assert len(told(many)) == 5


def test_the_proxy_knows_best_what_it_refused() -> None:
    assert told("Network is unreachable", refused=("a.test", "b.test")) == [
        f"reaching a.test {NET}", f"reaching b.test {NET}",
    ]  # fmt: skip


def test_the_note_says_who_can_allow_it() -> None:
    assert describe_violations([], is_read_only=False) == ""
    line = "sh: /etc/x: Permission denied"
    violations = find_violations(line, POLICY, cwd="/work", home="/home/me", can_do=os.access)
    note = describe_violations(violations, is_read_only=False)
    assert "writing /etc/x" in note
    assert "Only the user can allow it" in note


READ_ONLY = SandboxPolicy(write=("/tmp/own",), no_read=("/home/me/.ssh",), is_read_only=True)


@pytest.mark.parametrize(
    ("line", "violation"),
    [
        ("bash: line 1: out: Permission denied", "writing /mine/out"),
        ("bash: line 1: ./out: Permission denied", "writing /mine/out"),
        ("bash: line 1: /mine/file: Permission denied", "writing /mine/file"),
        ("bash: /tmp/own/x: Permission denied", ""),
        ("cat: /theirs/file: Permission denied", ""),
        ("find: '/theirs': Permission denied", ""),
        ("cat: /home/me/.ssh/id: Permission denied", "reading /home/me/.ssh/id"),
        ("chmod: changing permissions of '/mine/file': Operation not permitted", "writing /mine/file"),
        ("kill: (12) - Operation not permitted", "an operation that changes something"),
        ("curl: (6) Could not resolve host: example.com", "reaching example.com"),
        ("all is well with /mine/file", ""),
    ],
)  # fmt: skip
def test_in_the_read_only_sandbox_what_the_user_may_not_do_either_is_not_named(
    line: str, violation: str
) -> None:
    there = {"/mine", "/mine/file", "/theirs", "/theirs/file"}

    def can_do(path: str, what: int) -> bool:
        return path in there and (what == os.F_OK or path.startswith("/mine"))

    violations = find_violations(line, READ_ONLY, cwd="/mine", home="/home/me", can_do=can_do)
    assert list_violations(violations) == violation


def test_the_note_of_the_read_only_wall_names_no_setting() -> None:
    note = describe_violations([SandboxViolation(kind="writing", target="/x")], is_read_only=True)
    assert "blocked writing /x." in note
    assert "sandbox." not in note


@pytest.mark.parametrize(
    "line", ["cat: missing: No such file or directory", "ls: cannot access 'x'"]
)
def test_what_is_missing_is_not_blamed_on_the_read_only_wall(line: str) -> None:
    wall = SandboxPolicy(write=(), is_read_only=True)
    violations = find_violations(line, wall, cwd="/tmp", home="/home/me", can_do=lambda _, __: True)
    assert violations == []
