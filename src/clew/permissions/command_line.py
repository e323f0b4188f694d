"""Judge a command line: every command in it, every file it names, every variable it sets.

Owns how rules apply to commands. A line is read twice. The command grammar decides whether
anything is allowed; the syntax tree finds what deny and ask rules name in any line. Where the two
readings differ, the user is asked. A restraining rule is compared with every spelling of a command
(as written, without quotes, by the program's base name, without git's leading options). An allow
rule is compared only with the spelling that states what runs.
"""

import re

from msgspec import structs

from clew.permissions.decision import (
    BEYOND_READING,
    NO_RULE,
    OTHER_REPOSITORY,
    Effect,
    Finding,
)
from clew.permissions.files import (
    INTERPRETERS,
    NAMES,
    TAKES_ALL,
    Bench,
    judge_use,
    list_uses,
    reaches_otherwise,
)
from clew.permissions.git import normalize_git, split_git
from clew.permissions.git_contents import shows_held
from clew.permissions.grammar import Unread, is_same_reading
from clew.permissions.index import CommandEntry
from clew.permissions.patterns import segments_meet
from clew.permissions.programs import ROWS
from clew.permissions.protected import in_workspace, is_critical
from clew.permissions.reading import CommandLine
from clew.permissions.readonly import (
    SHORT_LIST,
    bare_name,
    changes_meaning,
    exceeds_reading,
    is_harmless,
    is_reader,
    only_reads,
    risky_variables,
)
from clew.permissions.request import ResolvedPath
from clew.permissions.rules import Behavior, PermissionRule
from clew.permissions.shell import Assignment, ShellProblem, Simple, join_words
from clew.permissions.uses import TEXT_ONLY, Use, find_redirect_uses, resolve_word
from clew.permissions.words import Word
from clew.permissions.wrappers import CommandPart, Everything, get_basename, read_env_assignments

# The commands that acceptEdits mode runs in the workspace without asking, with the options they may
# have.
EDITING: dict[str, frozenset[str]] = {
    "mkdir": frozenset({"-p", "-v", "-pv", "--parents"}),
    "touch": frozenset({"-c", "-a", "-m"}),
    "cp": frozenset({"-p", "-f", "-v", "-n", "-i"}),
    "mv": frozenset({"-f", "-v", "-n", "-i", "-u"}),
}
# The clew subcommands that change what may run, and the session options that loosen its rules.
OWN_CHANGES = frozenset(
    {("config", word) for word in ("set", "unset", "trust", "untrust")}
    | {("permissions", word) for word in ("add", "remove")}
    | {
        ("mcp", word)
        for word in ("add", "add-json", "approve", "deny", "login", "logout", "remove")
    }
    | {("mcp", "reset-project-choices")}
)
OTHER_RULES = frozenset({
    "--dangerously-skip-permissions", "--permission-mode", "--allowedTools", "--allowed-tools",
    "--settings", "--mcp-config", "--add-dir",
})  # fmt: skip
REMOVING = frozenset({"rm", "rmdir", "shred", "srm", "trash", "unlink"})


def judge_command_line(
    bench: Bench, line: CommandLine, allow: PermissionRule | None
) -> list[Finding]:
    """Return the findings for a line, at least one.

    `allow` is a rule that allows every call of the tool.
    """
    text = line.text
    findings = [f for f in (restrained_by_text(bench, text),) if f is not None]
    line_rule = allow or exact_rule(bench, text)
    strict = line.strict
    if isinstance(strict, Unread):
        findings += unread(bench, text, strict.why, line_rule)
        findings += judge_script(bench, line.tree_parts, line_rule)
    else:
        all_findings = judge_script(bench, line.strict_parts, line_rule)
        if (
            needs_second_reading(bench, all_findings)
            and not line.is_sure
            and not is_same_reading(strict, line.tree)
        ):
            all_findings += unread(bench, text, "can be parsed in two ways", line_rule)
            all_findings += judge_script(bench, line.tree_parts, line_rule)
        findings += all_findings
    return findings or [
        Finding(subject=text, verdict="allow", reason="runs nothing", effect="look")
    ]


