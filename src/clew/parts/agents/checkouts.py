"""Create agents' worktrees with a hook or git; report, merge and discard them.

A worktree that contains work is removed only on request.
"""

import os
import shlex
from pathlib import Path

from msgspec.structs import replace

from clew.agent.deps import Emit
from clew.agent.hooks.run import SessionHooks
from clew.agent.subagents.worktree import (
    Git,
    Worktree,
    clear,
    is_own,
    make,
    merge,
    remove,
    restore_checkout,
)
from clew.agent.tasks.registry import TaskEnding, Tasks
from clew.agent.tools.base import ToolError
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, UserError
from clew.parts.agents.agent import Subagent
from clew.record.transcript.agents import AgentMetadata, read_metadata
from clew.record.transcript.paths import SessionPaths
from clew.system.files import is_folder

IN_WORKTREE = "Its changes are in the worktree"


class Checkouts:
    def __init__(
        self, git: Git, hooks: SessionHooks, tasks: Tasks, paths: SessionPaths, heard: Emit
    ) -> None:
        self._git = git
        self._hooks = hooks
        self._tasks = tasks
        self._paths = paths
        self._tell = heard

    async def made(self, cwd: str, agent_id: str) -> Worktree:
        """Create a worktree with a hook or, if no hook handles it, with git."""
        name = f"agent-{agent_id}"
        outcome = await self._hooks.fire("WorktreeCreate", {"name": name}, self._tell)
        if outcome.block is not None:
            raise ToolError(f"A hook could not create a worktree: {outcome.block}")
        if outcome.worktree:
            return Worktree(path=outcome.worktree, branch="", base="", repository=cwd)
        return await make(self._git, cwd, name)

    async def settled(self, agent: Subagent, ending: TaskEnding) -> TaskEnding:
        """Remove the agent's worktree if it contains no work.

        Return the agent's result with a note about the worktree.
        """
        tree = agent.birth.worktree
        if tree is None:
            return ending
        if agent.birth.shared_with:
            note = (
                f"(It worked in {tree.path}, which it may share with the original agent in session "
            )
            return with_note(ending, f"{note}{agent.birth.shared_with}.)")
        if not tree.branch:
            return await self._left(tree, ending)
        if not is_folder(tree.path):
            note = f"(Its worktree {tree.path} no longer exists; its commits are on branch {tree.branch}.)"
            return with_note(ending, note)
        try:
            is_gone = await clear(self._git, tree)
        except ClewError as error:
            return with_note(ending, f"(Its worktree {tree.path} was kept: {error})")
        if is_gone:
            return with_note(ending, "(It changed nothing in its worktree, which was removed.)")
        note = f"({IN_WORKTREE} {tree.path}, on branch {tree.branch}.)"
        return with_note(ending, note)

    async def _left(self, tree: Worktree, ending: TaskEnding) -> TaskEnding:
        """Let hooks remove a worktree that a hook created.

        Return the agent's result with a note about the worktree.
        """
        fields = {"worktree_path": tree.path}
        outcome = await self._hooks.fire("WorktreeRemove", fields, self._tell)
        why = "" if outcome.block is None else f"; a hook reported: {outcome.block}"
        return with_note(ending, f"(It worked in {tree.path}{why}.)")

    async def merged(self, agent_id: str) -> str:
        """Merge an agent's worktree into the repository's checkout and return git's output."""
        tree, metadata = self._checkout(agent_id, "merge")
        return await merge(
            self._git, tree, f"{metadata.description or metadata.agent_type} ({agent_id})"
        )

    async def discarded(self, agent_id: str) -> None:
        """Remove an agent's worktree and its branch, even if they contain work."""
        tree, _ = self._checkout(agent_id, "discard")
        await remove(self._git, tree, by_force=True)

    def _checkout(self, agent_id: str, wish: str) -> tuple[Worktree, AgentMetadata]:
        if not agent_id:
            raise UserError(f"missing agent ID; run /agents {wish} ID (/tasks lists the agents)")
        task = self._tasks.get(agent_id)
        if task is not None and task.ending is None:
            raise UserError(
                f"agent {agent_id} is still working; stop it first with /tasks stop {agent_id}"
            )
        try:
            checkout = self._there(self._paths.place.agent(agent_id))
        except ValueError:
            checkout = None
        if checkout is None:
            raise UserError(self._elsewhere(agent_id, wish))
        return checkout

    def _there(self, transcript: Path) -> tuple[Worktree, AgentMetadata] | None:
        metadata = read_metadata(transcript, self._paths.home)
        agent_id = transcript.stem.removeprefix("agent-")
        tree = None if metadata is None else worktree_of(metadata, agent_id)
        return (
            None
            if metadata is None or tree is None or not is_folder(tree.path)
            else (tree, metadata)
        )

    def _elsewhere(self, agent_id: str, wish: str) -> str:
        """Return the error message for a worktree that this session does not have.

        If another session has the worktree, the message names that session, because only that
        session knows whether the agent is still working.
        """
        from clew.record.library.places import list_transcripts

        for transcript in list_transcripts(self._paths.home):
            if transcript.agent == agent_id and self._there(Path(transcript.path)) is not None:
                line = shlex.quote(f"/agents {wish} {agent_id}")
                return (
                    f"agent {agent_id} belongs to another session; to {wish} its worktree, run: "
                    f"clew -p --resume {transcript.session_id} {line}"
                )
        return f"no worktree found for agent {agent_id}"

    async def again(self, tree: Worktree) -> None:
        """Create a worktree again after it was removed."""
        await restore_checkout(self._git, tree)


def with_note(ending: TaskEnding, note: str) -> TaskEnding:
    return replace(ending, result=f"{ending.result}\n\n{note}".strip())


def place_in(tree: Worktree, cwd: str) -> str:
    """Return the folder in a worktree that corresponds to `cwd`, or else the worktree's root."""
    below = os.path.relpath(os.path.realpath(cwd), os.path.realpath(tree.repository))
    place = os.path.normpath(Path(tree.path, below))
    return place if not below.startswith("..") and is_folder(place) else tree.path


def worktree_of(metadata: AgentMetadata, agent_id: str) -> Worktree | None:
    """Return the worktree that an agent's metadata describes, or None if clew did not make it."""
    fields = [text(metadata.more, f"worktree{key}") for key in ("Branch", "Base", "Repository")]
    if metadata.worktree_path is None or not all(fields):
        return None
    branch, base, repository = fields
    tree = Worktree(path=metadata.worktree_path, branch=branch, base=base, repository=repository)
    return tree if is_own(tree, f"agent-{agent_id}") else None


def text(fields: Json, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
