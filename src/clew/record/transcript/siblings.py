"""The entries of a response off the walked path: parallel tool calls and their results.

A response is several entries with one message ID, and each result's parent is its own call, so a
walk up from the leaf follows only one of the calls. An entry off the path is added if it is part of
a response on the path, the only result of a call in such a response, or an attachment between them.
Entries of another branch of the conversation are never added. Does no I/O.
"""

from collections.abc import Callable, Sequence
from typing import Any

from clew.record.transcript.links import ROOT, Links, Node
from clew.record.transcript.policy import find_block_ids

Body = Callable[[Node], dict[str, Any]]


def with_siblings(links: Links, path: list[int], body: Body) -> list[int]:
    """Return the path with all entries of the responses on it, in conversation order."""
    beside = _beside(links, path)
    if not beside:
        return path
    answers = _Answers(links, path, body)
    return answers.merge(beside)


def _beside(links: Links, path: Sequence[int]) -> list[int]:
    """Return the shown messages off the path that have a parent, in file order."""
    on_path = bytearray(len(links.nodes))
    for i in path:
        on_path[i] = 1
    return [
        i
        for i, node in enumerate(links.nodes)
        if not on_path[i]
        and links.parents[i] != ROOT
        and node.keys.type in ("user", "assistant", "attachment")
        and links.shown[i]
    ]