def judge_script(bench: Bench, seen: Everything, line_rule: PermissionRule | None) -> list[Finding]:
    """Return the findings for everything in one of the two readings of a line."""
    findings = [from_problem(bench, problem, line_rule) for problem in seen.script.problems]
    for part in seen.parts:
        findings += judge_part(bench, part, line_rule)
    for redirect in seen.script.redirects:
        all_findings = [judge_use(bench, use, line_rule) for use in find_redirect_uses(redirect)]
        findings += [f for f in all_findings if f is not None]
    findings += judge_patterns(bench, seen.parts, [a.name for a in seen.script.assignments])
    findings += judge_variables(bench, seen.parts, seen.script.assignments, line_rule)
    return findings


def needs_second_reading(bench: Bench, findings: list[Finding]) -> bool:
    """Return whether the grammar's reading must be checked against the syntax tree.

    True if the line would run without asking, or if a rule restrains commands or paths: the tree
    may then find what the rule names.
    """
    if bench.rules.restrains_commands or bench.rules.restrains_paths:
        return True
    return all(f.verdict == "allow" for f in findings)


def unread(bench: Bench, text: str, why: str, line_rule: PermissionRule | None) -> list[Finding]:
    """Return the findings for a line that the command grammar does not accept.

    The list is empty if a rule allows every command and no rule restrains commands or paths, or if
    a rule allows exactly this line.
    """
    restrains = bench.rules.restrains_commands or bench.rules.restrains_paths
    if line_rule is not None and (not restrains or exact_rule(bench, text) is not None):
        return []
    if MESSAGE.match(text):
        why = f"{why} (git commit -F - <<'EOF' does not need approval)"
    return [Finding(subject=text[:60].split("\n", 1)[0], verdict="ask", reason=why)]


# The form in which models write commit messages: `git commit -m "$(cat <<'EOF' ...`.
MESSAGE = re.compile(r"git\s+commit\b[^\n]*\$\(cat\s*<<")


def exact_rule(bench: Bench, text: str) -> PermissionRule | None:
    """Return the allow rule for exactly this text, even if a broader one also matches, or None."""
    entries = bench.rules.commands["allow"].candidates(text)
    return next((e.rule for e in entries if e.exact and e.matches(text)), None)


def restrained_by_text(bench: Bench, text: str) -> Finding | None:
    """Return a finding if a restraining rule matches the line as written, otherwise None."""
    for behavior in RESTRAINING:
        entry = bench.rules.commands[behavior].find((text,), untrusted=bench.untrusted)
        if entry is not None:
            return by_rule(text, entry.rule)
    return None


RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")


def by_rule(subject: str, rule: PermissionRule) -> Finding:
    return Finding(
        subject=subject,
        verdict=rule.behavior,
        reason=rule.says,
        nature="rule",
        rule=rule,
    )


def from_problem(bench: Bench, problem: ShellProblem, line_rule: PermissionRule | None) -> Finding:
    """Return the finding for text that clew cannot read.

    A rule for exactly this line always allows it.
    """
    if line_rule is not None and line_rule.is_exact:
        return by_rule(problem.text, line_rule)
    if problem.syntax or bench.rules.restrains_commands:
        return Finding(subject=problem.text, verdict="ask", reason=problem.why, nature="guard")
    if line_rule is not None:
        return by_rule(problem.text, line_rule)
    return Finding(subject=problem.text, verdict="ask", reason=problem.why)


