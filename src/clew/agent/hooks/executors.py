"""Execution of hooks: programs, HTTP requests, model questions and MCP tools.

A program gets the event on standard input and replies on standard output. It runs in its own
process session without a terminal and is supervised like every child process. Processes that it
leaves running end with clew, except daemons: programs that have left its process session. When clew
ends, a background hook continues within its time limit. A program's output is stored up to a limit,
and a program that prints more than the flood limit is killed.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import json

from clew.agent.hooks.events import USUAL_TIMEOUT_S, WITH_ENV_FILE
from clew.agent.hooks.handlers import (
    AgentHook,
    CommandHook,
    Hook,
    HttpHook,
    McpToolHook,
    PromptHook,
)
from clew.agent.hooks.output import Ran, make_verdict, read_async_s, without_async_line
from clew.agent.hooks.reach import HookError, Reach
from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.system.config.environment import AGENT_VARIABLES, for_programs
from clew.system.files import is_folder
from clew.system.process.output import ProcessOutput
from clew.system.process.run import hold_data, run
from clew.system.process.watcher import DAEMONS_LEFT
from clew.system.transport.seam import HttpRequest

KEEP_BYTES = 1 << 20
FLOOD_BYTES = 64 << 20
PLACEHOLDERS = ("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")


class HookStdout(ProcessOutput):
    """The standard output of a hook, which may ask in its first line to run in the background."""

    def __init__(self, went_async: Callable[[float], None]) -> None:
        super().__init__(keep_bytes=KEEP_BYTES)
        self._went_async: Callable[[float], None] | None = went_async

    def feed(self, data: bytes | memoryview) -> None:
        super().feed(data)
        if self._went_async is None or b"\n" not in self.head:
            return
        line = bytes(self.head).lstrip().partition(b"\n")[0].decode("utf-8", "replace")
        limit_s = read_async_s(line)
        if limit_s is not None:
            self._went_async(limit_s)
        self._went_async = None


async def run_command(
    hook: Hook,
    handler: CommandHook,
    hook_input: Json,
    reach: Reach,
    went_async: Callable[[float], None],
) -> Ran:
    variables = {"CLAUDE_PROJECT_DIR": reach.project, **dict(hook.variables)}
    own_variables = reach.environment()
    allowed_variables = {
        name: own_variables[name] for name in handler.allowed_variables if name in own_variables
    }
    environment = {
        **for_programs(own_variables),
        **allowed_variables,
        **variables,
        **AGENT_VARIABLES,
    }
    if reach.env_file is not None and hook.event.name in WITH_ENV_FILE:
        reach.env_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        reach.env_file.touch(0o600)
        environment["CLAUDE_ENV_FILE"] = str(reach.env_file)
    stdout, stderr = HookStdout(went_async), ProcessOutput(keep_bytes=KEEP_BYTES)

    async def look() -> None:
        if stdout.size + stderr.size > FLOOD_BYTES:
            raise HookError(
                f"the hook was stopped after printing more than {FLOOD_BYTES >> 20} MiB"
            )

    with hold_data(json.encode(hook_input)) as source:
        finished = await run(
            reach.launcher,
            argv(handler, variables),
            cwd=folder(reach),
            env=environment,
            stdout=stdout,
            stderr=stderr,
            descriptors={0: source},
            tick=look,
            leaves=find_left_ms(hook, handler),
        )
    words = without_async_line(text(stdout))
    return Ran(exit_code=finished.exit.code, stdout=words, stderr=text(stderr))


def find_left_ms(hook: Hook, handler: CommandHook) -> int:
    """Return how many milliseconds a hook's processes may outlive clew.

    `DAEMONS_LEFT` means that only daemons may outlive it.
    """
    if not hook.is_background:
        return DAEMONS_LEFT
    return round((handler.timeout or USUAL_TIMEOUT_S) * 1000)


def argv(handler: CommandHook, variables: dict[str, str]) -> list[str]:
    """Return the program and its arguments, or a shell that runs the command."""
    if handler.args is None:
        return ["bash" if handler.shell == "bash" else "sh", "-c", handler.command]
    return [fill_placeholders(part, variables) for part in (handler.command, *handler.args)]


def fill_placeholders(text: str, variables: dict[str, str]) -> str:
    """Expand `${CLAUDE_PROJECT_DIR}` and similar placeholders.

    Without a shell, nothing else is expanded.
    """
    for name in PLACEHOLDERS:
        text = text.replace(f"${{{name}}}", variables.get(name, ""))
    return text


def folder(reach: Reach) -> str:
    """Return the shell's current folder or, if it was deleted, the project, home or root folder."""
    home = reach.environment().get("HOME", "/")
    places = (reach.cwd(), reach.project, home)
    return next((place for place in places if is_folder(place)), os.sep)


def text(output: ProcessOutput) -> str:
    if output.left_out:
        # A truncated reply must not be parsed as a complete one.
        return f"[{format_count(output.size, 'byte')} of output omitted]"
    return (bytes(output.head) + output.tail).decode("utf-8", "replace")


# HTTP hooks: the event is posted, and the reply is the response body.


MOST_BYTES = 1 << 20
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


