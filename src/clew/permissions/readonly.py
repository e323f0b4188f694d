"""Determine which commands only read, according to the table of programs.

Owns the further checks for programs whose arguments a table cannot describe: `find`, `sed`, `awk`,
`jq`, `printf`, `test`, `date`, `ps`. `git` has its own checks (see `git`). A command that is not
known to be read-only is never assumed to be.
"""

import re

from clew.permissions.git import git_exceeds, git_reads, is_git_reader
from clew.permissions.programs import (
    HARMFUL,
    ROWS,
    SHORT_VERSION,
    TELLS_VERSION,
    VERSION_OPTIONS,
    Arguments,
    may_be_option,
    read_arguments,
    row_of,
)
from clew.permissions.shell import Assignment, Simple
from clew.permissions.words import SECRET_NAME, Word, without_system_folder

# Without the sandbox, only these run without asking: none of their options is harmful.
SHORT_LIST = frozenset({
    "cat", "head", "tail", "ls", "wc", "stat", "pwd", "echo", "true", "false", "exit", "cd", "cut", "nl",
    "whoami", "id", "uname", "date", "basename", "dirname", "which", "type", "tr",
})  # fmt: skip

HARMLESS_VARIABLES = re.compile(
    r"LANG|LC_\w+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|CI|DEBUG"
    r"|NODE_ENV|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED|PYTHONUNBUFFERED"
    r"|PYTHONDONTWRITEBYTECODE"
)
# Names that scripts use for their own variables. Some programs, such as make and yarn, read such
# variables.
OWN_VARIABLES = re.compile(r"[a-z_][a-z0-9_]*")
# A value that no program interprets as code. make would expand `$(shell ...)`.
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_ .,:/+@%*=-]*")

# Variables that change which program runs, what it loads first, or where it sends its data.
MEANING = re.compile(
    r"PATH|CDPATH|IFS|ENV|BASH_ENV|BASH_\w*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|HOME|SHELL"
    r"|PWD|OLDPWD|DIRSTACK|OPTIND|EXECIGNORE|HIST\w*"
    r"|FIGNORE|GLOBIGNORE|POSIXLY_CORRECT|LD_\w+|DYLD_\w+|GIT_\w+|SSH_\w+|GCONV_PATH|LOCPATH"
    r"|NLSPATH|TERMINFO\w*|TMPDIR|EDITOR|VISUAL|BROWSER|\w*PAGER|LESS\w*|MANOPT|PYTHON(?!UNBUFFERED|"
    r"DONTWRITEBYTECODE)\w+|NODE_OPTIONS|NODE_PATH|NPM_\w+|npm_\w+|PERL\w+|RUBY\w+|GEM_\w+|BUNDLE_\w+"
    r"|JAVA_\w+|_JAVA_OPTIONS|JDK_\w+|CLASSPATH|GREP_OPTIONS|GREP_COLORS?|RIPGREP_CONFIG_PATH|TAR_\w+"
    r"|\w+_PROXY|\w+_proxy|SSL_CERT_\w+|CURL_\w+|AWS_\w+|DOCKER_\w+|KUBECONFIG|OPENSSL_\w+|CLEW_\w+"
    r"|CLAUDE_\w+|ANTHROPIC_\w+|RUSTC\w*|CARGO_\w+|GO(?:FLAGS|PROXY|PATH|ROOT)|CC|CXX|LESSOPEN|MAIL\w*"
)


def changes_meaning(name: str) -> bool:
    return MEANING.fullmatch(name) is not None


# In other encodings, the byte of a backslash or a quote may be part of a letter.
LOCALES = re.compile(r"(?:C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-?8|utf-?8))?")


def is_harmless(assignment: Assignment, *, is_passed_on: bool = False) -> bool:
    """Return whether setting a variable affects neither what runs nor how the line is parsed.

    `is_passed_on` means that the variable is set for a program that is not known to be read-only,
    which may read any variable.
    """
    name, _, value = assignment.raw.partition("=")
    value = value.strip("'\"")
    if changes_meaning(name):
        return False
    if HARMLESS_VARIABLES.fullmatch(name) is None:
        return not is_passed_on and OWN_VARIABLES.fullmatch(name) is not None
    if is_passed_on and PLAIN_VALUE.fullmatch(value) is None:
        return False
    is_locale = name == "LANG" or name.startswith("LC_")
    return not is_locale or LOCALES.fullmatch(value) is not None


