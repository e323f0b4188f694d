"""The interface of a tool: its input, the session as the tool sees it, and the outcome of a call.

Contains the types shared by the tools and the executor. A tool never decides whether it may run.
It reports a failure to the model as a `ToolOutcome`; the executor turns a `ToolError` raised inside
a tool into a `ToolOutcome`.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Meta, Struct, field

from clew.agent.tasks.registry import Tasks
from clew.agent.tools.read_files import ContentCache, ReadLedger
from clew.agent.tools.sandboxed import Sandbox
from clew.core.ledger.ledger import Purpose
from clew.core.messages.errors import ClewError
from clew.core.messages.factories import make_tool_result
from clew.permissions.resolver import expand
from clew.providers.base import Failure
from clew.system.config.paths import Places
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.agent.tools.editor_client import Buffers, RemoteTerminal
    from clew.permissions.reading import CommandLine
    from clew.record.kept_commands import RecordFolder


# The limits of tools, read once at the start from the environment and the settings.


BASH_TIMEOUT_MS = 120_000
BASH_MAX_TIMEOUT_MS = 600_000
BASH_MAX_OUTPUT_CHARS = 30_000
# A longer result would crowd out the conversation, whatever the environment asks for.
BASH_OUTPUT_CEILING_CHARS = 150_000


# A call that takes longer is assumed to hang.
CALL_TIMEOUT_S = 300.0
EVERY = "*"


class ToolLimits(Struct, frozen=True, kw_only=True):
    bash_timeout_ms: int = BASH_TIMEOUT_MS
    bash_max_timeout_ms: int = BASH_MAX_TIMEOUT_MS
    bash_max_output_chars: int = BASH_MAX_OUTPUT_CHARS
    # Seconds per call, by patterns of tool names.
    call_timeouts_s: Mapping[str, float] = {}

    def call_timeout_s(self, name: str, *, owns_its_time: bool) -> float | None:
        """Return how many seconds one call may take, or None if the tool limits its own time.

        The longest matching pattern applies. `*` is used only for tools that have no limit of their
        own.
        """
        timeouts = {EVERY: CALL_TIMEOUT_S, **self.call_timeouts_s}
        fitting = [pattern for pattern in timeouts if fnmatchcase(name, pattern)]
        nearest = max(fitting, key=len)
        return None if owns_its_time and nearest == EVERY else timeouts[nearest]


def read_limits(
    number: Callable[[str], int | None], call_timeouts_s: Mapping[str, float] | None = None
) -> ToolLimits:
    """Read the limits for tools from the environment and the settings.

    `number` returns the value of an environment field, in any of its spellings.
    """
    timeout_ms = number("bash_timeout_ms") or BASH_TIMEOUT_MS
    most_ms = number("bash_max_timeout_ms") or BASH_MAX_TIMEOUT_MS
    output_chars = number("bash_max_output") or BASH_MAX_OUTPUT_CHARS
    return ToolLimits(
        bash_timeout_ms=timeout_ms,
        # A longer default timeout implies that a command may take that long.
        bash_max_timeout_ms=max(timeout_ms, most_ms),
        bash_max_output_chars=min(output_chars, BASH_OUTPUT_CEILING_CHARS),
        call_timeouts_s=call_timeouts_s or {},
    )


Input = TypeVar("Input", bound=Struct)

RESULT_MAX_CHARS = 50_000


class ShellInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The input of a tool that runs a shell. The command line is parsed once, on first use."""

    command: Annotated[str, Meta(min_length=1, description="The command")]

    @cached_property
    def line(self) -> "CommandLine":
        from clew.permissions.reading import CommandLine

        return CommandLine(self.command)


# `permission`: may this call run; `choices`: questions with options; `plan`: may this plan begin.
QuestionKind = Literal["permission", "choices", "plan"]


# The tool with which a model returns an answer that follows a schema.
STRUCTURED_OUTPUT = "StructuredOutput"