def judge_part(bench: Bench, part: CommandPart, line_rule: PermissionRule | None) -> list[Finding]:
    command = part.command
    restrained = restrained_command(bench, command)
    if restrained is not None and restrained.verdict == "deny":
        return [restrained]
    entry = permitted_command(bench, command)
    allow = line_rule or (entry.rule if entry is not None else None)
    findings = [restrained] if restrained is not None else []
    findings += [from_problem(bench, problem, allow) for problem in part.problems]
    looks = only_reads(command, bench.context.cwd)
    uses = list_uses(bench, command)
    covering_rule = allow if covers(bench, command, entry, line_rule) else None
    all_findings = [
        judge_use(bench, u, covering_rule) for u in uses if u.named or not part.plain_wrapper
    ]
    findings += [f for f in all_findings if f is not None]
    findings += reaches_otherwise(bench, command)
    guards = (
        removes_too_much(bench, command, uses),
        changes_rules(command, looks=looks),
        starts_programs_of_repository(bench, command, allow),
        None
        if covering_rule is not None and covering_rule.is_exact
        else shows_held(bench, command),
    )
    for guarded in guards:
        if guarded is not None:
            findings.append(guarded)
    findings.append(
        judge_itself(bench, part, allow if covering_rule is not None else None, looks=looks)
    )
    return [
        f if f.subject == command.text else structs.replace(f, command=command.text)
        for f in findings
    ]


def restrained_command(bench: Bench, command: Simple) -> Finding | None:
    texts = spellings(command)
    for behavior in RESTRAINING:
        entry = bench.rules.commands[behavior].find(texts, untrusted=bench.untrusted)
        if entry is not None:
            return by_rule(command.text, entry.rule)
    if not bench.rules.restrains_commands:
        return None
    return may_start_restrained(bench, command) or may_become_restrained(bench, command)


def may_start_restrained(bench: Bench, command: Simple) -> Finding | None:
    """Return an `ask` finding if a program could start a command that a rule restrains.

    This is the case if its arguments, or code in them, name that command.
    """
    name = get_basename(command.words[0])
    is_code = INTERPRETERS.fullmatch(name) is not None
    if (name in ROWS and not is_code) or name == "git":
        return None
    words = [word.text for word in command.words[1:]]
    texts = [" ".join(words[i:]) for i in range(len(words))]
    # `kubectl -n prod delete pod x` is `kubectl delete pod x` with an option before the subcommand.
    texts += [f"{name} {' '.join(words[i:])}" for i in after_options(words)]
    if is_code:
        # Matches `["git", "push"]` as well as `system("git push")`.
        codes = [*words, *(" ".join(SIGNS_OF_CODE.sub(" ", code).split()) for code in words)]
        texts += [code[match.start() :] for code in codes for match in NAMES.finditer(code)]
    for behavior in RESTRAINING:
        index = bench.rules.commands[behavior]
        entry = index.find(texts, untrusted=bench.untrusted) if index.size else None
        if entry is not None:
            why = f"could start a command that {entry.rule.text} restricts"
            return Finding(subject=command.text, verdict="ask", reason=why, nature="guard")
    return None


def after_options(words: list[str]) -> list[int]:
    """Return the indexes of the words that could be the subcommand.

    An option before the subcommand may take a value, which then looks like a subcommand.
    """
    places: list[int] = []
    for i, word in enumerate(words[1:], 1):
        before = words[i - 1]
        if not before.startswith("-") and (i < 2 or not is_valued(words[i - 2])):
            break
        if not word.startswith("-"):
            places.append(i)
    return places


def is_valued(word: str) -> bool:
    """Return whether a word is an option that could take the next word as its value."""
    return word.startswith("-") and "=" not in word and word != "--"


def may_become_restrained(bench: Bench, command: Simple) -> Finding | None:
    """Return an `ask` finding if a command such as `git $X` could expand to a restrained one."""
    words = command.words
    place = next((i for i, w in enumerate(words) if i and (w.dynamic or w.glob)), 0)
    if not place:
        return None
    name = get_basename(words[0])
    before = " ".join([name, *(word.text for word in words[1:place])])
    heads = {f"{before} "} if name != "git" or split_git(command)[1] else {f"{before} ", "git "}
    for behavior in RESTRAINING:
        for head in heads:
            for entry in bench.rules.commands[behavior].candidates(head):
                after = entry.head[len(head) :].split()
                if entry.head.startswith(head) and after and could_be(words[place], after[0]):
                    why = f"could expand to a command that {entry.rule.text} restricts"
                    return Finding(subject=command.text, verdict="ask", reason=why, nature="guard")
    return None


