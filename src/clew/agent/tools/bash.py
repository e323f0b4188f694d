"""Bash: a command in a shell of its own; the folder it ends in is where the next one begins."""

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
    timeout: (
        Annotated[int, Meta(ge=1, description="How long it may take, in milliseconds")] | None
    ) = None
    description: Annotated[str, Meta(description="What it does, in five to ten words")] | None = (
        None
    )
    run_in_background: Annotated[
        bool, Meta(description="Give back at once; TaskOutput shows the output")
    ] = False


class Bash(Tool[CommandInput]):
    name = "Bash"
    description = "Run a shell command"
    prompt = (
        "Runs a command in bash and gives back what it prints, both streams in order, and its exit "
        "code if that is not 0. The working folder carries over to the next command; variables, "
        "functions and options do not. There is no terminal and no input. A command gets two "
        "minutes unless timeout says otherwise, then it and all it started are ended. What runs "
        "longer (a server, a long build) belongs in the background with run_in_background, without "
        "& at its end. Of long "
        "output the beginning and the end are shown and the whole is kept in a file that is named. "
        "For reading, searching and changing files prefer Read, Grep, Glob, Edit and Write."
    )
    input_type = CommandInput
    owns_its_time = True
    result_max_chars = None

    def is_read_only(self, arguments: CommandInput) -> bool:
        from clew.agent.tools.bash_judged import changes_nothing

        return changes_nothing(arguments.line)

    def is_concurrency_safe(self, arguments: CommandInput) -> bool:
        from clew.agent.tools.bash_judged import may_move

        # Two that leave the shell in another folder would race for where the next one begins.
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
        # The editor's terminal is behind no walls.
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
        # None of one that goes on in the background: it moves nothing any more.
        ctx.session.cwd = folders[-1] if folders else ctx.session.cwd
        return result


@contextmanager
def reporting(
    command: str, first: str, ended_in: Callable[[str], object]
) -> Iterator[tuple[list[str], dict[int, int]]]:
    """A shell that tells in which folder it ended."""
    with open_script(command, first=first) as (argv, descriptors), FolderReport() as report:
        yield argv, {**descriptors, FOLDER_FD: report.write_end}
        folder = report.folder()
        if folder is not None:
            ended_in(folder)


async def run_in_terminal(
    terminal: "RemoteTerminal", arguments: CommandInput, ctx: ToolContext
) -> ToolOutcome:
    """Runs a command in the terminal of the editor around the session."""
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
    """Runs a shell to its end, within its time and its walls; or until it is left to the background."""
    session, limits = ctx.session, ctx.session.limits
    timeout_ms = min(arguments.timeout or limits.bash_timeout_ms, limits.bash_max_timeout_ms)
    # In UTF-8 a character has at most four bytes, and half of what is shown comes from each end.
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
    """A file of this call's own; the id comes from a model, so only its tame characters count."""
    name = re.sub(r"[^A-Za-z0-9_-]", "", ctx.tool_use_id)[:100]
    path = ctx.session.spill_folder / f"{name or secrets.token_hex(8)}.txt"
    return path.with_stem(f"{path.stem}-{secrets.token_hex(4)}") if is_there(path) else path


async def tell(output: ProcessOutput, ctx: ToolContext) -> None:
    tail = (output.tail or bytes(output.head)).decode("utf-8", "replace")[-SHOWN_TAIL_CHARS:]
    await ctx.emit(Progress(text=tail, data={"totalBytes": output.size}))


class ShownOutput(Struct, frozen=True, kw_only=True):
    """What the model reads of an output, and the file that holds more of it."""

    text: str
    file: Path | None = None


async def text_of(output: ProcessOutput, limit_chars: int, secrets: tuple[str, ...]) -> ShownOutput:
    """The whole output if it is short; else its two ends and where the whole is."""
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
    # Before the cut, which might leave half a secret that nobody knows for one.
    head = remove_secrets(bytes(output.head).decode("utf-8", "replace"), secrets)[:half]
    # The tail begins anywhere, also inside a character.
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
            f"The folder {gone} is gone; the command began in another." if gone else "",
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
    who = "1 process runs" if left == 1 else f"{left} processes run"
    return f"{who} on in the background; what it prints now is not kept, and it ends with clew."


# PowerShell: a command for it, on machines that have it.


# To the sandbox, which reads the language of another shell: no exception that names a command is meant.
KNOWN_AS = "pwsh"


class PowerShell(Tool[CommandInput]):
    name = "PowerShell"
    programs = ("pwsh", "powershell")
    description = "Run a PowerShell command"
    prompt = (
        "Runs a command in PowerShell and gives back what it prints and its exit code if that is not "
        "0. Every command begins in the session's folder; nothing carries over to the next. There is "
        "no terminal and no input. A command gets two minutes unless timeout says otherwise; what "
        "runs longer belongs in the background with run_in_background. For reading, searching and "
        "changing files prefer Read, Grep, Glob, Edit and Write."
    )
    input_type = CommandInput
    owns_its_time = True
    result_max_chars = None

    def is_destructive(self, arguments: CommandInput) -> bool:
        # Nobody here reads the language, so anything may be.
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
    """In base64, as it takes them: no quoting on the way can change the command."""
    program = next(filter(None, map(shutil.which, PowerShell.programs)), None)
    if program is None:
        raise ToolError("There is no PowerShell on this system any more.")
    coded = b64encode(command.encode("utf-16-le")).decode("ascii")
    return [program, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", coded]
