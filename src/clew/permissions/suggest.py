"""The rules that "always allow" offers. They match similar calls, not only the exact line.

Owns two tables: the programs whose second word selects what they do, and the programs for which no
rule is offered, because a rule for the program's name would allow anything.
"""

import re

from msgspec import Struct

from clew.core.json_object import Json
from clew.permissions.decision import ORDER, Decision, Finding
from clew.permissions.files import OUTSIDE
from clew.permissions.grammar import Unread
from clew.permissions.reading import read_once
from clew.permissions.readonly import changes_meaning, exceeds_reading, risky_variables
from clew.permissions.request import (
    MCP_PREFIX,
    Mode,
    PermissionRequest,
    domain_of,
    resolve_tool_name,
    subject_of,
    tool_of,
)
from clew.permissions.shell import Simple
from clew.permissions.updates import (
    Destination,
    ModeUpdate,
    RuleSpelled,
    RulesUpdate,
    Update,
    make_rule_update,
)
from clew.permissions.wrappers import SHELLS, WRAPPERS, get_basename

MAX_RULES = 5

# Programs whose second word selects what they do. With RUNNERS, the third word does.
SUBCOMMANDS = frozenset({
    "git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "docker", "kubectl", "uv", "pip", "pip3",
    "poetry", "gh", "terraform", "helm", "make", "just", "brew", "systemctl", "rustup", "dotnet",
    "mvn", "gradle", "rails", "composer", "bundle", "conda", "hatch", "tox", "nox", "deno",
})  # fmt: skip
RUNNERS = frozenset({"npm run", "pnpm run", "yarn run", "bun run", "uv run", "poetry run"})

# A rule `name *` for one of these would allow any arguments, and so almost anything.
NEVER_BY_NAME = (
    SHELLS
    | frozenset(WRAPPERS)
    | frozenset(
        [
            "python",
            "python3",
            "node",
            "ruby",
            "perl",
            "php",
            "lua",
            "deno",
            "eval",
            "source",
            ".",
            "trap",
            "ssh",
            "su",
            "rm",
            "rmdir",
            "mv",
            "dd",
            "mkfs",
            "chmod",
            "chown",
            "curl",
            "wget",
            "nc",
            "kill",
            "pkill",
            "npx",
            "bunx",
            "uvx",
            "docker",
            "kubectl",
            "find",
            "fd",
            "awk",
            "sed",
            "xargs",
            "tee",
            "git",
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "cargo",
            "uv",
            "pip",
            "gh",
            "sudo",
            "make",
            "crontab",
            "at",
        ]
    )
)

# Without arguments, these programs run whatever they read from their input.
READERS = (
    SHELLS
    | frozenset(WRAPPERS)
    | frozenset(["python", "python3", "node", "ruby", "perl", "php", "lua", "deno", "bun", "xargs"])
)

EDITS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*(?::[a-z0-9-]+)*")
MAX_EXACT = 80


def suggest_rules(request: PermissionRequest, decision: Decision) -> list[str]:
    """Return at most five rules that would have allowed the parts of a call that need approval."""
    left = strict(decision)
    if left and all(f.is_of_line for f in left):
        return exactly(subject_of(request) or "")
    findings = [f for f in decision.findings if ORDER[f.verdict] > 0 and f.nature == "base"]
    if not findings or any(f.verdict == "deny" or f.nature != "base" for f in left):
        return []
    name = resolve_tool_name(request.tool)
    match tool_of(name).family:
        case "shell":
            return for_commands(request, {f.subject for f in findings})
        case "fetch":
            domain = domain_of(subject_of(request) or "")
            return [f"WebFetch(domain:{domain})"] if domain else []
        case "read":
            return list(dict.fromkeys(f"Read({folder_of(f.subject)})" for f in findings))
        case "skill":
            return [f"Skill({f.subject})" for f in findings]
        case _:
            return [name] if name.startswith(MCP_PREFIX) or name == "WebSearch" else []


def make_suggestions(request: PermissionRequest, decision: Decision) -> list[Json]:
    """Return permission updates that hosts and hooks can apply.

    With them, the call would have been allowed.
    """
    if resolve_tool_name(request.tool) in EDITS:
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rules = suggest_rules(request, decision)
    return [make_rule_update(rules, "localSettings")] if rules else []


def strict(decision: Decision) -> list[Finding]:
    return [f for f in decision.findings if ORDER[f.verdict] > 0]


