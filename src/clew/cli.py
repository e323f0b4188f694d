"""Interpret the command line's first word and load only the modules that are needed for it.

This module contains the table of subcommands. It must never import anything heavier than `sys` at
module level, because the start-up time of `clew --version` is measured (tests/cli/test_startup.py
lists the allowed modules).

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

    from _typeshed import ReadableBuffer

    from clew.agent.options import Options


def run_acp(argv: list[str]) -> int:
    from clew.fronts.editor.main import main

    return main(argv)


def run_attach(argv: list[str]) -> int:
    from clew.fronts.remote.attach import main

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


def run_handover(argv: list[str]) -> int:
    from clew.commands.handover import main

    return main(argv)


def run_hooks(argv: list[str]) -> int:
    from clew.commands.hooks import main

    return main(argv)


def run_host(argv: list[str]) -> int:
    from clew.fronts.remote.host import main

    return main(argv)


def run_import_config(argv: list[str]) -> int:
    from clew.commands.importing.main import main

    return main(argv)


def run_keys(argv: list[str]) -> int:
    from clew.fronts.terminal.keys import main

    return main(argv)


def run_link(argv: list[str]) -> int:
    from clew.commands.link import main

    return main(argv)


def run_auth(argv: list[str]) -> int:
    from clew.commands.auth import main

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


def run_models(argv: list[str]) -> int:
    from clew.commands.models import main

    return main(argv)


def run_pair(argv: list[str]) -> int:
    from clew.fronts.remote.pairing import main

    return main(argv)


def run_permissions(argv: list[str]) -> int:
    from clew.commands.permissions import main

    return main(argv)


def run_plugin(argv: list[str]) -> int:
    from clew.commands.plugins import main

    return main(argv)


def run_remote(argv: list[str]) -> int:
    from clew.fronts.remote.remote import main

    return main(argv)


def run_serve(argv: list[str]) -> int:
    from clew.commands.sessions.output import find_home
    from clew.serve.run import main

    return main(argv, find_home())


def run_sessions(argv: list[str]) -> int:
    from clew.commands.sessions.commands import main

    return main(argv)


def run_tasks(argv: list[str]) -> int:
    from clew.commands.tasks import main

    return main(argv)


def run_update(argv: list[str]) -> int:
    from clew.commands.update import main

    return main(argv)


# Each function imports its module when called, so that `clew --version` loads none of them.
def run_web(argv: list[str]) -> int:
    from clew.fronts.web.run import main

    return main(argv)


COMMANDS: "dict[str, tuple[Callable[[list[str]], int], str]]" = {
    "acp": (run_acp, "Serve an editor over the Agent Client Protocol"),
    "attach": (run_attach, "Follow and use a session on another machine"),
    "auth": (run_auth, "Show where the credentials come from (auth status)"),
    "completion": (run_completion, "Print a shell completion script (bash, zsh, fish)"),
    "config": (run_config, "Show, explain and change settings; trust folders"),
    "context": (run_context, "Show what a session's next request contains"),
    "cost": (run_cost, "Show costs by session, model, day, tool and more"),
    "demo": (run_demo, "Play a scripted conversation without a key or network"),
    "doctor": (run_doctor, "Check this installation and suggest fixes"),
    "handover": (run_handover, "Continue a session with another agent"),
    "hooks": (run_hooks, "List and test hooks"),
    "host": (run_host, "Start remote sessions on this machine on request"),
    "import-config": (run_import_config, "Import servers, rules and more from other agents"),
    "keys": (run_keys, "List key bindings and check yours"),
    "link": (run_link, "Create a claude command that starts clew"),
    "login": (run_login, "Save an API key in a file only you can read"),
    "logout": (run_logout, "Delete the stored API key"),
    "mcp": (run_mcp, "Add, list, approve and log in to MCP servers"),
    "memory": (run_memory, "Show which memory files are loaded, and why"),
    "models": (run_models, "List available models with prices"),
    "pair": (run_pair, "Give another machine access to remote sessions"),
    "permissions": (run_permissions, "Check what may run, and why; edit rules"),
    "plugin": (run_plugin, "Install, list, trust and remove plugins"),
    "remote": (run_remote, "Start and end sessions on other machines"),
    "serve": (run_serve, "Run a server for sessions, viewers and remote answers"),
    "sessions": (run_sessions, "List, search, check, repair and move sessions"),
    "tasks": (run_tasks, "Manage background tasks that outlive clew"),
    "update": (run_update, "Check for a newer version and install it"),
    "web": (run_web, "Show and use this machine's sessions in a browser"),
}

# Commands of other programs and slash commands, with the replacement to suggest. Sent to the model
# as a prompt, such a word would cost money and do something else.
_INSTALL = "clew is already installed; run clew doctor to check it"
_UNINSTALL = (
    "remove it with the tool that installed it: pip uninstall, pipx uninstall or uv tool uninstall"
)
ELSEWHERE = {
    "agents": "use /agents in a session",
    "compact": "use /compact in a session",
    "export": "use clew sessions export, or /export in a session",
    "daemon": "use clew serve",
    "history": "use clew sessions list",
    "init": "use /init in a session to create a memory file for the project",
    "install": _INSTALL,
    "logs": "use clew tasks",
    "ps": "use clew tasks, or clew sessions list",
    "purge": "use clew sessions prune",
    "resume": "use clew --resume, or clew --continue for the newest session",
    "rewind": "use clew sessions rewind, or /rewind in a session",
    "settings": "use clew config, or /config in a session",
    "skills": "use /skills in a session",
    "status": "use clew doctor, or /status in a session",
    "uninstall": _UNINSTALL,
    "upgrade": "use clew update",
    "usage": "use clew cost, or /usage in a session",
}

# Generated from COMMANDS and `clew.agent.options` by `make docs`. Building it at run time would
# cost more than everything else that `--help` does.
HELP = """\
usage: clew [OPTION ...] [PROMPT]
       clew COMMAND [ARG ...]

