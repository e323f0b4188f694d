"""Which memory files may not be sent to the model, and why.

Owns the judgement: rules that deny or ask for Read hold for every spelling of a file, the real one behind
links included, because nobody is asked about a memory file; and what an untrusted project links to outside
of itself stays there. A folder's own rules say nothing about your own instructions or an organisation's.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clew.config.layers import OF_THE_FOLDER
from clew.config.trust import trusts
from clew.permissions.protected import why_protected_read
from clew.permissions.request import ResolvedPath
from clew.permissions.rules import Behavior, Rule, RuleSet
from clew.permissions.session_rules import Standing

if TYPE_CHECKING:
    from clew.context.memory import Layer

RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")
CONFIGURATION = ".claude"


class MemoryGate:
    """Asked for each file before it is read. What an untrusted project may not send is news, once each."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing
        self._news: dict[str, None] = {}
        self._told: set[str] = set()

    def refusal(self, path: Path, root: Path, layer: "Layer") -> str | None:
        """Return why a file may not be sent; `root` is the project's folder."""
        if layer == "managed":
            return None
        standing = self._standing()
        resolved = standing.resolve(str(path))
        rule = _restraint(standing.rules, resolved, own=layer == "user")
        if rule is not None:
            return rule.says
        if layer == "user":
            return None
        if not resolved.known:
            return "it cannot be told which file this is"
        why = why_protected_read(resolved) or _leads_out(standing, resolved, path, root)
        if why is not None:
            self._news[f"{path} is not sent to the model: {why}"] = None
        return why

    def refusal_of_link(self, path: Path, root: Path, layer: "Layer") -> str | None:
        """Return the same for a skill, command or agent, which is judged only where a link leads to its file."""
        return None if os.path.realpath(path) == str(path) else self.refusal(path, root, layer)

    def news(self) -> tuple[str, ...]:
        """Return what you should know of and were not told yet, in one sentence."""
        found = [line for line in self._news if line not in self._told]
        self._told.update(found)
        if not found:
            return ()
        more = f" (and {len(found) - 1} more: clew memory explain)" if len(found) > 1 else ""
        return (found[0] + more,)


def _restraint(rules: RuleSet, path: ResolvedPath, *, own: bool) -> Rule | None:
    found = _first(rules, path)
    if found is None or not own or found.source.scope not in OF_THE_FOLDER:
        return found
    of_others = [rule for rule in rules.rules if rule.source.scope not in OF_THE_FOLDER]
    return _first(RuleSet(of_others, anchors=rules.anchors), path)


def _first(rules: RuleSet, path: ResolvedPath) -> Rule | None:
    asked = (
        rules.paths[behavior, "read"].find(path, "", untrusted=False) for behavior in RESTRAINING
    )
    return next((rule for rule in asked if rule is not None), None)


def _leads_out(standing: Standing, resolved: ResolvedPath, path: Path, root: Path) -> str | None:
    folder = _home_of(path, root)
    if Path(resolved.real).is_relative_to(os.path.realpath(folder)):
        return None
    if trusts(standing.places, root):
        return None
    return f"it is a link to {resolved.real}, and {root} is not trusted"


def _home_of(path: Path, root: Path) -> Path:
    """The folder that a memory file belongs to: the project, or one above it that has its own."""
    if path.is_relative_to(root):
        return root
    parents = path.parents
    configured = next((each for each in parents if each.name == CONFIGURATION), None)
    return parents[0] if configured is None else configured.parent
