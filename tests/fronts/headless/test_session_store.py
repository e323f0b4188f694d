"""A store in the settings.

The real program sends sessions there while they run, and fetches them.
"""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.record.stores.server import FAULTS, Remote, remote
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
ANY: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}


def settled(home: Path, store: str) -> Path:
    """A machine whose settings name the store."""
    folder = home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"sessionStore": store}), "utf-8")
    return home


def texts(server: Any) -> list[str]:
    blocks = [b for m in server.requests[-1].body["messages"] for b in m["content"]]
    found = (b if isinstance(b, str) else b.get("text", "") for b in blocks)
    return [text for text in found if text in ("one", "two", "three", "Fine.")]


def only(home: Path) -> Path:
    (path,) = transcripts(home)
    return path


@requirement("R195", "R208", "W30")
def test_a_session_goes_on_at_another_machine(tmp_path: Path) -> None:
    store = tmp_path / "store"
    a, b = settled(tmp_path / "a", str(store)), settled(tmp_path / "b", str(store))
    with serving(ANY, strict=True) as server:
        clew(a, server.url, "-p", "one", "--session-id", SESSION)
        kept = store / SESSION / "session.jsonl"
        assert kept.read_bytes() == only(a).read_bytes()
        done = clew(b, server.url, "-p", "two", "--resume", SESSION)
        assert (done.returncode, "store" in done.stderr) == (0, False)
        assert texts(server) == ["one", "Fine.", "two"]
        assert kept.read_bytes() == only(b).read_bytes()
        done = clew(a, server.url, "-p", "three", "--continue")
        assert texts(server) == ["one", "Fine.", "two", "Fine.", "three"]
        # No model was asked for anything but the prompts.
        assert len(server.requests) == 3
    assert kept.read_bytes() == only(a).read_bytes()
    assert len(list((a / "config" / "clew" / "backups").iterdir())) == 1


