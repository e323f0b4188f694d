"""Dangerous lines in the read-only sandbox, as if clew had misread every one of them.

Each runs in every backend that the system supports, as this user and, for root, as another; the
world is checked after each. No reading of command lines takes part.
"""

import asyncio
import os
import platform

import pytest

from clew.system.process.walls import read_version
from clew.system.sandbox.box import Kind
from clew.system.sandbox.filters import MACHINES, number
from tests.requirements import requirement
from tests.system.sandbox.read_only import (
    DENIED,
    ESCAPED,
    KEY,
    OTHER_USER,
    SECRET,
    World,
    runs,
    world,
)
from tests.system.sandbox.walls import KINDS, can

SYSTEM_CALL = ": system call; "
USERS = ("this user", "another user")


def call(name: str, *arguments: object) -> str:
    """A call to the system by its number, and what it answered."""
    machine = platform.machine()
    if machine not in MACHINES or not number(name, machine):
        return "true"
    given = ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in arguments)
    asked = f"my @given = ({given}); my $r = syscall({number(name, machine)}, @given)"
    return f"{SYSTEM_CALL}perl -e '{asked}; print \"{name} $r\\n\"'"


def writes(here: World) -> list[str]:
    base, out = here.base, f"/tmp/{ESCAPED}"
    return [
        f"echo x > {out}", f"echo x >> {base}/work/file", f": > {base}/work/file", "rm -rf file sub",
        f"rm -f {base}/work/file", "mv file moved", "cp file copy", "ln file hard", "ln -s file soft",
        f"mv file {base}/", "mkdir made", "rmdir sub", "mkfifo made", "mknod made c 1 3", "touch file",
        "touch -d 2001-01-01 file", "chmod 777 file", "chmod -R 0 .", "chmod u+s file",
        "chown 1:1 file", "chgrp 1 file", "truncate -s 0 file", "dd if=/dev/zero of=file count=1",
        "sed -i s/as/is/ file", "perl -i -pe s/as/is/ file", "perl -e 'truncate(\"file\", 0)'",
        "perl -e 'open(F, \"+<\", \"file\"); truncate(F, 0)'", "tee file < /dev/null", "install -m 777 file x",
        "git init .", f"git -C {base}/work init sub", "tar cf out.tar file", "exec 3<> file; echo x >&3",
        f"cd $TMPDIR && ln {base}/work/file same && echo x > same", "cd $TMPDIR && ln -s ../../../../.. up; echo x > up/tmp/" + ESCAPED,
        f"cp -r $TMPDIR {base}/work/copied", f"bash -c 'setsid bash -c \"sleep 0.05; echo x > {out}\" & wait'",
        f"(trap '' HUP; nohup bash -c 'echo x > {out}') &", f"echo x > /dev/shm/{ESCAPED}", f"echo x > /var/tmp/{ESCAPED}",
        "chattr +d file", "chattr +i file", "flock file true; echo x > file", "find . -delete", "find . -name file -exec rm {} +",
        "xargs rm < <(echo file)", "echo x > /proc/$$/root" + out, f"perl -e 'open(F, \">\", \"/proc/self/root{out}\"); print F 1'",
        call("setxattr", str(base / "work/file"), "user.clew", "x", 1, 0), call("fchmodat2", -100, str(base / "work/file"), 0o777, 0),
        call("utimensat", -100, str(base / "work/file"), 0, 0), call("chmod", str(base / "work/file"), 0),
        call("fchownat", -100, str(base / "work/file"), 1, 1, 0), call("open_by_handle_at", -100, 0, 0),
    ]  # fmt: skip


