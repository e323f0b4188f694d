"""The light reader: outlines from the ends of a file, alone in the world."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript import light
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"


def line(**entry: Any) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def user(text: Any, **more: Any) -> bytes:
    return line(
        type="user",
        uuid="u",
        timestamp="2026-01-02T03:04:05.678Z",
        cwd="/w",
        gitBranch="main",
        message={"role": "user", "content": text},
        **more,
    )


def answer(size: int) -> bytes:
    return line(type="assistant", message={"content": [{"type": "text", "text": "x" * size}]})


def session(folder: Path, *lines: bytes) -> Path:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(lines))
    return path


@requirement("R264")
def test_the_light_reader_runs_alone_with_nothing_of_the_project(tmp_path: Path) -> None:
    path = session(tmp_path, user("hello"))
    program = (
        "import runpy,sys,pathlib;"
        f"m=runpy.run_path({light.__file__!r});"
        "print(m['read_outline'](pathlib.Path(sys.argv[1])).title);"
        "print([n for n in sys.modules if n.startswith(('clew','msgspec'))])"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(path)], capture_output=True, check=True
    )
    assert run.stdout.split(b"\n")[:2] == [b"hello", b"[]"]


@requirement("R176", "R240")
def test_of_a_large_file_only_the_two_ends_are_read(tmp_path: Path) -> None:
    many = answer(1000) * 3000
    title = line(type="custom-title", customTitle="Kept", sessionId=SESSION)
    path = session(tmp_path, user("hello"), many, title)
    ends = light.read_ends(path)
    assert ends is not None
    assert len(ends.head) + len(ends.tail) <= 2 * light.READ_SIZE_BYTES + 1100
    assert light.READ_SIZE_BYTES == 65536
    found = light.read_outline(path)
    assert found is not None
    assert (found.title, found.first_prompt, found.cwd) == ("Kept", "hello", "/w")
    assert found.size_bytes == path.stat().st_size
    assert found.created_at == "2026-01-02T03:04:05.678Z"


@requirement("W27")
def test_a_line_longer_than_either_end_is_read_whole(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"data": "A" * 300_000}}
    prompt = user([picture, {"type": "text", "text": "what is this?"}])
    title = line(type="ai-title", aiTitle="A picture", sessionId=SESSION)
    path = session(tmp_path, prompt, title, answer(400_000))
    found = light.read_outline(path)
    assert found is not None
    assert (found.first_prompt, found.title) == ("what is this?", "A picture")


@requirement("R177")
def test_a_field_is_found_in_a_cut_line_and_unescaped_only_if_it_must_be() -> None:
    cut = b'{"cwd":"/plain","title": "tab\\t\\u00e9\\"q\\"","x":"unfini'
    assert light.find_string_field(cut, "cwd") == "/plain"
    assert light.find_string_field(cut, "title") == 'tab\té"q"'
    assert light.find_string_field(cut, "x") is None
    assert light.find_string_field(b'{"a":"1"}{"a":"2"}', "a", last=True) == "2"
    assert light.unescape(b"\xff\\ud800") == "\ufffd?"
    assert light.unescape(b"bad \\x escape") == "bad \\x escape"


@requirement("R178")
@pytest.mark.parametrize(
    "text", ["<ide-context> x", "<task-notification>\n", "[Request interrupted by user]", "  "]
)
def test_what_a_program_wrote_is_not_the_first_prompt(tmp_path: Path, text: str) -> None:
    assert light.find_first_prompt(user(text) + user("real")) == "real"


@requirement("W28")
def test_a_prompt_that_begins_with_a_tag_counts_where_the_entry_says_who_wrote_it() -> None:
    text = "<div> renders twice, fix it"
    assert light.find_first_prompt(user(text, origin={"kind": "human"})) == text
    assert light.find_first_prompt(user(text, promptSource="typed")) == text
    assert light.find_first_prompt(user(text)) is None


def test_meta_results_and_summaries_are_no_prompts_and_commands_a_last_resort() -> None:
    head = b"".join(
        [
            user("meta", isMeta=True),
            line(type="user", isMeta=1, message={"content": "spaced"}),
            user("summary", isCompactSummary=True),
            user([{"type": "tool_result", "tool_use_id": "t", "content": "r"}]),
            user("<command-name>/init</command-name>"),
            b'{"type":"user","message":3}\n{"type":"user","message":{"content":[1,{"type":"text"}]}}\n',
        ]
    )
    assert light.find_first_prompt(head) == "/init"
    assert light.find_first_prompt(head + user("a\n  b " + "c" * 300)) == "a b " + "c" * 196 + "…"


def test_titles_rank_custom_generated_first_prompt_last_prompt(tmp_path: Path) -> None:
    lines = [line(type="last-prompt", lastPrompt="latest")]

    def title() -> str:
        found = light.read_outline(session(tmp_path, *lines))
        assert found is not None
        return found.title

    assert title() == "latest"
    lines.append(user("first"))
    assert title() == "first"
    lines.append(line(type="ai-title", aiTitle="generated"))
    assert title() == "generated"
    lines.append(line(type="custom-title", customTitle="chosen"))
    lines.append(line(type="assistant", customTitle="nested elsewhere", x={"type": "custom-title"}))
    assert title() == "chosen"
    lines.append(line(type="custom-title", customTitle=""))
    assert title() == "generated"
    lines.append(line(type="tag", tag="release", sessionId=SESSION))
    found = light.read_outline(session(tmp_path, *lines))
    assert found is not None
    assert (found.tag, found.custom_title) == ("release", None)


def test_damage_hides_nothing_that_is_whole(tmp_path: Path) -> None:
    path = session(
        tmp_path, b"\xef\xbb\xbf", user("hello"), b"{oops\n\x00\x00\n[1]\n", b'"\xff"\n', b'{"torn'
    )
    found = light.read_outline(path)
    assert found is not None
    assert found.title == "hello"


def test_a_list_has_sessions_newest_first_and_nothing_else(tmp_path: Path) -> None:
    import os

    names = [f"{n}" * 8 + SESSION[8:] for n in "123"]
    for age, name in enumerate(names):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(user(f"prompt {age}"))
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / f"{SESSION}.jsonl").touch()  # newest, and empty: it must not hide the others
    (tmp_path / "agent-7.jsonl").write_bytes(user("agent"))
    (tmp_path / "notes.txt").touch()
    (tmp_path / f"{'4' * 8}{SESSION[8:]}.jsonl").write_bytes(user("side", isSidechain=True))
    assert [o.title for o in light.read_outlines(tmp_path)] == ["prompt 0", "prompt 1", "prompt 2"]
    assert light.list_session_files(tmp_path / "missing") == []
    assert light.read_ends(tmp_path / "missing") is None
