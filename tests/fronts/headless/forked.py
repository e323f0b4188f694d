"""Starts clew as a fork of a process that has imported it, at a quarter of the CPU time of a start.

The child runs the real `python -m clew ARGS` from its first line: a process with the arguments, the
environment, the folder and the streams of the test, and a child of the test, which waits for it and
kills it. What is spared is the start of the interpreter, the imports, compiling of
patterns, and the end of the interpreter.
Tests about these, or about /proc, start `command(...)`. `CLEW_TESTS_EXEC=1` starts everything that way.

`python -m tests.fronts.headless.forked FD` is the process that is forked.
"""

import atexit
import ctypes
import gc
import importlib.util
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.regex import lazy_pattern

ROOT = Path(__file__).parents[3]
# What runs import, also lazily. Each import that a child is spared costs the template once.
MODULES = (
    "clew.agent.hooks.executors",
    "clew.agent.spending_cap",
    "clew.agent.tools.agents",
    "clew.agent.tools.background_tools",
    "clew.agent.tools.bash",
    "clew.agent.tools.bash_judged",
    "clew.agent.tools.edit",
    "clew.agent.tools.notebook_edit",
    "clew.agent.tools.read",
    "clew.agent.tools.search",
    "clew.agent.tools.search_tools",
    "clew.agent.tools.session_tools",
    "clew.agent.tools.tasks",
    "clew.agent.tools.user_tools",
    "clew.agent.tools.write",
    "clew.cli",
    "clew.commands.sessions.commands",
    "clew.commands.sessions.listing",
    "clew.commands.sessions.show",
    "clew.commands.slash.table",
    "clew.core.ledger.breakdown",
    "clew.fronts.headless.run",
    "clew.fronts.headless.serve",
    "clew.fronts.line.linear",
    "clew.fronts.terminal.start",
    "clew.parts.agents.agent",
    "clew.parts.agents.past",
    "clew.parts.attribution",
    "clew.parts.mcp.line",
    "clew.parts.mcp.server",
    "clew.parts.mcp.tools",
    "clew.parts.past_commands",
    "clew.parts.resuming",
    "clew.parts.schedules.board",
    "clew.permissions.decide",
    "clew.record.exchange.agents_here",
    "clew.record.library.listing",
    "clew.record.library.search",
    "clew.record.rewind.restore",
    "clew.record.transcript.examine",
    "clew.session.flags",
    "clew.system.config.secret_search",
    "clew.system.process.hiding",
    "clew.system.sandbox.box",
    "concurrent.futures.thread",
    "encodings.utf_16_le",
    "encodings.utf_8_sig",
    "tempfile",
    "tree_sitter_bash",
)
# Of <linux/sched.h>, <linux/prctl.h> and <asm/unistd.h>. Not clone3, which containers often deny.
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_GET_TID_ADDRESS = 40
SYS_CLONE = {"x86_64": 56, "aarch64": 220} if sys.platform == "linux" else {}
MACHINE = os.uname().machine
MOST_BYTES = 100_000
LAZY_PATTERN = type(lazy_pattern(""))
# Arguments of Popen that a child is forked with.
USUAL_ARGUMENTS = {
    "executable": None, "preexec_fn": None, "pass_fds": (), "shell": False, "gid": None,
    "gids": None, "uid": None, "umask": -1, "process_group": -1,
}  # fmt: skip
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
# With methods that the types do not name.
_POPEN: Any = subprocess.Popen
_THREADING: Any = threading
_EXECUTE = tuple(inspect.signature(_POPEN._execute_child).parameters)[1:]


class Forked(subprocess.Popen[Any]):
    """A `clew ARGS` that is forked, or executed if its interpreter could not be the forked one.

    Its arguments are those of `python -m clew`. `terminal` is the name of a terminal for its streams.
    """

    def __init__(
        self, args: Sequence[str], *, env: Mapping[str, str], terminal: str = "", **more: Any
    ) -> None:
        self._terminal = terminal
        super().__init__([sys.executable, "-m", "clew", *args], env=env, **more)

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(_EXECUTE, values, strict=True))
        pipes = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        wanted = {
            "args": list(map(os.fspath, given["args"][3:])),
            "cwd": str(Path(given["cwd"] or "").absolute()),
            "env": {name: os.fspath(value) for name, value in given["env"].items()},
            "is_leader": given["start_new_session"],
            "terminal": self._terminal,
        }
        streams = [pipe if pipe != -1 else fd for fd, pipe in enumerate(pipes)]
        pid = 0
        if given.items() >= USUAL_ARGUMENTS.items():
            pid = fork(wanted, streams)
        if not pid:
            if self._terminal:
                # Opened by the leader of a session, it is that session's terminal.
                opening = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', self._terminal]
                given["args"] = [*opening, *given["args"]]
            _POPEN._execute_child(self, *given.values())
            return
        self.pid = pid
        self._child_created = True
        ends = [given[name] for name in _EXECUTE if name in PIPES]
        _POPEN._close_pipe_fds(self, *ends)


