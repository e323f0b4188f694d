"""PowerShell: a command for it, on machines that have it."""

import shutil
from base64 import b64encode
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

from msgspec import Meta, Struct

from clew.process.output import Output
from clew.process.run import run
from clew.tools.background import in_background
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult, refuse_odd
from clew.tools.bash import outcome, spill_path, tell, text_of
from clew.tools.sandboxed import noted, walled
from clew.tools.shell_script import Program, environment, start_folder

# To the sandbox, which reads the language of another shell: no exception that names a command is meant.
KNOWN_AS = "pwsh"


class PowerShellInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, description="The command")]
    timeout: (
        Annotated[int, Meta(ge=1, description="How long it may take, in milliseconds")] | None
    ) = None
    description: Annotated[str, Meta(description="What it does, in five to ten words")] | None = (
        None
    )
    run_in_background: Annotated[
        bool, Meta(description="Give back at once; TaskOutput shows the output")
    ] = False


class PowerShell(Tool[PowerShellInput]):
    name = "PowerShell"
    description = "Run a PowerShell command"
    prompt = (
        "Runs a command in PowerShell and gives back what it prints and its exit code if that is not "
        "0. Every command begins in the session's folder; nothing carries over to the next. There is "
        "no terminal and no input. A command gets two minutes unless timeout says otherwise; what "
        "runs longer belongs in the background with run_in_background. For reading, searching and "
        "changing files prefer Read, Grep, Glob, Edit and Write."
    )
    input_type = PowerShellInput
    result_max_chars = None

    def is_enabled(self, settings: Mapping[str, Any]) -> bool:
        return program() is not None

    def is_destructive(self, given: PowerShellInput) -> bool:
        # Nobody here reads the language, so anything may be.
        return True

    def title(self, given: PowerShellInput) -> str:
        return given.description or given.command.strip().split("\n", 1)[0]

    async def call(self, given: PowerShellInput, ctx: ToolContext) -> ToolResult:
        refuse_odd(given.command, "A command")
        argv = arguments(given.command)
        if given.run_in_background:
            began = Program(text=KNOWN_AS, opened=lambda: nullcontext((argv, {})))
            return await in_background(began, self.title(given), given.timeout, ctx)
        limits = ctx.session.limits
        timeout_ms = min(given.timeout or limits.bash_timeout_ms, limits.bash_max_timeout_ms)
        output = Output(keep_bytes=2 * limits.bash_max_output_chars, spill=spill_path(ctx))
        gone = start_folder(ctx)
        sandbox, folder = ctx.session.sandbox, ctx.session.cwd
        async with walled(sandbox, KNOWN_AS, argv, folder, environment(ctx)) as made:
            finished = await run(
                ctx.session.launcher,
                made.argv,
                cwd=folder,
                env=made.environment,
                stdout=output,
                descriptors=made.descriptors,
                timeout_s=timeout_ms / 1000,
                tick=lambda: tell(output, ctx),
                walls=made.walls,
            )
        shown = await text_of(output, limits.bash_max_output_chars, ctx.session.secrets)
        held_back = ""
        if finished.exit.code or made.refused:
            held_back = noted(sandbox, shown.text, made, folder)
        return outcome(shown, output, finished, timeout_ms, gone, held_back)


def program() -> str | None:
    return shutil.which("pwsh") or shutil.which("powershell")


def arguments(command: str) -> list[str]:
    """In base64, as it takes them: no quoting on the way can change the command."""
    found = program()
    if found is None:
        raise ToolError("There is no PowerShell on this system any more.")
    coded = b64encode(command.encode("utf-16-le")).decode("ascii")
    return [found, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", coded]
