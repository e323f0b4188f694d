"""What a tool is, what it is given, and what it gives back.

Owns the words every tool and the executor share. A tool never decides whether it may run, and
never raises to the model: a failure is a `ToolOutcome` it can act on (`ToolError` inside a tool,
turned into one by `door`).
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Meta, Struct, field

from clew.agent.tasks.registry import Tasks
from clew.agent.tools.ledger import ContentCache, ReadLedger
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


# The limits of tools, read once from the environment and the settings of the start.


BASH_TIMEOUT_MS = 120_000
BASH_MAX_TIMEOUT_MS = 600_000
BASH_MAX_OUTPUT_CHARS = 30_000
# Beyond this a result would crowd out the conversation, whatever a variable asks for.
BASH_OUTPUT_CEILING_CHARS = 150_000


# What takes longer hangs, as far as anybody can tell.
CALL_TIMEOUT_S = 300.0
EVERY = "*"


class ToolLimits(Struct, frozen=True, kw_only=True):
    bash_timeout_ms: int = BASH_TIMEOUT_MS
    bash_max_timeout_ms: int = BASH_MAX_TIMEOUT_MS
    bash_max_output_chars: int = BASH_MAX_OUTPUT_CHARS
    # Seconds of one call, by patterns of the names of tools.
    call_timeouts_s: Mapping[str, float] = {}

    def call_timeout_s(self, name: str, *, owns_its_time: bool) -> float | None:
        """How long one call may take; None for a tool that ends by itself. Of several patterns that
        fit, the longest counts, and `*` speaks only of tools that have no limit of their own."""
        timeouts = {EVERY: CALL_TIMEOUT_S, **self.call_timeouts_s}
        fitting = [pattern for pattern in timeouts if fnmatchcase(name, pattern)]
        nearest = max(fitting, key=len)
        return None if owns_its_time and nearest == EVERY else timeouts[nearest]


def read_limits(
    number: Callable[[str], int | None], call_timeouts_s: Mapping[str, float] | None = None
) -> ToolLimits:
    """`number` is the frozen environment's: a field's value, in whichever spelling it was given."""
    timeout_ms = number("bash_timeout_ms") or BASH_TIMEOUT_MS
    most_ms = number("bash_max_timeout_ms") or BASH_MAX_TIMEOUT_MS
    output_chars = number("bash_max_output") or BASH_MAX_OUTPUT_CHARS
    return ToolLimits(
        bash_timeout_ms=timeout_ms,
        # Whoever raises the usual time means that commands may take it.
        bash_max_timeout_ms=max(timeout_ms, most_ms),
        bash_max_output_chars=min(output_chars, BASH_OUTPUT_CEILING_CHARS),
        call_timeouts_s=call_timeouts_s or {},
    )


Input = TypeVar("Input", bound=Struct)

RESULT_MAX_CHARS = 50_000


class ShellInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The input of a shell. Its command line is read once, by whoever asks first."""

    command: Annotated[str, Meta(min_length=1, description="The command")]

    @cached_property
    def line(self) -> "CommandLine":
        from clew.permissions.reading import CommandLine

        return CommandLine(self.command)


# `permission`: may this run; `choices`: questions with answers to choose; `plan`: may this plan be done.
QuestionKind = Literal["permission", "choices", "plan"]


# The tool by which a model gives an answer of a given shape.
STRUCTURED_OUTPUT = "StructuredOutput"


class ToolError(ClewError):
    """Why a call did nothing, in words for the model: what was wrong, and what to do instead."""


class Progress(Struct, frozen=True, kw_only=True):
    """What a call says while it runs; shown, never recorded."""

    text: str
    data: dict[str, Any]


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """A call's outcome: `content` for the model, `tool_use_result` for programs, `display` for people."""

    content: str | list[dict[str, Any]]
    is_error: bool = False
    tool_use_result: Any = None
    display: str = ""
    # What an MCP server said beside its content, for programs.
    mcp_meta: dict[str, Any] | None = None
    # What the read-only wall kept a command from that may run without it, if a user says so.
    blocked: str = ""

    def block(self, tool_use_id: str) -> dict[str, Any]:
        """The content block that answers the call."""
        return make_tool_result(tool_use_id, self.content, is_error=self.is_error)


def make_failure(text: str) -> ToolOutcome:
    return ToolOutcome(
        content=text,
        is_error=True,
        tool_use_result=f"Error: {text}",
        display=text.split("\n", 1)[0],
    )


