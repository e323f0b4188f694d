"""The command line of a session: its flags, their spellings (`--flag value` and `--flag=value`), what is
wrong with them. Must never act on one.
"""

import argparse
import json
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

from clew.agent.options import LEAST_THINKING, LEAST_WINDOW, SOURCES, Options
from clew.agent.tools.json_schema import fault
from clew.core.messages.errors import CommandLineError, in_words
from clew.permissions.request import Mode
from clew.providers.base import Adaptive, Off, Thinking, ThinkingBudget
from clew.record.transcript.light import is_uuid
from clew.system.config.layers import Scope

DEBUG_KINDS = ("api", "tools", "hooks", "session")

SWITCH = ("true", "1", "yes", "on", "false", "0", "no", "off")

MODES: dict[str, Mode] = {
    "default": "default",
    "manual": "default",
    "acceptEdits": "acceptEdits",
    "plan": "plan",
    "auto": "auto",
    "dontAsk": "dontAsk",
    "bypassPermissions": "bypassPermissions",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(f"{message} (clew --help lists the options)")


def rules_of(texts: list[str] | None) -> tuple[str, ...]:
    """Permission rules out of arguments: split at commas and spaces outside parentheses."""
    rules: list[str] = []
    for text in texts or ():
        rule, depth = "", 0
        for character in text:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth <= 0 and character in ", \t\n":
                rules.append(rule)
                rule = ""
            else:
                rule += character
        rules.append(rule)
    return tuple(rule for rule in rules if rule)


RULES_FLAGS = frozenset(
    {"--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools"}
)


def each_with_its_flag(argv: list[str]) -> list[str]:
    """`--allowedTools Bash Edit` as the flag with each of its rules; a word that is none is the prompt."""
    if not RULES_FLAGS.intersection(word.partition("=")[0] for word in argv):
        return argv
    from clew.permissions.modes import names_tool

    found: list[str] = []
    flag = ""
    words = iter(argv)
    for word in words:
        name, has_value, _ = word.partition("=")
        if word == "--":
            return [*found, word, *words]
        if name in RULES_FLAGS:
            flag = name
            found += [word] if has_value else [word, *islice(words, 1)]
        elif flag and names_tool(word):
            found += [flag, word]
        else:
            flag = ""
            found.append(word)
    return found


def dollars(text: str | None) -> Decimal | None:
    """A budget out of an argument; more than nothing, and not without end."""
    if text is None:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise CommandLineError(f"--max-budget-usd {text}: expected an amount of dollars, as 2.50")
    return amount


def schema_of(text: str | None) -> dict[str, Any] | None:
    """The shape of an answer: a JSON Schema of an object, or a file that holds one."""
    if text is None:
        return None
    try:
        written = text if text.lstrip().startswith("{") else Path(text).read_text("utf-8")
        schema = json.loads(written)
    except (OSError, ValueError) as error:
        raise CommandLineError(
            f"--json-schema: neither JSON nor a file of it: {in_words(error)}"
        ) from None
    why = fault(schema)
    if why:
        raise CommandLineError(f"--json-schema: {why}")
    found: dict[str, Any] = schema
    return found


def agents_of(text: str | None) -> dict[str, Any] | None:
    """Kinds of agents out of an argument: an object of objects."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CommandLineError(f"--agents: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandLineError("--agents: expected an object: name to definition")
    return found


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Names out of one argument, between commas or spaces; None if it was not given."""
    return None if text is None else tuple(text.replace(",", " ").split())


def text_of(text: str | None, file: str | None, flag: str) -> str | None:
    """A text that may be given itself or as the name of a file."""
    if file is None:
        return text
    if text is not None:
        raise CommandLineError(f"{flag} and {flag}-file say the same thing twice; give one")
    try:
        return Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise CommandLineError(f"{flag}-file {file}: {why}") from None


def thinking_of(given: argparse.Namespace) -> Thinking | None:
    """How the model thinks, out of three flags that overlap."""
    tokens, display = given.max_thinking_tokens, given.thinking_display
    if tokens is not None and tokens < 0:
        raise CommandLineError(f"--max-thinking-tokens {tokens}: 0 or more")
    if given.thinking == "disabled" or (tokens == 0 and given.thinking is None):
        return Off()
    if tokens and given.thinking != "adaptive":
        return ThinkingBudget(tokens=max(tokens, LEAST_THINKING), display=display)
    if given.thinking is not None or display is not None:
        return Adaptive(display=display)
    return None


def sources_of(text: str | None) -> tuple[Scope, ...] | None:
    """The kinds of settings files to read; None: every kind."""
    names = names_of(text)
    for name in names or ():
        if name not in SOURCES:
            raise CommandLineError(f"--setting-sources {name}: there are {', '.join(SOURCES)}")
    return None if names is None else tuple(scope for scope in SOURCES if scope in names)


def is_on(word: str | None) -> bool:
    return word in SWITCH[:4]


def setup_of(given: argparse.Namespace) -> Literal["", "init", "maintenance"]:
    if given.maintenance:
        return "maintenance"
    return "init" if given.init or given.init_only else ""


def debug_of(given: argparse.Namespace) -> str | None:
    """Where what happens is written down; None: nowhere."""
    for kind in names_of(given.debug) or ():
        if kind not in DEBUG_KINDS:
            raise CommandLineError(f"--debug={kind}: there are {', '.join(DEBUG_KINDS)}")
    if given.debug_to_stderr:
        return "-"
    if given.debug_file:
        return str(given.debug_file)
    return None if given.debug is None else ""


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="clew", allow_abbrev=False, add_help=False, usage="clew [OPTION ...] [PROMPT]"
    )
    add = made.add_argument
    add("prompt", nargs="*", metavar="PROMPT", help="what to do; without it, clew asks")
    add("-p", "--print", action="store_true", help="answer once on standard output and end")
    add("--linear", action="store_true", help="line by line, nothing drawn")
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        default="text",
        help="of --print; stream-json needs --verbose",
    )
    add(
        "--input-format",
        choices=("text", "stream-json"),
        default="text",
        help="stream-json: a host talks to clew in lines of JSON",
    )
    add("--verbose", action="store_true", help="say more; what stream-json always does")
    add(
        "--include-partial-messages",
        action="store_true",
        help="stream-json: every event of the model's stream too",
    )
    add("--replay-user-messages", action="store_true", help="stream-json: say prompts back")
    add("--include-hook-events", action="store_true", help="stream-json: hooks as they run")
    add(
        "--permission-prompt-tool",
        metavar="WHO",
        help="who is asked for permission: stdio is the host",
    )
    add(
        "-c",
        "--continue",
        dest="continues",
        action="store_true",
        help="go on with the newest session of this folder",
    )
    # Without a value: one of the newest, to be picked.
    add(
        "-r", "--resume", nargs="?", const="", metavar="SESSION",
        help="go on with a session: its id, title or file",
    )  # fmt: skip
    add("--fork-session", action="store_true", help="go on in a copy; the session stays as it is")
    add(
        "--resume-session-at",
        metavar="UUID",
        help="go on behind this message; what came later is left behind",
    )
    add(
        "--resume-drops-turn",
        metavar="UUID",
        help="with --resume-session-at: only if all that is left behind is this prompt's turn",
    )
    add(
        "--session-mirror",
        action="store_true",
        help="stream-json: what is written to the transcript is said to the host too",
    )
    add("--session-id", metavar="UUID", help="the id of the new session")
    add("--model", metavar="MODEL", help="a model's id or alias")
    add("--fallback-model", metavar="MODELS", help="asked in turn when the model cannot answer")
    add("--permission-mode", choices=tuple(MODES), metavar="MODE", help=", ".join(MODES))
    add(
        "--dangerously-skip-permissions",
        action="store_true",
        help="the same as --permission-mode bypassPermissions",
    )
    add(
        "--allowedTools",
        "--allowed-tools",
        action="append",
        metavar="RULES",
        help="rules that allow, as Bash(git log:*),Read",
    )
    add(
        "--disallowedTools",
        "--disallowed-tools",
        action="append",
        metavar="RULES",
        help="rules that deny",
    )
    add("--add-dir", action="append", metavar="DIR", help="a further folder to work in")
    add(
        "--allow-dangerously-skip-permissions",
        action="store_true",
        help="let a host go over to bypassPermissions later",
    )
    add("--tools", metavar="NAMES", help='the built-in tools there are, as Read,Bash; "" for none')
    add("--system-prompt", metavar="TEXT", help="instead of clew's own")
    add("--system-prompt-file", metavar="FILE", help="the same, from a file")
    add("--append-system-prompt", metavar="TEXT", help="after the system prompt")
    add("--append-system-prompt-file", metavar="FILE", help="the same, from a file")
    add("--thinking", choices=("adaptive", "enabled", "disabled"), help="how the model thinks")
    add("--thinking-display", choices=("summarized", "omitted"), help="what is seen of it")
    add("--max-thinking-tokens", type=int, metavar="N", help="think with a ceiling; 0: not at all")
    add("--effort", choices=("low", "medium", "high", "xhigh", "max"), help="of the model")
    add("--betas", metavar="NAMES", help="beta features to ask the service for")
    add(
        "--setting-sources",
        metavar="NAMES",
        help="which of user,project,local are read; empty: none of them",
    )
    add("-n", "--name", metavar="TITLE", help="the session's title")
    add("--settings", metavar="JSON|FILE", help="settings that stand above the files'")
    add(
        "--managed-settings",
        metavar="JSON|FILE",
        help="what the program that starts clew forbids: settings that restrict, as an administrator's",
    )
    add("--mcp-config", action="append", metavar="JSON|FILE", help="MCP servers of this session")
    add("--strict-mcp-config", action="store_true", help="use no MCP servers but those")
    add("--plugin-dir", action="append", metavar="DIR", help="a plugin for this session alone")
    add(
        "--plugin-dir-no-mcp",
        action="append",
        metavar="DIR",
        help="the same, without its MCP servers",
    )
    add("--agent", metavar="NAME", help="the session is itself an agent of this kind")
    add("--agents", metavar="JSON", help="kinds of agents, by name: description, prompt, tools ...")
    add(
        "--forward-subagent-text",
        action="store_true",
        help="stream-json: what agents say, not only the tools they use",
    )
    add(
        "-w", "--worktree", nargs="?", const="", metavar="NAME",
        help="work in a checkout of its own, made by git if it is not there",
    )  # fmt: skip
    add("--task-budget", type=int, metavar="TOKENS", help="what the model is told it may spend")
    add(
        "--permission-prompts",
        choices=("host", "none"),
        default="host",
        help="of --print: none denies what somebody would have to be asked for",
    )
    add(
        "--prompt-suggestions",
        nargs="?",
        const="true",
        choices=SWITCH,
        metavar="SWITCH",
        help="stream-json: say behind a turn what may be asked next",
    )
    add(
        "--system-prompt-snapshot",
        nargs="?",
        const="true",
        choices=SWITCH,
        metavar="SWITCH",
        help="off: make the system prompt anew in every run of a session",
    )
    add(
        "--exclude-dynamic-system-prompt-sections",
        action="store_true",
        help="as it always is: no fact of this machine stands in the system prompt",
    )
    add(
        "--await-initialize",
        action="store_true",
        help="stream-json: begin nothing before the host has introduced itself",
    )
    add("--max-turns", type=int, metavar="N", help="end after N answers of the model")
    add("--json-schema", metavar="JSON|FILE", help="of --print: the shape of the answer")
    add("--max-budget-usd", metavar="USD", help="end after the answer that spends as much")
    add("--bare", action="store_true", help="only what the command line names; no files' settings")
    add("--disable-slash-commands", action="store_true", help="a line with a slash is a prompt")
    add("--init", action="store_true", help="first run the hooks that prepare the folder")
    add("--init-only", action="store_true", help="run those and nothing else")
    add("--maintenance", action="store_true", help="first run the hooks that look after it")
    add("--debug", metavar="KINDS", help="write down what happens, in a file of the session's")
    add("--debug-file", metavar="FILE", help="the same, into this file")
    add("--debug-to-stderr", action="store_true", help="the same, on standard error")
    add(
        "--autocompact",
        type=int,
        metavar="TOKENS",
        help="keep the conversation within a window of so many tokens",
    )
    add("--no-session-persistence", action="store_true", help="write no transcript")
    return made  # fmt: skip


