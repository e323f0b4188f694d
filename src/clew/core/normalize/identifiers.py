"""Call IDs and tool names in the form that a service accepts.

Each service limits the length and the characters of call IDs and names differently. The mapping of
IDs is deterministic, never maps two IDs of a request to the same one, and does not change as a
history grows: a request that continues another begins with the same IDs.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from string import ascii_letters, digits

BASE62 = digits + ascii_letters
LETTERS = frozenset(BASE62 + "_-")
_HASHED_NAME = 8


def is_plain_id(text: str, longest: int) -> bool:
    """Return whether an ID consists of letters, digits, `_` and `-`."""
    return 0 < len(text) <= longest and LETTERS.issuperset(text)


class IdMap:
    """Maps the call IDs of one request. `is_valid` decides which IDs may stay unchanged."""

    def __init__(self, is_valid: Callable[[str], bool], length: int, prefix: str = "") -> None:
        self._is_valid = is_valid
        self._length = length
        self._prefix = prefix
        self._mapped: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, call_id: str) -> str:
        """Return the ID to send for a call."""
        known = self._mapped.get(call_id)
        if known is not None:
            return known
        sent, seed = call_id, call_id
        while not self._is_valid(sent) or sent in self._taken:
            sent = self._prefix + hash_in_base62(seed, self._length - len(self._prefix))
            seed += "+"
        self._mapped[call_id] = sent
        self._taken.add(sent)
        return sent

    def keep(self, call_id: str, sent: str) -> str:
        """Return the ID to send for a call to which the service itself gave the ID `sent`.

        That ID stays, unless another call of the request has it.
        """
        if not sent or sent in self._taken:
            return self(call_id)
        self._mapped[call_id] = sent
        self._taken.add(sent)
        return sent


def hash_in_base62(text: str, length: int) -> str:
    """Return a hash of the text that consists of `length` letters and digits."""
    number = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
    out = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        out.append(BASE62[digit])
    return "".join(out)


def shorten_name(name: str, longest: int) -> str:
    """Return a tool's name, with its end replaced by a hash if it is too long."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - _HASHED_NAME - 1]}_{hash_in_base62(name, _HASHED_NAME)}"


def shortened_names(names: Iterable[str], longest: int) -> dict[str, str]:
    """Return the full names of the tools whose names are shortened, by the shortened name."""
    return {short: name for name in names if (short := shorten_name(name, longest)) != name}
