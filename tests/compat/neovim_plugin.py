"""clew in a terminal, connected to a real Neovim with the published plug-in claudecode.nvim.

Run with `make compat NVIM_PLUGIN=CHECKOUT`; it needs `nvim`, version 0.8 or later.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.agent.executor import EDITED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import until
from tests.fronts.terminal.screen import OnScreen

PLUGIN = os.environ["NVIM_PLUGIN"]
EDITS = {"old_string": "x = 1", "new_string": "x = 2"}
COUNT = "return vim.tbl_count(require('claudecode.diff')._get_active_diffs())"
DIAGNOSE = """
vim.diagnostic.set(vim.api.nvim_create_namespace('test'), vim.fn.bufnr('a.py'),
  {{lnum=0, col=0, message='x is two', severity=vim.diagnostic.severity.ERROR}})
"""
# The user's own line in the proposed text, saved.
CHANGE = """
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  if vim.b[buffer].claudecode_diff_tab_name and vim.bo[buffer].modifiable then
    vim.api.nvim_buf_set_lines(buffer, 0, 1, false, {'x = 3'})
    vim.api.nvim_buf_call(buffer, function() vim.cmd('write') end)
  end
end
"""


class Neovim:
    """A Neovim without a screen, driven over its own socket."""

    def __init__(self, home: Path, work: Path) -> None:
        program = shutil.which("nvim")
        assert program is not None, "nvim is needed to run its plug-in"
        self._socket = str(home / "nvim.sock")
        setup = "lua require('claudecode').setup({terminal={provider='none'}})"
        words = [program, "--clean", "--headless", "--listen", self._socket]
        options = ["--cmd", f"set rtp^={PLUGIN}", "-c", setup, "a.py"]
        environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self._child = subprocess.Popen(
            [*words, *options],
            cwd=work,
            env=environ | {"CLAUDE_CONFIG_DIR": str(home / "config"), "NVIM_LOG_FILE": os.devnull},
            stdin=subprocess.DEVNULL,
        )
        self._program = program

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            [self._program, "--server", self._socket, *words],
            capture_output=True, text=True, encoding="utf-8", timeout=30, check=True,
        )  # fmt: skip
        return done.stdout or done.stderr

    def lua(self, code: str) -> str:
        return self._ask("--remote-expr", f"luaeval({json.dumps(f'(function() {code} end)()')})")

    def do(self, code: str) -> None:
        self.lua(f"{code} return 1")

    @property
    def diffs(self) -> int:
        return int(self.lua(COUNT))

    def type(self, keys: str) -> None:
        self._ask("--remote-send", keys)

    def end(self) -> None:
        self._child.terminate()
        self._child.wait(30)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\ny = 1\n", "utf-8")
    return folder


@pytest.fixture
def neovim(tmp_path: Path, work: Path) -> Iterator[Neovim]:
    neovim = Neovim(tmp_path, work)
    try:
        until(lambda: any((tmp_path / "config" / "ide").glob("*.lock")))
        yield neovim
    finally:
        neovim.end()


def plan(path: Path) -> dict[str, object]:
    return {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": str(path)}}]},
            {"content": [{"tool": "Edit", "input": {"file_path": str(path), **EDITS}}]},
            {"text": "So be it.", "times": "always"},
        ],
    }


def test_the_editors_selection_diagnostics_and_approval(
    tmp_path: Path, work: Path, neovim: Neovim
) -> None:
    with serving(plan(work / "a.py")) as server, OnScreen(tmp_path, server.url, "--ide") as screen:
        screen.expect("⧉ Neovim")
        neovim.type("ggVj")
        screen.expect("a.py, 2 lines selected")
        screen.type("go\r")
        screen.expect("Or answer in Neovim")
        until(lambda: neovim.diffs == 1)
        neovim.do(DIAGNOSE)
        neovim.do("vim.cmd('ClaudeCodeDiffAccept')")
        screen.expect("So be it.")
        until(lambda: neovim.diffs == 0)
        until(lambda: "x = 2" in neovim.lua("return vim.fn.getbufline('a.py', 1)[1]"))
        first, last = (json.dumps(server.requests[n].body["messages"]) for n in (0, -1))
    assert (work / "a.py").read_text("utf-8") == "x = 2\ny = 1\n"
    assert "The user selected lines 1-2 of a.py in Neovim" in first
    assert "a.py:1:1: error: x is two" in last


def test_the_users_version_is_written_in_the_editors_terminal(
    tmp_path: Path, work: Path, neovim: Neovim
) -> None:
    port = next((tmp_path / "config" / "ide").glob("*.lock")).stem
    env = {"CLAUDE_CODE_SSE_PORT": port, "ENABLE_IDE_INTEGRATION": "true"}
    with serving(plan(work / "a.py")) as server, OnScreen(tmp_path, server.url, env=env) as screen:
        screen.expect("⧉ Neovim")
        neovim.type("ggV:ClaudeCodeSend<CR>")
        screen.expect("> @a.py#L1-1")
        screen.type("\r")
        screen.expect("Or answer in Neovim")
        until(lambda: neovim.diffs == 1)
        neovim.do(CHANGE)
        screen.expect("So be it.")
        until(lambda: neovim.diffs == 0)
        last = json.dumps(server.requests[-1].body["messages"])
    assert (work / "a.py").read_text("utf-8") == "x = 3\ny = 1\n"
    assert EDITED in last


def test_a_rejected_or_closed_diff_changes_nothing(
    tmp_path: Path, work: Path, neovim: Neovim
) -> None:
    with serving(plan(work / "a.py")) as server, OnScreen(tmp_path, server.url, "--ide") as screen:
        screen.expect("⧉ Neovim")
        screen.type("go\r")
        screen.expect("Or answer in Neovim")
        until(lambda: neovim.diffs == 1)
        neovim.do("vim.cmd('ClaudeCodeDiffDeny')")
        screen.expect_gone("Or answer in Neovim")
        screen.expect_rest()
        until(lambda: neovim.diffs == 0)
    assert (work / "a.py").read_text("utf-8") == "x = 1\ny = 1\n"


def test_an_answer_in_the_terminal_closes_the_diff(
    tmp_path: Path, work: Path, neovim: Neovim
) -> None:
    with serving(plan(work / "a.py")) as server, OnScreen(tmp_path, server.url, "--ide") as screen:
        screen.expect("⧉ Neovim")
        screen.type("go\r")
        screen.expect("Or answer in Neovim")
        until(lambda: neovim.diffs == 1)
        screen.type("y")
        screen.expect("So be it.")
        until(lambda: neovim.diffs == 0)
    assert (work / "a.py").read_text("utf-8") == "x = 2\ny = 1\n"