def could_be(word: Word, text: str) -> bool:
    """Return whether the shell could expand a word to this text."""
    return word.dynamic or segments_meet(word.text, text)


SIGNS_OF_CODE = re.compile(r"[\"'`,()\[\]{};|&]")


def spellings(command: Simple) -> tuple[str, ...]:
    """Return every spelling under which a restraining rule may name a command."""
    bare = " ".join(word.text for word in command.words)
    texts = [command.text, command.raw, bare]
    if "/" in command.name:
        rest = command.text[len(command.words[0].shown) :]
        texts.append(get_basename(command.words[0]) + rest)
    plain = normalize_git(command)
    if plain is not None:
        texts.append(plain)
    name = get_basename(command.words[0])
    if name.startswith("git-"):  # git itself starts these: `/usr/lib/git-core/git-push`
        texts.append(f"git {name[4:]}{command.text[len(command.words[0].shown) :]}")
    if command.assignments:
        front = " ".join(a.raw for a in command.assignments)
        texts.append(f"{front} {command.text}")
    return tuple(dict.fromkeys(texts))


def permitted_command(bench: Bench, command: Simple) -> CommandEntry | None:
    """Return the allow rule that matches a command, or the command that starts it, or None.

    A rule for the starting command (`sudo`) must spell out the started command too. No rule matches
    a program whose name is only known at run time.
    """
    if command.words[0].dynamic or command.words[0].glob:
        return None
    front = risky_variables(command)
    text = command.text
    raw = command.raw
    if front:
        variables = " ".join(a.raw for a in command.assignments)
        text, raw = f"{variables} {text}", f"{variables} {raw}"
    index = bench.rules.commands["allow"]
    for spelling in dict.fromkeys((text, raw)):
        for entry in index.candidates(spelling):
            if entry.matches(spelling):
                return entry
    if command.outer is not None:
        for entry in index.candidates(command.outer):
            if entry.matches(command.outer) and reaches_inside(entry, command):
                return entry
    return None


def reaches_inside(entry: CommandEntry, command: Simple) -> bool:
    """Return whether a rule such as `sudo apt update` spells out the `apt` that `sudo` starts."""
    if entry.exact:
        return True
    return command.at is not None and len(entry.head.rstrip()) >= command.at + len(command.name)


def covers(
    bench: Bench, command: Simple, entry: CommandEntry | None, line_rule: PermissionRule | None
) -> bool:
    """Return whether an allow rule covers everything a command does (see `exceeds_reading`)."""
    if line_rule is not None or entry is None:
        return line_rule is not None
    return entry.exact or not exceeds_reading(command, bench.context.cwd)


def judge_itself(
    bench: Bench, part: CommandPart, allow: PermissionRule | None, *, looks: bool
) -> Finding:
    """Judge the command itself. The files that it uses are judged separately."""
    command = part.command
    text = command.text
    if looks and allow is None:
        return reads_unasked(bench, command)
    if allow is not None:
        allowed = by_rule(text, allow)
        # The command that a wrapper starts is judged separately. A rule for a read-only program
        # allows the program only to read, and it runs in the sandbox, which limits the effect of
        # any option.
        confined = looks or part.plain_wrapper or (is_reader(command) and not allow.is_broad)
        return structs.replace(allowed, effect="look") if confined else allowed
    if part.plain_wrapper and is_of_project(bench, command):
        return Finding(subject=text, verdict="ask", reason=OF_THE_PROJECT)
    if part.plain_wrapper:
        return Finding(
            subject=text,
            verdict="allow",
            reason="runs only the command in its arguments",
            effect="look",
        )
    if bench.context.mode == "acceptEdits" and bench.context.has_walls and edits(bench, command):
        if is_of_project(bench, command):
            return Finding(subject=text, verdict="ask", reason=OF_THE_PROJECT)
        return Finding(
            subject=text,
            verdict="allow",
            reason="edits files (allowed in acceptEdits mode)",
            effect="change",
        )
    why = BEYOND_READING if is_reader(command) else NO_RULE
    here = structs.replace(command, folders=(".",))
    if bare_name(command) == "git" and only_reads(here, bench.context.cwd):
        why = OTHER_REPOSITORY
    return Finding(subject=text, verdict="ask", reason=why)


