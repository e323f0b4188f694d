"""Turns as objects: each has its own messages and its own result."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.fronts.sdk.test_plug_ins import options


async def echo(request: clew.ModelRequest) -> AsyncIterator[str]:
    texts = [block["text"] for block in request.messages[-1]["content"]]
    words = [text for text in texts if not text.startswith(("<", "["))][-1]
    yield f"You said {words}."
    if words == "wait":
        await asyncio.Event().wait()


def own(folder: Path) -> clew.ClewOptions:
    return options(folder, provider=echo, model="own", persists=False)


async def test_turns_of_several_tasks_keep_their_messages_apart(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client:
        assert client.info["commands"]

        async def ask(prompt: str) -> tuple[list[str], str]:
            async with client.turn(prompt) as turn:
                messages = [message async for message in turn]
                texts = [m.text for m in messages if isinstance(m, clew.Assistant)]
                return texts, turn.result.text

        async with asyncio.timeout(20):
            await client.query("first")  # Its messages are nobody's; the turns must not get them.
            answers = await asyncio.gather(*(ask(f"number {n}") for n in range(3)))
        expected = [f"You said number {n}." for n in range(3)]
        assert answers == [([text], text) for text in expected]
        async with client.turn("number 4") as turn:
            with pytest.raises(RuntimeError, match="no result yet"):
                assert turn.result
            result = await turn.finish()
            assert await turn.finish() == result
        assert client.session_id == result.session_id


async def test_leaving_a_turn_interrupts_it(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        async with client.turn("wait") as turn:
            async for message in turn:
                if isinstance(message, clew.System):
                    break
        async with client.turn("next") as turn:
            assert (await turn.finish()).text == "You said next."
        async with client.turn("/clear") as turn:
            await turn.finish()
        async with client.turn("new") as turn:
            assert (await turn.finish()).text == "You said new."


def read_texts(session: clew.Session) -> list[str]:
    return [
        block.text
        for message in session.messages()
        if isinstance(message, clew.User | clew.Assistant)
        for block in message.content
        if isinstance(block, clew.Text)
    ]


async def test_a_turn_that_is_left_at_once_is_interrupted(tmp_path: Path) -> None:
    async with (
        clew.ClewClient(options(tmp_path, provider=echo, model="own")) as client,
        asyncio.timeout(20),
    ):
        async with client.turn("wait"):
            pass
        async with client.turn("next") as turn:
            result = await turn.finish()
    assert result.text == "You said next."
    session = clew.Session.open(result.session_id, home=tmp_path / "home")
    assert read_texts(session) == ["wait", "[Request interrupted by user]", "next", result.text]


async def results(client: clew.ClewClient, number: int) -> list[clew.Result]:
    found: list[clew.Result] = []
    async for message in client.receive_messages():
        if isinstance(message, clew.Result):
            found.append(message)
            if len(found) == number:
                break
    return found


async def test_an_interrupt_applies_to_all_earlier_prompts_and_to_no_later_one(
    tmp_path: Path,
) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(60):
        for steps in range(40):  # From before the prompt is read until its answer streams.
            await client.query("wait")
            for _ in range(steps):
                await asyncio.sleep(0)
            await client.interrupt()
            await client.query("later")
            ended, later = await results(client, 2)
            assert ended.terminal_reason == "aborted_streaming"
            assert (ended.is_error, later.text) == (True, "You said later.")
        # Nothing runs, so there is nothing to interrupt.
        await client.interrupt()
        # The second is a prompt of its own, and the command is not recorded as one.
        for prompt in ("wait", "wait", "/compact"):
            await client.query(prompt)
        await client.interrupt()
        ended_all = await results(client, 3)
        assert {result.terminal_reason for result in ended_all} == {"aborted_streaming"}
        uuids = [result.data["user_message_uuids"] for result in ended_all]
        assert len({uuid for (uuid,) in uuids}) == 3


async def test_an_interrupt_applies_to_a_prompt_that_the_running_turn_would_receive(
    tmp_path: Path,
) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        await client.query("wait")
        async for message in client.receive_messages():
            if isinstance(message, clew.System) and message.subtype == "init":
                break
        await client.query("more")
        await client.interrupt()
        ended = await results(client, 2)
        assert [result.terminal_reason for result in ended] == ["aborted_streaming"] * 2
        assert (await finish(client, "next")).text == "You said next."


async def test_an_interrupt_during_a_hook_that_may_block_drops_the_prompt(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def wait(event: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
        if event["prompt"] == "first":
            began.set()
            await asyncio.Event().wait()
        return {}

    hooks = [clew.HookAt(event="UserPromptSubmit", call=wait)]
    given = options(tmp_path, provider=echo, model="own", hooks=hooks)
    async with clew.ClewClient(given) as client, asyncio.timeout(20):
        await client.query("first")
        await began.wait()
        await client.interrupt()
        (ended,) = await results(client, 1)
        assert ended.terminal_reason == "aborted_streaming"
        assert (await finish(client, "next")).text == "You said next."
    session = clew.Session.open(ended.session_id, home=tmp_path / "home")
    assert read_texts(session) == ["next", "You said next."]
    assert session.check() == []


async def test_the_news_of_a_background_task_answer_no_prompt(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client:
        await client.query("hello")
        client._note_answered({"origin": {"kind": "task-notification"}})
        assert len(client._unanswered) == 1


class EndlessProvider:
    """Counts the answers that began and those that ended."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: clew.ModelRequest) -> AsyncIterator[str]:
        try:
            yield "First"
            self.began.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_client_that_is_left_while_a_turn_runs_takes_only_an_interrupt(
    tmp_path: Path,
) -> None:
    provider = EndlessProvider()
    client = clew.ClewClient(options(tmp_path, provider=provider, model="own"))
    await client.__aenter__()
    async with asyncio.timeout(20):
        turn = asyncio.create_task(finish(client, "Begin"))
        await provider.began.wait()
        leaving = asyncio.create_task(client.__aexit__(None, None, None))
        await asyncio.sleep(0)
        with pytest.raises(clew.HostError, match="the client is closing"):
            await client.query("more")
        turn.cancel()  # Leaving the turn interrupts it, so that the session can end.
        await asyncio.wait([turn, leaving])
        assert provider.ended.is_set()
    assert turn.cancelled()
    assert leaving.exception() is None


