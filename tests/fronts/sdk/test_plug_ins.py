"""What a program plugs into its sessions: its own provider and its own store."""

import asyncio
import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore
from claude_agent_sdk.testing import run_session_store_conformance
from msgspec import structs

import clew
from clew.record.transcript.paths import get_sidecar
from tests.gates.house import ROOT


def options(folder: Path, **more: Any) -> clew.ClewOptions:
    (work := folder / "work").mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "cwd": work,
        "home": folder / "home",
        "inherit_env": False,
        "setting_sources": [],
    }
    return clew.ClewOptions(**settings | more)


async def ask(prompt: str, given: clew.ClewOptions) -> tuple[list[clew.Message], clew.Result]:
    messages = [message async for message in clew.query(prompt, given)]
    assert isinstance(messages[-1], clew.Result)
    return messages, messages[-1]


async def collect(given: clew.ClewOptions, messages: list[clew.Message]) -> None:
    async for message in clew.query("Hello", given):
        messages.append(message)


@clew.tool
async def twice(number: int) -> str:
    """Return twice the number."""
    return str(number * 2)


async def test_a_function_answers_in_place_of_a_service(tmp_path: Path) -> None:
    seen: list[clew.ModelRequest] = []

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        seen.append(request)
        last = request.messages[-1]["content"]
        request.messages.clear()  # The session keeps its own messages.
        if not any(block.get("type") == "tool_result" for block in last):
            yield "Let me "
            await asyncio.sleep(0)
            yield "count."
            yield {"type": "tool_use", "name": "mcp__program__twice", "input": {"number": 21}}
        else:
            yield "42"
            yield {"type": "usage", "input_tokens": 3, "output_tokens": 5}

    given = options(
        tmp_path, provider=answer, model="own", functions=[twice], allowed_tools=["mcp__program"]
    )
    messages, result = await ask("How much?", given)
    texts = [m.text for m in messages if isinstance(m, clew.Assistant) and m.text]
    assert texts == ["Let me count.", "42"]
    assert result.subtype == "success"
    assert result.num_turns == 2
    assert [request.model for request in seen] == ["own", "own"]
    (session,) = clew.list_sessions(tmp_path / "work", home=tmp_path / "home")
    stored = clew.session_messages(session)
    results = [
        e for e in stored if e["type"] == "user" and isinstance(e["message"]["content"], list)
    ]
    assert "42" in str(results[-1]["message"]["content"])

    resumed = options(tmp_path, provider=answer, model="own", resume=session.session_id)
    _, result = await ask("And again?", resumed)
    assert result.subtype == "success"


async def wrong(request: clew.ModelRequest) -> AsyncIterator[Any]:
    yield 3


async def broken(request: clew.ModelRequest) -> AsyncIterator[str]:
    yield "Half an answer"
    raise OSError("the cable is cut")


async def refusing(request: clew.ModelRequest) -> AsyncIterator[clew.Failure]:
    yield clew.Failure(kind="status", status=400, message="not today")


async def cancelled(request: clew.ModelRequest) -> AsyncIterator[str]:
    raise asyncio.CancelledError
    yield ""


def no_iterator(request: clew.ModelRequest) -> str:
    return "words"


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (wrong, "must yield text"),
        (broken, "the cable is cut"),
        (refusing, "not today"),
        (cancelled, "the provider was cancelled"),
        (no_iterator, "the provider raised TypeError"),
    ],
)
async def test_a_failure_of_the_function_ends_the_turn_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: Any, words: str
) -> None:
    messages, result = await ask("Hello", options(tmp_path, provider=provider, model="own"))
    assert result.is_error
    assert words in str([result, *messages]) + caplog.text


async def refusing_late(request: clew.ModelRequest) -> AsyncIterator[str | clew.Failure]:
    yield "Half an answer"
    yield clew.Failure(kind="status", status=400, message="not today")


@pytest.mark.parametrize(
    ("provider", "error"),
    [
        (broken, "the provider raised OSError: the cable is cut"),
        (refusing_late, "not today"),
    ],
)
async def test_a_failure_within_an_answer_ends_the_turn_with_what_came(
    tmp_path: Path, provider: Any, error: str
) -> None:
    messages, result = await ask("Hello", options(tmp_path, provider=provider, model="own"))
    texts = [m.text for m in messages if isinstance(m, clew.Assistant)]
    assert texts == ["Half an answer"]  # The function was called once.
    assert (result.is_error, result.errors) == (True, (error,))
    assert result.text == "Half an answer"


