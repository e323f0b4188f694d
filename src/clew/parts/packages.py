"""Parts that installed packages add to sessions, by entry points in the group `clew.parts`.

The setting `parts` names the parts of a session. The functions of a part become tools of an MCP
server in this process, with the part's name, so that permission rules apply to them as to every MCP
tool.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from logging import getLogger
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.hooks.events import BY_NAME
from clew.agent.hooks.handlers import CallbackHook, Hook
from clew.agent.hooks.output import describe_unknown_field
from clew.core.input import Show, SlashCommand
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, UserError, describe_error
from clew.parts.context import HostParts
from clew.parts.mcp.config import SERVER_NAME
from clew.parts.mcp.functions import Function, answer_message
from clew.parts.part import Part, PartContext
from clew.system.config.settings import read_object
from clew.system.plug_ins import PARTS, load_plug_in

Item = TypeVar("Item")

COMMAND_NAME = re.compile(r"[\w:.-]+")
# The methods of a part that have to be async.
ASYNC = ("open", "aclose", "on_event")

CommandFunction: TypeAlias = Callable[[str], Awaitable[str]]


class PartSession(Struct, frozen=True, kw_only=True):
    """The session that a package's part belongs to.

    Fields:
        session_id: The session's ID.
        cwd: The working folder.
        model: The ID of the model at the start.
    """

    session_id: str
    cwd: str
    model: str


class PackagePart:
    """Base class of the parts that installed packages add to sessions.

    An entry point in the group `clew.parts` names a subclass. If a session's setting `parts` names
    the part, the subclass is called with the options in that setting. Subclasses override what they
    need.

    Fields:
        events: The hook events for which `on_event` is called.
    """

    events: Sequence[str] = ()

    def __init__(self, options: Mapping[str, Any], /) -> None:
        """Check the options. If this raises `ValueError`, clew shows its message and exits."""

    async def open(self, session: PartSession, /) -> None:
        """Start the part. Called once, before the first prompt."""

    async def aclose(self) -> None:
        """Stop the part. Also called if the part was never opened."""

    def functions(self) -> Iterable[Function]:
        """Return the functions that the model may call as `mcp__PART__NAME`; see `clew.tool`."""
        return ()

    def commands(self) -> Mapping[str, CommandFunction]:
        """Return slash commands by name, each an async function of its arguments.

        The user sees the text that the function returns.
        """
        return {}

    def notices(self) -> Iterable[str]:
        """Return notices for the user at the start."""
        return ()

    async def on_event(self, _event: Json, /) -> Json:
        """Answer an event as a command hook does; see docs/extending/hooks.md.

        An exception or an invalid answer blocks what the event could have blocked, such as a tool
        call.
        """
        return {}


class PackageParts(Part):
    """The session part that runs the parts of packages."""

    name = "packages"

    def __init__(self, parts: Mapping[str, PackagePart]) -> None:
        self._parts = parts

    async def open(self, context: PartContext, /) -> None:
        thread = context.thread
        session = PartSession(
            session_id=thread.session_id, cwd=context.ground.cwd, model=thread.model.id
        )
        for name, part in self._parts.items():
            try:
                await part.open(session)
            except Exception as error:  # The package may raise anything.
                raise UserError(f"parts.{name}: can't start: {why(error)}") from error
            read_commands(name, part)

    async def aclose(self) -> None:
        for name, part in reversed([*self._parts.items()]):
            # The package may raise anything, and the other parts have to stop too. The error goes
            # to the program's log, or to standard error.
            outcome = await asyncio.gather(part.aclose(), return_exceptions=True)
            for error in outcome:
                if error is not None:
                    getLogger("clew.parts").error("parts.%s: can't stop: %s", name, why(error))

    def commands(self) -> Iterable[SlashCommand[Any]]:
        for name, part in self._parts.items():
            for command, function in read_commands(name, part).items():
                yield SlashCommand(
                    name=command,
                    description=f"{first_line(function) or command} ({name})",
                    run=partial(run_command, function),
                )

    def notices(self) -> Iterable[str]:
        return [
            f"{name}: {notice}"
            for name, part in self._parts.items()
            for notice in read_items(name, part, "notices", str, "a list of strings")
        ]

    def beside(self, brought: HostParts) -> HostParts:
        """Return the additions of the host together with the functions and hooks of these parts."""
        expected = "a list of functions made with clew.tool"
        functions: dict[str, tuple[Function, ...]] = {
            name: read_items(name, part, "functions", Function, expected)
            for name, part in self._parts.items()
        }
        functions = {name: offered for name, offered in functions.items() if offered}
        to_host = brought.to_host

        async def send(server: str, message: Json) -> Any:
            if server not in functions:
                if to_host is None:
                    raise UserError(f"no host program runs the server {server}")
                return await to_host(server, message)
            try:
                return await answer_message(functions[server], message, name=server)
            except Exception as error:  # The model gets the exception that the function raised.
                raise FunctionError(why(error)) from error

        servers = {name: {"type": "sdk", "name": name} for name in functions}
        return replace(
            brought,
            hooks=(
                *brought.hooks,
                *(hook for item in self._parts.items() for hook in hooks_of(*item)),
            ),
            servers={**servers, **brought.servers},
            to_host=send if functions else to_host,
        )


class FunctionError(ClewError):
    """Raised when a function of a package fails."""


def load_package_parts(settings: Json) -> PackageParts:
    """Return the parts that the settings name."""
    wanted = read_object(settings, "parts")
    return PackageParts(
        {name: load_part(name, options) for name, options in wanted.items() if options is not False}
    )


def load_part(name: str, options: Any) -> PackagePart:
    """Make one part. Raise `UserError` if it can't be made: a missing part may be a safeguard."""
    if SERVER_NAME.fullmatch(name) is None:
        raise UserError(
            f"parts.{name}: invalid name; use up to 64 letters, digits, spaces and _ . -"
        )
    if options is not True and not isinstance(options, dict):
        raise UserError(f"parts.{name}: expected true, false or an object with options")
    make = load_plug_in(PARTS, name)
    if make is None:
        raise UserError(
            f"parts.{name}: no installed package offers this part; install the package, or remove "
            "the part from your settings"
        )
    try:
        part: object = make({} if options is True else options)
        unknown = [event for event in getattr(part, "events", ()) if event not in BY_NAME]
        if unknown:
            raise ValueError(f"unknown event {unknown[0]}")
    except Exception as error:  # The package may raise anything.
        raise UserError(f"parts.{name}: {why(error)}") from error
    if not isinstance(part, PackagePart):
        raise UserError(f"parts.{name}: {type(part).__name__} is not a clew.PackagePart")
    for method in ASYNC:
        if not inspect.iscoroutinefunction(inspect.unwrap(getattr(part, method))):
            raise UserError(f"parts.{name}: {method} must be an async function (async def)")
    return part