def reaches(here: World) -> list[str]:
    base, pid = here.base, here.victim.pid
    sockets = "use Socket; "
    return [
        f"echo x > /dev/tcp/127.0.0.1/{here.port}", f"echo x > /dev/udp/127.0.0.1/{here.udp_port}",
        f"curl -s http://127.0.0.1:{here.port}/", f"curl -s --unix-socket {base}/stream http://x/",
        f"perl -e '{sockets}socket(S, PF_INET, SOCK_STREAM, 0) and connect(S, sockaddr_in({here.port}, inet_aton(\"127.0.0.1\")))'",
        f"perl -e '{sockets}socket(S, PF_INET, SOCK_DGRAM, 0) and send(S, \"x\", 0, sockaddr_in({here.udp_port}, inet_aton(\"127.0.0.1\")))'",
        f"perl -e '{sockets}socket(S, PF_UNIX, SOCK_STREAM, 0) and connect(S, sockaddr_un(\"{base}/stream\"))'",
        f"perl -e '{sockets}socket(S, PF_UNIX, SOCK_DGRAM, 0) and send(S, \"x\", 0, sockaddr_un(\"{base}/datagram\"))'",
        f"perl -e '{sockets}socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) and send(A, \"x\", 0, sockaddr_un(\"{base}/datagram\"))'",
        f"perl -e '{sockets}socketpair(A, B, AF_UNIX, SOCK_SEQPACKET, 0) and send(A, \"x\", 0, sockaddr_un(\"{base}/datagram\"))'",
        f"perl -e '{sockets}socket(S, PF_UNIX, SOCK_DGRAM, 0) and send(S, \"x\", 0, sockaddr_un(\"\\0clew-{os.getpid()}\"))'",
        f"perl -e '{sockets}socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) and connect(A, sockaddr_un(\"{base}/stream\"))'",
        f"kill {pid}", f"kill -9 {pid}", f"kill -STOP {pid}", f"kill -9 {here.parent}",
        f"perl -e 'kill 15, {pid}'", f"renice 19 {pid}", f"taskset -p 1 {pid}", f"prlimit --pid {pid} --nofile=7:7",
        f"echo 1000 > /proc/{pid}/oom_score_adj", f"ionice -c 3 -p {pid}", call("ptrace", 16, pid, 0, 0),
        call("pidfd_getfd", 3, 0, 0), call("process_vm_readv", pid, 0, 0, 0, 0, 0),
        call("shmget", 0, 4096, 0o1600), call("msgget", 0, 0o1600), call("semget", 0, 1, 0o1600), call("mq_open", "clew", 0o102, 0o600, 0),
        "hostname other", "mount -t tmpfs none sub", "mount -o remount,rw /", "umount /proc", "unshare -Urm true && echo unshared-indeed",
        "unshare -Ur mount -t tmpfs none sub", "nsenter -t 1 -m true && echo entered-indeed", "chroot / true && echo rooted-indeed",
        "echo core > /proc/sys/kernel/core_pattern", "sysctl -w kernel.core_pattern=x",         call("keyctl", 0, -3, 1), call("add_key", "user", "clew", "x", 1, -3), call("bpf", 0, 0, 0),
        call("io_uring_setup", 1, 0), call("userfaultfd", 1), call("perf_event_open", 0, 0, -1, -1, 0), call("personality", 0x400000),
        call("clone", 0x10000000 | 17, 0, 0, 0, 0), call("setns", 0, 0), call("settimeofday", 0, 0),
    ]  # fmt: skip


def reads(here: World) -> list[str]:
    base, pid = here.base, here.victim.pid
    return [
        "cat .env", "cat ./sub/../.env", "cat link", f"cat {base}/.ssh/id", f"cat /proc/self/root{base}/.ssh/id",
        f"cat /proc/{pid}/root{base}/.ssh/id", f"cat /proc/{here.parent}/cwd/.env; cat /proc/self/cwd/.env",
        "grep -r secret .", f"grep -rs secret {base}", "cp .env $TMPDIR/x; cat $TMPDIR/x", "ln .env $TMPDIR/x; cat $TMPDIR/x",
        "mv .env other; cat other", f"mv {base}/.ssh {base}/ssh; cat {base}/ssh/id", "tar cf - . | cat", "dd if=.env",
        "git diff --no-index /dev/null .env", "awk 1 .env", "perl -pe 1 .env", "bash -c '. ./.env'", "exec 3< .env; cat <&3",
        "base64 .env", "xxd .env", "sort .env", "diff .env file", f"cat /proc/{pid}/environ", f"cat /proc/{here.parent}/environ",
        f"strings /proc/{pid}/mem", f"cat /proc/{pid}/task/*/environ", "env", "cat /proc/self/environ", f"cat /proc/{here.parent}/fd/*",
        "cat /dev/sda /dev/vda /dev/nvme0n1 | head -c 100", "cat /dev/mem | head -c 100", "cat /proc/kcore | head -c 100",
        f"find {base} -type f -exec cat {{}} +",
    ]  # fmt: skip