def risky_variables(command: Simple) -> list[Assignment]:
    """Return the assignments before a command (`A=1 cmd`) that may change what the command does."""
    is_passed_on = bool(command.assignments) and not is_reader(command)
    return [a for a in command.assignments if not is_harmless(a, is_passed_on=is_passed_on)]


def bare_name(command: Simple) -> str:
    """Return the name of the program, without its path if it is in a system folder."""
    return without_system_folder(command.words[0].text)


def only_reads(command: Simple, home: str = "") -> bool:
    """Return whether a command is known to change nothing, whatever files it names.

    `home` is the session's folder, whose repository git may read.
    """
    if not all(map(is_harmless, command.assignments)):
        return False
    first = command.words[0]
    name = bare_name(command)
    # Arguments from the input could be options or files that are not in the command line.
    if first.dynamic or first.glob or "/" in name or command.more_arguments:
        return False
    words = command.words[1:]
    if any(tells_secret(word) for word in words):
        return False
    if len(words) == 1 and tells_version(name, words[0]):
        return True
    if name == "git":
        return git_reads(command, home)
    row = row_of(name)
    if row is None:
        return False
    if name == "find":
        return find_reads(words)
    arguments = read_arguments(row, words)
    if arguments is None:
        return False
    if row.operands == "none":
        return not arguments.operands
    if row.operands == "one":
        # The second operand of these programs is a file to write, and a pattern may expand to two.
        return len(arguments.operands) <= 1 and not any(w.glob for w in arguments.operands)
    if row.operands == "pattern" and arguments.operands and arguments.operands[0].glob:
        return False  # In `grep a* b`, the expansion decides which word is the pattern.
    check = CHECKS.get(name)
    return check is None or check(arguments)


def tells_version(name: str, word: Word) -> bool:
    if word.dynamic or word.glob:
        return False
    return (name in TELLS_VERSION and word.text in VERSION_OPTIONS) or (
        (name, word.text) in SHORT_VERSION
    )


def is_reader(command: Simple) -> bool:
    """Return whether a program only reads, ignoring its options."""
    name = bare_name(command)
    return is_git_reader(command) if name == "git" else name in ROWS


# The arguments of these programs are code: unless it is known to be read-only, it could do
# anything.
INTERPRETED = frozenset({"find", "sed", "awk", "gawk", "mawk", "nawk", "jq", "printf", "ps"})


def exceeds_reading(command: Simple, home: str = "") -> bool:
    """Return whether a read-only program is made to do more than read: `find -delete`, `sort -o`.

    A rule that only names the program is not meant to allow this.
    """
    name = command.name.rpartition("/")[2]
    words = command.words[1:]
    if name == "git":
        return git_exceeds(command, home) or (command.more_arguments and is_git_reader(command))
    if name not in ROWS:
        return False
    if command.more_arguments or any(tells_secret(word) for word in words):
        return True
    if name in INTERPRETED:
        return not only_reads(command)
    row = row_of(name)
    assert row is not None
    if row.operands == "one" and any(is_operand(word) for word in words):
        arguments = read_arguments(row, words)
        if arguments is None or len(arguments.operands) > 1:
            return True
    harmful = HARMFUL.get(name, frozenset())
    return bool(harmful) and any(
        may_be_option(word) or is_one_of(word.text, harmful) for word in words
    )


def is_operand(word: Word) -> bool:
    return word.dynamic or word.text == "-" or not word.text.startswith("-")


def is_one_of(option: str, listed: frozenset[str]) -> bool:
    """Return whether an option is in the list, even if it is bundled or abbreviated."""
    name = option.partition("=")[0]
    if name.startswith("---"):
        return True  # Some programs ignore further dashes.
    if name.startswith("--"):
        return name != "--" and any(
            option.startswith("--") and (option.startswith(name) or name.startswith(option))
            for option in listed
        )
    return option.startswith("-") and any(
        (len(option) == 2 and option[1] in name)
        or (not option.startswith("--") and name.startswith(option))
        for option in listed
    )


def tells_secret(word: Word) -> bool:
    return any(SECRET_NAME.search(name) for name in word.variables)


# -- programs whose arguments are code, or name more than files


def date_reads(arguments: Arguments) -> bool:
    """Return whether `date` has only `+format` operands; `date 0101` would set the clock."""
    return all(word.text.startswith("+") and not word.dynamic for word in arguments.operands)


# `%n` assigns to the variable that an argument names.
ASSIGNING_FORMAT = re.compile(r"%[^%a-zA-Z]*[hlLjztq]*n")


