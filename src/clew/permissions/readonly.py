"""Which commands only look, by table, with the options that would make them do more.

Owns the table of readers and the checks of `sed`, `awk`, `find` and `jq`, whose arguments are
programs. `git` has its own table (see `git`). A command that is not here is not known to only look;
no flag is guessed at: for programs with many options the harmless ones are listed, not the others.
"""

import re
from typing import Literal

from msgspec import Struct

from clew.permissions.git import git_exceeds, git_looks
from clew.permissions.shell import Simple
from clew.permissions.words import SECRET_NAME, Word

# What the operands of a reader are: files, text, or a pattern and then files.
Operands = Literal["files", "text", "pattern", "none", "one"]


class Reader(Struct, frozen=True, kw_only=True):
    """One command that looks. `bad` options do more; `only`, if set, are the harmless ones."""

    operands: Operands = "files"
    bad: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


def reader(operands: Operands, bad: str = "", only: str | None = None) -> Reader:
    harmless = None if only is None else frozenset(only.split())
    return Reader(operands=operands, bad=frozenset(bad.split()), only=harmless)


def same(names: str, row: Reader) -> dict[str, Reader]:
    return dict.fromkeys(names.split(), row)


READERS: dict[str, Reader] = {
    **same("cat tac nl ls dir vdir stat realpath readlink cut paste comm cmp", reader("files")),
    **same("od hexdump hd strings rev fold fmt expand unexpand column join", reader("files")),
    **same("head tail tsort pr look df namei pathchk", reader("files")),
    **same("base64 base32", reader("files", bad="-o --output")),
    **same("wc du", reader("files", bad="--files0-from")),
    **same("sum cksum b2sum md5sum sha1sum sha224sum sha256sum", reader("files", bad="-c --check")),
    **same("sha384sum sha512sum shasum", reader("files", bad="-c --check")),
    **same(
        "diff diff3", reader("files", bad="-r --recursive --to-program --diff-program --output")
    ),
    **same("uniq", reader("one")),
    **same("xxd", reader("one", bad="-r -revert --revert")),
    **same("file", reader("files", bad="-C --compile -f --files-from -z -Z -S")),
    **same("tree", reader("files", bad="-o -R --fromfile --output")),
    # What follows links on its way down may end anywhere.
    **same("grep egrep fgrep", reader("pattern", bad="-R --dereference-recursive")),
    **same(
        "rg",
        reader(
            "pattern",
            bad="-L --follow --pre --hostname-bin --search-zip -z --generate --config --engine",
        ),
    ),
    **same("ag ack", reader("pattern", only="-i -l -c -n -w -v -L -Q")),
    **same(
        "fd fdfind",
        reader("pattern", bad="-x -X --exec --exec-batch -l --list-details --gen-completions"),
    ),
    **same(
        "sort",
        reader(
            "files", bad="-o --output --compress-program -T --temporary-directory --files0-from"
        ),
    ),
    **same("printf", reader("text", bad="-v")),
    **same("echo seq true false : basename dirname type which tr expr sleep", reader("text")),
    **same("test [", reader("files", bad="-v")),
    **same("pwd whoami groups uname arch nproc uptime free tty locale logname", reader("text")),
    **same("id lscpu lsblk sw_vers", reader("text")),
    **same("hostname", reader("none", bad="-F --file -b --boot")),
    **same("date", reader("text", bad="-s --set -f --file")),
    **same("cal ncal getconf", reader("text")),
    **same("ps", reader("none", only="-e -f -ef -A -a -x -l -p -eo -o -u --sort aux ax axu")),
    **same("command", reader("text", only="-v -V")),
    **same("cd", reader("files", only="-P -L --")),
    **same("export declare local readonly typeset", reader("text", only="-x -r -a -A -g")),
    **same("jq", reader("pattern", bad="-f --from-file -L --args-file --rawfile --slurpfile")),
}

# Programs that only tell their version when asked for nothing else.
VERSIONED = frozenset(
    [
        "node",
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "bun",
        "deno",
        "python",
        "python3",
        "pip",
        "pip3",
        "uv",
        "ruff",
        "mypy",
        "pytest",
        "cargo",
        "rustc",
        "go",
        "java",
        "javac",
        "gcc",
        "g++",
        "clang",
        "make",
        "cmake",
        "git",
        "docker",
        "ruby",
        "perl",
        "php",
        "tsc",
        "jq",
        "rg",
        "bash",
        "zsh",
    ]
)
VERSION_FLAGS = frozenset({"--version", "-V", "version"})

SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")

HARMLESS_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|CI|DEBUG"
    r"|NODE_ENV|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED|PYTHONUNBUFFERED"
    r"|PYTHONDONTWRITEBYTECODE|[a-z_][a-z0-9_]*"
)

