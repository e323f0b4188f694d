"""Masking: its cost for ordinary text, false positives, and hostile texts."""

import sysconfig
from ast import parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Figure, cpu_s, growth
from clew.system.config.mask import mask
from clew.system.config.secret_search import find_secret_spans

SIZE_CHARS = 100_000
GROWTH_AT_MOST = 4.8
# Each repeats a word that starts a rule, so that the rule has to read far.
HOSTILE = {
    "names and signs": "token=",
    "names and colons": "userpass: ",
    "names in a list": '"userpass",',
    "elements": "pass>1",
    "addresses": "://a:b",
    "private keys without an end": "-----BEGIN PRIVATE KEY-----\nAbC\n",
    "manifests": "kind: Secret\ndata:\n  a: b\n",
    "prefixes": "eyJ-sk-ghp_",
    "one long run": "a1B",
    "commands": "docker login -u x ",
    "pipes": "echo x | ",
    "headers": "Authorization: a=",
}


def source() -> list[str]:
    """Return the source of Python's standard library as ordinary text."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [*library.glob("*.py"), *library.glob("[a-k]*/*.py")]
    return [file.read_text("utf-8", "replace") for file in sorted(files)]


def figures() -> Iterator[Figure]:
    texts = source()
    whole = "\n".join(texts)[: 10 * SIZE_CHARS]
    ordinary_s = cpu_s(lambda: mask(whole), runs=3)
    yield Figure(
        name="Masking source / parsing it",
        value=ordinary_s
        / cpu_s(lambda: [parse(text) for text in texts], runs=1)
        * sum(map(len, texts))
        / len(whole),
        unit="x",
        at_most=1,
        note=f"{ordinary_s * 1000:.0f} ms a MB",
    )
    lines = sum(text.count("\n") for text in texts)
    masked = sum(len(find_secret_spans(text)) for text in texts)
    yield Figure(
        name="Values masked in 10,000 lines of source",
        value=masked * 10_000 / lines,
        unit="values",
        at_most=2,
        note=f"{masked} in {lines:,} lines",
    )
    yield Figure(
        name="Growth of ordinary text, four times as long",
        value=growth(lambda: mask(whole[: len(whole) // 4]), lambda: mask(whole), runs=3),
        unit="x",
        at_most=GROWTH_AT_MOST,
    )
    for name, unit in HOSTILE.items():
        small = partial(mask, unit * (SIZE_CHARS // len(unit)))
        large = partial(mask, unit * (4 * SIZE_CHARS // len(unit)))
        spent_s = cpu_s(large, runs=1)
        of_source = spent_s / 4 / SIZE_CHARS * len(whole) / ordinary_s
        yield Figure(
            name=f"Growth of {name}, four times as long",
            value=growth(small, large, runs=3),
            unit="x",
            at_most=GROWTH_AT_MOST,
            note=f"{of_source:.0f} times the cost of source",
        )