def printf_reads(arguments: Arguments) -> bool:
    if not arguments.operands:
        return True
    form = arguments.operands[0]
    return (
        not form.dynamic
        and not form.glob
        and ASSIGNING_FORMAT.search(form.text.replace("%%", "")) is None
    )


SECONDS = re.compile(r"\d{0,3}(?:\.\d+)?s?")


def sleep_reads(arguments: Arguments) -> bool:
    return all(SECONDS.fullmatch(word.text) and not word.dynamic for word in arguments.operands)


BINARY_TESTS = frozenset(["=", "==", "!=", "<", ">"])
TEXT_TESTS = frozenset(["-n", "-z"])
EVALUATING_TESTS = frozenset(["-v", "-R"])


def test_reads(arguments: Arguments) -> bool:
    """Return whether a `test` command evaluates no code.

    `test -v NAME` evaluates an array index in the name. A variable could expand to an operator like
    `-v`, so it is accepted only where the other words determine the form of the test.
    """
    words = list(arguments.operands)
    while words and words[0].raw == "!":
        del words[0]
    if words and words[-1].raw == "]":
        del words[-1]
    if any(
        word.glob or word.text in EVALUATING_TESTS or (word.dynamic and not is_quoted(word))
        for word in words
    ):
        return False
    if not any(word.dynamic for word in words):
        return True
    match words:
        case [word]:
            return is_quoted(word)
        case [operator, _]:
            return operator.raw in TEXT_TESTS
        case [_, operator, _]:
            return operator.raw in BINARY_TESTS
        case _:
            return False


def is_quoted(word: Word) -> bool:
    return word.raw[:1] == '"' and word.raw[-1:] == '"' and word.raw.count('"') == 2


PROCESS_LISTS = frozenset(["aux", "ax", "auxww", "auxf", "axf", "axu", "x"])
# After any other option, such a word could turn `-e` into the option that shows the environment.
BESIDE_LISTS = frozenset(["--sort", "--no-headers", "--forest"])
PROCESS_COLUMNS = re.compile(
    r"(?:pid|ppid|pgid|sid|user|uid|euser|comm|command|cmd|args|ucmd|etime|etimes|stat|state|time"
    r"|%cpu|%mem|pcpu|pmem|rss|vsz|tty|tname|start|lstart|nice|ni|pri|nlwp|wchan)(?:=\w*)?"
)


def ps_reads(arguments: Arguments) -> bool:
    """Return whether `ps` has only arguments that do not show the environment of processes.

    `ps e`, for example, shows the environment.
    """
    columns = [column for value in arguments.values("-o", "-eo", "-axo") for column in split(value)]
    if arguments.operands and not arguments.names <= BESIDE_LISTS:
        return False
    return all(word.text in PROCESS_LISTS for word in arguments.operands) and all(
        PROCESS_COLUMNS.fullmatch(column) for column in columns
    )


def split(word: Word) -> list[str]:
    return [part for part in re.split(r"[ ,]", word.text) if part]


# The options, tests and actions of find, with the number of words that each consumes.
FIND_WORDS: dict[str, int] = {
    **dict.fromkeys(
        [
            "-L",
            "-H",
            "-P",
            "-depth",
            "-d",
            "-daystart",
            "-follow",
            "-noleaf",
            "-mount",
            "-xdev",
            "-ignore_readdir_race",
            "-empty",
            "-executable",
            "-readable",
            "-writable",
            "-nouser",
            "-nogroup",
            "-true",
            "-false",
            "-print",
            "-print0",
            "-prune",
            "-quit",
            "-ls",
            "-not",
            "-o",
            "-or",
            "-a",
            "-and",
            "!",
            "(",
            ")",
            ",",
        ],
        0,
    ),
    **dict.fromkeys(
        [
            "-maxdepth",
            "-mindepth",
            "-regextype",
            "-amin",
            "-anewer",
            "-atime",
            "-cmin",
            "-cnewer",
            "-ctime",
            "-fstype",
            "-gid",
            "-group",
            "-ilname",
            "-iname",
            "-inum",
            "-ipath",
            "-iregex",
            "-iwholename",
            "-links",
            "-lname",
            "-mmin",
            "-mtime",
            "-name",
            "-newer",
            "-path",
            "-perm",
            "-regex",
            "-samefile",
            "-size",
            "-type",
            "-uid",
            "-used",
            "-user",
            "-wholename",
            "-xtype",
            "-printf",
        ],
        1,
    ),
}
FIND_OPTIMIZES = re.compile(r"-O[0-3]")
FIND_NEWER = re.compile(r"-newer[aBcm][aBcmt]")


