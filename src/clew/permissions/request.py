"""Permission requests, and the table that says how each tool is judged.

Owns `PermissionRequest`, `ResolvedPath`, `Context` and the table `TOOLS`. A tool is judged by what
its row says it touches, never by code specific to the tool; a tool without a row needs approval.
Nothing here accesses the disk: the caller passes `resolve`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from clew.core.hosts import spell_host

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

Mode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]

# What a tool affects. `free` touches only the session; `person` is a question to the user and
# therefore always needs an answer.
Family = Literal[
    "read", "edit", "shell", "fetch", "mcp", "agent", "skill", "free", "person", "other"
]


class ResolvedPath(Struct, frozen=True, kw_only=True):
    """Every absolute spelling of one path. The first is as written, the last is the real path.

    `known` is False if clew cannot tell which file is meant. `folds_case` means that the file
    system treats `A` and `a` as the same name. `is_file` means that the path is an ordinary
    file, so nothing is below it.
    """

    names: tuple[str, ...]
    known: bool = True
    folds_case: bool = False
    is_file: bool = False
    # The targets of the symbolic links that a pattern in the path matches.
    leads_to: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        return self.names[-1]


Resolve = Callable[[str], ResolvedPath]


class HeldByGit(Struct, frozen=True, kw_only=True):
    """The files in a repository's index and history that rules deny or ask about.

    `paths` are relative to `top`, the top of the working tree. `blobs` are the object names of
    their contents, in lower case. `is_known` is False if git could not be queried.
    """

    is_known: bool = False
    top: str = ""
    paths: tuple[str, ...] = ()
    blobs: frozenset[str] = frozenset()


def not_searched(_: str) -> HeldByGit:
    return HeldByGit()


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """One tool call.

    `untrusted` names the origins of untrusted text (web, mcp, tool, project) that comes before this
    call in the conversation. `read_only` is the MCP server's annotation of its tool. `line` is the
    parsed command line of the call, if it was parsed before.
    """

    tool: str
    input: dict[str, Any]
    untrusted: tuple[str, ...] = ()
    read_only: bool = False
    line: "CommandLine | None" = None


class Context(Struct, frozen=True, kw_only=True):
    """The place where the call would run. Paths are real and absolute, without a trailing slash.

    `results` lists the folders in which this session, and the sessions that it was copied from,
    store tool results. The model may read them, because it has already seen the results.
    """

    cwd: str
    home: str
    mode: Mode = "default"
    directories: tuple[str, ...] = ()
    config_home: str = ""
    plan_file: str | None = None
    results: tuple[str, ...] = ()
    # Whether file tools may not write outside the workspace, in any mode and whatever rules allow.
    blocks_writes_outside: bool = False
    # The memory folder, where earlier sessions leave notes for later ones. The model may read it.
    memory: str = ""
    # Files that every shell or program of a session runs first, for example the one in `$BASH_ENV`.
    startup_files: tuple[str, ...] = ()
    # Folders in the workspace that are on PATH. A relative one is resolved against the folder in
    # which the command runs.
    program_folders: tuple[str, ...] = ()
    # Settings with which the repository of an untrusted folder would make git start programs. If
    # there are any, even a read-only git command needs approval.
    git_programs: tuple[str, ...] = ()
    # Whether the read-only sandbox is available for commands that run without asking. Without it,
    # only a short list of commands runs without asking.
    has_walls: bool = True
    # Returns the restrained files in the index and history of the repository around a folder.
    # Called only for commands that print contents, and only if rules restrain reading.
    held_by_git: Callable[[str], HeldByGit] = not_searched

    @property
    def roots(self) -> tuple[str, ...]:
        """The workspace: the working folder and the additional folders."""
        return (self.cwd, *self.directories)


class ToolRow(Struct, frozen=True, kw_only=True):
    """The row by which a tool is judged: its family, and its fields for paths or the main value."""

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
    # clew does not parse PowerShell, so it cannot tell that a call is harmless.
    "PowerShell": ToolRow(family="other"),
    "Config": ToolRow(family="other"),
    "ReadMcpResourceTool": ToolRow(family="other"),
    "ReadMcpResourceDir": ToolRow(family="other"),
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
            "RefreshMcpTools",
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

# Tools with two names. A rule for either name applies to both.
SAME_TOOL = {"Task": "Agent", "SlashCommand": "Skill"}
# Tools that do what another tool does. Its rules apply to them too.
LIKE_TOOL = {"Monitor": "Bash"}

# Input fields that the ordinary rules of a family judge. `ToolRow(param:value)` may not name them.
JUDGED_FIELDS = frozenset(
    {"command", "file_path", "filePath", "notebook_path", "path", "url", "subagent_type", "skill"}
)

MCP_PREFIX = "mcp__"
UNKNOWN_TOOL = ToolRow(family="other")
MCP_TOOL = ToolRow(family="mcp")


def tool_of(name: str) -> ToolRow:
    """Return the row for a tool. MCP tools are recognized by their prefix."""
    row = TOOLS.get(name)
    if row is not None:
        return row
    return MCP_TOOL if name.startswith(MCP_PREFIX) else UNKNOWN_TOOL


def resolve_tool_name(name: str) -> str:
    name = SAME_TOOL.get(name, name)
    return LIKE_TOOL.get(name, name)


def paths_of(request: PermissionRequest) -> tuple[str, ...] | None:
    """Return the paths that a file tool's call names, or None if a required path is missing."""
    tool = tool_of(request.tool)
    values = [request.input[field] for field in tool.paths if field in request.input]
    if not values and tool.default_path is not None:
        return (tool.default_path,)
    if not values or not all(isinstance(path, str) and path for path in values):
        return None
    return tuple(values)


def subject_of(request: PermissionRequest) -> str | None:
    """Return the command, URL, agent or skill that a call names, or None if it names none."""
    value = request.input.get(tool_of(request.tool).subject)
    return value if isinstance(value, str) and value else None


def domain_of(url: str) -> str | None:
    """Return the host of a URL, spelled as in rules, without the port.

    URL parsers disagree on backslashes, control characters and a second `@`. Return None for a URL
    that could be parsed in two ways.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority = rest
    for end in "/?#":
        authority = authority.partition(end)[0]
    if any(c in authority for c in "\\%[]@ \t\r\n\0*"):
        return None
    host, _, port = authority.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return None
    return spell_host(host)
