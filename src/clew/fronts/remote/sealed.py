"""Sealed frames: the server sees what it needs to pass a frame on, and nothing else. Pure.

A sealed frame has the frame's type and IDs, and the whole frame as a sealed text. The text opens
only together with these.

Decision: docs/decisions/333-sealed-sessions.md
"""

import msgspec

from clew.core.json_object import Json, object_of
from clew.fronts.remote.signing import MEMBER
from clew.record.stores.sealing import Sealer, SealError

SEALED = "sealed"
# What the server knows as the title of a session whose content it can't read.
SEALED_TITLE = "Sealed session"
SHOWN = ("type", "uuid", "request_id")


def make_header(frame: Json) -> Json:
    """Return the members by which a server numbers frames and matches questions with answers."""
    header = {name: frame[name] for name in SHOWN if name in frame}
    request, response = object_of(frame.get("request")), object_of(frame.get("response"))
    if request:
        header["request"] = {"subtype": request.get("subtype")}
    if response:
        header["response"] = {name: response.get(name) for name in ("subtype", "request_id")}
    return header


def seal_frame(sealer: Sealer, session: str, frame: Json) -> Json:
    header = make_header(frame)
    return header | {SEALED: sealer.seal(session, place_of(header), msgspec.json.encode(frame))}


def open_frame(sealer: Sealer | None, session: str, payload: Json) -> Json:
    """Return the frame in a payload; one that is not sealed as it is. Raise `SealError`."""
    text = payload.get(SEALED)
    if not isinstance(text, str):
        return payload
    header = {name: value for name, value in payload.items() if name not in (SEALED, MEMBER)}
    return open_text(sealer, session, place_of(header), text)


def open_text(sealer: Sealer | None, session: str, place: bytes, text: str) -> Json:
    if sealer is None:
        raise SealError("it is sealed, and this machine has no key that opens it; use clew pair")
    frame: Json = msgspec.json.decode(sealer.open(session, place, text), type=dict)
    return frame


def place_of(header: Json) -> bytes:
    return b"frame\n" + msgspec.json.encode(header, order="sorted")


STATE = b"state"


def seal_state(sealer: Sealer, session: str, report: Json) -> Json:
    """Return what a worker reports of its session as a patch of what the server has of it."""
    hidden: Json = dict.fromkeys(report)
    return hidden | {SEALED: sealer.seal(session, STATE, msgspec.json.encode(report))}


def open_state(sealer: Sealer | None, session: str, report: Json) -> Json:
    """Return a worker's report; an empty one if it can't be opened."""
    text = report.get(SEALED)
    if not isinstance(text, str):
        return report
    try:
        return open_text(sealer, session, STATE, text)
    except SealError:
        return {}
