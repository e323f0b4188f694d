"""Frameworks continue a session of clew, and clew continues it after them.

Each framework runs its own loop over its own message types, with a scripted model.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scripts.docs import check_page, find_missing

import clew
from tests.gates.house import ROOT

pytestmark = pytest.mark.e2e

NUMBER = "It is 7."
EXAMPLES = [ROOT / "examples" / "pydantic_ai_agent.py"]


class Clew:
    """A folder with sessions, in which clew answers with what it receives."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self.places: dict[str, Any] = {"cwd": folder, "home": folder / "home"}

    async def _model(self, request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
        self.seen = request.messages
        block = request.messages[-1]["content"][0]
        if block.get("text") == "Roll":
            yield {"type": "tool_use", "name": "Bash", "input": {"command": "echo 7"}}
        else:
            yield NUMBER if block["type"] == "tool_result" else f"I see {len(self.seen)}."

    async def ask(self, prompt: str, resume: str | None = None) -> str:
        options = clew.ClewOptions(
            **self.places,
            setting_sources=[],
            inherit_env=False,
            allowed_tools=["Bash"],
            resume=resume,
            provider=self._model,
            model="scripted",
        )
        async with clew.ClewClient(options) as client, client.turn(prompt) as turn:
            result = await turn.finish()
        assert result.subtype == "success"
        return result.session_id

    def open(self, session: str) -> clew.Session:
        return clew.Session.open(session, **self.places)

    def kinds(self) -> list[str]:
        """The blocks that clew's model saw last, without clew's own reminders."""
        return [
            block.get("text", block["type"])
            for message in self.seen
            for block in message["content"]
            if "system-reminder" not in block.get("text", "")
        ]


@pytest.fixture
def place(tmp_path: Path) -> Clew:
    return Clew(tmp_path)


async def test_pydantic_ai_continues_a_session_and_clew_after_it(place: Clew) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from clew.adapters import pydantic_ai as adapter

    seen: list[ModelMessage] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen[:] = messages
        if any(part.part_kind == "tool-return" for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("Doubled: 14.")])
        return ModelResponse(parts=[ToolCallPart("double", {"number": 7})])

    agent = Agent(FunctionModel(model), instructions="Be brief.")

    @agent.tool_plain
    def double(number: int) -> int:
        return 2 * number

    identity = await place.ask("Roll")
    history = adapter.write(place.open(identity).entries())
    run = await agent.run("Double it", message_history=history)
    assert run.output == "Doubled: 14."
    kinds = [part.part_kind for message in seen for part in message.parts]
    assert kinds == [
        "user-prompt", "tool-call", "tool-return", "text", "user-prompt", "tool-call", "tool-return"
    ]  # fmt: skip

    session = place.open(identity)
    session.append(adapter.read(run.new_messages()))
    assert session.check() == []
    assert session.ledger().total.tokens.output > 0
    assert await place.ask("And now?", identity) == identity
    assert place.kinds() == [
        "Roll", "tool_use", "tool_result", NUMBER, "Double it", "tool_use", "tool_result",
        "Doubled: 14.", "And now?",
    ]  # fmt: skip
    assert await agent.run("Again", message_history=adapter.write(place.open(identity).entries()))


