"""The git command lines that only read, and the parsing of git's leading options.

Owns the table of subcommands with the options that each may have. No row contains an option that
starts a program (`-c`, `--ext-diff`, `-O`), writes a file (`--output`), connects to a network, or
leads to another repository (`-C`, `--git-dir`).
"""

import re
from functools import cache
from itertools import pairwise

from clew.permissions.programs import Arguments, ProgramOptions, parse_row, read_arguments
from clew.permissions.shell import Simple
from clew.permissions.words import Word

# Options before the subcommand: first those that do not affect it, then those with a value.
GLOBAL_PLAIN = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
GLOBAL_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)

DIFF = (
    " -p -u --patch -s --no-patch -U? --unified? --raw --patch-with-raw --minimal --patience"
    " --histogram --anchored: --diff-algorithm: --stat? --compact-summary --numstat --shortstat"
    " --dirstat? -X? --cumulative --summary --patch-with-stat -z --name-only --name-status"
    " --submodule? --color? --no-color --color-moved? --no-color-moved --color-moved-ws:"
    " --word-diff? --word-diff-regex: --color-words? --no-renames --check -S: -G: --pickaxe-all"
    " --pickaxe-regex --full-index --binary --abbrev? -B? -M? -C? -D --find-renames?"
    " --find-copies? --find-copies-harder --irreversible-delete -l: --diff-filter: --find-object:"
    " --skip-to: --rotate-to: -R --relative? --no-relative -a --text --ignore-cr-at-eol"
    " --ignore-space-at-eol -b -w --ignore-space-change --ignore-all-space --ignore-blank-lines"
    " -I: --ignore-matching-lines: --inter-hunk-context: -W --function-context --exit-code"
    " --quiet --no-ext-diff --no-textconv --ignore-submodules? --src-prefix: --dst-prefix:"
    " --no-prefix --default-prefix --line-prefix: --ita-invisible-in-index"
    " --ws-error-highlight: --cached --staged --merge-base --cc -c -m -t --combined-all-paths"
    " --diff-merges: --no-diff-merges --indent-heuristic --no-indent-heuristic"
)
COMMITS = (
    " --oneline --decorate? --no-decorate --decorate-refs: --decorate-refs-exclude: --source"
    " --mailmap --use-mailmap --no-mailmap --full-diff --log-size -L: -n: -NUM --max-count: --skip:"
    " --since: --after: --until: --before: --since-as-filter: --author: --committer: --grep:"
    " --grep-reflog: --all-match --invert-grep -i --regexp-ignore-case --basic-regexp -E"
    " --extended-regexp -F --fixed-strings -P --perl-regexp --merges --no-merges --min-parents?"
    " --max-parents? --no-min-parents --no-max-parents --first-parent --not --all --branches?"
    " --tags? --remotes? --glob: --exclude: --reflog --boundary --cherry-mark --cherry-pick"
    " --left-only --right-only --cherry -g --walk-reflogs --merge --simplify-by-decoration"
    " --full-history --dense --sparse --simplify-merges --ancestry-path? --show-pulls --date-order"
    " --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? --format?"
    " --abbrev-commit --no-abbrev-commit --encoding: --expand-tabs? --no-expand-tabs --notes?"
    " --no-notes --relative-date --date: --parents --children --left-right --graph --no-graph"
    " --show-linear-break? --follow --count --clear-decorations --remove-empty"
)
LISTS = (
    " -l --list -v -vv -a --all -r --remotes --show-current --contains? --no-contains? --merged?"
    " --no-merged? --points-at: --sort: --format: --column? --no-column --no-color --color? -i"
    " --ignore-case --verbose --abbrev? --no-abbrev --omit-empty"
)

