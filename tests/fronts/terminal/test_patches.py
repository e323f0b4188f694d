"""Diffs in the output of commands: drawn with numbers, signs and changed words."""

import subprocess
from pathlib import Path

from clew.fronts.render.folders import Folders
from clew.fronts.render.patches import render_patches
from clew.fronts.render.rows import format_row
from clew.fronts.render.theme import BARE, DARK, Look
from clew.testing.server import serving
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_linear import HELLO, WRITES
from tests.fronts.terminal.test_screen import READY

DIFF = """\
diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def f():
 one

-return a - b
+return a + b
@@ -20 +20,2 @@
--- no header
+++ nor this
+more
\\ No newline at end of file
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 1111111..0000000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-last
diff --git a/x.bin b/x.bin
new file mode 100644
Binary files /dev/null and b/x.bin differ
new: /home/me/work/b.py"""


def drawn(text: str) -> list[str]:
    look = Look(80, BARE, folders=Folders(cwd="/home/me/work"))
    return [format_row(row) for row in render_patches(text, look, "quiet")]


def test_each_file_of_a_diff_is_named_with_what_changed() -> None:
    assert drawn(DIFF) == [
        "a.py  +3 -2",
        " 1   one",
        " 2   ",
        " 3 - return a - b",
        " 3 + return a + b",
        "   ⋮",
        "20 - -- no header",
        "20 + ++ nor this",
        "21 + more",
        "   \\ No newline at end of file",
        "",
        "new name  renamed from old name",
        "",
        "gone.txt  deleted · +0 -1",
        "1 - last",
        "",
        "x.bin  new · binary",
        "new: b.py",
    ]


def test_a_hunk_below_an_indent_belongs_to_the_file_that_the_line_above_names() -> None:
    text = "Would be changed: /home/me/work/a.py (+1 -1)\n    @@ -7,1 +7,1 @@\n    -x = 1\n    +x = 2\n    ... 3 more lines"
    assert drawn(text) == [
        "Would be changed: a.py (+1 -1)",
        "7 - x = 1",
        "7 + x = 2",
        "    ... 3 more lines",
    ]
    assert drawn("@@ -1,5 +1,5 @@\n-cut off") == ["1 - cut off"]
    assert drawn("@@ -1 +1 @@\n-a\n+b\n c") == ["1 - a", "1 + b", " c"]
    assert drawn("@@ -1 +1 @@\n+b\n+c\n") == ["1 + b", "+c", ""]
    painted = [format_row(row) for row in render_patches(DIFF, Look(80, DARK), "quiet")]
    assert any("\x1b[48" in row or "48;5" in row for row in painted)


def git(work: Path, *words: str) -> None:
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)


def test_uncommitted_changes_are_drawn(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\ny = 2\n", "utf-8")
    git(work, "init")
    git(work, "add", ".")
    git(work, "commit", "-m", "begin")
    (work / "a.py").write_text("x = 1\ny = 3\n", "utf-8")
    (work / "b.py").write_text("", "utf-8")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/diff\r")
        screen.expect("new: b.py")
        screen.expect("\n  a.py  +1 -1\n  1   x = 1\n  2 - y = 2\n  2 + y = 3\n")
        assert "diff --git" not in screen.text


def test_what_a_rewind_would_do_to_files_is_drawn(tmp_path: Path) -> None:
    with serving(WRITES, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("write it\r")
        screen.expect("1. Yes")
        screen.type("y")
        screen.expect("So be it.")
        screen.expect_rest()
        screen.type("/rewind\r")
        screen.expect("changed since")
        screen.type("\r")
        screen.expect("Would be removed: x.txt (+0 -1)\n1 - new\n")
