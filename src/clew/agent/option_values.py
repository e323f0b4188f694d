"""Parsers for the values of command-line options.

Each parser raises `ValueError` for an invalid value; the message follows the option's name in the
error.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from clew.core.messages.errors import describe_error
from clew.core.nearest import suggest_nearest
from clew.permissions.request import Mode
from clew.record.transcript.light import is_uuid

N = TypeVar("N", bound=str)

LEAST_FRAME_BYTES = 65_536
SWITCH_ON = ("true", "1", "yes", "on")
SWITCH = (*SWITCH_ON, "false", "0", "no", "off")
MODES: dict[str, Mode] = {
    "default": "default",
    "manual": "default",
    "acceptEdits": "acceptEdits",
    "plan": "plan",
    "auto": "auto",
    "dontAsk": "dontAsk",
    "bypassPermissions": "bypassPermissions",
}


def word(text: str) -> str:
    """Return the text unchanged."""
    return text


def frame_size(value: object) -> int | None:
    """Return a host's limit for the line length, or None if the host sets no limit."""
    if value is None:
        return None
    if type(value) is not int or value < LEAST_FRAME_BYTES:
        raise ValueError(f"expected an integer of at least {LEAST_FRAME_BYTES:,}, got {value!r}")
    return value


def number(least: int, unit: str = "") -> Callable[[str], int]:
    """Return a parser that accepts integers from `least` up."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"expected an integer of at least {least:,}{unit}") from None
        if value < least:
            raise ValueError(f"must be at least {least:,}{unit}")
        return value

    return read


def switch(text: str) -> bool:
    """Return whether the text means that the switch is on."""
    return text in SWITCH_ON


def one(text: str) -> tuple[str, ...]:
    """Return the text as a one-element tuple; the tuples of a repeated option are concatenated."""
    return (text,)


def mode(text: str) -> Mode:
    """Return the permission mode with this name."""
    return MODES[text]


def names(text: str) -> tuple[str, ...]:
    """Split names at commas and spaces."""
    return tuple(text.replace(",", " ").split())


def models(text: str) -> tuple[str, ...]:
    """Split model names at commas."""
    return tuple(filter(None, text.split(",")))


def tools(text: str) -> tuple[str, ...] | None:
    """Split tool names; return None, which means all tools, for the word "default"."""
    return None if text == "default" else names(text)


def names_among(*known_names: N) -> Callable[[str], tuple[N, ...]]:
    """Return a parser for a list of names.

    Each name must be one of `known_names`; the parser returns the names in the order of
    `known_names`.
    """

    def read(text: str) -> tuple[N, ...]:
        for name in names(text):
            if name not in known_names:
                raise ValueError(
                    f"expected one of {', '.join(known_names)}{suggest_nearest(name, known_names)}"
                )
        return tuple(name for name in known_names if name in names(text))

    return read


def rules(text: str) -> tuple[str, ...]:
    """Split permission rules at commas and spaces outside of parentheses."""
    texts: list[str] = []
    rule, depth = "", 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth <= 0 and character in ", \t\n":
            texts.append(rule)
            rule = ""
        else:
            rule += character
    return tuple(rule for rule in (*texts, rule) if rule)


def pull_request(text: str) -> str:
    """Return the name under which `--resume` finds a pull request's session."""
    number = text.removeprefix("#")
    if number.isdigit():
        return f"#{number}"
    if not text.startswith(("https://", "http://")):
        raise ValueError("expected the number or URL of a pull request")
    return text.rstrip("/")


def uuid(text: str) -> str:
    """Return a session ID in lowercase."""
    if not is_uuid(text):
        raise ValueError("expected a UUID")
    return text.lower()


def dollars(text: str) -> Decimal:
    """Parse an amount of dollars, which must be positive and finite."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise ValueError("expected an amount in dollars above 0, such as 2.50")
    return amount


def file_text(text: str) -> str:
    """Return the text of the file with this path."""
    from pathlib import Path

    try:
        return Path(text).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ValueError(error.strerror) from None
    except UnicodeDecodeError:
        raise ValueError("the file is not valid UTF-8") from None


def schema(text: str) -> dict[str, Any]:
    """Parse a JSON Schema for an object, given as JSON or as the path of a JSON file."""
    import json
    from pathlib import Path

    from clew.agent.tools.json_schema import find_schema_fault

    try:
        written = text if text.lstrip().startswith("{") else Path(text).read_text("utf-8")
        json_schema: dict[str, Any] = json.loads(written)
    except (OSError, ValueError) as error:
        raise ValueError(f"neither JSON nor a JSON file: {describe_error(error)}") from None
    if why := find_schema_fault(json_schema):
        raise ValueError(why)
    return json_schema


def agents(text: str) -> dict[str, Any]:
    """Parse a JSON object that maps names to agent definitions."""
    import json

    try:
        definitions = json.loads(text)
    except ValueError as error:
        raise ValueError(f"invalid JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise ValueError("expected an object that maps agent names to definitions")
    return definitions


def member(value: Any) -> Any:
    """Return a host's value unchanged."""
    return value


def text(value: Any) -> str | None:
    """Return a host's value if it is a string, or None for any other type, which is ignored."""
    return value if isinstance(value, str) else None


def filled(value: Any) -> str | None:
    """Return a host's string without surrounding whitespace; None if empty or not a string."""
    return (value.strip() or None) if isinstance(value, str) else None


def paragraphs(value: Any) -> str | None:
    """Return a host's text, which may be a string or a list of paragraphs; otherwise None."""
    if isinstance(value, list):
        return "\n\n".join(part for part in value if isinstance(part, str))
    return text(value)


def texts(value: Any) -> dict[str, str] | None:
    """Return the fields of a host's object whose values are non-empty strings.

    Return None if the value is not an object.
    """
    if not isinstance(value, dict):
        return None
    return {name: item for name, item in value.items() if isinstance(item, str) and item}


def answer_schema(value: Any) -> dict[str, Any] | None:
    """Return a host's JSON Schema for the model's answer, or None if it is not an object.

    Raise ValueError if the schema is invalid.
    """
    from clew.agent.tools.json_schema import find_schema_fault

    if not isinstance(value, dict):
        return None
    if why := find_schema_fault(value):
        raise ValueError(why)
    return value


def worktree(text: str) -> dict[str, Any]:
    """Return the first field of a worktree's record: the name; if empty, it is generated later."""
    return {"worktreeName": text}
