"""Ways to a denied file that name it otherwise: another name for its folder, or code that opens it.

Owns two looks at a command, taken only where some files are denied or asked about. What a program
opens without a word of it in the command line is beyond any reader of it (see docs/permissions.md).
"""

import re

from clew.permissions.decision import Finding
from clew.permissions.files import RESTRAINING, Bench, guard, restraint
from clew.permissions.shell import Simple
from clew.permissions.uses import spelled
from clew.permissions.words import Word
from clew.permissions.wrappers import basename

# These show a folder under another name, or as the root of what they run.
RENAMING = frozenset(
    [
        "mount",
        "bindfs",
        "chroot",
        "fakechroot",
        "proot",
        "bwrap",
        "unshare",
        "nsenter",
        "systemd-nspawn",
        "sshfs",
        "fuse-overlayfs",
    ]
)
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
VOLUME = re.compile(r"-v.*|--volume(?:=.*)?|--mount(?:=.*)?")

INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|ruby|perl|php|lua[\d.]*|awk|[gmn]awk|sed|gsed|jq|yq"
    r"|osascript|Rscript|julia|tclsh|expect|sqlite3|vim?|nvim|emacs|ed|ex|gdb|make|psql|mysql"
)
# What could be a path in code; quotes, brackets and blanks part it from the rest.
NAMES = re.compile(r"[\w.~/@%+-]*[\w.~/-]")
NAMES_MAX = 500


def reaches_otherwise(bench: Bench, command: Simple) -> list[Finding]:
    if not bench.rules.restrains_paths:
        return []
    name = basename(command.words[0])
    words = command.words[1:]
    is_volume = name in CONTAINERS and any(VOLUME.fullmatch(w.text) for w in words)
    if name in RENAMING or is_volume:
        why = "can show a denied file under another name"
        return [guard(command.text, why, "read")]
    if INTERPRETERS.fullmatch(name):
        return [f for f in (named_in_code(bench, command, word) for word in words) if f is not None]
    return []


def named_in_code(bench: Bench, command: Simple, word: Word) -> Finding | None:
    """Code on the command line that holds the name of a file some rule restrains."""
    names = list(dict.fromkeys(NAMES.findall(word.text)))
    if names == [word.text]:
        return None  # a plain word is judged as a path where all are
    if len(names) > NAMES_MAX:
        why = "is too long to look through for files that are denied"
        return guard(f"{word.text[:80]}...", why, "read")
    for name in names:
        for path in spelled(Word(raw=name, text=name, tilde=name[:1] == "~"), command.folders):
            for behavior in RESTRAINING:
                rule = restraint(bench, behavior, bench.resolve(path), "write")
                if rule is not None:
                    return guard(name, f"stands in code, and is named by {rule.text}", "read")
    return None