# Shell builtins. A program of the same name on PATH does not replace them.
OF_THE_SHELL = frozenset(
    ["cd", "echo", "printf", "test", "[", "true", "false", ":", "exit", "pwd", "type", "command"]
)


OF_THE_PROJECT = "is a program of this project in a folder on PATH"


def is_of_project(bench: Bench, command: Simple) -> bool:
    """Return whether the program comes from a PATH folder inside the workspace.

    Return False for a link to a program outside the workspace with the same name. Virtual
    environments contain such links.
    """
    name = command.name
    if "/" in name or name in OF_THE_SHELL:
        return False
    for folder in bench.context.program_folders:
        if not folder.startswith("/") and not command.folders:
            return True
        places = command.folders if not folder.startswith("/") else (".",)
        paths = [bench.resolve(join_words(place, f"{folder}/{name}")) for place in places]
        if any(path.is_file and not is_elsewhere_too(bench, path, name) for path in paths):
            return True
    return False


def is_elsewhere_too(bench: Bench, path: ResolvedPath, name: str) -> bool:
    """Return whether a file is outside the workspace and has the program's name.

    Version numbers at the end of both names are ignored.
    """
    real = path.real.rpartition("/")[2]
    return not in_workspace(path, bench.context) and real.rstrip(VERSION) == name.rstrip(VERSION)


VERSION = "0123456789."


def reads_unasked(bench: Bench, command: Simple) -> Finding:
    """Return the finding for a read-only command.

    Without the sandbox, only the commands in `SHORT_LIST` run without asking.
    """
    text, context = command.text, bench.context
    if is_of_project(bench, command):
        return Finding(subject=text, verdict="ask", reason=OF_THE_PROJECT)
    if not context.has_walls and bare_name(command) not in SHORT_LIST:
        why = "read-only, but the sandbox is not available"
        return Finding(subject=text, verdict="ask", reason=why, effect="look")
    # In this mode, the user approved everything in advance, so no sandbox is needed.
    effect: Effect = "unknown" if context.mode == "bypassPermissions" else "look"
    return Finding(subject=text, verdict="allow", reason="read-only", effect=effect)


def edits(bench: Bench, command: Simple) -> bool:
    """Return whether a command only changes files that it names, so acceptEdits mode may run it.

    The source of a copy or a move must be an ordinary file: a folder or a symbolic link could lead
    to protected files.
    """
    options = EDITING.get(command.name)
    if options is None or command.assignments or command.more_arguments:
        return False
    words = command.words[1:]
    operands = [w for w in words if not w.text.startswith("-")]
    if any(w.dynamic or w.glob for w in words) or any(
        w.text not in options for w in words if w.text.startswith("-")
    ):
        return False
    return command.name not in ("cp", "mv") or all(
        is_ordinary(bench, command, word) for word in operands[:-1]
    )


def is_ordinary(bench: Bench, command: Simple, word: Word) -> bool:
    paths = [bench.resolve(text) for text in resolve_word(word, command.folders)]
    return bool(paths) and all(path.is_file and len(path.names) == 1 for path in paths)


