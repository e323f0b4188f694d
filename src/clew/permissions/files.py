"""Judges paths: what a file tool names, and what a command line would touch.

Owns the order in which a path is judged: deny, what cannot be known, ask, protected, allow, and
last where the file lies. Every spelling of the path is held against restraining rules; an allow
rule counts only where all of them are allowed.
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
from clew.permissions.uses import Access, Use, resolve_word
from clew.permissions.words import Word
from clew.permissions.wrappers import get_basename

RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")
# Below these lie the memory and the environment of programs, and devices.
OF_THE_SYSTEM = ("/proc/", "/dev/")
OUTSIDE = "would change a file outside the workspace"
FAMILIES: tuple[str, ...] = ("read", "edit")


class Bench(Struct, frozen=True, kw_only=True):
    """What every judgement needs at hand."""

    rules: RuleSet
    context: Context
    resolve: Resolve
    untrusted: bool = False


EFFECTS: dict[Access, Effect] = {"read": "look", "write": "change"}


def find_restraint(
    bench: Bench, behavior: Behavior, path: ResolvedPath, access: Access
) -> PermissionRule | None:
    """A restraining rule for the path; what may not be read may not be written either."""
    for family in FAMILIES if access == "write" else FAMILIES[:1]:
        index = bench.rules.paths[behavior, family]
        rule = index.find(path, "", untrusted=bench.untrusted) if index.size else None
        if rule is not None:
            return rule
    return None


def permit(bench: Bench, path: ResolvedPath, access: Access, tool: str) -> PermissionRule | None:
    """An allow rule for every spelling of the path; who may write a file may read it."""
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
    """What a denied file may be among."""
    finding = guard(subject, f"could touch what {rule.text} denies", access)
    return replace(finding, is_hidden=access == "read")


def why_protected(bench: Bench, path: ResolvedPath, access: Access) -> str | None:
    if access == "write":
        return why_protected_write(path, bench.context)
    return why_protected_read(path)


def judge_path(
    bench: Bench, text: str, access: Access, tool: str, allow: PermissionRule | None
) -> Finding:
    """One path that a file tool names. `allow` is a rule that allows the tool as a whole."""
    path = bench.resolve(text)
    denied = find_restraint(bench, "deny", path, access)
    if denied is not None:
        return by_rule(text, denied, access)
    if not path.known:
        return guard(text, "it cannot be told which file this is", access)
    ask_rule = find_restraint(bench, "ask", path, access)
    if ask_rule is not None:
        return by_rule(text, ask_rule, access)
    protected = why_protected(bench, path, access)
    if protected is not None:
        return guard(text, protected, access)
    if is_plan(bench, path):
        return allowed_by_place(text, "is the plan", "read")
    allowed = allow or permit(bench, path, access, tool)
    if allowed is not None:
        return by_rule(text, allowed, access)
    return by_place(bench, text, path, access)


def is_plan(bench: Bench, path: ResolvedPath) -> bool:
    """The one file that plan mode lets the model write; writing it changes nothing of the work."""
    return path.known and path.real == bench.context.plan_file


def by_place(bench: Bench, text: str, path: ResolvedPath, access: Access) -> Finding:
    """What holds where no rule speaks: the workspace may be read, and edited in acceptEdits."""
    inside = in_workspace(path, bench.context)
    if path.real in HARMLESS_DEVICES:
        return allowed_by_place(text, "holds nothing", "read")
    if access == "read":
        if inside:
            return allowed_by_place(text, "lies in the workspace", access)
        if is_own_result(path, bench.context):
            return allowed_by_place(text, "is a tool's result of this session", access)
        return asked_by_place(text, "lies outside the workspace", access)
    if inside and bench.context.mode == "acceptEdits":
        return allowed_by_place(text, "lies in the workspace (acceptEdits)", access)
    where = "would change a file" if inside else OUTSIDE
    return asked_by_place(text, where, access)


def allowed_by_place(text: str, why: str, access: Access) -> Finding:
    return Finding(subject=text, verdict="allow", reason=why, effect=EFFECTS[access])


def asked_by_place(text: str, why: str, access: Access) -> Finding:
    return Finding(subject=text, verdict="ask", reason=why, effect=EFFECTS[access])


def judge_use(bench: Bench, use: Use, allow: PermissionRule | None) -> Finding | None:
    """One path a command line would touch; None where there is nothing to say.

    `allow` is a rule that allows the command. It answers for where the file lies, never for what
    is denied, protected or unknown beside restraining rules.
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
    """What a pattern reaches through links that lie there now."""
    findings: list[Finding | None] = []
    for real in {real for text in use.paths for real in bench.resolve(text).leads_to}:
        finding = judge_spelling(bench, use, real, allow)
        if finding is not None and finding.rule is not None and finding.verdict == "deny":
            finding = could_touch(use.text, finding.rule, use.access)
        findings.append(finding)
    return findings