def refuse_odd(text: str, what: str) -> None:
    """Models can write characters that no system call takes."""
    try:
        odd = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError(f"{what} cannot hold half a surrogate pair.") from None
    if odd:
        raise ToolError(f"{what} cannot hold a NUL character.")


Emit = Callable[[Progress], Awaitable[None]]


class AskModel(Protocol):
    """One question to a model, beside the conversation; "small" is the model for small work."""

    async def __call__(
        self, prompt: str, *, system: str = "", model: str = "small", purpose: Purpose = "other"
    ) -> str | Failure: ...


class AskService(Protocol):
    """A question for which the model's service may run tools of its own; the blocks of the answer."""

    async def __call__(
        self,
        prompt: str,
        *,
        tools: list[dict[str, Any]],
        model: str = "small",
        purpose: Purpose = "other",
    ) -> list[dict[str, Any]] | Failure: ...


class Own(Protocol):
    """The session itself, as the tools that are about it may touch it."""

    @property
    def mode(self) -> str: ...

    @property
    def places(self) -> Places: ...

    @property
    def plan_file(self) -> Path:
        """Where the plan of this session is written, whether it is there yet or not."""
        ...

    @property
    def task_folder(self) -> Path: ...

    def enter_plan(self) -> None:
        """From now on the model looks and does not touch."""
        ...

    def leave_plan(self) -> str:
        """Goes back to the mode before; returns it."""
        ...


async def nobody_minds(_: str, __: dict[str, Any]) -> str:
    return ""


class Surroundings(Struct, frozen=True, kw_only=True):
    """How the session stands at the moment of a call: the model, the mode, who is there."""

    model: str = ""
    # None where nobody knows.
    takes_pdfs: bool | None = None
    permissions: Any = None
    tools: tuple["Tool[Any]", ...] = ()
    mcp_clients: tuple[Any, ...] = ()
    max_thinking_tokens: int | None = None
    interactive: bool = False
    debug: bool = False
    verbose: bool = False


class ShellSetup(Struct, kw_only=True):
    """What the processes of tools are started with. `environment` stays as the session began."""

    launcher: Launcher
    environment: Mapping[str, str]
    # Where the shell returns to when its folder is gone.
    project: str
    # What every shell reads first, if it is there: variables that hooks left.
    env_file: Path | None = None
    # The terminal of the editor around the session, where commands run in it.
    terminal: "Callable[[], RemoteTerminal | None]" = lambda: None
    # The walls around shells; None where there are none.
    sandbox: Sandbox | None = None


class FileViews(Struct, kw_only=True):
    """What the model has seen of files, and what it may see."""

    ledger: ReadLedger = field(default_factory=ReadLedger)
    contents: ContentCache = field(default_factory=ContentCache)
    # For a folder: which of the files below it a search may show. Names are relative to it.
    may_read: Callable[[str], Callable[[str], bool]] = lambda _: lambda _: True
    # Whether a message is among those that the model is sent: what it showed needs no repeating.
    in_conversation: Callable[[str], bool] = lambda _: False
    # What the editor around the session offers, if there is one; and, while a call runs, the files
    # that it was told of as the editor holds them, by their real paths.
    buffers: "Buffers | None" = None
    unsaved: dict[str, bytes] = {}


class ModelQuestions(Struct, frozen=True, kw_only=True):
    """Questions to a model outside of the conversation; None where nobody answers."""

    ask_model: AskModel | None = None
    ask_service: AskService | None = None


class BackgroundWork(Struct, kw_only=True):
    """What works while the conversation goes on."""

    tasks: Tasks = field(default_factory=Tasks)
    # Where it is written down what continues without clew; None where nothing may.
    shelf: "RecordFolder | None" = None
    # Whose tasks those are that begin here: an agent's id, or nobody's in particular.
    owner: str = ""
    # Agents that work for this conversation; None where it may have none.
    agents: "Agents | None" = None


class ToolSession(Struct, kw_only=True, eq=False):
    """What tools remember from call to call. `cwd` moves with the shell."""

    cwd: str
    # Where results are kept that are too long to show.
    spill_folder: Path
    shell: ShellSetup
    limits: ToolLimits = ToolLimits()
    # Never shown and never kept, wherever a tool comes upon them.
    secrets: tuple[str, ...] = ()
    files: FileViews = field(default_factory=FileViews)
    models: ModelQuestions = ModelQuestions()
    background: BackgroundWork = field(default_factory=BackgroundWork)
    own: Own | None = None
    todos: list[dict[str, Any]] = []
    # Ask hooks whether something may happen; returns why not, where one says so.
    ask_hooks: Callable[[str, dict[str, Any]], Awaitable[str]] = nobody_minds

    def path(self, text: str) -> Path:
        """The file a path of the model's means: the same that the resolver of permissions judges."""
        refuse_odd(text, "A path")
        return Path(self.cwd, expand(text, self.shell.environment.get("HOME", "~")) or text)


