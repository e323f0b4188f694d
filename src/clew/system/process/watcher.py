"""The parents of all children: a keeper for each clew process, and watchers that outlive clew.

Runs in a separate bare interpreter (`python -I -S`) and imports almost nothing, because the size of
the keeper determines the cost of each fork. The keeper forks a watcher for each socket it receives.
A watcher starts one child at a time in its own session and adopts the child's orphans. It ends all
of them on request, or when the socket to clew closes, which also happens if clew is killed with
SIGKILL. When all processes of a tree have ended, the watcher waits for the next request. A tree
that the user keeps continues after clew ends, until its child ends or the watcher receives SIGTERM.
Processes of a hook that have left the child's session (daemons) continue after clew ends. Must
never import the rest of clew.

Wire format on each watcher's socket: clew sends messages, each consisting of its length in four
bytes and a marshalled value. A message is a request `(argv, cwd, environment, targets, walls,
leaves)`, with the child's descriptors attached to its first byte; a number, which is the grace
period in ms after which the tree ends; or `{"most": bytes}` for a tree to keep. The last kind has
descriptors attached: the record that receives the child's end as a line of JSON, the file that
receives its output once clew is gone, and the pipes that it prints to. The watcher answers with
lines: `forked <pid>`, then `started` or `failed <errno>`; `kept`; `off`, if a kept tree was ended
by another process before its child ended; `ended <wait status> <descendants left>`; `gone`, or
`left` if daemons continue.

Decision: docs/decisions/070-child-processes.md
Decision: docs/decisions/245-kept-commands.md
"""

import _socket
import contextlib
import errno
import fcntl
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Container

from clew.system.process.walls import load_system_calls, put_up

# macOS has a flag for a path without links.
NO_LINKS = getattr(os, "O_NOFOLLOW_ANY", 0)

Request = tuple[
    list[bytes], bytes, dict[bytes, bytes], list[int], dict[str, object] | None, int, bool
]
Message = Request | int | dict[str, int] | None

SUBREAPER = 36
CONTROL_FD = 3
# How long a pass over the tree waits for ended processes before the next pass.
PASS_S = 0.02
# The program that started clew may ignore signals. A child must not inherit such settings.
TO_DEFAULT = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
# How often to check a process group whose members are not our children.
GROUP_LOOK_S = 0.25
# How long a kept tree has between the request to end and SIGKILL.
KEPT_GRACE_S = 0.5
# Values of a request's `leaves`: nothing continues after clew, or only daemons. A positive value is
# the time in ms that the entire tree may continue after clew; daemons may continue without limit.
NOTHING_LEFT, DAEMONS_LEFT = 0, -1
READ_BYTES = 1 << 16
PIPE_MAX_BYTES = 1 << 20


def main(*, adopts: bool) -> None:
    os.closerange(CONTROL_FD + 1, 256)
    os.set_inheritable(CONTROL_FD, False)
    keep(_socket.socket(fileno=CONTROL_FD), adopts=adopts and adopt_orphans())


def adopt_orphans() -> bool:
    """Make orphaned descendants become children of this process.

    Return whether the system supports this.
    """
    if sys.platform != "linux":
        return False
    return load_system_calls().prctl(SUBREAPER, 1, 0, 0, 0) == 0 and bool(
        children_files(os.getpid())
    )


def wake_on_child() -> int:
    """Return a descriptor that becomes readable whenever a child of this process ends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 512):
            pass
    except BlockingIOError:
        pass


def keep(control: _socket.socket, *, adopts: bool) -> None:
    """Run as the keeper: fork a watcher for each socket until clew is gone.

    Also end the processes that killed watchers leave behind.
    """
    watchers: set[int] = set()
    wake = wake_on_child()
    poller = select.poll()
    poller.register(control.fileno(), select.POLLIN)
    poller.register(wake, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poller.poll()]
        if wake in ready:
            drain(wake)
            watchers.difference_update(pid for pid, _ in reaped(wakes=True))
            end_all(spare=watchers)
        if control.fileno() in ready:
            _, descriptors = receive_with_descriptors(control, 1)
            if not descriptors:
                break
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(wake)
                serve(_socket.socket(fileno=descriptors[0]), adopts=adopts)
            watchers.add(pid)
            os.close(descriptors[0])
    poller.unregister(control.fileno())
    while any(pid not in watchers for pid in children(os.getpid())):
        end_all(spare=watchers)
        poller.poll(PASS_S * 1000)
        drain(wake)
        reaped(wakes=True)


def reaped(*, wakes: bool = False) -> list[tuple[int, int]]:
    """Reap ended children, and return their process IDs and wait statuses.

    With `wakes`, also continue stopped children: a watcher that its own command has stopped could
    not end that command.
    """
    dead: list[tuple[int, int]] = []
    how = os.WNOHANG | (os.WUNTRACED if wakes else 0)
    try:
        while (result := os.waitpid(-1, how))[0]:
            if os.WIFSTOPPED(result[1]):
                send_signal(result[0], signal.SIGCONT)
            else:
                dead.append(result)
    except ChildProcessError:
        pass
    return dead


def receive_with_descriptors(sock: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Return at most `size` bytes, and the descriptors attached to them.

    At the end of the stream, return no bytes.
    """
    number = 4
    data, ancillary, _, _ = sock.recvmsg(size, _socket.CMSG_LEN(64 * number))
    descriptors: list[int] = []
    for _, kind, packed in ancillary:
        if kind == _socket.SCM_RIGHTS:
            descriptors += [
                int.from_bytes(packed[i : i + number], sys.byteorder)
                for i in range(0, len(packed) - number + 1, number)
            ]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, descriptors


