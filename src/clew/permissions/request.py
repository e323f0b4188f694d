"""What is asked: a tool's call as values, and the table that says how each tool is judged.

Owns `PermissionRequest`, `ResolvedPath`, `Context` and the table `TOOLS`. A tool is judged by what its row
says it touches, never by code of its own; a tool without a row asks. Nothing here looks at a disk:
whoever calls brings `resolve`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

Mode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]

# What a tool does to the world. `free` touches nothing but the session; `person` is a question to
# the person in front of it and so always asks.
Family = Literal[
    "read", "edit", "shell", "fetch", "mcp", "agent", "skill", "free", "person", "other"
]


class ResolvedPath(Struct, frozen=True, kw_only=True):
    """Every absolute spelling of one path, the one as written first, the real one last.

    `known` is false where it cannot be told which file is meant. `folds_case`: the file system
    takes `A` and `a` for the same name. `is_file`: an ordinary file, with nothing below it.
    """

    names: tuple[str, ...]
    known: bool = True
    folds_case: bool = False
    is_file: bool = False
    # Where links lead that a pattern in the path stands for.
    leads_to: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        return self.names[-1]


Resolve = Callable[[str], ResolvedPath]


class HeldByGit(Struct, frozen=True, kw_only=True):
    """What a repository keeps of files that rules deny or ask about: in its index and its history.

    `paths` are from `top`, the top of the working tree; `blobs` are the names of their contents, in
    lower case. `is_known` is false where nobody could tell.
    """

    is_known: bool = False
    top: str = ""
    paths: tuple[str, ...] = ()
    blobs: frozenset[str] = frozenset()


def not_searched(_: str) -> HeldByGit:
    return HeldByGit()


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """One call of a tool.

    `untrusted` names where text that nobody vouches for came from (web, mcp, tool, project) if any
    stands before this call in the conversation. `read_only` is what an MCP server says of its tool.
    `line` is the call's command line, where somebody read it before.
    """

    tool: str
    input: dict[str, Any]
    untrusted: tuple[str, ...] = ()
    read_only: bool = False
    line: "CommandLine | None" = None


class Context(Struct, frozen=True, kw_only=True):
    """Where the call would run. Paths are real, absolute, without a slash at the end.

    `results` are the folders in which the session, and those that it is a copy of, keep what tools
    gave: what the model was told lies there, it may read.
    """

    cwd: str
    home: str
    mode: Mode = "default"
    directories: tuple[str, ...] = ()
    config_home: str = ""
    plan_file: str | None = None
    results: tuple[str, ...] = ()
    # The folder of what earlier sessions left for later ones, which the model may read.
    memory: str = ""
    # Files that every shell or program of a session runs first, as `$BASH_ENV` names one.
    startup_files: tuple[str, ...] = ()
    # Folders of the workspace in which commands find their programs. A relative one is looked up where
    # the command runs.
    program_folders: tuple[str, ...] = ()
    # Settings by which git would start programs, named by the repository of a folder that is not
    # trusted. A git command that only looks asks where there are any.
    git_programs: tuple[str, ...] = ()
    # Whether a read-only wall can stand around a command that nobody was asked about. Without one,
    # only a short list of commands runs unasked.
    has_walls: bool = True
    # What git keeps of restrained files in the repository around a folder. Asked only about commands
    # that print contents, where rules restrain reading.
    held_by_git: Callable[[str], HeldByGit] = not_searched

    @property
    def roots(self) -> tuple[str, ...]:
        """The workspace: the working folder and the further ones."""
        return (self.cwd, *self.directories)


class ToolRow(Struct, frozen=True, kw_only=True):
    """A row: the family, and the fields of the input that name a path or the main thing judged."""

    family: Family
    paths: tuple[str, ...] = ()
    subject: str = ""
    default_path: str | None = None


TOOLS: dict[str, ToolRow] = {
    "Read": ToolRow(family="read", paths=("file_path",)),
    "NotebookRead": ToolRow(family="read", paths=("notebook_path",)),
    "Glob": ToolRow(family="read", paths=("path",), default_path="."),
    "Grep": ToolRow(family="read", paths=("path",), default_path="."),
    "LS": ToolRow(family="read", paths=("path",), default_path="."),
    "LSP": ToolRow(family="read", paths=("filePath", "file_path"), default_path="."),
    "Edit": ToolRow(family="edit", paths=("file_path",)),
    "MultiEdit": ToolRow(family="edit", paths=("file_path",)),
    "Write": ToolRow(family="edit", paths=("file_path",)),
    "NotebookEdit": ToolRow(family="edit", paths=("notebook_path",)),
    "Bash": ToolRow(family="shell", subject="command"),
    "Monitor": ToolRow(family="shell", subject="command"),
    "WebFetch": ToolRow(family="fetch", subject="url"),
    "WebSearch": ToolRow(family="other"),
    # Nobody here reads its language, so no call of it is known to be harmless.
    "PowerShell": ToolRow(family="other"),
    "Config": ToolRow(family="other"),
    "ReadMcpResourceTool": ToolRow(family="other"),
    "Agent": ToolRow(family="agent", subject="subagent_type"),
    "Task": ToolRow(family="agent", subject="subagent_type"),
    "Skill": ToolRow(family="skill", subject="skill"),
    "SlashCommand": ToolRow(family="skill", subject="command"),
    "AskUserQuestion": ToolRow(family="person"),
    "ExitPlanMode": ToolRow(family="person"),
    **{
        name: ToolRow(family="free")
        for name in (
            "BashOutput",
            "Brief",
            "EnterPlanMode",
            "KillShell",
            "ListMcpResourcesTool",
            "SendMessage",
            "ScheduleCron",
            "ScheduleDelete",
            "ScheduleList",
            "TaskCreate",
            "TaskGet",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "TaskUpdate",
            "TodoRead",
            "TodoWrite",
            "StructuredOutput",
            "ToolSearch",
        )
    },
}

# Two names of one tool: a rule for either holds for both.
SAME_TOOL = {"Task": "Agent", "SlashCommand": "Skill", "Monitor": "Bash"}

# The input that each family's rules read by rules of their own; `ToolRow(param:value)` may not.
JUDGED_FIELDS = frozenset(
    {"command", "file_path", "filePath", "notebook_path", "path", "url", "subagent_type", "skill"}
)

MCP_PREFIX = "mcp__"
UNKNOWN_TOOL = ToolRow(family="other")
MCP_TOOL = ToolRow(family="mcp")


def tool_of(name: str) -> ToolRow:
    """The row of a tool; the names of MCP tools say themselves what they are."""
    row = TOOLS.get(name)
    if row is not None:
        return row
    return MCP_TOOL if name.startswith(MCP_PREFIX) else UNKNOWN_TOOL


def resolve_tool_name(name: str) -> str:
    return SAME_TOOL.get(name, name)


def paths_of(request: PermissionRequest) -> tuple[str, ...] | None:
    """The paths a call of a file tool names; None where it names none and the tool needs one."""
    tool = tool_of(request.tool)
    values = [request.input[field] for field in tool.paths if field in request.input]
    if not values and tool.default_path is not None:
        return (tool.default_path,)
    if not values or not all(isinstance(path, str) and path for path in values):
        return None
    return tuple(values)


def subject_of(request: PermissionRequest) -> str | None:
    """The command, address, agent or skill a call names; None where it names none."""
    value = request.input.get(tool_of(request.tool).subject)
    return value if isinstance(value, str) and value else None


def domain_of(url: str) -> str | None:
    """The host of an address in lower case, without user, port and last dot; None if unreadable.

    Readers of addresses disagree on backslashes, control characters and a second `@`; what could
    be read two ways is not read at all.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority = rest
    for end in "/?#":
        authority = authority.partition(end)[0]
    if not authority.isascii() or any(c in authority for c in "\\%[]@ \t\r\n\0"):
        return None
    host, _, port = authority.partition(":")
    if port and not port.isdigit():
        return None
    return host.lower().rstrip(".") or None
