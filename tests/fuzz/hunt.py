"""The hunt: generate, judge, and let bash run what was allowed.

Owns the loop of one worker and what counts as a finding. It is deterministic: a worker's lines
follow from the seed and its number alone, and a finding names both.
"""

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from clew.permissions import reading
from clew.permissions.grammar import RESERVED, Unread, read_line
from clew.permissions.request import Mode
from clew.permissions.rules import RuleSet
from tests.fuzz import grammar
from tests.fuzz.box import Box, Seen
from tests.fuzz.holes import HOLES, close
from tests.fuzz.reading import BLANKS, Comparison
from tests.fuzz.shrink import shrink
from tests.permissions.configurations import CONFIGURATIONS

ROUND = 4000
BATCH = 128
MOST_KEPT = 6000
# A line outside the grammar cannot be allowed; one of so many is judged in full all the same.
SAMPLE = 20

# How often each configuration is drawn. Most lines are judged where most is allowed.
WEIGHTS = {
    "readers, deny": 45,
    "deny": 20,
    "no rules": 10,
    "writers, deny": 10,
    "acceptEdits, deny": 8,
    "plan, deny": 4,
    "auto, deny": 3,
}
# What these allow, `readers` allows as well: it has all their allow rules and denies nothing.
NARROWER = frozenset({"readers, deny", "deny", "no rules"})
# Programs that answer these without looking at the project.
VERSIONS = re.compile(
    r"(?:[\w./-]*/)?(?:python3?|node|gcc|g\+\+|clang|make|cmake|docker|ruby|perl|php|java|javac|bash"
    r"|zsh|jq|git|rg|ruff|uv|mypy|tsc|npm|pip3?)(?: --version| -version| -V| -v)?"
)
# What the readers start by themselves.
OWN = re.compile(
    r"sh /usr/lib/git-core/git-submodule status\b.*|(?:free|uptime|groups|logname)\b.*"
    r"|perl /usr/bin/shasum\b.*"
)
# What mode acceptEdits allows.
EDITING = frozenset({"touch", "mkdir", "rm", "rmdir", "mv", "cp", "ln", "chmod"})
# These bring the index up to date on their way, which changes nothing that it says.
REFRESHING = re.compile(r"\bgit\b.*\b(?:diff|describe|status)\b", re.S)


