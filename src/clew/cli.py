"""The command line: reads the first word, loads what that word needs, and nothing else.

Owns the table of subcommands. Must never import at module level anything heavier than `sys`:
`clew --version` is a start-up figure (tests/cli/test_startup.py holds the list of modules).

Decision: docs/decisions/002-start-up-imports.md
Decision: docs/decisions/261-untrusted-text-on-terminals.md
"""

import io
import os
import sys

from clew.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.agent.options import Options


def run_acp(argv: list[str]) -> int:
    from clew.fronts.editor.main import main

    return main(argv)


def run_completion(argv: list[str]) -> int:
    from clew.completion import main

    return main(argv, {name: run for name, (run, _) in COMMANDS.items()})


def run_config(argv: list[str]) -> int:
    from clew.commands.config import main

    return main(argv)


def run_context(argv: list[str]) -> int:
    from clew.commands.context import main

    return main(argv)


def run_cost(argv: list[str]) -> int:
    from clew.commands.cost import main

    return main(argv)


def run_demo(argv: list[str]) -> int:
    from clew.testing.demo import main

    return main(argv)


def run_doctor(argv: list[str]) -> int:
    from clew.commands.doctor.checks import main

    return main(argv)


def run_hooks(argv: list[str]) -> int:
    from clew.commands.hooks import main

    return main(argv)


def run_keys(argv: list[str]) -> int:
    from clew.fronts.terminal.keys import main

    return main(argv)


def run_login(argv: list[str]) -> int:
    from clew.commands.login import main

    return main(argv)


def run_logout(argv: list[str]) -> int:
    from clew.commands.login import log_out

    return log_out(argv)


def run_mcp(argv: list[str]) -> int:
    from clew.fronts.headless.mcp_word import main

    return main(argv)


def run_memory(argv: list[str]) -> int:
    from clew.commands.memory import main

    return main(argv)


def run_permissions(argv: list[str]) -> int:
    from clew.commands.permissions import main

    return main(argv)


def run_plugin(argv: list[str]) -> int:
    from clew.commands.plugins import main

    return main(argv)


def run_sessions(argv: list[str]) -> int:
    from clew.commands.sessions.commands import main

    return main(argv)


def run_tasks(argv: list[str]) -> int:
    from clew.commands.tasks import main

    return main(argv)


# Each runs a module that it imports itself, so that `clew --version` loads none of them.
COMMANDS: "dict[str, tuple[Callable[[list[str]], int], str]]" = {
    "acp": (run_acp, "Serve an editor over the Agent Client Protocol"),
    "completion": (run_completion, "Print shell completion for bash, zsh or fish"),
    "config": (run_config, "Show, explain and change settings; trust folders"),
    "context": (run_context, "Show what fills the next request of a session"),
    "cost": (run_cost, "Show costs by session, model, day, tool and more"),
    "demo": (run_demo, "Play a scripted conversation without key or network"),
    "doctor": (run_doctor, "Check this setup and suggest repairs"),
    "hooks": (run_hooks, "List hooks and try them"),
    "keys": (run_keys, "List key bindings and check your own"),
    "login": (run_login, "Store an API key in a file only you can read"),
    "logout": (run_logout, "Delete the stored API key"),
    "mcp": (run_mcp, "Add, list, approve and log in to MCP servers"),
    "memory": (run_memory, "Show which memory files are loaded, and why"),
    "permissions": (run_permissions, "Check what may run, and why; edit rules"),
    "plugin": (run_plugin, "Install, list, trust and remove plugins"),
    "sessions": (run_sessions, "List, search, check, repair and move sessions"),
    "tasks": (run_tasks, "List, show and stop background tasks"),
}