class ToolError(ClewError):
    """Raised when a call cannot run: `problem` says why, `hint` tells the model what to do instead.

    The user sees only the problem.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(f"{problem} {hint}".rstrip())
        self.problem = problem
        self.hint = hint


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of a running call. It is shown, never recorded."""

    text: str
    data: dict[str, Any]


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a call.

    `content` is for the model, `tool_use_result` for programs, and `display` for the user.
    """

    content: str | list[dict[str, Any]]
    is_error: bool = False
    tool_use_result: Any = None
    display: str = ""
    # The metadata of an MCP server's result, for programs.
    mcp_meta: dict[str, Any] | None = None
    # What the read-only sandbox kept a command from doing, if the user may allow it.
    blocked: str = ""

    def block(self, tool_use_id: str) -> dict[str, Any]:
        """Return the content block that answers the call."""
        return make_tool_result(tool_use_id, self.content, is_error=self.is_error)


def make_failure(text: str, *, hint: str = "") -> ToolOutcome:
    """Return a failed call's outcome; only the model sees the hint."""
    return ToolOutcome(
        content=f"{text} {hint}".rstrip() if hint else text,
        is_error=True,
        tool_use_result=f"Error: {text}",
        display=text.split("\n", 1)[0],
    )


def refuse_odd(text: str, what: str) -> None:
    """Raise ToolError if text from the model contains characters that no system call accepts."""
    try:
        odd = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError(f"{what} can't contain a lone surrogate.") from None
    if odd:
        raise ToolError(f"{what} can't contain a NUL character.")


Emit = Callable[[Progress], Awaitable[None]]


class AskModel(Protocol):
    """Asks a model one question outside of the conversation; "small" selects the small model."""

    async def __call__(
        self, prompt: str, *, system: str = "", model: str = "small", purpose: Purpose = "other"
    ) -> str | Failure: ...


class AskService(Protocol):
    """Asks a model a question that its service may answer with its own tools.

    Return the content blocks of the answer.
    """

    async def __call__(
        self,
        prompt: str,
        *,
        tools: list[dict[str, Any]],
        model: str = "small",
        purpose: Purpose = "other",
    ) -> list[dict[str, Any]] | Failure: ...


class Own(Protocol):
    """The parts of the session that tools about the session itself may read and change."""

    @property
    def mode(self) -> str: ...

    @property
    def places(self) -> Places: ...

    @property
    def plan_file(self) -> Path:
        """The file for this session's plan, whether or not it exists."""
        ...

    @property
    def task_folder(self) -> Path: ...

    def enter_plan(self) -> None:
        """Switch to plan mode, in which the model may change only the plan file."""
        ...

    def leave_plan(self) -> str:
        """Return to the mode that was active before plan mode, and return its name."""
        ...


async def nobody_minds(_: str, __: dict[str, Any]) -> str:
    return ""


class Surroundings(Struct, frozen=True, kw_only=True):
    """The state of the session during a call, such as its model, its permissions and its tools."""

    model: str = ""
    # None if unknown.
    takes_pdfs: bool | None = None
    permissions: Any = None
    tools: tuple["Tool[Any]", ...] = ()
    mcp_clients: tuple[Any, ...] = ()
    max_thinking_tokens: int | None = None
    interactive: bool = False
    debug: bool = False
    verbose: bool = False


class ShellSetup(Struct, kw_only=True):
    """The setup for processes that tools start.

    `environment` is the environment in which the session started.
    """

    launcher: Launcher
    environment: Mapping[str, str]
    # The folder that the shell returns to if its current folder no longer exists.
    project: str
    # A script that every shell sources first if it exists: variables that hooks set.
    env_file: Path | None = None
    # The editor's terminal, if commands run in it.
    terminal: "Callable[[], RemoteTerminal | None]" = lambda: None
    # The sandbox around shells; None without one.
    sandbox: Sandbox | None = None


