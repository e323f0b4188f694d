"""Runs clew as a user to whom file permissions apply, even if root runs the tests."""

from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[3]
# Python runs a file of this name before the program it was started for. The kernel is told which layout
# the sets have; each of them is empty then.
_BEFORE = """
import ctypes
import os

if os.geteuid() == 0:
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capset(head, sets):
        os._exit(70)
"""


def binding(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Apply file permissions to every clew that starts from now on."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_BEFORE, "utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{_REPOSITORY}")
