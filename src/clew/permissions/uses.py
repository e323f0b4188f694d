"""Find the files that a command line would read and write, as far as its text shows.

Owns the tables of commands that write. For all other commands, every argument that could be a path
is treated as a file to read, so that an unlisted program cannot reveal a denied file.
"""

import re
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.permissions.patterns import GLOB, without_brackets
from clew.permissions.programs import (
    GIVES_PATTERN,
    NUMBER,
    ROWS,
    ProgramOptions,
    read_arguments,
    row_of,
)
from clew.permissions.shell import Redirect, Simple, join_words
from clew.permissions.words import Word
from clew.permissions.wrappers import WRAPPERS, find_starts, get_basename, read_env_assignments

Access = Literal["read", "write"]


class Use(Struct, frozen=True, kw_only=True):
    """A path that a command may touch.

    `paths` are its spellings, one for each folder in which the command may run; empty if unknown.
    `glob` means that they are patterns; `below`, that everything below the path is touched too;
    `named`, that the command is known to touch the path (otherwise the word may not be a path at
    all); `linked`, that the file only gets another name; `follows`, that links below the path are
    followed, even out of the folder.
    """

    access: Access
    text: str
    paths: tuple[str, ...]
    glob: bool = False
    below: bool = False
    named: bool = True
    linked: bool = False
    follows: bool = False


# Commands that write or remove all of their operands.
WRITES_ALL = frozenset({
    "rm", "rmdir", "unlink", "shred", "truncate", "touch", "mkdir", "chmod", "chown", "chgrp",
    "mkfifo", "mknod", "tee", "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd",
    "lz4", "compress", "uncompress", "setfacl", "chattr", "setfattr", "xattr", "sponge", "patch",
    "srm", "wipe", "trash",
})  # fmt: skip
# Commands that write their last operand and read the others.
WRITES_LAST = frozenset(["cp", "install", "ln", "rsync", "scp", "link", "ditto"])
WRITES_BOTH = frozenset({"mv", "rename"})
RECURSIVE = frozenset({"rm", "mv", "chmod", "chown", "chgrp", "rsync", "shred", "trash", "ln"})

# git subcommands that write the paths they name.
GIT_WRITES = frozenset({"rm", "mv", "checkout", "restore", "clean"})

# Options that name a file to write, for any command.
WRITING_OPTIONS = re.compile(
    r"(--output(?:-file|-document)?|--out|--outfile|--log-file|--target)=(.+)"
)
WRITING_LETTERS = {
    "sort": "-o",
    "curl": "-o",
    "wget": "-O",
    "gcc": "-o",
    "cc": "-o",
    "clang": "-o",
    "go": "-o",
    "tree": "-o",
    "xxd": "",
    "sdiff": "-o",
    "shuf": "-o",
    "ffmpeg": "",
    "pandoc": "-o",
}
PATH_SIGN = re.compile(r"[./~]")
TARGET_OPTIONS = frozenset({"-t", "--target-directory"})
IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")

# Programs whose arguments are text, not paths.
TEXT_ONLY = frozenset(name for name, row in ROWS.items() if row.startswith("text"))
PATTERN_FIRST = frozenset({"perl", "zgrep", "xargs"})
LISTS_NAMES = frozenset(
    {"find", "ls", "tree", "du", "stat", "cd", "fd", "fdfind", "namei", "realpath", "readlink"}
)
# These commands list the current folder if no operand names another one. All other commands that
# read it, such as `rg`, include it in their own uses.
LISTS_BY_ITSELF = frozenset({"ls", "tree", "du", "fd", "fdfind"})
# In `test`, the word after one of these operators is a file. On both sides of the comparisons
# below, the words are files.
FILE_TESTS = re.compile(r"-[abcdefghkprstuwxGLNOS]")
FILES_COMPARED = frozenset({"-nt", "-ot", "-ef"})
READS_BELOW = re.compile(
    r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--dereference-recursive|--archive|--directories=recurse"
)
CAN_READ_BELOW = frozenset(
    ["grep", "egrep", "fgrep", "zgrep", "cp", "scp", "ln", "install", "ditto"]
)
ALWAYS_BELOW = frozenset({"rg", "ag", "ack", "tar", "zip", "rsync", "7z", "ripgrep", "diff"})


