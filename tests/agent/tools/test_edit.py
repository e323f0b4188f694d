"""Edit and Write.

Exact, only on files that were read, atomic, and without changing any other byte.
"""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.tools import files
from clew.agent.tools.base import ToolError
from clew.agent.tools.edit import Edit, MultiEdit, find
from clew.agent.tools.files import CHANGED, NO_TEXT_FILE, NOT_READ
from clew.agent.tools.patch import NO_LAST_NEWLINE, Region, diff_regions, diff_texts, replace_spans
from clew.agent.tools.read import Read
from clew.agent.tools.write import Write
from tests.agent.tools.workshop import Workshop
from tests.requirements import requirement


def edit(workshop: Workshop, old: str, new: str, **more: object) -> str:
    result = workshop.use(
        Edit(), **{"file_path": "a.txt", "old_string": old, "new_string": new} | more
    )
    return str(result.content)


def known(workshop: Workshop, data: str | bytes, name: str = "a.txt") -> Path:
    path = workshop.write(name, data)
    workshop.use(Read(), file_path=name)
    return path


def test_one_exact_text_becomes_another(workshop: Workshop) -> None:
    path = known(workshop, "a\nb\nc\n")
    result = workshop.use(Edit(), file_path="a.txt", old_string="b\n", new_string="B\nBB\n")
    assert path.read_text("utf-8") == "a\nB\nBB\nc\n"
    assert (
        result.content
        == f"Edited {path}: 1 replacement, the first at line 2; the file now has 4 lines."
    )
    assert result.tool_use_result == {
        "filePath": str(path),
        "oldString": "b\n",
        "newString": "B\nBB\n",
        "originalFile": "a\nb\nc\n",
        "structuredPatch": [
            {
                "oldStart": 1,
                "oldLines": 3,
                "newStart": 1,
                "newLines": 4,
                "lines": [" a", "-b", "+B", "+BB", " c"],
            }
        ],
        "userModified": False,
        "replaceAll": False,
    }
    assert "1 replacement" in edit(workshop, "BB", "again, without reading anew")


@requirement("R138")
def test_a_text_that_is_not_there_is_said_with_what_may_be_wrong(workshop: Workshop) -> None:
    known(workshop, "def f():\n    return 1\n")
    assert "not found in" in edit(workshop, "missing", "x")
    assert "Read the file again" in edit(workshop, "missing", "x")
    assert "line 1 differs only in white space" in edit(workshop, "def f():\n\treturn 1", "x")
    assert "line numbers that Read adds" in edit(workshop, "1\tdef f():\n2\t    return 1", "x")
    assert (workshop.folder / "a.txt").read_text("utf-8") == "def f():\n    return 1\n"


def test_a_text_that_occurs_more_than_once_needs_more_or_replace_all(workshop: Workshop) -> None:
    path = known(workshop, "x = 1\ny\nx = 1\n")
    said = edit(workshop, "x = 1", "z")
    assert "occurs 2 times" in said
    assert "lines 1, 3" in said
    assert "2 replacements" in edit(workshop, "x = 1", "z", replace_all=True)
    assert path.read_text("utf-8") == "z\ny\nz\n"


def test_nothing_to_change_is_said(workshop: Workshop) -> None:
    known(workshop, "a")
    assert "are the same" in edit(workshop, "a", "a")


