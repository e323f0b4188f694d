"""Runs `clew` on a machine that has no network except its loopback.

`python -m tests.commands.doctor.alone HOME`. It must run in its own network namespace, so that the
kernel's counters cover only these runs. They count each attempted connection, each datagram (such
as a name lookup), and each attempt to reach an address outside the machine.
"""

import fcntl
import socket
import struct
import sys
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, until
from tests.fronts.terminal.screen import OnScreen

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}
BEYOND = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def counted(protocol: str, name: str) -> int:
    """Return a counter of this namespace."""
    lines = Path("/proc/self/net/snmp").read_text("ascii").splitlines()
    names, values = (line.split() for line in lines if line.startswith(f"{protocol}: "))
    return int(values[names.index(name)])


def counted_6(name: str) -> int:
    rows = dict(
        line.split() for line in Path("/proc/self/net/snmp6").read_text("ascii").splitlines()
    )
    return int(rows[name])


def beyond() -> int:
    """Return how many attempts were made to reach another machine."""
    return counted("Ip", "OutNoRoutes") + counted_6("Ip6OutNoRoutes")


def datagrams() -> int:
    return counted("Udp", "OutDatagrams") + counted_6("Udp6OutDatagrams")


def prove_the_counters() -> None:
    """Check that an attempt to reach another machine fails and is counted."""
    before = beyond()
    for family, address in BEYOND:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(family, kind) as out:
                assert out.connect_ex((address, 53)) != 0, f"{address} can be reached"
    assert beyond() - before == 4


def one_prompt(home: Path, url: str) -> None:
    done = clew(home, url, "-p", "hi")
    assert done.stdout == "Hello!\n", done


def doctor(home: Path, url: str) -> None:
    done = clew(home, url, "doctor")
    assert done.returncode == 0, done
    assert "reachable (" in done.stdout, done.stdout


def person(home: Path, url: str) -> None:
    with OnScreen(home, url) as screen:
        screen.expect("default")
        screen.type("hi\r")
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("\x04")
        assert screen.end() == 0


def main() -> None:
    loopback_up()
    prove_the_counters()
    for run in (one_prompt, doctor, person):
        with serving(HELLO) as server:
            out, sent, begun = beyond(), datagrams(), counted("Tcp", "ActiveOpens")
            run(Path(sys.argv[1]), server.url)
            assert server.requests, f"{run.__name__} asked nothing"
            assert beyond() == out, f"{run.__name__} tried to leave the machine"
            assert datagrams() == sent, f"{run.__name__} sent a datagram"
            opened = counted("Tcp", "ActiveOpens") - begun
            # A connection that was made may still wait to be accepted.
            until(lambda: server.accepted >= opened)  # noqa: B023
            assert opened == server.accepted, f"{run.__name__}: {opened} to {server.accepted}"
        sys.stdout.write(f"{run.__name__}: alone with the API\n")


if __name__ == "__main__":
    main()
