"""The place that every test of a word begins in."""

from pathlib import Path

import pytest

from tests.commands.sessions.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
