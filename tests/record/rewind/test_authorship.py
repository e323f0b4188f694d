"""The authors of lines under any changes, and from any line of a transcript."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.rewind import authorship
from clew.record.rewind.authorship import (
    CONTENTS_MAX,
    OTHERS,
    Authorship,
    LineCounts,
    LineEdit,
    compare_lines,
    encode_file,
    move_spans,
    split_lines,
)

texts = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"d\r"]), max_size=12).map(
    lambda lines: b"".join(line + b"\n" for line in lines)
)


def name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data else ""


def edit_of(author: str, before: bytes, after: bytes) -> LineEdit:
    hunks = compare_lines(before, after)
    assert hunks is not None
    return LineEdit(author=author, before=name(before), after=name(after), hunks=hunks)


@given(st.lists(st.tuples(st.sampled_from(["t1", "t2", OTHERS, ""]), texts), max_size=8))
def test_each_line_has_the_author_of_the_change_that_brought_it(
    steps: list[tuple[str, bytes]],
) -> None:
    """A list with one author per line is the model; a line keeps its text and its author."""
    before, model = b"", list[str]()
    spans: tuple[tuple[int, int, str], ...] = ()
    for author, after in steps:
        hunks = compare_lines(before, after)
        assert hunks is not None
        lines, at = list[str](), 0
        for first, removed, added in hunks:
            lines += model[at:first] + [author] * added
            at = first + removed
        kept = lines + model[at:]
        assert len(kept) == len(split_lines(after))
        before, model, spans = after, kept, move_spans(spans, hunks, author)
        told = [""] * len(model)
        for first, count, whose in spans:
            assert count > 0
            assert whose
            assert not any(told[first : first + count])
            told[first : first + count] = [whose] * count
        assert told == model


@given(st.lists(st.tuples(st.sampled_from(["t1", "t2", OTHERS]), texts), max_size=6))
def test_what_was_written_down_says_the_same_when_it_is_read(
    steps: list[tuple[str, bytes]],
) -> None:
    live, read, before = Authorship(), Authorship(), b""
    for author, after in steps:
        edits = [edit_of(author, before, after)] if after and before != after else []
        for edit in edits:
            live.edit("f", edit)
        if not after:
            live.remove("f")
        elif not edits:
            live.see("f", name(after))
        state = json.loads(json.dumps(encode_file(name(after), edits, live.count("f"))))
        read.read({"fileStates": {"f": state}})
        before = after
        assert (read.contents, read.newest) == (live.contents, live.newest)
    live.ship()
    read.read({"commit": {}, "fileStates": {}})
    assert (read.contents, read.shipped) == (live.contents, live.shipped)
    assert live.total() == LineCounts()


def test_lines_count_until_they_are_committed() -> None:
    authors = Authorship()
    authors.edit("f", edit_of("t1", b"", b"1\n2\n3\n"))
    authors.edit("f", edit_of(OTHERS, b"1\n2\n3\n", b"1\n2\n3\nx\n"))
    authors.edit("other", edit_of(OTHERS, b"", b"x\n"))
    assert authors.total() == LineCounts(agent=3, others=1)
    authors.ship()
    authors.edit("f", edit_of("t2", b"1\n2\n3\nx\n", b"1\ntwo\n3\nx\n"))
    assert authors.total() == LineCounts(agent=1, others=0)
    assert authors.spans("f", name(b"1\ntwo\n3\nx\n")) == ((0, 1, "t1"), (1, 1, "t2"), (2, 1, "t1"))


def test_a_moved_file_keeps_its_authors_and_old_contents_are_forgotten() -> None:
    authors = Authorship()
    authors.edit("f", edit_of("t1", b"", b"1\n"))
    same = LineEdit(author="", before=name(b"1\n"), after=name(b"1\n"), hunks=(), source="f")
    authors.remove("f")
    authors.edit("g", same)
    assert authors.spans("g", name(b"1\n")) == ((0, 1, "t1"),)
    before = b"1\n"
    for n in range(CONTENTS_MAX):
        after = b"%d\n" % (n + 2)
        authors.edit("g", edit_of("t2", before, after))
        before = after
    assert len(authors.contents["g"]) == CONTENTS_MAX
    assert not authors.knows("g", name(b"1\n"))
    state = encode_file(name(b"1\n"), [same], LineCounts())
    assert state["edits"] == [{"by": "", "from": name(b"1\n"), "path": "f", "hunks": ()}]


def test_large_and_binary_files_are_not_compared() -> None:
    assert compare_lines(b"a\0", b"a") is None
    assert compare_lines(b"", b"x" * (authorship.COMPARED_MAX_BYTES + 1)) is None
    before = b"".join(b"a%d\n" % n for n in range(1200))
    after = b"".join(b"b%d\n" % n for n in range(1200))
    assert compare_lines(b"x\ny", b"x\nz\n") == ((1, 1, 1),)
    assert move_spans([(1, 1, "t"), (4, 1, "t")], [(0, 3, 0)], "") == ((1, 1, "t"),)
    assert compare_lines(b"x\n" + before, b"x\n" + after) == ((1, 1200, 1200),)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {"contentHash": "x", "edits": [{"by": "t", "from": "", "hunks": [[0, 0]]}]},
        {"contentHash": "x", "edits": [{"by": "t", "from": "", "hunks": [[0, 0, -1]]}]},
        {"contentHash": "x", "edits": [{"by": "t", "from": "", "hunks": [[5, 1, 1], [0, 1, 1]]}]},
        {"contentHash": "x", "edits": [{"by": "t"}, "y"]},
        {"contentHash": 7, "edits": 7},
    ],
)
def test_parts_that_say_nothing_are_skipped(state: Any) -> None:
    authors = Authorship()
    authors.read({"fileStates": {"f": state}})
    assert not authors.spans("f", "x")
    assert authors.total() == LineCounts()


def test_neighbors_of_one_author_are_one_span_and_a_removed_file_has_none() -> None:
    assert compare_lines(b"a\n", b"a\n") == ()
    spans = move_spans((), ((0, 0, 1),), "t1")
    assert move_spans(spans, ((1, 0, 2),), "t1") == ((0, 3, "t1"),)
    gone = encode_file("", (), LineCounts())
    assert gone == {"contentHash": ""}
    authors = Authorship()
    authors.edit("a", edit_of("t1", b"", b"x\n"))
    assert authors.count("a").agent == 1
    authors.read({"fileStates": {"a": gone}})
    assert authors.count("a").agent == 0