def removes_too_much(bench: Bench, command: Simple, uses: list[Use]) -> Finding | None:
    """Return an `ask` finding for `rm -rf /`, `rm -rf ~` or `rm -rf $DIR/*`.

    Such commands need approval whatever the rules say.
    """
    if get_basename(command.words[0]) not in REMOVING:
        return None
    for word in command.words[1:]:
        if word.dynamic and ("/" in word.text or word.text == "") and not word.text.startswith("-"):
            return critical(command, "deletes a path that is only known at run time")
    for use in uses:
        for text in use.paths:
            place = text[:-2] or "/" if text.endswith("/*") else text
            place = "." if place == "*" else place
            if is_critical(bench.resolve(place), bench.context):
                return critical(command, TAKES_ALL)
    return None


def starts_programs_of_repository(
    bench: Bench, command: Simple, allow: PermissionRule | None
) -> Finding | None:
    """Return an `ask` finding for a git command in an untrusted repository.

    The finding is needed only if the repository makes git start programs or show other folders.
    """
    programs = bench.context.git_programs
    if not programs or get_basename(command.words[0]) != "git" or (allow and allow.is_broad):
        return None
    names = ", ".join(programs)
    why = (
        "settings of this untrusted repository make git start programs or show other folders: "
        f"{names}"
    )
    return Finding(subject=command.text, verdict="ask", reason=why)


def critical(command: Simple, why: str) -> Finding:
    return Finding(subject=command.text, verdict="ask", reason=why, nature="guard", effect="change")


def changes_rules(command: Simple, *, looks: bool) -> Finding | None:
    """Return an `ask` finding for clew commands that change what may run.

    Commands that start a session with different rules are included.
    """
    if looks or get_basename(command.words[0]) in TEXT_ONLY:
        return None
    texts = [word.text for word in command.words]
    for i, word in enumerate(command.words):
        after = texts[i + 1 :]
        if get_basename(word) != "clew":
            continue
        if tuple(after[:2]) in OWN_CHANGES or after[:1] in (["login"], ["logout"]):
            return critical(command, "changes permission settings")
        if any(text.partition("=")[0] in OTHER_RULES for text in after):
            return critical(command, "starts an agent with different permissions")
    return None


def judge_patterns(bench: Bench, parts: tuple[CommandPart, ...], names: list[str]) -> list[Finding]:
    """Return an `ask` finding if rules restrain paths and a line changes what patterns match.

    `shopt` and an assignment to `GLOBIGNORE` make such a change.
    """
    switched = [part.command.text for part in parts if part.command.name == "shopt"]
    switched += [f"{name}=" for name in names if name == "GLOBIGNORE"]
    if not switched or not bench.rules.restrains_paths:
        return []
    why = "changes which files a pattern matches, and some files are denied"
    return [Finding(subject=switched[0], verdict="ask", reason=why, nature="guard")]


def judge_variables(
    bench: Bench,
    parts: tuple[CommandPart, ...],
    assigned: tuple[Assignment, ...],
    line_rule: PermissionRule | None,
) -> list[Finding]:
    """Return an `ask` finding for each variable that may change which code runs."""
    through = [a for part in parts for a in read_env_assignments(part.command)]
    every = [a for a in assigned if not is_harmless(a)]
    every += [a for a in through if not is_harmless(a, is_passed_on=True)]
    every += [a for part in parts for a in risky_variables(part.command)]
    risky = dict.fromkeys(a.name for a in every)
    if line_rule is not None or not risky:
        return []
    covered = spelled_out(bench, parts)
    return [
        Finding(
            subject=f"{name}=", verdict="ask", reason=CHANGES if changes_meaning(name) else SETS
        )
        for name in risky
        if name not in covered
    ]


CHANGES = "changes which programs run or what they load"
SETS = "sets a variable that may change what programs do"


def spelled_out(bench: Bench, parts: tuple[CommandPart, ...]) -> set[str]:
    """Return the names of the variables that the allow rules for their commands spell out."""
    names: set[str] = set()
    for part in parts:
        entry = permitted_command(bench, part.command)
        if entry is not None:
            names |= {a.name for a in part.command.assignments if f"{a.name}=" in entry.head}
    return names
