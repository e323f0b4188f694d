r"""Parse server-sent events as specified by the WHATWG, from bytes that may be split anywhere.

Blank lines separate events, so the bytes are split at `\n\n` first, and only unusual events are
parsed line by line. Only the unfinished event is buffered. The caller may limit the size of an
event.
"""

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.core.stream.events import StreamFault, make_excerpt

# Lines of a byte stream that end in LF, CRLF or CR, wherever the chunks were split.


# The size of one read from a transport.
READ_SIZE_BYTES = 65_536


class Newlines:
    r"""A filter that converts CRLF and CR to LF, even if a chunk boundary splits a CRLF."""

    __slots__ = ("_after_cr",)

    def __init__(self) -> None:
        self._after_cr = False

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._after_cr:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk


class LineSplitter:
    """A splitter that returns each line of a byte stream once complete, without its line ending."""

    __slots__ = ("_newlines", "_rest")

    def __init__(self) -> None:
        self._newlines = Newlines()
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *others = self._newlines.feed(chunk).split(b"\n")
        self._rest += (
            first  # a bytearray grows in place, so a line in many pieces costs only its length
        )
        if not others:
            return []
        lines = [bytes(self._rest), *others]
        self._rest = bytearray(lines.pop())
        return lines

    def close(self) -> list[bytes]:
        """Return the last line if the stream ended without a line ending."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []


_BOM = b"\xef\xbb\xbf"
_NAMES_KEPT = 32
_RETRY_DIGITS = 15  # longer than any sensible delay, and few enough digits for int()


class ServerSentEvent(Struct, frozen=True):
    """One dispatched event. `raw` contains its lines, including comments and unknown fields."""

    event: str
    data: bytes
    id: str
    raw: bytes

    @property
    def text(self) -> str:
        """The data as text; invalid UTF-8 is replaced, as the specification requires."""
        return self.data.decode("utf-8", "replace")


class SseDecoder:
    """A parser that turns bytes into events; only the last event ID carries over between events."""

    __slots__ = (
        "_ended",
        "_max_event_bytes",
        "_names",
        "_newlines",
        "_rest",
        "_started",
        "last_event_id",
        "retry_ms",
    )

    def __init__(self, *, max_event_bytes: int | None = None) -> None:
        self._max_event_bytes = max_event_bytes
        self._names: dict[bytes, str] = {}
        self._newlines = Newlines()
        self._rest = bytearray()  # starts at an event boundary
        self._started = False
        self._ended = False
        self.last_event_id = ""
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent | StreamFault]:
        if self._ended:
            return []
        text = self._newlines.feed(chunk)
        if not self._started:
            text = self._without_bom(text)
        if self._rest:
            joint = text.startswith(b"\n") and self._rest.endswith(b"\n")
            self._rest += text  # a bytearray grows in place
            if not joint and b"\n\n" not in text:
                return self._within_limit([])
            text = bytes(self._rest)
            self._rest.clear()
        *blocks, text = text.split(b"\n\n")
        if text:
            self._rest += text
        return self._within_limit(self._events(blocks))

    def close(self) -> list[ServerSentEvent | StreamFault]:
        """Handle the end of the bytes: an unfinished event is reported, not dispatched."""
        rest, self._rest = bytes(self._rest), bytearray()
        if self._ended or all(not line or line.startswith(b":") for line in rest.split(b"\n")):
            return []
        self._ended = True
        message = f"the stream ended {format_count(len(rest), 'byte')} into an event"
        return [StreamFault(kind="unfinished_event", message=message, excerpt=make_excerpt(rest))]

    def _without_bom(self, text: bytes) -> bytes:
        """Hold back the first bytes until it is clear whether they are a byte order mark."""
        text = bytes(self._rest) + text
        self._rest.clear()
        if len(text) < len(_BOM) and _BOM.startswith(text):
            self._rest += text
            return b""
        self._started = True
        return text.removeprefix(_BOM)

    def _events(self, blocks: list[bytes]) -> list[ServerSentEvent | StreamFault]:
        events: list[ServerSentEvent | StreamFault] = []
        names = self._names
        for block in blocks:
            if self._max_event_bytes is not None and len(block) > self._max_event_bytes:
                events.append(self._too_large())
                break
            # The service's usual format, under a known event name.
            first_line, separator, data = block.partition(b"\ndata: ")
            name = names.get(first_line)
            if name is not None and separator and b"\n" not in data:
                events.append(ServerSentEvent(name, data, self.last_event_id, block))
            elif (event := self._by_line(block)) is not None:
                events.append(event)
                if len(names) < _NAMES_KEPT and first_line == b"event: " + event.event.encode():
                    names[first_line] = event.event
        return events

    def _by_line(self, block: bytes) -> ServerSentEvent | None:
        event = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value
            elif name == b"id" and b"\0" not in value:
                self.last_event_id = value.decode("utf-8", "replace")
            elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
                self.retry_ms = int(value)
        if not data:
            return None
        name_of_event = event.decode("utf-8", "replace") or "message"
        return ServerSentEvent(name_of_event, b"\n".join(data), self.last_event_id, block)

    def _within_limit(
        self, events: list[ServerSentEvent | StreamFault]
    ) -> list[ServerSentEvent | StreamFault]:
        """End the stream if its unfinished event exceeds the caller's limit."""
        limit = self._max_event_bytes
        if limit is None or self._ended or not self._started:
            return events
        # A newline at the end may be half of the blank line that ends the event.
        if len(self._rest) - self._rest.endswith(b"\n") > limit:
            events.append(self._too_large())
        return events

    def _too_large(self) -> StreamFault:
        self._ended = True
        self._rest.clear()
        message = f"event of more than {self._max_event_bytes} bytes"
        return StreamFault(kind="event_too_large", message=message)
