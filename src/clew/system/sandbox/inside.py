"""Runs inside a network name space of its own: opens a way out and then becomes the command.

A socket belongs to the name space it was made in, whoever serves it: this one is made here, handed to
clew through a descriptor, and served there. Imports next to nothing; started as a bare interpreter.
"""

import _socket
import os
import sys

# What programs read to find a proxy; both spellings are in use.
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NEAR = "localhost,127.0.0.1,::1"


def make_proxy_environment(environment: dict[str, str], port: int) -> dict[str, str]:
    """The environment of a command whose only way out is the proxy at `port`."""
    address = f"http://127.0.0.1:{port}"
    near = {"NO_PROXY": NEAR, "no_proxy": NEAR}
    return {**environment, **dict.fromkeys(NAMES, address), **near}


def main() -> None:
    channel = int(sys.argv[1])
    listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    packed = listening.fileno().to_bytes(4, sys.byteorder)
    clew = _socket.socket(fileno=channel)
    clew.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])
    port = listening.getsockname()[1]
    clew.close()
    listening.close()
    os.execvpe(sys.argv[2], sys.argv[2:], make_proxy_environment(dict(os.environ), port))


def make_command(channel: int) -> list[str]:
    """What starts this in front of a command."""
    source = __file__.rsplit(os.sep, 4)[0]
    program = f"import sys; sys.path.append({source!r}); from clew.system.sandbox.inside import main; main()"
    return [sys.executable, "-I", "-S", "-c", program, str(channel)]