async def test_a_leave_that_is_cancelled_ends_the_session(tmp_path: Path) -> None:
    provider = EndlessProvider()

    async def leave_at_once() -> None:
        async with clew.ClewClient(options(tmp_path, provider=provider, model="own")) as client:
            await client.query("Begin")

    leaving = asyncio.create_task(leave_at_once())
    async with asyncio.timeout(20):
        await provider.began.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
    assert leaving.cancelled()
    assert provider.ended.is_set()
    (session,) = clew.sessions(tmp_path / "work", home=tmp_path / "home")
    assert session.check() == []
    assert read_texts(session)[0] == "Begin"


async def finish(client: clew.ClewClient, prompt: str) -> clew.Result:
    async with client.turn(prompt) as turn:
        return await turn.finish()


async def test_a_turn_of_a_session_that_has_ended_raises_an_error(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        async with client.turn("/exit") as turn:
            await turn.finish()
            with pytest.raises(RuntimeError, match="exit the current turn"):
                await client.turn("more").__aenter__()
        with pytest.raises(clew.HostError, match="ended"):
            await finish(client, "more")


def test_a_program_without_a_loop_gets_the_result(tmp_path: Path) -> None:
    assert clew.run_sync("hello", own(tmp_path)).text == "You said hello."


async def touch(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Make two files, and then repeat what came of the calls."""
    results = [b for m in request.messages for b in m["content"] if b["type"] == "tool_result"]
    if not results:
        for name in ("one", "two"):
            call = {"command": f"echo {name} >> {name}"}
            yield {"type": "tool_use", "name": "Bash", "input": call}
    else:
        yield f"{sum(not result.get('is_error') for result in results)} done"


@pytest.mark.parametrize("prompt", ["Go on", ""])
async def test_a_deferred_approval_is_given_after_the_program_has_ended(
    tmp_path: Path, prompt: str
) -> None:
    asked: list[clew.Call] = []

    async def later(call: clew.Call) -> clew.Permit | clew.Defer:
        asked.append(call)
        return clew.Permit() if "one" in call.input["command"] else clew.Defer()

    given = options(tmp_path, provider=touch, model="own", can_use_tool=later)
    async with clew.ClewClient(given) as client, client.turn("Begin") as turn:
        result = await turn.finish()
    assert result.terminal_reason == "tool_deferred"
    work = tmp_path / "work"
    assert sorted(path.name for path in work.iterdir()) == ["one"]

    session = clew.Session.open(result.session_id, home=tmp_path / "home")
    (waiting,) = session.deferred_calls()
    assert (waiting.id, waiting.input) == (asked[1].tool_use_id, {"command": "echo two >> two"})
    assert result.deferred == waiting

    async def now(call: clew.Call) -> clew.Permit | clew.Deny:
        return clew.Permit() if call.tool_use_id == waiting.id else clew.Deny(words="unknown")

    resumed = options(
        tmp_path, provider=touch, model="own", can_use_tool=now, resume=result.session_id
    )
    async with clew.ClewClient(resumed) as client, client.turn(prompt) as turn:
        assert (await turn.finish()).text == "2 done"
    assert [(work / name).read_text("utf-8") for name in ("one", "two")] == ["one\n", "two\n"]
    assert session.deferred_calls() == []
    assert session.check() == []


async def test_a_turn_that_was_not_begun_says_how_to_begin_it(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="use `async with"):
            await client.turn("never").finish()


async def test_a_second_reader_of_the_same_messages_gets_an_error(tmp_path: Path) -> None:
    holding, going_on = asyncio.Event(), asyncio.Event()

    async def wait(request: clew.ModelRequest) -> AsyncIterator[str]:
        holding.set()
        await going_on.wait()
        yield "done"

    given = options(tmp_path, provider=wait, model="own")
    async with clew.ClewClient(given) as client, asyncio.timeout(20), client.turn("go") as turn:
        first = asyncio.create_task(turn.finish())
        await holding.wait()
        for second in (turn.finish(), anext(client.receive_messages())):
            with pytest.raises(RuntimeError, match="another task is reading these messages"):
                await asyncio.create_task(second)
        going_on.set()
        assert (await first).text == "done"
        assert (await turn.finish()).text == "done"


async def test_a_client_in_another_event_loop_raises_an_error(tmp_path: Path) -> None:
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        for use in (
            lambda: finish(client, "hello"),
            lambda: client.query("hello"),
            client.interrupt,
            lambda: results(client, 1),
            lambda: client.__aexit__(None, None, None),
        ):
            with pytest.raises(RuntimeError, match="belongs to the event loop that entered it"):
                await asyncio.to_thread(asyncio.run, use())
        assert (await finish(client, "hello")).text == "You said hello."


async def test_a_turn_in_a_function_that_the_running_turn_waits_for_raises_an_error(
    tmp_path: Path,
) -> None:
    errors: list[str] = []

    async def permit(call: clew.Call) -> clew.Deny:
        try:
            await finish(client, "inner")
        except RuntimeError as error:
            errors.append(str(error))
        return clew.Deny("no")

    given = options(tmp_path, provider=touch, model="own", can_use_tool=permit)
    async with clew.ClewClient(given) as client, asyncio.timeout(20):
        assert (await finish(client, "Begin")).text == "0 done"
    assert len(errors) == 2
    assert "the running turn waits for this function" in errors[0]


async def test_a_request_or_prompt_that_cannot_be_sent_leaves_nothing_open(tmp_path: Path) -> None:
    wrong: Any = object()
    async with clew.ClewClient(own(tmp_path)) as client, asyncio.timeout(20):
        with pytest.raises(TypeError, match="Encoding objects of type object is unsupported"):
            await client.request("mcp_status", value=wrong)
        assert client._requests.open_requests() == []
        with pytest.raises(
            TypeError, match="prompt: expected str or a list of blocks, got <object"
        ):
            await client.query(wrong)
        assert (await finish(client, "hello")).text == "You said hello."
