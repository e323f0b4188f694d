"""Images and documents in frames: complete, or reported as omitted, and never cut."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.agent.tools.pictures import png
from tests.fronts.headless.host_process import Hosted

Json = dict[str, Any]
LONGEST = 1_048_576


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("side", [300, 700])
def test_no_picture_is_cut_within_a_frame(tmp_path: Path, side: int) -> None:
    picture = png(side, side, noise=True)
    whole = base64.b64encode(picture).decode()
    work = tmp_path / "work"
    work.mkdir()
    (work / "noise.png").write_bytes(picture)
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": whole},
    }
    look = {"tool": "Read", "input": {"file_path": "noise.png"}}
    plan = {"scenario": 1, "answers": [{"content": [look]}, {"text": "Seen."}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--replay-user-messages") as host,
    ):
        host.say([{"type": "text", "text": "look"}, image])
        assert host.result()["result"] == "Seen."
        assert host.end() == 0
    assert all(len(json.dumps(frame).encode()) <= LONGEST for frame in host.frames)
    user = [frame for frame in host.frames if frame["type"] == "user"]
    assert len(user) >= 2
    for frame in user:
        shown = [text for text in texts(frame) if len(text) > 1000]
        for text in shown:
            # Whatever is there can be decoded, and is a picture to its last byte.
            assert b"IEND" in base64.b64decode(text, validate=True)[-8:]
        if not shown:
            assert "truncated" in frame or "shortened" in frame, frame
