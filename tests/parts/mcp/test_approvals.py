"""Approvals of a project's servers: they are for exactly what the user approved."""

from hashlib import sha256
from itertools import count

from clew.parts.mcp.content import as_json
from clew.parts.mcp.scopes import ServerChoices, mark


def test_an_approval_covers_no_other_entry_with_the_same_beginning_of_a_digest() -> None:
    """A project's author can prepare two such entries in a second."""
    seen: dict[str, dict[str, object]] = {}
    for number in count():
        entry: dict[str, object] = {"command": "serve", "args": [number]}
        short = sha256(as_json(entry).encode()).hexdigest()[:6]
        if short in seen:
            break
        seen[short] = entry
    approved = seen[short]
    choices = ServerChoices(approved={"s": mark(approved)})
    assert choices.says("s", approved) is True
    assert choices.says("s", entry) is None
    assert len(mark(entry)) == 64