def read_items(
    name: str, part: PackagePart, method: str, kind: type[Item], expected: str
) -> tuple[Item, ...]:
    """Return the items that a method of a part returns.

    Raise `UserError` if the method fails or returns items of another type.
    """
    try:
        offered = getattr(part, method)()
        items = tuple(offered)
        if isinstance(offered, str) or not all(isinstance(item, kind) for item in items):
            raise TypeError(f"expected {expected}, got {offered!r:.60}")
    except Exception as error:  # The package may raise anything.
        raise UserError(f"parts.{name}: {method}: {why(error)}") from error
    return items


def read_commands(name: str, part: PackagePart) -> Mapping[str, CommandFunction]:
    try:
        commands: dict[Any, Any] = dict(part.commands())
        for command, function in commands.items():
            if not isinstance(command, str) or COMMAND_NAME.fullmatch(command) is None:
                raise ValueError(f"invalid name {command!r}")
            if not callable(function):
                raise TypeError(f"{command}: expected an async function, got {function!r:.60}")
    except Exception as error:  # The package may raise anything.
        raise UserError(f"parts.{name}: commands: {why(error)}") from error
    return commands


def hooks_of(name: str, part: PackagePart) -> Iterable[Hook]:
    async def call(event: Json, _tool_use_id: str | None) -> Json:
        answer: object = await part.on_event(event)
        if not isinstance(answer, dict):
            kind = type(answer).__name__
            raise FunctionError(f"parts.{name}: on_event must return a dict, got {kind}")
        if unknown := describe_unknown_field(answer):
            raise FunctionError(f"parts.{name}: on_event returned the unknown key {unknown}")
        return answer

    for event in part.events:
        yield Hook(
            event=BY_NAME[event],
            source=f"part {name}",
            handler=CallbackHook(call=call, blocks_on_failure=True),
        )


async def run_command(function: CommandFunction, _scene: Any, arguments: str) -> Show:
    try:
        answer: Any = function(arguments)
        if not inspect.isawaitable(answer):
            raise TypeError(f"the command must be an async function; it returned {answer!r:.60}")
        return Show(text=str(await answer))
    except Exception as error:  # The package may raise anything.
        raise UserError(why(error)) from error


def why(error: BaseException) -> str:
    return describe_error(error) or type(error).__name__


def first_line(function: CommandFunction) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