# Variables that change which program runs, what it loads first, or where its data goes.
MEANING = re.compile(
    r"PATH|CDPATH|IFS|ENV|BASH_ENV|BASH_\w*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|HOME|SHELL"
    r"|FIGNORE|GLOBIGNORE|POSIXLY_CORRECT|LD_\w+|DYLD_\w+|GIT_\w+|SSH_\w+|GCONV_PATH|LOCPATH"
    r"|NLSPATH|TERMINFO\w*|TMPDIR|EDITOR|VISUAL|BROWSER|\w*PAGER|LESS\w*|MANOPT|PYTHON(?!UNBUFFERED|"
    r"DONTWRITEBYTECODE)\w+|NODE_OPTIONS|NODE_PATH|NPM_\w+|npm_\w+|PERL\w+|RUBY\w+|GEM_\w+|BUNDLE_\w+"
    r"|JAVA_\w+|_JAVA_OPTIONS|JDK_\w+|CLASSPATH|GREP_OPTIONS|GREP_COLORS?|RIPGREP_CONFIG_PATH|TAR_\w+"
    r"|\w+_PROXY|\w+_proxy|SSL_CERT_\w+|CURL_\w+|AWS_\w+|DOCKER_\w+|KUBECONFIG|OPENSSL_\w+|CLEW_\w+"
    r"|CLAUDE_\w+|ANTHROPIC_\w+|RUSTC\w*|CARGO_\w+|GO(?:FLAGS|PROXY|PATH|ROOT)|CC|CXX|LESSOPEN|MAIL\w*"
)


def changes_meaning(name: str) -> bool:
    return MEANING.fullmatch(name) is not None


def looks_only(command: Simple) -> bool:
    """Whether a command is known to change nothing, whatever files it names."""
    if not all(HARMLESS_VARIABLES.fullmatch(a.name) for a in command.assignments):
        return False
    first = command.words[0]
    name = first.text
    for folder in SYSTEM_FOLDERS:
        name = name.removeprefix(folder)
    if first.dynamic or first.glob or "/" in name:
        return False
    arguments = command.words[1:]
    if name in VERSIONED and len(arguments) == 1 and arguments[0].text in VERSION_FLAGS:
        return True
    if any(tells_secret(word) for word in arguments):
        return False
    match name:
        case "git":
            return git_looks(command)
        case "find":
            return find_looks(arguments)
        case "sed":
            return sed_looks(arguments)
        case "awk" | "gawk" | "mawk" | "nawk":
            return awk_looks(arguments)
        case "date":
            return date_looks(arguments) and table_looks(READERS[name], command)
        case "read":
            return read_looks(arguments)
        case "export" | "declare" | "local" | "readonly" | "typeset" if any(
            word.dynamic for word in arguments
        ):
            return False
        case "jq":
            return jq_looks(arguments) and table_looks(READERS[name], command)
        case _:
            row = READERS.get(name)
            return row is not None and table_looks(row, command)


def exceeds_looking(command: Simple) -> bool:
    """Whether a command made for looking is asked to do more: `find -delete`, `sort -o`.

    A rule that only names such a command hardly meant this.
    """
    name = command.name.rpartition("/")[2]
    arguments = command.words[1:]
    if name == "find":
        return not find_looks(arguments)
    if name == "git":
        return git_exceeds(command)
    row = READERS.get(name)
    if row is not None and any(tells_secret(word) for word in arguments):
        return True
    if row is None or not (row.bad or row.operands == "one"):
        return False
    flags, operands = parted(arguments)
    return (
        any(may_be_flag(word) for word in arguments)
        or any(is_bad(flag.text, row.bad) for flag in flags)
        or (row.operands == "one" and len(operands) > 1)
    )


def tells_secret(word: Word) -> bool:
    return any(SECRET_NAME.search(name) for name in word.variables)


def table_looks(row: Reader, command: Simple) -> bool:
    arguments = command.words[1:]
    guarded = bool(row.bad) or row.only is not None
    if guarded and any(may_be_flag(word) for word in arguments):
        return False
    flags, operands = parted(arguments)
    if row.only is not None:
        held = [*flags, *(operands if row.operands == "none" else ())]
        return all(word.text in row.only for word in held)
    if any(is_bad(flag.text, row.bad) for flag in flags):
        return False
    match row.operands:
        case "none":
            return not operands
        case "one":
            # A second operand of these is the file they write.
            return len(operands) <= 1 and not command.more_arguments
        case _:
            return True


def may_be_flag(word: Word) -> bool:
    """A word that could turn into an option: a variable, or a glob at the head."""
    return (
        (word.dynamic and not word.raw.startswith('"'))
        or (word.dynamic and word.text.startswith("-"))
        or (word.dynamic and not word.text)
        or (word.glob and word.text[:1] in "*?[-")
    )


def parted(arguments: tuple[Word, ...]) -> tuple[list[Word], list[Word]]:
    """Options and operands; after `--` everything is an operand."""
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


def is_bad(flag: str, bad: frozenset[str]) -> bool:
    """Whether an option is one of the bad ones: bundled letters and shortened names count."""
    name = flag.partition("=")[0]
    if flag.startswith("--"):
        return any(b.startswith("--") and (b.startswith(name) or name.startswith(b)) for b in bad)
    return any(
        (len(b) == 2 and b[1] in name) or (not b.startswith("--") and name.startswith(b))
        for b in bad
    )


