"""Files of every version of the format, kept for ever: they load as they did on their first day."""

import json
from pathlib import Path

import pytest

from clew.record.transcript.examine import examine
from clew.record.transcript.load import load
from clew.record.transcript.record import FORMAT

GOLDEN = Path(__file__).parent / "sessions"


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_file_of_that_version_loads_as_it_did(version: int) -> None:
    folder = GOLDEN / f"format-{version}"
    (path,) = folder.glob("*.jsonl")
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    loaded = load(path)
    assert [m["uuid"] for m in loaded.messages] == expected["live"]
    assert loaded.leaf_uuid == expected["leaf"]
    assert loaded.side.current["clew-session"]["format"] == version
    assert loaded.side.current["custom-title"]["customTitle"] == expected["title"]
    assert len(load(path, reads_all=True).messages) == len(expected["live"])
    assert examine(path).errors == []
