"""The lines beside the conversation: titles, tags, markers, tombstones, what was written ahead.

Pure: is fed lines in file order and remembers what a session resumes with. A newer line of a kind
takes the place of the older; what resume does not need is left in the file.
"""

from typing import Any

import msgspec

from clew.messages.encoding import decode, encode
from clew.transcript.leaf import Marker

# A session resumes with them: of these the last line counts, of repairs what all lines together say.
CURRENT = frozenset(
    {
        "custom-title", "ai-title", "tag", "mode", "permission-mode", "agent-name", "agent-color",
        "agent-setting", "worktree-state", "cost-state", "prompt-hashes", "request-repairs", "context-edits",
        "clew-session",
    }
)  # fmt: skip
OWED = frozenset({"tool-started", "tool-finished"})
_OWED_SIGNS = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(OWED))
# Of the costs of requests, a session resumes with those that no answer shows and that a budget bounds.
_WARMING = b'"purpose":"warming"'
_WANTED = CURRENT | {"last-prompt", "tombstone", "content-replacement"}


class _Owed(msgspec.Struct, gc=False):
    uuid: str | None = None


class _Ahead(msgspec.Struct, gc=False):
    owed: list[_Owed] = []


_read_ahead = msgspec.json.Decoder(_Ahead).decode


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """A line that holds entries written ahead of their place in the chain, or one such; their uuids."""

    uuids: tuple[str, ...]
    number: int
    at: int
    size: int
    is_part: bool = False


class Side(msgspec.Struct, kw_only=True):
    """What the lines beside the conversation said last."""

    current: dict[str, dict[str, Any]] = {}
    # Where in the file the line of each kind stands.
    current_at: dict[str, int] = {}
    markers: list[Marker] = []
    last_prompt: str | None = None
    # What tombstones name, and where in the file the last one for each stands.
    withdrawn: dict[str, int] = {}
    owed: list[Owed] = []
    replacements: list[dict[str, Any]] = []
    # The repairs of `current` as they are written: each counts once.
    mended: set[bytes] = set()
    # What keeping the prompt cache warm cost, and where in the file each line stands.
    warming: list[tuple[int, dict[str, Any]]] = []
    kinds: dict[str, int] = {}

    def feed(self, kind: str | None, raw: bytes, number: int, at: int) -> None:
        """Takes one line off the chain, read by `entries.scan` before."""
        self.kinds[kind or ""] = self.kinds.get(kind or "", 0) + 1
        if kind in OWED:
            self._owe(raw, number, at)
        elif kind == "request-cost":
            if _WARMING in raw:
                self.warming.append((at, decode(raw)))
        elif kind in _WANTED:
            self._keep(kind, decode(raw), at)

    def _owe(self, raw: bytes, number: int, at: int) -> None:
        try:
            ahead = _read_ahead(raw)
        except msgspec.MsgspecError:
            return
        uuids = tuple(owed.uuid for owed in ahead.owed if owed.uuid is not None)
        self.owed.append(Owed(uuids=uuids, number=number, at=at, size=len(raw)))

    def owe_part(self, uuid: str, number: int, at: int, size: int) -> None:
        """Takes one entry out of a line of that sort that was torn."""
        self.owed.append(Owed(uuids=(uuid,), number=number, at=at, size=size, is_part=True))

    def _keep(self, kind: str, data: dict[str, Any], at: int) -> None:
        match kind:
            case "last-prompt":
                self._mark(data, at)
            case "tombstone":
                if isinstance(data.get("messageUuid"), str):
                    self.withdrawn[data["messageUuid"]] = at
            case "content-replacement":
                self.replacements.append(data)
            case "request-repairs":
                self._mend(data)
                self.current_at[kind] = at
            case _:
                self.current[kind] = data
                self.current_at[kind] = at

    def _mend(self, data: dict[str, Any]) -> None:
        """A line says what is new since the one before it, and in older logs everything again."""
        said = data.get("repairs")
        all_of_them = self.current.get("request-repairs", {}).get("repairs", [])
        for one in said if isinstance(said, list) else ():
            written = encode(one)
            if written not in self.mended:
                self.mended.add(written)
                all_of_them.append(one)
        self.current["request-repairs"] = {**data, "repairs": all_of_them}

    def _mark(self, data: dict[str, Any], at: int) -> None:
        leaf = data.get("leafUuid")
        if isinstance(data.get("lastPrompt"), str):
            self.last_prompt = data["lastPrompt"]
        if isinstance(leaf, str):
            explicit = data.get("explicit") is True
            boundary = data.get("boundaryUuid", msgspec.UNSET)
            if not isinstance(boundary, str | None):
                boundary = msgspec.UNSET
            self.markers.append(
                Marker(leaf_uuid=leaf, is_explicit=explicit, at=at, boundary=boundary)
            )


def is_written_ahead(raw: bytes) -> bool:
    """Whether a line, torn or not, is one that holds entries written ahead."""
    return raw.startswith(_OWED_SIGNS)
