"""How a command line becomes a process: the shell, its arguments, and word of where and how it ended."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.agent.tools.base import ShellInput, ToolContext, ToolError
from clew.system.files import is_folder, is_there
from clew.system.process.run import FinishedCommand, hold_data
from clew.system.process.tree import SIGNALLED, name_signal

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

# The longest single argument Linux hands to a program is 128 KiB.
ARGUMENT_MAX_BYTES = 100_000
# High, because scripts number their own files from 3 on, and locks like 9 and 200.
FOLDER_FD = 198
SCRIPT_FD = 197
FOLDER_MAX_BYTES = 65536


# Takes every other variable away from what the shell starts.
KEEP_ONLY = (
    'for _each in $(compgen -e); do case $_each in {passed}) ;; *) unset "$_each" ;; esac; done\n'
)


def make_environment(ctx: ToolContext) -> dict[str, str]:
    """The session's environment; programs that would open an editor do not, as nobody sees it.

    Without what leads a `cd` elsewhere than permissions take it to lead: CDPATH, and a PWD by which
    `cd ..` would go up from a link to the folder.
    """
    variables = {
        k: v for k, v in ctx.session.shell.environment.items() if k not in ("CDPATH", "PWD")
    }
    return {**variables, "CLEW": "1", "GIT_EDITOR": "true"}


def compose_first_lines(ctx: ToolContext) -> str:
    """What a shell reads first: variables that hooks left, of which a confined one keeps few."""
    file, sandbox = ctx.session.shell.env_file, ctx.session.shell.sandbox
    if file is None or not is_there(file):
        return ""
    lines = f". {quote_text(str(file))} >/dev/null\n"
    if ctx.is_confined and sandbox is not None:
        lines += KEEP_ONLY.format(passed=sandbox.passed)
    return lines


def start_folder(ctx: ToolContext) -> str | None:
    """The folder that is gone, if the shell's is; the command then begins where the session did.

    If that is gone too, in the nearest folder above it.
    """
    folder, project = ctx.session.cwd, Path(ctx.session.shell.project)
    if is_folder(folder):
        return None
    ctx.session.cwd = next(
        str(folder) for folder in (project, *project.parents) if is_folder(folder)
    )
    return folder


def find_shell() -> str:
    path = shutil.which("bash") or shutil.which("sh")
    if path is None:
        raise ToolError("There is neither bash nor sh on this system.")
    return path


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class ShellProgram(Struct, frozen=True, kw_only=True):
    """A command that is to be begun: its arguments and descriptors for as long as that takes.

    `text` is what the sandbox knows it by, and `line` how it was read.
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
    """The shell's arguments and descriptors; what is too long for one goes through a nameless file.

    `reports`: it tells at its end which folder it is in. `first`: lines before the command.
    """
    # A trap, because the command may end by `exit`; eval, because it may not even parse. What is kept
    # ends when nobody reads the pipe any more: that must not be what ends it.
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
    """A pipe through which the shell says where it ended."""

    def __enter__(self) -> "FolderReport":
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        os.close(self.write_end)

    def folder(self) -> str | None:
        """The last folder told, if it is there; a command that ends by exec or a signal tells none."""
        try:
            folder = os.fsdecode(os.read(self._read_end, FOLDER_MAX_BYTES)).rstrip("\n")
        except BlockingIOError:
            return None
        return folder if is_folder(folder) else None


def describe_end(finished: FinishedCommand, timeout_ms: int | None) -> str:
    """Empty when all went well."""
    ended = finished.exit
    if finished.timed_out and timeout_ms:
        return f"Timed out after {timeout_ms / 1000:g} s; it and all it started were ended."
    if ended.signal:
        return f"Exit code {ended.code} (the shell was ended by {ended.signal})"
    if ended.code > SIGNALLED and not (name := name_signal(ended.code - SIGNALLED)).startswith(
        "signal"
    ):
        return f"Exit code {ended.code} (as when {name} ends a command)"
    return f"Exit code {ended.code}" if ended.code else ""