# Words alone that are commands of other programs, or of a session, and what stands for them here.
# Sent to the model as a prompt, such a word costs money and does something else.
_UPDATE = "what installed clew brings it up to date (pip install -U, pipx upgrade, uv tool upgrade)"
ELSEWHERE = {
    "agents": "/agents in a session lists them",
    "compact": "/compact in a session shortens it",
    "export": "clew sessions export writes one to a file, /export in a session this one",
    "history": "clew sessions list shows what there is",
    "init": "/init in a session writes a memory file for the project",
    "models": "/model in a session lists them, --model names one",
    "resume": "clew --resume goes on with a session, clew --continue with the newest",
    "rewind": "/rewind in a session, clew sessions rewind outside of it",
    "skills": "/skills in a session lists them",
    "update": _UPDATE,
    "upgrade": _UPDATE,
    "usage": "clew cost shows what sessions used, /usage in a session this one",
}

# Made from COMMANDS and `clew.agent.options` by `make docs`: to make it here would cost more than all else
# that `--help` does.
HELP = """\
usage: clew [OPTION ...] [PROMPT]
       clew COMMAND [ARG ...]

A coding agent for your terminal.

commands:
  acp          Serve an editor over the Agent Client Protocol
  completion   Print shell completion for bash, zsh or fish
  config       Show, explain and change settings; trust folders
  context      Show what fills the next request of a session
  cost         Show costs by session, model, day, tool and more
  demo         Play a scripted conversation without key or network
  doctor       Check this setup and suggest repairs
  hooks        List hooks and try them
  keys         List key bindings and check your own
  login        Store an API key in a file only you can read
  logout       Delete the stored API key
  mcp          Add, list, approve and log in to MCP servers
  memory       Show which memory files are loaded, and why
  permissions  Check what may run, and why; edit rules
  plugin       Install, list, trust and remove plugins
  sessions     List, search, check, repair and move sessions
  tasks        List, show and stop background tasks

session:
  PROMPT                     First prompt; clew asks for one without it
  -p, --print                Print the answer to one prompt and exit
  --linear                   Line-by-line output, for screen readers
  -c, --continue             Continue the newest session of this folder
  -r, --resume [SESSION]     Resume a session by ID, title or file (no value:
                             pick from a list)
  --fork-session             Fork: continue in a copy with a new session ID
  --resume-session-at UUID   Resume after this message and drop later ones
  --resume-drops-turn UUID   Like --resume-session-at, if only this prompt's
                             turn is dropped
  --session-id UUID          ID of the new session
  -n, --name TITLE           Title of the session
  -w, --worktree [NAME]      Run in a git worktree (created if missing)
  --add-dir DIR              Additional working folder
  --no-session-persistence   Don't save the session

model:
  --model MODEL              Model ID or alias
  --fallback-model MODELS    Fallback models, tried in order
  --effort LEVEL             Effort level of the model (low, medium, high,
                             xhigh, max)
  --thinking MODE            Thinking mode of the model (adaptive, enabled,
                             disabled)
  --thinking-display FORM    How thinking is returned (summarized, omitted)
  --max-thinking-tokens N    Limit thinking to N tokens; 0: off
  --betas NAMES              Beta features to request
  --max-turns N              Stop after N model responses
  --max-budget-usd USD       Stop after the response that reaches this cost
  --task-budget TOKENS       Token budget that the model is told for the task
  --autocompact TOKENS       Compact to stay within a window of this size

permissions:
  --permission-mode MODE     Permission mode (default, manual, acceptEdits,
                             plan, auto, dontAsk, bypassPermissions)
  --dangerously-skip-permissions
                             Same as --permission-mode bypassPermissions
  --allow-dangerously-skip-permissions
                             Allow a later change to bypassPermissions
  --allowedTools, --allowed-tools RULES
                             Rules that allow, such as "Bash(git log:*),Read"
  --disallowedTools, --disallowed-tools RULES
                             Rules that deny
  --tools NAMES              Built-in tools to offer, such as Read,Bash; "" for
                             none
  --permission-prompt-tool WHO
                             Who approves: the host (stdio) or a tool
                             (mcp__SERVER__TOOL)
  --permission-prompts WHO   none: deny calls that need approval (host, none)

system prompt:
  --system-prompt TEXT       Replace the system prompt
  --system-prompt-file FILE  Read the system prompt from a file
  --append-system-prompt TEXT
                             Add to the system prompt
  --append-system-prompt-file FILE
                             Add to the system prompt from a file
  --system-prompt-snapshot [SWITCH]
                             off: rebuild the system prompt in each run of a
                             session
  --exclude-dynamic-system-prompt-sections
                             No effect: the system prompt has no machine-
                             specific facts

settings and extensions:
  --settings JSON|FILE       Extra settings that override the settings files
  --managed-settings JSON|FILE
                             Restrictions that override all other settings
  --setting-sources NAMES    Settings files to read: user,project,local
  --bare                     Load no settings, memory, hooks, servers or agents
                             from files
  --disable-slash-commands   Treat lines that begin with / as prompts
  --mcp-config JSON|FILE     Add MCP servers
  --strict-mcp-config        Use only the servers of --mcp-config
  --plugin-dir DIR           Load and trust a plugin for this session
  --plugin-dir-no-mcp DIR    Like --plugin-dir, without the plugin's MCP servers
  --agents JSON              Define agents: {NAME: {description, prompt, tools,
                             ...}}
  --agent NAME               Run the session as this agent

setup and debugging:
  --init                     Run the Setup hooks first
  --maintenance              Run the Setup hooks for maintenance first
  --init-only                Run the Setup hooks and exit
  --debug-file FILE          Write the debug log to this file
  --debug-to-stderr          Write the debug log to standard error
  -d, --debug[=KINDS]        Write a debug log; KINDS are api, tools, hooks,
                             session

output and hosts:
  --output-format FORMAT     Output format of --print; stream-json requires
                             --verbose (text, json, stream-json)
  --json-schema JSON|FILE    Schema of the answer
  --verbose                  Verbose output; required by stream-json
  --input-format FORMAT      stream-json: read JSON lines from standard input
                             (text, stream-json)
  --include-partial-messages
                             Include the streaming events of responses
  --replay-user-messages     Echo user messages to the output
  --include-hook-events      Include hook events in the output
  --forward-subagent-text    Include the text of subagents, not only their tool
                             calls
  --session-mirror           Send every transcript entry to the host
  --prompt-suggestions [SWITCH]
                             Suggest the next prompt after each turn
  --await-initialize         Wait for the host's initialize request

other options:
  -h, --help                 Show this help; clew COMMAND --help shows a
                             command's
  -v, --version              Show the version
"""
# End of what is made.


