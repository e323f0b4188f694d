"""What can be searched in an entry, and what a query wants."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.library.words import (
    collapse_spaces,
    fts_of,
    make_snippet,
    match_words,
    query_of,
    speaker_of,
    text_of,
)


def user(content: object, **more: object) -> dict[str, object]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


@pytest.mark.parametrize("kind", [None, 5, ["user"], {}])
def test_an_entry_whose_type_is_no_text_has_no_words(kind: object) -> None:
    assert text_of(user("words") | {"type": kind}) == ""


def test_everything_that_is_said_can_be_searched() -> None:
    blocks = [
        {"type": "text", "text": "plain"},
        {"type": "thinking", "thinking": "quiet", "signature": "c2ln"},
        {
            "type": "tool_use",
            "name": "Bash",
            "input": {"command": "ls -l", "more": ["a", {"b": "c"}]},
        },
        {"type": "tool_result", "content": "out"},
        {"type": "tool_result", "content": [{"type": "text", "text": "parts"}, "loose", 5]},
        {"type": "image", "source": {"data": "aGlkZGVu"}},
        {"type": "document", "title": "T", "source": {"type": "text", "data": "words"}},
        {"type": "document", "title": "U", "source": {"type": "base64", "data": "aGlkZGVu"}},
        {"type": "document", "source": "odd"},
        {"type": "never heard of"},
    ]
    assert text_of(user(blocks)).split("\n") == [
        "plain", "quiet", "Bash", "ls -l", "a", "c", "out", "parts", "loose", "T", "words", "U",
    ]  # fmt: skip
    assert text_of(user("hello")) == "hello"
    assert text_of({"type": "system", "content": "note"}) == "note"
    assert text_of({"type": "custom-title", "customTitle": "Mine"}) == "Mine"
    for silent in ({"type": "tag", "tag": 5}, {"type": "queue-operation", "content": "x"}, user(7)):
        assert text_of(silent) == ""


def test_what_was_brought_is_searched_and_what_a_program_reminds_of_is_not() -> None:
    def beside(kind: object) -> str:
        about = kind if kind is None else {"type": kind}
        rendered = [{"content": "seen"}]
        return text_of({"type": "attachment", "attachment": about, "rendered": rendered})

    for said in ("file", "queued_command", "mcp_resource", "hook_additional_context"):
        assert beside(said) == "seen"
    for reminder in (
        "skill_listing",
        "agent_listing_delta",
        "deferred_tools_delta",
        "new",
        5,
        None,
    ):
        assert beside(reminder) == ""
    assert text_of(user("gone on", isMeta=True)) == "gone on"
    assert text_of(user("a warning", isMeta=True, isSynthetic=True)) == ""


def test_a_search_says_who_said_it() -> None:
    result = {"type": "tool_result", "content": "out"}
    assert speaker_of({"type": "assistant"}) == "assistant"
    assert speaker_of(user("hello")) == "user"
    assert speaker_of(user([{"type": "text", "text": "hello"}, "odd"])) == "user"
    assert speaker_of({"type": "user", "message": "odd"}) == "user"
    assert speaker_of(user([result])) == "tool"
    assert speaker_of(user("ended", origin={"kind": "task-notification"})) == "task"
    assert speaker_of(user("so far", origin={"kind": "human"}, isCompactSummary=True)) == "summary"


def test_a_search_does_not_find_earlier_searches() -> None:
    run = {"command": "search", "args": "gold"}
    asked = {"type": "system", "subtype": "local_command", "content": "gold", "commandRun": run}
    assert text_of(asked) == ""
    assert text_of(asked | {"commandRun": run | {"command": "help"}}) == "gold"
    for name, said in {
        "SessionsSearch": "",
        "mcp__clew__SessionsSearch": "",
        "Search": "gold",
    }.items():
        call = {"type": "tool_use", "name": name, "input": {"query": "gold"}}
        found = text_of({"type": "assistant", "message": {"content": [call]}})
        assert said in found
        assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "<command-message>fix</command-message>\n<command-name>/fix</command-name>\n"
            "<command-args>the bug</command-args>",
            "/fix \n the bug",
        ),
        ("<bash-stdout>one</bash-stdout><bash-stderr>two</bash-stderr>", "one  two"),
        ("why <summary> and <command-name> are written", None),
        ("<b>bold</b>", None),
    ],
)
def test_the_tags_of_a_record_are_nobodys_words(text: str, words: str | None) -> None:
    assert text_of(user(text)) == (text if words is None else words)


@pytest.mark.parametrize(
    ("query", "text", "holds"),
    [
        ("two one", "One, TWO", True),
        ("two three", "one two", False),
        ('"one two"', "one  two", True),
        ('"one two"', "two one", False),
        ("src/app.py", "edit src/app.py now", True),
        ("src/app.py", "app src py", False),
        ("con*", "contains", True),
        ("con", "contains", False),
        ("搜索", "全文搜索引擎", True),
        ("索搜", "全文搜索引擎", False),
        ("größe", "GRÖSSE Größe", True),
        ("under_score", "an under score", True),
    ],
)
def test_a_query_is_answered_the_same_by_the_index_and_by_reading(
    query: str, text: str, *, holds: bool
) -> None:
    wanted = query_of(query)
    assert match_words(wanted, text) is holds
    assert matches(fts_of(wanted), text) is holds


def matches(fts: str, text: str) -> bool:
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE w USING fts5(t, content='', tokenize='unicode61 remove_diacritics 0')"
    )
    database.execute("INSERT INTO w (rowid, t) VALUES (1, ?)", (collapse_spaces(text),))
    found = database.execute("SELECT rowid FROM w WHERE w MATCH ?", (fts,)).fetchall()
    database.close()
    return bool(found)


LETTERS = st.text(alphabet="abAB01 .-_/\"'é中文\n", min_size=1, max_size=12)


@given(query=LETTERS, text=LETTERS)
def test_no_query_is_an_error_and_both_ways_agree(query: str, text: str) -> None:
    wanted = query_of(query)
    if not wanted.is_empty:
        assert matches(fts_of(wanted), text) is match_words(wanted, text)


def test_nothing_to_look_for_is_said() -> None:
    assert query_of("- ... \"\" '*'").is_empty


def test_a_snippet_shows_the_place() -> None:
    text = "begin " * 60 + "\nthe needle, here\n" + "end " * 60
    shown = make_snippet(query_of("needle"), text)
    assert "the needle, here" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert make_snippet(query_of("short"), "short") == "short"
    assert make_snippet(query_of("nowhere"), "short") == "short"
    # Lower case of this letter is two characters: no place can be told, the beginning is shown.
    assert make_snippet(query_of("end"), "İ end") == "İ end"
    assert make_snippet(query_of("索引"), "x" * 300 + "全文索引").endswith("全文索引")