class FileViews(Struct, kw_only=True):
    """The model's view of files and pages: the parts it has seen, and what it may see."""

    ledger: ReadLedger = field(default_factory=ReadLedger)
    contents: ContentCache = field(default_factory=ContentCache)
    # Takes a folder and returns a filter for the relative names of files that a search may show.
    may_read: Callable[[str], Callable[[str], bool]] = lambda _: lambda _: True
    # Returns whether no rule restrains fetching a URL to which a page redirects.
    may_fetch: Callable[[str], bool] = lambda _: True
    # Returns whether the model is still sent a message, so that its output needs no repeating.
    in_conversation: Callable[[str], bool] = lambda _: False
    # The files open in the editor around the session; None without an editor. While a call runs,
    # `unsaved` contains their unsaved contents by real path.
    buffers: "Buffers | None" = None
    unsaved: dict[str, bytes] = {}


class ModelQuestions(Struct, frozen=True, kw_only=True):
    """Functions that ask a model outside of the conversation; None if no model is available."""

    ask_model: AskModel | None = None
    ask_service: AskService | None = None


class BackgroundWork(Struct, kw_only=True):
    """The tasks and agents that run while the conversation continues."""

    tasks: Tasks = field(default_factory=Tasks)
    # The record of commands that keep running after clew exits; None if they may not.
    shelf: "RecordFolder | None" = None
    # The ID of the agent that owns new tasks; empty for the main conversation.
    owner: str = ""
    # The subagents of this conversation; None if it may have none.
    agents: "Agents | None" = None


class ToolSession(Struct, kw_only=True, eq=False):
    """The state that tools keep between calls. `cwd` is the shell's current folder."""

    cwd: str
    # The folder for results that are too long to show.
    spill_folder: Path
    shell: ShellSetup
    limits: ToolLimits = ToolLimits()
    # Masked wherever a tool's output contains them.
    secrets: tuple[str, ...] = ()
    files: FileViews = field(default_factory=FileViews)
    models: ModelQuestions = ModelQuestions()
    background: BackgroundWork = field(default_factory=BackgroundWork)
    own: Own | None = None
    todos: list[dict[str, Any]] = []
    # Asks hooks whether something may happen. Returns their reason against it, or an empty string.
    ask_hooks: Callable[[str, dict[str, Any]], Awaitable[str]] = nobody_minds

    def path(self, text: str) -> Path:
        """Resolve a path from the model to the same file that the permissions check."""
        refuse_odd(text, "A path")
        return Path(self.cwd, expand(text, self.shell.environment.get("HOME", "~")) or text)


# The real paths on which permissions decided for the current call, by absolute path. A context
# variable, because calls run at the same time, and because no tool may open a file past it.
_DECIDED: ContextVar[Mapping[str, str]] = ContextVar("decided", default=MappingProxyType({}))


@contextmanager
def decided(places: Mapping[str, str], session: ToolSession) -> Iterator[None]:
    """Make `locate` return the real paths on which permissions decided."""
    token = _DECIDED.set({str(session.path(text)): real for text, real in places.items()})
    try:
        yield
    finally:
        _DECIDED.reset(token)


def locate(path: Path) -> Path:
    """Return the real path on which permissions decided, or else the current one.

    The target of a link in the path may have changed since the decision.
    """
    return Path(_DECIDED.get().get(str(path)) or os.path.realpath(path))


def was_decided(path: Path) -> bool:
    """Return whether permissions decided on this path for the current call."""
    return str(path) in _DECIDED.get()


class ToolContext(Struct, frozen=True, kw_only=True):
    """The context of one call. To stop the call, cancel the task that awaits `call`."""

    session: ToolSession
    emit: Emit
    tool_use_id: str
    message_uuid: str = ""
    surroundings: Callable[[], Surroundings] = Surroundings
    # The shell runs in the read-only sandbox, because its command was not approved.
    is_confined: bool = False