def for_commands(request: PermissionRequest, texts: set[str]) -> list[str]:
    line = subject_of(request) or ""
    reading = read_once(request.line, line)
    if isinstance(reading.strict, Unread):
        return exactly(line)
    rules: list[str] = []
    left = set(texts)
    for part in reading.parts.parts:
        command = part.command
        if command.text in texts:
            left.discard(command.text)
            rule = for_command(command)
            if rule is None:
                return []
            # A rule for a program that reads does not allow the program to do more, to run in
            # another folder, or to use other variables.
            if is_refused(command):
                return exactly(line)
            # The rule also covers the files that the command names.
            left -= {word.raw for word in command.words}
            rules.append(rule)
    # Only a rule for the entire line covers what the shell itself opens or sets.
    return exactly(line) if left else list(dict.fromkeys(rules))[:MAX_RULES]


def is_refused(command: Simple) -> bool:
    """Return whether a command would need approval even if a rule allowed its name."""
    return (
        exceeds_reading(command)
        or get_basename(command.words[0]) == "xargs"
        or bool(risky_variables(command))
    )


def exactly(line: str) -> list[str]:
    """Return a rule for exactly this line, or no rule if the line is too long or unsuitable.

    No other kind of rule allows a line outside the command grammar.
    """
    if len(line) > MAX_EXACT or "\n" in line or "*" in line:
        return []
    return [f"Bash({line})"]


def for_command(command: Simple) -> str | None:
    """Return a rule for a command, based on its name and subcommand, or None if none is offered."""
    if command.words[0].dynamic or any(changes_meaning(a.name) for a in command.assignments):
        return None
    alone = all(word.text.startswith("-") for word in command.words[1:])
    if alone and get_basename(command.words[0]) in READERS:
        return None
    head = prefix(command)
    if head is not None:
        return f"Bash({head} *)"
    unknown = any(word.dynamic for word in command.words)
    if unknown or len(command.text) > MAX_EXACT or "\n" in command.text or "*" in command.text:
        return None
    return f"Bash({command.text})"


def prefix(command: Simple) -> str | None:
    words = [word.text for word in command.words if not word.dynamic]
    name = words[0]
    if get_basename(command.words[0]) in NEVER_BY_NAME - SUBCOMMANDS or not re.fullmatch(
        r"[\w./@+-]+", name
    ):
        return None
    if name not in SUBCOMMANDS:
        return name
    if len(words) < 2 or not SUBCOMMAND.fullmatch(words[1]):
        return None
    two = f"{name} {words[1]}"
    if two in RUNNERS:
        return f"{two} {words[2]}" if len(words) > 2 and SUBCOMMAND.fullmatch(words[2]) else None
    return two


def folder_of(path: str) -> str:
    """Return a pattern for everything in the folder that contains a file."""
    folder = path.rpartition("/")[0]
    if path.startswith("/"):
        return f"/{folder}/**"
    return f"{folder}/**" if folder else path


# The user's answers other than yes and no: an approval that also applies later, as an update of
# the rules. No I/O.


class LastingAnswer(Struct, frozen=True, kw_only=True):
    """An answer that also applies to later calls.

    `words` is the text after "Yes, and". `after` replaces it if the previous answer is shown above
    this one. `compact` is the text after "Yes," on a small screen. `is_kept` means that the answer
    is stored in a settings file.
    """

    words: str
    after: str = ""
    compact: str
    update: Update
    is_kept: bool = False


def list_lasting_answers(
    request: PermissionRequest, decision: Decision, mode: Mode
) -> tuple[LastingAnswer, ...]:
    """Return the lasting answers to offer for a decision.

    The result is empty if the user must approve every such call, because of a protected path or an
    ask rule.
    """
    rules = suggest_rules(request, decision)
    if rules:
        listed = ", ".join(rules)
        those = "that rule" if len(rules) == 1 else "those rules"
        return (
            LastingAnswer(
                words=f"don't ask again this session for {listed}",
                compact=f"this session: {listed}",
                update=allowing(rules, "session"),
            ),
            LastingAnswer(
                words=f"always allow {listed} in this project",
                after=f"save {those} for this project",
                compact=f"always: {listed}",
                update=allowing(rules, "localSettings"),
                is_kept=True,
            ),
        )
    edits = tool_of(request.tool).family == "edit" and mode == "default"
    inside = all(f.nature == "base" and f.reason != OUTSIDE for f in strict(decision))
    if edits and inside:
        update = ModeUpdate(type="setMode", mode="acceptEdits", destination="session")
        return (
            LastingAnswer(
                words="accept all edits this session",
                compact="and accept edits this session",
                update=update,
            ),
        )
    return ()


def allowing(rules: list[str], destination: Destination) -> RulesUpdate:
    return RulesUpdate(
        type="addRules",
        rules=tuple(RuleSpelled.of(rule) for rule in rules),
        behavior="allow",
        destination=destination,
    )
