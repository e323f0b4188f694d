"""Questions that are open when the program ends are asked again, and no call runs twice."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import clew
from tests.fronts.sdk.test_plug_ins import options

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.fronts.sdk.test_open_questions import ask_and_wait

asyncio.run(ask_and_wait(Path(sys.argv[1]), sys.argv[2] or None))
"""


class Touching:
    """Calls three commands, and repeats the results. `may_end` holds the last call back."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __call__(self, request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        results = [b for m in request.messages for b in m["content"] if b["type"] == "tool_result"]
        if results:
            yield "; ".join(str(result["content"]) for result in results)
            return
        for name in ("one", "two", "three"):
            if name == "three":
                await self.may_end.wait()
            command = {"command": f"echo {name} >> {name}"}
            yield {"type": "tool_use", "name": "Bash", "input": command}


def make_options(
    folder: Path, permission: Any, resume: str | None = None, model: Touching | None = None
) -> clew.ClewOptions:
    if model is None:
        model = Touching()
        model.may_end.set()
    return options(folder, provider=model, model="own", can_use_tool=permission, resume=resume)


async def finish(given: clew.ClewOptions, prompt: str) -> clew.Result:
    async with clew.ClewClient(given) as client, client.turn(prompt) as turn:
        return await turn.finish()


def find_session(folder: Path) -> clew.Session:
    (session,) = clew.sessions(folder / "work", home=folder / "home")
    return session


async def ask_and_wait(folder: Path, resume: str | None) -> None:
    """Approve the first call, and wait for ever at the second one, once the third has arrived."""
    model = Touching()

    async def permit(call: clew.Call) -> clew.Permit:
        if "two" in call.input["command"]:
            model.may_end.set()
            while len(find_session(folder).deferred_calls()) < 2:  # noqa: ASYNC110 (of a file)
                await asyncio.sleep(0)
            sys.stdout.write(f"{call.tool_use_id}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        return clew.Permit()

    await finish(make_options(folder, permit, resume, model), "" if resume else "Begin")


async def kill_at_the_question(folder: Path, resume: str = "") -> str:
    """Run a program until it is asked, and kill it. Return the ID of the call."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(folder), resume, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = await process.stdout.readline()
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    return line.decode().strip()


async def test_a_question_outlives_programs_that_are_killed(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        asked = await kill_at_the_question(tmp_path)
        session = find_session(tmp_path)
        assert await kill_at_the_question(tmp_path, session.id) == asked
    second, third = session.deferred_calls()
    assert (second.id, second.input) == (asked, {"command": "echo two >> two"})
    seen: list[str] = []

    async def permit(call: clew.Call) -> clew.Permit:
        seen.append(call.tool_use_id)
        return clew.Permit()

    result = await finish(make_options(tmp_path, permit, session.id), "")
    assert (result.terminal_reason, seen) == ("completed", [asked, third.id])
    assert "clew exited" not in result.text
    for name in ("one", "two", "three"):
        assert (tmp_path / "work" / name).read_text("utf-8") == f"{name}\n"
    assert (session.deferred_calls(), session.check()) == ([], [])


async def test_an_interrupt_answers_an_open_question(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def wait(call: clew.Call) -> clew.Permit:
        asked.set()
        await asyncio.Event().wait()
        return clew.Permit()

    given = make_options(tmp_path, wait)
    async with (
        asyncio.timeout(20),
        clew.ClewClient(given) as client,
        client.turn("Begin") as turn,
    ):
        ending = asyncio.create_task(turn.finish())
        await asked.wait()
        await client.interrupt()
        result = await ending
    session = clew.Session.open(result.session_id, home=tmp_path / "home")
    assert (session.deferred_calls(), session.check()) == ([], [])


async def test_an_interrupt_leaves_a_call_deferred_that_was_deferred_before(tmp_path: Path) -> None:
    asked = asyncio.Event()
    calls: list[str] = []

    async def wait(call: clew.Call) -> clew.Permit | clew.Defer:
        calls.append(call.input["command"])
        if len(calls) <= 3:
            return clew.Defer() if "two" in calls[-1] else clew.Permit()
        if len(calls) == 4:
            asked.set()
            await asyncio.Event().wait()
        return clew.Permit()

    given = make_options(tmp_path, wait)
    async with asyncio.timeout(20), clew.ClewClient(given) as client:
        async with client.turn("Begin") as turn:
            result = await turn.finish()
        assert result.terminal_reason == "tool_deferred"
        async with client.turn("Now") as turn:
            ending = asyncio.create_task(turn.finish())
            await asked.wait()
            await client.interrupt()
            assert (await ending).terminal_reason != "completed"
        session = clew.Session.open(result.session_id, home=tmp_path / "home")
        assert len(session.deferred_calls()) == 1
        async with client.turn("Go on") as turn:
            assert (await turn.finish()).terminal_reason == "completed"
    assert len(calls) == 5
    assert (tmp_path / "work" / "two").read_text("utf-8") == "two\n"
    assert (session.deferred_calls(), session.check()) == ([], [])
