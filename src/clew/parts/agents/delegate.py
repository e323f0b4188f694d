"""The interface through which one conversation uses agents, and the results that it receives."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.agent.tasks.notice import escape_tags
from clew.agent.tasks.registry import BackgroundTask, Tasks
from clew.agent.tools.base import Delegation, ToolError, ToolOutcome
from clew.core.messages.text import format_count
from clew.parts.agents.agent import Subagent
from clew.parts.agents.mail import MAIN, to_session
from clew.system.clock import make_id

if TYPE_CHECKING:
    from clew.parts.agents.all_agents import AllAgents

EVERYBODY = "*"


class Delegate:
    """The interface through which one conversation uses agents.

    `depth` is the nesting depth of that conversation.
    """

    def __init__(
        self, everyone: "AllAgents", parent_id: str, depth: int, cwd: Callable[[], str]
    ) -> None:
        self._everyone = everyone
        self.parent_id = parent_id
        self.depth = depth
        self.cwd = cwd

    async def run(self, wish: Delegation, tool_use_id: str) -> ToolOutcome:
        everyone = self._everyone
        # Check before anything is created for an agent that can't start.
        everyone.tasks.check_room()
        if wish.resume:
            agent = await everyone.resumed(wish.resume)
            refuse_running(everyone.tasks, agent)
        else:
            agent = await everyone.begun(wish, tool_use_id, self)
        in_background = wish.in_background
        if in_background is None:
            in_background = agent.birth.spec.background
        task = everyone.put_to_work(
            agent, wish.prompt, in_background=in_background, owner=self.parent_id
        )
        if in_background:
            return launched(agent, wish.prompt)
        return await self._waited(agent, task, wish.prompt)

    async def _waited(self, agent: Subagent, task: BackgroundTask, prompt: str) -> ToolOutcome:
        """Wait for an agent and return its result; if the call is cancelled, stop the agent."""
        try:
            await task.released()
        except asyncio.CancelledError:
            await self._everyone.tasks.stop(task)
            raise
        return launched(agent, prompt) if task.ending is None else answered(agent, task, prompt)

    async def send(self, to: str, words: str) -> ToolOutcome:
        everyone = self._everyone
        if to == MAIN and self.parent_id:
            return await self._to_main(words)
        words = self._signed(words)
        if to == EVERYBODY:
            return await self._to_everybody(words)
        agent = await everyone.resumed(to)
        task = everyone.tasks.get(agent.birth.agent_id)
        if task is not None and task.ending is None:
            await agent.hear(words)
            return ToolOutcome(
                content=f"Agent {agent.birth.agent_id} will receive the message before its next "
                "step.",
                tool_use_result={"success": True, "agentId": agent.birth.agent_id},
                display="message sent",
            )
        everyone.put_to_work(agent, words, in_background=True, owner=self.parent_id)
        return launched(agent, words)

    def _signed(self, words: str) -> str:
        """Wrap a message in a tag that names the sending agent, and escape tags in the message.

        A message from the main conversation is returned unchanged.
        """
        sender = everyone_called(self._everyone, self.parent_id)
        if not sender:
            return words
        return (
            f'<teammate-message teammate_id="{sender}">\n{escape_tags(words)}\n</teammate-message>'
        )

    async def _to_everybody(self, words: str) -> ToolOutcome:
        tasks, agents = self._everyone.tasks, self._everyone.agents
        working = [
            agents[task.id]
            for task in tasks.running
            if task.id in agents and task.id != self.parent_id
        ]
        if not working:
            raise ToolError("No other agent is running.")
        for agent in working:
            await agent.hear(words)
        ids = [agent.birth.agent_id for agent in working]
        return ToolOutcome(
            content="These agents will receive the message before their next step: "
            f"{', '.join(ids)}.",
            tool_use_result={"success": True, "agentIds": ids},
            display=f"message sent to {format_count(len(ids), 'agent')}",
        )

    async def _to_main(self, words: str) -> ToolOutcome:
        """Deliver a message to the main conversation as news from the agent's task."""
        tasks = self._everyone.tasks
        task = tasks.get(self.parent_id)
        if task is None or task.ending is not None:
            raise ToolError(
                "The conversation that started you can no longer receive your messages."
            )
        agent, uuid = self._everyone.agents.get(self.parent_id), make_id()
        if agent is not None:
            to_session(agent.recorder, words, uuid)
            await agent.recorder.durable()
        tasks.say(task, words, uuid)
        return ToolOutcome(
            content="The conversation will receive the message before its next step.",
            tool_use_result={"success": True},
            display="message sent",
        )


def everyone_called(everyone: "AllAgents", agent_id: str) -> str:
    """Return an agent's name or ID as other agents see it; empty for the main conversation."""
    agent = everyone.agents.get(agent_id)
    name = agent_id if agent is None else agent.birth.name or agent_id
    return escape_tags(name).replace('"', "&quot;")


def refuse_running(tasks: Tasks, agent: Subagent) -> None:
    task = tasks.get(agent.birth.agent_id)
    if task is not None and task.ending is None:
        raise ToolError(
            f"Agent {agent.birth.agent_id} is already running; use SendMessage to reach it."
        )


def launched(agent: Subagent, prompt: str) -> ToolOutcome:
    birth = agent.birth
    return ToolOutcome(
        content=f"Agent {birth.agent_id} is running in the background. You will be notified when it ends; "
        f"until then, continue with other work. Use SendMessage to send it a message, "
        "TaskOutput to see its progress, or TaskStop to stop it.",
        tool_use_result={
            "isAsync": True,
            "status": "async_launched",
            "agentId": birth.agent_id,
            "agentType": birth.spec.name,
            "resolvedModel": birth.model.id,
            "description": birth.description,
            "prompt": prompt,
            "outputFile": str(agent.recorder.transcript),
        },
        display=f"running in the background as {birth.agent_id}",
    )


def answered(agent: Subagent, task: BackgroundTask, prompt: str) -> ToolOutcome:
    """Return an agent's result or, if it failed, an error that includes its last message."""
    ending = task.ending
    assert ending is not None
    birth = agent.birth
    usage = agent.tale.usage
    note = f"(This was agent {birth.agent_id}; SendMessage resumes it.)"
    if ending.status == "completed":
        words = ending.result or "The agent ended without a message."
    else:
        how = {"failed": "failed", "stopped": "was stopped"}[ending.status]
        why = f": {ending.words}" if ending.words else ""
        words = f"The agent {how}{why}. Its last message:\n{ending.result or '(none)'}"
    return ToolOutcome(
        content=[{"type": "text", "text": words}, {"type": "text", "text": note}],
        is_error=ending.status != "completed",
        tool_use_result={
            "status": ending.status,
            "agentId": birth.agent_id,
            "agentType": birth.spec.name,
            "prompt": prompt,
            "content": [{"type": "text", "text": ending.result}],
            "totalToolUseCount": usage.tool_uses,
            "totalTokens": usage.tokens,
            "totalDurationMs": task.duration_ms,
            "resolvedModel": birth.model.id,
            "usage": agent.spending.spent.tokens.as_usage() | {"service_tier": None},
        },
        display=f"{ending.status}, {format_count(usage.tool_uses, 'tool use')}",
    )
