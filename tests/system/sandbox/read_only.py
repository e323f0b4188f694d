"""A world that a command behind the read-only wall may look at, and the ways to run one in it.

Everything a dangerous line could change is made for the user who runs it, and looked at afterwards: files
with their modes and times, listeners, a process, shared memory, the machine's name.
"""

import asyncio
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher
from clew.system.process.walls import Walls, put_up
from clew.system.sandbox.box import Box, Kind
from clew.system.sandbox.policy import SandboxPolicy

OTHER_USER = 65534
ESCAPED = "escaped-from-the-wall"
SECRET, DENIED, KEY = "ssh-secret-1", "denied-secret-2", "key-secret-3"
WAIT_S = 60.0
GET_FLAGS = 0x80086601


class World:
    """`base` belongs to the user; in it `work`, where commands begin."""

    def __init__(self, base: Path, user: int, held: ExitStack) -> None:
        self.base, self.user = base, user
        self.work = base / "work"
        (base / ".ssh").mkdir()
        (base / ".ssh" / "id").write_text(SECRET, "utf-8")
        (self.work / "sub").mkdir(parents=True)
        (self.work / ".env").write_text(DENIED, "utf-8")
        (self.work / "file").write_text("as it was\n", "utf-8")
        (self.work / "sub" / "other").write_text("other\n", "utf-8")
        (self.work / "link").symlink_to(base / ".ssh" / "id")
        os.mkfifo(base / "pipe")
        self.listeners = [
            held.enter_context(listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))),
            held.enter_context(listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))),
            held.enter_context(listening(socket.AF_UNIX, socket.SOCK_STREAM, str(base / "stream"))),
            held.enter_context(
                listening(socket.AF_UNIX, socket.SOCK_DGRAM, str(base / "datagram"))
            ),
            held.enter_context(
                listening(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0clew-{os.getpid()}")
            ),
        ]
        self.port, self.udp_port = (sock.getsockname()[1] for sock in self.listeners[:2])
        for path in (base, *base.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
        self.reader = os.open(base / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        held.callback(os.close, self.reader)
        self.victim = subprocess.Popen(
            ["sleep", "600"], env={"KEY": KEY}, start_new_session=True, **as_user(user)
        )
        held.callback(self.victim.wait)
        held.callback(self.victim.kill)
        # What started everything here, as clew starts commands; its environment holds a key too.
        self.parent = os.getpid()
        self.before = self.state()

    def state(self) -> dict[str, Any]:
        """What no command may change."""
        pid = self.victim.pid
        return {
            "files": {
                str(path): (
                    (status := path.lstat()).st_mode,
                    status.st_uid,
                    status.st_size,
                    status.st_mtime_ns,
                    path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
                    {name: os.getxattr(path, name) for name in attributes(path)},
                )
                for path in sorted((self.base, *self.base.rglob("*")))
            },
            "flags": flags(self.work / "file"),
            "elsewhere": sorted(
                str(path) for top in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(top).glob(f"{ESCAPED}*")
            ),
            "victim": (
                self.victim.poll(),
                os.getpriority(os.PRIO_PROCESS, pid),
                os.sched_getaffinity(pid),
                Path(f"/proc/{pid}/limits").read_text("ascii"),
                Path(f"/proc/{pid}/oom_score_adj").read_text("ascii"),
                Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "T",
            ),
            "machine": (
                socket.gethostname(),
                Path("/proc/sys/kernel/core_pattern").read_text("ascii"),
                [len(Path(f"/proc/sysvipc/{kind}").read_text("ascii").split("\n")) for kind in ("shm", "sem", "msg")],
                Path("/proc/mounts").read_text("utf-8"),
            ),
            "heard": [heard(sock) for sock in self.listeners] + [read(self.reader)],
        }  # fmt: skip

    def policy(self) -> SandboxPolicy:
        shut = (str(self.base / ".ssh"), str(self.work / ".env"))
        return SandboxPolicy(write=(), no_read=shut, is_read_only=True)


def flags(path: Path) -> bytes:
    """What chattr(1) changes; nothing where the file system has none."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return fcntl.ioctl(descriptor, GET_FLAGS, bytes(8))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def attributes(path: Path) -> list[str]:
    return os.listxattr(path) if path.is_file() else []


def heard(sock: socket.socket) -> str:
    try:
        if sock.type == socket.SOCK_STREAM:
            sock.accept()[0].close()
            return "a connection"
        return repr(sock.recv(100))
    except BlockingIOError:
        return ""


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 100)
    except BlockingIOError:
        return b""


@contextmanager
def listening(family: int, kind: int, address: Any) -> Iterator[socket.socket]:
    with socket.socket(family, kind) as sock:
        sock.bind(address)
        if kind == socket.SOCK_STREAM:
            sock.listen()
        sock.setblocking(False)
        yield sock


def as_user(user: int) -> dict[str, Any]:
    return {"user": user, "group": user, "extra_groups": []} if user != os.geteuid() else {}


@contextmanager
def world(user: int) -> Iterator[World]:
    """A world in a folder that every user may come to."""
    base = Path(tempfile.mkdtemp(prefix="clew-world-")).resolve()
    base.chmod(0o755)
    try:
        with ExitStack() as held:
            yield World(base, user, held)
    finally:
        shutil.rmtree(base)


async def runs(kind: Kind, here: World, lines: list[str]) -> list[str]:
    """Runs lines behind the wall one by one, and returns what each printed; raises at a change."""
    launcher = Launcher()
    box = Box(here.policy(), launcher, only=kind)
    printed: list[str] = []
    try:
        async with asyncio.timeout(WAIT_S * 5):
            for line in lines:
                printed.append(await one(box, launcher, here, line))
                assert here.state() == here.before, line
    finally:
        box.close()
        await launcher.aclose()
    return printed


async def one(box: Box, launcher: Launcher, here: World, line: str) -> str:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(here.base)}
    argv = ("bash", "-c", f"exec 2>&1; {line}")
    async with box.around(argv, str(here.work), environment) as walled:
        if here.user != os.geteuid():
            give_temporary_folder(walled.environment["TMPDIR"], here.user)
            return await asyncio.to_thread(
                as_another, walled.argv, walled.environment, walled.descriptors, walled.walls, here
            )
        output = ProcessOutput(keep_bytes=100_000)
        await run(
            launcher, walled.argv, cwd=str(here.work), env=walled.environment, stdout=output,
            descriptors=walled.descriptors, walls=walled.walls, timeout_s=WAIT_S,
        )  # fmt: skip
        return (bytes(output.head) + output.tail).decode("utf-8", "replace")


def give_temporary_folder(folder: str, user: int) -> None:
    Path(folder).parent.chmod(0o711)
    os.chown(folder, user, user)


def as_another(
    argv: tuple[str, ...],
    environment: dict[str, str],
    descriptors: dict[int, int],
    walls: Walls | None,
    here: World,
) -> str:
    """The same by a user who may not run the keeper: the walls are put up by the child itself."""

    for target, source in descriptors.items():
        os.dup2(source, target)
    try:
        done = subprocess.run(
            argv, cwd=here.work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, pass_fds=tuple(descriptors), timeout=WAIT_S, check=False,
            preexec_fn=None if walls is None else lambda: put_up(walls), start_new_session=True,
            **as_user(here.user),
        )  # fmt: skip
    finally:
        for target in descriptors:
            os.close(target)
    return done.stdout.decode("utf-8", "replace")
