"""Bash and PowerShell: run a command in its own shell.

Each Bash command begins in the folder in which the previous one ended.
"""

import asyncio
import re
import secrets
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from clew.agent.tools import spill
from clew.agent.tools.base import (
    Progress,
    ShellInput,
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    make_failure,
    refuse_odd,
)
from clew.agent.tools.command import RunningCommand, file_of, in_background, report_start
from clew.agent.tools.shell_script import (
    FOLDER_FD,
    FolderReport,
    ShellProgram,
    choose_program,
    compose_first_lines,
    describe_end,
    open_script,
    start_folder,
)
from clew.system.config.mask import remove_secrets
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import FinishedCommand
from clew.system.process.tree import ProcessExit

if TYPE_CHECKING:
    from clew.agent.tools.editor_client import RemoteTerminal


SHOWN_TAIL_CHARS = 400


class CommandInput(ShellInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timeout: Annotated[int, Meta(ge=1, description="Timeout in milliseconds")] | None = None
    description: Annotated[str, Meta(description="What it does, in five to ten words")] | None = (
        None
    )
    run_in_background: Annotated[
        bool, Meta(description="Return at once; TaskOutput shows the output")
    ] = False


class Bash(Tool[CommandInput]):
    name = "Bash"
    description = "Run a shell command"
    prompt = (
        "Run a command in bash and return what it prints, stdout and stderr in order, and its "
        "exit code if it isn't 0. The working folder carries over to the next command; "
        "variables, functions and options don't. Commands have no terminal and no stdin. A "
        "command times out after two minutes unless timeout is set; then it and all it started "
        "are killed. Run what takes longer (a server, a long build) with run_in_background, "
        "without a trailing &. Of long output the beginning and end are shown, and the result "
        "names a file with all of it. Prefer Read, Grep, Glob, Edit and Write for reading, "
        "searching and changing files."
    )
    input_type = CommandInput
    owns_its_time = True
    result_max_chars = None

    def is_read_only(self, arguments: CommandInput) -> bool:
        from clew.agent.tools.bash_judged import changes_nothing

        return changes_nothing(arguments.line)

    def is_concurrency_safe(self, arguments: CommandInput) -> bool:
        from clew.agent.tools.bash_judged import may_move

        # Two commands that change the folder would race for where the next one begins.
        return self.is_read_only(arguments) and not may_move(arguments.line)

    def is_destructive(self, arguments: CommandInput) -> bool:
        from clew.agent.tools.bash_judged import may_destroy

        return may_destroy(arguments.line)

    def title(self, arguments: CommandInput) -> str:
        return arguments.description or arguments.command.strip(" \t\n").split("\n", 1)[0]

    async def call(self, arguments: CommandInput, ctx: ToolContext) -> ToolOutcome:
        refuse_odd(arguments.command, "A command")
        if arguments.run_in_background:
            program = choose_program(arguments, compose_first_lines(ctx))
            return await in_background(program, self.title(arguments), arguments.timeout, ctx)
        # The editor's terminal does not run in the sandbox.
        terminal = None if ctx.is_confined else ctx.session.shell.terminal()
        if terminal is not None:
            return await run_in_terminal(terminal, arguments, ctx)
        folders: list[str] = []
        program = ShellProgram(
            text=arguments.command,
            opened=lambda: reporting(arguments.command, compose_first_lines(ctx), folders.append),
            line=arguments.line,
        )
        result = await run_in_shell(arguments, ctx, program, self.title(arguments))
        # A command moved to the background reports no folder, because it no longer changes it.
        if folders and folders[-1] != ctx.session.cwd:
            from clew.agent.tools.bash_judged import may_end_elsewhere

            if may_end_elsewhere(arguments.line):
                ctx.session.cwd = folders[-1]
        return result


@contextmanager
def reporting(
    command: str, first: str, ended_in: Callable[[str], object]
) -> Iterator[tuple[list[str], dict[int, int]]]:
    """Open a shell for a command; afterward, pass the folder in which it ended to `ended_in`."""
    with open_script(command, first=first) as (argv, descriptors), FolderReport() as report:
        yield argv, {**descriptors, FOLDER_FD: report.write_end}
        folder = report.folder()
        if folder is not None:
            ended_in(folder)


async def run_in_terminal(
    terminal: "RemoteTerminal", arguments: CommandInput, ctx: ToolContext
) -> ToolOutcome:
    """Run a command in the terminal of the editor that hosts the session."""
    from clew.agent.tools.editor import in_terminal

    limits = ctx.session.limits
    timeout_ms = min(arguments.timeout or limits.bash_timeout_ms, limits.bash_max_timeout_ms)
    most = 2 * limits.bash_max_output_chars
    output = ProcessOutput(keep_bytes=most, spill=spill_path(ctx))
    gone = start_folder(ctx)
    ran = await in_terminal(
        terminal, arguments.command, ctx, timeout_s=timeout_ms / 1000, most_bytes=most
    )
    output.feed(ran.text.encode("utf-8", "replace"))
    finished = FinishedCommand(
        exit=ProcessExit(code=ran.code, signal=ran.signal), timed_out=ran.timed_out
    )
    excerpt = await text_of(output, limits.bash_max_output_chars, ctx.session.secrets)
    return outcome(excerpt, output, finished, timeout_ms, gone)


async def run_in_shell(
    arguments: CommandInput, ctx: ToolContext, program: ShellProgram, title: str
) -> ToolOutcome:
    """Run a shell until it ends, times out or is moved to the background."""
    session, limits = ctx.session, ctx.session.limits
    timeout_ms = min(arguments.timeout or limits.bash_timeout_ms, limits.bash_max_timeout_ms)
    # A UTF-8 character has at most four bytes, and half of the shown output comes from each end.
    output = ProcessOutput(keep_bytes=2 * limits.bash_max_output_chars, spill=spill_path(ctx))
    gone = start_folder(ctx)
    command = RunningCommand(
        program, output, ctx, timeout_ms=timeout_ms, tick=lambda: tell(output, ctx)
    )
    task = session.background.tasks.begin_unlisted(
        command.work,
        kind="shell",
        title=title,
        output=output,
        tool_use_id=ctx.tool_use_id,
        owner=session.background.owner,
        settle=command.settle,
    )
    try:
        await task.released()
    except asyncio.CancelledError:
        if not task.is_background:
            await session.background.tasks.stop(task)
        raise
    if task.is_background:
        return report_start(task, file_of(ctx, task.id), "", ctx, by_person=True)
    if task.fault is not None:
        raise task.fault
    finished = command.finished
    if finished is None:
        raise ToolError("The command was stopped.")
    excerpt = await text_of(output, limits.bash_max_output_chars, session.secrets)
    held_back, blocked = command.held_back()
    return replace(outcome(excerpt, output, finished, timeout_ms, gone, held_back), blocked=blocked)


def spill_path(ctx: ToolContext) -> Path:
    """Return the path of a file for this call's output.

    The call's ID comes from a model, so only its safe characters are used.
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "", ctx.tool_use_id)[:100]
    path = ctx.session.spill_folder / f"{name or secrets.token_hex(8)}.txt"
    return path.with_stem(f"{path.stem}-{secrets.token_hex(4)}") if is_there(path) else path


async def tell(output: ProcessOutput, ctx: ToolContext) -> None:
    tail = (output.tail or bytes(output.head)).decode("utf-8", "replace")[-SHOWN_TAIL_CHARS:]
    await ctx.emit(Progress(text=tail, data={"totalBytes": output.size}))


class ShownOutput(Struct, frozen=True, kw_only=True):
    """The part of an output that the model reads, and the file with the full output, if any."""

    text: str
    file: Path | None = None


async def text_of(output: ProcessOutput, limit_chars: int, secrets: tuple[str, ...]) -> ShownOutput:
    """Return a short output in full; save a long one, and return its beginning, end and path."""
    if not output.left_out:
        text = (bytes(output.head) + output.tail).decode("utf-8", "replace")
        if len(text) <= limit_chars:
            return ShownOutput(text=text.rstrip("\n"))
        output.save()
        output.close()
    file = output.saved_at
    if file is not None:
        file = await spill.settle_file(file, output.saved_bytes, secrets)
    note = spill.describe_location(output.size, file, output.saved_bytes)
    half = limit_chars // 2
    # Secrets are masked before the cut, which could leave an unrecognizable half of one.
    head = remove_secrets(bytes(output.head).decode("utf-8", "replace"), secrets)[:half]
    # The tail may begin inside a character.
    tail = remove_secrets((bytes(output.head) + output.tail).decode("utf-8", "replace"), secrets)[
        -half:
    ]
    return ShownOutput(text=spill.ends(head, note, tail), file=file)


def outcome(
    excerpt: ShownOutput,
    output: ProcessOutput,
    finished: FinishedCommand,
    timeout_ms: int,
    gone: str | None,
    held_back: str = "",
) -> ToolOutcome:
    text = excerpt.text
    notes = [
        f"({note})"
        for note in (
            f"The folder {gone} no longer exists; the command started in another folder."
            if gone
            else "",
            left_running(finished.left),
            held_back,
        )
        if note
    ]
    ending = describe_end(finished, timeout_ms)
    if ending:
        return make_failure("\n".join([ending, *([text] if text else []), *notes]))
    result = {
        "stdout": text,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    if excerpt.file is not None:
        result |= {
            "persistedOutputPath": str(excerpt.file),
            "persistedOutputSize": output.size,
        }
    content = "\n".join([text or "(no output)", *notes])
    return ToolOutcome(content=content, tool_use_result=result, display=content.split("\n", 1)[0])


def left_running(left: int) -> str:
    if not left:
        return ""
    who = "1 process is" if left == 1 else f"{left} processes are"
    return (
        f"{who} still running; further output is discarded. clew stops remaining processes on exit."
    )


# PowerShell, where it is installed.


# The name for the sandbox. Its exceptions name commands of another shell's language, so none of
# them applies to a PowerShell command line.
KNOWN_AS = "pwsh"


class PowerShell(Tool[CommandInput]):
    name = "PowerShell"
    programs = ("pwsh", "powershell")
    description = "Run a PowerShell command"
    prompt = (
        "Run a command in PowerShell and return what it prints, and its exit code if it isn't 0."
        " Every command begins in the session's folder; nothing carries over to the next. There "
        "is no terminal and no stdin. A command times out after two minutes unless timeout is "
        "set; run longer commands with run_in_background. Prefer Read, Grep, Glob, Edit and "
        "Write to read, search and change files."
    )
    input_type = CommandInput
    owns_its_time = True
    result_max_chars = None

    def is_destructive(self, arguments: CommandInput) -> bool:
        # clew doesn't parse PowerShell, so any command may be destructive.
        return True

    def title(self, arguments: CommandInput) -> str:
        return arguments.description or arguments.command.strip(" \t\n").split("\n", 1)[0]

    async def call(self, shell_arguments: CommandInput, ctx: ToolContext) -> ToolOutcome:
        refuse_odd(shell_arguments.command, "A command")
        argv = arguments(shell_arguments.command)
        program = ShellProgram(text=KNOWN_AS, opened=lambda: nullcontext((argv, {})))
        if shell_arguments.run_in_background:
            return await in_background(
                program, self.title(shell_arguments), shell_arguments.timeout, ctx
            )
        return await run_in_shell(shell_arguments, ctx, program, self.title(shell_arguments))


def arguments(command: str) -> list[str]:
    """Return PowerShell's arguments for a command.

    The command is encoded in base64, so that no quoting can change it.
    """
    program = next(filter(None, map(shutil.which, PowerShell.programs)), None)
    if program is None:
        raise ToolError("PowerShell is no longer installed.")
    coded = b64encode(command.encode("utf-16-le")).decode("ascii")
    return [program, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", coded]