# A line, what was done to make it, and the configuration that allows it.
Allowed = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A line that was allowed and is not harmless."""

    line: str
    configuration: str
    classes: tuple[str, ...]
    did: str
    seed: str

    def describe(self) -> str:
        quoted = shell_quoted(self.line)
        return (
            f"{quoted}\n"
            f"  it {self.did}\n"
            f"  allowed under: {self.configuration}\n"
            f"  mutations: {', '.join(self.classes) or 'none'}; seed {self.seed}\n"
            f"  again: .venv/bin/python -m tests.fuzz --line {quoted}"
            f" --rules '{self.configuration}'\n"
        )


@dataclass(kw_only=True)
class Tally:
    """How many lines were judged, read by both readers, allowed, and run."""

    judged: int = 0
    compared: int = 0
    allowed: int = 0
    run: int = 0
    findings: int = 0

    def describe(self) -> str:
        return (
            f"{self.judged:,} lines judged, {self.allowed:,} allowed, {self.run:,} run by bash, "
            f"{self.compared:,} readings compared, {self.findings:,} findings"
        )


class Hunter:
    """One worker. `rounds` yields findings; `tally` counts."""

    def __init__(
        self, seed: int, number: int, *, shrinks: bool = True, hole: str | None = None
    ) -> None:
        self.seed = f"{seed}/{number}"
        self.rng = Random(f"clew/{self.seed}")
        self.folder = tempfile.TemporaryDirectory(prefix="clew-fuzz-")
        self.box = Box(Path(self.folder.name) / "box")
        self.shrinks = shrinks
        self.hole = hole
        if hole is not None:
            HOLES[hole]()
        self.world = self.box.world
        self.rules: dict[str, tuple[RuleSet, Mode]] = {
            name: (self.world.rules(**lists), mode)
            for name, (lists, mode) in CONFIGURATIONS.items()
        }
        self.names = [n for n, weight in WEIGHTS.items() for _ in range(weight)]
        self.tally = Tally()
        self.after_round: Callable[[], None] = lambda: None
        self.known: set[str] = set()
        self.read: set[str] = set()
        self.unread = 0
        self.comparison = Comparison(self.box)
        self.pool: list[tuple[str, tuple[str, ...]]] = [
            (line.replace("/repo", "."), ())
            for name in (*ATTACKS, "never_allowed.txt", "allowed.txt", "usual.txt")
            for line in grammar.read_corpus(name)
        ]
        self.fixed = len(self.pool)

    def close(self) -> None:
        self.box.close()
        self.folder.cleanup()

    def lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Lines without end: from the grammars, and mutations of lines met before."""
        rng = self.rng
        while True:
            if rng.random() < 0.2:
                yield grammar.line(rng), ()
                continue
            attack = rng.random() < 0.6
            text, classes = self.pool[rng.randrange(self.fixed if attack else len(self.pool))]
            for _ in range(1 + int(rng.random() ** 2 * 4)):
                name, mutate = grammar.MUTATIONS[rng.randrange(len(grammar.MUTATIONS))]
                text = mutate(rng, text)
                classes = (*classes, name)
            if len(text) < 400:
                yield text, classes[-4:]

    def rounds(self, until: float) -> Iterator[Finding]:
        """Judge and run until the time (of `time.monotonic`) has come."""
        source = self.lines()
        while time.monotonic() < until:
            waiting: dict[str, list[Allowed]] = {}
            readings: list[tuple[str, tuple[str, ...]]] = []
            for _ in range(ROUND):
                text, classes = next(source)
                drawn = self.names[self.rng.randrange(len(self.names))]
                self.tally.judged += 1
                if not self.is_worth_judging(text):
                    continue
                name = self.allowed_under(text, drawn)
                # Only a line that is allowed may not be read otherwise; of others some, because
                # another configuration may allow them.
                if (name or not self.rng.randrange(SAMPLE)) and self.is_new_reading(text):
                    readings.append((text, classes))
                if name is None:
                    continue
                self.tally.allowed += 1
                self.keep(text, classes)
                if self.is_new(text):
                    waiting.setdefault(group_of(name), []).append((text, classes, name))
                if time.monotonic() > until:
                    break
            yield from self.compare(readings)
            for lines in waiting.values():
                yield from self.check(lines)
            self.after_round()

    def allowed_under(self, text: str, drawn: str) -> str | None:
        """The configuration that allows a line: the one drawn, or the one that allows most.

        Where files are denied more is asked; programs start all the same.
        """
        if self.allows(text, "readers"):
            return drawn if self.allows(text, drawn) else "readers"
        if drawn in NARROWER and self.rng.randrange(SAMPLE):
            return None
        return drawn if self.allows(text, drawn) else None

    def is_worth_judging(self, text: str) -> bool:
        """Whether the grammar reads a line, and sometimes where it does not."""
        if not isinstance(reading.read_line(text.strip(BLANKS)), Unread):
            return True
        self.unread += 1
        return self.unread % SAMPLE == 0

    def keep(self, text: str, classes: tuple[str, ...]) -> None:
        """An allowed line is the best root for others."""
        if len(self.pool) < MOST_KEPT:
            self.pool.append((text, classes))
        else:
            self.pool[self.rng.randrange(self.fixed, MOST_KEPT)] = (text, classes)

    def compare(self, readings: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Finding]:
        if self.hole is not None:
            return
        found = dict(self.comparison.differences([text for text, _ in readings]))
        self.tally.compared += len(readings)
        for text, classes in readings:
            # A line that is never allowed may be read as it likes.
            if text in found and any(self.allows(text, name) for name in self.rules):
                self.tally.findings += 1
                did = f"is read otherwise by bash, which runs: {found[text]}"
                yield Finding(
                    line=text, configuration="reading", classes=classes, did=did, seed=self.seed
                )

    def is_new_reading(self, text: str) -> bool:
        """Whether no line with the same signs between its words was compared."""
        skeleton = PLAIN.sub(lambda m: m[0] if m[0] in grammar_words else "w", text)
        skeleton = MORE_WORDS.sub("w w", skeleton)
        if skeleton in self.read:
            return False
        if len(self.read) > 500_000:
            self.read.clear()
        self.read.add(skeleton)
        return True

    def allows(self, text: str, name: str) -> bool:
        rules, mode = self.rules[name]
        try:
            return self.world.judge(text, rules, mode) == "allow"
        except UnicodeEncodeError:
            return False

    def is_new(self, text: str) -> bool:
        """Whether a part of the line has a shape that was not run: plain words are alike."""
        if len(self.known) > 500_000:
            self.known.clear()
        new = [shape for shape in shapes_of(text) if shape not in self.known]
        self.known.update(new)
        return bool(new)

    def check(self, lines: Sequence[Allowed]) -> Iterator[Finding]:
        """Run lines of one group, and yield those that do harm each time."""
        for start in range(0, len(lines), BATCH):
            part = lines[start : start + BATCH]
            may_open = "deny" not in part[0][2]
            seen = self.box.run([text for text, _, _ in part], may_open=may_open)
            self.tally.run += len(part)
            for (text, classes, name), one in zip(part, seen, strict=True):
                if (
                    harm(one, text, name)
                    and self.needs_hole(text, name)
                    and any(self.harm_of(text, name) for _ in range(3))
                ):
                    self.tally.findings += 1
                    yield self.finding(text, classes, name)

    def needs_hole(self, text: str, name: str) -> bool:
        """Whether a line is allowed only because of the open hole, if one is."""
        if self.hole is None:
            return True
        close()
        allowed = self.allows(text, name)
        HOLES[self.hole]()
        return not allowed

    def finding(self, text: str, classes: tuple[str, ...], name: str) -> Finding:
        if self.shrinks:

            def is_finding(candidate: str) -> bool:
                return self.allows(candidate, name) and bool(self.harm_of(candidate, name))

            text = shrink(text, is_finding)
        did = self.harm_of(text, name) or "did harm once, and not again"
        return Finding(line=text, configuration=name, classes=classes, did=did, seed=self.seed)

    def harm_of(self, text: str, name: str) -> str:
        return harm(self.box.run([text], may_open="deny" not in name)[0], text, name)


