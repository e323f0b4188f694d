"""Find the git command lines that could print files that rules deny or ask about.

Owns the table of subcommands that print stored files, and how a pathspec limits what they print.
`Context.held_by_git` reports which such files are in git's index or history; nothing here accesses
a repository.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from clew.permissions.decision import Finding
from clew.permissions.files import Bench, could_touch, guard, reaches
from clew.permissions.git import row_of, split_git
from clew.permissions.index import PathEntry
from clew.permissions.patterns import GLOB, find_original
from clew.permissions.programs import Arguments, read_arguments
from clew.permissions.request import HeldByGit, ResolvedPath
from clew.permissions.rules import Behavior, PermissionRule, RuleSet
from clew.permissions.shell import Simple, join_words
from clew.permissions.uses import Use
from clew.permissions.words import Word

RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")

# Subcommands that print contents unless an option asks for a summary.
BY_THEMSELVES = frozenset({"show", "diff", "stash"})
# Subcommands that print contents only if an option asks for them.
IF_TOLD = frozenset({"log", "whatchanged", "reflog", "diff-tree", "diff-files", "diff-index"})
# Subcommands that export stored contents as text, as an archive or as files in another folder.
EXPORTS = frozenset({"archive", "bundle", "difftool", "fast-export", "format-patch"})
ATTRIBUTIONS = frozenset({"blame", "annotate"})
READ = BY_THEMSELVES | IF_TOLD | ATTRIBUTIONS | {"range-diff", "status", "cat-file"}
PATCHES = frozenset(
    [
        "-p",
        "-u",
        "--patch",
        "-U",
        "--unified",
        "--patch-with-raw",
        "--patch-with-stat",
        "-c",
        "--cc",
        "-m",
        "--diff-merges",
        "-L",
        "-W",
        "--function-context",
        "--word-diff",
        "--word-diff-regex",
        "--color-words",
        "--binary",
        "--check",
        # Repeated searches with these options reveal the contents of a file, guess by guess.
        "-S",
        "-G",
        # So do these, with the similarity of a file to one whose content is guessed.
        "-C",
        "--find-copies",
        "--find-copies-harder",
    ]
)
SUMMARIES = frozenset({
    "-s", "--no-patch", "--stat", "--compact-summary", "--numstat", "--shortstat", "--dirstat",
    "-X", "--cumulative", "--summary", "--raw", "--name-only", "--name-status", "--quiet",
})  # fmt: skip
# With these options, a pathspec does not limit what is printed.
BEYOND_PATHS = frozenset({"--follow", "--full-diff", "-L"})
EVERYTHING = "."

# A blob or tree named by its path: `HEAD:x`, `:0:x`, `stash@{1}:x`, `HEAD^{tree}:x`.
NAMED = re.compile(r"[\w./~^@-]*(?:@\{\d+\}|\^\{\w*\})?:(?:[0-3]:)?([^:{}]+)")
HASH = re.compile(r"[0-9a-fA-F]{4,64}")
EXCLUDED = re.compile(r":(?:[!^]|\(exclude\))([^:!^()*?\[\]]+)")
PLAIN = re.compile(r"[\w./@+-]+")
MAGIC = re.compile(r":[(/!^]")
# These are certainly commits. Any other name could be a folder.
COMMIT = re.compile(r"(?:(?:FETCH_|ORIG_)?HEAD|@)(?:[~^]\d*|@\{\d+\})*")
# With these options, `git show` shows commits that no argument names.
MANY = frozenset({
    "--all", "--branches", "--tags", "--remotes", "--glob", "--reflog", "-g", "--walk-reflogs",
    "--merge", "--not", "--do-walk", "--exclude",
})  # fmt: skip
MOST_NAMED = 3


class Shown(Struct, frozen=True, kw_only=True):
    """The part of a repository whose contents a command prints.

    `below` lists paths, each of which includes everything below it; `without` lists excluded paths;
    `objects` lists object names. `has_trees` means that paths may be relative to a tree inside the
    repository.
    """

    below: tuple[str, ...]
    without: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    has_trees: bool = False


def shows_held(bench: Bench, command: Simple) -> Finding | None:
    """Return an `ask` finding for a git command that could print a restrained file's contents."""
    rules = bench.rules
    if not any(rules.paths[b, "read"].size for b in RESTRAINING):
        return None
    if command.name.rpartition("/")[2] != "git":
        return None
    front, name, rest = split_git(command)
    view = contents_shown(bench, name, rest)
    if view is None:
        return None
    for place in folders_of(command, front):
        folder = bench.resolve(place).real if place else ""
        holdings = bench.context.held_by_git(folder) if folder else HeldByGit()
        if not holdings.is_known:
            if is_open(view):
                why = (
                    "could show denied files: clew could not check the files in git's index and "
                    "history"
                )
                return guard(command.text, why, "read")
            continue
        reached = compares_folders(bench, rest, holdings, folder) if name == "diff" else None
        if reached is not None:
            return reached
        if any(oid.startswith(text) for text in view.objects for oid in holdings.blobs):
            return guard(
                command.text, "refers to the contents of a denied file by their object ID", "read"
            )
        met = [path for path in holdings.paths if is_shown(view, path, holdings, folder)]
        if met:
            return guard(command.text, why_met(rules, holdings, met, command, folder), "read")
    return None