def date_looks(arguments: tuple[Word, ...]) -> bool:
    """`date 0101` sets the clock; only `+format` may stand without an option before it."""
    previous = ""
    for word in arguments:
        value = previous in ("-d", "--date", "-r", "--reference", "-v", "-j")
        if not word.text.startswith(("-", "+")) and not value:
            return False
        previous = word.text
    return True


FIND_LOOKS = frozenset(
    [
        "-L",
        "-H",
        "-P",
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-ctime",
        "-cmin",
        "-atime",
        "-amin",
        "-newer",
        "-anewer",
        "-cnewer",
        "-newermt",
        "-maxdepth",
        "-mindepth",
        "-depth",
        "-d",
        "-empty",
        "-executable",
        "-readable",
        "-writable",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-nouser",
        "-nogroup",
        "-links",
        "-inum",
        "-samefile",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-not",
        "-o",
        "-or",
        "-a",
        "-and",
        "-xdev",
        "-mount",
        "-daystart",
        "-follow",
        "-ls",
        "-true",
        "-false",
        "-lname",
        "-ilname",
        "-used",
        "-fstype",
        "-noleaf",
        "-exec",
        "-execdir",
        "-ignore_readdir_race",
        "-O1",
        "-O2",
        "-O3",
    ]
)


def find_looks(arguments: tuple[Word, ...]) -> bool:
    """`find` without actions of its own; what `-exec` starts is judged for itself."""
    inside = False
    for word in arguments:
        if inside:
            inside = word.text not in (";", "+")
        elif may_be_flag(word) or (
            word.text.startswith("-") and len(word.text) > 1 and not find_word(word.text)
        ):
            return False
        elif word.text in ("-exec", "-execdir"):
            inside = True
    return True


def find_word(text: str) -> bool:
    return text in FIND_LOOKS or re.fullmatch(r"-\d+[a-zA-Z]?|-\d+", text) is not None


ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
SED_COMMAND = re.compile(
    rf"\s*(?:{ADDRESS}(?:\s*[,~]\s*\+?{ADDRESS})?)?\s*!?\s*(?:[pdqQnNDPhHgGx=l]"
    r"|s([/|#,@:!%~])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI\d]*"
    r"|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/)?\s*(?:[;\n}]|\Z)"
)
SED_FLAGS = frozenset(
    [
        "-n",
        "-e",
        "-E",
        "-r",
        "-z",
        "-u",
        "-s",
        "-l",
        "--quiet",
        "--silent",
        "--expression",
        "--regexp-extended",
    ]
)


def sed_looks(arguments: tuple[Word, ...]) -> bool:
    """`sed` whose every script prints, deletes or replaces in what it prints."""
    scripts: list[Word] = []
    expects, operands = False, 0
    for word in arguments:
        name, _, value = word.text.partition("=")
        if may_be_flag(word):
            return False
        if expects:
            scripts.append(word)
            expects = False
        elif word.text in ("-e", "--expression", "-ne", "-En", "-nE", "-nr"):
            expects = word.text.endswith("e") or name == "--expression"
        elif name == "--expression":
            scripts.append(Word(raw=value, text=value, dynamic=word.dynamic))
        elif word.text.startswith("-") and len(word.text) > 1:
            if name not in SED_FLAGS:
                return False
        elif operands == 0 and not scripts:
            scripts.append(word)
            operands = 1
    return bool(scripts) and all(not s.dynamic and sed_script(s.text) for s in scripts)


def sed_script(text: str) -> bool:
    place = 0
    while place < len(text):
        match = SED_COMMAND.match(text, place)
        if match is None or match.end() == place:
            return False
        place = match.end()
    return True


AWK_ACTS = re.compile(
    r"system|getline|[|>@`]|ENVIRON|close|fflush|printf?\s*\(.*\)\s*>|include|load"
)


def awk_looks(arguments: tuple[Word, ...]) -> bool:
    """`awk` whose program starts nothing, writes nothing and loads nothing."""
    words = list(arguments)
    while words and words[0].text.startswith("-"):
        flag = words.pop(0)
        if flag.dynamic or flag.text[:2] not in ("-F", "-v"):
            return False
        if flag.text in ("-F", "-v") and words:
            words.pop(0)
    return bool(words) and not words[0].dynamic and not AWK_ACTS.search(words[0].text)


def read_looks(arguments: tuple[Word, ...]) -> bool:
    """`read` into variables of a script's own, which by custom are written small."""
    flags, operands = parted(arguments)
    small = all(re.fullmatch(r"[a-z_][a-z0-9_]*", w.text) and not w.dynamic for w in operands)
    return small and all(flag.text in ("-r", "-s", "-ra", "-a") for flag in flags)


JQ_ACTS = re.compile(r"\benv\b|\$ENV|\binput_filename\b|\bimport\b|\binclude\b|\bdebug\b|\$__prog")


def jq_looks(arguments: tuple[Word, ...]) -> bool:
    """`jq` whose filter reads neither the environment nor modules."""
    return not any(JQ_ACTS.search(word.text) for word in arguments)
