"""Requirements about recording and loading, checked in the files of real runs."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.test_records import CHAIN, UUID
from tests.fronts.headless.test_told_records import FINE, SESSION, entry, left, said, uid
from tests.requirements import requirement

Json = dict[str, Any]


def lines_of(path: Path) -> list[Json]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


@requirement("R079", "R180", "R182", "R183", "R184")
def test_each_run_adds_only_its_own_lines_to_the_end_of_the_chain(tmp_path: Path) -> None:
    call = {"tool": "Bash", "input": {"command": "echo one"}}
    answers = [{"content": ["I look.", call]}, {"text": "Seen."}, *FINE["answers"]]
    url = "http://127.0.0.1:9"
    with serving({"scenario": 1, "answers": answers}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "ALPHA", "--allowedTools", "Bash")
        (path,) = transcripts(tmp_path)
        files = [path.read_bytes()]
        for prompt in ("BETA", "GAMMA"):
            clew(tmp_path, server.url, "-p", prompt, "--continue")
            files.append(path.read_bytes())
        forked = clew(tmp_path, server.url, "-p", "DELTA", "--continue", "--fork-session")
        assert forked.returncode == 0, forked.stderr
        told = json.dumps(server.requests[-1].body["messages"])
    assert files[1].startswith(files[0])
    assert files[2].startswith(files[1])
    lines = lines_of(path)
    chain = [line for line in lines if line["type"] in CHAIN]
    ids = [line["uuid"] for line in chain]
    assert len(set(ids)) == len(ids)
    assert all(UUID.fullmatch(uuid) for uuid in ids)
    # The first line of each run hangs on the last one of the run before.
    assert [line["parentUuid"] for line in chain] == [None, *ids[:-1]]
    assert lines[-1]["type"] not in CHAIN
    # A copy begins with what is known, and goes on behind it.
    (copy,) = set(transcripts(tmp_path)) - {path}
    copied = [line for line in lines_of(copy) if line["type"] in CHAIN]
    assert [line["uuid"] for line in copied[: len(ids)]] == ids
    assert copied[len(ids)]["parentUuid"] == ids[-1]
    assert [told.count(name) for name in ("ALPHA", "BETA", "GAMMA", "DELTA")] == [1] * 4
    for one in (path, copy):
        assert clew(tmp_path, url, "sessions", "check", one.stem).returncode == 0


@requirement("R177", "R240", "W27")
def test_of_a_huge_file_two_ends_are_read_for_a_list(tmp_path: Path) -> None:
    """Its middle, which could not be read in time, is a hole."""
    words = 'Say "Grüße"\nand \\n'
    prompt = [{"type": "text", "text": words}, {"type": "text", "text": "y" * 200_000}]
    path = left(tmp_path, said("user", 1, prompt), said("assistant", 2, "one"))
    title = json.dumps({"type": "custom-title", "customTitle": 'A "title" é', "sessionId": SESSION})
    with path.open("r+b") as file:
        file.seek(64 << 30)
        file.write(b"\n" + title.encode() + b"\n")
    listed = clew(tmp_path, "http://127.0.0.1:9", "sessions", "list", "--json")
    (row,) = json.loads(listed.stdout)
    assert row["title"] == 'A "title" é'
    assert row["firstPrompt"] == " ".join(words.split())
    assert row["sizeBytes"] > 64 << 30


@requirement("W34")
def test_the_place_in_the_file_and_the_chain_are_an_order_and_times_are_none(
    tmp_path: Path,
) -> None:
    """Clocks ran backward, and one line has no time."""
    at = ["2026-03-01T10:00:00.000Z", "2026-01-01T10:00:00.000Z", "2026-02-01T10:00:00.000Z", ""]
    kinds = ("user", "assistant", "user", "assistant")
    texts = ("ALPHA", "one", "BETA", "two")
    lines = [said(kind, n, text) | {"timestamp": time}
        for n, (kind, text, time) in enumerate(zip(kinds, texts, at, strict=True), 1)]  # fmt: skip
    # A branch that was left, with the newest time; and a leaf that says which one is live.
    lines.insert(
        3, said("user", 9, "LEFT", parentUuid=uid(2)) | {"timestamp": "2027-01-01T00:00:00.000Z"}
    )
    left(tmp_path, *lines, entry("file-history-snapshot", 12))
    with serving(FINE, strict=True) as server:
        clew(tmp_path, server.url, "-p", "GAMMA", "--resume", SESSION)
        words = json.dumps(server.requests[-1].body["messages"])
    places = [words.index(text) for text in (*texts, "GAMMA")]
    assert places == sorted(places)
    assert "LEFT" not in words
