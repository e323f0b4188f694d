"""Settings of git that start programs: the format, the table, and what git itself reads of the same bytes."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.config.git_config import (
    Setting,
    UnreadableError,
    is_include,
    read_settings,
    show_name,
    starts_program,
)


def read(text: str) -> list[tuple[str, str | None]]:
    return [(one.name, one.value) for one in read_settings(text.encode())]


def test_sections_keys_and_values_are_read_as_git_writes_them() -> None:
    text = (
        "\ufeff# a comment\n; another\n[core]\n\tbare = false\n\tFSMonitor = /x/y  \n"
        '[filter "L F\\"S"]\n\tclean = "a b" # said\n[diff.Word] textconv = c\\\n d\n\tbinary\n'
        '[a]\r\n b = "x;y" z ;no\r\n c = \\t\\n\\b\\\\\\"\n'
    )
    assert read(text) == [
        ("core.bare", "false"),
        ("core.fsmonitor", "/x/y"),
        ('filter.L F"S.clean', "a b"),
        ("diff.word.textconv", "c d"),
        ("diff.word.binary", None),
        ("a.b", "x;y z"),
        ("a.c", '\t\n\b\\"'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[core\nx = y\n",
        "x = y\n",
        "[core]\n1x = y\n",
        "[core]\nx ! y\n",
        '[core]\nx = "y\n',
        "[core]\nx = \\q\n",
        '[core "a\nb"]\n',
        "[core]\nx = a\0b\n",
    ],
)
def test_what_is_broken_is_said_and_not_passed_over(text: str) -> None:
    with pytest.raises(UnreadableError):
        read(text)


def test_a_file_that_ends_within_a_value_gives_what_it_has() -> None:
    assert read("[core]\npager = less \\") == [("core.pager", "less ")]


STARTS = {
    "core.fsmonitor": "/tmp/x",
    "core.hookspath": ".husky",
    "core.pager": "x",
    "core.sshcommand": "x",
    "core.askpass": "x",
    "core.gitproxy": "x",
    "core.alternaterefscommand": "x",
    "sequence.editor": "x",
    "pager.log": "x",
    "alias.st": "!x",
    "diff.external": "x",
    "diff.my.driver.command": "x",
    "diff.d.textconv": "x",
    "filter.f.clean": "x",
    "filter.f.smudge": "x",
    "filter.f.process": "x",
    "merge.m.driver": "x",
    "credential.helper": "x",
    "credential.https://a.b.helper": "x",
    "gpg.program": "x",
    "gpg.ssh.program": "x",
    "gpg.ssh.defaultkeycommand": "x",
    "hook.h.command": "x",
    "remote.o.uploadpack": "x",
    "remote.o.url": "ext::sh -c x",
    "url.ext::sh -c x.insteadof": "https://",
    "submodule.s.update": "!x",
    "lfs.customtransfer.t.path": "x",
    "sendemail.tocmd": "x",
    "trailer.t.command": "x",
    "tar.t.command": "x",
}
STARTS_NOTHING = {
    "core.fsmonitor": "true",
    "core.bare": "false",
    "core.editorial": "x",
    "pager.log": "no",
    "alias.st": "status",
    "branch.main.remote": "origin",
    "diff.renames": "true",
    "filter.f.required": "true",
    "remote.o.url": "https://a.b/c",
    "url.https://a/.insteadof": "b:",
    "sendemail.to": "x@y",
    "submodule.s.update": "rebase",
    "user.email": "a@b",
}


@pytest.mark.parametrize(("name", "value"), STARTS.items())
def test_settings_that_hold_a_command_start_a_program(name: str, value: str) -> None:
    assert starts_program(Setting(name=name, value=value))


@pytest.mark.parametrize(("name", "value"), STARTS_NOTHING.items())
def test_other_settings_and_truth_values_start_none(name: str, value: str) -> None:
    assert not starts_program(Setting(name=name, value=value))


@pytest.mark.parametrize("value", ["true ", "0x1", "true\v", "²", "/x"])
def test_what_only_looks_like_a_truth_value_is_a_program(value: str) -> None:
    assert starts_program(Setting(name="core.fsmonitor", value=value))


def test_a_name_alone_means_yes_and_not_a_program() -> None:
    assert not starts_program(Setting(name="core.fsmonitor", value=None))


def test_includes_name_a_file() -> None:
    assert is_include(Setting(name="include.path", value="x"))
    assert is_include(Setting(name="includeif.gitdir:/a.b/.path", value="x"))
    assert not is_include(Setting(name="include.path", value=None))
    assert not is_include(Setting(name="core.path", value="x"))


def test_a_name_is_shown_on_one_line_and_not_at_any_length() -> None:
    assert show_name("core.pager") == "core.pager"
    assert show_name("filter.a\nb\x1b.clean") == r"filter.a\nb\x1b.clean"
    assert len(show_name("filter." + "x" * 500)) < 100


LINES = st.lists(
    st.sampled_from(
        [
            "[core]", "[core]fsmonitor=/x", '[filter "a"]', '[diff "a b\\"c\\\\"] command=x', "[diff.A]",
            "\tfsmonitor = true", "  fsmonitor = true ", 'pager = "a;b" c', "textconv = a \\", "clean",
            "x-y=1;2", 'v = "a" "b" ', "v = a\\tb\\n", "# c \\", "; c", "", "v = a\\", "  b # c", "v =", "\r",
            'v = "', "v = \\x", "[a", "[ a]", '[a"b"]', '[a "b" ]', "[]", "=x", "v x", "v\r=x", "v = \x0b\x0c",
        ]
    ),
    max_size=8,
)  # fmt: skip


@given(lines=LINES, end=st.sampled_from(["", "\n", "\r\n"]))
def test_git_reads_the_same_settings_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str
) -> None:
    file = tmp_path_factory.mktemp("c") / "config"
    file.write_bytes(("\n".join(lines) + end).encode())
    by_git = listed(file)
    try:
        mine: list[tuple[str, str | None]] | None = read(file.read_bytes().decode())
    except UnreadableError:
        mine = None
    if by_git is not None:
        # What git reads and this does not is reported as unreadable, which asks as well.
        assert mine is None or [squeezed(one) for one in mine] == [squeezed(one) for one in by_git]


def squeezed(setting: tuple[str, str | None]) -> tuple[str, str | None]:
    """Versions of git differ in how they write blanks inside a value, and before the end of a line
    that goes on."""
    name, value = setting
    return name, None if value is None else re.sub(r"[ \t\r]+", " ", value).rstrip(" ")


def listed(file: Path) -> list[tuple[str, str | None]] | None:
    told = subprocess.run(
        ["git", "config", "--file", str(file), "--null", "--list"], capture_output=True, check=False
    )
    if told.returncode != 0:
        return None
    found: list[tuple[str, str | None]] = []
    for record in told.stdout.decode().split("\0")[:-1]:
        name, equals, value = record.partition("\n")
        found.append((name, value if equals else None))
    return found
