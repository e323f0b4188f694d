"""The read-only programs, with every option that each may have and the number of its values.

Owns the table and the parsing of arguments according to it. A program or an option that is not
listed is not known to be harmless. A program is listed only if no option in its row writes, runs
another program, connects, follows links out of a tree, or loads code from the project (not even for
`--version`). `git` has its own rows in `git`. Programs whose arguments are code (`sed`, `awk`,
`find`, `jq`) are checked further in `readonly`.
"""

import re
from functools import cache
from typing import Literal

from msgspec import Struct

from clew.permissions.words import Word

# What the operands are: files, text, one file (the program would write a second one), a pattern
# followed by files, or none.
Operands = Literal["files", "text", "pattern", "one", "none"]
KINDS: dict[str, Operands] = {
    "files": "files",
    "text": "text",
    "pattern": "pattern",
    "one": "one",
    "none": "none",
}

NUMBER = re.compile(r"-[0-9]+")
VALUE = re.compile(r"-(?:[0-9]+)?")

# Each row is the kind of the operands, followed by the options. `-n:` has a value, attached or as
# the next word; `--color?` has one only after `=`, `-U?` only attached; `--arg::` has two words;
# `-NUM` is a number. Five words are flags. `loose`: no option of the program is harmful, so `*` may
# expand to words that look like options. `suffixed`: `*.py` may expand to such words, because no
# option that ends like this is harmful. `exact`: letters cannot be bundled. `posix`: options end at
# the first operand. `free`: no word is an option, even if it looks like one.
ROWS: dict[str, str] = {
    "cat": "files loose -A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends"
    " --number --squeeze-blank --show-tabs --show-nonprinting",
    "tac": "files loose -b -r -s: --before --regex --separator:",
    "nl": "files loose -b: -d: -f: -h: -i: -l: -n: -p -s: -v: -w: --body-numbering:"
    " --number-format: --number-separator: --starting-line-number: --number-width:",
    "ls": "files loose -a -A -b -B -c -C -d -f -F -g -G -h -H -i -I: -k -l -L -m -n -N -o -p -q -Q"
    " -r -R -s -S -t -T: -u -U -v -w: -x -X -Z -1 --all --almost-all --author --escape"
    " --block-size: --ignore-backups --color? --directory --classify? --file-type --format:"
    " --full-time --group-directories-first --no-group --human-readable --si --hide:"
    " --indicator-style: --inode --ignore: --kibibytes --dereference --literal --numeric-uid-gid"
    " --quote-name --quoting-style: --reverse --recursive --size --sort: --time: --time-style:"
    " --tabsize: --width: --context --zero",
    "stat": "files loose -L -f -c: -t -x --dereference --file-system --cached: --format: --printf:"
    " --terse",
    "realpath": "files loose -e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing"
    " --logical --physical --quiet --relative-to: --relative-base: --strip --no-symlinks --zero",
    "readlink": "files loose -f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing"
    " --canonicalize-missing --no-newline --quiet --silent --verbose --zero",
    "cut": "files loose -b: -c: -d: -f: -n -s -z --bytes: --characters: --delimiter: --fields:"
    " --complement --only-delimited --output-delimiter: --zero-terminated",
    "paste": "files loose -d: -s -z --delimiters: --serial --zero-terminated",
    "comm": "files loose -1 -2 -3 -z --check-order --nocheck-order --output-delimiter: --total"
    " --zero-terminated",
    "cmp": "files loose -b -i: -l -n: -s --print-bytes --ignore-initial: --verbose --bytes:"
    " --quiet --silent",
    "od": "files loose -A: -j: -N: -S: -t: -v -a -b -c -d -f -i -l -o -s -x --address-radix:"
    " --skip-bytes: --read-bytes: --format: --output-duplicates",
    "hexdump": "files -b -c -C -d -n: -o -s: -v -x",
    "hd": "files -n: -s: -v",
    "strings": "files -a -f -n: -t: -e: -o -NUM --all --print-file-name --bytes: --radix:"
    " --encoding:",
    "rev": "files loose",
    "fold": "files loose -b -s -w: -NUM --bytes --spaces --width:",
    "fmt": "files loose -c -p: -s -t -u -w: -g: -NUM --width: --split-only --uniform-spacing",
    "expand": "files loose -i -t: --initial --tabs:",
    "unexpand": "files loose -a -t: --all --first-only --tabs:",
    "column": "files loose -t -s: -o: -c: -x -n -e",
    "join": "files loose -a: -e: -i -j: -1: -2: -o: -t: -v: -z --ignore-case --header"
    " --check-order --nocheck-order",
    "head": "files loose -c: -n: -q -v -z -NUM --bytes: --lines: --quiet --silent --verbose"
    " --zero-terminated",
    "tail": "files loose -c: -n: -q -v -z -r -NUM --bytes: --lines: --quiet --silent --verbose"
    " --zero-terminated",
    "tsort": "files loose",
    "df": "files loose -a -B: -h -H -i -k -l -P -t: -T -x: --all --block-size: --total"
    " --human-readable --si --inodes --local --portability --output? --type: --print-type"
    " --exclude-type:",
    "namei": "files loose -l -m -o -v -x",
    # In macOS, `-i` takes a file.
    "base64": "files -d -w: --decode --ignore-garbage --wrap:",
    "base32": "files -d -i -w: --decode --ignore-garbage --wrap:",
    # `--files0-from` reads names from a file; these programs have no other harmful option.
    "wc": "files suffixed -c -m -l -L -w --bytes --chars --lines --max-line-length --words --total:",
    "du": "files suffixed -a -A -b -B: -c -d: -h -H -k -L -m -P -s -S -t: -x -0 --all --apparent-size"
    " --block-size: --bytes --total --max-depth: --exclude: --human-readable --inodes"
    " --one-file-system --separate-dirs --si --summarize --threshold: --time? --time-style: --null",
    **dict.fromkeys(
        [
            "b2sum",
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
        ],
        "files -b -t -z --binary --text --tag --zero",
    ),
    "cksum": "files -a: -z --algorithm: --untagged --tag --zero",
    "sum": "files loose -r -s --sysv",
    "shasum": "files -a: -b -t -0 --algorithm: --binary --text --tag",
    "diff": "files -q -s -c -C: -u -U: -e -n -y -p -F: -t -T -i -E -Z -b -w -B -I: -a -d -H -N -r"
    " -W: -L: -x: -NUM --brief --report-identical-files --context? --unified? --ed --rcs"
    " --side-by-side --width: --left-column --suppress-common-lines --show-c-function"
    " --show-function-line: --label: --expand-tabs --initial-tab --tabsize: --ignore-case"
    " --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space"
    " --ignore-blank-lines --ignore-matching-lines: --strip-trailing-cr --text --color? --normal"
    " --minimal --speed-large-files --recursive --new-file --exclude: --no-dereference",
    "uniq": "one -c -d -D -f: -i -s: -u -w: -z --count --repeated --all-repeated? --group?"
    " --skip-fields: --ignore-case --skip-chars: --unique --check-chars: --zero-terminated",
    "xxd": "one exact posix -a -b -c: -C -d -e -E -g: -i -l: -n: -o: -p -ps -plain -s: -u",
    "file": "files -b -i -k -L -h -N -r -0 --brief --mime --mime-type --mime-encoding"
    " --keep-going --dereference --no-dereference --no-pad --raw --print0 --extension",
    "tree": "files exact -a -d -f -i -x -L: -P: -I: -p -s -h -u -g -D -F -q -N -v -r -t -c -U -C -n -A -S"
    " -J -X --gitignore --noreport --dirsfirst --filesfirst --filelimit: --prune --matchdirs"
    " --ignore-case --du --si --charset: --sort: --inodes --device",
    **dict.fromkeys(
        ["grep", "egrep", "fgrep"],
        "pattern suffixed -A: -B: -C: -E -F -G -P -e: -i -y -v -w -x -c -l -L -m: -o -q -s -b -H -h"
        " -n -T -u -U -Z -z -a -I -r -NUM --extended-regexp --fixed-strings --basic-regexp"
        " --perl-regexp --regexp: --ignore-case --no-ignore-case --invert-match --word-regexp"
        " --line-regexp --count --color? --colour? --files-with-matches --files-without-match"
        " --max-count: --only-matching --quiet --silent --no-messages --byte-offset"
        " --with-filename --no-filename --line-number --initial-tab --null --null-data --text"
        " --binary-files: --exclude: --exclude-dir: --include: --recursive --line-buffered"
        " --after-context: --before-context: --context: --label: --binary",
    ),
    "rg": "pattern -A: -B: -C: -a -c -E: -e: -F -g: -H -i -I -j: -l -m: -M: -n -N -o -p -P -q -r:"
    " -s -S -t: -T: -u -U -v -w -x -0 -. --after-context: --before-context: --context:"
    " --block-buffered --byte-offset --case-sensitive --color: --colors: --column"
    " --no-column --context-separator: --count --count-matches --crlf --debug --encoding: --files"
    " --files-with-matches --files-without-match --fixed-strings --glob: --iglob:"
    " --glob-case-insensitive --heading --no-heading --hidden --ignore-case --include-zero"
    " --invert-match --json --line-buffered --line-number --no-line-number --line-regexp"
    " --max-columns: --max-columns-preview --max-count: --max-depth: --maxdepth: --max-filesize:"
    " --multiline --multiline-dotall --no-config --no-filename --no-ignore --no-ignore-parent"
    " --no-ignore-vcs --no-messages --null --only-matching --passthru --path-separator: --pcre2"
    " --pretty --quiet --regexp: --replace: --smart-case --sort: --sortr: --stats --text"
    " --threads: --trim --no-trim --type: --type-add: --type-clear: --type-not: --type-list"
    " --unrestricted --vimgrep"
    " --with-filename --word-regexp",
    **dict.fromkeys(
        ["fd", "fdfind"],
        "pattern -H -I -u -s -i -g -F -a -p -d: -E: -t: -e: -S: -c: -0 -1 -q --hidden --no-ignore"
        " --no-ignore-vcs --no-ignore-parent --unrestricted --case-sensitive --ignore-case --glob"
        " --regex --fixed-strings --absolute-path --full-path --max-depth: --min-depth:"
        " --exact-depth: --prune --exclude: --type: --extension: --size: --changed-within:"
        " --changed-before: --owner: --color: --print0 --max-results: --quiet --threads:"
        " --show-errors --strip-cwd-prefix?",
    ),
    "sort": "files -b -d -f -g -h -i -k: -m -M -n -r -R -s -t: -u -V -z -c -C --key:"
    " --field-separator: --unique --reverse --numeric-sort --general-numeric-sort"
    " --human-numeric-sort --version-sort --month-sort --random-sort --dictionary-order"
    " --ignore-case --ignore-leading-blanks --ignore-nonprinting --stable --merge --check?"
    " --sort: --zero-terminated --debug",
    "echo": "text free",
    "true": "text free",
    "false": "text free",
    ":": "text free",
    # Ends the shell, which runs only this command line.
    "exit": "text",
    "printf": "text posix",
    "seq": "text loose -f: -s: -w -NUM --format: --separator: --equal-width",
    "basename": "text loose -a -s: -z --multiple --suffix: --zero",
    "dirname": "text loose -z --zero",
    "type": "text loose -a -f -p -P -t",
    "which": "text loose -a",
    "command": "text -v -V",
    "tr": "text loose -c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1",
    "expr": "text free",
    "sleep": "text",
    "test": "files free",
    "[": "files free",
    "pwd": "none -L -P --logical --physical",
    "whoami": "none",
    "groups": "text",
    "uname": "none -a -s -n -r -v -m -p -i -o --all",
    "arch": "none",
    "nproc": "none --all --ignore:",
    "uptime": "none -p -s",
    "free": "none -b -k -m -g -h -t -w -l --human --mega --giga --total --wide",
    "tty": "none -s",
    "locale": "none -a -m",
    "logname": "none",
    "id": "text -a -g -G -n -r -u -z --group --groups --name --real --user --zero",
    "lscpu": "none -a -b -c -J -x",
    "lsblk": "none -a -b -d -f -J -l -m -p -t",
    "sw_vers": "none -productVersion -buildVersion exact",
    "hostname": "none -I -s",
    "date": "text -d: -I? -R -u --date: --iso-8601? --rfc-3339: --rfc-email --utc --universal",
    "cal": "text -1 -3 -j -m -s -y",
    "ncal": "text -1 -3 -j -m -s -y",
    "getconf": "text -a",
    "ps": "text exact -e -f -ef -A -a -l -p: -u: -C: --forest --sort: --no-headers -eo: -o: -axo:"
    " --ppid: --pid:",
    "cd": "files -P -L -e",
    "jq": "pattern -r -R -c -n -s -S -e -C -M -a -j --raw-output --raw-input --compact-output"
    " --null-input --slurp --sort-keys --exit-status --color-output --monochrome-output"
    " --ascii-output --join-output --tab --indent: --arg:: --argjson:: --stream --seq --args"
    " --jsonargs",
    "find": "files",
    "sed": "pattern -n -e: -E -r -s -u -z -l: --quiet --silent --expression: --regexp-extended"
    " --separate --unbuffered --null-data --line-length: --posix --debug --sandbox",
    "awk": "pattern posix -F: -v:",
    "gawk": "pattern posix -F: -v: --field-separator: --assign:",
    "mawk": "pattern posix -F: -v:",
    "nawk": "pattern posix -F: -v:",
}

