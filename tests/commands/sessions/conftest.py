"""The config home and working folder of every test of `clew sessions`."""

from pathlib import Path

import pytest

from tests.commands.sessions.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