class ToolContext(Struct, frozen=True, kw_only=True):
    """One call's surroundings. Cancelling the task that awaits `call` is how a call is stopped."""

    session: ToolSession
    emit: Emit
    tool_use_id: str
    message_uuid: str = ""
    surroundings: Callable[[], Surroundings] = Surroundings
    # A shell runs behind the read-only wall: nobody was asked about it.
    is_confined: bool = False


class Tool(ABC, Generic[Input]):
    """A tool. What it does to the world depends on its input, so every question takes one."""

    name: str
    # For people: what the tool does, in one line.
    description: str
    # For the model: when and how to use it; the description where a tool has nothing to add.
    prompt: str = ""
    is_mcp: bool = False
    # The model is told the name alone, until it asks ToolSearch for more.
    is_deferred: bool = False
    # Further words by which ToolSearch finds the tool.
    search_words: str = ""
    # Other names it answers to, and other names of its fields: what models learned elsewhere.
    also_called: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    # One of these must be installed.
    programs: tuple[str, ...] = ()
    # What the model is told, where that was written down before.
    stated: dict[str, Any] | None = None
    # Fields that are filled in on the way; the model is not told of them.
    hidden_fields: tuple[str, ...] = ()
    # Ends by a limit of its own, or works as long as there is work: the general limit is not for it.
    owns_its_time: bool = False
    # A longer result is kept in a file and shown by its two ends; None for a tool that pages itself.
    result_max_chars: int | None = RESULT_MAX_CHARS
    # The schema of an input that is somebody else's: it comes whole, as the field `values`.
    foreign_schema: dict[str, Any] | None = None
    # What a person is asked before it runs, where the rules ask.
    question_kind: QuestionKind = "permission"

    @property
    @abstractmethod
    def input_type(self) -> type[Input]: ...

    def load(self) -> "Tool[Input]":
        """The tool with its code."""
        return self

    def is_enabled(self, settings: Mapping[str, Any]) -> bool:
        return not self.programs or any(map(which, self.programs))

    def is_read_only(self, arguments: Input) -> bool:
        """Whether the call leaves everything outside the session as it is."""
        return False

    def is_concurrency_safe(self, arguments: Input) -> bool:
        """Whether it may run beside others that say so too."""
        return self.is_read_only(arguments)

    def is_destructive(self, arguments: Input) -> bool:
        """Whether it may take away what cannot be brought back."""
        return False

    def paths(self, arguments: Input) -> tuple[str, ...]:
        """The files or folders the input names, as it names them."""
        return ()

    def title(self, arguments: Input) -> str:
        """The call in a few words for a person."""
        return self.name

    def objection(self, arguments: Input, session: ToolSession) -> str:
        """Why a call with a proper input makes no sense now; nobody is asked about it then."""
        return ""

    def rehearse(self, arguments: Input, session: ToolSession) -> None:
        """Raises what the call would, by what it would work on; changes nothing. Asked only where the
        paths of the call may be read: it may tell what is in them."""

    def body(self, arguments: Input, session: ToolSession) -> str:
        """What a person should see besides the input before they answer."""
        return ""

    @abstractmethod
    async def call(self, arguments: Input, ctx: ToolContext) -> ToolOutcome: ...


# What a conversation may ask of others that work for it: begin one, let one go on, tell one something.


class Delegation(Struct, frozen=True, kw_only=True):
    """A piece of work for an agent; None leaves it to the agent's definition."""

    prompt: str
    description: str
    kind: str
    model: str | None = None
    in_background: bool | None = None
    in_worktree: bool | None = None
    # By which others call it; its id where it has none.
    name: str = ""
    # The id of an agent that goes on instead of a new one.
    resume: str = ""


class Agents(Protocol):
    async def run(self, wish: Delegation, tool_use_id: str) -> ToolOutcome:
        """Has the work done and answers what came of it, or that it goes on in the background."""
        ...

    async def send(self, to: str, words: str) -> ToolOutcome:
        """Tells an agent something: one that runs hears it between its steps, another goes on."""
        ...