def unknown_path(bench: Bench, use: Use, allow: PermissionRule | None) -> Finding | None:
    why = "names a file that is known only when it runs"
    if use.text.lstrip("\"'").startswith(OF_THE_SYSTEM):
        return guard(use.text, why, use.access)
    if bench.rules.restrains_paths:
        return guard(use.text, f"{why}, and some files are denied", use.access)
    if allow is not None:
        return answered_for(use, allow)
    return asked_by_place(use.text, why, use.access)


def answered_for(use: Use, allow: PermissionRule) -> Finding | None:
    """What a rule for the command says of a file: nothing of one that is read, but a write is told,
    because plan mode permits none."""
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
        return allowed_by_place(use.text, "is the plan", "read")
    if path.real in HARMLESS_DEVICES:
        return by_place(bench, use.text, path, use.access)
    if allow is not None:
        return answered_for(use, allow)
    if not use.named and in_workspace(path, bench.context):
        return None
    permitted = permit(bench, path, use.access, "Bash")
    if permitted is not None:
        return by_rule(use.text, permitted, use.access)
    return by_place(bench, use.text, path, use.access)


def is_outside(bench: Bench, path: ResolvedPath) -> bool:
    """A session may work in a home folder; what lies there is looked at by its names then."""
    return not in_workspace(path, bench.context)


def reaches(bench: Bench, use: Use, path: ResolvedPath) -> PermissionRule | None:
    """A restraining rule for something below the path, or something a glob could stand for."""
    if path.is_file or not (use.glob or use.below):
        return None
    families = FAMILIES if use.access == "write" else FAMILIES[:1]
    # Shells go up by name, the kernel by what is there: `a/link/..` is either folder.
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
    """Why a glob or a whole tree asks: it may hold protected files."""
    if use.access == "write" and use.below and is_critical(path, bench.context):
        return "would take the workspace, a home or the system with it"
    is_shown = use.access == "read" and use.below and not (use.linked or path.is_file)
    if is_shown and use.follows and use.named:
        return "follows the links below a folder, wherever they lead"
    if is_shown and is_outside(bench, path):
        secret = find_secret_below(path.real, bench.context.home)
        if secret is not None:
            return f"holds credentials ({secret})"
    if use.glob:
        met = find_protected_match(path.real, writes=use.access == "write")
        if met is None and use.access == "read" and is_outside(bench, path):
            met = find_secret_match(path.real, bench.context.home)
        if met is not None:
            return f"could stand for {met}"
    return None


# Ways to a denied file that name it otherwise: another name for its folder, or code that opens it.


# These show a folder under another name, or as the root of what they run.
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
# What could be a path in code; quotes, brackets and blanks part it from the rest.
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


# With these subcommands git starts commands that a word holds, and with a setting for this run.
GIT_WITH_CODE = frozenset(
    {"bisect", "difftool", "filter-branch", "mergetool", "rebase", "submodule"}
)


def is_git_with_code(command: Simple) -> bool:
    if get_basename(command.words[0]) != "git":
        return False
    front, name, _ = split_git(command)
    return name in GIT_WITH_CODE or any(word.text == "-c" for word in front)


def named_in_code(bench: Bench, command: Simple, word: Word) -> Finding | None:
    """Code on the command line that holds the name of a file some rule restrains."""
    names = list(dict.fromkeys(NAMES.findall(word.text)))
    if get_basename(command.words[0]) in STREAM_EDITORS:
        # The command may stand before its file without a blank: `1r.env`.
        ends = [name.rpartition("/")[2] for name in names]
        names += [name[match.end() :] for name in ends if (match := READS_FILE.match(name))]
    if names == [word.text]:
        return None  # a plain word is judged as a path where all are
    if len(names) > NAMES_MAX:
        why = "is too long to look through for files that are denied"
        return guard(f"{word.text[:80]}...", why, "read")
    for name in names:
        for path in resolve_word(Word(raw=name, text=name, tilde=name[:1] == "~"), command.folders):
            for behavior in RESTRAINING:
                rule = find_restraint(bench, behavior, bench.resolve(path), "write")
                if rule is not None:
                    return guard(name, f"stands in code, and is named by {rule.text}", "read")
    return None
