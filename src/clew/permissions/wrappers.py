"""Commands that start other commands, and the search for the commands they start.

Owns the table. `unwrapped` returns the inner commands of a simple command, and whether the outer
one adds nothing (`timeout 30 make` is `make`). A command that clew cannot follow becomes a
`ShellProblem`.
"""

import re

from msgspec import Struct, structs

from clew.permissions.shell import Assignment, Script, ShellProblem, Simple, split
from clew.permissions.words import Word, without_system_folder

MAX_DEPTH = 6


class Wrapper(Struct, frozen=True, kw_only=True):
    """The syntax of a wrapper's arguments: options with values, and operands before the command.

    `plain` lists the options with which the wrapper adds nothing to the command it starts. With any
    other option, the wrapper itself also needs a rule.
    """

    values: frozenset[str] = frozenset()
    operands: int = 0
    plain: frozenset[str] | None = None
    assigns: bool = False
    more_arguments: bool = False


def options(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: dict[str, Wrapper] = {
    "timeout": Wrapper(
        values=options("-s -k --signal --kill-after"),
        operands=1,
        plain=options("-s -k -v -p -f --signal --kill-after --preserve-status --foreground"),
    ),
    "time": Wrapper(values=options("-o -f --output --format"), plain=options("-p")),
    "nice": Wrapper(values=options("-n --adjustment"), plain=options("-n --adjustment")),
    "nohup": Wrapper(plain=frozenset()),
    "stdbuf": Wrapper(
        values=options("-i -o -e --input --output --error"),
        plain=options("-i -o -e --input --output --error"),
    ),
    "command": Wrapper(plain=frozenset()),
    "builtin": Wrapper(plain=frozenset()),
    "!": Wrapper(plain=frozenset()),
    "coproc": Wrapper(),
    "env": Wrapper(
        values=options("-u -C -S --unset --chdir --split-string --argv0 -a"), assigns=True
    ),
    "xargs": Wrapper(
        values=options(
            "-I -n -P -L -d -E -s -a --replace --max-args --max-procs --max-lines --delimiter "
            "--eof --max-chars --arg-file"
        ),
        more_arguments=True,
    ),
    "exec": Wrapper(values=options("-a")),
    "sudo": Wrapper(
        values=options(
            "-u -g -h -p -C -D -R -r -t -T -U --user --group --host --prompt --chdir --chroot"
        ),
        assigns=True,
    ),
    "doas": Wrapper(values=options("-u -C")),
    "ionice": Wrapper(values=options("-c -n -p --class --classdata")),
    "chrt": Wrapper(values=options("-T -P -D"), operands=1),
    "taskset": Wrapper(operands=1),
    "setsid": Wrapper(),
    "setarch": Wrapper(operands=1),
    "unbuffer": Wrapper(),
    "caffeinate": Wrapper(values=options("-t -w")),
    "strace": Wrapper(values=options("-e -o -p -s -u -E -P -O -S -a -b -I -X")),
    "ltrace": Wrapper(values=options("-e -o -p -s -u -l -n -a -A")),
    "watch": Wrapper(values=options("-n -q --interval --equexit")),
    "parallel": Wrapper(values=options("-j -N -n -I -a -S --jobs"), more_arguments=True),
    "chroot": Wrapper(operands=1),
    "unshare": Wrapper(values=options("-S -G -R -w")),
    "nsenter": Wrapper(values=options("-t -S -G -r -w")),
    "flock": Wrapper(values=options("-w -E --timeout --conflict-exit-code"), operands=1),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "direnv": Wrapper(operands=2),
    "runuser": Wrapper(values=options("-u -g -G")),
    "fakeroot": Wrapper(),
    "proxychains": Wrapper(values=options("-f")),
    "rtk": Wrapper(),
    "prlimit": Wrapper(),
    "setpriv": Wrapper(),
    "choom": Wrapper(values=options("-n")),
    "linux32": Wrapper(),
    "linux64": Wrapper(),
    "ssh-agent": Wrapper(values=options("-a -t -E -O")),
}

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh"}
)
RESERVED = frozenset({
    "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "function", "select", "[[", "]]", "in",
})  # fmt: skip


class Unwrapped(Struct, frozen=True, kw_only=True):
    """The result of unwrapping a command: commands, command lines, and text that clew cannot judge.

    `plain` means that the outer command itself needs no further judgment.
    """

    inner: tuple[Simple, ...] = ()
    scripts: tuple[Script, ...] = ()
    problems: tuple[ShellProblem, ...] = ()
    plain: bool = False


NOTHING = Unwrapped()


def get_basename(word: Word) -> str:
    return word.text.rpartition("/")[2]


def is_of_system(word: Word) -> bool:
    """Return whether a program is named without a path, or in a system folder."""
    return "/" not in without_system_folder(word.text)