# Programs that print their version with `--version` without loading any project code.
TELLS_VERSION = frozenset({
    "node", "python", "python3", "pip", "pip3", "uv", "ruff", "java", "javac", "gcc", "g++",
    "clang", "make", "cmake", "git", "docker", "ruby", "perl", "php", "jq", "rg", "bash", "zsh",
    "curl", "gh",
})  # fmt: skip
VERSION_OPTIONS = frozenset({"--version"})
# The letters of other programs may mean something else: `zsh -V` reads a script from its input.
SHORT_VERSION = frozenset([
    ("node", "-v"), ("ruby", "-v"), ("perl", "-v"), ("php", "-v"), ("java", "-version"),
    *((name, "-V") for name in (
        "python", "python3", "pip", "pip3", "uv", "ruff", "jq", "rg", "curl", "perl",
    )),
])  # fmt: skip

# Options that write, run programs or open other files. A rule that only names the program is not
# meant to allow them. Abbreviated names and bundled letters are recognized.
HARMFUL: dict[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "base64": "-o --output",
        "base32": "-o --output",
        "date": "-s --set -f --file",
        "diff": "--to-program --diff-program --output --from-file --to-file -l --paginate",
        "fd": "-x -X --exec --exec-batch -l --list-details --gen-completions",
        "fdfind": "-x -X --exec --exec-batch -l --list-details --gen-completions",
        "file": "-C --compile -f --files-from -z -Z -S -m --magic-file",
        "grep": "-f --file -R --dereference-recursive",
        "egrep": "-f --file -R --dereference-recursive",
        "fgrep": "-f --file -R --dereference-recursive",
        "hostname": "-F --file -b --boot",
        "jq": "-f --from-file -L --args-file --rawfile --slurpfile",
        "printf": "-v",
        "rg": "-L --follow --pre --hostname-bin --search-zip -z --generate --config --engine -f --file",
        "sort": "-o --output --compress-program -T --temporary-directory --files0-from",
        "test": "-v -R",
        "tree": "-o -R --fromfile --output --info",
        "xxd": "-r -revert --revert",
        "cksum": "-c --check",
        "shasum": "-c --check",
        "wc": "--files0-from",
        "du": "--files0-from -X --exclude-from",
    }.items()
}