@requirement("R135", "W1")
def test_a_file_must_have_been_read_and_not_changed_since(workshop: Workshop) -> None:
    path = workshop.write("a.txt", "one")
    assert NOT_READ in edit(workshop, "one", "two")
    workshop.use(Read(), file_path="a.txt")
    before = path.stat()
    path.write_text("0ne", "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert CHANGED in edit(workshop, "ne", "two")
    assert path.read_text("utf-8") == "0ne"
    path.write_text("one", "utf-8")
    assert "1 replacement" in edit(workshop, "one", "two")
    path.unlink()
    assert "File not found" in edit(workshop, "two", "three")


def test_a_file_touched_between_look_and_replacement_stays(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = known(workshop, "one")
    monkeypatch.setattr(files, "keep_attributes", lambda *_: path.write_text("other", "utf-8"))
    assert "changed in the meantime" in edit(workshop, "one", "two")
    assert path.read_text("utf-8") == "other"
    monkeypatch.setattr(files, "keep_attributes", lambda *_: path.unlink())
    workshop.use(Read(), file_path="a.txt")
    assert "removed in the meantime" in edit(workshop, "other", "two")
    assert list(workshop.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"\xef\xbb\xbfa b", "a", "x", b"\xef\xbb\xbfx b"),
        ("ä b".encode("utf-16"), "b", "€", "ä €".encode("utf-16")),
        (b"caf\xe9 \x80\n", "caf", "ä", b"\xe4\xe9 \x80\n"),
        (b"  a\t \n", "a", "b", b"  b\t \n"),
        (b"no newline", "newline", "end", b"no end"),
        ("a\u2028b\n".encode(), "b", "c", "a\u2028c\n".encode()),
    ],
)
def test_line_ends_marks_encodings_and_white_space_stay(
    workshop: Workshop, data: bytes, old: str, new: str, expected: bytes
) -> None:
    path = known(workshop, data)
    assert "1 replacement" in edit(workshop, old, new)
    assert path.read_bytes() == expected


def test_a_character_that_the_encoding_lacks_is_said(workshop: Workshop) -> None:
    path = known(workshop, b"caf\xe9\n")
    assert "latin-1, which can't represent '€'" in edit(workshop, "caf", "€")
    assert path.read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_full_disk_leaves_the_file_as_it_was(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, nameless: bool, fails: str
) -> None:
    path = known(workshop, "one")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, fails, full)
        if not nameless:
            patch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
        assert "No space left on device" in edit(workshop, "one", "two")
    assert path.read_text("utf-8") == "one"
    assert list(workshop.folder.iterdir()) == [path]
    assert "1 replacement" in edit(workshop, "one", "two")


def test_mode_and_links_stay(workshop: Workshop, tmp_path: Path) -> None:
    path = workshop.write("a.txt", "one")
    path.chmod(0o4751)
    os.setxattr(path, "user.note", b"kept")
    link = tmp_path / "link"
    link.symlink_to(path)
    workshop.use(Read(), file_path=str(link))
    workshop.use(Edit(), file_path=str(link), old_string="one", new_string="two")
    assert link.is_symlink()
    assert path.read_text("utf-8") == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o4751
    assert os.getxattr(path, "user.note") == b"kept"


def test_an_empty_old_text_creates_a_file(workshop: Workshop) -> None:
    assert "Created" in edit(workshop, "", "a\n")
    assert (workshop.folder / "a.txt").read_text("utf-8") == "a\n"
    assert "exists, so old_string" in edit(workshop, "", "b")
    assert "1 replacement" in edit(workshop, "a", "b")