def uses_of(command: Simple) -> list[Use]:
    """Return the files that one simple command touches.

    For a wrapper, these are only the files in its own options.
    """
    name = get_basename(command.words[0])
    if name in TEXT_ONLY and has_known_options(name, command):
        return variable_uses(command)
    return [*variable_uses(command), *argument_uses(command, name)]


def has_known_options(name: str, command: Simple) -> bool:
    """Return whether all options of a command are in its program's row, if there is a row.

    An option that is not in the row (`date -f`) may name a file.
    """
    row = row_of(name)
    return row is None or read_arguments(row, command.words[1:]) is not None


def current_folder_use(command: Simple) -> Use | None:
    """Return the current folder of a command that reads it without naming it, otherwise None."""
    name = get_basename(command.words[0])
    row = row_of(name) if name in LISTS_BY_ITSELF else None
    if row is not None:
        arguments = read_arguments(row, command.words[1:])
        patterns = 1 if row.operands == "pattern" else 0
        if arguments is None or len(arguments.operands) > patterns:
            return None
    elif name != "git":
        return None
    return touch(command, Word(raw=".", text="."), "read")


def variable_uses(command: Simple) -> list[Use]:
    """Return the files named by assignments before a command (`GIT_CONFIG=x git config -l`)."""
    every = [*command.assignments, *read_env_assignments(command)]
    values = [AT_HOME.sub("~", a.raw.partition("=")[2].strip("'\"")) for a in every]
    paths = [HERE.sub(".", value) for value in values if PATH_SIGN.search(value)]
    return [
        touch(command, Word(raw=path, text=path, tilde=path[:1] == "~"), "read", is_named=False)
        for path in paths
    ]


AT_HOME = re.compile(r"\A\$\{?HOME\}?(?=/)")
HERE = re.compile(r"\A\$\{?PWD\}?(?=/)")


def argument_uses(command: Simple, name: str) -> list[Use]:
    """Return the files that the arguments of a command touch."""
    flags, operands = parted(command.words[1:])
    below = name in ALWAYS_BELOW or (
        name in CAN_READ_BELOW and any(READS_BELOW.fullmatch(f.text) for f in flags)
    )
    uses = option_uses(command, name, flags)
    if name in WRAPPERS and name != "xargs":
        return uses
    if name == "find":
        return [*uses, *find_uses(command)]
    if name in WRITES_ALL:
        return [*uses, *(touch(command, w, "write", below=name in RECURSIVE) for w in operands)]
    if name in WRITES_LAST or name in WRITES_BOTH:
        return [*uses, *copy_uses(command, name, flags, operands, below=below)]
    if name == "dd":
        return dd_uses(command)
    if name == "git":
        return [*uses, *git_uses(command, operands)]
    if name in ("test", "["):
        return [touch(command, word, "read") for word in tested(command.words[1:])]
    row = row_of(name)
    if row is not None:
        return [*uses, *reader_uses(command, name, row)]
    reads = operands[1:] if name in PATTERN_FIRST and not pattern_by_option(flags) else operands
    has_pattern = name in PATTERN_FIRST
    uses += [touch(command, w, "read", below=below, is_named=has_pattern) for w in reads]
    if not has_pattern:
        values = [part(w, w.text.partition("=")[2]) for w in reads if "=" in w.text]
        values += [part(w, w.text) for w in reads if w.text[:1] == "@"]
        uses += [touch(command, value, "read", is_named=False) for value in values]
    if name == "xargs":
        option_words = [*values_of(command, "-a"), *values_of(command, "--arg-file")]
        uses += [touch(command, w, "read") for w in option_words]
    if in_place(name, flags):
        uses += [touch(command, w, "write") for w in reads]
    if command.more_arguments and has_pattern:
        uses.append(Use(access="read", text="names read from the input", paths=()))
    return uses