class _Answers:
    """Adds entries off the path to the responses that they belong to."""

    def __init__(self, links: Links, path: Sequence[int], body: Body) -> None:
        self._links = links
        self._body = body
        self._path = path
        self._on_path = {i: place for place, i in enumerate(path)}
        self._keys: dict[int, object] = {}
        self._pulled: dict[int, int] = {}  # entry -> place of its response's last entry on the path
        self._calls_at: dict[int, list[int]] = {}  # added entries, by that place
        self._extents: dict[int, _Extent] = {}  # by place

    def merge(self, beside: Sequence[int]) -> list[int]:
        self._pull([i for i in beside if self._is_assistant(i)], self._pull_call)
        for i, place in self._pulled.items():
            self._calls_at.setdefault(place, []).append(i)
        self._pull([i for i in beside if self._is_user(i)], self._pull_result)
        self._pull_rest(beside)
        merged: list[int] = []
        for calls, rest in self._segments():
            merged += (
                sorted_in(calls, self._links) if any(i in self._pulled for i in calls) else calls
            )
            merged += sorted_in(rest, self._links) if any(i in self._pulled for i in rest) else rest
        return merged

    def _pull(self, entries: Sequence[int], pull: Callable[[int], None]) -> None:
        """Apply `pull` to each entry after its parent; a shuffled file may have the child first."""
        waiting: dict[int, list[int]] = {}
        for entry in entries:
            turn = [entry]
            while turn:
                i = turn.pop()
                pull(i)
                parent = self._links.parents[i]
                if i in self._pulled:
                    turn += reversed(waiting.pop(i, []))
                elif not self._is_taken(parent):
                    waiting.setdefault(parent, []).append(i)

    def _pull_call(self, i: int) -> None:
        parent = self._links.parents[i]
        if self._is_taken(parent) and self._key(i) == self._key(parent):
            # Two text entries with the same parent are two attempts at a response, not parts of one
            # response.
            if self._calls(i) or not self._goes_on(parent):
                self._pulled[i] = self._place(parent)
            return
        # Older writers made the prompt the parent of all calls of a response.
        place = self._on_path.get(parent, ROOT)
        if place != ROOT and place + 1 < len(self._path) and self._calls(i):
            first = self._path[place + 1]
            if self._is_assistant(first) and self._key(first) == self._key(i):
                self._pulled[i] = place + 1

    def _pull_rest(self, beside: Sequence[int]) -> None:
        """Add what follows the added entries in the same response: further calls and attachments.

        Some writers make a quick call's result, or a hook's attachment to a call, the parent of the
        response's next block.
        """
        children: dict[int, list[int]] = {}
        for i in beside:
            if i not in self._pulled:
                children.setdefault(self._links.parents[i], []).append(i)
        turn = [i for i in children if i in self._pulled or self._is_in_response(i)]
        attachments: list[int] = []
        while turn:
            parent = turn.pop()
            for i in children.get(parent, ()):
                if self._is_assistant(i):
                    if parent not in self._on_path:
                        self._pull_call(i)
                    if i in self._pulled:
                        answer = self._extent(self._pulled[i])
                        answer.pulled.append(i)
                        answer.calls |= self._calls(i)
                elif self._is_user(i):
                    if parent not in self._on_path:
                        self._pull_result(i)
                else:
                    answer = self._extent(self._place(parent))
                    self._pulled[i] = answer.start
                    answer.pulled.append(i)
                    attachments.append(i)
                if i in self._pulled and i in children:
                    turn.append(i)
        for i in reversed(attachments):
            if not self._belongs(i, children.get(i, ())):
                self._extent(self._pulled.pop(i)).pulled.remove(i)

    def _belongs(self, attachment: int, children: Sequence[int]) -> bool:
        """Return whether an added attachment belongs to the response.

        With children, the attachment belongs to the response if one of them does, otherwise to
        another branch. Without children, it belongs to the response if it was written before the
        response ended, or before the next response. A prompt may follow a rewind, so that what was
        written before it may belong to another branch.
        """
        if children:
            return any(i in self._pulled for i in children)
        end = self._extent(self._pulled[attachment]).end
        is_continued = end < len(self._path) and self._is_assistant(self._path[end])
        nodes = self._links.nodes
        return nodes[attachment].at < nodes[self._path[end if is_continued else end - 1]].at

    def _is_in_response(self, i: int) -> bool:
        """Return whether an entry is on the path, within a response and its results."""
        place = self._on_path.get(i)
        if place is None:
            return False
        answer = self._extent(place)
        return answer.start <= place < answer.end and self._is_assistant(self._path[answer.start])

    def _goes_on(self, i: int) -> bool:
        """Return whether the path continues from this entry with the same response."""
        place = self._on_path.get(i, len(self._path)) + 1
        if place >= len(self._path) or not self._is_assistant(self._path[place]):
            return False
        return self._key(self._path[place]) == self._key(i)

    def _pull_result(self, i: int) -> None:
        parent = self._links.parents[i]
        results = self._results(i) if self._is_taken(parent) else set()
        if not results:
            return
        answer = self._extent(self._place(parent))
        if results <= answer.calls and not results & answer.answered:
            self._pulled[i] = answer.start
            answer.pulled.append(i)
            answer.answered |= results

    def _extent(self, place: int) -> "_Extent":
        """Return the response that a place on the path is in or follows.

        Must not be called before the calls off the path have been added.
        """
        if place not in self._extents:
            start, end = self._reach(place)
            if start not in self._extents:
                self._extents |= dict.fromkeys(range(start, end), self._whole(start, end))
            self._extents[place] = self._extents[start]
        return self._extents[place]

    def _whole(self, start: int, end: int) -> "_Extent":
        extent = _Extent(start, end)
        for place in range(start, end):
            calls = self._calls_at.get(place, [])
            extent.pulled += calls
            for i in (self._path[place], *calls):
                extent.calls |= self._calls(i)
                extent.answered |= self._results(i)
        return extent

    def _reach(self, place: int) -> tuple[int, int]:
        """Return the range that a response and its results occupy on the path."""
        while place > 0 and not self._is_assistant(self._path[place]):
            place -= 1
        key = self._key(self._path[place])
        start = place
        while start > 0 and self._is_part(self._path[start - 1], key):
            start -= 1
        while not self._is_assistant(self._path[start]) and start < place:
            start += 1  # A result above the response's first entry is not part of the response.
        end = place + 1
        while end < len(self._path) and self._is_part(self._path[end], key):
            end += 1
        return start, end

    def _is_part(self, i: int, key: object) -> bool:
        if self._is_assistant(i):
            return self._key(i) == key
        return self._links.nodes[i].keys.type != "user" or bool(self._results(i))

    def _segments(self) -> list[tuple[list[int], list[int]]]:
        """Return the path, split at each response that entries were added to.

        Each part is a pair of lists: a response's calls, and its other entries.
        """
        segments: list[tuple[list[int], list[int]]] = []
        done = 0
        for start in sorted({self._extent(place).start for place in self._pulled.values()}):
            answer = self._extent(start)
            segments.append((list(self._path[done:start]), []))
            members = [*self._path[start : answer.end], *answer.pulled]
            calls = [i for i in members if self._is_assistant(i)]
            segments.append((calls, [i for i in members if not self._is_assistant(i)]))
            done = answer.end
        segments.append((list(self._path[done:]), []))
        return segments

    def _is_taken(self, i: int) -> bool:
        return i in self._on_path or i in self._pulled

    def _place(self, i: int) -> int:
        return self._on_path[i] if i in self._on_path else self._pulled[i]

    def _is_assistant(self, i: int) -> bool:
        return self._links.nodes[i].keys.type == "assistant"

    def _is_user(self, i: int) -> bool:
        return self._links.nodes[i].keys.type == "user"

    def _key(self, i: int) -> object:
        """Return the key shared by a response's entries.

        The key is the message ID or, if there is none, the first of the consecutive entries
        without an ID.
        """
        row: list[int] = []
        key: object = None
        while key is None:
            if i in self._keys:
                key = self._keys[i]
            else:
                row.append(i)
                message = self._body(self._links.nodes[i]).get("message")
                key = (message.get("id") if isinstance(message, dict) else None) or None
                parent = self._links.parents[i]
                if key is None and (parent == ROOT or not self._is_continued(i, parent)):
                    key = i
                i = parent
        self._keys.update(dict.fromkeys(row, key))
        return key

    def _is_continued(self, i: int, parent: int) -> bool:
        """Return whether an entry without an ID has the key of its parent."""
        return self._is_assistant(parent) or not (self._is_assistant(i) or self._is_user(i))

    def _calls(self, i: int) -> set[str]:
        return set(find_block_ids(self._body(self._links.nodes[i]), "tool_use", "id"))

    def _results(self, i: int) -> set[str]:
        return set(find_block_ids(self._body(self._links.nodes[i]), "tool_result", "tool_use_id"))


class _Extent:
    """A response on the path.

    It has a range on the path, the entries pulled into it, its calls, and the IDs of answered
    calls.
    """

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.pulled: list[int] = []
        self.calls: set[str] = set()
        self.answered: set[str] = set()


def sorted_in(members: Sequence[int], links: Links) -> list[int]:
    """Return entries in file order, but never before their parents."""
    ordered = sorted(members, key=lambda i: links.nodes[i].at)
    rank = {i: place for place, i in enumerate(ordered)}
    if all(rank.get(links.parents[i], -1) < place for i, place in rank.items()):
        return ordered
    depths = _depths(ordered, links, rank)
    return sorted(ordered, key=depths.__getitem__)


def _depths(members: Sequence[int], links: Links, within: dict[int, int]) -> dict[int, int]:
    """Return how many ancestors each entry has among the members."""
    depths: dict[int, int] = {}
    for member in members:
        way: list[int] = []
        i = member
        while i in within and i not in depths:
            way.append(i)
            i = links.parents[i]
        above = depths.get(i, 0)
        for steps, passed in enumerate(reversed(way), 1):
            depths[passed] = above + steps
    return depths