def test_a_binary_or_huge_file_is_not_edited(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = known(workshop, "text")
    monkeypatch.setattr(files, "EDIT_MAX_BYTES", 3)
    assert "accepts at most 3" in edit(workshop, "t", "x")
    monkeypatch.undo()
    path.write_bytes(b"\0text")
    files.note(workshop.context(), files.take(path, 99), ())
    assert NO_TEXT_FILE in edit(workshop, "text", "x")


def test_write_creates_with_folders_under_the_umask(workshop: Workshop) -> None:
    before = os.umask(0o027)
    try:
        result = workshop.use(Write(), file_path="new/folder/b.sh", content="x\ny\n")
    finally:
        os.umask(before)
    path = workshop.folder / "new/folder/b.sh"
    assert path.read_text("utf-8") == "x\ny\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert result.content == f"Created {path}: 2 lines."
    assert result.tool_use_result == {
        "type": "create",
        "filePath": str(path),
        "content": "x\ny\n",
        "structuredPatch": [],
        "userModified": False,
        "originalFile": None,
    }
    again = workshop.use(Write(), file_path="new/folder/b.sh", content="z")
    assert again.tool_use_result["type"] == "update"
    assert again.tool_use_result["originalFile"] == "x\ny\n"
    assert again.tool_use_result["structuredPatch"][0]["lines"] == [
        "-x", "-y", "+z", NO_LAST_NEWLINE,
    ]  # fmt: skip


def test_write_over_a_file_needs_it_read_and_keeps_its_form(workshop: Workshop) -> None:
    path = workshop.write("a.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    refused = workshop.use(Write(), file_path="a.txt", content="c\n")
    assert NOT_READ in str(refused.content)
    workshop.use(Read(), file_path="a.txt")
    assert not workshop.use(Write(), file_path="a.txt", content="c\nd\n").is_error
    assert path.read_bytes() == b"\xef\xbb\xbfc\r\nd\r\n"
    path.write_bytes(b"caf\xe9\n")
    workshop.use(Read(), file_path="a.txt")
    workshop.use(Write(), file_path="a.txt", content="€\n")
    assert path.read_bytes() == "€\n".encode()


def test_what_cannot_be_written_is_said_and_leaves_nothing(workshop: Workshop) -> None:
    workshop.write("file", "x")
    assert "Can't create the folder" in str(
        workshop.use(Write(), file_path="file/b", content="").content
    )
    surrogate = workshop.use(Write(), file_path="c", content="\ud800")
    assert "surrogate" in str(surrogate.content)
    assert "cannot be written" in str(
        workshop.use(Write(), file_path="n" * 300, content="").content
    ) or "File name too long" in str(workshop.use(Write(), file_path="n" * 300, content="").content)
    assert [path.name for path in workshop.folder.iterdir()] == ["file"]


def test_a_link_that_leads_nowhere_is_created_at_its_far_end(workshop: Workshop) -> None:
    link = workshop.folder / "link"
    link.symlink_to(workshop.folder / "target")
    workshop.use(Write(), file_path="link", content="x")
    assert link.is_symlink()
    assert (workshop.folder / "target").read_text("utf-8") == "x"


@pytest.mark.parametrize("nameless", [True, False])
def test_a_new_file_never_covers_one_that_appeared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    path = tmp_path / "a"
    path.write_bytes(b"theirs")
    with pytest.raises(ToolError, match="was created in the meantime"):
        files.put(path, b"ours", None)
    assert path.read_bytes() == b"theirs"
    files.put(path, b"ours", path.stat())
    assert path.read_bytes() == b"ours"
    files.put(tmp_path / "b", b"new", None)
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "x y"]), max_size=14)


def applied(text: str, hunks: list[dict[str, object]]) -> str:
    """Apply a patch to a text: an independent reader of patches."""
    old = text.split("\n")
    if old[-1] == "":
        old.pop()
    new: list[str] = []
    at = 0
    for hunk in hunks:
        begin, lines = hunk["oldStart"], hunk["lines"]
        assert isinstance(begin, int)
        assert isinstance(lines, list)
        begin -= 1 if hunk["oldLines"] else 0
        new += old[at:begin]
        assert len(new) == int(str(hunk["newStart"])) - (1 if hunk["newLines"] else 0)
        at = begin
        for line in lines:
            match line[0]:
                case " ":
                    assert old[at] == line[1:]
                    new.append(old[at])
                    at += 1
                case "-":
                    assert old[at] == line[1:]
                    at += 1
                case "+":
                    new.append(line[1:])
        assert at - begin == hunk["oldLines"]
    return "\n".join(new + old[at:])


@given(old=LINES, new=LINES, ends=st.tuples(st.booleans(), st.booleans()))
def test_the_patch_of_two_texts_makes_one_of_the_other(
    old: list[str], new: list[str], ends: tuple[bool, bool]
) -> None:
    a = "\n".join(old) + "\n" * ends[0]
    b = "\n".join(new) + "\n" * ends[1]
    assert applied(a, diff_texts(a, b)) == b.removesuffix("\n") or a == b


STEP = st.tuples(
    st.text(alphabet="ab\n", min_size=1, max_size=4), st.text(alphabet="ab\nX", max_size=6)
)


@given(text=st.text(alphabet="ab\n", max_size=80), steps=st.lists(STEP, min_size=1, max_size=4))
def test_the_patch_of_edits_makes_the_new_text_of_the_old(
    text: str, steps: list[tuple[str, str]]
) -> None:
    changed, regions = text, list[Region]()
    for old, new in steps:
        regions = replace_spans(regions, find(changed, old), len(new))
        changed = changed.replace(old, new)
    patch = diff_regions(text, changed, regions)
    assert applied(text, patch) == changed.removesuffix("\n") or changed == text
    at = at_new = 0
    for o1, o2, n1, n2 in regions:
        assert text[at:o1] == changed[at_new:n1]
        assert o1 <= o2
        assert n1 <= n2
        at, at_new = o2, n2
    assert text[at:] == changed[at_new:]


