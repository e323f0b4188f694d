"""The session's tools as the executor uses them: calls are tool_use blocks, errors are results."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.calls import BoundCall, bind, rehearse, run_tool
from clew.agent.shipping import count_shipped
from clew.agent.tools.base import (
    Progress,
    QuestionKind,
    Surroundings,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolSession,
    decided,
    make_failure,
)
from clew.agent.tools.registry import Toolbox
from clew.agent.tools.spill import fit_result
from clew.core.json_object import Json
from clew.core.ledger.state import TodoItem
from clew.core.messages.errors import ClewError
from clew.core.messages.text import wrap_in_tag
from clew.core.nearest import find_nearest
from clew.permissions.decision import Decision, relies_on_sandbox, runs_confined, stays_confined
from clew.permissions.request import tool_of
from clew.system.config.mask import remove_all_secrets, remove_secrets

if TYPE_CHECKING:
    from clew.record.rewind.changes import PathChange
    from clew.record.rewind.watch import CallWatch, StateBefore

# Calls that run in the read-only sandbox: shell commands that no user approved, and approved ones
# that could reach a denied file.


class Confining(Protocol):
    """A toolset that can run commands in a read-only sandbox."""

    @property
    def has_walls(self) -> bool:
        """True if a read-only sandbox is available, as far as is known without a test run."""
        ...

    async def can_confine(self) -> bool:
        """Test whether the sandbox is available. Afterward, `has_walls` returns the same result."""
        ...

    async def look_up(self) -> bool:
        """Look up the facts that decisions still lack; return whether any were missing."""
        ...


async def decide(
    tools: Confining, call: BoundCall, judge: Callable[[BoundCall], Decision]
) -> tuple[Decision, bool]:
    """Return the decision on a call, and whether it must run in the read-only sandbox.

    A decision may rely on the sandbox. If the sandbox turns out to be unavailable, the call is
    judged again. The call is also judged again once `look_up` has found the facts that the decision
    lacked.
    """
    decision = judge(call)
    if await tools.look_up():
        decision = judge(call)
    is_shell = tool_of(call.name).family == "shell"
    if not (is_shell and tools.has_walls):
        return decision, False
    if stays_confined(decision):
        return decision, await tools.can_confine()
    is_confined = runs_confined(decision)
    if not (is_confined or relies_on_sandbox(decision)):
        return decision, False
    if await tools.can_confine():
        return decision, is_confined
    return judge(call), False


# Records what calls change: the state of a file before a call, and its state afterward.


# Git subcommands that restore content that the call did not write.
RESTORING = frozenset({
    "bisect", "checkout", "cherry-pick", "clone", "merge", "pull", "read-tree", "rebase", "reset",
    "restore", "revert", "stash", "submodule", "switch", "worktree",
})  # fmt: skip


class CallChanges(Struct, frozen=True, kw_only=True):
    """The file changes of one call. `omitted_count` further changes are not listed.

    `writes` is False if git restored the contents; `commits` is the number of created commits.
    """

    message_uuid: str
    tool_use_id: str
    changes: "Sequence[PathChange]" = ()
    omitted_count: int = 0
    writes: bool = True
    commits: int = 0


class FileRecorder(Protocol):
    """Records the changes that a session's calls make to files."""

    async def note(self, call: CallChanges) -> None:
        """Record the changes of a call, if it made any, and what it committed."""
        ...

    async def credit(self, command: str, message_uuid: str) -> str:
        """Return the command line, with the agent's share of lines added to the commit's credit."""
        ...