def unwrapped(command: Simple) -> Unwrapped:
    """Return what a command starts directly, but not what the started commands start in turn."""
    first = command.words[0]
    name = get_basename(first)
    if first.dynamic or first.glob:
        return troubled(command, "the command name is only known at run time")
    if first.text in RESERVED:
        return troubled(command, "the parser mistook a keyword for a command", syntax=True)
    if name in SHELLS:
        return shell(command)
    match name:
        case "eval":
            return code(command, command.words[1:])
        case "source" | ".":
            return troubled(command, "runs a script file that clew does not check")
        case "trap":
            return code(command, command.words[1:2]) if len(command.words) > 2 else NOTHING
        case "find":
            return found_by(command)
        case "fd" | "fdfind":
            return after_flag(command, options("-x -X --exec --exec-batch"))
        case "su" | "script" | "runuser" | "flock" if flag_value(command, "-c"):
            return code(command, flag_value(command, "-c"))
        case _:
            wrapper = WRAPPERS.get(name)
            return wrapped(command, wrapper) if wrapper is not None else NOTHING


def troubled(command: Simple, why: str, *, syntax: bool = False) -> Unwrapped:
    return Unwrapped(problems=(ShellProblem(text=command.raw[:60], why=why, syntax=syntax),))


def wrapped(command: Simple, wrapper: Wrapper) -> Unwrapped:
    words = command.words
    # `./timeout` is a program from the project, which may do anything.
    plain = wrapper.plain is not None and is_of_system(words[0])
    place, chdir = 1, False
    while place < len(words) and words[place].text.startswith("-"):
        word = words[place]
        name = word.text.partition("=")[0]
        if word.text == "--":
            place += 1
            break
        if name.startswith("--"):
            takes = name in wrapper.values and "=" not in word.text
            letters = [name]
        else:
            # Short options can be bundled (`-vk 1`). The first one with a value ends the bundle.
            letters = [f"-{letter}" for letter in word.text[1:]] or ["-"]
            ending = next((i for i, letter in enumerate(letters) if letter in wrapper.values), None)
            takes = ending == len(letters) - 1
            letters = letters if ending is None else letters[: ending + 1]
            name = word.text[:2]
        if name in ("-S", "--split-string") and get_basename(words[0]) == "env":
            return env_string(command, place)
        if name in ("-v", "-V") and get_basename(words[0]) == "command":
            return NOTHING
        chdir = chdir or name in ("-C", "-D", "-R", "--chdir", "--chroot")
        plain = plain and wrapper.plain is not None and wrapper.plain.issuperset(letters)
        place += 2 if takes else 1
    while wrapper.assigns and place < len(words) and is_assignment(words[place]):
        plain = plain and not words[place].dynamic
        place += 1
    place += wrapper.operands
    inner = words[place:]
    if not inner:
        return NOTHING
    # Every word before the command must be known: `timeout $X ls` may start what $X names.
    plain = plain and not any(word.dynamic or word.glob for word in words[:place])
    return Unwrapped(inner=(started(command, place, wrapper, chdir=chdir),), plain=plain)


def started(command: Simple, place: int, wrapper: Wrapper, *, chdir: bool) -> Simple:
    inner = command.words[place:]
    before = " ".join(word.shown for word in command.words[:place])
    return Simple(
        words=inner,
        raw=" ".join(word.raw for word in inner),
        folders=() if chdir else command.folders,
        outer=command.text,
        at=len(before) + 1,
        more_arguments=wrapper.more_arguments or command.more_arguments,
    )


def is_assignment(word: Word) -> bool:
    name, equals, _ = word.text.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[0].isdigit()


def read_env_assignments(command: Simple) -> list[Assignment]:
    """Return the assignments in `env A=1 B=2 command` and `sudo A=1 command`."""
    wrapper = WRAPPERS.get(get_basename(command.words[0]))
    if wrapper is None or not wrapper.assigns:
        return []
    return [
        Assignment(name=w.text.partition("=")[0], raw=w.text)
        for w in command.words[1:]
        if is_assignment(w)
    ]


def env_string(command: Simple, place: int) -> Unwrapped:
    word = command.words[place]
    _, equals, text = word.text.partition("=")
    attached = text if equals else word.text[2:] if not word.text.startswith("--") else ""
    rest = command.words[place + 1 :]
    if attached:
        rest = (Word(raw=attached, text=attached, dynamic=word.dynamic), *rest)
    return code(command, rest)


def shell(command: Simple) -> Unwrapped:
    """Return what `bash -c 'text'` starts: the commands in the text.

    A shell that reads a script file or its input runs code that clew cannot see.
    """
    for i, word in enumerate(command.words[1:], 1):
        if word.text.startswith("-") and "c" in word.text[1:] and not word.text.startswith("--"):
            return code(command, command.words[i + 1 : i + 2])
        if not word.text.startswith(("-", "+")):
            return troubled(command, "runs a script file that clew does not check")
    if any(word.text in ("--version", "--help") for word in command.words[1:]):
        return NOTHING
    return troubled(command, "runs a script that is piped into it")


