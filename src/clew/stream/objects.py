"""One JSON object from bytes, or a fault that says why not."""

import json
from typing import Any

import msgspec

from clew.messages.encoding import read_float, read_int
from clew.stream.events import FaultKind, Json, StreamFault, excerpt
from clew.stream.surrogates import mend_all

MAX_DEPTH = 200
NEVER_TOO_DEEP_BYTES = 2 * MAX_DEPTH  # every level opens and closes

# What the pieces of a text are called; see `surrogates.py` for what may stand at their ends.
_GROWING = ("text", "thinking", "partial_json")

_decode = msgspec.json.Decoder().decode


def parse_object(data: bytes) -> Json | StreamFault:
    """Strict JSON; a half character (a lone surrogate) is let through in deltas, else replaced.

    The two halves of a character may come in two deltas, so there the accumulator joins them.
    """
    try:
        value = _decode(data)
    except UnicodeDecodeError:
        return _fault("invalid_utf8", "an event holds bytes that are not UTF-8", data)
    except (ValueError, RecursionError) as error:
        return _second_reading(data, error)
    return _checked(value, data)


def too_deep(value: Any, text: bytes | str) -> bool:
    """Whether lists and objects are nested deeper than others can write again.

    Decoders stop at about a thousand levels, but what one stack could just read, a longer one
    cannot write: such a value would lie in a session that nobody can save.
    """
    if len(text) <= NEVER_TOO_DEEP_BYTES:
        return False
    if isinstance(text, str):
        brackets = text.count("[") + text.count("{")
    else:
        brackets = text.count(b"[") + text.count(b"{")
    return brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [i for item in level for i in (item.values() if isinstance(item, dict) else item)]
    return depth


def _second_reading(data: bytes, error: Exception) -> Json | StreamFault:
    """What msgspec refuses but JSON allows: half characters and numbers beyond a double."""
    try:
        value = json.loads(
            data, parse_constant=_no_constant, parse_float=read_float, parse_int=read_int
        )
    except (ValueError, RecursionError):
        return _fault("invalid_json", f"an event is not JSON: {error}", data)
    checked = _checked(value, data)
    return checked if isinstance(checked, StreamFault) else _mended(checked)


def _mended(event: Json) -> Json:
    """The event without half characters, but for those of a delta that grows a text."""
    mended: Json = mend_all(event)
    delta = event.get("delta")
    if isinstance(delta, dict):
        growing = {name: delta[name] for name in _GROWING if isinstance(delta.get(name), str)}
        mended["delta"] |= growing
    return mended


def _checked(value: Any, data: bytes) -> Json | StreamFault:
    if not isinstance(value, dict):
        message = f"an event is a {type(value).__name__}, not an object"
        return _fault("malformed_event", message, data)
    if too_deep(value, data):
        message = f"an event is nested deeper than {MAX_DEPTH} levels"
        return _fault("malformed_event", message, data)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fault(kind: FaultKind, message: str, data: bytes) -> StreamFault:
    return StreamFault(kind=kind, message=message, excerpt=excerpt(data))