A coding agent for your terminal.

commands:
  acp          Serve an editor over the Agent Client Protocol
  attach       Follow and use a session on another machine
  auth         Show where the credentials come from (auth status)
  completion   Print a shell completion script (bash, zsh, fish)
  config       Show, explain and change settings; trust folders
  context      Show what a session's next request contains
  cost         Show costs by session, model, day, tool and more
  demo         Play a scripted conversation without a key or network
  doctor       Check this installation and suggest fixes
  handover     Continue a session with another agent
  hooks        List and test hooks
  host         Start remote sessions on this machine on request
  import-config
               Import servers, rules and more from other agents
  keys         List key bindings and check yours
  link         Create a claude command that starts clew
  login        Save an API key in a file only you can read
  logout       Delete the stored API key
  mcp          Add, list, approve and log in to MCP servers
  memory       Show which memory files are loaded, and why
  models       List available models with prices
  pair         Give another machine access to remote sessions
  permissions  Check what may run, and why; edit rules
  plugin       Install, list, trust and remove plugins
  remote       Start and end sessions on other machines
  serve        Run a server for sessions, viewers and remote answers
  sessions     List, search, check, repair and move sessions
  tasks        Manage background tasks that outlive clew
  update       Check for a newer version and install it
  web          Show and use this machine's sessions in a browser

session:
  PROMPT                     First prompt; clew asks for one without it
  -p, --print                Print the answer to one prompt and exit
  --linear                   Line-by-line output, for screen readers
  -c, --continue             Continue the newest session in this folder
  -r, --resume [SESSION]     Resume a session by ID, title or file (no value:
                             pick from a list)
  --from-pr NUMBER|URL       Resume the session that created this pull request
  --fork-session             Fork: continue in a copy with a new session ID
  --resume-session-at UUID   Resume after this message and drop later ones
  --resume-drops-turn UUID   Fail if --resume-session-at drops more than this
                             turn
  --session-id UUID          ID of the new session
  -n, --name TITLE           Title of the session
  -w, --worktree [NAME]      Run in a git worktree (created if missing)
  --add-dir DIR              Additional working folder
  --no-session-persistence   Don't save the session