class Tool(ABC, Generic[Input]):
    """A tool that the model can call.

    The effect of a call depends on its input, so most methods take the input.
    """

    name: str
    # For the user: what the tool does, in one line.
    description: str
    # For the model: when and how to use it. Without one, the model gets the description.
    prompt: str = ""
    is_mcp: bool = False
    # The model sees only the name until it loads the tool with ToolSearch.
    is_deferred: bool = False
    # More words by which ToolSearch finds the tool.
    search_words: str = ""
    # Aliases of the tool and of its fields, which models know from elsewhere.
    also_called: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    # The tool is available if one of these is installed.
    programs: tuple[str, ...] = ()
    # The definition for the model, if it was generated beforehand.
    stated: dict[str, Any] | None = None
    # Fields that clew fills in; the model does not see them.
    hidden_fields: tuple[str, ...] = ()
    # The tool limits its own time, or runs as long as its work takes: no general timeout applies.
    owns_its_time: bool = False
    # A longer result is saved to a file, and only its beginning and end are shown. None for a tool
    # that pages its own results.
    result_max_chars: int | None = RESULT_MAX_CHARS
    # A schema that the tool does not define itself. The input arrives as the field `values`.
    foreign_schema: dict[str, Any] | None = None
    # The kind of question for the user if the rules require approval.
    question_kind: QuestionKind = "permission"

    @property
    @abstractmethod
    def input_type(self) -> type[Input]: ...

    def load(self) -> "Tool[Input]":
        """Return the tool with its code loaded."""
        return self

    def is_enabled(self, settings: Mapping[str, Any]) -> bool:
        if not self.programs:
            return True
        from shutil import which

        return any(map(which, self.programs))

    def is_read_only(self, arguments: Input) -> bool:
        """Return whether the call changes nothing outside of the session."""
        return False

    def is_concurrency_safe(self, arguments: Input) -> bool:
        """Return whether the call may run at the same time as other calls."""
        return self.is_read_only(arguments)

    def is_destructive(self, arguments: Input) -> bool:
        """Return whether the call may destroy something that can't be restored."""
        return False

    def paths(self, arguments: Input) -> tuple[str, ...]:
        """Return the files or folders that the input names, spelled as in the input."""
        return ()

    def title(self, arguments: Input) -> str:
        """Return a description of the call in a few words, for the user."""
        return self.name

    def objection(self, arguments: Input, session: ToolSession) -> str:
        """Return why a valid call is pointless now; such a call fails without asking the user."""
        return ""

    def rehearse(self, arguments: Input, session: ToolSession) -> None:
        """Raise the error that the call would raise, without changing anything.

        The message may reveal file contents, so this runs only if the call's paths may be read.
        """

    def body(self, arguments: Input, session: ToolSession) -> str:
        """Return what the user should see, besides the input, before answering the question."""
        return ""

    @abstractmethod
    async def call(self, arguments: Input, ctx: ToolContext) -> ToolOutcome: ...


# How a conversation starts, continues and messages its subagents.


class Delegation(Struct, frozen=True, kw_only=True):
    """Work for a subagent. A field that is None leaves the choice to the agent's definition."""

    prompt: str
    description: str
    kind: str
    model: str | None = None
    in_background: bool | None = None
    in_worktree: bool | None = None
    # The name by which others address the agent; empty to use its ID.
    name: str = ""
    # The ID of the agent to continue; empty to start a new one.
    resume: str = ""


class Agents(Protocol):
    async def run(self, wish: Delegation, tool_use_id: str) -> ToolOutcome:
        """Run the work and return its outcome, or a note that it continues in the background."""
        ...

    async def send(self, to: str, words: str) -> ToolOutcome:
        """Send a message to an agent.

        An agent that is running receives it between two steps; an agent that has ended is resumed.
        """
        ...
