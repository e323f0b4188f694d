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

# name -> (module, one line for the help). The module is imported when its command is called, and
# offers `main(argv: list[str]) -> int`.
COMMANDS: dict[str, tuple[str, str]] = {
    "acp": ("clew.fronts.editor.main", "serve an editor that speaks the Agent Client Protocol"),
    "completion": ("clew.completion", "words for the shell: bash, zsh, fish"),
    "config": ("clew.commands.config", "read, explain and set settings; trust folders"),
    "context": ("clew.commands.context", "show what fills the next request of a session"),
    "cost": ("clew.commands.cost", "show what sessions cost, by model, day, tool and more"),
    "demo": ("clew.testing.demo", "play a scripted conversation: no key, no network"),
    "doctor": ("clew.commands.doctor.checks", "say what is wrong with this setup, and what to do"),
    "hooks": ("clew.commands.hooks", "list hooks, and try what they would say"),
    "keys": ("clew.fronts.terminal.keys", "list what keys do, and check your own"),
    "login": ("clew.commands.login", "keep an API key in a file only you can read"),
    "logout": ("clew.commands.logout", "forget the key that login kept"),
    "mcp": ("clew.fronts.headless.mcp_word", "add, list, approve and log in to MCP servers"),
    "memory": ("clew.agent.context.explain", "show which memory files speak here, and why"),
    "permissions": ("clew.commands.permissions", "ask what may run, and why; edit the rules"),
    "plugin": ("clew.commands.plugins", "install, list, trust and remove plugins; marketplaces"),
    "sessions": (
        "clew.commands.sessions.commands",
        "list, search, check, repair and move sessions",
    ),
    "tasks": ("clew.commands.tasks", "list, show and stop what was kept beyond clew's end"),
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

HELP = """\
usage: clew [OPTION ...] [PROMPT]
       clew COMMAND [ARG ...]

A coding agent for the terminal whose conversation is a durable, checkable log.

commands:
{commands}

a session:
  PROMPT                     what to do first; without it, clew asks
  -p, --print                answer once on standard output and end
  --linear                   line by line, for screen readers; nothing is drawn
  --output-format FORMAT     of --print: text, json, or stream-json (with --verbose)
  -c, --continue             go on with the newest session of this folder
  -r, --resume [SESSION]     go on with a session: its id, title or file; else one of a list
  --fork-session             go on in a copy; the session stays as it is
  --resume-session-at UUID   go on behind this message; what came later is left
  --resume-drops-turn UUID   the same, only if nothing but this prompt's turn is left
  --session-mirror           say what is written to the transcript to the host too
  --session-id UUID          the id of the new session
  --model MODEL              a model's id or alias
  --fallback-model MODELS    asked in turn when the model cannot answer
  --permission-mode MODE     default, acceptEdits, plan, auto, dontAsk, bypassPermissions
  --dangerously-skip-permissions
                             the same as --permission-mode bypassPermissions
  --allow-dangerously-skip-permissions
                             let a host go over to bypassPermissions later
  --allowedTools RULES       rules that allow, as "Bash(git log:*),Read"
  --disallowedTools RULES    rules that deny
  --tools NAMES              the built-in tools there are, as Read,Bash; "" for none
  --add-dir DIR              a further folder to work in
  --system-prompt TEXT       instead of clew's own; --system-prompt-file FILE
  --append-system-prompt TEXT
                             after the system prompt; --append-system-prompt-file FILE
  --thinking HOW             adaptive, enabled or disabled
  --thinking-display WHAT    what is seen of it: summarized or omitted
  --max-thinking-tokens N    think with a ceiling; 0: not at all
  --effort LEVEL             low, medium, high, xhigh or max
  --betas NAMES              beta features to ask the service for
  --mcp-config JSON|FILE     MCP servers of this session
  --strict-mcp-config        use no MCP servers but those
  --settings JSON|FILE       settings that stand above the files'
  --managed-settings JSON|FILE
                             settings of the program that starts clew; they only restrict
  --setting-sources NAMES    which of user,project,local are read; empty: none of them
  -n, --name TITLE           the session's title
  --plugin-dir DIR           a plugin for this session alone; naming it trusts it
                             without its MCP servers: --plugin-dir-no-mcp DIR
  --agents JSON              kinds of agents, by name: description, prompt, tools ...
  --agent NAME               the session is itself an agent of this kind
  -w, --worktree [NAME]      work in a checkout of its own, made by git if it is not there
  --max-turns N              end after N answers of the model
  --json-schema JSON|FILE    of --print: the shape of the answer
  --max-budget-usd USD       end after the answer that spends as much
  --task-budget TOKENS       what the model is told it may spend on the task
  --autocompact TOKENS       keep the conversation within a window of so many tokens
  --no-session-persistence   write no transcript
  --system-prompt-snapshot SWITCH
                             off: make the system prompt anew in every run of a session
  --exclude-dynamic-system-prompt-sections
                             as it always is: no fact of this machine stands in it
  --bare                     only what the command line names: no settings, memory, hooks,
                             servers, agents or commands of files
  --disable-slash-commands   a line that begins with a slash is a prompt
  --init, --maintenance      first run the Setup hooks; --init-only: and nothing else
  --debug[=KINDS]            write down what happens, in a file of the session's; KINDS are
                             api, tools, hooks, session; --debug-file FILE, --debug-to-stderr

a program that talks to clew:
  --input-format FORMAT      stream-json: lines of JSON on standard input
  --verbose                  say more; stream-json needs it
  --include-partial-messages
                             every event of the model's stream too
  --replay-user-messages     say prompts back
  --include-hook-events      hooks as they run
  --forward-subagent-text    what agents say, not only the tools they use
  --permission-prompt-tool WHO
                             who is asked for permission: stdio is the host, mcp__SERVER__TOOL
                             a tool of a server
  --permission-prompts WHO   none: what somebody would be asked for is denied
  --prompt-suggestions [SWITCH]
                             say behind a turn what may be asked next
  --await-initialize         begin nothing before the host has introduced itself

options:
  -h, --help                 show this help; `clew COMMAND --help` shows a command's own
  -v, --version              show the version
"""


def help_text() -> str:
    """Written out, not made: building it would cost more than everything else `--help` does."""
    rows = [f"  {name:<12} {line}" for name, (_, line) in sorted(COMMANDS.items())]
    return HELP.format(commands="\n".join(rows))


def main(argv: list[str] | None = None) -> int:
    """The door: whatever a command could not do is one line on standard error, and an exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    give_streams()
    try:
        code = dispatch(args)
        sys.stdout.flush()
    except (OSError, ExceptionGroup) as raised:
        from clew.core.messages.errors import first_of, in_words

        error = first_of(raised)
        if not isinstance(error, OSError):
            raise
        # The interpreter must not try once more to flush what could not be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 0  # whoever read us has seen enough
        print(f"clew: {GONE if is_nowhere() else in_words(error)}", file=sys.stderr)
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
        from clew.fronts.render.rows import visible

        return super().write(visible(text.replace("\r\n", "\n")))


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
        print(help_text(), end="")
        return 0
    if first == "help" and (len(args) == 2 or (len(args) == 3 and args[1] in COMMANDS)):
        return helped(args[1:])
    if first in COMMANDS:
        from importlib import import_module

        if first != "demo":  # it draws
            only_words("stdout")
        if first in ("acp", "mcp"):
            hide()
        code: int = import_module(COMMANDS[first][0]).main(args[1:])
        return code
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
            from clew.fronts.terminal.picking import picked

            options = picked(options)
    except CommandLineError as error:
        print(f"clew: {error}", file=sys.stderr)
        # Programs that talk to clew know two exit codes.
        is_host = any(word.endswith("stream-json") for word in args)
        return 1 if is_host else 2
    hide()
    if options.is_print:
        only_words("stdout")
    if options.worktree is not None:
        from clew.session.worktree import within

        return within(options, front(options))
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
