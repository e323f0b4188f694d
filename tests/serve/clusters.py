"""PostgreSQL servers for tests."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

PROGRAMS = [Path("/usr/bin"), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]


def find_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL, or None."""
    return next((path for path in reversed(PROGRAMS) if (path / "initdb").exists()), None)


class Cluster:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        found = find_programs()
        assert found, "this test needs PostgreSQL; on Debian or Ubuntu: apt-get install postgresql"
        self._bin = found
        # PostgreSQL does not run as root.
        self._user = "nobody" if os.getuid() == 0 else None
        self._data = folder / "data"
        folder.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._folder = folder
        about = ("-U", "clew", "--auth=trust", "-E", "UTF8", "--no-sync")
        self._run("initdb", "-D", str(self._data), *about)
        self.url = f"postgresql://clew@/postgres?host={folder}"
        self.start()

    def _run(self, program: str, *args: str) -> None:
        if self._user is not None:
            # Each time, because every pytest that starts closes its folder of temporary folders.
            for parent in self._folder.parents:
                if parent.stat().st_uid == os.getuid() and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o011)
        command = [str(self._bin / program), *args]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        subprocess.run(
            command, check=True, user=self._user, env=environ, cwd="/", stdout=subprocess.DEVNULL
        )

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses="
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")

    def kill(self) -> None:
        try:
            pid = int((self._data / "postmaster.pid").read_text("utf-8").split()[0])
        except FileNotFoundError:
            return  # It never started, or was killed before.
        os.kill(pid, signal.SIGQUIT)  # An immediate end, with recovery at the next start.
        while is_running(pid):
            pass
        # Whoever adopted it may not have reaped it yet, and then a new server takes its files for
        # those of a living one.
        for name in (self._data / "postmaster.pid", self._folder / ".s.PGSQL.5432.lock"):
            name.unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