def compares_folders(
    bench: Bench, rest: tuple[Word, ...], holdings: HeldByGit, folder: str
) -> Finding | None:
    """Return an `ask` finding for `git diff A B` outside a repository that could show denied files.

    Git then compares everything below two folders, even files that it does not track. It does the
    same if one of the folders is outside the repository.
    """
    end = next((i for i, word in enumerate(rest) if word.text == "--"), len(rest))
    operands = [w for i, w in enumerate(rest) if i > end or not w.text.startswith("-")]
    paths = [(word, bench.resolve(join_words(folder, word.path))) for word in operands]
    if len(paths) < 2 or (holdings.top and all(is_below(p.real, holdings.top) for _, p in paths)):
        return None
    for word, path in paths:
        use = Use(access="read", text=word.raw, paths=path.names, glob=word.glob, below=True)
        rule = reaches(bench, use, path)
        if rule is not None:
            return could_touch(word.raw, rule, "read")
    return None


def why_met(
    rules: RuleSet, holdings: HeldByGit, met: list[str], command: Simple, folder: str
) -> str:
    rule = find_restraining_rule(rules, f"{holdings.top}/{met[0]}")
    rule_text = rule.text if rule is not None else "a rule"
    verb = "asks about" if rule is not None and rule.behavior == "ask" else "denies"
    why = f"could show {met[0]}, which is stored in git and which {rule_text} {verb}"
    is_said = folder == holdings.top and not any(word.text == "--" for word in command.words)
    if not is_said or len(met) > MOST_NAMED or not all(map(PLAIN.fullmatch, met)):
        return why
    without = " ".join(f"':!{path}'" for path in met)
    them = "it" if len(met) == 1 else "them"
    return f'{why} (add "-- . {without}" to exclude {them})'


def find_restraining_rule(rules: RuleSet, path: str) -> PermissionRule | None:
    """Return a rule that denies reading a path or asks about it, or None.

    The case of letters is ignored.
    """
    names = tuple(filter(None, (find_original(path), path)))
    resolved = ResolvedPath(names=names, folds_case=True)
    for behavior in RESTRAINING:
        rule = rules.paths[behavior, "read"].find(resolved, "", untrusted=True)
        if rule is not None:
            return rule
    return None


def folders_of(command: Simple, front: tuple[Word, ...]) -> list[str]:
    """Return the folders that git may run in. An empty string means that the folder is unknown."""
    leading = [word.text for word in front]
    if any(text.startswith(("--git-dir", "--work-tree", "--namespace")) for text in leading):
        return [""]
    inside = "."
    for option, value in pairwise(front):
        if option.text == "-C":
            if value.dynamic or value.glob:
                return [""]
            inside = join_words(inside, value.path)
    return [join_words(folder, inside) for folder in command.folders] or [""]


