"""What a command line's words mean: each function reads the text of one option into its value.

A text that is no such value is a `ValueError` whose words follow the option's name in the error.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any, TypeVar

from clew.core.messages.errors import describe_error
from clew.permissions.request import Mode
from clew.record.transcript.light import is_uuid

N = TypeVar("N", bound=str)

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
    """Return the text itself."""
    return text


def number(least: int, unit: str = "") -> Callable[[str], int]:
    """Return a reader of whole numbers that are no smaller than `least`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("expected a whole number") from None
        if value < least:
            raise ValueError(f"at least {least:,}{unit}")
        return value

    return read


def switch(text: str) -> bool:
    """Return whether a word means on."""
    return text in SWITCH_ON


def one(text: str) -> tuple[str, ...]:
    """Return the text as the only member, for an option that may be given more than once."""
    return (text,)


def mode(text: str) -> Mode:
    """Return the permission mode of a name."""
    return MODES[text]


def names(text: str) -> tuple[str, ...]:
    """Return names between commas or spaces."""
    return tuple(text.replace(",", " ").split())


def models(text: str) -> tuple[str, ...]:
    """Return models between commas."""
    return tuple(filter(None, text.split(",")))


def tools(text: str) -> tuple[str, ...] | None:
    """Return names of tools; None for all."""
    return None if text == "default" else names(text)


def names_among(*known_names: N) -> Callable[[str], tuple[N, ...]]:
    """Return a reader of names out of `known_names`, which it gives in their order there."""

    def read(text: str) -> tuple[N, ...]:
        for name in names(text):
            if name not in known_names:
                raise ValueError(
                    f"there are {', '.join(known_names)}{suggestion(name, known_names)}"
                )
        return tuple(name for name in known_names if name in names(text))

    return read


def suggestion(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def rules(text: str) -> tuple[str, ...]:
    """Return permission rules: split at commas and spaces outside parentheses."""
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


def uuid(text: str) -> str:
    """Return a session's ID in lower case."""
    if not is_uuid(text):
        raise ValueError("expected a UUID")
    return text.lower()


def dollars(text: str) -> Decimal:
    """Return an amount of money: more than nothing, and finite."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise ValueError("expected an amount of dollars, as 2.50")
    return amount


def file_text(text: str) -> str:
    """Return the text of a file."""
    from pathlib import Path

    try:
        return Path(text).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ValueError(error.strerror) from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None


def schema(text: str) -> dict[str, Any]:
    """Return a JSON Schema of an object, from JSON or from a file that holds it."""
    import json
    from pathlib import Path

    from clew.agent.tools.json_schema import find_schema_fault

    try:
        written = text if text.lstrip().startswith("{") else Path(text).read_text("utf-8")
        json_schema: dict[str, Any] = json.loads(written)
    except (OSError, ValueError) as error:
        raise ValueError(f"neither JSON nor a file of it: {describe_error(error)}") from None
    if why := find_schema_fault(json_schema):
        raise ValueError(why)
    return json_schema


def agents(text: str) -> dict[str, Any]:
    """Return kinds of agents by name, from a JSON object."""
    import json

    try:
        definitions = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise ValueError("expected an object: name to definition")
    return definitions


def member(value: Any) -> Any:
    """Return what a host says as it is."""
    return value


def text(value: Any) -> str | None:
    """Return a host's text; None for anything else, which is ignored."""
    return value if isinstance(value, str) else None


def filled(value: Any) -> str | None:
    """Return a host's text without the blanks around it; None if nothing is left."""
    return (value.strip() or None) if isinstance(value, str) else None


def paragraphs(value: Any) -> str | None:
    """Return a host's text, which may come in parts."""
    if isinstance(value, list):
        return "\n\n".join(part for part in value if isinstance(part, str))
    return text(value)


def texts(value: Any) -> dict[str, str] | None:
    """Return those members of a host's object that are texts."""
    if not isinstance(value, dict):
        return None
    return {name: item for name, item in value.items() if isinstance(item, str) and item}


def answer_schema(value: Any) -> dict[str, Any] | None:
    """Return a host's JSON Schema of an answer."""
    from clew.agent.tools.json_schema import find_schema_fault

    if not isinstance(value, dict):
        return None
    if why := find_schema_fault(value):
        raise ValueError(why)
    return value


def worktree(text: str) -> dict[str, Any]:
    """Return the beginning of a worktree's record, which has only its name; empty for a new name."""
    return {"worktreeName": text}
