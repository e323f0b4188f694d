"""Judge paths: those that a file tool names, and those that a command line would touch.

Owns the order of the checks for a path: deny rules, unknown paths, ask rules, protected paths,
allow rules, and finally the location of the file. Every spelling of the path is compared with
restraining rules. An allow rule applies only if allow rules cover all spellings.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from clew.permissions.decision import Effect, Finding
from clew.permissions.git import split_git
from clew.permissions.protected import (
    HARMLESS_DEVICES,
    find_protected_match,
    find_secret_below,
    find_secret_match,
    in_workspace,
    is_critical,
    is_own_result,
    why_protected_read,
    why_protected_write,
)
from clew.permissions.request import Context, Resolve, ResolvedPath
from clew.permissions.rules import Behavior, PermissionRule, RuleSet
from clew.permissions.shell import Simple
from clew.permissions.uses import Access, Use, current_folder_use, resolve_word, uses_of
from clew.permissions.words import Word
from clew.permissions.wrappers import get_basename

RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")
# Folders that contain devices, and the memory and environment of processes.
OF_THE_SYSTEM = ("/proc/", "/dev/")
OUTSIDE = "edits a file outside the workspace"
BLOCKED = (
    "outside the workspace, where permissions.blockWritesOutsideWorkingDirectories forbids changes"
)
TAKES_ALL = "would delete or change the workspace, a home folder or system files"
FAMILIES: tuple[str, ...] = ("read", "edit")


class Bench(Struct, frozen=True, kw_only=True):
    """The input of every judgment: the rules, the context and the path resolver.

    `untrusted` means that untrusted text precedes the call in the conversation.
    """

    rules: RuleSet
    context: Context
    resolve: Resolve
    untrusted: bool = False


EFFECTS: dict[Access, Effect] = {"read": "look", "write": "change"}


def find_restraint(
    bench: Bench, behavior: Behavior, path: ResolvedPath, access: Access
) -> PermissionRule | None:
    """Return a deny or ask rule that matches the path, if any.

    A path that may not be read may not be written either.
    """
    for family in FAMILIES if access == "write" else FAMILIES[:1]:
        index = bench.rules.paths[behavior, family]
        rule = index.find(path, "", untrusted=bench.untrusted) if index.size else None
        if rule is not None:
            return rule
    return None


def permit(bench: Bench, path: ResolvedPath, access: Access, tool: str) -> PermissionRule | None:
    """Return an allow rule for the path; None unless allow rules cover every spelling of it.

    A rule that allows editing also allows reading.
    """
    rule = bench.rules.paths["allow", "edit"].find_for_all(path, tool)
    if rule is None and access == "read":
        rule = bench.rules.paths["allow", "read"].find_for_all(path, tool)
    return rule


def by_rule(subject: str, rule: PermissionRule, access: Access) -> Finding:
    return Finding(
        subject=subject,
        verdict=rule.behavior,
        reason=rule.says,
        nature="rule",
        effect=EFFECTS[access],
        rule=rule,
    )


def guard(subject: str, why: str, access: Access) -> Finding:
    return Finding(
        subject=subject, verdict="ask", reason=why, nature="guard", effect=EFFECTS[access]
    )


def could_touch(subject: str, rule: PermissionRule, access: Access) -> Finding:
    """Return an `ask` finding for a path that may lead to a denied file."""
    finding = guard(subject, f"could reach files that {rule.text} denies", access)
    return replace(finding, is_hidden=access == "read")


def why_protected(bench: Bench, path: ResolvedPath, access: Access) -> str | None:
    if access == "write":
        return why_protected_write(path, bench.context)
    return why_protected_read(path)


def judge_path(
    bench: Bench, text: str, access: Access, tool: str, allow: PermissionRule | None
) -> Finding:
    """Judge one path in the input of a file tool.

    `allow` is a rule that allows every call of the tool.
    """
    path = bench.resolve(text)
    denied = find_restraint(bench, "deny", path, access)
    if denied is not None:
        return by_rule(text, denied, access)
    if not path.known:
        return guard(text, "clew cannot tell which file this is", access)
    if access == "write" and is_blocked(bench, path):
        return Finding(subject=text, verdict="deny", reason=BLOCKED, effect=EFFECTS[access])
    ask_rule = find_restraint(bench, "ask", path, access)
    if ask_rule is not None:
        return by_rule(text, ask_rule, access)
    protected = why_protected(bench, path, access)
    if protected is not None:
        return guard(text, protected, access)
    if is_plan(bench, path):
        return allowed_by_place(text, "is the plan file", "read")
    allowed = allow or permit(bench, path, access, tool)
    if allowed is not None:
        return by_rule(text, allowed, access)
    return by_place(bench, text, path, access)


def is_plan(bench: Bench, path: ResolvedPath) -> bool:
    """Return whether the path is the plan file.

    It is the only file that the model may write in plan mode.
    """
    return path.known and path.real == bench.context.plan_file


def is_blocked(bench: Bench, path: ResolvedPath) -> bool:
    """Return whether the settings forbid writing to the path.

    They can forbid writing outside the workspace, except to the session's plan file and memory
    folder.
    """
    context = bench.context
    if not context.blocks_writes_outside or in_workspace(path, context) or is_plan(bench, path):
        return False
    return not (context.memory and path.real.startswith(f"{context.memory}/"))


def by_place(
    bench: Bench, text: str, path: ResolvedPath, access: Access, *, by_command: bool = False
) -> Finding:
    """Judge a path by its location, because no rule covers it.

    The workspace and this session's tool results may be read; in acceptEdits mode, the workspace
    may also be edited. Harmless devices may be read and written.
    """
    inside = in_workspace(path, bench.context)
    if path.real in HARMLESS_DEVICES:
        return allowed_by_place(text, "is a harmless device", "read")
    if access == "read":
        if inside:
            return allowed_by_place(text, "in the workspace", access)
        if is_own_result(path, bench.context):
            return allowed_by_place(text, "is a tool result of this session", access)
        return asked_by_place(text, "outside the workspace", access)
    is_safe = bench.context.has_walls or not by_command
    if inside and is_safe and bench.context.mode == "acceptEdits":
        return allowed_by_place(text, "in the workspace (acceptEdits mode)", access)
    if by_command:
        why = "changes files" if inside else "changes files outside the workspace"
    else:
        why = "edits a file" if inside else OUTSIDE
    return asked_by_place(text, why, access)


def allowed_by_place(text: str, why: str, access: Access) -> Finding:
    return Finding(subject=text, verdict="allow", reason=why, effect=EFFECTS[access])


def asked_by_place(text: str, why: str, access: Access) -> Finding:
    return Finding(subject=text, verdict="ask", reason=why, effect=EFFECTS[access])


def judge_use(bench: Bench, use: Use, allow: PermissionRule | None) -> Finding | None:
    """Judge one path that a command line would touch. Return None if there is nothing to report.

    `allow` is a rule that allows the command. It covers files at any location, but not those that
    are denied or protected. If rules restrain paths, it does not cover unknown paths either.
    """
    if not use.paths:
        return unknown_path(bench, use, allow)
    findings = [
        f for text in use.paths if (f := judge_spelling(bench, use, text, allow)) is not None
    ]
    if use.glob:
        findings += [f for f in behind_links(bench, use, allow) if f is not None]
    if len(findings) < 2:
        return findings[0] if findings else None
    return max(findings, key=lambda f: {"allow": 0, "ask": 1}.get(f.verdict, 2))


def behind_links(bench: Bench, use: Use, allow: PermissionRule | None) -> list[Finding | None]:
    """Judge the files that a pattern currently matches through symbolic links."""
    findings: list[Finding | None] = []
    for real in {real for text in use.paths for real in bench.resolve(text).leads_to}:
        finding = judge_spelling(bench, use, real, allow)
        if finding is not None and finding.rule is not None and finding.verdict == "deny":
            finding = could_touch(use.text, finding.rule, use.access)
        findings.append(finding)
    return findings


def unknown_path(bench: Bench, use: Use, allow: PermissionRule | None) -> Finding | None:
    why = "uses a file that is only known at run time"
    if use.text.lstrip("\"'").startswith(OF_THE_SYSTEM):
        return guard(use.text, why, use.access)
    if bench.rules.restrains_paths:
        return guard(use.text, f"{why}, and rules deny some files", use.access)
    if allow is not None:
        return answered_for(use, allow)
    return asked_by_place(use.text, why, use.access)


def answered_for(use: Use, allow: PermissionRule) -> Finding | None:
    """Return the finding for a file that an allowed command uses, or None.

    Reading needs no finding. Writing needs one, so that plan mode can deny it.
    """
    return by_rule(use.text, allow, use.access) if use.access == "write" else None


def judge_spelling(
    bench: Bench, use: Use, text: str, allow: PermissionRule | None
) -> Finding | None:
    path = bench.resolve(text)
    denied = find_restraint(bench, "deny", path, use.access)
    if denied is not None:
        return by_rule(use.text, denied, use.access)
    ask_rule = find_restraint(bench, "ask", path, use.access) or reaches(bench, use, path)
    if ask_rule is not None and ask_rule.behavior == "ask":
        return by_rule(use.text, ask_rule, use.access)
    if ask_rule is not None:
        return could_touch(use.text, ask_rule, use.access)
    if not path.known and use.named:
        return unknown_path(bench, use, allow)
    protected = why_protected(bench, path, use.access) or wide(bench, use, path)
    if protected is not None and (use.named or use.access == "read"):
        return guard(use.text, protected, use.access)
    if is_plan(bench, path):
        return allowed_by_place(use.text, "is the plan file", "read")
    if path.real in HARMLESS_DEVICES:
        return by_place(bench, use.text, path, use.access, by_command=True)
    if allow is not None:
        return answered_for(use, allow)
    if not use.named and in_workspace(path, bench.context):
        return None
    permitted = permit(bench, path, use.access, "Bash")
    if permitted is not None:
        return by_rule(use.text, permitted, use.access)
    return by_place(bench, use.text, path, use.access, by_command=True)


def is_outside(bench: Bench, path: ResolvedPath) -> bool:
    """Return whether a path is outside the workspace."""
    return not in_workspace(path, bench.context)


def list_uses(bench: Bench, command: Simple) -> list[Use]:
    """Return the files that a command touches.

    If the shell may have left the workspace, the result includes the shell's current folder for
    commands that read it without naming it, such as `ls` and `git log`. In the workspace, which may
    be the home folder, only files that a command names are judged.
    """
    uses, here = uses_of(command), current_folder_use(command)
    if here is not None and any(is_outside(bench, bench.resolve(path)) for path in here.paths):
        uses.append(here)
    return uses


def reaches(bench: Bench, use: Use, path: ResolvedPath) -> PermissionRule | None:
    """Return a deny or ask rule that could match a file that a command touches through a path.

    Such files are below the path, or its glob matches them. Return None if no rule could match.
    """
    if path.is_file or not (use.glob or use.below):
        return None
    families = FAMILIES if use.access == "write" else FAMILIES[:1]
    # A shell resolves `..` by name, the kernel by the actual folder: `a/link/..` may mean either
    # folder.
    for name in path.names:
        pattern = f"{name.rstrip('/')}/**" if use.below else name
        for behavior in RESTRAINING:
            for family in families:
                rule = bench.rules.paths[behavior, family].may_touch(
                    pattern, untrusted=bench.untrusted
                )
                if rule is not None:
                    return rule
    return None


def wide(bench: Bench, use: Use, path: ResolvedPath) -> str | None:
    """Return why a glob or a folder's entire contents need approval, or None if they do not.

    The usual reason is that the files could include protected ones.
    """
    if use.access == "write" and use.below and is_critical(path, bench.context):
        return TAKES_ALL
    is_shown = use.access == "read" and use.below and not (use.linked or path.is_file)
    if is_shown and use.follows and use.named:
        return "follows links out of the folder"
    if is_shown and is_outside(bench, path):
        secret = find_secret_below(path.real, bench.context.home)
        if secret is not None:
            return f"contains credentials in {secret}"
    if use.glob:
        met = find_protected_match(path.real, writes=use.access == "write")
        if met is None and use.access == "read" and is_outside(bench, path):
            met = find_secret_match(path.real, bench.context.home)
        if met is not None:
            return f"could match {met}"
    return None


# Ways to reach a denied file without its name: another name for its folder, or code that opens it.


# Commands that show a folder under another name, or as the root of what they run.
RENAMING = frozenset({
    "mount", "bindfs", "chroot", "fakechroot", "proot", "bwrap", "unshare", "nsenter",
    "systemd-nspawn", "sshfs", "fuse-overlayfs",
})  # fmt: skip
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
VOLUME = re.compile(r"-v.*|--volume(?:=.*)?|--mount(?:=.*)?")

INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|ruby|perl|php|lua[\d.]*|awk|[gmn]awk|sed|gsed|jq|yq"
    r"|osascript|Rscript|julia|tclsh|expect|sqlite3|vim?|nvim|emacs|ed|ex|gdb|make|psql|mysql"
)
# Anything in code that could be a path. Quotes, brackets and whitespace separate it from the rest.
NAMES = re.compile(r"[\w.~/@%+-]*[\w.~/-]")
NAMES_MAX = 500
STREAM_EDITORS = frozenset({"sed", "gsed"})
READS_FILE = re.compile(r"[0-9$,~+!]*[rRwW](?=.)")


def reaches_otherwise(bench: Bench, command: Simple) -> list[Finding]:
    if not bench.rules.restrains_paths:
        return []
    name = get_basename(command.words[0])
    words = command.words[1:]
    is_volume = name in CONTAINERS and any(VOLUME.fullmatch(w.text) for w in words)
    if name in RENAMING or is_volume:
        why = "can show a denied file under another name"
        return [guard(command.text, why, "read")]
    if INTERPRETERS.fullmatch(name) or is_git_with_code(command):
        return [f for f in (named_in_code(bench, command, word) for word in words) if f is not None]
    return []


# With these subcommands, git runs commands that an argument contains, as it does with `-c`.
GIT_WITH_CODE = frozenset(
    {"bisect", "difftool", "filter-branch", "mergetool", "rebase", "submodule"}
)


def is_git_with_code(command: Simple) -> bool:
    if get_basename(command.words[0]) != "git":
        return False
    front, name, _ = split_git(command)
    return name in GIT_WITH_CODE or any(word.text == "-c" for word in front)


def named_in_code(bench: Bench, command: Simple, word: Word) -> Finding | None:
    """Return an `ask` finding if code on the command line names a restrained file."""
    names = list(dict.fromkeys(NAMES.findall(word.text)))
    if get_basename(command.words[0]) in STREAM_EDITORS:
        # A sed command can be followed by its file name without whitespace: `1r.env`.
        ends = [name.rpartition("/")[2] for name in names]
        names += [name[match.end() :] for name in ends if (match := READS_FILE.match(name))]
    if names == [word.text]:
        return None  # A plain word is judged as a path by other code.
    if len(names) > NAMES_MAX:
        why = "is too long to be searched for denied files"
        return guard(f"{word.text[:80]}...", why, "read")
    for name in names:
        for path in resolve_word(Word(raw=name, text=name, tilde=name[:1] == "~"), command.folders):
            for behavior in RESTRAINING:
                rule = find_restraint(bench, behavior, bench.resolve(path), "write")
                if rule is not None:
                    return guard(name, f"appears in code, and {rule.text} names it", "read")
    return None