model:
  --model MODEL              Model ID or alias
  --fallback-model MODELS    Models to try in order while the main model is
                             overloaded
  --effort LEVEL             Reasoning effort of the model (low, medium, high,
                             xhigh, max)
  --thinking MODE            Thinking mode of the model (adaptive, enabled,
                             disabled)
  --thinking-display FORM    How thinking is returned (summarized, omitted)
  --max-thinking-tokens N    Limit thinking to N tokens; 0: off
  --betas NAMES              Beta features to request
  --max-turns N              Stop each turn after N model responses
  --max-budget-usd USD       Maximum cost of the session, including subagents
  --task-budget TOKENS       Token budget for the task, as stated to the model
  --autocompact TOKENS       Compact to fit a context window of this size

permissions:
  --permission-mode MODE     Permission mode (default, manual, acceptEdits,
                             plan, auto, dontAsk, bypassPermissions)
  --dangerously-skip-permissions
                             Same as --permission-mode bypassPermissions
  --allow-dangerously-skip-permissions
                             Allow switching to bypassPermissions mode later
  --allowedTools, --allowed-tools RULES
                             Rules that allow tool calls, such as "Bash(git
                             log:*),Read"
  --disallowedTools, --disallowed-tools RULES
                             Rules that deny tool calls
  --tools NAMES              Built-in tools to offer, such as Read,Bash; "" for
                             none
  --permission-prompt-tool WHO
                             Who approves: the host (stdio) or a tool
                             (mcp__SERVER__TOOL)
  --permission-prompts WHO   host: ask as usual; none: deny calls that need
                             approval (host, none)

system prompt:
  --system-prompt TEXT       Replace the system prompt
  --system-prompt-file FILE  Read the system prompt from a file
  --append-system-prompt TEXT
                             Append text to the system prompt
  --append-system-prompt-file FILE
                             Append a file to the system prompt
  --system-prompt-snapshot [SWITCH]
                             off: rebuild the system prompt in each run of a
                             session
  --exclude-dynamic-system-prompt-sections
                             No effect: the system prompt has no machine-
                             specific facts

settings and extensions:
  --settings JSON|FILE       Extra settings; only managed settings override them
  --managed-settings JSON|FILE
                             Restrictions that override all other settings (see
                             parentSettingsBehavior)
  --setting-sources NAMES    Settings files to read: user,project,local
  --bare                     Load no memory, hooks, servers, agents or settings,
                             except managed settings
  --safe-mode                Same as --bare
  --restricted               No commands, WebFetch, settings files, or changes
                             outside the workspace
  --disable-slash-commands   Treat lines that begin with / as prompts
  --mcp-config JSON|FILE     Add MCP servers
  --strict-mcp-config        Use only the servers from --mcp-config
  --plugin-dir DIR           Load and trust a plugin for this session
  --plugin-dir-no-mcp DIR    Like --plugin-dir, without the plugin's MCP servers
  --ide                      Connect to the editor that has this folder open
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
  --remote [URL]             Make this session available to viewers on a clew
                             server

output and hosts:
  --output-format FORMAT     Output format of --print; stream-json requires
                             --verbose (text, json, stream-json)
  --json-schema JSON|FILE    JSON Schema for the answer
  --verbose                  Show full tool output; required by stream-json
  --input-format FORMAT      stream-json: read JSON lines from standard input
                             (text, stream-json)
  --include-partial-messages
                             Include the streaming events of responses
  --replay-user-messages     Echo user messages to the output
  --include-hook-events      Include hook events in the output
  --forward-subagent-text    Include the text of subagents, not only their tool
                             calls
  --session-mirror           Send every transcript entry to the host
  --max-frame-bytes N        Maximum length of an output line in bytes (default:
                             1 MiB)
  --prompt-suggestions [SWITCH]
                             Send the host suggestions for the next prompt
  --await-initialize         Wait for the host's initialize request

other options:
  -h, --help                 Show this help; clew COMMAND --help shows a
                             command's
  -v, --version              Show the version