def run(
    args: Sequence[str], *, timeout: float = 60, **more: Any
) -> subprocess.CompletedProcess[Any]:
    """One run of `clew ARGS` to its end, like `subprocess.run`; its outputs are captured."""
    fed = more.pop("input", None)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    if fed is not None:
        streams["stdin"] = subprocess.PIPE
    with Forked(args, **streams) as process:
        try:
            out, err = process.communicate(fed, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


_lock = threading.Lock()
_templates: "dict[frozenset[tuple[str, str]], Template]" = {}


class Template:
    """The process that is forked for children of one kind. It ends with the test process."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fronts.headless.forked", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ.get("PATH", os.defpath), **environ},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.end)

    def fork(self, request: bytes, streams: list[int]) -> int:
        socket.send_fds(self._requests, [request], streams)
        return int(self._requests.recv(20))

    def end(self) -> None:
        self._requests.close()
        self._process.wait()


def fork(wanted: dict[str, Any], streams: list[int]) -> int:
    """Return the ID of a forked child with these streams, or 0 if it has to be executed."""
    if MACHINE not in SYS_CLONE or os.environ.get("CLEW_TESTS_EXEC") == "1":
        return 0
    early = read_early(wanted["env"])
    wanted["path"] = []
    if (path := early.get("PYTHONPATH", "")) != USUAL_PATH:
        # The child does with it what an interpreter does.
        wanted["path"] = path.split(os.pathsep)
        early["PYTHONPATH"] = USUAL_PATH
    request = json.dumps(wanted).encode()
    if len(request) > MOST_BYTES or not early.items() <= USUAL:
        return 0
    with _lock:
        kind = frozenset(early.items())
        if kind not in _templates:
            _templates[kind] = Template(early)
        return _templates[kind].fork(request, streams)


def read_early(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter and its libraries read at their start."""
    names = ("PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_")
    return {name: value for name, value in environ.items() if name.startswith(names)}


# Others are rare, and one start costs less than the start of what is forked.
USUAL_PATH = os.environ.get("PYTHONPATH", "")
USUAL = read_early(os.environ).items() | {"LANG": "C.UTF-8", "PYTHONPATH": USUAL_PATH}.items()


# -- in the process that is forked


def serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request. Return the request in the children, None once there are no more."""
    for name in MODULES:
        __import__(name)
    compile_patterns()
    gc.collect()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
        if not request:
            return None
        pid = fork_sibling()
        if not pid:
            requests.close()
            return json.loads(request), streams
        requests.send(str(pid).encode())
        for fd in streams:
            os.close(fd)


def compile_patterns() -> None:
    """Compile the patterns of the imported modules, which take a tenth of a child's time."""
    for pattern in gc.get_objects():
        if type(pattern) is LAZY_PATTERN:
            for method in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub"):
                getattr(pattern, method)


def fork_sibling() -> int:
    """Fork a child of this process's parent. Return its ID, or 0 in the child.

    Done as fork(3) does it, but for CLONE_PARENT: the thread's ID is where the library keeps it.
    """
    system = ctypes.PyDLL(None, use_errno=True)
    kept = ctypes.c_uint64()
    if system.prctl(PR_GET_TID_ADDRESS, ctypes.byref(kept), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")
    flags = CLONE_PARENT | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | signal.SIGCHLD
    # The address is the fourth or the fifth argument; the other one is not read.
    words = map(ctypes.c_ulong, (SYS_CLONE[MACHINE], flags, 0, 0, kept.value, kept.value))
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(system.syscall(*words))
    if pid:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone failed")
    return pid


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Take over what the test gave the process, as an interpreter does that starts with it."""
    if request["is_leader"]:
        os.setsid()
    if request["terminal"]:
        streams = [os.open(request["terminal"], os.O_RDWR)] * 3
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 64)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    how: dict[str, Any] = {"encoding": sys.stdin.encoding, "newline": "\n", "closefd": False}
    sys.stdin = open(0, errors=sys.stdin.errors, **how)  # noqa: SIM115
    sys.stdout = open(1, "w", errors=sys.stdout.errors, **how)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors=sys.stderr.errors, **how)  # noqa: SIM115
    # As `sys.__stdout__` keeps it in an interpreter, a stream stays open when clew replaces it.
    _streams.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.path[0] = request["cwd"]
    sys.argv[1:] = request["args"]
    if request["path"]:
        sys.path[1:1] = request["path"]
        sys.modules.pop("sitecustomize", None)
        if importlib.util.find_spec("sitecustomize"):
            importlib.import_module("sitecustomize")


_streams: list[Any] = []


def leave(code: int) -> None:
    """End as an interpreter does, but leave the memory to the system."""
    _THREADING._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit(code)


def main() -> None:
    requested = serve(socket.socket(fileno=int(sys.argv[1])))
    if requested is None:
        return
    become(*requested)
    try:
        runpy.run_module("clew", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if type(ended.code) is int:
            leave(ended.code)
        raise


if __name__ == "__main__":
    main()
