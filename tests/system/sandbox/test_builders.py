"""The restrictions of each backend are built from the same policy."""

import os
from pathlib import Path
from typing import Any

from clew.system.process.walls import OF_FILES, READ_DIR, READING, list_rights
from clew.system.sandbox import backends
from clew.system.sandbox.filters import INET, NETLINK, UNIX, make_socket_filter, read_only_filter
from clew.system.sandbox.policy import SandboxPolicy
from clew.system.sandbox.protected_paths import Listing
from tests.requirements import requirement


def policy(home: Path, **more: Any) -> SandboxPolicy:
    for name in ("work/kept", "secret/open", "work/secret"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "file").write_text("x", "utf-8")
    fields: dict[str, Any] = {
        "write": (f"{home}/work",),
        "no_write": (f"{home}/work/kept", f"{home}/elsewhere"),
        "no_read": (f"{home}/secret", f"{home}/file", f"{home}/missing"),
        "read": (f"{home}/secret/open",),
    } | more
    return SandboxPolicy(**fields)


@requirement("R220")
def test_bubblewraps_arguments_put_the_deeper_in_front(tmp_path: Path) -> None:
    made = backends.make_bubblewrap_arguments(policy(tmp_path), f"{tmp_path}/work", filter_fd=7)
    line = " ".join(made)
    assert line.startswith(
        "bwrap --unshare-user --cap-drop ALL --disable-userns --ro-bind / / --dev /dev --proc /proc"
    )
    assert "--ro-bind /proc/sys /proc/sys" in line
    order = [
        f"--bind {tmp_path}/work {tmp_path}/work",
        f"--ro-bind {tmp_path}/work/kept {tmp_path}/work/kept",
        f"--tmpfs {tmp_path}/secret",
        f"--ro-bind {tmp_path}/secret/open {tmp_path}/secret/open",
    ]
    assert [line.index(part) for part in order] == sorted(line.index(part) for part in order)
    assert f"--ro-bind {os.devnull} {tmp_path}/file" in line
    assert "missing" not in line
    assert "elsewhere" not in line
    assert line.endswith(f"--unshare-net --seccomp 7 --die-with-parent --chdir {tmp_path}/work --")


def test_what_is_opened_again_inside_what_may_be_written_is_written(tmp_path: Path) -> None:
    inside = policy(
        tmp_path, no_read=(f"{tmp_path}/work/secret",), read=(f"{tmp_path}/work/secret",)
    )
    line = " ".join(backends.make_bubblewrap_arguments(inside, "/"))
    assert f"--bind {tmp_path}/work/secret {tmp_path}/work/secret" in line
    apart = policy(tmp_path, read=(f"{tmp_path}/work",))
    assert "--ro-bind / /" in " ".join(backends.make_bubblewrap_arguments(apart, "/"))


def test_landlocks_rules_leave_out_what_may_not_be_read(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    rules = dict(backends.each_rule(policy(home), 7, Listing()))
    assert rules["/"] == READ_DIR
    assert f"{home}/secret" not in rules
    assert f"{home}/file" not in rules
    assert str(home) not in rules
    assert rules[f"{home}/secret/open"] == READING
    assert rules[f"{home}/work"] == list_rights(7)
    assert rules["/dev/null"] == OF_FILES | READ_DIR


def test_landlock_shuts_a_part_of_what_may_be_written_to_readers_too(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    (home / "link").symlink_to(home / "secret")
    rules = dict(backends.each_rule(policy(home, no_read=(f"{home}/work/secret",)), 7, Listing()))
    assert f"{home}/work" not in rules
    assert f"{home}/work/secret" not in rules
    assert f"{home}/link" not in rules
    assert rules[f"{home}/work/kept"] == list_rights(7)
    everything = dict(backends.each_rule(policy(home, no_read=()), 7, Listing()))
    assert everything["/"] == READING


def test_landlocks_walls_shut_the_network_or_leave_the_proxys_port(tmp_path: Path) -> None:
    shut = backends.make_walls(policy(tmp_path), version=7, port=None)
    assert shut["ports"] == []
    some = backends.make_walls(policy(tmp_path, unix_sockets=True), version=7, port=3128)
    assert some["ports"] == [3128]
    assert some["filter"] != shut["filter"] or not shut["filter"]


def test_the_filter_is_made_for_machines_that_are_known() -> None:
    assert make_socket_filter("riscv64", families=frozenset({UNIX}), stream_only=True) == b""
    for machine in ("x86_64", "aarch64"):
        program = make_socket_filter(machine, families=frozenset({INET, NETLINK}), stream_only=True)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 32


def test_the_filter_of_the_read_only_wall_refuses_signals_where_nothing_else_does() -> None:
    assert read_only_filter("riscv64", has_signals=True) == b""
    for machine in ("x86_64", "aarch64"):
        own, none = (read_only_filter(machine, has_signals=has) for has in (True, False))
        assert len(own) % 8 == 0
        # A jump is one byte.
        assert len(own) < len(none) < 8 * 256


def test_rights_grow_with_the_kernel() -> None:
    assert [bin(list_rights(known)).count("1") for known in (1, 2, 3, 4, 5, 7)] == [
        13,
        14,
        15,
        15,
        16,
        16,
    ]


def test_seatbelts_profile_says_the_same(tmp_path: Path) -> None:
    """Only its text is held here: no machine that runs it was at hand."""
    made = backends.make_seatbelt_arguments(policy(tmp_path, unix_sockets=True), port=3128)
    assert made[:2] == ["/usr/bin/sandbox-exec", "-p"]
    profile = made[2].splitlines()
    assert profile.index("(deny file-write*)") < profile.index(
        f'(allow file-write* (subpath "{tmp_path}/work"))'
    ) < profile.index(f'(deny file-write* (subpath "{tmp_path}/work/kept"))')  # fmt: skip
    assert f'(deny file-read* (subpath "{tmp_path}/secret"))' in profile
    assert profile[-2:] == [
        '(allow network-outbound (remote ip "localhost:3128"))',
        "(allow network* (remote unix-socket))",
    ]
    shut = backends.profile(SandboxPolicy(write=('/a"b\\c',)), port=None)
    assert '(subpath "/a\\"b\\\\c")' in shut
    assert shut.endswith("(deny network*)")
