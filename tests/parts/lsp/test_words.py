"""Entries of language servers, positions and columns, and new problems: without a server."""

from typing import Any

import pytest

from clew.parts.lsp import protocol
from clew.parts.lsp.config import (
    KNOWN,
    LanguageServerSpec,
    Specs,
    read_entries,
    read_entry,
    with_known,
)
from clew.parts.lsp.protocol import (
    MAX_WORDS,
    MOST,
    MOST_OF_FILE,
    LspProblem,
    find_new_problems,
    format_problems,
    problems_of,
)

Json = dict[str, Any]
GOOD: Json = {"command": "painter", "extensionToLanguage": {".PAINT": "paint", "art": "paint"}}


def test_an_entry_is_read_with_all_its_fields() -> None:
    spec = read_entry(
        "painter",
        GOOD
        | {
            "args": ["--stdio"],
            "env": {"A": "b"},
            "initializationOptions": {"x": 1},
            "settings": {"y": 2},
            "workspaceFolder": "/w",
            "startupTimeout": 500,
            "transport": "stdio",
        },
        "here",
    )
    assert isinstance(spec, LanguageServerSpec)
    assert dict(spec.languages) == {".paint": "paint", ".art": "paint"}
    assert (spec.startup_s, spec.folder, spec.options) == (0.5, "/w", {"x": 1})
    plain = read_entry("painter", GOOD | {"workspaceFolder": 3})
    assert isinstance(plain, LanguageServerSpec)
    assert plain.folder == ""


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("text", "command"),
        ({"command": ""}, "command"),
        (GOOD | {"args": [1]}, "args"),
        (GOOD | {"args": "x"}, "args"),
        ({"command": "x"}, "extensionToLanguage"),
        ({"command": "x", "extensionToLanguage": {}}, "extensionToLanguage"),
        (GOOD | {"env": {"a": 1}}, "env"),
        (GOOD | {"transport": "socket"}, "transport"),
        (GOOD | {"startupTimeout": -1}, "startupTimeout"),
        (GOOD | {"startupTimeout": "1"}, "startupTimeout"),
    ],
)
def test_a_bad_entry_says_what_is_wrong(entry: Any, what: str) -> None:
    wrong = read_entry("x", entry)
    assert isinstance(wrong, str)
    assert wrong.startswith(what)


def test_a_file_of_entries_is_read_entry_by_entry() -> None:
    specs, faults = read_entries({"a": GOOD, "b": {}}, "f.json")
    assert [spec.name for spec in specs] == ["a"]
    assert faults == ["f.json: language server b: command: expected the name of a program"]
    assert read_entries([], "f.json")[1] == ["f.json: expected an object of language servers"]


def test_the_first_server_that_knows_an_ending_is_the_one() -> None:
    own = read_entry("own", {"command": "x", "extensionToLanguage": {".py": "python"}})
    assert isinstance(own, LanguageServerSpec)
    specs = Specs(servers=with_known([own], KNOWN))
    assert specs.for_file("/w/a.PY") is own
    assert getattr(specs.for_file("/w/a.go"), "name", "") == "gopls"
    assert specs.for_file("/w/Makefile") is None
    assert [spec.name for spec in specs.servers].count("pylsp") == 0


# -- places


def test_columns_are_counted_as_the_server_counts_them() -> None:
    line = "a𝄞é b"
    for encoding, units in (("utf-8", 7), ("utf-16", 4), ("utf-32", 3), ("odd", 4)):
        assert protocol.convert_column(line, 4, encoding) == units
        assert protocol.column_of(line, units, encoding) == 4
    assert protocol.column_of("ab", 9, "utf-16") == 3


def test_places_of_every_form_are_read() -> None:
    span = {"start": {"line": 3, "character": 4}}
    assert protocol.read_locations({"uri": "file:///a", "range": span}) == [("/a", 3, 4)]
    link = {"targetUri": "file:///b", "targetSelectionRange": span}
    assert protocol.read_locations([link, {"targetUri": "jdt://x", "targetRange": {}}, 3]) == [
        ("/b", 3, 4),
        ("jdt://x", 0, 0),
    ]
    assert protocol.read_locations(None) == []
    assert protocol.make_initialize_params("/w", "w", 1, {"a": 1})["initializationOptions"] == {
        "a": 1
    }
    assert "initializationOptions" not in protocol.make_initialize_params("/w", "w", 1, None)


def test_what_a_hover_says_is_text() -> None:
    assert protocol.read_hover({"contents": "plain "}) == "plain"
    marked = [{"language": "python", "value": "x"}, "y", {"odd": 1}]
    assert protocol.read_hover({"contents": marked}) == "x\n\ny"
    assert protocol.read_hover(None) == ""


def test_symbols_stand_below_what_they_are_in() -> None:
    inner = {"name": "b", "kind": 6, "detail": "(x)", "selectionRange": {"start": {"line": 4}}}
    outer = {"name": "A", "kind": 5, "location": {"range": {}}, "children": [inner]}
    assert protocol.format_symbols([outer, {"name": "odd", "kind": 99}]) == [
        "1: class A",
        "  5: method b (x)",
        "1: symbol odd",
    ]


# -- problems


def problem(message: str, *, severity: int = 1, line: int = 0) -> LspProblem:
    return LspProblem(severity=severity, message=message, line=line, column=0)


def test_what_was_wrong_before_is_not_told_again_wherever_it_moved() -> None:
    before = {"/a": [problem("old"), problem("old")]}
    now = {"/a": [problem("old", line=9), problem("old"), problem("old"), problem("w", severity=2)]}
    assert [p.message for p in find_new_problems(before, now)["/a"]] == ["old", "w"]


def test_of_a_file_nobody_knew_the_errors_are_reported() -> None:
    now = {"/a": [problem("e"), problem("w", severity=2)], "/b": [problem("h", severity=4)]}
    assert {
        path: [p.message for p in found] for path, found in find_new_problems({}, now).items()
    } == {"/a": ["e"]}


def test_problems_are_told_within_bounds() -> None:
    many = {"/a": [problem(f"p{n}", line=n) for n in range(MOST_OF_FILE + 5)]}
    lines = format_problems(many, {"/a": "a"})
    assert lines[0] == "a:1:1: error: p0"
    assert lines[-1] == "a: 5 more"
    everywhere = {f"/{n}": [problem("x" * 999)] for n in range(MOST + 9)}
    lines = format_problems(everywhere, {})
    assert len(lines) == MOST + 1
    assert len(lines[0]) < MAX_WORDS + 40
    read = problems_of(
        [{"message": "a\n b", "code": 7, "source": "lint"}, {"severity": 9, "code": {}}, "odd"]
    )
    assert format_problems({"/a": read[:1]}, {}) == ["/a:1:1: error: a b (lint 7)"]
    assert [p.severity for p in read] == [1, 1, 1]