def find_reads(words: tuple[Word, ...]) -> bool:
    """Return whether a `find` command contains only tests, and actions that print."""
    pending = list(reversed(words))
    in_expression = False
    while pending:
        word = pending.pop()
        if may_be_option(word):
            return False
        text = word.text
        if FIND_OPTIMIZES.fullmatch(text):
            continue
        is_operator = word.text in ("!", "(", ")", ",")
        if not text.startswith("-") and not is_operator:
            if in_expression:
                return False
            continue
        takes = 1 if FIND_NEWER.fullmatch(text) else FIND_WORDS.get(text)
        if takes is None or len(pending) < takes:
            return False
        in_expression = in_expression or text not in ("-L", "-H", "-P")
        if takes and may_be_option(pending.pop()):
            return False
    return True


# A bracket expression in which neither the delimiter `{0}` nor a bracket or backslash occurs. Some
# versions of sed end a pattern at a delimiter in brackets, others do not.
BRACKETS = r"\[\^?+\]?+(?:\[:[a-z]+:\]|(?!{0})[^]\[\\\n]|\\(?!{0})[^]\[\\\n])*\]"
DELIMITER = r"\1"
PATTERN = rf"(?:{BRACKETS}|(?!{{0}})[^\[\\\n]|\\.)*"
ADDRESS = rf"(?:\d+|\$|/{PATTERN.format('/')}/I?)"
SED_COMMAND = re.compile(
    rf"\s*(?:{ADDRESS}(?:\s*[,~]\s*\+?{ADDRESS})?)?\s*!?\s*(?:[pdqQnNDPhHgGx=l]"
    rf"|s([/|#,@:!%~]){PATTERN.format(DELIMITER)}{DELIMITER}"
    rf"(?:(?!{DELIMITER})[^\\\n]|\\.)*{DELIMITER}[gpiI\d]*"
    r"|y/(?:[^/\[\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/)?\s*(?:[;\n}]|\Z)"
)


# The length of a line. Where `-l` has no value, as in BSD, the word after it is the script.
LINE_LENGTH = re.compile(r"\d+")


def sed_reads(arguments: Arguments) -> bool:
    """Return whether a `sed` command only prints, deletes or replaces text in its output."""
    lengths = arguments.values("-l", "--line-length")
    if any(LINE_LENGTH.fullmatch(word.text) is None for word in lengths):
        return False
    scripts = arguments.values("-e", "--expression") or list(arguments.operands[:1])
    return bool(scripts) and all(not word.glob and sed_script(word.text) for word in scripts)


def sed_script(text: str) -> bool:
    place = 0
    while place < len(text):
        match = SED_COMMAND.match(text, place)
        if match is None or match.end() == place:
            return False
        place = match.end()
    return True


AWK_ACTS = re.compile(
    r"system|getline|[|>@`]|ENVIRON|ARGV|ARGC|PROCINFO|SYMTAB|FUNCTAB|FILENAME\s*=|close|fflush|include|load"
)


def awk_reads(arguments: Arguments) -> bool:
    """Return whether an `awk` program runs no commands, opens no other files and loads no code."""
    if not arguments.operands or arguments.operands[0].glob:
        return False
    program = arguments.operands[0].text.replace("||", " ").replace(">=", " ")
    # Before the first action `>` compares; inside an action it writes.
    patterns, brace, actions = program.partition("{")
    return AWK_ACTS.search(patterns.replace(">", " ") + brace + actions) is None


JQ_ACTS = re.compile(
    r"\benv\b|\bENV\b|\binput_filename\b|\bimport\b|\binclude\b|\bdebug\b|\$__prog|\bmodulemeta\b"
    r"|\bget_search_list\b"
)


def jq_reads(arguments: Arguments) -> bool:
    """Return whether a `jq` filter reads neither the environment nor modules."""
    return not any(JQ_ACTS.search(word.text) for word in arguments.operands)


def strings_reads(arguments: Arguments) -> bool:
    """Return whether `strings` has no `@file` argument, which names a file of options."""
    values = [value for _, value in arguments.options if value is not None]
    return not any(word.text.startswith("@") for word in (*arguments.operands, *values))


CHECKS = {
    "date": date_reads,
    "printf": printf_reads,
    "sleep": sleep_reads,
    "test": test_reads,
    "[": test_reads,
    "ps": ps_reads,
    "sed": sed_reads,
    "awk": awk_reads,
    "gawk": awk_reads,
    "mawk": awk_reads,
    "nawk": awk_reads,
    "jq": jq_reads,
    "strings": strings_reads,
}