def serve(clew: _socket.socket, *, adopts: bool) -> None:
    """Run as a watcher in the forked process: serve one tree after another."""
    try:
        wake = wake_on_child()
        if adopts:
            adopt_orphans()
        is_open = True
        while is_open:
            message, descriptors = receive_message(clew)
            if isinstance(message, tuple):
                is_open = watch(clew, wake, message, descriptors, adopts=adopts)
            else:
                # Any other message is about a tree that has just ended.
                close_all(descriptors)
                is_open = message is not None
    finally:
        os._exit(0)


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def receive_message(clew: _socket.socket) -> tuple[Message, list[int]]:
    """Return a message with its descriptors, or None if clew is gone."""
    try:
        head, descriptors = receive_with_descriptors(clew, 4)
        head += receive(clew, 4 - len(head)) if head else b""
        size = int.from_bytes(head, "little")
        packed = receive(clew, size)
    except ConnectionError:
        return None, []
    return (marshal.loads(packed) if size and len(packed) == size else None), descriptors


def receive(clew: _socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = clew.recv(size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def watch(
    clew: _socket.socket, wake: int, request: Request, descriptors: list[int], *, adopts: bool
) -> bool:
    """Serve one tree from start to end. Return whether this watcher can serve another one."""
    try:
        child = start(clew, request, descriptors)
    except OSError as error:
        tell(clew, b"failed %d\ngone\n" % (error.errno or 1))
        return True
    finally:
        close_all(descriptors)
        # Staying in the folder would prevent it from being unmounted.
        os.chdir("/")
    tell(clew, b"started\n")
    return follow(clew, wake, child, adopts=adopts, leaves=request[5] if adopts else NOTHING_LEFT)


def enter(folder: bytes, *, has_no_links: bool) -> None:
    """Enter a folder. Raise OSError if `has_no_links` is true and its path contains a link."""
    if has_no_links and NO_LINKS:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | NO_LINKS)
        os.fchdir(place)
        os.close(place)
        return
    os.chdir(folder)
    if has_no_links and os.getcwdb() != folder:  # noqa: PTH109 (pathlib is not needed here)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def start(clew: _socket.socket, request: Request, descriptors: list[int]) -> int:
    """Fork the child, report its ID to clew, and only then let it run the program.

    Otherwise a program that kills this watcher at once would continue to run, unknown to clew.
    The child restricts itself, so the restrictions do not apply to its watcher. Raise OSError
    if a restriction cannot be applied, or if the program cannot be started.
    """
    argv, folder, environment, targets, walls, _, has_no_links = request
    enter(folder, has_no_links=has_no_links)
    go, let_go = os.pipe()
    failure, tell_failure = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(let_go)
            signal.set_wakeup_fd(-1)
            os.setsid()
            if not os.read(go, 1):
                os._exit(127)  # The watcher was killed.
            # None of them may lie where another one is to be.
            above = max(targets, default=0) + 1
            tell_failure, *sources = (
                fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above)
                for descriptor in (tell_failure, *descriptors)
            )
            for source, target in zip(sources, targets, strict=True):
                os.dup2(source, target)
            for number in TO_DEFAULT:
                if signal.getsignal(number) is signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if walls is not None:
                put_up(walls)
            os.execve(argv[0], argv, environment)
        except OSError as error:
            os.write(tell_failure, b"%d" % (error.errno or 1))
        finally:
            os._exit(127)
    os.close(go)
    os.close(tell_failure)
    tell(clew, b"forked %d\n" % child)
    os.write(let_go, b"!")
    os.close(let_go)
    with os.fdopen(failure, "rb") as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(child, 0)
        raise OSError(int(failed), os.strerror(int(failed)))
    return child