ROWS: dict[str, str] = {
    "status": "files -s -b -v -u? -z --short --branch --show-stash --porcelain? --long --verbose"
    " --untracked-files? --ignore-submodules? --ignored? --column? --no-column --ahead-behind"
    " --no-ahead-behind --renames --no-renames --find-renames?",
    **dict.fromkeys(["log", "show", "whatchanged"], "files" + COMMITS + DIFF),
    "diff": "files" + DIFF,
    "range-diff": "files --creation-factor: --no-dual-color --left-only --right-only" + DIFF,
    **dict.fromkeys(
        ["diff-tree", "diff-files", "diff-index"],
        "files -r --root --no-commit-id --pretty? --format? -0 -1 -2 -3 -q" + DIFF,
    ),
    "rev-list": "files --objects --objects-edge --disk-usage? --use-bitmap-index"
    + COMMITS.replace(" --decorate-refs: --decorate-refs-exclude:", "").replace(" -L:", ""),
    "shortlog": "files -s -n -e -c -w? --numbered --summary --email --committer --group: --format:"
    " --date: --since: --after: --until: --before: --author: --grep: --no-merges --merges"
    " --first-parent --all --branches? --tags? --remotes?",
    "describe": "files --all --tags --contains --abbrev: --candidates: --exact-match --debug --long"
    " --match: --exclude: --always --first-parent --dirty? --broken?",
    "rev-parse": "files -q --verify --quiet --short? --abbrev-ref? --symbolic"
    " --symbolic-full-name --all --branches? --tags? --remotes? --git-dir --absolute-git-dir"
    " --git-common-dir --show-toplevel --show-cdup --show-prefix"
    " --show-superproject-working-tree --is-inside-git-dir --is-inside-work-tree"
    " --is-bare-repository --is-shallow-repository --show-object-format? --git-path:"
    " --path-format: --since: --until: --not --revs-only --no-revs --flags --no-flags",
    "ls-files": "files -c -d -m -o -i -s -u -k -z -t -v -f -x: --cached --deleted --modified"
    " --others --ignored --stage --unmerged --killed --directory --no-empty-directory"
    " --error-unmatch --exclude: --exclude-standard --full-name --recurse-submodules --abbrev?"
    " --format: --deduplicate",
    "ls-tree": "files -d -r -t -l -z --name-only --name-status --full-name --full-tree --abbrev?"
    " --long --object-only --format:",
    "cat-file": "files -p -t -s -e",
    "name-rev": "files --name-only --tags --refs: --exclude: --always --all",
    "merge-base": "files -a --all --octopus --is-ancestor --independent --fork-point",
    "for-each-ref": "files --count: --sort: --format: --points-at: --merged? --no-merged?"
    " --contains? --no-contains? --ignore-case --omit-empty --exclude:",
    "count-objects": "files -v -H --verbose --human-readable",
    "check-ignore": "files -q -v -n --quiet --verbose --non-matching --no-index",
    "check-attr": "files -a --all --cached",
    "show-ref": "files -d -s? -q --head --heads --branches --tags --dereference --hash? --verify"
    " --exists --quiet --abbrev?",
    "show-branch": "files -a -r --all --remotes --current --topo-order --date-order --sparse"
    " --more: --list --merge-base --independent --no-name --sha1-name --topics",
    "cherry": "files -v --abbrev?",
    **dict.fromkeys(
        ["blame", "annotate"],
        "files -L: -l -t -e -f -n -s -w -M? -C? -p -c --porcelain --line-porcelain --show-name"
        " --show-number --show-email --date: --root --since: --abbrev? --color-lines"
        " --color-by-age --incremental --reverse --first-parent --ignore-rev: --show-stats",
    ),
    "version": "none --build-options",
    "grep": "files -a -I -i -w -v -h -H -E -G -F -P -n -l -L -c -z -o -p -W -q -r -m: -A: -B: -C:"
    " -e: -NUM --and --or --not --all-match --cached --max-depth: --recursive --no-recursive"
    " --color? --no-color --break --heading --function-context --show-function --max-count:"
    " --column --count --files-with-matches --files-without-match --name-only --ignore-case"
    " --word-regexp --line-number --text --threads: --full-name --extended-regexp"
    " --fixed-strings --perl-regexp --basic-regexp --invert-match --only-matching --quiet"
    " --no-textconv --recurse-submodules --context: --after-context: --before-context: --null",
    "branch": "files" + LISTS,
    "tag": "files -n?" + LISTS,
    "remote": "files -v --verbose --all --push",
    "stash": "files" + COMMITS + DIFF,
    "worktree": "files --porcelain -v -z",
    "reflog": "files" + COMMITS + DIFF,
    "notes": "files",
    "config": "files --get --get-all --get-regexp --list -l --local --global --system --worktree"
    " --show-origin --show-scope --name-only --null -z --type: --bool --int --path --includes"
    " --no-includes --all --regexp --default:",
    "submodule": "files --recursive --cached",
    "bisect": "none",
}

