"""System call filters (seccomp) for what file restrictions do not cover. Does no I/O.

Owns the tables of system calls for each machine, and builds filters from them;
`system.process.walls` installs them. A filter lists what it refuses. The read-only filter also
refuses every call that is newer than its tables, with the error "not implemented", which programs
can handle. Formats: seccomp(2), syscalls(2).
"""

from collections.abc import Iterable, Sequence
from functools import cache

UNIX, INET, NETLINK, INET6 = 1, 2, 16, 10
STREAM = 1
ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
LOAD, MASK, GIVE = 0x20, 0x54, 0x06
EQUAL, ABOVE, AT_LEAST, ANY_BIT = 0x15, 0x25, 0x35, 0x45
# Offsets in the data that a filter reads: call number, architecture, lower half of each argument.
NUMBER, ARCHITECTURE = 0, 4
ARGUMENTS = tuple(range(16, 64, 8))

# By `os.uname().machine`: the kernel's number for the architecture, and the first number of x32.
MACHINES = {"x86_64": (0xC000003E, 0x40000000), "aarch64": (0xC00000B7, 0)}
# The first system call that did not exist when the tables below were written.
FIRST_UNKNOWN = 463
# Call numbers on x86_64 and aarch64, or 0 where a machine does not have the call.
CALLS = {
    "bind": (49, 200), "clone": (56, 220), "clone3": (435, 435), "connect": (42, 203),
    "fcntl": (72, 25), "io_uring_setup": (425, 425), "ioctl": (16, 29), "listen": (50, 201),
    "personality": (135, 92), "prlimit64": (302, 261), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "setpriority": (141, 140), "socket": (41, 198), "socketpair": (53, 199),
}  # fmt: skip
# Owners, modes, times and attributes, which no Landlock right covers.
METADATA = {
    "chmod": (90, 0), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, 0), "fchown": (93, 55), "lchown": (94, 0), "fchownat": (260, 54),
    "utime": (132, 0), "utimes": (235, 0), "futimesat": (261, 0), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
# Other processes, shared memory and queues, the kernel and its clock. No read-only command needs
# them.
OTHERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "ioprio_set": (251, 30),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "setns": (308, 268), "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224),
    "swapoff": (168, 225),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218),
    "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161),
    "setdomainname": (171, 162), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "iopl": (172, 0), "ioperm": (173, 0), "vhangup": (153, 58),
}  # fmt: skip
# Signals, for kernels whose Landlock cannot limit them to the command's own processes.
SIGNALS = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
}  # fmt: skip
EVERY = CALLS | METADATA | OTHERS | SIGNALS
NAME_SPACES = 0x7E020000
# Calls that name a process by number, where 0 is the caller.
OF_A_PROCESS = (
    "prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
)  # fmt: skip
# Choosing the process and the signal that report a readable file, and leases, which delay other
# processes.
SET_OWNER = (8, 10, 15, 1024)
# The two ways to insert input into a terminal.
TYPING = (0x5412, 0x541C)
# Read-only requests to files and terminals, and descriptor flags. Any other request may change a
# file.
ASKING = (
    0x5401, 0x5402, 0x5403, 0x5404, 0x540F, 0x5410, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452,
    0x802C542A, 0x80086601, 0x801C581F, 0xC020660B, 0x2,
)  # fmt: skip