# Options that supply the pattern, so that no operand is the pattern.
GIVES_PATTERN = frozenset(["-e", "--regexp", "--expression", "--files", "--type-list"])


class ProgramOptions(Struct, frozen=True, kw_only=True):
    """The options of one program, grouped by the values they take, and the kind of its operands."""

    operands: Operands
    flags: frozenset[str]
    valued: frozenset[str]
    optional: frozenset[str]
    pairs: frozenset[str]

    @property
    def is_loose(self) -> bool:
        return "loose" in self.flags

    @property
    def is_free(self) -> bool:
        return "free" in self.flags


class Arguments(Struct, frozen=True, kw_only=True):
    """Arguments as the program would parse them: options with their values, and operands."""

    options: tuple[tuple[str, Word | None], ...]
    operands: tuple[Word, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.options)

    def values(self, *names: str) -> list[Word]:
        return [value for name, value in self.options if name in names and value is not None]


def parse_row(text: str, common: tuple[str, ...] = ("--help", "--version")) -> ProgramOptions:
    kind, *options = text.split()
    flags = set(common)
    valued, optional, pairs = set[str](), set[str](), set[str]()
    for option in options:
        if option.endswith("::"):
            pairs.add(option[:-2])
        elif option.endswith(":"):
            valued.add(option[:-1])
        elif option.endswith("?"):
            optional.add(option[:-1])
        else:
            flags.add(option)
    return ProgramOptions(
        operands=KINDS[kind],
        flags=frozenset(flags),
        valued=frozenset(valued),
        optional=frozenset(optional),
        pairs=frozenset(pairs),
    )