def test_a_subagents_transcript_goes_along(tmp_path: Path) -> None:
    store = tmp_path / "store"
    home = settled(tmp_path, str(store))
    call = {"description": "look", "prompt": "Look.", "run_in_background": False}
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Agent", "input": call}]},
            {"text": "seen", "times": "always"},
        ],
    }
    with serving(plan, strict=True) as server:
        clew(home, server.url, "-p", "one", "--session-id", SESSION)
    (agent,) = (only(home).with_suffix("") / "subagents").glob("agent-*.jsonl")
    assert (store / SESSION / agent.name).read_bytes() == agent.read_bytes()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_copy_that_is_no_file_costs_the_copy_alone(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store"
    home = settled(tmp_path, str(store))
    with serving(ANY, strict=True) as server:
        clew(home, server.url, "-p", "one", "--session-id", SESSION)
        kept = store / SESSION / "session.jsonl"
        kept.unlink()
        if kind == "pipe":
            os.mkfifo(kept)
        else:
            kept.symlink_to("/dev/zero")
        done = clew(home, server.url, "-p", "two", "--resume", SESSION)
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        assert "folder store: " in done.stderr
        assert texts(server) == ["one", "Fine.", "two"]
    assert not kept.is_file()


def test_what_a_failing_store_did_not_take_goes_with_the_next_session(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text("a file stands here", "utf-8")
    home = settled(tmp_path, str(store))
    with serving(ANY, strict=True) as server:
        done = clew(home, server.url, "-p", "one", "--session-id", SESSION)
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        told = "clew: this session can't be copied to the store: folder store:"
        assert done.stderr.startswith(told)
        assert done.stderr.count("\n") == 1
        store.unlink()
        done = clew(home, server.url, "-p", "two", "--resume", SESSION)
        assert done.stderr == ""
    assert (store / SESSION / "session.jsonl").read_bytes() == only(home).read_bytes()


@requirement("W31")
def test_lines_that_went_two_ways_are_one_session_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    a, b = settled(tmp_path / "a", str(store)), settled(tmp_path / "b", str(store))
    with serving(ANY, strict=True) as server:
        clew(a, server.url, "-p", "one", "--session-id", SESSION)
        clew(b, server.url, "-p", "two", "--resume", SESSION)
        settled(a, str(tmp_path / "nowhere"))
        clew(a, server.url, "-p", "three", "--resume", SESSION)
        settled(a, str(store))
        done = clew(a, server.url, "-p", "one", "--resume", SESSION)
        assert (done.returncode, done.stderr) == (0, "")
    said = only(a).read_text("utf-8")
    assert '"two"' in said
    assert '"three"' in said
    assert (store / SESSION / "session.jsonl").read_bytes() == only(a).read_bytes()


@requirement("R209", "R258", "R263")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_service_that_fails_costs_nothing_but_the_copy(tmp_path: Path, fault: str) -> None:
    async with remote(tmp_path / "store") as store:
        home = settled(tmp_path, store.url)
        with serving(ANY, strict=True) as server:

            async def said(*args: str) -> subprocess.CompletedProcess[str]:
                return await asyncio.to_thread(clew, home, server.url, "-p", *args)

            await said("one", "--session-id", SESSION)
            before = only(home).read_bytes()
            assert await kept(store) == before
            store.fault = fault
            done = await said("two", "--resume", SESSION)
            assert (done.returncode, done.stdout) == (0, "Fine.\n")
            assert texts(server) == ["one", "Fine.", "two"]
            assert only(home).read_bytes().startswith(before)
            for secret in ("ada", str(tmp_path), "one", "two", SESSION):
                assert secret not in done.stderr
            store.fault = ""
            done = await said("three", "--resume", SESSION)
            assert (done.returncode, done.stderr) == (0, "")
            assert texts(server) == ["one", "Fine.", "two", "Fine.", "three"]
            assert await kept(store) == only(home).read_bytes()


@pytest.mark.e2e
async def test_a_service_that_says_nothing_is_not_waited_for_without_end(tmp_path: Path) -> None:
    async with remote(tmp_path / "store") as store:
        home = settled(tmp_path, store.url)
        with serving(ANY, strict=True) as server:

            async def said(*args: str) -> subprocess.CompletedProcess[str]:
                return await asyncio.to_thread(clew, home, server.url, "-p", *args)

            await said("one", "--session-id", SESSION)
            store.fault = "silent"
            done = await said("two", "--resume", SESSION)
            assert (done.returncode, done.stdout) == (0, "Fine.\n")
            assert "to the store: the store timed out" in done.stderr


async def kept(store: Remote) -> bytes:
    from clew.record.stores.base import TranscriptKey

    return b"".join([piece async for piece in store.store.read(TranscriptKey(session_id=SESSION))])


async def test_a_session_that_is_nowhere_says_what_the_store_said(tmp_path: Path) -> None:
    home = settled(tmp_path, str(tmp_path / "store"))
    done = await asyncio.to_thread(clew, home, "http://127.0.0.1:9", "-p", "x", "--resume", SESSION)
    assert done.returncode == 1
    assert (
        f"session {SESSION} not found here, and can't be pulled from the store: the store does not contain it"
        in done.stderr
    )
    home = settled(tmp_path, "http://127.0.0.1:9/x")
    done = await asyncio.to_thread(clew, home, "http://127.0.0.1:9", "-p", "x", "--resume", SESSION)
    assert "the store: http store: no server responds at its address" in done.stderr


def test_a_folder_that_depends_on_where_one_stands_is_no_store(tmp_path: Path) -> None:
    with serving(ANY, strict=True) as server:
        done = clew(settled(tmp_path, "store"), server.url, "-p", "one")
    assert done.stdout == "Fine.\n"
    assert "sessionStore: 'store' must be a URL or a path" in done.stderr


def test_what_is_not_kept_is_not_sent(tmp_path: Path) -> None:
    home = settled(tmp_path, str(tmp_path / "store"))
    with serving(ANY, strict=True) as server:
        clew(home, server.url, "-p", "one", "--no-session-persistence")
    assert not (tmp_path / "store").exists()


def test_a_folder_that_is_not_trusted_names_no_store(tmp_path: Path) -> None:
    (tmp_path / "work" / ".claude").mkdir(parents=True)
    named = json.dumps({"sessionStore": str(tmp_path / "store")})
    (tmp_path / "work" / ".claude" / "settings.json").write_text(named, "utf-8")
    with serving(ANY, strict=True) as server:
        clew(tmp_path, server.url, "-p", "one")
    assert not (tmp_path / "store").exists()