async def test_interrupting_a_turn_ends_the_function(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless(request: clew.ModelRequest) -> AsyncIterator[str]:
        try:
            yield "First"
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with clew.ClewClient(options(tmp_path, provider=endless, model="own")) as client:
        await client.query("Begin")
        async with asyncio.timeout(20):
            await began.wait()
            await client.interrupt()
            messages = [message async for message in client.receive_response()]
            await ended.wait()
    assert isinstance(messages[-1], clew.Result)
    assert messages[-1].errors == ("the turn was interrupted",)


async def task_then_words(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    if "Begin" in str(request.messages[-1]):
        agent = {"description": "Look", "prompt": "Look.", "subagent_type": "Explore"}
        yield {"type": "tool_use", "name": "Task", "input": agent}
    else:
        yield f"{len(request.messages)} messages"


async def test_a_store_of_the_agent_sdk_moves_a_session_to_another_machine(tmp_path: Path) -> None:
    store = InMemorySessionStore()
    more: dict[str, Any] = {"provider": task_then_words, "model": "own", "session_store": store}
    _, first = await ask("Begin", options(tmp_path, **more))
    here = clew.Session.open(first.session_id, home=tmp_path / "home")

    def at(name: str, **other: Any) -> clew.ClewOptions:
        return options(tmp_path, home=tmp_path / name, **more | other)

    _, second = await ask("Go on", at("there", resume=first.session_id))
    assert (second.session_id, second.text) == (first.session_id, "5 messages")
    there = clew.Session.open(first.session_id, home=tmp_path / "there")
    assert there.entries()[: len(here.entries())] == here.entries()
    assert there.check() == []
    (agent,) = there.agents()
    assert agent.path.read_bytes() == here.agents()[0].path.read_bytes()
    assert get_sidecar(agent.path).exists()

    # The first machine has an older state, and gets what it lacks.
    _, third = await ask("And on", at("home", continue_conversation=True))
    assert (third.session_id, third.text) == (first.session_id, "7 messages")
    assert here.check() == []
    _, fourth = await ask("Still", at("home", resume=first.session_id))
    assert fourth.text == "9 messages"


class BrokenStore:
    """A store that refuses everything, or does not load."""

    async def append(self, key: Any, entries: Any) -> None:
        raise ConnectionError("the store is away")

    async def load(self, key: Any) -> Any:
        raise ConnectionError("the store is away")


async def test_a_store_that_fails_stops_no_session_but_prevents_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("clew.fronts.sdk.session_store.PAUSES_S", (0.0,))
    more: dict[str, Any] = {"provider": task_then_words, "model": "own"}
    given = options(tmp_path, session_store=BrokenStore(), **more)
    messages, result = await ask("Hello", given)
    assert result.subtype == "success"
    errors = [
        m.data for m in messages if isinstance(m, clew.System) and m.subtype == "mirror_error"
    ]
    assert errors[0]["error"] == "ConnectionError: the store is away"
    assert errors[0]["key"]["session_id"] == result.session_id
    # Also the last entries before the result, which `query` would otherwise never show.
    assert isinstance(messages[-2], clew.System)
    assert messages[-2].subtype == "mirror_error"
    logged = [r.getMessage() for r in caplog.records if r.name == "clew.store"]
    assert len(logged) >= len(errors)
    assert "were not stored: ConnectionError: the store is away" in logged[0]
    with pytest.raises(clew.HostError, match="load failed: ConnectionError: the store is away"):
        await ask("Hello", structs.replace(given, resume=result.session_id))


def test_a_store_must_have_its_methods_and_entries_to_store(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected an object with append and load"):
        options(tmp_path, session_store={})
    with pytest.raises(ValueError, match="session_store can't be combined"):
        options(tmp_path, session_store=BrokenStore(), persists=False)
    with pytest.raises(TypeError, match="append: expected an async function"):
        options(tmp_path, session_store=BlockingStore())


class BlockingStore:
    def append(self, key: Any, entries: Any) -> None: ...

    async def load(self, key: Any) -> Any: ...


class SilentStore:
    """A store that never answers."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def append(self, key: Any, entries: Any) -> None:
        self.began.set()
        await asyncio.Event().wait()

    async def load(self, key: Any) -> Any: ...


async def test_a_store_that_returns_nothing_to_wait_for_is_called_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []
    store = SilentStore()
    # Only its call shows what a lambda returns.
    vars(store)["append"] = lambda key, entries: calls.append(len(entries))
    given = options(tmp_path, session_store=store, provider=task_then_words, model="own")
    async with asyncio.timeout(20):
        messages, result = await ask("Hello", given)
    errors = [m.data["error"] for m in messages if isinstance(m, clew.System) and "error" in m.data]
    assert result.subtype == "success"
    assert "expected an awaitable from an async function" in errors[0]
    assert len(calls) == sum(record.name == "clew.store" for record in caplog.records)


@pytest.mark.parametrize("store", [SilentStore(), BrokenStore()])
async def test_a_store_that_never_answers_can_be_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    store: SilentStore | BrokenStore,
) -> None:
    monkeypatch.setattr("clew.fronts.sdk.session_store.LEAVE_TIMEOUT_S", 0.1)
    monkeypatch.setattr("clew.fronts.sdk.session_store.PAUSES_S", (100.0,))
    given = options(tmp_path, session_store=store, provider=task_then_words, model="own")
    async with asyncio.timeout(20):
        async with clew.ClewClient(given) as client:
            await client.query("Hello")
            async for message in client.receive_messages():
                if isinstance(message, clew.Assistant):
                    break
        left = [message async for message in client.receive_messages()]
    results = [message for message in left if isinstance(message, clew.Result)]
    assert [result.subtype for result in results] == ["success"]
    errors = [m.data for m in left if isinstance(m, clew.System) and m.subtype == "mirror_error"]
    assert errors
    lost = sum(
        int(record.getMessage().split()[1])
        for record in caplog.records
        if record.name == "clew.store"
    )
    session = clew.Session.open(results[0].session_id, home=tmp_path / "home")
    assert session.check() == []
    assert len(session.messages()) >= 2
    # Every entry of the transcript is reported as not stored.
    assert lost == len(session.path.read_bytes().splitlines())


async def test_a_leave_that_is_cancelled_reports_what_the_store_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SilentStore()
    given = options(tmp_path, session_store=store, provider=task_then_words, model="own")

    async def say_hello() -> None:
        async with clew.ClewClient(given) as client:
            await client.query("Hello")

    leaving = asyncio.create_task(say_hello())
    async with asyncio.timeout(20):
        await store.began.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
    assert leaving.cancelled()
    assert "the session ended before the store answered" in caplog.text


async def test_a_program_changes_what_is_sent_but_not_what_is_kept(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        seen.append(str(request.messages))
        if len(seen) == 1:
            agent = {"description": "Look", "prompt": "Use 4711", "subagent_type": "Explore"}
            yield {"type": "tool_use", "name": "Task", "input": agent}
        else:
            yield "Fine."

    def hide(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for message in messages:
            for block in message["content"]:
                if "text" in block:
                    block["text"] = block["text"].replace("4711", "[number]")
        return messages

    given = options(tmp_path, provider=answer, prepare=hide, model="own")
    _, result = await ask("My number is 4711", given)
    assert len(seen) == 3
    assert ["[number]" in text for text in seen] == [True, True, True]
    assert "'text': 'My number is 4711'" not in "".join(seen)
    session = clew.Session.open(result.session_id, home=tmp_path / "home")
    assert "My number is 4711" in str(session.messages())


async def test_messages_that_the_service_would_refuse_are_held_back(tmp_path: Path) -> None:
    asked: list[clew.ModelRequest] = []

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str]:
        asked.append(request)
        yield "Never."

    def drop_all(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return []

    given = options(tmp_path, provider=answer, prepare=drop_all, model="own")
    _, result = await ask("Hello", given)
    assert (asked, result.is_error) == ([], True)

    def fail(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise LookupError("no rule for this")

    broken = options(tmp_path, provider=answer, prepare=fail, model="own")
    results: list[clew.Message] = []
    with pytest.raises(clew.HostError, match="the session failed: LookupError: no rule for this"):
        await collect(broken, results)
    assert isinstance(results[-1], clew.Result)
    assert (
        "LookupError: no rule for this (in the program's `prepare` function)"
        in results[-1].errors[0]
    )

    def forget(messages: list[dict[str, Any]]) -> Any:
        return None

    forgetful = options(tmp_path, provider=answer, prepare=forget, model="own")
    with pytest.raises(clew.HostError, match="expected a list of messages, got NoneType"):
        await ask("Hello", forgetful)

    def mix(messages: list[dict[str, Any]]) -> Any:
        return [*messages, "more"]

    mixed = options(tmp_path, provider=answer, prepare=mix, model="own")
    with pytest.raises(clew.HostError, match="each message to be a dict, got str at index 1"):
        await ask("Hello", mixed)

    async def later(messages: list[dict[str, Any]]) -> Any: ...

    with pytest.raises(TypeError, match="prepare: expected a plain function"):
        options(tmp_path, prepare=later)
    resumed = options(tmp_path, provider=answer, model="own", continue_conversation=True)
    _, result = await ask("Again", resumed)
    assert (len(asked), result.text) == (1, "Never.")


async def test_a_program_compacts_its_sessions_in_its_own_way(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: clew.ModelRequest) -> AsyncIterator[str]:
        seen.append(str(request.messages))
        yield f"Answer {len(seen)}" + " and more" * 80

    requests: list[clew.CompactionRequest] = []
    outcomes: list[Any] = []

    async def compact(request: clew.CompactionRequest) -> clew.CompactionSummary | None:
        requests.append(request)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            return outcome
        prompts = [e["uuid"] for e in request.entries if "Second" in str(e.get("message"))]
        return clew.CompactionSummary(text="It began with One.", keep_from=prompts[0])

    given = options(tmp_path, provider=answer, compact=compact, model="own")
    async with clew.ClewClient(given) as client:

        async def say(prompt: str) -> tuple[list[clew.Message], clew.Result]:
            async with client.turn(prompt) as turn:
                return [message async for message in turn], turn.result

        outcomes.append(None)
        for prompt in ("One", "Second", "/compact mind the colors", "Third"):
            _, result = await say(prompt)
            assert not result.is_error
        assert (requests[0].trigger, requests[0].focus) == ("manual", "mind the colors")
        assert len(seen) == 3
        assert "It began with One." in seen[2]
        assert "'Second'" in seen[2]
        assert "'One'" not in seen[2]

        # A failure, an unknown entry and a wrong value: clew asks the model for a summary.
        wrong = clew.CompactionSummary(text="x", keep_from="unknown")
        for outcome in (KeyError("colors"), wrong, "words"):
            outcomes.append(outcome)
            asked = len(seen)
            messages, result = await say("/compact")
            assert not result.is_error
            assert len(seen) > asked
            assert "the program's compaction failed" in str(messages)
            await say("More")
    session = clew.Session.open(result.session_id, home=tmp_path / "home")
    assert session.check() == []
    assert "'One'" in str(session.messages("beginning"))


async def test_the_programs_loggers_get_the_events_of_a_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = "sk-ant-api03-" + "a1B2" * 20

    async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        if request.messages[-1]["content"][0]["type"] == "tool_result":
            yield "Done."
        else:
            yield {"type": "tool_use", "name": "Bash", "input": {"command": f"echo {token}"}}

    given = options(tmp_path, provider=model, model="own", allowed_tools=["Bash"])
    await ask("go", given)
    assert [record for record in caplog.records if record.name.startswith("clew.")] == []
    with caplog.at_level("DEBUG", "clew"):
        await ask("go", given)
    lines = [(one.name, one.getMessage()) for one in caplog.records if one.name != "asyncio"]
    assert {name for name, _ in lines} >= {"clew.api", "clew.tools", "clew.session"}
    assert any(name == "clew.tools" and " ToolFinished " in text for name, text in lines)
    assert not [text for _, text in lines if token in text]


class LyingStore:
    """A store whose methods return what they should not."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def append(self, key: Any, entries: Any) -> None: ...

    async def load(self, key: Any) -> Any:
        entry = {"type": "user", "uuid": "1", "message": {"role": "user", "content": "hi"}}
        return self.answers.get("load", [entry])

    async def list_sessions(self, project_key: str) -> Any:
        return self.answers.get("list_sessions")

    async def list_subkeys(self, key: Any) -> Any:
        return self.answers.get("list_subkeys")


@pytest.mark.parametrize(
    "answers",
    [
        {"load": 3},
        {"load": "text"},
        {"load": [3]},
        {"list_sessions": [{"mtime": 1}]},
        {"list_sessions": {"a": 1}},
        {"list_subkeys": [3]},
    ],
)
async def test_an_invalid_answer_of_a_store_opens_no_session(
    tmp_path: Path, answers: dict[str, Any]
) -> None:
    (method,) = answers
    more: dict[str, Any] = {"resume": "00000000-0000-4000-8000-000000000001"}
    if method == "list_sessions":
        more = {"continue_conversation": True}
    given = options(tmp_path, session_store=LyingStore(**answers), **more)
    with pytest.raises(clew.HostError, match=f"session_store: {method}: invalid answer: "):
        await ask("Hello", given)


async def test_the_store_of_the_examples_passes_the_suite_of_the_sdk(tmp_path: Path) -> None:
    kind = runpy.run_path(str(ROOT / "examples" / "custom_store.py"))["SqliteStore"]
    stores: list[Any] = []

    def make_store() -> Any:
        stores.append(kind(str(tmp_path / f"{len(stores)}.db")))
        return stores[-1]

    await run_session_store_conformance(make_store)
    assert len(stores) > 5
    for store in stores:
        store.database.close()
