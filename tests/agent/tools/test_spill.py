"""Results that are too long.

Both ends for the model, and everything in a file named by its content.
"""

import asyncio
import errno
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clew.agent.tools import spill
from clew.agent.tools.base import ToolOutcome, make_failure
from clew.agent.tools.bash import Bash
from clew.agent.tools.spill import IN_FILE, NOT_SAVED
from clew.testing.server import serving
from tests.agent.tools.workshop import Workshop
from tests.fronts.headless.clew_process import clew, transcripts

LONG = "".join(f"line {number:05}\n" for number in range(10_000))


def fitted(result: ToolOutcome, folder: Path, limit: int = 50_000) -> ToolOutcome:
    return asyncio.run(spill.fit_result(result, limit, folder))


def test_a_short_result_is_left_alone(tmp_path: Path) -> None:
    result = ToolOutcome(content="x" * 50_000)
    assert fitted(result, tmp_path) is result
    assert list(tmp_path.iterdir()) == []


def test_a_long_one_keeps_its_ends_and_names_the_file_of_the_whole(tmp_path: Path) -> None:
    folder = tmp_path / "tool-results"
    result = fitted(ToolOutcome(content=LONG, tool_use_result={"text": LONG, "n": 1}), folder)
    (file,) = folder.iterdir()
    text = str(result.content)
    assert text.startswith("line 00000\n")
    assert text.endswith("line 09999")
    assert f"middle omitted, {len(LONG):,} bytes in total; {IN_FILE} {file}" in text
    assert len(text) < spill.SHOWN_CHARS + 300
    assert file.read_text("utf-8") == LONG
    assert file.stem == sha256(LONG.encode()).hexdigest()[:32]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert result.tool_use_result == {
        "text": LONG[:50_000],
        "n": 1,
        "persistedOutputPath": str(file),
        "persistedOutputSize": len(LONG),
    }


def test_the_same_result_twice_is_one_file(tmp_path: Path) -> None:
    first = fitted(ToolOutcome(content=LONG), tmp_path)
    assert fitted(ToolOutcome(content=LONG), tmp_path).content == first.content
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failure_stays_one(tmp_path: Path) -> None:
    result = fitted(make_failure(LONG), tmp_path)
    assert result.is_error
    assert IN_FILE in str(result.content)


def test_of_blocks_the_texts_are_shortened_and_pictures_stay(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "A" * 90_000}}
    content: list[dict[str, Any]] = [
        {"type": "text", "text": LONG},
        picture,
        {"type": "text", "text": "the last"},
    ]
    result = fitted(ToolOutcome(content=content, tool_use_result=content), tmp_path)
    assert isinstance(result.content, list)
    assert [block["type"] for block in result.content] == ["text", "image"]
    assert result.content[0]["text"].endswith("the last")
    assert result.content[1] == picture
    assert result.tool_use_result[1] == picture
    assert result.tool_use_result[0]["text"] == LONG[:50_000]


def test_what_is_no_character_does_not_stop_it(tmp_path: Path) -> None:
    result = fitted(ToolOutcome(content="\ud83d" * 60_000), tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes().startswith(b"\\ud83d")
    assert IN_FILE in str(result.content)


def test_on_a_full_disk_the_ends_still_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    result = fitted(ToolOutcome(content=LONG), tmp_path)
    assert NOT_SAVED in str(result.content)
    assert str(result.content).endswith("line 09999")
    assert list(tmp_path.iterdir()) == []


def test_a_command_s_output_is_kept_under_the_name_of_its_content(workshop: Workshop) -> None:
    for _ in range(2):
        result = workshop.use(Bash(), command="seq 1 20000")
    whole = "".join(f"{number}\n" for number in range(1, 20_001)).encode()
    (file,) = workshop.session.spill_folder.iterdir()
    assert file.read_bytes() == whole
    assert file.stem == sha256(whole).hexdigest()[:32]
    assert result.tool_use_result["persistedOutputPath"] == str(file)
    assert f"{IN_FILE} {file}" in str(result.content)


def test_a_secret_is_neither_in_the_file_nor_at_a_cut(workshop: Workshop) -> None:
    secret = "topsecret-0123456789"
    workshop.session.secrets = (secret,)
    # The secret stands over the place where the shown head ends.
    command = f"head -c 14990 /dev/zero | tr '\\0' x; echo {secret}; seq 1 9000; echo {secret}"
    result = workshop.use(Bash(), command=command)
    (file,) = workshop.session.spill_folder.iterdir()
    kept = file.read_text("utf-8")
    assert secret not in kept
    assert kept.count("*" * len(secret)) == 2
    text = str(result.content)
    assert "topsecret" not in text
    assert "[masked]" in text


def test_a_long_search_is_kept_and_can_be_read_and_searched_unasked(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "long.txt").write_text("".join(f"{n:05} {'y' * 90}\n" for n in range(2000)), "utf-8")

    def plan(path: str) -> dict[str, Any]:
        search = {"pattern": "y", "output_mode": "content", "head_limit": 0}
        return {
            "scenario": 1,
            "answers": [
                {"content": [{"tool": "Grep", "input": search}]},
                {"content": [{"tool": "Read", "input": {"file_path": path, "offset": 1000, "limit": 1}}]},
                {"content": [{"tool": "Grep", "input": {"pattern": "01999", "path": path, "output_mode": "content"}}]},
                {"text": "Done."},
            ],
        }  # fmt: skip

    session = "11111111-2222-4333-8444-555555555555"
    with serving(plan("nowhere"), strict=True) as server:
        clew(tmp_path, server.url, "-p", "search", "--session-id", session)
    (log,) = transcripts(tmp_path)
    (file,) = (log.parent / session / "tool-results").iterdir()
    with serving(plan(str(file)), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "again", "--resume", session)
        last = server.requests[-1].body["messages"]
    assert (done.stdout, done.returncode) == ("Done.\n", 0)
    results = [
        str(block["content"])
        for message in last
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    again, read, found = results[-3:]
    assert f"{IN_FILE} {file}" in again
    assert again.startswith("long.txt:1:00000 yyy")
    assert again.endswith("long.txt:2000:01999 " + "y" * 90)
    assert read.startswith("1000\tlong.txt:1000:00999 yyy")
    assert "long.txt:2000:01999 yyy" in found
