"""Skills and plugins: the cost of many of them at the start and in the context, and of one call."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.measure import Figure, cpu_s, growth
from clew.core.normalize.tokens import estimate_text_tokens
from clew.parts.plugins.store import compute_fingerprint
from clew.parts.skills.expand import expand
from clew.parts.skills.folders import SkillFolder, SkillLibrary
from clew.parts.skills.listing import make_listing_fact
from clew.system.config import frontmatter

MANY = 500
HEAD = """\
---
name: skill-number-{i}
description: Does one thing or another to the files of a project, when it is asked for or a test fails.
allowed-tools: Read, Bash(git diff:*)
---
"""
BODY = "A line of what is to be done, and how it can be checked.\n" * 100


def make(folder: Path, count: int) -> None:
    for i in range(count):
        path = folder / "skills" / f"skill-number-{i}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD.format(i=i) + BODY, "utf-8")


def shelf(folder: Path) -> SkillLibrary:
    found = SkillLibrary([SkillFolder(folder=folder, origin="user")])
    found.all()
    return found


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as made:
        many, few = Path(made, "many"), Path(made, "few")
        make(many, MANY)
        make(few, MANY // 10)
        spent_s = cpu_s(lambda: shelf(many), runs=9)
        yield Figure(
            name=f"listing {MANY} skills at the start",
            value=spent_s * 1000,
            unit="ms CPU",
            at_most=20,
        )
        ratio = growth(lambda: shelf(few), lambda: shelf(many))
        yield Figure(name="ten times as many skills", value=ratio, unit="x", at_most=11)
        fact = make_listing_fact((), shelf(many).all().values())
        assert fact is not None
        yield Figure(
            name=f"text for the model about {MANY} skills",
            value=estimate_text_tokens("\n".join(fact.rendered)),
            unit="tokens",
            at_most=2000,
            note=f"{len(fact.payload['skills'])} by name, the rest by search",
        )
        text = HEAD.format(i=1) + BODY
        ours = cpu_s(lambda: [frontmatter.read(text) for _ in range(1000)])
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        head = text.split("---\n")[1]
        theirs = cpu_s(lambda: [yaml.load(head, loader) for _ in range(1000)])
        yield Figure(
            name="reading front matter / PyYAML's C loader",
            value=ours / theirs,
            unit="x",
            at_most=1,
        )
        called = cpu_s(lambda: [expand(BODY + "$1", "a b") for _ in range(100)]) / 100
        yield Figure(name="substituting arguments in 6 KB", value=called * 1e6, unit="us CPU")
        whole = cpu_s(lambda: compute_fingerprint(many))
        yield Figure(
            name=f"checking the trust of a plugin with {MANY} files",
            value=whole * 1000,
            unit="ms CPU",
            at_most=50,
        )
