"""What deny rules name on the disk as it is, for walls that know no patterns.

Owns how far is looked: below the session's own folders, and below a folder that a rule names before its
first pattern; never over the whole disk. What lies elsewhere is the rules' own to refuse.
"""

import os
import re
from collections.abc import Iterable, Iterator

from clew.permissions.index import place
from clew.permissions.patterns import GLOB, braces, path_regex
from clew.permissions.rules import Rule
from clew.permissions.session_rules import Standing

# A folder that a rule names may be large; the session's own are looked through whole.
ELSEWHERE_ENTRIES = 20_000


def denied(standing: Standing, access: str) -> list[str]:
    """Files and folders that no command may read, or write; a folder stands for all that is in it."""
    tool = {"read": "Read", "edit": "Edit"}[access]
    rules = [
        rule
        for rule in standing.rules.rules
        if rule.behavior == "deny" and rule.kind == "path" and rule.tool == tool
    ]
    named: list[str] = []
    patterns: list[str] = []
    elsewhere: set[str] = set()
    roots = list(standing.context.roots)
    for base, floating, segments in placed(rules, standing):
        head = heads(segments)
        if not floating and len(head) == len(segments):
            named.append("/".join([base.rstrip("/"), *segments]) or "/")
            continue
        patterns.append(path_regex(base, segments, floating=floating, itself=True))
        top = "/".join([base.rstrip("/"), *head])
        if head and not inside(top, roots):
            elsewhere.add(top)
    found = [path for path in named if path != "/" and os.path.lexists(path)]
    if patterns:
        names = re.compile("|".join(f"(?:{one})" for one in patterns), re.S)
        for root in roots:
            found += below(root, names, most=None)
        for top in sorted(elsewhere):
            found += below(top, names, most=ELSEWHERE_ENTRIES)
    return found


def placed(
    rules: Iterable[Rule], standing: Standing
) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Where each rule's pattern stands, whether it floats below that, and its segments."""
    context = standing.context
    for rule in rules:
        for text in braces(rule.content or ""):
            base, anchored, segments = place(
                text, root=rule.root, cwd=context.cwd, home=context.home
            )
            yield base, not anchored, segments


def heads(segments: tuple[str, ...]) -> tuple[str, ...]:
    """The segments before the first pattern."""
    first = next((i for i, part in enumerate(segments) if GLOB.search(part)), len(segments))
    return segments[:first]


def inside(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def below(top: str, names: re.Pattern[str], *, most: int | None) -> Iterator[str]:
    """What is named at or below a folder; nothing is looked for in what is named already."""
    if names.fullmatch(top):
        yield top
        return
    seen = 0
    for folder, folders, files in os.walk(top):
        seen += len(folders) + len(files)
        for name in (*folders, *files):
            path = f"{folder.rstrip('/')}/{name}"
            if names.fullmatch(path):
                yield path
                if name in folders:
                    folders.remove(name)
        if most is not None and seen > most:
            return
