"""Read: numbered lines of any text file, within limits, with a record of what was shown."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.tools import files
from clew.agent.tools.edit import Edit
from clew.agent.tools.files import NO_TEXT_FILE, lines_of
from clew.agent.tools.read import LINE_MAX_CHARS, SHOWN_MAX_CHARS, Read, pieces
from clew.permissions.resolver import make_resolver
from clew.system.files import NOT_REGULAR
from tests.agent.tools.workshop import Workshop
from tests.requirements import requirement


@requirement("R137")
def test_each_line_has_its_number_and_a_tab(workshop: Workshop) -> None:
    path = workshop.write("a.txt", "one\n\ttwo\n\nfour")
    result = workshop.use(Read(), file_path=str(path))
    assert result.content == "1\tone\n2\t\ttwo\n3\t\n4\tfour"
    assert not result.is_error
    assert result.tool_use_result == {
        "type": "text",
        "file": {
            "filePath": str(path),
            "content": "one\n\ttwo\n\nfour",
            "numLines": 4,
            "startLine": 1,
            "totalLines": 4,
        },
    }


def test_a_part_is_read_and_the_way_on_is_reported(workshop: Workshop) -> None:
    workshop.write("a.txt", "".join(f"line {i}\n" for i in range(1, 11)))
    result = workshop.use(Read(), file_path="a.txt", offset=4, limit=2)
    assert result.content == "4\tline 4\n5\tline 5\n\n(Lines 4-5 of 10. Continue with offset=6.)"
    assert workshop.use(Read(), file_path="a.txt", offset=9).content == "9\tline 9\n10\tline 10"
    beyond = workshop.use(Read(), file_path="a.txt", offset=11)
    assert beyond.is_error
    assert "has 10 lines; line 11 does not exist" in beyond.content
    assert beyond.tool_use_result == f"Error: {beyond.content}"


def test_without_a_limit_two_thousand_lines_come(workshop: Workshop) -> None:
    workshop.write("a.txt", "x\n" * 2500)
    result = workshop.use(Read(), file_path="a.txt")
    assert isinstance(result.content, str)
    assert result.content.endswith("2000\tx\n\n(Lines 1-2000 of 2,500. Continue with offset=2001.)")


def test_long_lines_are_cut_and_a_long_result_ends_at_a_line(workshop: Workshop) -> None:
    workshop.write("a.txt", "y" * (LINE_MAX_CHARS + 5) + "\n" + ("z" * 1999 + "\n") * 100)
    result = workshop.use(Read(), file_path="a.txt")
    assert isinstance(result.content, str)
    first, *_, last = result.content.split("\n")
    assert first == "1\t" + "y" * LINE_MAX_CHARS + "… [5 more characters]"
    assert last == "(Lines 1-49 of 101. Continue with offset=50.)"
    assert len(result.content) < SHOWN_MAX_CHARS + 100


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xef\xbb\xbfa\n", "1\ta"),
        ("ä\n€".encode("utf-16"), "1\tä\n2\t€"),
        (b"\xfe\xff" + "ä".encode("utf-16-be"), "1\tä"),
        ("ä".encode("utf-32"), "1\tä"),
        (b"caf\xe9\n", "1\tcafé"),
        (b"a\r\nb\r\n", "1\ta\n2\tb"),
        ("a\u2028b\x0cc\u0085".encode(), "1\ta\u2028b\x0cc\u0085"),
    ],
)
def test_encodings_marks_and_line_ends(workshop: Workshop, data: bytes, shown: str) -> None:
    workshop.write("a.txt", data)
    assert workshop.use(Read(), file_path="a.txt").content == shown


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.txt", "File not found"),
        ("setings.json", "Did you mean"),
        ("no/such/folder/a.txt", "no/such/folder does not exist"),
        ("pipe", NOT_REGULAR),
        ("binary", f"{NO_TEXT_FILE} (9 bytes of binary data)"),
        ("half16", NO_TEXT_FILE),
        ("nul\0name", "can't contain a NUL"),
    ],
)
def test_what_cannot_be_read_is_said(workshop: Workshop, name: str, says: str) -> None:
    workshop.write("settings.json", "{}")
    os.mkfifo(workshop.folder / "pipe")
    workshop.write("binary", b"\x89ELF\r\n\x1a\n\0")
    workshop.write("half16", b"\xff\xfea\0b\0\0")
    result = workshop.use(Read(), file_path=name)
    assert result.is_error
    assert says in str(result.content)


def test_an_unreadable_file_is_said(workshop: Workshop, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    result = workshop.use(Read(), file_path=str(loop))
    assert "Too many levels" in str(result.content)


def test_an_empty_file_is_empty(workshop: Workshop) -> None:
    workshop.write("a.txt", "")
    result = workshop.use(Read(), file_path="a.txt")
    assert "is empty" in str(result.content)
    assert not result.is_error


def test_a_path_means_what_permissions_take_it_to_mean(workshop: Workshop) -> None:
    workshop.write("sub/a.txt", "x")
    workshop.write("a.txt", "y")
    workshop.session.cwd = str(workshop.folder / "sub")
    resolve = make_resolver(cwd=workshop.session.cwd, home=str(workshop.folder))
    for text, holds in [("~/sub/a.txt", "x"), ("a.txt", "x"), ("../a.txt", "y"), ("./a.txt", "x")]:
        assert workshop.use(Read(), file_path=text).content == f"1\t{holds}"
        assert os.path.realpath(workshop.session.path(text)) == resolve(text).real
    assert workshop.use(Read(), file_path="~nobody-of-that-name/a.txt").is_error


@requirement("W1", "R135")
def test_the_ledger_knows_what_was_seen(workshop: Workshop, tmp_path: Path) -> None:
    path = workshop.write("a.txt", "x\n" * 100)
    link = tmp_path / "link"
    link.symlink_to(path)
    workshop.use(Read(), file_path=str(link), offset=1, limit=10)
    workshop.use(Read(), file_path=str(path), offset=50, limit=10)
    workshop.use(Read(), file_path=str(path), offset=11, limit=5)
    record = workshop.session.files.ledger.get(str(path))
    assert record is not None
    assert record.ranges == ((1, 15), (50, 59))
    assert (record.size, record.mtime_ns) == (200, path.stat().st_mtime_ns)
    assert record.sha256 == sha256(b"x\n" * 100).digest()
    assert record.message_uuid == "message-1"
    content = workshop.session.files.contents.get(str(path))
    assert content is not None
    assert content.data == b"x\n" * 100


def test_a_large_file_is_read_in_pieces(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WHOLE_MAX_BYTES", 1000)
    path = workshop.write("a.txt", "".join(f"line {i}\r\n" for i in range(1, 501)))
    result = workshop.use(Read(), file_path="a.txt", offset=300, limit=2)
    assert result.content == (
        "300\tline 300\n301\tline 301\n\n(Lines 300-301 of 500. Continue with offset=302.)"
    )
    record = workshop.session.files.ledger.get(str(path))
    assert record is not None
    assert (record.sha256, record.ranges) == (None, ((300, 301),))
    workshop.write("b.bin", b"\0" * 2000)
    assert NO_TEXT_FILE in str(workshop.use(Read(), file_path="b.bin").content)


@given(
    data=st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"\n\n", b"x" * 9]), max_size=40),
    first=st.integers(1, 12),
    count=st.integers(1, 9),
    piece=st.integers(1, 7),
)
def test_pieces_of_any_size_give_the_same_lines_as_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], first: int, count: int, piece: int
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(b"".join(data))
    lines = lines_of(b"".join(data).decode())
    with pytest.MonkeyPatch.context() as patch, path.open("rb", buffering=0) as file:
        patch.setattr("clew.agent.tools.read.PIECE_BYTES", piece)
        found = pieces(file.fileno(), path, first, count)
    assert found.total == len(lines)
    assert found.lines == lines[first - 1 : first - 1 + count]


def test_what_it_is_for_the_executor() -> None:
    tool = Read()
    given = tool.input_type(file_path="/x", offset=3, limit=2)
    assert tool.is_read_only(given)
    assert tool.is_concurrency_safe(given)
    assert not tool.is_destructive(given)
    assert tool.paths(given) == ("/x",)
    assert tool.title(given) == "/x:3-4"
    assert tool.title(tool.input_type(file_path="/x")) == "/x"


def test_lines_that_stand_above_are_not_repeated(workshop: Workshop) -> None:
    workshop.write("a.txt", "one\ntwo\n")
    standing: set[str] = set()
    workshop.session.files.in_conversation = standing.__contains__
    assert workshop.use(Read(), file_path="a.txt").content == "1\tone\n2\ttwo"
    assert workshop.use(Read(), file_path="a.txt").content == "1\tone\n2\ttwo"
    standing.add("message-1")
    again = workshop.use(Read(), file_path="a.txt")
    assert "is unchanged since you read these lines" in str(again.content)
    assert again.tool_use_result == {
        "type": "file_unchanged",
        "file": {"filePath": str(workshop.folder / "a.txt")},
    }
    assert workshop.use(Read(), file_path="a.txt", limit=1).content != again.content
    workshop.use(Edit(), file_path="a.txt", old_string="two", new_string="three")
    assert workshop.use(Read(), file_path="a.txt").content == "1\tone\n2\tthree"
    standing.clear()
    assert workshop.use(Read(), file_path="a.txt").content == "1\tone\n2\tthree"