@cache
def row_of(name: str) -> ProgramOptions | None:
    """Return the row of a program, given its base name, or None if it is not in the table.

    Rows are parsed on first use.
    """
    text = ROWS.get(name)
    return None if text is None else parse_row(text)


def may_be_option(word: Word) -> bool:
    """Return whether a word could expand to an option.

    It could if its value is unknown or if it begins with a wildcard.
    """
    return word.dynamic or (word.glob and word.text[:1] in "*?[-")


SUFFIX = re.compile(r"[*?]\.[A-Za-z0-9_]+\Z")


def is_open(row: ProgramOptions, word: Word) -> bool:
    """Return whether a word could expand to an option that is harmful for the program."""
    if row.is_loose or not may_be_option(word):
        return False
    return "suffixed" not in row.flags or word.dynamic or SUFFIX.search(word.text) is None


def read_arguments(row: ProgramOptions, words: tuple[Word, ...]) -> Arguments | None:
    """Return the arguments as a row parses them, or None if an option is not in the row.

    Options may follow operands. A variable is accepted only if the row says that operands are text.
    """
    if row.is_free:
        return Arguments(options=(), operands=words)
    options: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    pending = list(reversed(words))
    while pending:
        word = pending.pop()
        text = word.text
        if word.dynamic and row.operands != "text":
            return None
        if not text.startswith("-") or text == "-":
            if is_open(row, word):
                return None
            operands.append(word)
            if "posix" in row.flags:
                operands += reversed(pending)
                break
        elif text == "--":
            operands += reversed(pending)
            break
        elif word.dynamic or not read_option(row, word, pending, options):
            return None
    if any(word.dynamic for word in operands) and row.operands != "text":
        return None
    return Arguments(options=tuple(options), operands=tuple(operands))


