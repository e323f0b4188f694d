"""Commands that try to escape, in each backend that this machine supports.

Where the system does not support a backend, the same tests check that nothing ran and that the
reason was reported: what to expect is asked of the system, not of clew.
"""

import http.server
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.system.process.walls import HAS_SCOPES, HAS_TCP, read_version
from clew.system.sandbox.box import Kind
from clew.system.sandbox.walled import SandboxError
from tests.requirements import requirement
from tests.system.sandbox.walls import KINDS, Tried, can, folders, tried

Try = Callable[..., Tried | None]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def attempt(kind: Kind, tmp_path: Path) -> Try:
    """Runs a script behind the walls; None where there are none, after seeing that it did not run."""
    folders(tmp_path)

    def run(script: str, **more: object) -> Tried | None:
        if can(kind):
            return tried(kind, tmp_path, script, **more)
        with pytest.raises(SandboxError) as told:
            tried(kind, tmp_path, f"touch {tmp_path}/work/ran; {script}", **more)
        assert kind in str(told.value)
        assert not (tmp_path / "work" / "ran").exists()
        return None

    return run


def test_landlock_is_in_this_kind_of_kernel_or_said_not_to_be(tmp_path: Path) -> None:
    assert (read_version() > 0) is can("landlock") or os.uname().machine not in (
        "x86_64",
        "aarch64",
    )


def test_what_is_inside_can_be_worked_with(attempt: Try, tmp_path: Path) -> None:
    done = attempt("echo one > a && mkdir b && mv a b/ && cat b/a && pwd && echo x > /dev/null")
    if done is not None:
        assert done.output == f"one\n{(tmp_path / 'work').resolve()}\n"
        assert done.code == 0


@requirement("R220")
def test_nothing_outside_is_written(attempt: Try, kind: Kind, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("as it was", "utf-8")
    done = attempt(
        f"echo new > {outside}; echo new > {tmp_path}/other; rm -f {outside}; "
        f"ln -s {outside} link; echo new > link; mv {outside} .; chmod 000 {outside}; true"
    )
    assert outside.read_text("utf-8") == "as it was"
    assert not (tmp_path / "other").exists()
    # Landlock knows no right of changing who may do what.
    if done is not None and kind == "bubblewrap":
        assert outside.stat().st_mode & 0o777 != 0


def test_a_secret_is_not_read_by_any_name(attempt: Try, tmp_path: Path) -> None:
    (tmp_path / "same").symlink_to(tmp_path / "secret")
    (tmp_path / "around").symlink_to(tmp_path)
    done = attempt(
        f"cat {tmp_path}/same/key; cat {tmp_path}/around/secret/key; "
        f"cat {tmp_path}/secret/key; cat ../secret/key; ln -s {tmp_path}/secret s; cat s/key; "
        f"cat /proc/self/root{tmp_path}/secret/key; cp -r {tmp_path}/secret copy; cat copy/key"
    )
    if done is not None:
        assert "the-secret-key" not in done.output
        assert not (tmp_path / "work" / "copy" / "key").exists()


def test_what_is_shut_and_opened_again_is_read(attempt: Try, tmp_path: Path) -> None:
    (tmp_path / "secret" / "public").mkdir()
    (tmp_path / "secret" / "public" / "cert").write_text("open", "utf-8")
    public = str((tmp_path / "secret" / "public").resolve())
    done = attempt(f"cat {public}/cert; cat {tmp_path}/secret/key", read=(public,))
    if done is not None:
        assert done.output.startswith("open")
        assert "the-secret-key" not in done.output


def test_hidden_values_are_not_in_the_environment_and_the_temporary_folder_is_ones_own(
    attempt: Try, tmp_path: Path
) -> None:
    done = attempt("env; echo t > $TMPDIR/t && cat $TMPDIR/t", environment={"KEY": "hidden-value"})
    if done is not None:
        assert "hidden-value" not in done.output
        assert done.output.endswith("\nt\n")


@contextmanager
def site() -> Iterator[int]:
    """A web site on loopback, as far away as a test may go."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"reached")

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FETCH = """python3 - {port} {host} <<'END'
import sys, urllib.request
try:
    print(urllib.request.urlopen(f"http://{{sys.argv[2]}}:{{sys.argv[1]}}/", timeout=20).read().decode())
except OSError as error:
    print("failed:", error)
END
"""
CONNECT = """python3 - {port} <<'END'
import socket, sys
for family, kind, where in (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(sys.argv[1]))),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(sys.argv[1]))),
    (socket.AF_UNIX, socket.SOCK_STREAM, sys.argv[1]),
):
    try:
        made = socket.socket(family, kind)
        made.settimeout(5)
        made.connect(where)
        made.send(b"out")
        print("got out")
    except OSError as error:
        print("held back")
END
"""


def test_nothing_is_reached_without_hosts_that_may_be(attempt: Try, tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(0.05)
    with site() as port, listening:
        done = attempt(
            CONNECT.format(port=port)
            + CONNECT.format(port=listening.getsockname()[1])
            + FETCH.format(port=port, host="127.0.0.1")
        )
        with pytest.raises(TimeoutError):
            listening.recv(10)
    if done is not None:
        assert "reached" not in done.output
        # A datagram into a name space of one's own goes nowhere, and nobody tells its sender.
        assert "failed:" in done.output


def test_only_the_hosts_that_may_be_are_reached_and_the_others_are_reported(
    attempt: Try, tmp_path: Path
) -> None:
    with site() as port:
        done = attempt(
            FETCH.format(port=port, host="127.0.0.1") + FETCH.format(port=port, host="other.test"),
            domains=("127.0.0.1",),
            environment={"no_proxy": "", "NO_PROXY": ""},
        )
    if done is not None:
        # Programs do not ask a proxy for what is near; the name is given to the proxy by hand below.
        assert done.refused == ["other.test"]


VIA_PROXY = """python3 - {port} {host} <<'END'
import os, sys, urllib.request
proxy = urllib.request.ProxyHandler({{"http": os.environ["http_proxy"]}})
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
try:
    opened = urllib.request.build_opener(proxy).open(f"http://{{sys.argv[2]}}:{{sys.argv[1]}}/", timeout=20)
    print(opened.read().decode())
