"""The memory folder: memories, proposals, and how much of them is sent."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.context.notebook import (
    INDEX,
    INDEX_BYTES,
    INDEX_LINES,
    MEMORY_BYTES,
    PROPOSALS,
    TITLE_CHARS,
    Memo,
    MemoryNotebook,
    fit_memo,
    index_fact,
)
from clew.core.messages.errors import UserError


def memo(title: str, text: str = "Because.") -> Memo:
    return Memo(title=title, text=text, by="extraction", session="s1", message="m1", at="now")


@pytest.fixture
def notebook(tmp_path: Path) -> MemoryNotebook:
    return MemoryNotebook(tmp_path / "memory")


def test_a_memory_is_a_file_that_says_where_it_comes_from_and_a_line_of_the_index(
    notebook: MemoryNotebook,
) -> None:
    assert notebook.index() == ("", False)
    assert index_fact(notebook) is None
    path = notebook.keep(memo("Tabs, not spaces"))
    again = notebook.keep(memo("Tabs: not spaces!", "Twice."))
    assert (path.name, again.name) == ("tabs-not-spaces.md", "tabs-not-spaces-2.md")
    assert notebook.index()[0] == (
        "- [Tabs, not spaces](tabs-not-spaces.md)\n- [Tabs: not spaces!](tabs-not-spaces-2.md)"
    )
    found = notebook.find("tabs-not-spaces")
    assert (found.title, found.text, found.by) == ("Tabs, not spaces", "Because.", "extraction")
    assert found.source == "extraction in s1, message m1"
    assert path.stat().st_mode & 0o777 == 0o600
    notebook.forget("tabs-not-spaces")
    assert [m.name for m in notebook.memos()] == ["tabs-not-spaces-2"]
    assert notebook.index()[0].startswith("- [Tabs: not")


def test_a_proposal_counts_once_it_is_accepted(notebook: MemoryNotebook) -> None:
    notebook.propose(memo("One"))
    notebook.propose(memo("Two", "Otherwise."))
    assert (notebook.memos(), notebook.index()[0]) == ([], "")
    assert notebook.knows(memo("one", "other"))
    assert notebook.knows(memo("another", "Otherwise."))
    assert not notebook.knows(memo("another", "other"))
    notebook.accept("one")
    notebook.drop("two")
    assert [m.title for m in notebook.memos()] == ["One"]
    assert notebook.proposals() == []
    with pytest.raises(UserError, match="'two' not found"):
        notebook.accept("two")
    with pytest.raises(UserError, match="not found in"):
        notebook.forget("../../etc/passwd")


def test_files_of_a_users_own_hand_are_memories_too(notebook: MemoryNotebook) -> None:
    notebook.folder.mkdir()
    (notebook.folder / "own.md").write_text("# Mine\nwords", "utf-8")
    (notebook.folder / "empty.md").touch()
    (notebook.folder / INDEX).write_text("see [mine](own.md)", "utf-8")
    assert [(m.title, m.by) for m in notebook.memos()] == [("Mine", "file")]
    notebook.keep(memo("More"))
    assert notebook.index()[0] == "see [mine](own.md)\n- [More](more.md)"


def test_the_index_is_told_up_to_its_limits(notebook: MemoryNotebook) -> None:
    notebook.folder.mkdir()
    index = notebook.folder / INDEX
    index.write_text("\n".join(f"- line {n}" for n in range(INDEX_LINES + 5)), "utf-8")
    text, is_cut = notebook.index()
    assert (len(text.split("\n")), is_cut) == (INDEX_LINES, True)
    fact = index_fact(notebook)
    assert fact is not None
    assert "index truncated" in fact.rendered[0]
    index.write_text("é" * INDEX_BYTES, "utf-8")
    text, is_cut = notebook.index()
    assert (len(text.encode()) <= INDEX_BYTES, is_cut) == (True, True)


@pytest.mark.no_cover
def test_proposals_are_not_heaped_up(notebook: MemoryNotebook) -> None:
    for n in range(PROPOSALS):
        notebook.propose(memo(f"number {n}", str(n)))
    with pytest.raises(UserError, match="/memory review"):
        notebook.propose(memo("one more"))


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_words_fit_into_a_file_and_are_read_again(title: str, text: str) -> None:
    fitted = fit_memo(memo(title, text))
    assert len(fitted.title) <= TITLE_CHARS
    assert "\n" not in fitted.title
    assert "[" not in fitted.title
    assert len(fitted.text.encode()) <= MEMORY_BYTES


def test_a_link_out_of_the_folder_tells_nothing(notebook: MemoryNotebook, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden", "utf-8")
    notebook.folder.mkdir()
    (notebook.folder / "MEMORY.md").symlink_to(tmp_path / "secret")
    assert notebook.index() == ("", False)
