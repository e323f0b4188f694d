"""The command line of a session, as one frozen value: what every front can be told at its start.

Owns the flags and their spellings (`--flag value` and `--flag=value`). Must never act on one.
"""

import argparse
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import NoReturn

from msgspec import Struct

from clew.messages.errors import CommandLineError
from clew.permissions.request import Mode
from clew.transcript.light import is_uuid

MODES: dict[str, Mode] = {
    "default": "default",
    "manual": "default",
    "acceptEdits": "acceptEdits",
    "plan": "plan",
    "auto": "auto",
    "dontAsk": "dontAsk",
    "bypassPermissions": "bypassPermissions",
}


class Options(Struct, frozen=True, kw_only=True):
    """What a person or program asked of this run; None leaves it to the settings."""

    prompt: str = ""
    is_print: bool = False
    output_format: str = "text"
    continues: bool = False
    resume: str | None = None
    session_id: str | None = None
    fork: bool = False
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    mode: Mode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    settings: str | None = None
    max_turns: int | None = None
    max_budget_usd: Decimal | None = None
    persists: bool = True


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


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="clew", allow_abbrev=False, add_help=False, usage="clew [OPTION ...] [PROMPT]"
    )
    add = made.add_argument
    add("prompt", nargs="*", metavar="PROMPT", help="what to do; without it, clew asks")
    add("-p", "--print", action="store_true", help="answer once on standard output and end")
    add("--output-format", choices=("text", "json"), default="text", help="of --print")
    add(
        "-c",
        "--continue",
        dest="continues",
        action="store_true",
        help="go on with the newest session of this folder",
    )
    add("-r", "--resume", metavar="SESSION", help="go on with a session: its id, title or file")
    add("--fork-session", action="store_true", help="go on in a copy; the session stays as it is")
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
    add("--system-prompt", metavar="TEXT", help="instead of clew's own")
    add("--append-system-prompt", metavar="TEXT", help="after the system prompt")
    add("--settings", metavar="JSON|FILE", help="settings that stand above the files'")
    add("--max-turns", type=int, metavar="N", help="end after N answers of the model")
    add("--max-budget-usd", metavar="USD", help="end after the answer that spends as much")
    add("--no-session-persistence", action="store_true", help="write no transcript")
    return made  # fmt: skip


def parse(argv: list[str]) -> Options:
    """The options in `argv`; raises `CommandLineError` with the nearest known spelling."""
    made = parser()
    given, unknown = made.parse_known_intermixed_args(argv)
    if unknown:
        raise CommandLineError(_unknown(unknown[0], made))
    if given.max_turns is not None and given.max_turns < 1:
        raise CommandLineError(f"--max-turns {given.max_turns}: at least 1")
    if given.continues and given.resume:
        raise CommandLineError("--continue and --resume name two different sessions; give one")
    if given.fork_session and not (given.continues or given.resume):
        raise CommandLineError("--fork-session needs a session to copy: --continue or --resume")
    if given.session_id is not None and not is_uuid(given.session_id):
        raise CommandLineError(f"--session-id {given.session_id}: expected a UUID")
    mode = "bypassPermissions" if given.dangerously_skip_permissions else given.permission_mode
    return Options(
        prompt=" ".join(word for word in given.prompt if word),
        is_print=given.print,
        output_format=given.output_format,
        continues=given.continues,
        resume=given.resume,
        session_id=given.session_id,
        fork=given.fork_session,
        model=given.model,
        fallback_models=tuple(filter(None, (given.fallback_model or "").split(","))),
        mode=None if mode is None else MODES[mode],
        allow=rules_of(given.allowedTools),
        deny=rules_of(given.disallowedTools),
        directories=tuple(given.add_dir or ()),
        system_prompt=given.system_prompt,
        append_system_prompt=given.append_system_prompt,
        settings=given.settings,
        max_turns=given.max_turns,
        max_budget_usd=dollars(given.max_budget_usd),
        persists=not given.no_session_persistence,
    )


def _unknown(word: str, made: argparse.ArgumentParser) -> str:
    flag = word.partition("=")[0]
    known = [spelling for action in made._actions for spelling in action.option_strings]
    known += ["--help", "--version"]
    near = get_close_matches(flag, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown option {flag}{hint} (clew --help lists the options)"
