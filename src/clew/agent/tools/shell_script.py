"""Turn a command line into a shell process that reports the folder it ends in."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.agent.tools.base import ShellInput, ToolContext, ToolError
from clew.system.config.environment import AGENT_VARIABLES
from clew.system.files import is_folder, is_there
from clew.system.process.programs import find_own_program
from clew.system.process.run import FinishedCommand, hold_data
from clew.system.process.tree import SIGNALLED, name_signal

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

# Linux limits a single argument to 128 KiB.
ARGUMENT_MAX_BYTES = 100_000
# High numbers, because scripts number their descriptors from 3 on and use some like 9 and 200 for
# locks.
FOLDER_FD = 198
SCRIPT_FD = 197
FOLDER_MAX_BYTES = 65536


# Unsets every variable that a confined command may not keep.
KEEP_ONLY = (
    'for _each in $(compgen -e); do case $_each in {passed}) ;; *) unset "$_each" ;; esac; done\n'
)


def make_environment(ctx: ToolContext) -> dict[str, str]:
    """Return the environment for a command: the session's environment, with editors disabled.

    CDPATH and PWD are left out, because they could lead a `cd` to a different folder than the
    permissions assume: a `cd ..` after following a link goes up from the link if PWD is set.
    """
    variables = {
        k: v for k, v in ctx.session.shell.environment.items() if k not in ("CDPATH", "PWD")
    }
    return {**variables, **AGENT_VARIABLES, "GIT_EDITOR": "true"}


def compose_first_lines(ctx: ToolContext) -> str:
    """Return the lines that a shell runs first to set variables from hooks; empty without any.

    If the command is confined, the lines also unset all variables that it may not keep.
    """
    file, sandbox = ctx.session.shell.env_file, ctx.session.shell.sandbox
    if file is None or not is_there(file):
        return ""
    lines = f". {quote_text(str(file))} >/dev/null\n"
    if ctx.is_confined and sandbox is not None:
        lines += KEEP_ONLY.format(passed=sandbox.passed)
    return lines


def start_folder(ctx: ToolContext) -> str | None:
    """Set the session's folder to one that exists; return the previous folder if it was deleted.

    Return None if the folder still exists. Otherwise the next command begins in the folder where
    the session began or, if that doesn't exist either, in its nearest existing parent.
    """
    folder, project = ctx.session.cwd, Path(ctx.session.shell.project)
    if is_folder(folder):
        return None
    ctx.session.cwd = next(
        str(folder) for folder in (project, *project.parents) if is_folder(folder)
    )
    return folder


def find_shell() -> str:
    path = find_own_program("bash") or find_own_program("sh")
    if path is None:
        raise ToolError("Can't run commands: neither bash nor sh is installed.")
    return path


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class ShellProgram(Struct, frozen=True, kw_only=True):
    """A command before its start; `opened` yields its arguments and its descriptors.

    The descriptors are open while the command starts. `text` identifies the command to the sandbox,
    and `line` is the parsed command line.
    """

    text: str
    opened: Callable[[], AbstractContextManager[tuple[list[str], dict[int, int]]]]
    line: "CommandLine | None" = None


def choose_program(arguments: ShellInput, first: str) -> ShellProgram:
    return ShellProgram(
        text=arguments.command,
        opened=lambda: open_script(arguments.command, reports=False, first=first),
        line=arguments.line,
    )


@contextmanager
def open_script(
    command: str, *, reports: bool = True, first: str = ""
) -> Iterator[tuple[list[str], dict[int, int]]]:
    """Yield the shell's arguments and descriptors for a command.

    A command that is too long for an argument is passed in a nameless file. With `reports`, the
    shell reports the folder in which it ends. `first` contains lines that run before the command.
    """
    # A trap, because the command may call `exit`; eval, because it may not parse. A command that
    # keeps running after clew exits must not be killed by SIGPIPE when no process reads the pipe.
    trap = f"trap 'trap \"\" PIPE; command pwd -P >/dev/fd/{FOLDER_FD} 2>/dev/null' EXIT\n"
    report = (trap if reports else "") + first
    # Startup files may have set it.
    report += "unset CDPATH\n"
    line = f"{report}eval {quote_text(command)}"
    if len(os.fsencode(line)) <= ARGUMENT_MAX_BYTES:
        yield [find_shell(), "-c", line], {}
        return
    with hold_data(os.fsencode(command)) as source:
        yield [find_shell(), "-c", f"{report}. /dev/fd/{SCRIPT_FD}"], {SCRIPT_FD: source}


class FolderReport:
    """A pipe through which the shell reports the folder it ended in."""

    def __enter__(self) -> "FolderReport":
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        os.close(self.write_end)

    def folder(self) -> str | None:
        """Return the reported folder, or None: exec or a signal may prevent the report."""
        try:
            folder = os.fsdecode(os.read(self._read_end, FOLDER_MAX_BYTES)).rstrip("\n")
        except BlockingIOError:
            return None
        return folder if is_folder(folder) else None


def describe_end(finished: FinishedCommand, timeout_ms: int | None) -> str:
    """Describe how a command failed; return an empty string if it succeeded."""
    ended = finished.exit
    if finished.timed_out and timeout_ms:
        return f"Timed out after {timeout_ms / 1000:g} s; the command and all its processes were killed."
    if ended.signal:
        return f"Exit code {ended.code} (the shell was killed by {ended.signal})"
    if ended.code > SIGNALLED and not (name := name_signal(ended.code - SIGNALLED)).startswith(
        "signal"
    ):
        return f"Exit code {ended.code} (128 + {name})"
    return f"Exit code {ended.code}" if ended.code else ""