class FileRecord:
    """Records file changes for a session; `record` writes the changes of one call.

    The changes of a call are determined after its result is returned. `settled` waits until this is
    done, and so does the next call that may change files. The watch is created when the first such
    call runs.
    """

    def __init__(self, make_watch: "Callable[[], CallWatch]", record: FileRecorder) -> None:
        self._make_watch = make_watch
        self._record = record
        self._group = asyncio.TaskGroup()
        self._looking: set[asyncio.Task[None]] = set()
        # Subagents make their own calls; only one call at a time is examined.
        self._one = asyncio.Lock()

    @cached_property
    def _watch(self) -> "CallWatch":
        return self._make_watch()

    async def __aenter__(self) -> "FileRecord":
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._group.__aexit__(None, None, None)

    async def settled(self) -> None:
        """Wait until the changes of all calls so far are recorded."""
        while self._looking:
            await asyncio.wait(self._looking)

    async def run(self, call: BoundCall, ctx: ToolContext) -> ToolOutcome:
        """Run the call and record the files it changes, however it ends."""
        await self.settled()
        async with self._one:
            state_before = await asyncio.to_thread(self._before, call, ctx.session)
        if state_before is None:
            return await run_tool(call, ctx)
        commits = 0
        try:
            outcome = await run_tool(call, ctx)
            shipped = None if outcome.is_error else count_shipped(call, outcome.content)
            commits = shipped.commits if shipped is not None else 0
            return outcome
        finally:
            looking = self._group.create_task(self._note(call, commits, state_before, ctx))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    async def credit(self, call: BoundCall, message_uuid: str) -> BoundCall:
        """Return the call; if it commits, add the agent's share of lines to the commit's credit."""
        if call.line is None or "commit" not in call.line.text:
            return call
        await self.settled()
        command = await self._record.credit(call.line.text, message_uuid)
        if command == call.line.text:
            return call
        return call.with_input(call.block["input"] | {"command": command})

    def _before(self, call: BoundCall, session: ToolSession) -> "StateBefore | None":
        if call.is_read_only:
            return None
        from clew.record.rewind.watch import Named, find_named_paths, place_files

        if call.line is not None:
            names = find_named_paths(call.line, lambda path: str(session.path(path)))
            known_paths = {
                record.path for record in session.files.ledger.records()
            } | self._watch.touched
            names = Named(deep=names.deep, flat=names.flat | known_paths)
            return self._watch.before(names, session.cwd, looks_everywhere=True)
        try:
            paths = frozenset(place_files(str(session.path(path))) for path in call.paths)
        except ClewError:
            return None
        return (
            self._watch.before(Named(deep=paths), session.cwd, looks_everywhere=False)
            if paths
            else None
        )

    async def _note(
        self, call: BoundCall, commits: int, before: "StateBefore", ctx: ToolContext
    ) -> None:
        async with self._one:
            changes, omitted_count = await asyncio.to_thread(self._watch.after, before)
            if changes or commits:
                await self._record.note(
                    CallChanges(
                        message_uuid=ctx.message_uuid,
                        tool_use_id=ctx.tool_use_id,
                        changes=changes,
                        omitted_count=omitted_count,
                        writes=not _restores(call),
                        commits=commits,
                    )
                )


def _restores(call: BoundCall) -> bool:
    """Return whether a command line lets git restore contents."""
    if call.line is None or "git" not in call.line.text:
        return False
    from clew.permissions.git import split_git

    return any(
        part.command.name.rpartition("/")[2] == "git" and split_git(part.command)[1] in RESTORING
        for part in call.line.parts.parts
    )


GONE = "{name} is no longer available: its server or plugin was removed. The call did not run."
Run: TypeAlias = Callable[[BoundCall, ToolContext], Awaitable[ToolOutcome]]