async def test_openai_agents_continues_a_session_and_clew_after_it(place: Clew) -> None:
    from agents import Agent, ModelResponse, Runner, Session, Usage, function_tool
    from agents.models.interface import Model
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    from clew.adapters.openai_agents import AgentsSession

    class Scripted(Model):  # type: ignore[misc]
        seen: list[Any]

        async def get_response(self, **request: Any) -> Any:
            self.seen = request["input"]
            if self.seen[-1].get("type") == "function_call_output":
                part = ResponseOutputText(text="Doubled: 14.", type="output_text", annotations=[])
                said = ResponseOutputMessage(
                    id="m1", content=[part], role="assistant", status="completed", type="message"
                )
                return ModelResponse(output=[said], usage=Usage(), response_id=None)
            call = ResponseFunctionToolCall(
                arguments='{"number": 7}',
                call_id=f"call_{len(self.seen)}",
                name="double",
                type="function_call",
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def double(number: int) -> int:
        return 2 * number

    model = Scripted()
    agent = Agent(name="calc", model=model, tools=[double])
    identity = await place.ask("Roll")
    memory = AgentsSession(identity, **place.places)
    assert isinstance(memory, Session)
    run = await Runner.run(agent, "Double it", session=memory)
    assert run.final_output == "Doubled: 14."
    assert [item.get("type", item.get("role")) for item in model.seen] == [
        "message", "function_call", "function_call_output", "message",
        "user",  "function_call", "function_call_output",
    ]  # fmt: skip
    assert place.open(identity).check() == []
    await place.ask("And now?", identity)
    assert place.kinds() == [
        "Roll", "tool_use", "tool_result", NUMBER, "Double it", "tool_use", "tool_result",
        "Doubled: 14.", "And now?",
    ]  # fmt: skip
    assert (await Runner.run(agent, "Again", session=memory)).final_output == "Doubled: 14."

    items = await memory.get_items()
    assert await memory.get_items(2) == items[-2:]
    assert await memory.pop_item() == items[-1]
    assert await memory.get_items() == items[:-1]
    await memory.clear_session()
    assert await memory.get_items() == []
    assert await memory.pop_item() is None

    other = AgentsSession("user_123", **place.places)
    assert await other.get_items() == []
    await Runner.run(agent, "Double 7", session=other)
    session = place.open(other.clew_id)
    assert (session.title, len(session.messages())) == ("user_123", 4)
    await place.ask("And now?", other.clew_id)
    assert len(await other.get_items()) == 6
    # Several runs may add items at the same time.
    texts = [f"More {number}" for number in range(4)]
    await asyncio.gather(*(other.add_items([{"role": "user", "content": t}]) for t in texts))
    last = str((await other.get_items())[6:])
    assert [text for text in texts if text not in last] == []
    # They are one message to the model, and one item.
    assert str([await other.pop_item()]) == last
    assert len(await other.get_items()) == 6


async def test_langgraph_continues_a_session_and_clew_after_it(place: Clew) -> None:
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Command, interrupt

    from clew.adapters.langgraph import SessionSaver

    class State(MessagesState):  # type: ignore[misc]
        runs: int

    def call(state: State) -> Any:
        use = {"name": "double", "args": {"number": 7}, "id": f"call_{state.get('runs', 0)}"}
        return {"messages": [AIMessage("", tool_calls=[use])], "runs": state.get("runs", 0) + 1}

    def double(state: State) -> Any:
        (use,) = state["messages"][-1].tool_calls
        if interrupt(use["args"]) != "yes":
            return {"messages": [ToolMessage("no", tool_call_id=use["id"], status="error")]}
        return {"messages": [ToolMessage("14", tool_call_id=use["id"])]}

    def say(state: State) -> Any:
        usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        return {"messages": [AIMessage("Doubled: 14.", usage_metadata=usage)]}

    build = StateGraph(State)
    for name, node in (("call", call), ("double", double), ("say", say)):
        build.add_node(name, node)
    for first, then in ((START, "call"), ("call", "double"), ("double", "say"), ("say", END)):
        build.add_edge(first, then)

    identity = await place.ask("Roll")
    for thread in (identity, "user_123"):
        config: Any = {"configurable": {"thread_id": thread}}
        graph = build.compile(checkpointer=SessionSaver(**place.places))
        asked = await graph.ainvoke({"messages": [("user", "Double it")]}, config)
        assert asked["__interrupt__"][0].value == {"number": 7}
        # Another process: the question is in the transcript, and nothing runs twice.
        graph = build.compile(checkpointer=SessionSaver(**place.places))
        done = await graph.ainvoke(Command(resume="yes"), config)
        assert (done["messages"][-1].content, done["runs"]) == ("Doubled: 14.", 1)
        assert [m.type for m in done["messages"]][-4:] == ["human", "ai", "tool", "ai"]
        session = place.open(next(iter(graph.checkpointer._threads.values()))._open().path)
        assert session.check() == []
        assert session.ledger().total.tokens.output > 0

        await place.ask("And now?", session.id)
        assert place.kinds()[-5:] == [
            "Double it",
            "tool_use",
            "tool_result",
            "Doubled: 14.",
            "And now?",
        ]
        seen = [m.content for m in (await graph.aget_state(config)).values["messages"]]
        assert seen[-2:] == ["And now?", f"I see {len(place.seen)}."]
        graph.invoke({"messages": [("user", "Again")]}, config)
        again = graph.invoke(Command(resume="no"), config)
        assert [m.content for m in again["messages"]][: len(seen)] == seen
        assert again["runs"] == 2
        history = list(graph.get_state_history(config))
        assert len(history) > 8
        earlier = history[-3].config
        assert len(graph.get_state(earlier).values["messages"]) < len(seen)
        assert session.check() == []
    graph.checkpointer.delete_thread("user_123")
    assert graph.get_state(config).values == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_with_frameworks_run(path: Path) -> None:
    """`make docs-check` leaves out those whose packages are not installed."""
    assert find_missing(path) is None
    assert list(check_page(path)) == []
