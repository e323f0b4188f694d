"""Gitleaks' rules as clew has them: each hides what it was written for, and they can be made anew."""

import random
import re
from importlib import import_module
from typing import Any

import pytest
from scripts.secret_rules import alternatives, first_words, module, python_regex, rows

from clew.system.config.gitleaks_rules import ROWS
from clew.system.config.mask import mask
from clew.system.config.secret_search import compiled

BASE62 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
DICE = random.Random(3)
parse = import_module("re._parser").parse


def sample(items: Any) -> str:
    """A text that a parsed expression matches, with letters taken at random."""
    return "".join(sampled(str(kind), value) for kind, value in items)


def sampled(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "ANY":
            return "."
        case "IN":
            return DICE.choice(
                [letter for name, part in value for letter in letters(str(name), part)]
            )
        case "BRANCH":
            return sample(DICE.choice(value[1]))
        case "SUBPATTERN":
            return sample(value[3])
        case "MAX_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, part = value
            return "".join(sample(part) for _ in range(max(least, 1 if int(most) else 0)))
    return ""  # what a text is held against from outside


def letters(kind: str, part: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(part)
        case "RANGE":
            return "".join(map(chr, range(part[0], part[1] + 1)))
    return BASE62 if str(part) == "CATEGORY_WORD" else "1234567890"


@pytest.mark.no_cover
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[6][:20]}")
def test_each_rule_hides_what_it_was_written_for(row: Any) -> None:
    rule, starts, keywords, names, _, _, pattern = row
    assert starts or keywords
    bare = parse(pattern.replace("<START>", ""), re.ASCII)
    for _ in range(3):
        secret = sample(bare)
        name = sample(parse(names, re.ASCII)) if names else f"{keywords} it is"
        text = f'{name} = "{secret}"' if names or keywords else f"it is {secret} then"
        shown = mask(text)
        # After a name, letters alone are too often a word.
        assert secret not in shown or (names and secret.isalpha()), rule


def test_rows_are_in_the_form_that_the_search_reads() -> None:
    for rule, starts, _, names, entropy, allowed, pattern in ROWS:
        assert starts == starts.lower(), rule
        assert compiled(pattern).groups <= 1, rule
        re.compile(names + allowed)
        assert float(entropy) >= 0, rule
    assert len({row[0] for row in ROWS}) > 200


@pytest.mark.parametrize(
    ("written", "converted"),
    [
        (r"a(?i)b|c", r"a(?i:b)|(?i:c)"),
        (r"(a(?i)b)c$", r"(a(?i:b))c\Z"),
        (r"(?P<x>a)([[:alnum:]]{3})\z", r"(?:a)([a-zA-Z0-9]{3})\Z"),
        (r"(a(b))(?-i:c)", r"(a(?:b))(?-i:c)"),
        (r"([a-z]-){3}(x{10,})", r"(?:[a-z]-){3}(x{10,}+)"),
        (r"\x60[\s\S-]{2}", r"`[\s\S-]{2}"),
    ],
)
def test_expressions_are_converted(written: str, converted: str) -> None:
    assert python_regex(written, groups=1) == converted


def test_a_repeated_group_that_does_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="unterminated group"):
        python_regex("(a", groups=1)


def test_what_starts_a_match_is_found() -> None:
    assert first_words(r"(?:sk|rk)_(?:test|live)_[a-z]{9}") == (
        "rk_live_",
        "rk_test_",
        "sk_live_",
        "sk_test_",
    )
    assert first_words(r"[a-z]{9}_mmk") == ()
    assert first_words(r"(?:https?://)?hooks.x") == ("hooks", "http://h", "https://")
    assert alternatives(r"(?i)a(b|c)|d") == [r"(?i)a(b|c)", r"(?i)d"]


def test_rules_of_a_file_become_a_module() -> None:
    named = r"""(?i)[\w.-]{0,50}?(?:acme)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""
    rules = [
        {"id": "acme", "regex": named, "keywords": ["acme"], "entropy": 3},
        {
            "id": "acme-token",
            "regex": r"\b(acme_[a-z]{9})(?:[\x60'\"\s;]|\\[nr]|$)",
            "keywords": ["acme_"],
        },
        {"id": "pkcs12-file", "path": "x"},
    ]
    text = module(rows(rules), "v1", "MIT License\n\nCopyright")
    found: dict[str, Any] = {}
    exec(text, found)
    assert found["ROWS"] == (
        ["acme", "acme", "", "(?i:acme)", "3.0", "", "(?i:[a-z0-9]{32})"],
        [
            "acme-token",
            "acme_",
            "",
            "",
            "0.0",
            "",
            r"<START>(acme_[a-z]{9})(?:[\x60'\"\s;]|\\[nr]|\Z)",
        ],
    )
    assert "# MIT License\n#\n# Copyright\n" in text
    with pytest.raises(ValueError, match="unknown form"):
        list(rows([{"id": "odd", "regex": named + "x", "keywords": []}]))
    with pytest.raises(ValueError, match="line of the table"):
        module(rows([{"id": "a ; b", "regex": "ab", "keywords": []}]), "v1", "MIT")
