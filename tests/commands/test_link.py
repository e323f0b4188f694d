"""`clew link`: programs that look for `claude` start clew, and nothing of theirs is replaced."""

import os
import subprocess
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, environment


def test_a_program_named_claude_starts_clew_until_it_is_removed(tmp_path: Path) -> None:
    shim = tmp_path / ".local" / "bin" / "claude"
    with serving({"scenario": 1, "answers": [{"text": "Fine."}]}, strict=True) as server:
        made = clew(tmp_path, server.url, "link")
        assert (made.returncode, clew(tmp_path, server.url, "link").returncode) == (0, 0)
        path = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["claude", "-p", "hi there"],
            env=environment(tmp_path, server.url) | {"PATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stdout == "Fine.\n"
        assert str(shim) in made.stdout
        assert clew(tmp_path, server.url, "link", "--remove").returncode == 0
    assert not shim.exists()


def test_a_program_that_is_there_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    theirs, linked = tmp_path / "bin" / "claude", tmp_path / "links" / "claude"
    theirs.parent.mkdir()
    theirs.write_text("#!/bin/sh\n", "utf-8")
    linked.parent.mkdir()
    linked.symlink_to(tmp_path / "nowhere")
    for place in (theirs, linked):
        for words in ((), ("--remove",)):
            done = clew(
                tmp_path, "http://127.0.0.1:1", "link", "--folder", str(place.parent), *words
            )
            assert done.returncode == 1
            assert str(place) in done.stderr
    assert theirs.read_text("utf-8") == "#!/bin/sh\n"
    assert linked.is_symlink()
