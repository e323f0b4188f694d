"""Replay a recorded stream: from bytes in any pieces to events, a message and its cost."""

import json
from typing import Any

from clew.engine import (
    CATALOG,
    AnswerReader,
    Ledger,
    MessageFinished,
    StreamFault,
    TextDelta,
    find_charges,
)

USAGE = {"input_tokens": 1000, "output_tokens": 1}
EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "usage": USAGE,
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half a"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}},
    {"type": "message_stop"},
]


def record() -> bytes:
    """Return the stream as a service sends it."""
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in EVENTS).encode()


def replay(data: bytes, piece_bytes: int) -> None:
    reader = AnswerReader()
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.close()
    text = ""
    for event in events:
        match event:
            case TextDelta():
                text += event.text
            case StreamFault():
                print("fault:", event.kind)
            case MessageFinished():
                print(f"{text!r} complete={event.complete}")
    if reader.message is not None:
        entry = {"type": "assistant", "message": reader.message, "requestId": "req_1"}
        print(f"${Ledger(find_charges([entry], CATALOG)).total.usd}")


def main() -> None:
    data = record()
    replay(data, piece_bytes=1)
    replay(data[: data.index(b" word") - 30], piece_bytes=100)


if __name__ == "__main__":
    main()

# -> 'Half a word' complete=True
# -> $0.00375
# -> fault: unfinished_event
# -> 'Half a' complete=False
# -> $0.003015
