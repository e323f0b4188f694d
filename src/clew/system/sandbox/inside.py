"""Run inside a command's own network namespace: open a way to the proxy, then execute the command.

A socket belongs to the namespace in which it was created, whichever process serves it. This module
creates the socket in the command's namespace and passes it through a descriptor to clew, which
serves it. Runs as a bare interpreter, so it imports almost nothing.
"""

import _socket
import os
import sys

# The variables in which programs look for a proxy. Both spellings are in use.
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NEAR = "localhost,127.0.0.1,::1"


def make_proxy_environment(environment: dict[str, str], port: int) -> dict[str, str]:
    """Return `environment` for a command that can only connect to the proxy at `port`."""
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
    """Return the arguments to put before a command so that this module runs first."""
    source = __file__.rsplit(os.sep, 4)[0]
    program = f"import sys; sys.path.append({source!r}); from clew.system.sandbox.inside import main; main()"
    return [sys.executable, "-I", "-S", "-c", program, str(channel)]
