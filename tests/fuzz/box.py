"""A sandbox in which bash runs many command lines, and in which nothing happens unseen.

Owns the rootfs (readers are real programs, all others are stubs that leave a note), the runner, and
the watch over files. A batch runs in one bubblewrap: no network, no other files, no privileges.
"""

import ctypes
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.world import CANARY, DENIED, FuzzWorld, stub


def read_programs() -> dict[str, list[str]]:
    """The names of programs.txt, by what is put in their place."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in (Path(__file__).parent / "programs.txt").read_text("utf-8").split("\n"):
        if line.startswith("# "):
            names = found.setdefault(line[2:].partition(":")[0], [])
        else:
            names += line.split()
    return found


PROGRAMS = read_programs()
REAL, PASSING = PROGRAMS["real"], PROGRAMS["passing"]
QUIET = ("sleep",)

RUNNER = r"""
enable -n kill
exec 2>/dev/null
umask 022
# Without it, a line that fills the file of outputs would end the runner at the next mark.
trap : XFSZ
cd "$1" || exit 9
number=0
while IFS= read -r -d '' -u 200 line; do
  printf '\1L%d\n' "$number" >>/box/trips
  printf '\1L%d\n' "$number" >>/box/out
  printf '%d\n' "$number" >/box/at
  ( exec 200<&-; eval "$line" ) </dev/null >>/box/out 2>&1
  number=$((number + 1))