def parse(argv: list[str]) -> Options:
    """The options in `argv`; raises `CommandLineError` with the nearest known spelling."""
    made = parser()
    # Alone it takes nothing: what follows it is another option, or the prompt.
    argv = ["--debug=" if word in ("-d", "--debug") else word for word in argv]
    given, unknown = made.parse_known_intermixed_args(each_with_its_flag(argv))
    if unknown:
        raise CommandLineError(_unknown(unknown[0], made))
    if given.max_turns is not None and given.max_turns < 1:
        raise CommandLineError(f"--max-turns {given.max_turns}: at least 1")
    if given.task_budget is not None and given.task_budget < 1:
        raise CommandLineError(f"--task-budget {given.task_budget}: at least 1 token")
    if given.permission_prompts == "none" and not (given.print or given.output_format != "text"):
        raise CommandLineError("--permission-prompts none needs --print")
    if given.autocompact is not None and given.autocompact < LEAST_WINDOW:
        raise CommandLineError(
            f"--autocompact {given.autocompact}: at least {LEAST_WINDOW:,} tokens"
        )
    if given.continues and given.resume is not None:
        raise CommandLineError("--continue and --resume name two different sessions; give one")
    if given.fork_session and not (given.continues or given.resume is not None):
        raise CommandLineError("--fork-session needs a session to copy: --continue or --resume")
    if given.resume_session_at and not (given.continues or given.resume):
        raise CommandLineError("--resume-session-at needs a session: --continue or --resume")
    if given.resume_drops_turn and not given.resume_session_at:
        raise CommandLineError("--resume-drops-turn needs --resume-session-at")
    if given.session_mirror and given.output_format != "stream-json":
        raise CommandLineError("--session-mirror needs --output-format stream-json")
    if given.session_mirror and given.no_session_persistence:
        raise CommandLineError("--session-mirror and --no-session-persistence exclude each other")
    if given.session_id is not None and not is_uuid(given.session_id):
        raise CommandLineError(f"--session-id {given.session_id}: expected a UUID")
    if given.output_format == "stream-json" and not given.verbose:
        raise CommandLineError("--output-format stream-json needs --verbose")
    if given.input_format == "stream-json" and given.output_format != "stream-json":
        raise CommandLineError("--input-format stream-json needs --output-format stream-json")
    mode = "bypassPermissions" if given.dangerously_skip_permissions else given.permission_mode
    return Options(
        prompt=" ".join(word for word in given.prompt if word),
        # Who asks for a stream of messages is a program.
        is_print=given.print or given.init_only or given.output_format == "stream-json",
        is_linear=given.linear,
        output_format=given.output_format,
        input_format=given.input_format,
        verbose=given.verbose,
        partial=given.include_partial_messages,
        replays=given.replay_user_messages,
        hook_events=given.include_hook_events,
        asks=None if given.permission_prompts == "none" else given.permission_prompt_tool,
        continues=given.continues,
        resume=given.resume,
        session_id=given.session_id and given.session_id.lower(),
        fork=given.fork_session,
        resume_at=given.resume_session_at,
        drops_turn=given.resume_drops_turn,
        mirrors=given.session_mirror,
        model=given.model,
        fallback_models=tuple(filter(None, (given.fallback_model or "").split(","))),
        mode=None if mode is None else MODES[mode],
        allow=rules_of(given.allowedTools),
        deny=rules_of(given.disallowedTools),
        directories=tuple(given.add_dir or ()),
        may_bypass=given.allow_dangerously_skip_permissions or mode == "bypassPermissions",
        system_prompt=text_of(given.system_prompt, given.system_prompt_file, "--system-prompt"),
        append_system_prompt=text_of(
            given.append_system_prompt,
            given.append_system_prompt_file,
            "--append-system-prompt",
        ),
        thinking=thinking_of(given),
        effort=given.effort,
        betas=names_of(given.betas) or (),
        tools=None if given.tools in (None, "default") else names_of(given.tools),
        sources=() if given.bare else sources_of(given.setting_sources),
        name=given.name,
        settings=given.settings,
        managed=given.managed_settings,
        mcp_config=tuple(given.mcp_config or ()),
        strict_mcp_config=given.strict_mcp_config or given.bare,
        max_turns=given.max_turns,
        max_budget_usd=dollars(given.max_budget_usd),
        json_schema=schema_of(given.json_schema),
        persists=not given.no_session_persistence,
        autocompact=given.autocompact,
        agents=agents_of(given.agents),
        agent=given.agent,
        worktree=None if given.worktree is None else {"worktreeName": given.worktree},
        task_budget=given.task_budget,
        suggests=is_on(given.prompt_suggestions),
        keeps_prompt=given.system_prompt_snapshot is None or is_on(given.system_prompt_snapshot),
        awaits_host=given.await_initialize,
        plugin_folders=(*(given.plugin_dir or ()), *(given.plugin_dir_no_mcp or ())),
        plugins_without_servers=tuple(given.plugin_dir_no_mcp or ()),
        is_bare=given.bare,
        has_commands=not given.disable_slash_commands,
        setup=setup_of(given),
        only_sets_up=given.init_only,
        debug=debug_of(given),
        debug_kinds=names_of(given.debug) or (),
        agent_text=given.forward_subagent_text,
    )


def _unknown(word: str, made: argparse.ArgumentParser) -> str:
    flag = word.partition("=")[0]
    known = [spelling for action in made._actions for spelling in action.option_strings]
    known += ["--help", "--version"]
    near = get_close_matches(flag, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown option {flag}{hint} (clew --help lists the options)"