class FilterProgram:
    """A filter under construction: a list of steps, which can jump forward to labels."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, str, str, int]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        self._labels[name] = len(self._steps)

    def load(self, offset: int) -> None:
        self._steps.append((LOAD, "", "", offset))

    def mask(self, bits: int) -> None:
        self._steps.append((MASK, "", "", bits))

    def when(self, test: int, value: int, yes: str = "", no: str = "") -> None:
        """Jump to `yes` or `no`, depending on a test of the loaded value.

        An empty label means the next step.
        """
        self._steps.append((test, yes, no, value))

    def go(self, label: str) -> None:
        self.when(EQUAL, 0, label, label)

    def give(self, value: int) -> None:
        self._steps.append((GIVE, "", "", value))

    def packed(self) -> bytes:
        data = bytearray()
        for place, (code, yes, no, value) in enumerate(self._steps):
            jumps = [self._labels[name] - place - 1 if name else 0 for name in (yes, no)]
            data += code.to_bytes(2, "little") + bytes(jumps) + value.to_bytes(4, "little")
        return bytes(data)


@cache
def make_socket_filter(machine: str, *, families: frozenset[int], stream_only: bool) -> bytes:
    """Return a filter that allows only sockets of these families.

    For an unknown machine, the filter is empty. With `stream_only`, only TCP is allowed in the
    internet families. The filter also refuses calls of another architecture, io_uring (which
    creates sockets without passing a filter), datagram socket pairs (which can send anywhere), and
    inserting input into terminals.
    """
    if machine not in MACHINES:
        return b""
    program = begun(machine, refused=("io_uring_setup",))
    checks = ["socket", "ioctl"] if UNIX in families else ["socket", "socketpair", "ioctl"]
    dispatch(program, machine, checks)
    program.go("allow")
    program.label("socket")
    program.load(ARGUMENTS[0])
    for family in sorted(families):
        is_limited = stream_only and family in (INET, INET6)
        program.when(EQUAL, family, "type" if is_limited else "allow")
    program.go("refuse")
    program.label("type")
    program.load(ARGUMENTS[1])
    program.mask(0xF)
    program.when(EQUAL, STREAM, "allow", "refuse")
    if "socketpair" in checks:
        stream_pairs(program)
    program.label("ioctl")
    one_of(program, ARGUMENTS[1], TYPING, yes="refuse", no="allow")
    return ended(program)


@cache
def read_only_filter(machine: str, *, has_signals: bool) -> bytes:
    """Return the filter for a read-only command, or an empty one for an unknown machine.

    It allows socket pairs but no other sockets, no metadata changes, no namespaces, and no access
    to other processes. `has_signals` means that the command may send signals, because Landlock or a
    namespace limits them to its own processes.
    """
    if machine not in MACHINES:
        return b""
    refused = [*METADATA, *OTHERS, "io_uring_setup", "socket", "connect", "bind", "listen"]
    program = begun(machine, refused=[*refused, *(() if has_signals else SIGNALS)])
    program.when(AT_LEAST, FIRST_UNKNOWN, "missing")
    # The flags of clone3 are in memory, which a filter cannot read. Programs fall back to `clone`.
    program.when(EQUAL, number("clone3", machine), "missing")
    checks = ("clone", "socketpair", "ioctl", "fcntl", "personality", "setpriority")
    dispatch(program, machine, checks)
    for name in OF_A_PROCESS:
        program.when(EQUAL, number(name, machine), "own")
    program.go("allow")
    program.label("clone")
    program.load(ARGUMENTS[0])
    program.when(ANY_BIT, NAME_SPACES, "refuse", "allow")
    stream_pairs(program)
    program.label("ioctl")
    one_of(program, ARGUMENTS[1], ASKING, yes="allow", no="refuse")
    program.label("fcntl")
    one_of(program, ARGUMENTS[1], SET_OWNER, yes="refuse", no="allow")
    program.label("personality")
    one_of(program, ARGUMENTS[0], (0, 0xFFFFFFFF), yes="allow", no="refuse")
    program.label("setpriority")
    program.load(ARGUMENTS[1])
    program.when(EQUAL, 0, "own", "refuse")
    program.label("own")
    program.load(ARGUMENTS[0])
    program.when(EQUAL, 0, "allow", "refuse")
    return ended(program)


def number(name: str, machine: str) -> int:
    return EVERY[name][list(MACHINES).index(machine)]


def begun(machine: str, *, refused: Iterable[str]) -> FilterProgram:
    """Start a filter that checks the architecture and refuses the calls in `refused`.

    The call number remains loaded for further steps.
    """
    architecture, foreign = MACHINES[machine]
    program = FilterProgram()
    program.load(ARCHITECTURE)
    program.when(EQUAL, architecture, "", "refuse")
    program.load(NUMBER)
    if foreign:
        program.when(AT_LEAST, foreign, "refuse")
    for name in refused:
        if number(name, machine):
            program.when(EQUAL, number(name, machine), "refuse")
    return program


def dispatch(program: FilterProgram, machine: str, names: Sequence[str]) -> None:
    """For each named call, jump to the label with its name, where its arguments are checked."""
    for name in names:
        program.when(EQUAL, number(name, machine), name)


def stream_pairs(program: FilterProgram) -> None:
    program.label("socketpair")
    program.load(ARGUMENTS[1])
    program.mask(0xF)
    program.when(EQUAL, STREAM, "allow", "refuse")


def one_of(
    program: FilterProgram, offset: int, values: Sequence[int], *, yes: str, no: str
) -> None:
    program.load(offset)
    for value in values[:-1]:
        program.when(EQUAL, value, yes)
    program.when(EQUAL, values[-1], yes, no)


def ended(program: FilterProgram) -> bytes:
    for label, value in (("allow", ALLOW), ("refuse", REFUSE), ("missing", MISSING)):
        program.label(label)
        program.give(value)
    return program.packed()
