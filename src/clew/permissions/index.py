"""Indexes that find the few rules that can apply to a request.

Owns two indexes. Commands are indexed by the first literal word of a rule. Paths are indexed by the
base folder of a pattern or, for a pattern that matches at any depth, by its literal name. A rule's
regular expression is compiled when the rule first becomes a candidate, so loading rules compiles
nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from clew.core.regex import lazy_pattern
from clew.permissions.patterns import (
    GLOB,
    make_command_regex,
    make_path_regex,
    may_meet,
    normalize_text,
    read_literal_head,
)
from clew.permissions.request import ResolvedPath

if TYPE_CHECKING:
    from clew.permissions.rules import PermissionRule


# `*.pem` is indexed by the text after the last dot.
ENDING = lazy_pattern(r"\*\.[^*?\[\]\\.]+")

MAX_FOLDERS = 1_000


class CommandEntry:
    """A rule for commands, with its pattern.

    `exact` means that the pattern has no star; `head` is the literal text before its first star.
    """

    __slots__ = ("_regex", "exact", "head", "pattern", "rule")

    def __init__(self, rule: "PermissionRule", pattern: str) -> None:
        self.rule = rule
        self.pattern = pattern
        self.exact = "*" not in pattern
        self.head = read_literal_head(pattern)
        self._regex: re.Pattern[str] | None = None

    def matches(self, text: str) -> bool:
        if self.exact:
            return self.pattern == text
        if self._regex is None:
            self._regex = make_command_regex(self.pattern)
        return self._regex.fullmatch(text) is not None


class CommandIndex:
    def __init__(self) -> None:
        self.size = 0
        self._by_word: dict[str, list[CommandEntry]] = {}
        self._open: list[CommandEntry] = []

    def add(self, rule: "PermissionRule", pattern: str) -> None:
        entry = CommandEntry(rule, pattern.strip())
        self.size += 1
        words = entry.head.split()
        # The first word is complete if whitespace, `:*` or the end of the rule follows it.
        closed = len(words) > 1 or entry.exact or entry.head[-1:].isspace()
        if words and (closed or entry.pattern == f"{entry.head}:*"):
            self._by_word.setdefault(words[0], []).append(entry)
        else:
            self._open.append(entry)

    def find(self, texts: Iterable[str], *, untrusted: bool) -> CommandEntry | None:
        """Return the first rule that matches one of the given spellings of a command, or None."""
        for text in texts:
            for entry in self.candidates(text):
                if (untrusted or not entry.rule.after_untrusted) and entry.matches(text):
                    return entry
        return None

    def candidates(self, text: str) -> Iterator[CommandEntry]:
        word = text.split(maxsplit=1)
        if word:
            yield from self._by_word.get(word[0], ())
        yield from self._open


class PathEntry:
    """The pattern of a rule in absolute form: its base folder and the segments below it."""

    __slots__ = ("_folded", "_plain", "base", "floating", "restrains", "rule", "segments")

    def __init__(
        self,
        rule: "PermissionRule",
        base: str,
        segments: tuple[str, ...],
        *,
        floating: bool,
        restrains: bool,
    ) -> None:
        self.rule = rule
        self.base = base
        self.segments = segments
        self.floating = floating
        self.restrains = restrains
        self._plain: re.Pattern[str] | None = None
        self._folded: re.Pattern[str] | None = None

    def matches(self, path: str, *, folds_case: bool) -> bool:
        """Return whether the pattern matches the path or a folder that contains it."""
        pattern = self._folded if folds_case else self._plain
        if pattern is None:
            source = make_path_regex(
                normalize_text(self.base),
                tuple(normalize_text(s) for s in self.segments),
                floating=self.floating,
                itself=self.restrains,
            )
            pattern = re.compile(source, re.S | re.I if folds_case else re.S)
            if folds_case:
                self._folded = pattern
            else:
                self._plain = pattern
        return pattern.fullmatch(normalize_text(path)) is not None

    def from_root(self) -> tuple[str, ...]:
        """Return the pattern as segments from the root folder."""
        between = ("**",) if self.floating else ()
        last = () if self.segments[-1:] == ("**",) else ("**",)
        return (*split(self.base), *between, *self.segments, *last)


def split(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


class PathIndex:
    def __init__(self) -> None:
        self.size = 0
        self.entries: list[PathEntry] = []
        self._fixed: dict[str, list[PathEntry]] = {}
        self._named: dict[str, list[PathEntry]] = {}
        self._ending: dict[str, list[PathEntry]] = {}
        # Candidates for the parts of a folder. They are cached, because the paths of one call share
        # few folders.
        self._above: dict[str, tuple[str, tuple[PathEntry, ...]]] = {}

    def add(
        self,
        rule: "PermissionRule",
        pattern: str,
        *,
        root: str,
        cwd: str,
        home: str,
        restrains: bool,
        spellings: Callable[[str], tuple[str, ...]] = lambda folder: (folder,),
    ) -> None:
        base, anchored, segments = place(pattern, root=root, cwd=cwd, home=home)
        # Restraining patterns match at any depth unless they name the folder where they begin.
        floating = not anchored and (restrains or len(segments) == 1)
        if segments[:1] == ("**",) and len(segments) > 1:
            floating, segments = True, segments[1:]
        while not floating and segments and segments[0] != "**" and not GLOB.search(segments[0]):
            base, segments = f"{base.rstrip('/')}/{segments[0]}", segments[1:]
        self.size += 1
        for name in dict.fromkeys((base, *(spellings(base) if restrains else ()))):
            self._file(PathEntry(rule, name, segments, floating=floating, restrains=restrains))

    def _file(self, entry: PathEntry) -> None:
        self._above.clear()
        self.entries.append(entry)
        first = normalize_text(entry.segments[0]).casefold() if entry.segments else ""
        if entry.floating and first and not GLOB.search(first):
            self._named.setdefault(first, []).append(entry)
        elif entry.floating and ENDING.fullmatch(first):
            self._ending.setdefault(first.rpartition(".")[2], []).append(entry)
        else:
            self._fixed.setdefault(normalize_text(entry.base).casefold(), []).append(entry)

    def candidates(self, path: str) -> Sequence[PathEntry]:
        if not self.entries:
            return ()
        folder, _, name = normalize_text(path).casefold().rstrip("/").rpartition("/")
        above = self._above.get(folder)
        if above is None:
            if len(self._above) >= MAX_FOLDERS:
                self._above.clear()
            above = self._above[folder] = self._along(split(folder))
        around, entries = above
        at = self._at(around, name) if name else ()
        return (*entries, *at) if at else entries

    def _along(self, parts: tuple[str, ...]) -> tuple[str, tuple[PathEntry, ...]]:
        """Return the normalized name of a folder, and the entries that may match its parts."""
        around = ""
        entries = list(self._fixed.get("/", ()))
        for part in parts:
            entries += self._at(around, part)
            around = f"{around}/{part}"
        return around, tuple(entries)

    def _at(self, around: str, part: str) -> list[PathEntry]:
        entries = [*self._fixed.get(f"{around}/{part}", ()), *self._named.get(part, ())]
        if self._ending and "." in part:
            entries += self._ending.get(part.rpartition(".")[2], ())
        return entries

    def find(self, path: ResolvedPath, tool: str, *, untrusted: bool) -> "PermissionRule | None":
        """Return the first rule that matches any spelling of the path, or None."""
        for name in path.names:
            for entry in self.candidates(name):
                if applies(entry.rule, tool, untrusted=untrusted) and entry.matches(
                    name, folds_case=path.folds_case
                ):
                    return entry.rule
        return None

    def find_for_all(self, path: ResolvedPath, tool: str) -> "PermissionRule | None":
        """Return a rule for the path as written; None unless every other spelling has one too."""
        match: PermissionRule | None = None
        for name in path.names:
            rule = next(
                (
                    entry.rule
                    for entry in self.candidates(name)
                    if applies(entry.rule, tool, untrusted=True)
                    and entry.matches(name, folds_case=False)
                ),
                None,
            )
            if rule is None:
                return None
            match = match or rule
        return match

    def may_touch(self, pattern: str, *, untrusted: bool) -> "PermissionRule | None":
        """Return the first rule that could match a file matched by an absolute shell pattern.

        Return None if there is none.
        """
        segments = split(normalize_text(pattern).casefold())
        for entry in self.entries:
            if (untrusted or not entry.rule.after_untrusted) and may_meet(
                segments, tuple(normalize_text(s).casefold() for s in entry.from_root())
            ):
                return entry.rule
        return None


def applies(rule: "PermissionRule", tool: str, *, untrusted: bool) -> bool:
    """Return whether a path rule applies to the given tool.

    A restraining rule applies to all tools of its family, and so does an allow rule for `Read` or
    `Edit`. An allow rule for `Write`, `Grep` or another file tool applies to that tool only.
    """
    if rule.after_untrusted and not untrusted:
        return False
    return rule.behavior != "allow" or rule.tool in ("Read", "Edit", tool)


def place(pattern: str, *, root: str, cwd: str, home: str) -> tuple[str, bool, tuple[str, ...]]:
    """Return the base folder of a path pattern, whether it is anchored, and its segments."""
    pattern = pattern.strip()
    if pattern.startswith("//"):
        return "/", True, cleaned(pattern)
    if pattern == "~" or pattern.startswith("~/"):
        return home, True, cleaned(pattern[1:])
    if pattern.startswith("/"):
        return root, True, cleaned(pattern)
    base, anchored = cwd, pattern.startswith(("./", "../"))
    segments = cleaned(pattern)
    while segments[:1] == ("..",):
        base, segments = base.rpartition("/")[0] or "/", segments[1:]
    return base, anchored, segments


def cleaned(pattern: str) -> tuple[str, ...]:
    return tuple(part for part in pattern.split("/") if part not in ("", "."))