def main(argv: list[str] | None = None) -> int:
    """The door: whatever a command could not do is one line on standard error, and an exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    give_streams()
    try:
        code = dispatch(args)
        sys.stdout.flush()
    except (OSError, ExceptionGroup) as raised:
        from clew.core.messages.errors import describe_error, find_first_error

        error = find_first_error(raised)
        if not isinstance(error, OSError):
            raise
        # The interpreter must not try once more to flush what could not be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 0  # whoever read us has seen enough
        print(f"clew: {GONE if is_nowhere() else describe_error(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


GONE = (
    "the folder it was started in is no longer there; go to one that is (cd), and start clew again"
)


def is_nowhere() -> bool:
    """Whether the working folder was deleted under us: nothing can be found from there."""
    from pathlib import Path

    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def give_streams() -> None:
    """A closed input says nothing. Writing never fails for the words: to closed outputs it goes to
    nobody, and a character that the terminal's encoding (or any) cannot write is escaped."""
    # Before the outputs: each takes the lowest number there is, which is its own.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nobody = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nobody, "w", encoding="utf-8"))
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    only_words("stderr")


class Words(io.TextIOWrapper):
    """A terminal that is told words alone: what a model, a file, a server or a plugin says in them
    moves no cursor, hides no line and sets no title."""

    def write(self, text: str) -> int:
        from clew.fronts.render.rows import escape_controls

        return super().write(escape_controls(text.replace("\r\n", "\n")))


