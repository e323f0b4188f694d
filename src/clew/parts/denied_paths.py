"""Find the existing paths that deny rules match, for a sandbox that does not support patterns.

Search the session's own folders, and any folder that a rule names before its first pattern, but
never the entire disk. Other paths are protected only by the rules themselves.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.permissions.index import place
from clew.permissions.patterns import GLOB, expand_braces, find_original, make_path_regex
from clew.permissions.rules import PermissionRule, RuleSet
from clew.permissions.session_rules import CurrentRules
from clew.system.sandbox.protected_paths import Listing

Access: TypeAlias = Literal["read", "edit"]
TOOLS: dict[Access, str] = {"read": "Read", "edit": "Edit"}
# A limit for folders that a rule names, which may be large; the session's own are searched
# completely.
ELSEWHERE_ENTRIES = 20_000


class Sought(Struct, frozen=True, kw_only=True):
    """The deny rules for one kind of access, prepared for the search.

    `paths` are the literal paths, `names` is a pattern for all others, and `tops` are the folders
    to search in addition to the session's own.
    """

    paths: tuple[str, ...]
    names: re.Pattern[str] | None
    tops: tuple[str, ...]


class DeniedFiles:
    """Finds the existing files and folders that deny rules match.

    The search is repeated for each command, because files come and go; folders that have not
    changed are not read again.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._sought: dict[Access, tuple[RuleSet, Sought]] = {}

    def named(self, standing: CurrentRules, access: Access) -> list[str]:
        """Return the existing paths that deny rules forbid commands to read or to write."""
        cached = self._sought.get(access)
        if cached is None or cached[0] is not standing.rules:
            cached = (standing.rules, sought(standing, access))
            self._sought[access] = cached
        wanted = cached[1]
        paths = [path for path in wanted.paths if os.path.lexists(path)]
        for tree in self._worktrees(standing):
            original = find_original(tree)
            inner = (path for path in wanted.paths if path.startswith(f"{original}/"))
            copies = (tree + path[len(original) :] for path in inner)
            paths += filter(os.path.lexists, copies)
            if wanted.names is not None:
                paths += self._listing.named(tree, wanted.names, original=original)
        if wanted.names is not None:
            for root in standing.context.roots:
                paths += self._listing.named(root, wanted.names)
            for top in wanted.tops:
                paths += self._listing.named(top, wanted.names, most=ELSEWHERE_ENTRIES)
        return paths

    def _worktrees(self, standing: CurrentRules) -> Iterator[str]:
        """Yield clew's worktrees that contain a folder of the session or are inside one."""
        for root in dict.fromkeys((*standing.context.roots, str(standing.places.root))):
            if find_original(root):
                yield root
            folder = f"{root.rstrip('/')}/.claude/worktrees"
            for name, kind in self._listing.entries(folder):
                if kind == "folder":
                    yield f"{folder}/{name}"


def sought(standing: CurrentRules, access: Access) -> Sought:
    rules = [
        rule
        for rule in standing.rules.rules
        if rule.behavior == "deny" and rule.kind == "path" and rule.tool == TOOLS[access]
    ]
    paths: list[str] = []
    patterns: list[str] = []
    elsewhere: set[str] = set()
    roots = list(standing.context.roots)
    for base, floating, segments in placed(rules, standing):
        head = heads(segments)
        if not floating and len(head) == len(segments):
            paths.append("/".join([base.rstrip("/"), *segments]) or "/")
            continue
        patterns.append(make_path_regex(base, segments, floating=floating, itself=True))
        top = "/".join([base.rstrip("/"), *head])
        if head and not inside(top, roots):
            elsewhere.add(top)
    names = (
        re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.S) if patterns else None
    )
    return Sought(
        paths=tuple(path for path in paths if path != "/"),
        names=names,
        tops=tuple(sorted(elsewhere)),
    )


def placed(
    rules: Iterable[PermissionRule], standing: CurrentRules
) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Yield the parts of each rule's pattern.

    The parts are the base folder, whether the pattern may match at any depth, and the segments.
    """
    context = standing.context
    for rule in rules:
        for text in expand_braces(rule.content or ""):
            base, anchored, segments = place(
                text, root=rule.root, cwd=context.cwd, home=context.home
            )
            yield base, not anchored, segments


def heads(segments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the segments before the first one that contains a wildcard."""
    first = next((i for i, part in enumerate(segments) if GLOB.search(part)), len(segments))
    return segments[:first]


def inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)