async def post(handler: HttpHook, hook_input: Json, reach: Reach) -> Ran:
    if reach.transport is None:
        raise HookError("HTTP hooks can't run here: no network access")
    allowed = reach.allowed_urls()
    if allowed is not None and not any(
        fnmatch.fnmatchcase(handler.url, pattern) for pattern in allowed
    ):
        raise HookError(f"{handler.url} is not in allowedHttpHookUrls")
    headers = fill_headers(handler, reach.environment(), reach.allowed_variables())
    request = HttpRequest(
        method="POST",
        url=handler.url,
        headers=(("Content-Type", "application/json"), *headers.items()),
        body=json.encode(hook_input),
    )
    exchange = reach.transport.exchange(request)
    try:
        head = await exchange.open()
        body = bytearray()
        while data := await exchange.read():
            body += data
            if len(body) > MOST_BYTES:
                raise HookError(f"the response is larger than {MOST_BYTES >> 20} MiB")
    finally:
        await exchange.close()
    if not 200 <= head.status < 300:
        raise HookError(f"the server returned HTTP status {head.status}")
    return Ran(stdout=body.decode("utf-8", "replace"), is_structured=True)


def fill_headers(
    handler: HttpHook, environment: Mapping[str, str], allowed: tuple[str, ...] | None
) -> dict[str, str]:
    """Return the headers with the allowed variables expanded; other variables become empty."""
    names = set(handler.allowed_variables)
    if allowed is not None:
        names &= set(allowed)

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environment.get(name, "") if name in names else ""

    return {name: VARIABLE.sub(value, text) for name, text in handler.headers.items()}


# Prompt and agent hooks: the event is appended to the prompt, and a model or agent answers yes or
# no.


FORM = (
    'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why"}.'
)
NEVER = 'If the condition can never be met, add "impossible": true.'
# `$ARGUMENTS`, unless it is escaped with a backslash.
PLACE = re.compile(r"(?<!\\)\$ARGUMENTS")
OBJECT = re.compile(r"\{.*\}", re.DOTALL)


async def ask(hook: Hook, handler: PromptHook, hook_input: Json, reach: Reach) -> Ran:
    if reach.ask_model is None:
        raise HookError("prompt hooks can't run here: no model is available")
    prompt = asked(handler.prompt, hook_input, f"{FORM} {NEVER}")
    words = await reach.ask_model(prompt, handler.model)
    answer = make_verdict(hook.event.name, verdict(words), continues=handler.continues)
    return Ran(stdout=json.encode(answer).decode() if answer else "")


async def look(hook: Hook, handler: AgentHook, hook_input: Json, reach: Reach) -> Ran:
    """Ask an agent, which may use tools before it answers; a "no" never ends the turn."""
    if reach.ask_agent is None:
        raise HookError("agent hooks can't run here: no agent is available")
    words = await reach.ask_agent(asked(handler.prompt, hook_input, FORM), handler.model)
    reply = {name: value for name, value in verdict(words).items() if name != "impossible"}
    answer = make_verdict(hook.event.name, reply, continues=True)
    return Ran(stdout=json.encode(answer).decode() if answer else "")


def asked(prompt: str, hook_input: Json, form: str) -> str:
    event = json.encode(hook_input).decode()
    filled, count = PLACE.subn(lambda _: event, prompt)
    filled = filled.replace("\\$", "$")
    parts = [filled] if count else [filled, event]
    return "\n\n".join([*parts, form])


def verdict(words: str) -> Json:
    """Return the JSON object in a model's answer.

    Raise HookError if the answer is not a verdict.
    """
    match = OBJECT.search(words)
    try:
        value = json.decode(match[0]) if match else None
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
        raise HookError(
            f'the model\'s answer is not a JSON object with a boolean "ok": {words[:200]}'
        )
    return value


# MCP tool hooks: the tool is called with parts of the event, and its output is parsed like a
# program's.


# MCP servers are still starting during these events.
BEFORE_SERVERS = frozenset({"SessionStart", "Setup"})
PATH = re.compile(r"\$\{([A-Za-z0-9_.]+)\}")


async def call_tool(handler: McpToolHook, hook_input: Json, reach: Reach) -> Ran:
    event = hook_input["hook_event_name"]
    if event in BEFORE_SERVERS:
        raise HookError(f"MCP servers are not available yet during {event}")
    if reach.call_tool is None:
        raise HookError(f'MCP server "{handler.server}" is not connected')
    words, is_error = await reach.call_tool(
        handler.server, handler.tool, substituted(handler.input, hook_input)
    )
    if is_error:
        raise HookError(f"{handler.title} failed: {words}")
    return Ran(stdout=words)


def substituted(value: Any, hook_input: Json) -> Any:
    """Return the input with references such as `${tool_input.file_path}` filled in.

    The values come from the event.
    """
    if isinstance(value, str):
        return PATH.sub(lambda match: told(hook_input, match[1]), value)
    if isinstance(value, list):
        return [substituted(item, hook_input) for item in value]
    if isinstance(value, dict):
        return {name: substituted(item, hook_input) for name, item in value.items()}
    return value


def told(hook_input: Json, path: str) -> str:
    value: Any = hook_input
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.encode(value).decode()