READS_BELOW_NAMES = frozenset({"-r", "-R", "--recursive", "--dereference-recursive"})


def reader_uses(command: Simple, name: str, row: ProgramOptions) -> list[Use]:
    """Return the files that a program in the table reads, according to its row."""
    _, operands = parted(command.words[1:])
    arguments = read_arguments(row, command.words[1:])
    follows = False
    # Whether possibly no word is a file to search, so that the program searches the current folder.
    searches_here = row.operands == "pattern" and arguments is None
    if arguments is None:
        # An unknown option may read an entire tree or a file of names, so every word may be a
        # file. It may also take the next word as its value or be the pattern itself, so none may be.
        below = name not in LISTS_NAMES
        reads = list(operands)
    else:
        below = name in ALWAYS_BELOW or (
            name in CAN_READ_BELOW and not READS_BELOW_NAMES.isdisjoint(arguments.names)
        )
        follows = name == "diff" and "--no-dereference" not in arguments.names
        reads = list(arguments.operands)
        is_given = not GIVES_PATTERN.isdisjoint(arguments.names)
        if row.operands == "pattern" and not is_given:
            # A shell pattern can become several words, of which all but the first are files. It
            # can also match no file and be the regular expression itself: `rg /?`.
            is_glob = bool(reads) and reads[0].glob
            searches_here = is_glob and len(reads) == 1
            reads = reads if is_glob else reads[1:]
    uses = [
        replace(
            touch(command, word, "read", below=below and name not in LISTS_NAMES), follows=follows
        )
        for word in reads
    ]
    # `@file` names a file with further arguments.
    uses += [touch(command, part(w, w.text), "read") for w in reads if w.text[:1] == "@"]
    if below and (not reads or searches_here) and name not in LISTS_NAMES:
        uses.append(touch(command, Word(raw=".", text="."), "read", below=True))
    flags, _ = parted(command.words[1:])
    if in_place(name, flags):
        uses += [touch(command, w, "write") for w in reads]
    if row.operands == "one" and len(reads) > 1:
        uses.append(touch(command, reads[-1], "write"))
    if command.more_arguments:
        uses.append(Use(access="read", text="names read from the input", paths=()))
    return uses


def tested(words: tuple[Word, ...]) -> list[Word]:
    """Return the files that a `test` command inspects."""
    files = [b for a, b in pairwise(words) if FILE_TESTS.fullmatch(a.text)]
    for before, operator, after in zip(words, words[1:], words[2:], strict=False):
        if operator.text in FILES_COMPARED:
            files += [before, after]
    return files


def parted(arguments: tuple[Word, ...]) -> tuple[list[Word], list[Word]]:
    """Return the options and the operands. After `--`, everything is an operand."""
    flags: list[Word] = []
    operands: list[Word] = []
    for i, word in enumerate(arguments):
        if word.text == "--":
            return flags, [*operands, *arguments[i + 1 :]]
        if word.text.startswith("-") and len(word.text) > 1:
            flags.append(word)
        else:
            operands.append(word)
    return flags, operands


def touch(
    command: Simple, word: Word, access: Access, *, below: bool = False, is_named: bool = True
) -> Use:
    return Use(
        access=access,
        text=word.raw,
        paths=resolve_word(word, command.folders),
        glob=word.glob,
        below=below,
        named=is_named,
    )


