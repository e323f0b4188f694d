"""Opening a path of which no part may be a link."""

import errno
import os
from pathlib import Path

import pytest

from clew.system.files import FOLDER, make_folder_without_links, open_without_links, read_content


def test_a_link_anywhere_on_the_way_is_refused(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    (top / "real").mkdir()
    (top / "real" / "file").write_text("text", "utf-8")
    (top / "folder").symlink_to("real")
    (top / "real" / "link").symlink_to("file")
    os.close(open_without_links("/", FOLDER))
    opened = open_without_links(f"{top}/real/file", os.O_RDONLY)
    assert os.read(opened, 9) == b"text"
    os.close(opened)
    for path in (f"{top}/folder/file", f"{top}/real/link", f"{top}/folder"):
        for flags in (os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY):
            with pytest.raises(OSError, match="replaced by a link") as caught:
                open_without_links(path, flags)
            assert caught.value.errno == errno.ELOOP
    with pytest.raises(NotADirectoryError):
        open_without_links(f"{top}/real/file/x", os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        open_without_links(f"{top}/none/x", os.O_RDONLY)
    os.mkfifo(top / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_content(top / "pipe", through_links=False)


def test_a_folder_is_created_behind_no_link(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    (top / "elsewhere").mkdir()
    (top / "link").symlink_to("elsewhere")
    make_folder_without_links(f"{top}/a/b/c")
    make_folder_without_links(f"{top}/a/b/c")
    assert (top / "a" / "b" / "c").is_dir()
    with pytest.raises(OSError, match="replaced by a link"):
        make_folder_without_links(f"{top}/link/new")
    assert list((top / "elsewhere").iterdir()) == []