def is_open(view: Shown) -> bool:
    """Return whether the command may print files that it does not name by path."""
    return EVERYTHING in view.below or bool(view.objects)


def is_shown(view: Shown, path: str, holdings: HeldByGit, folder: str) -> bool:
    parts = path.split("/")
    # In a tree inside the repository or in a subfolder, the end of a file's path is enough to name
    # the file.
    ends = ["/".join(parts[i:]) for i in range(len(parts))]
    if not any(is_below(end, place) for end in ends for place in view.below):
        return False
    if view.has_trees:
        return True
    full_path = f"{holdings.top.rstrip('/')}/{path}"
    relative_path = full_path.removeprefix(f"{folder.rstrip('/')}/")
    return relative_path == full_path or not any(
        is_below(relative_path, place) for place in view.without
    )


def is_below(path: str, place: str) -> bool:
    return place == EVERYTHING or path == place or path.startswith(f"{place}/")


def contents_shown(bench: Bench, name: str, rest: tuple[Word, ...]) -> Shown | None:
    """Return the part of a repository whose contents a subcommand prints, or None."""
    row = row_of(name)
    if name in EXPORTS or copies_repository(name, rest):
        return Shown(below=(EVERYTHING,), has_trees=True)
    if name in ("stash", "reflog") and rest and not rest[0].text.startswith("-"):
        # `git stash list` is a log, `git stash show` a diff.
        name = "log" if rest[0].text != "show" or name == "reflog" else name
        rest = rest[1:]
    if row is None or name not in READ:
        return None
    arguments = read_arguments(row, rest)
    if arguments is None:
        return Shown(below=(EVERYTHING,), has_trees=True)
    names = arguments.names
    if name in ATTRIBUTIONS:
        # With -C, git looks for the origin of each line in other files.
        return Shown(below=(EVERYTHING,), has_trees=True) if "-C" in names else None
    shows_patch = not names.isdisjoint(PATCHES)
    if name == "status":
        shows_patch = not names.isdisjoint({"-v", "-vv", "--verbose"})
    elif name in BY_THEMSELVES:
        shows_patch = shows_patch or names.isdisjoint(SUMMARIES)
    elif name in ("range-diff", "cat-file"):
        shows_patch = True
    objects = tuple(hashes(arguments.operands))
    if not shows_patch:
        # `git show --stat HASH` prints a blob in spite of `--stat`.
        return Shown(below=named_below(arguments), objects=objects) if name == "show" else None
    return limited(bench, name, arguments, rest, objects)


def copies_repository(name: str, rest: tuple[Word, ...]) -> bool:
    """Return whether the subcommand copies the repository's files to another folder."""
    texts = [word.text for word in rest if not word.text.startswith("-")]
    if name == "worktree":
        return texts[:1] == ["add"]
    return name == "clone" and bool(texts) and REMOTE.match(texts[0]) is None


REMOTE = re.compile(r"(?!file:)(?:[a-z+]+://|[\w.@-]+:)")


def named_below(arguments: Arguments) -> tuple[str, ...]:
    return tuple(path for word in arguments.operands for path in named_paths(word.text))


def named_paths(text: str) -> list[str]:
    match = NAMED.fullmatch(text)
    return [] if match is None or MAGIC.match(text) else [plain(match[1])]