@pytest.mark.no_cover
@requirement("R220")
@pytest.mark.parametrize("who", USERS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_line_in_the_read_only_sandbox_does_harm(kind: Kind, who: str) -> None:
    is_other = who == "another user"
    user = OTHER_USER if is_other and os.geteuid() == 0 else os.geteuid()
    if not can(kind):
        # That nothing runs then is held by test_walls.
        assert kind in KINDS
        return
    with world(user) as here:
        lines = [*writes(here), *reaches(here), *reads(here)]
        assert len(lines) > 120
        printed = asyncio.run(runs(kind, here, lines))
    for line, said in zip(lines, printed, strict=True):
        for secret in (SECRET, DENIED, KEY, "indeed"):
            assert secret not in said, line
        if line.startswith(SYSTEM_CALL):
            assert said.endswith(" -1\n"), line


@pytest.mark.no_cover
@pytest.mark.parametrize("who", USERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_readers_do_works_after_it(kind: Kind, who: str) -> None:
    user = OTHER_USER if who == "another user" and os.geteuid() == 0 else os.geteuid()
    if not can(kind):
        return
    lines = [
        "cat file", "ls -la | wc -l", "grep -c as file", "find . -name other", "git --version",
        "sort file | uniq -c", "diff file sub/other > /dev/null || echo differ", "head -1 < file",
        "wc -l <<< text", "cat <(echo process)", "echo $(cat file)", "perl -e 'print 7 * 6'",
        "date +%Y > /dev/null && echo dated", "sleep 0.01 & wait; echo waited", "echo kept > $TMPDIR/a; cat $TMPDIR/a",
        "(sleep 9 & kill $!) ; echo ended", "timeout 5 echo in-time",
    ]  # fmt: skip
    with world(user) as here:
        printed = asyncio.run(runs(kind, here, lines))
    assert printed[0] == "as it was\n"
    assert printed[3] == "./sub/other\n"
    assert "differ" in printed[6]
    # Where nothing keeps signals among its own processes, a command sends none.
    assert printed.pop(15).endswith("ended\n")
    assert printed[9:] == [
        "process\n", "as it was\n", "42", "dated\n", "waited\n", "kept\n", "in-time\n",
    ]  # fmt: skip


@pytest.mark.no_cover
@pytest.mark.parametrize("known", [3, 5])
def test_an_older_landlock_holds_the_same(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rights for devices and without scopes the filter has to do more."""
    if not can("landlock") or read_version() < known:
        return
    monkeypatch.setattr("clew.system.process.walls.read_version", lambda: known)
    with world(os.geteuid()) as here:
        lines = [*writes(here), *reaches(here), *reads(here)]
        printed = asyncio.run(runs("landlock", here, lines))
    assert all(secret not in said for said in printed for secret in (SECRET, DENIED, KEY))


def test_landlock_keeps_pipes_from_being_written_to() -> None:
    """A read-only mount does not, which docs/using/sandbox.md says of bubblewrap."""
    if can("landlock"):
        with world(os.geteuid()) as here:
            asyncio.run(
                runs(
                    "landlock", here, [f"echo x > {here.base}/pipe", "exec 3<> ../pipe; echo x >&3"]
                )
            )
