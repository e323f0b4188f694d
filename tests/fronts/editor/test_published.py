"""clew in an editor that is built on the published package of the protocol."""

import base64
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.editor.test_servers import PROGRAM
from tests.fronts.editor.test_sessions import PNG
from tests.fronts.headless.clew_process import command, environment

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


class Person:
    """The client: keeps the updates, and answers requests with one kind of option."""

    def __init__(self, kind: str = "allow_once") -> None:
        self.kind = kind
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.files: dict[str, str] = {}
        self.cancels: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        self.asked.append((tool_call, options))
        if self.kind == "cancel":
            await self.agent.cancel(session_id=session_id)
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        option = next(o for o in options if o.kind == self.kind)
        outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)

    def of(self, kind: str) -> list[Any]:
        return [u for u in self.updates if u.session_update == kind]

    def said(self) -> str:
        return "".join(u.content.text for u in self.of("agent_message_chunk"))


@contextlib.asynccontextmanager
async def editor(home: Path, url: str, person: Person, *args: str) -> AsyncIterator[Any]:
    from acp import spawn_agent_process

    (home / "work").mkdir(exist_ok=True)
    program, *words = command("acp", *args)
    async with spawn_agent_process(
        person,
        program,
        *words,
        env=environment(home, url),
        cwd=home,
        transport_kwargs={"limit": 1 << 24},
        use_unstable_protocol=True,
    ) as (connection, _):
        agreed = await connection.initialize(protocol_version=1)
        assert agreed.protocol_version == 1
        assert agreed.agent_capabilities.load_session
        yield connection


def text(words: str) -> Any:
    from acp.schema import TextContentBlock

    return TextContentBlock(type="text", text=words)


async def test_a_session_through_its_whole_life(tmp_path: Path) -> None:
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    todos = [{"content": "look", "status": "pending", "activeForm": "looking"}]
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"thinking": "hm"}, "I look.", {"tool": "Read", "input": {"file_path": "a.txt"}}]},
            {"content": [{"tool": "Edit", "input": edit}, {"tool": "TodoWrite", "input": {"todos": todos}}]},
            {"text": "done"},
            {"text": "again"},
            {"text": "elsewhere"},
        ],
    }  # fmt: skip
    cwd = str(tmp_path / "work")
    with serving(scenario, strict=True) as server:
        person = Person("allow_always")
        async with editor(tmp_path, server.url, person) as agent:
            (tmp_path / "work" / "a.txt").write_text("one\n", encoding="utf-8")
            session = await agent.new_session(cwd=cwd, mcp_servers=[])
            assert session.modes.current_mode_id == "default"
            assert {o.id for o in session.config_options} == {"mode", "model", "thought_level"}
            ended = await agent.prompt(session_id=session.session_id, prompt=[text("change it")])
            assert ended.stop_reason == "end_turn"
            assert person.said() == "I look.done"
            assert "".join(u.content.text for u in person.of("agent_thought_chunk")) == "hm"
            assert {u.kind for u in person.of("tool_call")} == {"read", "edit", "think"}
            changes = [
                part
                for u in person.of("tool_call_update")
                if u.status == "completed"
                for part in u.content or []
                if part.type == "diff"
            ]
            assert [(d.old_text, d.new_text) for d in changes] == [("one\n", "two\n")]
            assert person.of("plan")[0].entries[0].content == "look"
            assert person.of("usage_update")[-1].cost.currency == "USD"
            assert person.of("available_commands_update")[0].available_commands
            assert person.of("session_info_update")[0].title == "change it"
            # The answer for always went over to a mode, and the client was told.
            assert person.of("current_mode_update")[0].current_mode_id == "acceptEdits"
            assert len(person.asked) == 1
            listed = await agent.list_sessions(cwd=cwd)
            assert [one.session_id for one in listed.sessions] == [session.session_id]

        person = Person()
        async with editor(tmp_path, server.url, person) as agent:
            loaded = await agent.load_session(
                cwd=cwd, session_id=session.session_id, mcp_servers=[]
            )
            assert loaded.config_options
            assert person.said() == "I look.done"
            assert person.of("user_message_chunk")[0].content.text == "change it"
            await agent.close_session(session_id=session.session_id)
            person.updates.clear()
            await agent.resume_session(cwd=cwd, session_id=session.session_id)
            assert not person.of("agent_message_chunk")
            await agent.prompt(session_id=session.session_id, prompt=[text("go on")])
            forked = await agent.fork_session(cwd=cwd, session_id=session.session_id)
            assert forked.session_id != session.session_id
            await agent.prompt(session_id=forked.session_id, prompt=[text("otherwise")])
            assert person.said() == "againelsewhere"


async def test_modes_and_options_are_set(tmp_path: Path) -> None:
    with serving({"scenario": 1, "answers": []}) as server:
        person = Person()
        async with editor(tmp_path, server.url, person) as agent:
            session = await agent.new_session(cwd=str(tmp_path / "work"), mcp_servers=[])
            identity = session.session_id
            await agent.set_session_mode(session_id=identity, mode_id="plan")
            set_to = await agent.set_config_option(
                session_id=identity, config_id="mode", value="acceptEdits"
            )
            assert set_to.config_options[0].current_value == "acceptEdits"
            modes = [u.current_mode_id for u in person.of("current_mode_update")]
            assert modes == ["plan", "acceptEdits"]
            assert (await agent.authenticate(method_id="api-key")) is not None


async def test_cancelling_is_answered_as_cancelled(tmp_path: Path) -> None:
    scenario = {
        "scenario": 1,
        "answers": [{"content": [{"tool": "Bash", "input": {"command": "mkdir made"}}]}],
    }
    with serving(scenario, strict=True) as server:
        person = Person("cancel")
        async with editor(tmp_path, server.url, person) as agent:
            session = await agent.new_session(cwd=str(tmp_path / "work"), mcp_servers=[])
            ended = await agent.prompt(session_id=session.session_id, prompt=[text("make")])
            assert ended.stop_reason == "cancelled"
            assert not (tmp_path / "work" / "made").exists()


async def test_pictures_embedded_files_and_servers_come_along(tmp_path: Path) -> None:
    from acp.schema import (
        EmbeddedResourceContentBlock,
        EnvVariable,
        ImageContentBlock,
        McpServerStdio,
        TextResourceContents,
    )

    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "mcp__mine__environment", "input": {"text": "x"}}]},
            {"text": "done"},
        ],
    }
    env = [EnvVariable(name="SECRET", value="told by the editor")]
    mine = McpServerStdio(name="mine", command=sys.executable, args=["-I", "-S", PROGRAM], env=env)
    embedded = TextResourceContents(uri="file:///a.py", text="not saved yet")
    with serving(scenario, strict=True) as server:
        person = Person()
        async with editor(tmp_path, server.url, person) as agent:
            session = await agent.new_session(cwd=str(tmp_path / "work"), mcp_servers=[mine])
            prompt = [
                text("look"),
                EmbeddedResourceContentBlock(type="resource", resource=embedded),
                ImageContentBlock(
                    type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png"
                ),
            ]
            await agent.prompt(session_id=session.session_id, prompt=prompt)
            assert person.said() == "done"
        first, last = (str(request.body["messages"]) for request in server.requests)
        assert "not saved yet" in first
        assert "image/png" in first
        assert "told by the editor" in last