def test_far_apart_changes_are_hunks_of_their_own_and_large_ones_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "".join(f"{i}\n" for i in range(1000))
    changed = text.replace("\n100\n", "\nx\n").replace("\n900\n", "\ny\n")
    assert [h["oldStart"] for h in diff_texts(text, changed)] == [98, 898]
    assert diff_texts(text, text) == []
    monkeypatch.setattr("clew.core.line_diff.PAIRS_MAX", 10)
    assert len(diff_texts(text, changed)) == 1


def test_what_they_are_for_the_executor() -> None:
    change = Edit().input_type(file_path="/x", old_string="a", new_string="b")
    whole = Write().input_type(file_path="/x", content="a")
    assert not Edit().is_read_only(change)
    assert not Edit().is_concurrency_safe(change)
    assert Write().is_destructive(whole)
    assert Edit().paths(change) == Write().paths(whole) == ("/x",)
    assert Edit().title(change) == Write().title(whole) == "/x"


def test_a_large_file_is_patched_by_its_changed_lines_alone(workshop: Workshop) -> None:
    lines = [f"line {number:06}\n" for number in range(60_000)]
    path = workshop.write("large.txt", "".join(lines))
    workshop.use(Read(), file_path=str(path))
    edits = [
        {"old_string": "line 000001\n", "new_string": "first\n"},
        {"old_string": "line 059998\n", "new_string": "last\n"},
    ]
    result = workshop.use(MultiEdit(), file_path=str(path), edits=edits)
    assert (
        result.content
        == f"Edited {path}: 2 replacements, the first at line 2; the file now has 60,000 lines."
    )
    raw = result.tool_use_result
    assert [hunk["oldStart"] for hunk in raw["structuredPatch"]] == [1, 59_996]
    assert sum(len(hunk["lines"]) for hunk in raw["structuredPatch"]) == 12
    assert raw["originalFileContents"] is None
    lines[1], lines[59_998] = "first\n", "last\n"
    assert path.read_text("utf-8") == "".join(lines)


def test_several_edits_are_made_in_order_or_not_at_all(workshop: Workshop) -> None:
    path = workshop.write("a.txt", "one two three\n")
    workshop.use(Read(), file_path="a.txt")
    steps = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "two", "new_string": "four", "replace_all": True},
        {"old_string": "four three", "new_string": "five"},
    ]
    result = workshop.use(MultiEdit(), file_path="a.txt", edits=steps)
    assert path.read_text("utf-8") == "four five\n"
    assert result.tool_use_result["structuredPatch"][0]["lines"] == [
        "-one two three",
        "+four five",
    ]
    assert result.tool_use_result["edits"][0] == steps[0] | {"replace_all": False}
    assert result.display == "4 replacements"
    for wrong in ({"old_string": "gone", "new_string": "x"}, {"old_string": "", "new_string": "x"}):
        edits = [{"old_string": "four", "new_string": "six"}, wrong]
        failed = workshop.use(MultiEdit(), file_path="a.txt", edits=edits)
        assert failed.is_error
        assert "Edit 2 of 2: old_string" in str(failed.content)
        assert "Nothing was changed." in str(failed.content)
        assert path.read_text("utf-8") == "four five\n"
    assert workshop.use(MultiEdit(), file_path="a.txt", edits=[]).is_error


def test_several_edits_can_begin_with_a_new_file(workshop: Workshop) -> None:
    steps = [
        {"old_string": "", "new_string": "a = 1\nb = 2\n"},
        {"old_string": "b = 2", "new_string": "b = 3"},
    ]
    result = workshop.use(MultiEdit(), file_path="new/a.py", edits=steps)
    assert (workshop.folder / "new" / "a.py").read_text("utf-8") == "a = 1\nb = 3\n"
    assert result.tool_use_result["type"] == "create"
    again = workshop.use(MultiEdit(), file_path="new/a.py", edits=steps)
    assert "exists, so old_string must not be empty" in str(again.content)