def resolve_word(word: Word, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return a word as paths relative to the session's folder.

    The result has one path for each folder in which the command may run. It is empty if the path
    is unknown.
    """
    # For an unquoted `$HOME/x`, the value is known, but not that it is a single word.
    if word.dynamic and not word.begins_with_folder:
        return ()
    path = without_brackets(word.path) if word.glob else word.path
    if path.startswith(("/", "~")):
        return (path,)
    return tuple(join_words(folder, path) for folder in folders)


def find_redirect_uses(redirect: Redirect) -> list[Use]:
    paths = resolve_word(redirect.word, redirect.folders)
    accesses: list[Access] = []
    if redirect.reads:
        accesses.append("read")
    if redirect.writes:
        accesses.append("write")
    return [
        Use(access=a, text=redirect.raw, paths=paths, glob=redirect.word.glob) for a in accesses
    ]


def option_uses(command: Simple, name: str, flags: list[Word]) -> list[Use]:
    """Return the files that options name: `--output=f`, `-of`, `--file=f`."""
    uses: list[Use] = []
    for word in flags:
        if name in ROWS and NUMBER.fullmatch(word.text):
            continue  # `tail -20`: no program of the table takes a file after a digit.
        written = WRITING_OPTIONS.fullmatch(word.text)
        if written:
            uses.append(touch(command, part(word, written[2]), "write"))
            continue
        _, equals, value = word.text.partition("=")
        attached = value if equals else word.text[2:] if not word.text.startswith("--") else ""
        # In a bundle (`-aF.env`), the value may begin after any letter.
        bundled = PATH_SIGN.search(attached) is not None and not equals
        texts = [attached[i:] for i in range(len(attached) if bundled else 1)]
        uses += [touch(command, part(word, t), "read", is_named=False) for t in texts if t]
    letter = WRITING_LETTERS.get(name)
    if letter:
        uses += [touch(command, w, "write") for w in values_of(command, letter)]
    return uses


def part(word: Word, text: str) -> Word:
    """Return a part of a word as a separate word.

    A leading `@`, which marks a file, is removed.
    """
    text = text.removeprefix("@")
    return Word(
        raw=word.raw, text=text, dynamic=word.dynamic, glob=word.glob, tilde=text[:1] == "~"
    )


def values_of(command: Simple, option: str) -> list[Word]:
    """Return the values of an option, whether separate or attached."""
    values: list[Word] = []
    words = command.words
    for i, word in enumerate(words[1:], 1):
        if word.text == option and i + 1 < len(words):
            values.append(words[i + 1])
        elif (
            word.text.startswith(option) and not word.text.startswith("--") and word.text != option
        ):
            values.append(part(word, word.text[len(option) :]))
    return values


def find_uses(command: Simple) -> list[Use]:
    starts = find_starts(command)
    deletes = any(w.text == "-delete" for w in command.words)
    uses = [touch(command, w, "write" if deletes else "read", below=deletes) for w in starts]
    for i, word in enumerate(command.words):
        if word.text in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            uses += [touch(command, w, "write") for w in command.words[i + 1 : i + 2]]
        elif word.text in ("-newer", "-samefile", "-anewer", "-cnewer", "-files0-from", "-f"):
            uses += [touch(command, w, "read") for w in command.words[i + 1 : i + 2]]
    return uses


def copy_uses(
    command: Simple, name: str, flags: list[Word], operands: list[Word], *, below: bool
) -> list[Use]:
    """Return what a copy, move or link reads and writes, including names inside a target folder."""
    targets = [w for option in TARGET_OPTIONS for w in values_of(command, option)]
    targets += [
        part(f, f.text.partition("=")[2]) for f in flags if f.text.startswith("--target-directory=")
    ]
    sources = [w for w in operands if w not in targets]
    if not targets and len(sources) > 1:
        targets, sources = sources[-1:], sources[:-1]
    reads = [touch(command, w, "read", below=below or name in ("mv", "ln")) for w in sources]
    if name == "ln":
        reads += [touch(command, w, "read", below=True) for w in meant(sources, targets)]
    uses = [replace(use, linked=name in ("ln", "mv")) for use in reads]
    if name in WRITES_BOTH:
        uses += [touch(command, w, "write", below=True) for w in sources]
    for target in targets:
        uses.append(touch(command, target, "write"))
        uses += [touch(command, inside(target, source), "write") for source in sources]
    return uses


def meant(sources: list[Word], targets: list[Word]) -> list[Word]:
    """Return the targets of relative links, resolved from the folder that contains the link."""
    words = []
    for target in targets:
        for folder in (target.text.rpartition("/")[0], target.text):
            words += [
                replace(source, text=f"{folder}/{source.text}", tilde=target.tilde)
                for source in sources
                if folder and not source.text.startswith(("/", "~"))
            ]
    return words


def inside(folder: Word, source: Word) -> Word:
    """Return the path that a copied file gets if the target is a folder."""
    text = f"{folder.text.rstrip('/')}/{source.text.rstrip('/').rpartition('/')[2]}"
    return Word(
        raw=folder.raw,
        text=text,
        dynamic=folder.dynamic or source.dynamic,
        glob=folder.glob or source.glob,
        tilde=folder.tilde,
    )


def dd_uses(command: Simple) -> list[Use]:
    uses = []
    for word in command.words[1:]:
        field, _, value = word.text.partition("=")
        if field in ("if", "of"):
            access: Access = "read" if field == "if" else "write"
            uses.append(touch(command, part(word, value), access))
    return uses


# `:(top)x`, `:/x`: a git pathspec, from the top of the repository or with pathspec magic.
PATHSPEC_MAGIC = re.compile(r":[(/^!]")
EXCLUDED = re.compile(r":(?:[!^]|\(exclude\))[^:!^()*?\[\]]+\Z")


def git_uses(command: Simple, operands: list[Word]) -> list[Use]:
    """Return the files that a git command names.

    A path may be plain, follow a revision (`HEAD:path`), or be a pathspec.
    """
    writes = bool(operands) and operands[0].text in GIT_WRITES
    uses: list[Use] = []
    for word in operands[1:]:
        text = word.text
        if EXCLUDED.match(text):
            continue  # An excluded path is not touched.
        if PATHSPEC_MAGIC.match(text):
            # The pathspec could match anything in the repository.
            uses.append(
                touch(command, Word(raw=word.raw, text="."), "read", below=True, is_named=False)
            )
            continue
        # git expands patterns itself, whether quoted or not.
        pattern = replace(word, glob=word.glob or GLOB.search(text) is not None)
        uses.append(touch(command, pattern, "read", is_named=False))
        uses += after_colons(command, pattern)
        if writes:
            uses.append(touch(command, word, "write"))
    if operands and operands[0].text == "grep":
        # `git grep` searches every tracked file, and its operands may be patterns.
        uses.append(touch(command, Word(raw=".", text="."), "read", below=True, is_named=False))
    for word in command.words[1:]:
        if word.text.startswith("-L"):
            uses += after_colons(command, part(word, word.text[2:]))
        elif word.text.startswith("--"):
            uses += after_colons(command, part(word, word.text.partition("=")[2]))
    for option, value in pairwise(command.words[1:]):
        if option.text == "-c":
            # A configuration value for this run: `include.path=x`.
            uses.append(
                touch(command, part(value, value.text.partition("=")[2]), "read", is_named=False)
            )
    if command.more_arguments or any(READS_NAMES.match(word.text) for word in command.words):
        uses.append(Use(access="read", text="names read from the input", paths=()))
    return uses


# With these options, git reads file names from its input.
READS_NAMES = re.compile(r"--stdin|--pathspec-from-file")


def after_colons(command: Simple, word: Word) -> list[Use]:
    """Return the text after each colon, which may be a path: `HEAD:path`, `:0:path`, `1,5:path`."""
    _, *rest = word.text.split(":")
    texts = [":".join(rest[i:]) for i in range(len(rest))]
    return [touch(command, part(word, text), "read", is_named=False) for text in texts if text]


def in_place(name: str, flags: list[Word]) -> bool:
    """Return whether a command writes the files that it reads, like `sed -i` and `perl -pi`."""
    return name in ("sed", "gsed", "perl", "ruby", "yq") and any(
        IN_PLACE.match(f.text) for f in flags
    )


def pattern_by_option(flags: list[Word]) -> bool:
    return any(re.match(r"-[a-zA-Z]*[ef]\b|--regexp|--file|--expression", f.text) for f in flags)
