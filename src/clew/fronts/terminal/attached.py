"""The view of a running subagent, which shows its output and sends it messages.

The view shows one agent in place of the prompt until the user presses Escape. The agent receives a
message between two of its steps, as a message from the user.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.agent.conversation import Speaker
from clew.agent.events import FromAgent, ToolStarted
from clew.agent.tasks.registry import BackgroundTask, Tasks
from clew.commands.slash.tasks import describe_kept_tasks, describe_task
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.fronts.dialog import Choice
from clew.fronts.render.recalled import Titles
from clew.fronts.render.rows import Line, escape_controls, join_lines
from clew.fronts.render.transcript import Transcript
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.stage import Stage
from clew.parts.agents.agent import Subagent

Flows: TypeAlias = Callable[[], object]
# Rows of the agent's earlier output to recall, and rows that can be scrolled back to.
RECALLED_ROWS, KEPT_ROWS = 100, 2_000
# Rows that still change.
TAIL_ROWS = 12


class AttachedAgent:
    """The view of one subagent.

    `heed` receives the events of all agents; `flows` is called to request a redraw.
    """

    def __init__(
        self, stage: Stage, flows: Flows, agent: Subagent, task: BackgroundTask, titles: Titles
    ) -> None:
        assert stage.transcript is not None
        self._stage = stage
        self._flows = flows
        self._agent = agent
        self._task = task
        self._shown = Transcript(
            stage.transcript.width,
            stage.theme,
            see_with="",
            says_waits=True,
            folders=stage.transcript.folders,
        )
        self._lines: list[Line] = self._recalled(titles)

    def _recalled(self, titles: Titles) -> list[Line]:
        """Return the lines of the output so far, and add running calls to the view's live part."""
        history = self._agent.history
        calls = [use.data for use, _ in history.unanswered()]
        messages = [without(message, calls) for message in history]
        lines = self._shown.history(messages, RECALLED_ROWS, titles)
        for call in calls:
            self._shown.feed(ToolStarted(block=call, title=titles(call)))
        return lines

    def heed(self, agent_event: FromAgent) -> None:
        if agent_event.agent_id == self._agent.birth.agent_id:
            self._lines = (self._lines + self._shown.feed(agent_event.event))[-KEPT_ROWS:]
            self._flows()

    async def shown(self) -> None:
        """Show the agent until the user leaves the view."""
        while (words := await self._word()) is not None:
            if self._task.ending is None:
                speaker = Speaker(source="typed", mode=self._agent.mode, origin={"kind": "human"})
                self._agent.conversation.say(words, speaker)
                self._lines += self._shown.prompt(words)
            else:
                self._stage.hint("This agent has finished; message not sent")

    async def _word(self) -> str | None:
        says = Choice(label="Message", asks_words=True)
        title = f"Agent “{join_lines(self._task.title)}” · Esc to go back"
        chooser = Chooser(title, [says], body=self._body, follows=True)
        answer = await self._stage.answered(self._stage.show(chooser))
        return None if answer is None else answer.words

    def _body(self, width: int) -> list[Line]:
        rows = [*self._lines, *self._shown.tail(width, TAIL_ROWS)]
        return rows if self._task.ending is None else [*rows, f"[{self._task.ending.status}]"]


def without(message: Json, calls: list[Json]) -> Json:
    """Return the message without the given tool calls."""
    body = message.get("message")
    content = body.get("content") if isinstance(body, dict) else None
    if not calls or not isinstance(body, dict) or not isinstance(content, list):
        return message
    blocks = [block for block in content if not any(block is call for call in calls)]
    return message | {"message": body | {"content": blocks}}


# Menu of a background command: show its output, stop it, keep it running.


Page = Callable[[str], Awaitable[None]]


async def handle_input(task: BackgroundTask, tasks: Tasks, stage: Stage, page: Page) -> str:
    """Let the user act on a background task; return a message for the user, or an empty string."""
    if task.keeping is None or task.ending is not None:
        await page(output_of(task))
        return ""
    choices = [
        Choice(label="Show output", key="s"),
        Choice(label="Stop", key="e"),
    ]
    if not task.is_kept:
        choices.append(Choice(label="Keep running after clew exits", key="k"))
    title = f"{task.id} {join_lines(task.title)}: {describe_task(task)}"
    answer = await stage.answered(stage.show(Chooser(title, choices)))
    match None if answer is None else choices[answer.chosen[0]].key:
        case "s":
            await page(output_of(task))
        case "e":
            await tasks.stop(task)
            return f"Stopped {task.id}"
        case "k":
            try:
                await tasks.keep(task)
            except UserError as error:
                return str(error)
            return describe_kept_tasks(task)
    return ""


def output_of(task: BackgroundTask) -> str:
    task.output.look()
    data = bytes(task.output.head) + task.output.tail
    return escape_controls(data.decode("utf-8", "replace"))
