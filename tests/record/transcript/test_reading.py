"""A transcript in memory is read like its file, however it was damaged."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.engine import read_transcript
from clew.record.transcript.load import load


async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    if request.messages[-1]["content"][0].get("text") == "Look":
        yield {"type": "tool_use", "name": "Bash", "input": {"command": "echo seen"}}
    else:
        yield "Yes."


async def keep_last(request: clew.CompactionRequest) -> clew.CompactionSummary:
    prompts = [entry["uuid"] for entry in request.entries if entry["type"] == "user"]
    return clew.CompactionSummary(text="Before.", keep_from=prompts[-1])


async def test_bytes_give_the_conversation_of_the_file(tmp_path: Path) -> None:
    options = clew.ClewOptions(
        cwd=tmp_path,
        home=tmp_path / "home",
        setting_sources=[],
        inherit_env=False,
        allowed_tools=["Bash"],
        compact=keep_last,
        provider=model,
        model="scripted",
    )
    async with clew.ClewClient(options) as client:
        for prompt in ("One " * 200, "Look", "/compact", "Look", "Two"):
            async with client.turn(prompt) as turn:
                result = await turn.finish()
    path = clew.Session.open(result.session_id, cwd=tmp_path, home=tmp_path / "home").path
    data = path.read_bytes()
    messages = read_transcript(data)
    assert messages == load(path).messages
    assert any(message.get("subtype") == "compact_boundary" for message in messages)
    assert [m["uuid"] for m in messages if m["type"] == "assistant"]
    assert read_transcript(b"") == []

    damaged = tmp_path / path.name
    ends = [at for at, byte in enumerate(data) if byte == 10]
    for cut in (*ends[::4], *(end + 30 for end in ends[:-1:5])):
        for piece in (data[:cut], data[:cut] + b"\n{no entry}\n" + data[cut:]):
            damaged.write_bytes(piece)
            assert read_transcript(piece) == load(damaged).messages


def test_a_transcript_is_read_from_bytes_only(tmp_path: Path) -> None:
    path: Any = tmp_path
    with pytest.raises(TypeError, match="expected the bytes of a transcript, got PosixPath"):
        read_transcript(path)
