"""PowerShell: a command for it, on machines that have it."""

import shutil
from base64 import b64encode
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from clew.tools.background import in_background
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult, refuse_odd
from clew.tools.bash import CommandInput, run_in_shell
from clew.tools.shell_script import Program

# To the sandbox, which reads the language of another shell: no exception that names a command is meant.
KNOWN_AS = "pwsh"


class PowerShell(Tool[CommandInput]):
    name = "PowerShell"
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

    def is_enabled(self, settings: Mapping[str, Any]) -> bool:
        return found_program() is not None

    def is_destructive(self, given: CommandInput) -> bool:
        # Nobody here reads the language, so anything may be.
        return True

    def title(self, given: CommandInput) -> str:
        return given.description or given.command.strip(" \t\n").split("\n", 1)[0]

    async def call(self, given: CommandInput, ctx: ToolContext) -> ToolResult:
        refuse_odd(given.command, "A command")
        argv = arguments(given.command)
        program = Program(text=KNOWN_AS, opened=lambda: nullcontext((argv, {})))
        if given.run_in_background:
            return await in_background(program, self.title(given), given.timeout, ctx)
        return await run_in_shell(given, ctx, program, self.title(given))


def found_program() -> str | None:
    return shutil.which("pwsh") or shutil.which("powershell")


def arguments(command: str) -> list[str]:
    """In base64, as it takes them: no quoting on the way can change the command."""
    found = found_program()
    if found is None:
        raise ToolError("There is no PowerShell on this system any more.")
    coded = b64encode(command.encode("utf-16-le")).decode("ascii")
    return [found, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", coded]