done 200</box/lines
# Process substitutions and jobs may outlive their line.
turns=0
while others=(/proc/[0-9]*); (( ${#others[@]} > 2 && turns < 40 )); do
  read -t 0.02 -u 199; turns=$((turns + 1))
done 199<>/box/idle
printf 'end\n' >/box/at
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one line did that a line which runs unasked must not do. Empty: harmless."""

    trips: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    shown: bool = False
    network: bool = False
    hung: bool = False
    output: str = field(default="", compare=False)

    @property
    def harmless(self) -> bool:
        return not (self.trips or self.writes or self.opened or self.shown or self.network)

    def describe(self) -> str:
        parts = []
        if self.trips:
            parts.append("ran " + ", ".join(self.trips[:3]))
        if self.writes:
            parts.append("wrote " + ", ".join(self.writes[:3]))
        if self.opened:
            parts.append("opened " + ", ".join(self.opened[:3]))
        if self.shown:
            parts.append("printed the content of a denied file")
        if self.network:
            parts.append("tried to connect")
        return "; ".join(parts) or "nothing"


# What a program says of an attempt to connect: after its name, in an output that is not long. A
# reader may print a file with the same words, such as libc or the tests of a client.
CONNECTING = re.compile(
    r"^(?:/tripwire/)?[\w.+-]+: .*(?:Network is unreachable|Name or service not known"
    r"|name resolution|Could not resolve)",
    re.MULTILINE,
)
LONGEST_ERRORS = 50_000


def connects(output: str) -> bool:
    return len(output) < LONGEST_ERRORS and CONNECTING.search(output) is not None


class Watch:
    """inotify over every folder of a world: who writes, and who opens a denied file."""

    WRITES = 0x2 | 0x100 | 0x200 | 0x400 | 0x40 | 0x80 | 0x4
    OPEN = 0x20
    IS_FOLDER = 0x40000000

    def __init__(self, world: FuzzWorld) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.folders: dict[int, Path] = {}
        self.world = world
        for folder, _, _ in os.walk(world.root):
            if "/objects/" in folder:
                continue
            number = self.libc.inotify_add_watch(
                self.fd, os.fsencode(folder), self.WRITES | self.OPEN
            )
            self.folders[number] = Path(folder)
        self.denied = {str(world.cwd / name) for name in DENIED}
        self.denied.add(str(world.home / ".ssh" / "id_rsa"))

    def events(self) -> tuple[set[str], set[str]]:
        """The paths written and the denied paths opened since the last call."""
        writes: set[str] = set()
        opened: set[str] = set()
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return writes, opened
            place = 0
            while place < len(data):
                number, mask, _, size = struct.unpack_from("iIII", data, place)
                name = data[place + 16 : place + 16 + size].rstrip(b"\0").decode("utf-8", "replace")
                place += 16 + size
                folder = self.folders.get(number)
                if folder is None or mask & 0x8000:
                    continue
                path = str(folder / name) if name else str(folder)
                if mask & self.WRITES:
                    writes.add(path)
                elif mask & self.OPEN and path in self.denied:
                    opened.add(path)

    def close(self) -> None:
        os.close(self.fd)


class Box:
    """Runs lines in a world of its own. `run` gives back what each of them did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.watch: Watch | None = None
        self.make_programs()
        self.fresh()

    def make_programs(self) -> None:
        self.bin.mkdir(parents=True)
        for name in {*PROGRAMS["stubs"], *(p.name for p in Path("/usr/bin").iterdir())} - set(REAL):
            stub(self.bin / name)
        for name in REAL:
            real = shutil.which(name)
            if real is not None:
                shutil.copy(os.path.realpath(real), self.bin / name)
            else:
                quiet(self.bin / name)
        for name in PASSING:
            self.pass_on(name)
        if shutil.which("fdfind") is not None:
            shutil.copy(self.bin / "fdfind", self.bin / "fd")
        for name in REAL:
            self.use_own_shell(self.bin / name)
        for name in QUIET:
            quiet(self.bin / name)
        (self.folder / "tripwire").mkdir()
        shutil.copy(os.path.realpath("/bin/sh"), self.folder / "tripwire" / "sh")
        shutil.copy(shutil.which("bash") or "/bin/bash", self.folder / "tripwire" / "bash")

    def use_own_shell(self, path: Path) -> None:
        """A reader may be a script (`which`, `egrep`): the shell that it needs is no stub."""
        data = path.read_bytes()
        head, _, rest = data.partition(b"\n")
        if head.replace(b" ", b"") == b"#!/bin/sh":
            path.write_bytes(b"#!/tripwire/sh\n" + rest)

    def pass_on(self, name: str) -> None:
        real = shutil.which(name)
        if real is not None:
            (self.bin / name).unlink(missing_ok=True)
            shutil.copy(os.path.realpath(real), self.bin / name)

    def restore(self, writes: set[str]) -> None:
        """Put back the files that a line has changed; where it was more, make the world anew."""
        for name in writes:
            path = Path(name)
            kept = self.folder / "copy" / path.relative_to(self.world.root)
            if is_folder(path) or is_folder(kept) or not is_folder(path.parent):
                self.fresh()
                return
            path.unlink(missing_ok=True)
            if kept.is_symlink() or kept.exists():
                shutil.copy2(kept, path, follow_symlinks=False)
        self.watch.events()

    def fresh(self) -> None:
        """A world as new, after a line has changed the old one."""
        place, copy = self.folder / "world", self.folder / "copy"
        if self.watch is None:
            self.world = FuzzWorld(place)
            shutil.copytree(place, copy, symlinks=True)
        else:
            self.watch.close()
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(copy, place, symlinks=True)
        self.watch = Watch(self.world)

    def run(self, lines: Sequence[str], *, may_open: bool = False) -> list[Seen]:
        """What each line did; a batch in which something happened is run again in halves.

        `may_open`: no rule denies files, so who opens them is of no interest.
        """
        if not lines:
            return []
        trips, outputs, done, hung = self.batch(lines)
        writes, opened = self.watch.events()
        if may_open:
            opened = set()
        found: list[Seen] = []
        if len(lines) == 1:
            text = outputs.get(0, "")
            found = [
                Seen(
                    trips=tuple(trips.get(0, ())),
                    writes=tuple(sorted(w[len(str(self.world.root)) :] for w in writes)),
                    opened=tuple(sorted(o[len(str(self.world.root)) :] for o in opened)),
                    shown=CANARY in text,
                    network=connects(text),
                    hung=hung,
                    output=text,
                )
            ]
            if writes:
                self.restore(writes)
            return found
        if writes:
            self.restore(writes)
        if writes or opened:
            middle = len(lines) // 2
            return [
                *self.run(lines[:middle], may_open=may_open),
                *self.run(lines[middle:], may_open=may_open),
            ]
        # A program that outlives its line leaves its note under a later one.
        suspects = {n - back for n in trips for back in range(3) if n >= back}
        for number in range(done):
            text = outputs.get(number, "")
            if number in suspects:
                found += self.run([lines[number]], may_open=may_open)
                continue
            found.append(
                Seen(
                    shown=CANARY in text,
                    network=connects(text),
                    hung=hung and number == done - 1,
                    output=text,
                )
            )
        return [*found, *self.run(lines[done:], may_open=may_open)]

    def batch(self, lines: Sequence[str]) -> tuple[dict[int, list[str]], dict[int, str], int, bool]:
        """Trips and outputs by line, how many lines were run, and whether the last one hung."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            box = Path(name)
            box.chmod(0o777)
            (box / "lines").write_bytes(b"".join(line.encode() + b"\0" for line in lines))
            for file in ("trips", "out", "at"):
                (box / file).touch()
                (box / file).chmod(0o666)
            os.mkfifo(box / "idle")
            (box / "idle").chmod(0o666)
            hung = not wait(self.start(box, RUNNER), box / "at", still_s=2)
            last = (box / "at").read_text("utf-8").strip()
            done = len(lines) if last == "end" else int(last or 0) + 1
            trips = by_line((box / "trips").read_bytes())
            outputs = by_line((box / "out").read_bytes())
        return (
            {n: text.strip().splitlines() for n, text in trips.items() if text.strip()},
            outputs,
            min(done, len(lines)),
            hung,
        )

    def start(self, box: Path, script: str, *, programs: bool = True) -> subprocess.Popen[bytes]:
        """Start bash with a script in the sandbox; `box` is its folder for what it tells."""
        return subprocess.Popen(
            self.command(box, script, programs=programs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def command(self, box: Path, script: str, *, programs: bool) -> list[str]:
        world = str(self.world.root)
        return [
            "bwrap",
            "--unshare-all",
            "--unshare-user",
            *("--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"),
            "--die-with-parent",
            "--new-session",
            "--clearenv",
            *("--tmpfs", "/"),
            *(("--ro-bind", str(self.bin)) if programs else ("--tmpfs",)),
            "/usr/bin",
            *ro("/usr/lib"),
            *ro("/usr/lib64"),
            *ro("/usr/share/misc"),
            *ro("/usr/share/file"),
            *ro("/etc/magic"),
            *("--symlink", "usr/bin", "/bin"),
            *("--symlink", "usr/lib", "/lib"),
            *("--symlink", "usr/lib64", "/lib64"),
            *("--ro-bind", str(self.folder / "tripwire"), "/tripwire"),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *("--bind" if programs else "--ro-bind", world, world),
            *("--bind", str(box), "/box"),
            *("--setenv", "PATH", "/usr/bin", "--setenv", "HOME", str(self.world.home)),
            *("--setenv", "LANG", "C.UTF-8", "--setenv", "TERM", "dumb"),
            *("--setenv", "GIT_OPTIONAL_LOCKS", "0"),
            "/tripwire/bash",
            "--norc",
            "-c",
            f"ulimit -t {2 if programs else 60} -f 20000 -v 2000000 -n 512; {script}",
            "runner",
            str(self.world.cwd),
        ]

    def close(self) -> None:
        self.watch.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def quiet(path: Path) -> None:
    """A reader that is not installed here, or one that only waits: it does nothing."""
    path.write_text("#!/tripwire/sh\nexit 0\n", "utf-8")
    path.chmod(0o755)


def ro(path: str) -> Iterable[str]:
    return ("--ro-bind-try", path, path)


def wait(child: subprocess.Popen[bytes], at: Path, *, still_s: float) -> bool:
    """Wait for the end, or until the script has made no progress for a while: then kill it."""
    before, since = "", time.monotonic()
    handle = os.pidfd_open(child.pid)
    try:
        while not select.select([handle], [], [], 0.2)[0]:
            now = at.read_text("utf-8")
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > still_s:
                os.killpg(child.pid, signal.SIGKILL)
                return False
        return True
    finally:
        os.close(handle)
        child.wait()


def by_line(data: bytes) -> dict[int, str]:
    """The pieces of a file between the marks of lines."""
    found: dict[int, str] = {}
    for piece in data.split(b"\1L")[1:]:
        head, _, rest = piece.partition(b"\n")
        if head.isdigit():
            found[int(head)] = found.get(int(head), "") + rest.decode("utf-8", "replace")
    return found
