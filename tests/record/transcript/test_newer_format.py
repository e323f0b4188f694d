"""A session in a newer format can be read, and is left as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.requirements import requirement

TALK: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Heard.", "times": "always"}]}


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """Return a session of this clew whose first line names the next format."""
    with serving(TALK) as server:
        assert clew(tmp_path, server.url, "-p", "remember this").returncode == 0
    (path,) = (tmp_path / "config" / "projects").rglob("*.jsonl")
    first, rest = path.read_bytes().split(b"\n", 1)
    header = json.loads(first)
    header |= {"format": header["format"] + 1, "version": "99.1"}
    path.write_bytes(json.dumps(header, separators=(",", ":")).encode() + b"\n" + rest)
    return path


@requirement("R295")
@pytest.mark.parametrize(
    "words",
    [
        ("-p", "go on", "--continue"),
        ("-p", "go on", "--resume", "{id}"),
        ("sessions", "rename", "{id}", "a name"),
        ("sessions", "tag", "{id}", "a-tag"),
    ],
)
def test_what_would_change_it_says_why_it_does_not(
    tmp_path: Path, newer: Path, words: tuple[str, ...]
) -> None:
    before = newer.read_bytes()
    with serving(TALK) as server:
        done = clew(tmp_path, server.url, *(word.format(id=newer.stem) for word in words))
        assert not server.requests
    assert done.returncode in (1, 2)
    assert "99.1" in done.stderr
    assert "update clew" in done.stderr
    assert "Traceback" not in done.stderr
    assert newer.read_bytes() == before


def test_it_can_be_shown_searched_and_exported(tmp_path: Path, newer: Path) -> None:
    for words in (("show",), ("check",), ("export", "--format", "markdown")):
        done = clew(tmp_path, "http://127.0.0.1:1", "sessions", words[0], newer.stem, *words[1:])
        assert done.returncode == 0, done.stderr
    assert "Heard." in done.stdout