def plain(path: str) -> str:
    """Return the normalized path if it is literal and below this folder, otherwise `EVERYTHING`.

    The result is `EVERYTHING` for a path that is absolute, contains `..` or a wildcard, or names
    this folder itself.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or path.startswith("/") or GLOB.search(path) or not parts:
        return EVERYTHING
    return "/".join(parts)


def literal(path: str) -> str:
    return EVERYTHING if path.startswith(":") else plain(path)


def hashes(words: Iterable[Word]) -> Iterator[str]:
    """Yield every part of the words that could be an object name."""
    for word in words:
        yield from (text.lower() for text in HASH.findall(word.text))


def limited(
    bench: Bench, name: str, arguments: Arguments, rest: tuple[Word, ...], objects: tuple[str, ...]
) -> Shown:
    """Return what a subcommand prints, limited by its operands and pathspecs."""
    operands = list(arguments.operands)
    texts = [word.text for word in rest]
    is_parted = "--" in texts
    count = len(texts) - texts.index("--") - 1 if is_parted else 0
    before = operands[: len(operands) - count]
    paths = [word.text for word in operands[len(before) :]]
    by_path: list[str] = []
    is_unsure = is_whole = False
    for word in before:
        word_paths = named_paths(word.text)
        by_path += word_paths
        if word_paths:
            continue
        if is_parted or COMMIT.fullmatch(word.text):
            is_whole = True
        elif paths or MAGIC.match(word.text) or is_file(bench, word):
            # After the first path, every operand is a path.
            paths.append(word.text)
        else:
            # The operand is a commit or a folder.
            is_whole = is_unsure = True
    if name == "cat-file":
        return Shown(below=tuple(by_path), objects=objects)
    is_limited = by_path and (
        (name == "show" and arguments.names.isdisjoint(MANY))
        or (name == "diff" and (len(by_path) > 1 or bool(paths)))
    )
    without = [spec[1] for text in paths if (spec := EXCLUDED.fullmatch(text)) is not None]
    places = [text for text in paths if not EXCLUDED.fullmatch(text)]
    below = list(by_path)
    if is_whole or places or not is_limited:
        everything = is_unsure or not places
        below += [EVERYTHING] if everything else [literal(text) for text in places]
    beyond = not BEYOND_PATHS.isdisjoint(arguments.names) or any(
        word.text == "diff" for word in arguments.values("--submodule")
    )
    is_between_trees = name not in ("log", "show", "stash", "status") and bool(objects)
    return Shown(
        below=(EVERYTHING,) if beyond else tuple(below),
        without=tuple(p for p in map(plain, without) if p != EVERYTHING and not beyond),
        objects=objects,
        has_trees=bool(by_path) or is_between_trees,
    )


def is_file(bench: Bench, word: Word) -> bool:
    """Return whether an operand names a file.

    Such an operand is not a revision, because git rejects a word that could be both.
    """
    return not (word.dynamic or word.glob) and bench.resolve(word.text).is_file


# -- rules as git pathspecs

ODD = re.compile(r"[^ -~]+|[*?\[\]\\]")
UNSURE = re.compile(r"[^ -~]|[\[\]\\]|\*\*")
MOST_SPECS = 400


def make_pathspecs(rules: RuleSet, top: str) -> tuple[str, ...] | None:
    """Return pathspecs for everything in a repository that restraining rules could match.

    The pathspecs may match more than the rules. Return None if there are too many pathspecs.
    """
    specs: dict[str, None] = {}
    for behavior in RESTRAINING:
        for entry in rules.paths[behavior, "read"].entries:
            specs |= dict.fromkeys(of_entry(entry, top))
            if len(specs) > MOST_SPECS:
                return None
    return tuple(specs)


def of_entry(entry: PathEntry, top: str) -> Iterator[str]:
    segments = tuple(
        "**" if UNSURE.search(part) and part != "**" else part for part in entry.segments
    )
    base = entry.base.rstrip("/")
    floating = ("**",) if entry.floating else ()
    if f"{base}/".casefold().startswith(f"{top}/".casefold()):
        inside = [ODD.sub("*", part) for part in base[len(top) :].split("/") if part]
        yield from spec((*inside, *floating, *segments))
    elif f"{top}/".casefold().startswith(f"{base}/".casefold()):
        # The first segments of the pattern may match folders above the repository.
        for i in range(len(segments) or 1):
            yield from spec(("**", *segments[i:]))


def spec(parts: tuple[str, ...]) -> Iterator[str]:
    text = "/".join(parts)
    yield f":(top,glob,icase){text}" if text else ":(top)"
    if text:
        yield f":(top,glob,icase){text}/**"
