"""Which git command lines only look, and how to read a git line whatever options stand in front.

Owns the table of subcommands. An option that starts a program (`-c`, `--ext-diff`, `-O`), writes a
file (`--output`) or leads to another repository (`-C`, `--git-dir`) makes a line more than a look.
"""

import re

from msgspec import Struct

from clew.permissions.shell import Simple
from clew.permissions.words import Word

# Options before the subcommand: those that change nothing, and those that take a value.
GLOBAL_PLAIN = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
GLOBAL_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)

# Of any subcommand: these run programs or write files; shortened names count.
BAD = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--exec",
    "--upload-pack",
    "--paginate",
    "--web",
    "--man",
    "--info",
    "--show-signature",
    "--edit",
)


class Look(Struct, frozen=True, kw_only=True):
    """A subcommand that looks. `first`: what its first word must be; `options`: the only ones it
    may have; `operands`: whether it may name something."""

    first: frozenset[str] | None = None
    options: frozenset[str] | None = None
    operands: bool = True
    bad_letters: str = ""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LISTS = words(
    "-l --list -v -vv -a --all -r --remotes --show-current --contains --no-contains --merged "
    "--no-merged --points-at --sort --format --column --no-column --no-color --color -n -i "
    "--ignore-case --verbose --abbrev --no-abbrev"
)

LOOKS: dict[str, Look] = {
    **dict.fromkeys(
        [
            "status",
            "log",
            "diff",
            "show",
            "shortlog",
            "describe",
            "rev-parse",
            "rev-list",
            "ls-files",
            "ls-tree",
            "cat-file",
            "name-rev",
            "merge-base",
            "for-each-ref",
            "count-objects",
            "check-ignore",
            "check-attr",
            "show-ref",
            "show-branch",
            "cherry",
            "diff-tree",
            "diff-files",
            "diff-index",
            "whatchanged",
            "blame",
            "annotate",
            "range-diff",
            "merge-tree",
            "version",
        ],
        Look(),
    ),
    "grep": Look(bad_letters="O"),
    "branch": Look(options=LISTS, operands=False),
    "tag": Look(options=LISTS, operands=False),
    "remote": Look(first=words("-v --verbose get-url"), options=words("-v --verbose --all --push")),
    "stash": Look(first=words("list show")),
    "worktree": Look(first=words("list"), options=words("--porcelain -v -z")),
    "reflog": Look(first=words("show exists")),
    "notes": Look(first=words("list show")),
    "config": Look(
        first=words("--get --get-all --get-regexp --list -l get list"),
        options=words(
            "--get --get-all --get-regexp --list -l --local --global --system --show-origin "
            "--show-scope --name-only --null -z --type --bool --int --path"
        ),
    ),
    "submodule": Look(first=words("status"), options=words("--recursive --cached")),
    "bisect": Look(first=words("log")),
}

# `git branch --list x`: with these a name is a pattern or a commit, not something to make.
NAMES_ARE_PATTERNS = words(
    "-l --list --contains --no-contains --merged --no-merged --points-at --sort --format"
)
MAY_STAND_ALONE = words("remote reflog")


def split_git(command: Simple) -> tuple[tuple[Word, ...], str, tuple[Word, ...]]:
    """The options in front, the subcommand, and its arguments."""
    arguments = command.words[1:]
    i = 0
    while i < len(arguments) and arguments[i].text.startswith("-"):
        i += 2 if arguments[i].text in GLOBAL_VALUES else 1
    name = arguments[i].text if i < len(arguments) and not arguments[i].dynamic else ""
    return arguments[:i], name, arguments[i + 1 :]


def git_plain(command: Simple) -> str | None:
    """`git -C x push` as `git push`, so that a rule on `git push` sees it."""
    if not command.name.endswith("git") or command.name.rpartition("/")[2] != "git":
        return None
    front, name, rest = split_git(command)
    if not front or not name:
        return None
    return " ".join(["git", name, *(word.shown for word in rest)])


def git_looks(command: Simple) -> bool:
    front, name, rest = split_git(command)
    look = LOOKS.get(name)
    if look is None or any(word.text not in GLOBAL_PLAIN for word in front):
        return False
    # After a `cd` this may be another repository, with settings of its own that run programs.
    if command.folders != (".",) or command.more_arguments:
        return False
    if any(odd(word) or runs_something(word.text) for word in rest):
        return False
    flags = [w.text for w in before_dashes(rest) if w.text.startswith("-") and w.text != "-"]
    if look.bad_letters and any(bundles(flag, look.bad_letters) for flag in flags):
        return False
    if look.options is not None and any(f.partition("=")[0] not in look.options for f in flags):
        return False
    if look.first is not None:
        return rest[0].text in look.first if rest else name in MAY_STAND_ALONE
    names = [w for w in rest if not w.text.startswith("-")]
    return (
        look.operands or not names or any(f.partition("=")[0] in NAMES_ARE_PATTERNS for f in flags)
    )


# Before the subcommand: settings for this run, which may name programs (`-c alias.x='!...'`).
SETS = re.compile(r"-c|--config-env|--exec-path=")


def git_exceeds(command: Simple) -> bool:
    """Whether a subcommand made for looking is given an option that runs or writes something."""
    front, name, rest = split_git(command)
    if any(SETS.match(word.text) for word in front):
        return True
    if LOOKS.get(name) != Look():
        return False
    return command.folders != (".",) or any(odd(w) or runs_something(w.text) for w in rest)


def odd(word: Word) -> bool:
    """A word that may turn out to be an option."""
    return (word.dynamic and not re.match(r"\"?[\w./@^~:-]*[\w./]", word.text)) or (
        word.glob and word.text[:1] in "*?["
    )


def before_dashes(arguments: tuple[Word, ...]) -> tuple[Word, ...]:
    for i, word in enumerate(arguments):
        if word.text == "--":
            return arguments[:i]
    return arguments


def runs_something(text: str) -> bool:
    name = text.partition("=")[0]
    if name == "--" or not name.startswith("--"):
        return False
    return any(bad.startswith(name) for bad in BAD)


def bundles(flag: str, letters: str) -> bool:
    return not flag.startswith("--") and any(letter in flag for letter in letters)