def code(command: Simple, words: tuple[Word, ...]) -> Unwrapped:
    """Return what a command such as `eval` starts by joining these words into a command line."""
    if any(word.dynamic or word.glob for word in words):
        return troubled(command, "runs code that is only known at run time")
    text = " ".join(word.text for word in words)
    script = split(text, command.folders)
    inside = tuple(
        structs.replace(inner, outer=inner.outer or command.text) for inner in script.commands
    )
    return Unwrapped(scripts=(structs.replace(script, commands=inside),))


def flag_value(command: Simple, flag: str) -> tuple[Word, ...]:
    """Return the word after an option. The option may be the last letter in a bundle (`-qc`)."""
    for i, word in enumerate(command.words[1:], 1):
        text = word.text
        bundles = text.startswith("-") and not text.startswith("--") and text.endswith(flag[1])
        if bundles:
            return command.words[i + 1 : i + 2]
    return ()


FIND_RUNS = options("-exec -execdir -ok -okdir")


def found_by(command: Simple) -> Unwrapped:
    """Return what `find -exec` starts.

    `{}` can be any path below the folders that `find` searches.
    """
    starts = find_starts(command)
    inner: list[Simple] = []
    words = list(command.words)
    while any(w.text in FIND_RUNS for w in words):
        begin = next(i for i, w in enumerate(words) if w.text in FIND_RUNS) + 1
        end = next((i for i in range(begin, len(words)) if words[i].text in (";", "+")), len(words))
        started = tuple(found_word(w, starts) for w in words[begin:end])
        words = words[end:]
        if started:
            inner.append(
                Simple(
                    words=started,
                    raw=" ".join(w.raw for w in started),
                    folders=command.folders,
                    outer=command.text,
                )
            )
    return Unwrapped(inner=tuple(inner))


def find_starts(command: Simple) -> tuple[Word, ...]:
    """Return the folders that a `find` command searches."""
    starts: list[Word] = []
    words = list(reversed(command.words[1:]))
    while words:
        word = words.pop()
        if word.text == "-D" and words:
            words.pop()
        elif word.text.startswith(("-", "(", "!")) and not FIND_FRONT.match(word.text):
            break
        elif not word.text.startswith("-"):
            starts.append(word)
    return tuple(starts) or (Word(raw=".", text="."),)


# The options allowed before the folders, other than `-D` and its value.
FIND_FRONT = re.compile(r"-(?:[LHP]|O\d*|D.*|-)\Z")


def found_word(word: Word, starts: tuple[Word, ...]) -> Word:
    if "{}" not in word.text:
        return word
    start = starts[0]
    if word.text != "{}" or len(starts) != 1 or start.dynamic or start.glob:
        return structs.replace(word, dynamic=True)
    return Word(raw="{}", text=f"{start.text.rstrip('/')}/**", glob=True, tilde=start.tilde)


def after_flag(command: Simple, flags: frozenset[str]) -> Unwrapped:
    for i, word in enumerate(command.words[1:], 1):
        if word.text in flags:
            inner = tuple(
                structs.replace(w, dynamic=True) if "{" in w.text else w
                for w in command.words[i + 1 :]
            )
            inner_command = Simple(
                words=inner,
                raw=" ".join(w.raw for w in inner),
                folders=command.folders,
                outer=command.text,
                more_arguments=True,
            )
            return Unwrapped(inner=(inner_command,)) if inner else NOTHING
    return NOTHING


class CommandPart(Struct, frozen=True, kw_only=True):
    """A simple command to judge. Only restraining rules apply to a plain wrapper."""

    command: Simple
    plain_wrapper: bool = False
    problems: tuple[ShellProblem, ...] = ()


class Everything(Struct, frozen=True, kw_only=True):
    """All commands in a command line, including those that wrappers start, and its other parts."""

    parts: tuple[CommandPart, ...]
    script: Script


def open_wrappers(line: Script) -> Everything:
    """Return everything that a command line does, including what its wrappers start."""
    parts: list[CommandPart] = []
    scripts = [line]
    problems: list[ShellProblem] = []
    pending = [(command, 0) for command in reversed(scripts[0].commands)]
    while pending:
        command, depth = pending.pop()
        if depth > MAX_DEPTH:
            problems.append(
                ShellProblem(text=command.raw[:60], why="nested too deeply", syntax=True)
            )
            continue
        opened = unwrapped(command)
        parts.append(
            CommandPart(command=command, plain_wrapper=opened.plain, problems=opened.problems)
        )
        inner = [*opened.inner, *(c for s in opened.scripts for c in s.commands)]
        scripts += opened.scripts
        pending += [(c, depth + 1) for c in reversed(inner)]
    return Everything(
        parts=tuple(parts),
        script=Script(
            commands=tuple(p.command for p in parts),
            redirects=tuple(r for s in scripts for r in s.redirects),
            assignments=tuple(a for s in scripts for a in s.assignments),
            problems=(*(p for s in scripts for p in s.problems), *problems),
        ),
    )