except OSError as error:
    print("failed:", error)
END
"""


def test_the_way_out_is_the_proxy_and_it_knows_its_hosts(attempt: Try, tmp_path: Path) -> None:
    with site() as port:
        done = attempt(
            VIA_PROXY.format(port=port, host="localhost")
            + VIA_PROXY.format(port=port, host="127.0.0.1"),
            domains=("localhost",),
        )
    if done is not None:
        first, second = done.output.splitlines()
        assert first == "reached"
        assert second.startswith("failed: HTTP Error 403")
        assert done.refused == ["127.0.0.1"]


def test_what_goes_around_the_proxy_gets_nowhere(attempt: Try, tmp_path: Path) -> None:
    with site() as port:
        done = attempt(CONNECT.format(port=port), domains=("localhost",))
    if done is not None:
        # The first is TCP; a datagram is refused or goes nowhere, see above.
        assert done.output.splitlines()[0] == "held back"
        assert done.output.splitlines()[2] == "held back"


def test_other_processes_are_out_of_reach(attempt: Try, kind: Kind, tmp_path: Path) -> None:
    done = attempt(f"kill -0 {os.getpid()} && echo could; kill -TERM {os.getpid()} && echo did")
    if done is not None and (kind == "bubblewrap" or read_version() >= HAS_SCOPES):
        assert "could" not in done.output
        assert "did" not in done.output


def test_what_others_run_unasked_is_not_written_where_that_can_be_held_back(
    attempt: Try, kind: Kind, tmp_path: Path
) -> None:
    attempt("echo x > .git/hooks/pre-commit; mkdir -p .claude && echo '{}' > .claude/settings.json")
    work = tmp_path / "work"
    if kind == "bubblewrap":
        assert not (work / ".git" / "hooks" / "pre-commit").exists()
        assert not (work / ".claude").exists()


def test_a_command_ends_with_all_it_started(attempt: Try, kind: Kind, tmp_path: Path) -> None:
    done = attempt("sleep 300 & echo $!; exit 7")
    if done is not None:
        assert done.code == 7


def test_walls_that_do_not_stand_are_refused_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bwrap that lets everything through: the run that tries it finds out."""
    folders(tmp_path)
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n', "utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SandboxError, match="write to a forbidden path"):
        tried("bubblewrap", tmp_path, "touch ran")
    fake.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n", "utf-8"
    )
    with pytest.raises(
        SandboxError, match="bubblewrap: bwrap: No permissions to create new namesp"
    ):
        tried("bubblewrap", tmp_path, "touch ran")
    assert not (tmp_path / "work" / "ran").exists()


def test_a_kernel_that_cannot_hold_connections_back_is_not_asked_to(tmp_path: Path) -> None:
    from clew.system.sandbox import backends
    from tests.system.sandbox.walls import policy

    open_to_some = policy(tmp_path, domains=("example.com",))
    assert backends.why_not(policy(tmp_path), 0) == "the kernel does not support Landlock"
    if os.uname().machine in ("x86_64", "aarch64"):
        assert backends.why_not(policy(tmp_path), 1) == ""
        assert "restrict connections" in backends.why_not(open_to_some, HAS_TCP - 1)
        assert backends.why_not(open_to_some, HAS_TCP) == ""


def test_root_has_none_of_its_privileges(attempt: Try) -> None:
    done = attempt(
        "grep -E 'Cap(Prm|Eff)' /proc/self/status; mount -o remount,rw / && echo remounted; "
        "echo '|/bin/false' > /proc/sys/kernel/core_pattern && echo set; "
        "umount /proc && echo unmounted; hostname other && echo named"
    )
    if done is not None:
        sets = [line.split()[1] for line in done.output.splitlines() if line.startswith("Cap")]
        assert sets == ["0" * 16] * 2
        for word in ("remounted", "set", "unmounted", "named"):
            assert word not in done.output.splitlines()


def test_a_pair_of_datagram_sockets_leads_nowhere(attempt: Try, tmp_path: Path) -> None:
    """What comes out of a pair can be sent to any socket by its path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "heard"))
        heard.setblocking(False)
        attempt(
            "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) "
            f'and send(A, "x", 0, sockaddr_un("{tmp_path}/heard"))\''
        )
        with pytest.raises(BlockingIOError):
            heard.recv(10)


def test_a_bubblewrap_that_knows_less_is_used_and_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("bwrap")
    if real is None or not can("bubblewrap"):
        return
    folders(tmp_path)
    old = tmp_path / "bin" / "bwrap"
    old.parent.mkdir()
    old.write_text(
        "#!/bin/bash\nfor one; do\n"
        '  [ "$one" = --disable-userns ] && { echo "bwrap: Unknown option" >&2; exit 1; }\n'
        f'done\nexec {real} "$@"\n',
        "utf-8",
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}{os.pathsep}{os.environ['PATH']}")
    done = tried("bubblewrap", tmp_path, "grep CapEff /proc/self/status; touch inside")
    assert done.output.split()[1] == "0" * 16
    assert done.weakness == "bubblewrap supports only --unshare-user --cap-drop ALL on this machine"
    assert (tmp_path / "work" / "inside").exists()
