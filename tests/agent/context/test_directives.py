"""Imports in memory files are found in prose and not in code.

Directives and path scopes are parsed.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.context.directives import (
    MAX_ALTERNATIVES,
    Directed,
    expand_alternatives,
    find_imports,
    read_directives,
)
from tests.requirements import requirement


@requirement("C8")
@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see @docs/style.md and @README.md.", ["docs/style.md", "README.md"]),
        ("@./a.md\n@../b.md\n@~/c.md\n@/etc/d.md", ["./a.md", "../b.md", "~/c.md", "/etc/d.md"]),
        ("(see @a.md)", ["a.md"]),
        ("twice @a.md @a.md", ["a.md"]),
        (r"@my\ notes.md", ["my notes.md"]),
        ("write to me@example.org", []),
        ("in a span `@a.md` and ``x @b.md ` y``", []),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~python\n@decorator\n~~~", []),
        ("````\n```\n@a.md\n````\n@b.md", ["b.md"]),
        ("``` never closed\n@a.md", []),
        ("a lone ` and @a.md", ["a.md"]),
        ("@ nothing @", []),
        ("@!odd", []),
        ("say 'see @a.md'", ["a.md"]),
    ],
)
def test_imports_stand_in_prose(text: str, paths: list[str]) -> None:
    assert find_imports(text) == paths


@requirement("R122", "C8")
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("be kind\n", Directed(text="be kind")),
        ("@override\nbe brief", Directed(text="be brief", stance="override")),
        ("\n@append\nbe brief", Directed(text="be brief")),
        ("@override", Directed(text="", stance="override")),
        ("@overrides\nx", Directed(text="@overrides\nx")),
        ("be kind\n@override\n", Directed(text="be kind\n@override")),
        ("---\npaths: src/**/*.py, '*.md'\n---\nx", Directed(text="x", paths=("src/**/*.py", "*.md"))),
        ("---\npaths:\n  - \"a/*\"\n  - b\nother: 1\n---\nx", Directed(text="x", paths=("a/*", "b"))),
        ("---\npaths: [a, b]\n---\n@override\nx", Directed(text="x", stance="override", paths=("a", "b"))),
        ("---\npaths: src/*.{ts,tsx}\n---\nx", Directed(text="x", paths=("src/*.{ts,tsx}",))),
        ("---\nname: x\n---\ny", Directed(text="y")),
        ("---\nnot closed", Directed(text="---\nnot closed")),
    ],
)  # fmt: skip
def test_the_head_of_a_file_says_how_it_stands(text: str, read: Directed) -> None:
    assert read_directives(text) == read


@given(st.text(st.sampled_from("@`~/.a \n-:"), max_size=40))
def test_any_text_is_read(text: str) -> None:
    read_directives(text)
    assert all(find_imports(text))


def test_braces_stand_for_several_patterns() -> None:
    assert expand_alternatives("src/*.py") == ["src/*.py"]
    assert sorted(expand_alternatives("{a,b}/*.{ts,tsx}")) == [
        "a/*.ts",
        "a/*.tsx",
        "b/*.ts",
        "b/*.tsx",
    ]
    assert len(expand_alternatives("{a,b}" * 12)) <= MAX_ALTERNATIVES
    assert expand_alternatives("{a") == ["{a"]
