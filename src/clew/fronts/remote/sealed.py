"""Sealed frames, of which the server sees only what it needs to forward them. Does no I/O.

A sealed frame contains the frame's type and IDs, and the entire frame as sealed text. The text can
be opened only together with the type and the IDs.

Decision: docs/decisions/333-sealed-sessions.md
"""

import msgspec

from clew.core.json_object import Json, object_of
from clew.fronts.remote.signing import MEMBER
from clew.record.stores.sealing import Sealer, SealError

SEALED = "sealed"
# The title that the server gets for a session whose content it can't read.
SEALED_TITLE = "Sealed session"
SHOWN = ("type", "uuid", "request_id")


def make_header(frame: Json) -> Json:
    """Return the fields of a frame that the server needs to number it and to match answers."""
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
    """Return the frame in a payload, sealed or not. Raise `SealError` if it can't be opened."""
    text = payload.get(SEALED)
    if not isinstance(text, str):
        return payload
    header = {name: value for name, value in payload.items() if name not in (SEALED, MEMBER)}
    return open_text(sealer, session, place_of(header), text)


def open_text(sealer: Sealer | None, session: str, place: bytes, text: str) -> Json:
    if sealer is None:
        raise SealError("this machine has no key to open sealed messages; run clew pair")
    frame: Json = msgspec.json.decode(sealer.open(session, place, text), type=dict)
    return frame


def place_of(header: Json) -> bytes:
    return b"frame\n" + msgspec.json.encode(header, order="sorted")


STATE = b"state"


def seal_state(sealer: Sealer, session: str, report: Json) -> Json:
    """Return a patch of the state that the server stores, with a worker's report in sealed form."""
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