"""
# End of the generated part.


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code.

    If a command does not handle an error, print the error as one line on standard error.
    """
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
        # Keeps the interpreter from flushing the broken stream again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 0  # the reader has closed the pipe; this is not an error
        print(f"clew: {GONE if is_nowhere() else describe_error(error)}", file=sys.stderr)
        return 1
    return code


GONE = "the current folder no longer exists; change to an existing folder (cd) and start clew again"


def is_nowhere() -> bool:
    """Return whether the current folder was deleted, so that relative paths cannot be resolved."""
    from pathlib import Path

    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def give_streams() -> None:
    """Replace closed standard streams, and make output streams escape what they cannot encode.

    A closed input is replaced with an empty one, and output to a closed stream is discarded. As a
    result, a write never fails because of its text, and one to standard error never fails at all.
    """
    # Before the outputs: each stream gets the lowest free file descriptor, which must be its own.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nobody = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nobody, "w", encoding="utf-8"))
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    errors = sys.stderr
    if isinstance(errors, io.TextIOWrapper) and isinstance(
        getattr(errors.buffer, "raw", None), io.FileIO
    ):
        file = LossyFile(errors.fileno(), "wb", closefd=False)
        # The stream would close the descriptor when it is collected.
        file.replaces = errors
        kind = Words if errors.isatty() else io.TextIOWrapper
        how = errors.encoding, errors.errors
        sys.stderr = kind(io.BufferedWriter(file), *how, line_buffering=True)


class LossyFile(io.FileIO):
    """A file for messages. What cannot be written is discarded, because nothing could report it."""

    replaces: io.TextIOBase

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class Words(io.TextIOWrapper):
    """A terminal stream that writes text but no control sequences.

    Control sequences in text from a model, file, server or plugin are escaped, so that they cannot
    move the cursor, hide a line or set the title.
    """

    def write(self, text: str) -> int:
        from clew.fronts.render.rows import escape_controls

        return super().write(escape_controls(text.replace("\r\n", "\n")))


def only_words(name: str) -> None:
    """From now on, escape control sequences in a stream's output if the stream is a terminal."""
    stream = getattr(sys, name)
    if isinstance(stream, io.TextIOWrapper) and stream.isatty():
        how = stream.encoding, stream.errors
        setattr(sys, name, Words(stream.buffer, *how, line_buffering=True))


def dispatch(args: list[str]) -> int:
    first = args[0] if args else ""
    # Alone, these words mean the options. With other words they start a prompt.
    if first in ("-v", "--version") or args == ["version"]:
        print(f"clew {VERSION}")
        return 0
    if first in ("-h", "--help") or args == ["help"]:
        print(HELP, end="")
        return 0
    if first == "help" and (len(args) == 2 or (len(args) == 3 and args[1] in COMMANDS)):
        return helped(args[1:])
    if first in COMMANDS:
        if first not in ("attach", "demo"):  # these escape what they show, and ring the bell
            only_words("stdout")
        if first in ("acp", "mcp"):
            hide()
        return COMMANDS[first][0](args[1:])
    before_words = args[: args.index("--")] if "--" in args else args
    if "-h" in before_words or "--help" in before_words:
        return dispatch(["--help"])
    return talk(args)


def helped(words: list[str]) -> int:
    """Run `clew help WORD`, which prints the same as `clew WORD --help`.

    If WORD is the name of an option, such as `help` itself, print the general help.
    """
    if words[0] in COMMANDS:
        return dispatch([*words, "--help"])
    if words[0].lstrip("-") in ("help", "version", "h", "v"):
        return dispatch(["--help"])
    from clew.core.nearest import find_nearest

    near = find_nearest(words[0], COMMANDS)
    elsewhere = ELSEWHERE.get(words[0], 'run "clew --help" for a list')
    hint = f'did you mean "{near}"?' if near and words[0] not in ELSEWHERE else elsewhere
    print(f'clew: unknown command "{words[0]}" ({hint})', file=sys.stderr)
    return 2


