"""A program's functions as tools of its sessions: their arguments and results.

The model sees a function as `mcp__program__NAME`. The same permission rules apply to it as to every
MCP tool: unless a rule allows the call, it needs approval.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints, overload

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import format_error

AsyncFunction: TypeAlias = Callable[..., Awaitable[Any]]

# The name of the server that offers the functions.
SERVER = "program"
PROTOCOL = "2025-11-25"


class Function(Struct, frozen=True, kw_only=True):
    """A function that the model can call; make one with `clew.tool`.

    The model sees `name`, `description` and the fields of `takes`, a type with the parameters of
    `call`.
    """

    name: str
    description: str
    call: AsyncFunction
    takes: type[Struct]

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function directly, as if it were not a tool."""
        return await self.call(*arguments, **named)

    def listed(self) -> Json:
        """Return the tool definition. It is always sent, because the program relies on the tool."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": schema_of(self.takes),
            "_meta": {"anthropic/alwaysLoad": True},
        }

    async def answer(self, arguments: Json) -> Json:
        """Call the function and return its result. The caller handles errors."""
        try:
            values = msgspec.convert(arguments, self.takes, strict=False)
        except msgspec.ValidationError as error:
            raise TypeError(f"invalid arguments: {error}") from None
        result = await self.call(
            **{name: getattr(values, name) for name in values.__struct_fields__}
        )
        return {"content": blocks_of(result)}


@overload
def tool(function: AsyncFunction, /) -> Function: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None
) -> Callable[[AsyncFunction], Function]: ...
def tool(
    function: AsyncFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
) -> Function | Callable[[AsyncFunction], Function]:
    """Make a tool from an async function, using its name, docstring and annotated parameters."""

    def made(of: AsyncFunction) -> Function:
        called = str(name or getattr(of, "__name__", repr(of)))
        if not inspect.iscoroutinefunction(of):
            raise TypeError(f"{called}: a tool must be an async function")
        about = inspect.getdoc(of) if description is None else description
        takes = taken_by(of)
        return Function(name=called, description=about or called, call=of, takes=takes)

    return made if function is None else made(function)


def taken_by(function: AsyncFunction) -> type[Struct]:
    """Return the parameters of a function as a type that validates arguments."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(
                f"{function.__name__}: *{parameter.name} has no JSON Schema; use named parameters"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(
                f"{function.__name__}: the parameter {parameter.name} has to be usable by name; "
                "remove the slash after it"
            )
        kind = describe_type(hints.get(parameter.name, Any))
        try:
            msgspec.json.schema(kind)
        except TypeError as error:
            raise TypeError(
                f"{function.__name__}: the type of {parameter.name} has no JSON Schema: {kind!r}"
            ) from error
        default = parameter.default
        fields.append(
            (parameter.name, kind)
            if default is parameter.empty
            else (parameter.name, kind, msgspec.field(default_factory=partial(same, default)))
        )
    return msgspec.defstruct(f"{function.__name__}_input", fields, kw_only=True)


def describe_type(kind: Any) -> Any:
    """Return a parameter's type; text in `Annotated` becomes its description for the model."""
    if get_origin(kind) is not Annotated:
        return kind
    plain_type, *notes = get_args(kind)
    for note in notes:
        meta = msgspec.Meta(description=note) if isinstance(note, str) else note
        plain_type = Annotated[plain_type, meta]
    return plain_type


def same(value: Any) -> Any:
    """Return the value unchanged, for parameters whose default may have any type."""
    return value


def schema_of(kind: type[Struct]) -> Json:
    """Return the JSON Schema of a type, without a reference at the top level."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own: Json = parts.pop(kind.__name__)
    assert "$ref" in schema
    return own | ({"$defs": parts} if parts else {})


def blocks_of(result: Any) -> list[Json]:
    """Return a function's result as content blocks. Values of other types become JSON."""
    if isinstance(result, str):
        return [{"type": "text", "text": result}]
    is_blocks = isinstance(result, list) and all(
        isinstance(b, dict) and "type" in b for b in result
    )
    if is_blocks and result:
        return list(result)
    return [{"type": "text", "text": msgspec.json.encode(result).decode()}]


async def run_function(function: Function, arguments: Json) -> Json:
    """Call a function for the model. If it raises an exception, return an error result.

    The exception's text becomes the text of the error result.
    """
    try:
        return await function.answer(arguments)
    except Exception as error:
        import logging  # Slow to import, and most sessions never need it.

        # An exception may be how a function refuses arguments, so it is no error of the program.
        log = logging.getLogger("clew.tools")
        log.info("the function %s failed", function.name, exc_info=error)
        return {"content": [{"type": "text", "text": format_error(error)}], "isError": True}


async def answer_message(
    functions: Sequence[Function], message: Json, *, name: str = SERVER
) -> Json:
    """Answer one MCP message in the role of the server that offers the functions."""
    if "id" not in message:
        return {"jsonrpc": "2.0", "result": {}}
    head = {"jsonrpc": "2.0", "id": message["id"]}
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            result: Json = {
                "protocolVersion": PROTOCOL,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"},
            }
        case "tools/list":
            result = {"tools": [function.listed() for function in functions]}
        case "tools/call" if matches := [f for f in functions if f.name == params.get("name")]:
            result = await run_function(matches[0], params.get("arguments") or {})
        case method:
            return head | {"error": {"code": -32601, "message": f"method not found: {method}"}}
    return head | {"result": result}
