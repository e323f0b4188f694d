"""The session's hooks as a conversation beside it has them: told whose event it is, and where."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.engine.deps import Emit
from clew.hooks.handlers import Hook, read_hooks
from clew.hooks.outcome import NOTHING, Outcome
from clew.hooks.run import Hooks
from clew.subagents.specs import Spec

Json: TypeAlias = dict[str, Any]

# Nobody typed anything, and what begins and ends is the session's own affair.
NOT_ITS_OWN = frozenset({"UserPromptSubmit", "StopFailure", "SessionStart"})


def hooks_of(spec: Spec, agent_id: str) -> list[Hook]:
    """What a definition wants called while this agent works; its end is an event of an agent's."""
    said = {("SubagentStop" if name == "Stop" else name): v for name, v in spec.hooks.items()}
    found = read_hooks(said, source=f"agent:{agent_id}").hooks
    return [replace(hook, agent_id=agent_id) for hook in found]


class AgentHooks:
    """An agent's end is an event of its own name."""

    def __init__(
        self,
        hooks: Hooks,
        *,
        agent_id: str,
        kind: str,
        transcript: Path,
        where: Callable[[], str],
        is_heard: bool = True,
        effort: str | None = None,
    ) -> None:
        self._is_heard = is_heard
        self._hooks = hooks
        self._about: Json = {"agent_id": agent_id, "agent_type": kind}
        if effort is not None:
            self._about["effort"] = {"level": effort}
        self._transcript = str(transcript)
        self._where = where

    async def fire(self, event: str, fields: Json, emit: Emit, /) -> Outcome:
        if event in NOT_ITS_OWN or not self._is_heard:
            return NOTHING
        fields = {**self._about, "cwd": self._where(), **fields}
        if event == "Stop":
            event = "SubagentStop"
            fields["agent_transcript_path"] = self._transcript
        if isinstance(fields.get("tool_input"), dict):
            fields["tool_input"] = self._placed(fields["tool_input"])
        return await self._hooks.fire(event, fields, emit)

    def _placed(self, given: Json) -> Json:
        """A call's input with its file named from the agent's own folder, not the session's."""
        path = given.get("file_path")
        if not isinstance(path, str) or path.startswith("~"):
            return given
        return given | {"file_path": os.path.normpath(Path(self._where(), path))}

    async def waiting(self, _: Emit, /) -> Outcome:
        """What hooks in the background say is for the session."""
        return NOTHING

    async def idle(self, name: str, emit: Emit) -> str:
        """Whether one that others know by a name may wait; else what it is to do first."""
        fields = {**self._about, "teammate_name": name, "team_name": "session"}
        said = await self._hooks.fire("TeammateIdle", fields, emit)
        return "" if said.block is None else said.block or "go on"

    async def started(self, emit: Emit) -> Outcome:
        if not self._is_heard:
            return NOTHING
        return await self._hooks.fire("SubagentStart", dict(self._about), emit)