class SessionTools:
    """The tools of a session.

    `surroundings` returns the session's state; `secrets` are masked in results.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        session: ToolSession,
        surroundings: Callable[[], Surroundings],
        secrets: Sequence[str] = (),
        file_record: FileRecord | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._aliases = aliases or {}
        self._toolbox = toolbox
        self._file_record = file_record
        self._session = session
        self._surroundings = surroundings
        self._secrets = session.secrets = tuple(secrets)

    @property
    def toolbox(self) -> Toolbox:
        return self._toolbox

    def note_seen(self, path: Path, mtime_ms: int) -> bool:
        """Record that a host saw a file, so that edits may rely on it.

        `path` is the real path on which permissions decided. Return False if the file has changed
        since.
        """
        from clew.agent.tools.files import EDIT_MAX_BYTES, note_seen, take

        with decided({str(path): str(path)}, self._session):
            snapshot = take(path, EDIT_MAX_BYTES)
        if snapshot.status.st_mtime_ns // 1_000_000 != mtime_ms:
            return False
        lines = snapshot.data.count(b"\n") + 1
        note_seen(self._session, snapshot, ((1, lines),), "")
        return True

    def take_up(self, todos: Sequence[TodoItem]) -> None:
        """Adopt the todo list of another conversation."""
        self._session.todos = list_todos(todos)

    def names(self) -> list[str]:
        """Return the names of the tools that can be called now."""
        return [tool.name for tool in self._toolbox]

    def definitions(self) -> list[Json]:
        """Return the tools that requests contain; those of stopped servers stay, for the cache."""
        return self._toolbox.definitions()

    def meant(self, block: Json) -> Json:
        """Return the block with an alias replaced by the tool's name; aliases are not chained."""
        name = self._aliases.get(block["name"])
        return block if name is None else block | {"name": name}

    async def credited(self, call: BoundCall, message_uuid: str) -> BoundCall:
        if self._file_record is None:
            return call
        return await self._file_record.credit(call, message_uuid)

    def bind(self, block: Json) -> BoundCall:
        """Bind a block to its tool and its converted input."""
        name = str(block.get("name", ""))
        tool = self._tool(name)
        return bind(tool, block, self._unknown(name) if tool is None else None)

    def title(self, block: Json) -> str:
        """Return a one-line description of a call, which may be from an older transcript."""
        return self.bind(block).title

    def unusable(self, call: BoundCall) -> ToolOutcome | None:
        """Return why a call can't run even if approved (such as invalid input), or None."""
        call = self._current(call)
        if call.tool is None or call.given is None:
            return call.fault
        objection = call.tool.objection(call.given, self._session)
        return make_failure(wrap_in_tag("tool_use_error", objection)) if objection else None

    async def doomed(self, call: BoundCall, may_look: Callable[[str], bool]) -> ToolOutcome | None:
        """Return why a call would fail even if approved, or None. See `Toolset.doomed`."""
        call = self._current(call)
        if not all(map(may_look, call.paths)):
            return None
        if self._session.files.buffers is not None:
            from clew.agent.tools.editor import rehearse_in_editor

            return await rehearse_in_editor(self._session.files.buffers, call, self._session)
        return rehearse(call, self._session)

    def question(self, call: BoundCall) -> tuple[QuestionKind, str]:
        if call.tool is None or call.given is None:
            return "permission", ""
        return call.tool.question_kind, call.tool.body(call.given, self._session)

    def _current(self, call: BoundCall) -> BoundCall:
        """Return the call, bound again if its tool was removed or replaced."""
        if self._tool(call.name) is call.tool:
            return call
        current = self.bind(call.block)
        current.places.update(call.places)
        return current

    def _tool(self, name: str) -> Tool[Any] | None:
        tool = self._toolbox.get(name)
        return None if tool is None else tool.load()

    def _unknown(self, name: str) -> ToolOutcome:
        if self._toolbox.was_there(name):
            return make_failure(wrap_in_tag("tool_use_error", GONE.format(name=name)))
        names = [tool.name for tool in self._toolbox]
        near = find_nearest(name, names)
        hint = f"Did you mean {near}?" if near else f"Available tools: {', '.join(names)}"
        return make_failure(wrap_in_tag("tool_use_error", f"Unknown tool {name}. {hint}"))

    @property
    def has_walls(self) -> bool:
        sandbox = self._session.shell.sandbox
        return sandbox is not None and sandbox.has_walls

    async def can_confine(self) -> bool:
        sandbox = self._session.shell.sandbox
        return sandbox is not None and await sandbox.can_confine()

    async def look_up(self) -> bool:
        sandbox = self._session.shell.sandbox
        return sandbox is not None and await sandbox.look_up()

    async def run(
        self,
        call: BoundCall,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolOutcome:
        """Run a call of a currently available tool."""
        return await self.call(
            self._current(call),
            message_uuid=message_uuid,
            progress=progress,
            is_confined=is_confined,
        )

    async def call(
        self,
        call: BoundCall,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolOutcome:
        """Run a call of any tool, whether or not the tool is offered to the model."""
        if call.tool is None:
            return call.fault or self._unknown(call.name)

        async def emit(step: Progress) -> None:
            await progress(replace(step, text=remove_secrets(step.text, self._secrets)))

        context = ToolContext(
            session=self._session,
            emit=emit,
            tool_use_id=call.block["id"],
            message_uuid=message_uuid,
            surroundings=self._surroundings,
            is_confined=is_confined,
        )
        run: Run = run_tool if self._file_record is None else self._file_record.run
        if self._session.files.buffers is not None:
            from clew.agent.tools.editor import with_buffers

            run = with_buffers(self._session.files.buffers, run)
        result = await run(call, context)
        # Mask before anything is saved, recorded or sent: a command may print its environment.
        clean = replace(
            result,
            content=remove_all_secrets(result.content, self._secrets),
            tool_use_result=remove_all_secrets(result.tool_use_result, self._secrets),
            display=remove_secrets(result.display, self._secrets),
        )
        if isinstance(clean.content, list) and any(b.get("type") == "image" for b in clean.content):
            from clew.agent.tools.media import fit_pictures

            content = await fit_pictures(self._session, clean.content)
            clean = replace(clean, content=content)
        return await fit_result(clean, call.tool.result_max_chars, self._session.spill_folder)


def list_todos(todos: Sequence[TodoItem]) -> list[Json]:
    """Return the todo list in the form in which its tool stores it."""
    return [{"content": t.content, "status": t.status, "activeForm": t.active_form} for t in todos]
