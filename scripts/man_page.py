"""Generate the man page of `clew` from the tables of commands, options and environment variables.

`make docs` writes it to packaging/data, from where the wheel installs it, together with the shell
completions.
"""

from collections.abc import Callable, Iterator

from clew.agent.options import SECTIONS, Flag, Options
from clew.cli import COMMANDS
from clew.completion import BASH, FISH, ZSH
from clew.session.flags import flag_rows
from clew.system.config.environment import VARIABLES
from clew.version import VERSION

DESCRIPTION = """\
.B clew
is a coding agent for the terminal. It reads and edits code, runs commands and searches a
repository. It asks before it changes anything, and records every session so that it can be
resumed, rewound or audited.
.PP
Without arguments,
.B clew
starts a session in the current folder. With
.BR \\-p ,
it prints the answer to one prompt and exits. In a session,
.B /help
lists the commands and
.B ?
the keys.
"""
FILES = (
    ("~/.claude", "Config home: settings, sessions, prompt history, memory and subagents. Set "
     "CLEW_CONFIG_DIR to use another folder."),
    ("~/.claude/clew", "Files of clew alone: API keys, trusted folders, search index, backups."),
    ("~/.claude/settings.json", "Settings of the user; clew config schema prints their schema."),
    (".claude/settings.json", "Settings of a project; .claude/settings.local.json is for you only."),
    ("CLAUDE.md, AGENTS.md", "Instructions for the model in this project."),
)  # fmt: skip
EXIT_STATUS = (
    ("0", "Success."),
    ("1", "With -p: the answer is an error. Otherwise: something failed, was not found or differs."),
    ("2", "The command line is invalid, or a command failed; one line gives the reason."),
    ("129, 130, 143", "Ended by SIGHUP, SIGINT or SIGTERM; what was done is recorded."),
)  # fmt: skip


def escape(text: str) -> str:
    """Return text in which roff finds nothing to interpret."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def describe(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {escape(term)}"
    yield escape(text)


def describe_flag(flag: Flag) -> str:
    """Return the meaning of an option, with its values if the help text lacks them."""
    return f"{flag.help} ({', '.join(flag.choices)})." if flag.choices else f"{flag.help}."


def write_page() -> Iterator[str]:
    """Yield the lines of clew(1)."""
    yield f'.TH CLEW 1 "" "clew {VERSION}" "User Commands"'
    yield ".SH NAME"
    yield "clew \\- a coding agent for the terminal"
    yield ".SH SYNOPSIS"
    yield '.B clew\n.RI [ OPTION " ...] [" PROMPT ]\n.br\n.B clew\n.IR COMMAND " [" ARG " ...]"'
    yield ".SH DESCRIPTION"
    yield DESCRIPTION.rstrip()
    yield ".SH COMMANDS"
    yield "Each command describes its options with \\fBclew COMMAND \\-\\-help\\fR."
    for name, (_, summary) in sorted(COMMANDS.items()):
        yield from describe(name, f"{summary}.")
    yield ".SH OPTIONS"
    rows = flag_rows()
    for field in Options.__struct_fields__:
        if field in SECTIONS:
            yield f".SS {escape(SECTIONS[field].capitalize())}"
        for row in rows:
            if row.field == field:
                yield from describe(row.flag.spelling, describe_flag(row.flag))
    yield ".SS Other options"
    yield from describe("-h, --help", "Show all options and commands.")
    yield from describe("-v, --version", "Show the version.")
    yield ".SH ENVIRONMENT"
    yield "Where a variable has two names, the second is the one that other tools use too."
    for known in VARIABLES:
        default = "" if known.default is None else f" (default: {known.default})"
        yield from describe(", ".join(known.names), f"{known.meaning}{default}.")
    yield ".SH FILES"
    for path, text in FILES:
        yield from describe(path, text)
    yield ".SH EXIT STATUS"
    for code, text in EXIT_STATUS:
        yield from describe(code, text)
    yield ".SH SEE ALSO"
    yield ".BR git (1),\n.BR rg (1),\n.BR bwrap (1)"


def write_zsh() -> str:
    """Return the zsh completion as a file of $fpath, where the file itself is the function."""
    head, body = ZSH.removesuffix("compdef _clew clew\n").split("\n", 1)
    return f'{head}\n{body}_clew "$@"\n'


# The generated files below packaging/data, as the wheel installs them.
FILES_BY_PATH: dict[str, Callable[[], str]] = {
    "share/man/man1/clew.1": lambda: "".join(f"{line}\n" for line in write_page()),
    "share/bash-completion/completions/clew": lambda: BASH,
    "share/zsh/site-functions/_clew": write_zsh,
    "share/fish/vendor_completions.d/clew.fish": lambda: FISH,
}
