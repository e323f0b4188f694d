"""The command line: reads the first word, loads what that word needs, and nothing else.

Owns the table of subcommands. Must never import at module level anything heavier than `sys`:
`clew --version` is a start-up figure (tests/cli/test_startup.py holds the list of modules).
"""

import sys

from clew.version import VERSION

# name -> (module, one line for the help). The module is imported when its command is called, and
# offers `main(argv: list[str]) -> int`.
COMMANDS: dict[str, tuple[str, str]] = {
    "config": ("clew.config.commands", "read, explain and set settings; trust folders"),
    "demo": ("clew.testing.demo", "play a scripted conversation: no key, no network"),
    "login": ("clew.config.login", "keep an API key in a file only you can read"),
    "logout": ("clew.config.logout", "forget the key that login kept"),
    "memory": ("clew.context.explain", "show which memory files speak here, and why"),
    "permissions": ("clew.permissions.commands", "ask what may run, and why; edit the rules"),
    "sessions": ("clew.transcript.commands", "list, show, check and repair sessions"),
}

HELP_HEAD = """\
usage: clew [--version] [--help] COMMAND [ARG ...]

A coding agent for the terminal whose conversation is a durable, checkable log.
"""


def help_text() -> str:
    lines = [HELP_HEAD]
    if COMMANDS:
        lines.append("commands:")
        lines += [f"  {name:<12} {line}" for name, (_, line) in sorted(COMMANDS.items())]
        lines.append("")
    lines += [
        "options:",
        "  -h, --help     show this help; `clew COMMAND --help` shows a command's own",
        "  -v, --version  show the version",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    first = args[0] if args else "--help"
    if first in ("-v", "--version"):
        print(f"clew {VERSION}")
        return 0
    if first in ("-h", "--help"):
        print(help_text(), end="")
        return 0
    if first in COMMANDS:
        from importlib import import_module

        code: int = import_module(COMMANDS[first][0]).main(args[1:])
        return code
    return unknown(first)


def unknown(word: str) -> int:
    from difflib import get_close_matches

    kind = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, [*COMMANDS, "--help", "--version"], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    print(f"clew: unknown {kind} {word!r}{hint} (clew --help lists what there is)", file=sys.stderr)
    return 2