class KeptChild:
    """A kept child, with the descriptors that its watcher needs.

    `record` receives how the child ended. `file` receives its output once clew is gone.
    """

    def __init__(self, record: int, file: int, pipes: list[int], most_bytes: int) -> None:
        self._record = record
        self._file = file
        self._room = most_bytes
        self.pipes = pipes
        # True once a process other than the clew that started the child has asked it to end.
        self.is_called_off = False
        signal.signal(signal.SIGTERM, self._call_off)

    def _call_off(self, *_: object) -> None:
        self.is_called_off = True

    def told(self, status: int, *, takes_rest: bool) -> None:
        """Write to the record how the child ended.

        With `takes_rest`, first write the rest of the child's output to the file.
        """
        if takes_rest:
            self._take_rest()
        with contextlib.suppress(OSError):
            end = b'{"waitStatus":%d,"endedAt":%d%s}\n'
            how = b',"calledOff":true' if self.is_called_off else b""
            os.write(self._record, end % (status, int(time.time()), how))

    def take(self, pipe: int) -> bool:
        """Move data from a pipe to the file while the file may grow.

        Return whether more may come.
        """
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return True
        try:
            while data and self._room > 0:
                written = os.write(self._file, data[: self._room])
                data, self._room = data[written:], self._room - written
                if not data:
                    return True
        except OSError:
            # If the disk is full, the output is lost, but the command continues.
            return True
        return bool(data)

    def close(self, *, takes_rest: bool) -> None:
        """Close all descriptors. With `takes_rest`, first save the last output from the pipes."""
        if takes_rest:
            self._take_rest()
        close_all([self._record, self._file, *self.pipes])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _take_rest(self) -> None:
        for pipe in self.pipes:
            # No pipe contains more data than this. Output that other writers add later is not
            # waited for.
            for _ in range(PIPE_MAX_BYTES // READ_BYTES):
                if not select.select([pipe], [], [], 0)[0] or not self.take(pipe):
                    break


def follow(clew: _socket.socket, wake: int, child: int, *, adopts: bool, leaves: int) -> bool:
    """Serve a process tree until all of its processes have ended.

    If clew exits first, end the tree, unless clew asked to keep it. `leaves` specifies which
    processes may continue anyway. Return whether clew is still running and did not keep the tree.
    """
    poller = select.poll()
    poller.register(clew.fileno(), select.POLLIN)
    poller.register(wake, select.POLLIN)
    deadline: float | None = None
    status: int | None = None
    is_heard = True
    adopted_child: KeptChild | None = None
    while True:
        ended = status is not None
        ready = [
            descriptor
            for descriptor, _ in poller.poll(patience_ms(deadline, looks=ended and not adopts))
        ]
        if wake in ready:
            drain(wake)
        news = b""
        for pid, wait_status in reaped():
            if pid == child:
                status = wait_status
                news = b"ended %d " % status
                if adopted_child is not None:
                    news = (b"off\n" if adopted_child.is_called_off else b"") + news
                    adopted_child.told(status, takes_rest=is_gone(clew))
        ended = status is not None
        # Once the tree has to end, daemons that may continue no longer belong to it.
        session = child if leaves == DAEMONS_LEFT and deadline is not None else None
        is_over = ended and not (
            tree_lives(child, adopts=adopts) if session is None else find_tree(session)
        )
        if news:
            news += b"%d\n" % (0 if is_over else len(find_descendants(os.getpid())))
        if is_over:
            if adopted_child is not None:
                adopted_child.close(takes_rest=is_gone(clew))
            if session is not None and tree_lives(child, adopts=adopts):
                tell(clew, news + b"left\n")
                leave(wake, child, 0)
                return False
            tell(clew, news + b"gone\n")
            return is_heard and adopted_child is None
        tell(clew, news)
        grace_s: float | None = None
        session = child if leaves == DAEMONS_LEFT else None
        if clew.fileno() in ready:
            order, descriptors = receive_message(clew)
            if isinstance(order, dict):
                record, file, *pipes = descriptors
                adopted_child = KeptChild(record, file, pipes, order["most"])
                if status is not None:
                    adopted_child.told(status, takes_rest=False)
                tell(clew, b"kept\n")
            elif isinstance(order, int):
                grace_s = order / 1000
            elif leaves != NOTHING_LEFT:
                leave(wake, child, max(leaves, 0))
                return False
            else:
                is_heard = False
                poller.unregister(clew.fileno())
                grace_s = None if adopted_child is not None else 0.0
                for pipe in () if adopted_child is None else adopted_child.pipes:
                    poller.register(pipe, select.POLLIN)
        if adopted_child is not None and not is_heard:
            for pipe in adopted_child.pipes:
                if pipe in ready and not adopted_child.take(pipe):
                    poller.unregister(pipe)
        if adopted_child is not None and deadline is None:
            if adopted_child.is_called_off:
                grace_s = KEPT_GRACE_S
            elif ended and not is_heard:
                # Processes that a kept command leaves running end with clew, or with the command.
                grace_s = 0.0
        if grace_s is not None:
            if session is not None and ended and not find_tree(session):
                grace_s = 0.0
            if grace_s > 0:
                end_gently(None if ended and adopts else child, session)
            deadline = min(deadline or sys.maxsize, time.monotonic() + grace_s)
        if deadline is not None and time.monotonic() >= deadline:
            end_all(group=None if ended and adopts else child, session=session)
            deadline = time.monotonic() + PASS_S


def leave(wake: int, child: int, limit_ms: int) -> None:
    """Remain the parent of a hook's tree after clew is gone, until all of its processes have ended.

    Processes that are still in the child's session after the time limit are killed.
    """
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    deadline = time.monotonic() + limit_ms / 1000
    while True:
        drain(wake)
        reaped()
        if not children(os.getpid()):
            return
        in_session = find_tree(child)
        left_s = deadline - time.monotonic()
        if in_session and left_s <= 0:
            for pid in in_session:
                send_signal(pid, signal.SIGKILL)
            left_s = PASS_S
        poller.poll(left_s * 1000 if in_session else None)


def find_tree(session: int | None = None) -> list[int]:
    """Return all processes of the tree, or only those in a session."""
    tree = find_descendants(os.getpid())
    return tree if session is None else [pid for pid in tree if session_of(pid) == session]


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def is_gone(clew: _socket.socket) -> bool:
    """Return whether clew is gone, in which case nothing reads the output any longer."""
    poller = select.poll()
    poller.register(clew.fileno(), 0)
    return any(event & select.POLLHUP for _, event in poller.poll(0))


def patience_ms(deadline: float | None, *, looks: bool) -> float | None:
    waits = [] if deadline is None else [max(0.0, deadline - time.monotonic())]
    if looks:
        waits.append(GROUP_LOOK_S)
    return min(waits) * 1000 if waits else None


def tree_lives(child: int, *, adopts: bool) -> bool:
    """Return whether any process of the tree is still alive.

    Check our own children if we adopt orphans, otherwise the child's process group.
    """
    try:
        if adopts:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        else:
            os.kill(-child, 0)
    except (ChildProcessError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def tell(clew: _socket.socket, line: bytes) -> None:
    """Send a line to clew. Do nothing if clew is gone; the loop notices that as it reads."""
    with contextlib.suppress(ConnectionError):
        if line:
            clew.sendall(line)


def children_files(pid: int) -> list[str]:
    try:
        with os.scandir(f"/proc/{pid}/task") as tasks:
            files = [f"{task.path}/children" for task in tasks]
    except OSError:
        return []
    return [file for file in files if os.access(file, os.R_OK)]


def children(pid: int) -> list[int]:
    """Return the children of process `pid`, or none if the system does not list them."""
    pids: list[int] = []
    for file in children_files(pid):
        try:
            descriptor = os.open(file, os.O_RDONLY)
        except OSError:
            continue
        try:
            data = b""
            while piece := os.read(descriptor, 65536):
                data += piece
            pids += [int(word) for word in data.split()]
        except OSError:
            # The thread ended between the two calls. The next pass finds its children under another
            # thread.
            continue
        finally:
            os.close(descriptor)
    return pids


def find_descendants(pid: int) -> list[int]:
    pids = children(pid)
    for child_pid in pids:
        pids += children(child_pid)
    return pids


def send_signal(pid: int, number: int) -> None:
    # The process is gone, or its ID now belongs to another user (see docs/using/tools.md).
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def end_gently(group: int | None, session: int | None = None) -> None:
    """Ask all processes of the tree to end. Continue stopped processes, so that they can end."""
    tree = find_tree(session)
    for pid in tree if group is None else [-group, *tree]:
        send_signal(pid, signal.SIGTERM)
        send_signal(pid, signal.SIGCONT)


def end_all(
    *, group: int | None = None, spare: Container[int] = (), session: int | None = None
) -> None:
    """Send SIGKILL to all processes of the tree, or to those in a session, once.

    Processes orphaned by this pass become our children and are found in the next pass.
    """
    if group is not None:
        send_signal(-group, signal.SIGKILL)
    if session is not None:
        for pid in find_tree(session):
            send_signal(pid, signal.SIGKILL)
        return
    for top in children(os.getpid()):
        if top not in spare:
            for pid in (top, *find_descendants(top)):
                send_signal(pid, signal.SIGKILL)