def read_option(
    row: ProgramOptions, word: Word, pending: list[Word], options: list[tuple[str, Word | None]]
) -> bool:
    """Parse one option and its values, and return whether the row allows it."""
    text = word.text
    name, equals, value = text.partition("=")
    if text.startswith("--") or "exact" in row.flags:
        return read_long(row, word, name, value if equals else None, pending, options)
    if NUMBER.fullmatch(text) and text[:2] not in row.flags:
        options.append(("-NUM", None))
        return "-NUM" in row.flags
    for place in range(1, len(text)):
        letter, rest = f"-{text[place]}", text[place + 1 :]
        if letter in row.valued:
            if not rest:
                return take_value(row, letter, pending, options)
            options.append((letter, attached(word, rest)))
            return True
        if letter in row.optional:
            options.append((letter, attached(word, rest) if rest else None))
            return True
        # A pattern among the letters could expand to other letters.
        if letter not in row.flags or word.glob:
            return False
        options.append((letter, None))
    return True


def read_long(
    row: ProgramOptions,
    word: Word,
    name: str,
    value: str | None,
    pending: list[Word],
    options: list[tuple[str, Word | None]],
) -> bool:
    if value is not None:
        if name not in row.valued and name not in row.optional:
            return False
        options.append((name, attached(word, value)))
        return not GLOB_SIGN.search(name)
    if word.glob:
        return False
    if name in row.valued:
        return take_value(row, name, pending, options)
    if name in row.pairs:
        return take_value(row, name, pending, options) and take_value(row, name, pending, options)
    options.append((name, None))
    return name in row.flags or name in row.optional


GLOB_SIGN = re.compile(r"[*?\[]")


def take_value(
    row: ProgramOptions, name: str, pending: list[Word], options: list[tuple[str, Word | None]]
) -> bool:
    """Use the next word as the value of an option.

    Return whether the value is certain to be exactly one word.
    """
    if not pending:
        return False
    value = pending.pop()
    options.append((name, value))
    if value.dynamic:
        return row.operands == "text"
    # A pattern may expand to several words, and a program may not accept a value that looks like an
    # option.
    return not value.glob and (
        not value.text.startswith("-") or VALUE.fullmatch(value.text) is not None
    )


def attached(word: Word, text: str) -> Word:
    """Return the value attached to an option as a separate word."""
    return Word(raw=text, text=text, dynamic=word.dynamic, glob=word.glob, tilde=text[:1] == "~")