# For subcommands that can also write: the first words that make them only read.
FIRST: dict[str, frozenset[str]] = {
    "stash": frozenset({"list", "show"}),
    "worktree": frozenset({"list"}),
    "notes": frozenset({"list", "show"}),
    "config": frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"}),
    "submodule": frozenset({"status"}),
    "bisect": frozenset({"log"}),
}
# `git branch --list x`: with one of these options, a name is a pattern or a commit, not a new
# branch.
NAMES_ARE_PATTERNS = frozenset(
    {"--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}
)
CREATE = frozenset({"branch", "tag"})

# Subcommands that only read. A rule for one of them is meant to allow only reading.
READERS = frozenset(ROWS) - CREATE - frozenset(FIRST) - {"remote", "reflog"}

# Format fields that make git check a signature, for which it starts a program.
SIGNATURE = re.compile(r"%[-+ ]?G|signature")
SIGNATURE_FIELD = re.compile(r"%[-+ ]?G|%\([^)]*signature")
FORMATS = ("--format", "--pretty", "--sort", "--group")
# `--diff-merges=remerge` merges again, for which git writes objects.
MERGES_AGAIN = re.compile(r"--diff-merges=(?:r|remerge)")


@cache
def row_of(name: str) -> ProgramOptions | None:
    text = ROWS.get(name)
    # `git log --help` opens the manual with a program that git's settings name.
    return None if text is None else parse_row(text, ())


def split_git(command: Simple) -> tuple[tuple[Word, ...], str, tuple[Word, ...]]:
    """Return the options before the subcommand, the subcommand itself, and its arguments."""
    arguments = command.words[1:]
    i = 0
    while i < len(arguments) and arguments[i].text.startswith("-"):
        i += 2 if arguments[i].text in GLOBAL_VALUES else 1
    name = arguments[i].text if i < len(arguments) and not arguments[i].dynamic else ""
    return arguments[:i], name, arguments[i + 1 :]


def normalize_git(command: Simple) -> str | None:
    """Return `git -C x push` as `git push`, so that a rule for `git push` matches it.

    Return None if there are no such options to remove, or the command is not git.
    """
    if not command.name.endswith("git") or command.name.rpartition("/")[2] != "git":
        return None
    front, name, rest = split_git(command)
    if not front or not name:
        return None
    return " ".join(["git", name, *(word.shown for word in rest)])


def git_reads(command: Simple, home: str) -> bool:
    front, name, rest = split_git(command)
    row = row_of(name)
    if row is None or any(word.text not in GLOBAL_PLAIN for word in front):
        return False
    # After a `cd`, the command may run in another repository, whose settings could start programs.
    if is_elsewhere(command, home):
        return False
    if name in FIRST:
        if not rest or rest[0].text not in FIRST[name]:
            return False
        rest = rest[1:] if not rest[0].text.startswith("-") else rest
    arguments = read_arguments(row, rest)
    return arguments is not None and words_read(name, arguments, rest)


def is_elsewhere(command: Simple, home: str) -> bool:
    """Return whether a command may run outside `home`, the session's working folder."""
    return not command.folders or any(
        folder != "." and folder.rstrip("/") != home for folder in command.folders
    )


def words_read(name: str, arguments: Arguments, rest: tuple[Word, ...]) -> bool:
    """Return whether a subcommand with these arguments only reads."""
    if any(SIGNATURE.search(word.text) for word in arguments.values(*FORMATS)):
        return False
    if merges_again(rest):
        return False
    operands = [word.text for word in arguments.operands]
    match name:
        case "branch" | "tag":
            # Older versions of `git branch -l` created a reflog. `git tag -l` has always listed
            # tags.
            lists = NAMES_ARE_PATTERNS | ({"-l"} if name == "tag" else set())
            return not operands or not lists.isdisjoint(arguments.names)
        case "remote":
            return not operands or (operands[0] == "get-url" and rest[0].text == "get-url")
        case "reflog":
            return not operands or rest[0].text in ("show", "exists", "list")
        case "bisect":
            return not operands
        case "config":
            # `git config --get a.b`: another word is a pattern, never a new value.
            return len(operands) <= 2
        case _:
            return True


def merges_again(rest: tuple[Word, ...]) -> bool:
    """Return whether `--diff-merges=remerge` is among the arguments, as one word or two."""
    return any(
        MERGES_AGAIN.fullmatch(f"{word.text}={after.text}") or MERGES_AGAIN.fullmatch(word.text)
        for word, after in pairwise((*rest, Word(raw="", text="")))
    )


# -- options that a rule for a read-only command does not cover

# Options of any subcommand that run programs, write files or connect, and their abbreviations.
HARMFUL = (
    "--output", "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--exec",
    "--upload-pack", "--paginate", "--web", "--man", "--info", "--show-signature", "--edit",
    "--batch", "--no-index", "--untracked", "--stdin", "--remerge-diff", "--help",
)  # fmt: skip
# Options before the subcommand that set configuration, which may name programs to start (`-c
# alias.x='!...'`).
SETS = re.compile(r"-c|--config-env|--exec-path=")
OPENS_PAGER = re.compile(r"-(?!-).*O", re.S)


def is_git_reader(command: Simple) -> bool:
    """Return whether the subcommand only reads, ignoring its options."""
    return split_git(command)[1] in READERS


def git_exceeds(command: Simple, home: str) -> bool:
    """Return whether an option or the folder of a read-only subcommand lets it do more than read.

    Options that set configuration, which precede the subcommand, have this effect on every
    subcommand.
    """
    front, name, rest = split_git(command)
    if any(SETS.match(word.text) for word in front):
        return True
    if name not in READERS:
        return False
    return (
        is_elsewhere(command, home)
        or any(is_harmful(word) for word in rest)
        or (name == "grep" and any(OPENS_PAGER.match(word.text) for word in rest))
        or merges_again(rest)
        or any(has_signature(word) for word in rest)
    )


def has_signature(word: Word) -> bool:
    """Return whether a word, an option or its value, may be a format with a signature field."""
    pattern = SIGNATURE if word.text.startswith("--") else SIGNATURE_FIELD
    return pattern.search(word.text) is not None


def is_harmful(word: Word) -> bool:
    """Return whether a word is a harmful option, or could expand to one."""
    if word.dynamic and not re.match(r"\"?[\w./@^~:-]*[\w./]", word.raw):
        return True
    if word.glob and word.text[:1] in "*?[-":
        return True
    name = word.text.partition("=")[0]
    if name == "--" or not name.startswith("--"):
        return False
    return any(option.startswith(name) for option in HARMFUL)