def talk(args: list[str]) -> int:
    """Start a session: headless with `--print`, otherwise interactive."""
    if not args and can_draw():
        from clew.fronts.terminal.start import main

        hide()

        return main()
    from clew.core.messages.errors import CommandLineError
    from clew.session.flags import parse

    # Programs ask for the version with other options, to learn whether these are known.
    own = args[: args.index("--")] if "--" in args else args
    rest = [word for word in own if word not in ("-v", "--version")]
    try:
        if len(rest) < len(own):
            parse(rest)
            return dispatch(["--version"])
        misspelled(args)
        options = parse(args)
        if not (options.is_linear or options.remote is not None or is_at_terminal()):
            # Programs pipe a prompt into clew without --print. Line by line, each would be a prompt
            # of its own, and a command if it begins with an exclamation mark.
            from msgspec.structs import replace

            options = replace(options, is_print=True)
        if options.resume == "" and (options.is_print or options.is_linear or not can_draw()):
            from clew.fronts.terminal.session_picker import pick_session

            options = pick_session(options)
    except CommandLineError as error:
        print(f"clew: {error}", file=sys.stderr)
        # Programs that run clew as a host expect only exit codes 0 and 1.
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
    """Hide this process's environment, which contains API keys, from commands of the session."""
    from clew.system.process.hiding import hide

    hide()


def front(options: "Options") -> "Callable[[Options], int]":
    """Return the main function of the front end that fits the options and the terminal.

    Objects that are created while it is loaded live until exit, so the garbage collector does not
    have to examine them.
    """
    import gc

    gc.disable()
    try:
        if options.remote is not None and not is_at_terminal():
            from clew.fronts.remote.worker import main
        elif options.is_print:
            from clew.fronts.headless.run import main
        elif options.is_linear or not can_draw():
            from clew.fronts.line.linear import main
        else:
            from clew.fronts.terminal.start import main
    finally:
        gc.freeze()
        gc.enable()
    return main


def is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def can_draw() -> bool:
    """Return whether standard input and output are a terminal that can be drawn on."""
    return is_at_terminal() and os.environ.get("TERM", "dumb") not in ("", "dumb")


# A single word of at least this length is more likely a mistyped command than a prompt.
LONE_LETTERS = 6
# Options with the name of a command.
NAMED_ALIKE = frozenset({"--remote"})


def misspelled(args: list[str]) -> None:
    """Raise CommandLineError if the words look like a command rather than a prompt.

    A session would send the words to the model at once. They look like a command if they are a
    misspelled command, a single long word, or a command of similar programs, alone or with one more
    word (`auth status`).
    """
    if not args or args[0] in NAMED_ALIKE:
        return
    if args[0].startswith("-") and args[0].lstrip("-") not in COMMANDS:
        return
    from clew.core.messages.errors import CommandLineError
    from clew.core.nearest import find_nearest

    word = args[0]
    near = find_nearest(word, COMMANDS, cutoff=0.8)
    if not near and len(args) <= 3:
        near = next((command for command in COMMANDS if command in swaps(word)), None)
    is_short = len(args) <= 2 and is_name(args[-1].lstrip("-"))
    is_lone = len(args) == 1 and is_name(word) and len(word) >= LONE_LETTERS
    if is_short and (word in ELSEWHERE or is_lone):
        hint = f'did you mean "{near}"' if near else "run clew --help for a list"
        hint = ELSEWHERE.get(word, hint)
        prompt = f"to send it as a prompt: clew -- {' '.join(args)}"
        raise CommandLineError(f'unknown command "{word}" ({hint}; {prompt})')
    if near:
        raise CommandLineError(f'unknown command "{word}" (did you mean "{near}"?)')


def is_name(word: str) -> bool:
    return word.isascii() and word.islower() and word[0] != "-" and word.replace("-", "").isalpha()


def swaps(word: str) -> set[str]:
    """Return the words that differ from a word by one swap of neighboring letters."""
    return {
        word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        for i in range(len(word) - 1)
        if word[i] != word[i + 1]
    }