def group_of(name: str) -> str:
    """Lines that are run together: who opens files, and who may write, is judged by the batch."""
    if name.startswith("acceptEdits"):
        return "writing"
    return "denying" if "deny" in name else "open"


ATTACKS = ("readings.txt", "tables.txt", "tables_writing.txt", "denied.txt")


def harm(seen: Seen, text: str, configuration: str) -> str:
    """What a line did that it must not do under a configuration; empty if nothing."""
    parts: list[str] = []
    trips = [
        t for t in seen.trips if not (VERSIONS.fullmatch(t.strip()) or OWN.fullmatch(t.strip()))
    ]
    if configuration.startswith("acceptEdits"):
        trips = [t for t in trips if t.partition(" ")[0] not in EDITING]
    if configuration.startswith("writers"):
        trips = [
            t for t in trips if not t.startswith(("npm run lint", "make check", "pytest tests"))
        ]
    if trips:
        parts.append("ran " + ", ".join(trips[:3]))
    writes = [w for w in seen.writes if not allowed_write(w, configuration)]
    if REFRESHING.search(text):
        writes = [w for w in writes if w not in ("/work/.git/index", "/work/.git/index.lock")]
    if writes:
        parts.append("wrote " + ", ".join(writes[:3]))
    if "deny" in configuration:
        if seen.opened:
            parts.append("opened " + ", ".join(seen.opened[:3]))
        if seen.shown:
            parts.append("printed the content of a denied file")
    if seen.network:
        parts.append("tried to connect")
    return "; ".join(parts)


def allowed_write(path: str, configuration: str) -> bool:
    """Mode acceptEdits lets files of the workspace change, those of tools and git apart."""
    return (
        configuration.startswith("acceptEdits")
        and path.startswith("/work")
        and not re.search(r"/\.(?:git|claude|mcp|env|husky|vscode)|/secrets", path)
    )


SHAPE = re.compile(r"(?<![-\w./$\\'\"{\[*?<>=:@~])[a-z][\w./]*(?=[ \n]|$)")


def shapes_of(text: str) -> list[str]:
    """The shapes of the commands of a line, and of the whole where its parts have to do with each other."""
    script = read_line(text.strip(BLANKS))
    if isinstance(script, Unread):
        return [shape_of(text)]
    shapes = [shape_of(c.raw) for c in script.commands]
    joined = script.redirects or script.assignments or JOINED.search(text)
    return [*shapes, shape_of(text)] if joined else shapes


# Words after which the parts of a line depend on each other.
JOINED = re.compile(r"\b(?:cd|xargs|export|read|printf|set|shopt|pushd)\b|\$")


def shape_of(text: str) -> str:
    """A line with its plain operands alike. Names of programs keep their place."""
    return re.sub(
        r"\d+",
        "0",
        SHAPE.sub(lambda m: m[0] if m[0] in known_words or "env" in m[0] else "w", text),
    )


known_words = frozenset(grammar.PROGRAMS) | frozenset(grammar.SUBCOMMANDS)
grammar_words = RESERVED | {"time", "!", "eval", "builtin", "-p"}
MORE_WORDS = re.compile(r"(?<!\S)w(?: w)+(?!\S)")
PLAIN = re.compile(r"[A-Za-z0-9_./:,+@%^-]+")


def shell_quoted(text: str) -> str:
    """A line as a word of bash that shows every character."""
    if text.isprintable() and "'" not in text:
        return f"'{text}'"
    signs = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
    return (
        "$'"
        + "".join(
            signs.get(c, c if c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode()))
            for c in text
        )
        + "'"
    )


def describe_line(line: str, configuration: str) -> str:
    """What clew says of one line, and what the line does; see `make fuzz`."""
    hunter = Hunter(0, 0)
    try:
        read = hunter.comparison.differences([line])
        verdicts = [
            f"  {name}: {hunter.world.judge(line, rules, mode)}\n"
            for name, (rules, mode) in hunter.rules.items()
        ]
        seen = hunter.box.run([line])[0]
        did = harm(seen, line, configuration) or "did no harm"
        reading = f"bash runs: {read[0][1]}" if read else "no command is read otherwise by bash"
        return (
            f"{shell_quoted(line)}\n{''.join(verdicts)}  {reading}\n"
            f"  under '{configuration}' it {did}\n{seen.output[:2000]}\n"
        )
    finally:
        hunter.close()