def only_words(name: str) -> None:
    """What is written to this stream from here on are words, where it leads to a terminal."""
    stream = getattr(sys, name)
    if isinstance(stream, io.TextIOWrapper) and stream.isatty():
        how = stream.encoding, stream.errors
        setattr(sys, name, Words(stream.buffer, *how, line_buffering=True))


def dispatch(args: list[str]) -> int:
    first = args[0] if args else ""
    # Alone, the bare words are meant as the options; before others they begin a prompt.
    if first in ("-v", "--version") or args == ["version"]:
        print(f"clew {VERSION}")
        return 0
    if first in ("-h", "--help") or args == ["help"]:
        print(HELP, end="")
        return 0
    if first == "help" and (len(args) == 2 or (len(args) == 3 and args[1] in COMMANDS)):
        return helped(args[1:])
    if first in COMMANDS:
        if first != "demo":  # it draws
            only_words("stdout")
        if first in ("acp", "mcp"):
            hide()
        return COMMANDS[first][0](args[1:])
    before_words = args[: args.index("--")] if "--" in args else args
    if "-h" in before_words or "--help" in before_words:
        return dispatch(["--help"])
    return talk(args)


def helped(words: list[str]) -> int:
    """`clew help WORD`: what `clew WORD --help` says; the bare words that are options say all."""
    if words[0] in COMMANDS:
        return dispatch([*words, "--help"])
    if words[0].lstrip("-") in ("help", "version", "h", "v"):
        return dispatch(["--help"])
    from difflib import get_close_matches

    near = get_close_matches(words[0], COMMANDS, n=1)
    elsewhere = ELSEWHERE.get(words[0], "clew --help lists them")
    hint = f"did you mean {near[0]}?" if near and words[0] not in ELSEWHERE else elsewhere
    print(f"clew: no command {words[0]!r}; {hint}", file=sys.stderr)
    return 2


def talk(args: list[str]) -> int:
    """A session: headless with --print, else with the person at the terminal."""
    if not args and can_draw():
        from clew.fronts.terminal.start import main

        hide()

        return main()
    from clew.core.messages.errors import CommandLineError
    from clew.session.flags import parse

    try:
        misspelled(args)
        options = parse(args)
        if options.resume == "" and (options.is_print or options.is_linear or not can_draw()):
            from clew.fronts.terminal.session_picker import pick_session

            options = pick_session(options)
    except CommandLineError as error:
        print(f"clew: {error}", file=sys.stderr)
        # Programs that talk to clew know two exit codes.
        is_host = any(word.endswith("stream-json") for word in args)
        return 1 if is_host else 2
    hide()
    if options.is_print:
        only_words("stdout")
    if options.worktree is not None:
        from clew.session.worktree import run_in_worktree

        return run_in_worktree(options, front(options))
    return front(options)(options)


def hide() -> None:
    """Commands of a session must not read the keys in the environment that clew was started with."""
    from clew.system.process.hiding import hide

    hide()


def front(options: "Options") -> "Callable[[Options], int]":
    """What shows the session. What loading it makes stays to the end: whoever looked for garbage in
    it, now or later, would look in vain."""
    import gc

    gc.disable()
    try:
        if options.is_print:
            from clew.fronts.headless.run import main
        elif options.is_linear or not can_draw():
            from clew.fronts.line.linear import main
        else:
            from clew.fronts.terminal.start import main
    finally:
        gc.freeze()
        gc.enable()
    return main


def can_draw() -> bool:
    """Whether there is a terminal on both sides that takes more than lines."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb")


def misspelled(args: list[str]) -> None:
    """A word that is nearly a command was meant as one, not as a prompt; so was one alone that is
    a command elsewhere."""
    from difflib import get_close_matches

    from clew.core.messages.errors import CommandLineError

    if len(args) == 1 and args[0] in ELSEWHERE:
        prompt = f"as a prompt: clew -- {args[0]}"
        raise CommandLineError(f"no command {args[0]!r}; {ELSEWHERE[args[0]]}; {prompt}")
    near = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.8) if args else []
    if near:
        raise CommandLineError(f"unknown command {args[0]!r}; did you mean {near[0]}?")
