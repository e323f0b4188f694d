"""Hooks that are programs: the event on standard input, the answer on standard output.

Runs in a session of its own without a terminal, watched like every child; what it leaves running ends
with clew. What it prints is kept up to a bound, and one that prints without end is ended.
"""

import os

from msgspec import json

from clew.config.environment import for_programs
from clew.config.there import is_folder
from clew.hooks.events import WITH_ENV_FILE
from clew.hooks.handlers import Command, Hook
from clew.hooks.output import Ran
from clew.hooks.reach import HookError, Json, Reach
from clew.process.held import held
from clew.process.output import Output
from clew.process.run import run

KEEP_BYTES = 1 << 20
FLOOD_BYTES = 64 << 20
PLACEHOLDERS = ("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")


async def run_command(hook: Hook, handler: Command, given: Json, reach: Reach) -> Ran:
    variables = {"CLAUDE_PROJECT_DIR": reach.project, **dict(hook.variables)}
    whole = reach.environment()
    named = {name: whole[name] for name in handler.allowed_variables if name in whole}
    environment = {**for_programs(whole), **named, **variables, "CLEW": "1"}
    if reach.env_file is not None and hook.event.name in WITH_ENV_FILE:
        reach.env_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        reach.env_file.touch(0o600)
        environment["CLAUDE_ENV_FILE"] = str(reach.env_file)
    stdout, stderr = Output(keep_bytes=KEEP_BYTES), Output(keep_bytes=KEEP_BYTES)

    async def look() -> None:
        if stdout.size + stderr.size > FLOOD_BYTES:
            raise HookError(f"printed more than {FLOOD_BYTES >> 20} MiB and was ended")

    with held(json.encode(given)) as source:
        finished = await run(
            reach.launcher,
            argv(handler, variables),
            cwd=folder(reach),
            env=environment,
            stdout=stdout,
            stderr=stderr,
            descriptors={0: source},
            tick=look,
        )
    return Ran(exit_code=finished.exit.code, stdout=text(stdout), stderr=text(stderr))


def argv(handler: Command, variables: dict[str, str]) -> list[str]:
    """The program and its arguments as written, or the shell that reads the command."""
    if handler.args is None:
        return ["bash" if handler.shell == "bash" else "sh", "-c", handler.command]
    return [filled(part, variables) for part in (handler.command, *handler.args)]


def filled(text: str, variables: dict[str, str]) -> str:
    """Without a shell, `${CLAUDE_PROJECT_DIR}` and its like are put in here; nothing else is."""
    for name in PLACEHOLDERS:
        text = text.replace(f"${{{name}}}", variables.get(name, ""))
    return text


def folder(reach: Reach) -> str:
    """Where the shell is; when that is gone, the next best place that is there."""
    home = reach.environment().get("HOME", "/")
    places = (reach.cwd(), reach.project, home)
    return next((place for place in places if is_folder(place)), os.sep)


def text(output: Output) -> str:
    if output.left_out:
        # Half an answer must not be taken for one.
        return f"[printed {output.size:,} bytes]"
    return (bytes(output.head) + output.tail).decode("utf-8", "replace")
