"""`clew acp`: an editor starts it and speaks to it over standard input and output.

Owns the first message: an editor waits for the answer to it, so it is given before anything is loaded
that a conversation needs (`serve`).
"""

import os
import sys

from clew.acp.protocol import Offer, initialized
from clew.jsonrpc.wire import Request, an_object, read, success
from clew.messages.encoding import encode

USAGE = """\
usage: clew acp [OPTION ...]
       clew acp login

Speak the Agent Client Protocol with the editor that started this program. The options are those of
a session, as `--model` and `--permission-mode`; they hold for every session of the editor.
"""
READ_BYTES = 1 << 16


def main(argv: list[str]) -> int:
    if argv[:1] == ["login"]:
        from clew.config.login import main as login

        return login(argv[1:])
    if argv[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    can, rest = greeted()
    from clew.acp.serve import run

    run(argv, can, rest)
    return 0


def greeted() -> tuple[Offer, bytes]:
    """Answers the first line if it is `initialize`: what the editor can, and what it said behind it.

    Any other line is the conversation's.
    """
    said = b""
    while b"\n" not in said and (piece := os.read(0, READ_BYTES)):
        said += piece
    line, _, rest = said.partition(b"\n")
    first = read(line)[0]
    if not isinstance(first, Request) or first.method != "initialize":
        return Offer(), said
    can = Offer(an_object(first.params).get("clientCapabilities"))
    answer = memoryview(encode(success(first.id, initialized(can))) + b"\n")
    while answer:
        answer = answer[os.write(1, answer) :]
    return can, rest
