"""The session's tools as the executor sees them: by block, never raising, a wrong name an outcome.

Owns nothing but the way from a tool_use block to the tool of its name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.config.mask import all_without, without
from clew.engine.file_record import FileRecord
from clew.messages.wording import tagged
from clew.session.state import Todo
from clew.tools.base import (
    Progress,
    QuestionKind,
    Surroundings,
    Tool,
    ToolContext,
    ToolResult,
    ToolSession,
    failed,
)
from clew.tools.door import rehearse, run_tool
from clew.tools.files import EDIT_MAX_BYTES, note_seen, take
from clew.tools.registry import Toolbox
from clew.tools.schema import parse_input
from clew.tools.spill import fitted

Json: TypeAlias = dict[str, Any]
GONE = (
    "{name} is gone: the server or plugin that brought it was taken away. This call had not begun, and "
    "nothing was done."
)
Run: TypeAlias = Callable[[Tool[Any], Any, ToolContext], Awaitable[ToolResult]]


class SessionTools:
    """`surroundings` says how the session stands at the moment of a call; `secrets` are never shown."""

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

    def note_seen(self, path: Path, mtime_ms: int) -> bool:
        """Somebody saw a file, as it was then, whom edits may rely on; False if it has changed."""
        found = take(path, EDIT_MAX_BYTES)
        if found.status.st_mtime_ns // 1_000_000 != mtime_ms:
            return False
        lines = found.data.count(b"\n") + 1
        note_seen(self._session, found, ((1, lines),), "")
        return True

    def take_up(self, todos: Sequence[Todo]) -> None:
        """The list of what is to be done, as another conversation left it."""
        self._session.todos = listed(todos)

    def definitions(self) -> list[Json]:
        return self._toolbox.definitions()

    def meant(self, block: Json) -> Json:
        """The call as everything behind the model sees it: another name for a tool leads to that tool, and
        from there no further."""
        name = self._aliases.get(block["name"])
        return block if name is None else block | {"name": name}

    def title(self, block: Json) -> str:
        """A call in a line, also one of long ago: the tool's name alone where it has no more to say."""
        name = str(block.get("name", ""))
        tool = self._toolbox.get(name)
        given = None if tool is None else parse_input(tool, block.get("input"))
        if tool is None or isinstance(given, ToolResult):
            return name
        title = tool.title(given)
        return title if title.startswith(tool.name) else f"{tool.name}: {title}"

    def is_concurrency_safe(self, block: Json) -> bool:
        """A call that cannot run disturbs nobody."""
        tool = self._toolbox.get(block["name"])
        given = None if tool is None else parse_input(tool, block["input"])
        if tool is None or isinstance(given, ToolResult):
            return True
        return tool.is_concurrency_safe(given)

    def unusable(self, block: Json) -> ToolResult | None:
        """Why a call cannot run whoever permits it: no such tool, or an input that is none."""
        tool = self._toolbox.get(block["name"])
        if tool is None:
            return self._unknown(block["name"])
        given = parse_input(tool, block["input"])
        if isinstance(given, ToolResult):
            return given
        objection = tool.objection(given, self._session)
        return failed(tagged("tool_use_error", objection)) if objection else None

    async def doomed(self, block: Json, may_look: Callable[[str], bool]) -> ToolResult | None:
        """Why a call would fail whatever is answered to the question whether it may run."""
        tool = self._toolbox.get(block["name"])
        given = None if tool is None else parse_input(tool, block["input"])
        if tool is None or isinstance(given, ToolResult):
            return self.unusable(block)
        if not all(map(may_look, tool.paths(given))):
            return None
        if self._session.buffers is not None:
            from clew.tools.editor import rehearsed

            return await rehearsed(self._session.buffers, tool, block["input"], self._session)
        return rehearse(tool, block["input"], self._session)

    def question(self, block: Json) -> tuple[QuestionKind, str]:
        tool = self._toolbox.get(block["name"])
        given = None if tool is None else parse_input(tool, block["input"])
        if tool is None or isinstance(given, ToolResult):
            return "permission", ""
        return tool.question_kind, tool.body(given, self._session)

    def _unknown(self, name: str) -> ToolResult:
        if self._toolbox.was_there(name):
            return failed(tagged("tool_use_error", GONE.format(name=name)))
        known = [each.name for each in self._toolbox]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return failed(tagged("tool_use_error", f"no tool named {name}; {hint}"))

    @property
    def has_walls(self) -> bool:
        return self._session.sandbox is not None and self._session.sandbox.has_walls

    async def can_confine(self) -> bool:
        return self._session.sandbox is not None and await self._session.sandbox.can_confine()

    async def look_up(self) -> bool:
        return self._session.sandbox is not None and await self._session.sandbox.look_up()

    async def run(
        self,
        block: Json,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolResult:
        tool = self._toolbox.get(block["name"])
        if tool is None:
            return self._unknown(block["name"])
        return await self.call(
            tool, block, message_uuid=message_uuid, progress=progress, is_confined=is_confined
        )

    async def call(
        self,
        tool: Tool[Any],
        block: Json,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolResult:
        """Runs a tool, offered to the model or not."""

        async def emit(step: Progress) -> None:
            await progress(replace(step, text=without(step.text, self._secrets)))

        context = ToolContext(
            session=self._session,
            emit=emit,
            tool_use_id=block["id"],
            message_uuid=message_uuid,
            surroundings=self._surroundings,
            is_confined=is_confined,
        )
        run: Run = run_tool if self._file_record is None else self._file_record.run
        if self._session.buffers is not None:
            from clew.tools.editor import with_buffers

            run = with_buffers(self._session.buffers, run)
        result = await run(tool, block["input"], context)
        # Before anything is kept, recorded or sent: a command may print its environment.
        clean = replace(
            result,
            content=all_without(result.content, self._secrets),
            tool_use_result=all_without(result.tool_use_result, self._secrets),
            display=without(result.display, self._secrets),
        )
        if isinstance(clean.content, list) and any(b.get("type") == "image" for b in clean.content):
            from clew.tools.media import fit_pictures

            content = await fit_pictures(self._session, clean.content)
            clean = replace(clean, content=content)
        return await fitted(clean, tool.result_max_chars, self._session.spill_folder)


def listed(todos: Sequence[Todo]) -> list[Json]:
    """What is to be done, as its tool keeps it."""
    return [{"content": t.content, "status": t.status, "activeForm": t.active_form} for t in todos]
