"""Encode request bodies of growing sessions, each message only once.

A session sends the messages of its last request again, followed by new ones. Repeated messages are
recognized by object identity, because messages are never mutated. From the first message that
differs, everything is encoded again. The result must be byte for byte the same as encoding the
entire body at once.

Decision: docs/decisions/220-long-sessions.md
"""

from itertools import compress, count
from operator import is_not
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.encoding import encode

# With fewer messages, encoding is too cheap to be worth a cache.
LEAST_MESSAGES = 64
# One session and the subagents that run at the same time.
MOST_CONVERSATIONS = 4


class Writing:
    """The encoded messages of the last request of each recent conversation."""

    def __init__(self) -> None:
        self._kept: dict[str | None, Written] = {}

    def body(self, body: Json, whose: str | None) -> bytes:
        """Return `body` as JSON. `whose` tells apart conversations whose requests alternate."""
        messages = body.get("messages")
        if type(messages) is not list or len(messages) < LEAST_MESSAGES:
            return encode_request(body)
        cache = self._kept.pop(whose, None) or Written()
        self._kept[whose] = cache
        while len(self._kept) > MOST_CONVERSATIONS:
            del self._kept[next(iter(self._kept))]
        members = list(body.items())
        place = list(body).index("messages")
        before, after = dict(members[:place]), dict(members[place + 1 :])
        return b"".join(
            (
                encode_request(before)[:-1],
                b',"messages":[' if before else b'"messages":[',
                cache.grown_to(messages),
                b"]," if after else b"]",
                encode_request(after)[1:],
            )
        )


class Written:
    """Messages and their JSON, separated by commas.

    `_ends[i]` is where the bytes of message `i` end.
    """

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._ends: list[int] = []
        self._data = bytearray()

    def grown_to(self, messages: list[Any]) -> bytearray:
        """Return the encoded `messages`, reusing the part that is unchanged since the last call."""
        known_count = len(self._messages)
        same = next(compress(count(), map(is_not, self._messages, messages)), known_count)
        same = min(same, len(messages))
        del self._messages[same:], self._ends[same:]
        del self._data[self._ends[-1] if same else 0 :]
        for message in messages[same:]:
            if self._messages:
                self._data += b","
            self._data += encode_request(message)
            self._messages.append(message)
            self._ends.append(len(self._data))
        return self._data


def encode_request(value: Any) -> bytes:
    return encode(value, beyond_double="string")
