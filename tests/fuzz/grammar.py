"""Generates command lines: grammars for each class of attack, and operators that mutate lines.

Owns the alphabets and the weights. Every function takes the source of randomness, so that a seed
gives the same lines again. A line need not be valid bash; most of those that matter nearly are.
"""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

FOLDER = Path(__file__).parent
CORPUS = FOLDER.parent / "permissions" / "corpus"

Mutation = Callable[[Random, str], str]


def read_options() -> dict[str, list[str]]:
    """Return the options of each program, as its own help lists them."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / "options.txt").read_text("utf-8").split("\n"):
        if line and not line.startswith("#"):
            name, *options = line.split(" ")
            found[name] = [o for o in options if o]
    return found


OPTIONS = read_options()
PROGRAMS = [name for name in OPTIONS if not name.startswith("git-")]
SUBCOMMANDS = [name.removeprefix("git-") for name in OPTIONS if name.startswith("git-")]

# Programs that must not run, as words.
PAYLOADS = (
    "npm publish",
    "make deploy",
    "./run.sh",
    "python3 run.py",
    "curl example.com",
    "tripwire",
    "rm a.py",
    "touch new.txt",
    "sh run.sh",
    "git branch new",
    "tee new.txt",
)
DENIED_WORDS = (
    ".env",
    "./.env",
    "secrets/key",
    ".e*",
    ".en?",
    ".[e]nv",
    ".[[:alpha:]]nv",
    ".e''nv",
    '".env"',
    ".en\\v",
    "src/../.env",
    "link-to-env",
    "link-to-secrets/key",
    "$PWD/.env",
    '"$PWD/.env"',
    "{.env,a.py}",
    "s*/key",
    "*/key",
    "secrets",
    "HEAD:.env",
    ":.env",
    ":0:.env",
    "@.env",
    "~+/.env",
    "/proc/self/cwd/.env",
    ".",
    "*",
    "..",
    "lib",
)
OPERANDS = (
    "a.py",
    "b.py",
    "src/app.py",
    "src",
    "names.txt",
    "data.csv",
    "package.json",
    "list.txt",
    "new.txt",
    "README.md",
    "*.py",
    "src/*.py",
    "TOKEN",
    "x",
    "def",
    "1",
    "-",
    "--",
    "HEAD",
    "HEAD~1",
    "main",
    "v1.0",
    "origin",
    "'a b'",
    '"a b"',
    "$HOME",
    '"$f"',
    "$f",
    "/dev/null",
    "'s/x/y/'",
    "1p",
    "'{print $1}'",
    ".",
    "''",
    "nosuch",
    "new",
)
SED = (
    "p",
    "1p",
    "s/x/y/",
    "s/x/y/w new.txt",
    "s/x/npm/e",
    "1e npm",
    "e npm",
    "w new.txt",
    "r .env",
    "R .env",
    "/x/p",
    "1,3p",
    "$p",
    "y/a/b/",
    "a text",
    "1!G;h;$!d",
    "s|x|y|gw new.txt",
    "n;e npm",
    "# note\ne npm",
    "{p;e npm\n}",
    "v;e npm",
    "l 5;e npm",
    "s/[/]/y/;e npm",
    "=",
    "q",
    "F",
    "z",
)
SED_PIECES = (
    "s/",
    "s|",
    "/",
    "|",
    "[/]",
    "[|]",
    "[]",
    "[^]",
    "]",
    "y/a/",
    "/x/",
    ";",
    ";s/",
    ";s|",
    "w new.txt",
    "e npm",
    "x",
    "p",
    "\\",
    "\n",
    "1",
)
AWK = (
    "{print $1}",
    "NR==1",
    'BEGIN{system("npm")}',
    '{print > "new.txt"}',
    '{print | "npm"}',
    'BEGIN{"npm"|getline}',
    'BEGIN{ARGV[1]=".env";ARGC=2}1',
    'BEGIN{getline l<".env";print l}',
    "1",
    "length > 3",
    "/x/{print}",
    "$1 > 2",
    'BEGIN{printf "x" > "new.txt"}',
    "{print $1, $2}",
    'END{print NR} # system("npm")',
)
VALUES = (
    "1",
    "new.txt",
    ".env",
    "npm",
    "tripwire",
    "a.py",
    "recurse",
    "x",
    "=",
    "{}",
    "'{}'",
    "1p",
    "refname",
    "'%(refname)'",
    "%H",
    "list.txt",
    "-",
    "src",
    "5",
    "HEAD",
    "/dev/stdout",
    "sh",
)
JOINERS = (
    "; ",
    ";",
    " && ",
    "&&",
    " || ",
    "||",
    " | ",
    "|",
    " |& ",
    " & ",
    "&",
    "\n",
    "\n\n",
    "\n\\\n",
    ";\\\n",
    " |\n",
    " &&\n",
    " # note\n",
    " #'\n",
    " | cat | head -1 # note\n",
    " \\\n",
    "\\\n; ",
    "\n# note\n",
    "\r\n",
    "\t;\t",
    " ; # x\n",
    " <<E;",
    "|| true; ",
)
REDIRECTS = (
    " > new.txt",
    ">new.txt",
    " >> a.py",
    " 2>/dev/null",
    " 2>&1",
    " >/dev/null",
    " > /dev/null 2>&1",
    " < a.py",
    " <.env",
    " < secrets/key",
    " &> new.txt",
    " &>/dev/null",
    " >& new.txt",
    " >| new.txt",
    " <> new.txt",
    " {PATH}<a.py",
    " {x}>new.txt",
    " 3>new.txt",
    " 3<.env",
    " <&3",
    " >&2",
    " 1>&2",
    " 2>err.txt",
    " <<< x",
    " <<<.env",
    ' <<<"$(tripwire)"',
    " > /dev/stdout",
    " 2>&-",
    " >$f",
    ' > "/dev/null"',
    " >/dev/null$f",
    " </dev/tcp/1.2.3.4/80",
    " > /dev/tcp/1.2.3.4/80",
    " >/dev/nulll",
    " 0<a.py",
    " 2>>/dev/null",
    " >'new.txt'",
    " >~/new.txt",
)
WRAPPERS = (
    "timeout 5 ",
    "timeout -k 1 5 ",
    "timeout -s KILL 5 ",
    "nice ",
    "nice -n 5 ",
    "env ",
    "env A=1 ",
    "env -i ",
    "env -u A ",
    "env -S ",
    "nohup ",
    "time ",
    "time -p ",
    "command ",
    "command -v ",
    "command -p ",
    "builtin ",
    "exec ",
    "stdbuf -oL ",
    "xargs ",
    "xargs -n1 ",
    "xargs -I{} ",
    "xargs -0 ",
    "xargs -d '\\n' ",
    "xargs -i ",
    "xargs -a list.txt ",
    "xargs -P2 -I % ",
    "! ",
    "sudo ",
    "setsid ",
    "bash -c ",
    "sh -c ",
    "eval ",
    "coproc ",
    "find . -name a.py -exec ",
    "find . -exec ",
    "fd a.py -x ",
    "noglob ",
    "busybox ",
    "trap ",
    "/usr/bin/",
    "/bin/",
    "\\",
    "./",
    "10/",
)
ASSIGNMENTS = (
    "a=1 ",
    "f=.env ",
    "f=-o ",
    "LC_ALL=C ",
    "PATH=10 ",
    "PATH=10:$PATH ",
    "IFS=/ ",
    "GIT_EXTERNAL_DIFF=npm ",
    "GIT_TRACE=$PWD/new.txt ",
    "GIT_PAGER=npm ",
    "PAGER=cat ",
    "HOME=. ",
    "a[0]=1 ",
    "a[$(tripwire)]=1 ",
    "a+=1 ",
    "a=(1 2) ",
    "a=($(tripwire)) ",
    "a+=(`tripwire`); ",
    "a=([$(tripwire)]=1); ",
    "a[`tripwire`]+=1; ",
    "a[$(tripwire)]=1; ",
    "a=$(tripwire) ",
    "BASH_ENV=run.sh ",
    "LD_PRELOAD=x ",
    "NO_COLOR=1 ",
    "TZ=UTC ",
    "f=a.py; ",
    "PATH=10; ",
    "export PATH=10; ",
    "f=.env; ",
    "f='$(tripwire)'; ",
    "CDPATH=lib ",
    "GLOBIGNORE=x; ",
    "DEBUG=1 ",
    "RIPGREP_CONFIG_PATH=rc ",
    "GREP_OPTIONS=-r ",
    "LESSOPEN='|npm' ",
    "POSIXLY_CORRECT=1 ",
)
# Text whose reading is hard. `X` is a payload.
TRICKS = (
    "$'\\\\'; X #'",
    "$'\\'' ; X #'",
    '"$ $(X)"',
    '"$\\\n(X)"',
    '"$(X)"',
    "$(X)",
    "`X`",
    '"`X`"',
    "\"${v:-'$(X)'}\"",
    "${v:-$(X)}",
    "${v:-'a'$(X)}",
    "${a[$(X)]}",
    "$((a[$(X)]))",
    "$[$(X)]",
    "<(X)",
    "a<(X)",
    ">(X)",
    "[[ a<(X) = b ]]",
    "[ a = b<(X) ]",
    "[[ -v a[$(X)] ]]",
    "\\\nX",
    "\n\\\nX\n",
    "; X",
    "'; X #'",
    '"; X #"',
    "\\'; X #'",
    "# ' \nX\n",
    "<<E; X\na\nE\n",
    "<<'E'; X\na\nE\n",
    "<<'E';X\na\nE\n",
    "<<E\n$(X)\nE\n",
    "<<E\n$ $(X)\nE\n",
    "<<E\n${v:-'$(X)'}\nE\n",
    "<<-'E'\na\n\tE\nX\nE\n",
    "<<'E'\na\nE\nX\n",
    "<<\\E;X\na\nE\n",
    "<<'E F'\na\nE F\nX\n",
    "<<''\n\nX\n",
    "<<'E' # note\na\nE\nX\n",
    "<<'E'\na\\\nE\nX\nE\n",
    "<<E'F'\na\nEF\nX\n",
    "<<'E' <<'F'\nE\nF\nX\nF\n",
    "{PATH}<a.py; ls",
    "{a,$(X)}",
    "{-o,new.txt}",
    "@(a|$(X))",
    "~$(X)",
    "~+",
    "a=~`X`",
    "'$(X)'",
    "\\$(X)",
    "\\\\$(X)",
    '"\\$(X)"',
    '"\\\\$(X)"',
    "\\`X\\`",
    "\u00a0X",
    "\u00a0#; X",
    "\r#; X",
    "\x0b# ; X",
    "\u2028#; X",
    "\u2028X\n",
    "\x0bX",
    "\x0c; X",
    "\rX",
    "\x85X",
    "\\\r\nX",
    "\0X",
    "$f",
    '"$f"',
    "${f}",
    "$1",
    "$@",
    "$*",
    "$#",
    "$?",
    "$$",
    "$!",
    "$-",
    "$_",
    "$0",
    "!!",
    "!x",
    "(X)",
    "{ X; }",
    "f() { X; }; f",
    "ls() { X; }; ls",
    "if true; then X; fi",
    "for f in a; do X; done",
    "while X; do break; done",
    "case a in a) X;; esac",
    "(( a[$(X)] ))",
    "let a[$(X)]",
    "declare -a v='($(X))'",
    "export v=$(X)",
    "read -r f < .env; echo $f",
    "trap X EXIT",
    "source run.sh",
    ". run.sh",
    "a=b X",
    "time X",
    "! X",
    "coproc X",
    "HEAD@{1}",
    "HEAD^{tree}",
    "@{u}",
    "{}",
    "=",
    "==",
    "[a]",
    "[!a]",
    "~root",
    "--",
    "-",
    "+",
    "^",
    "%",
    "a=b",
    "a:~",
)
ALPHABET = "'\"\\$`(){}[]<>|&;#!~*?=+-@:,.%^/ \t\nabEX019_"


def one_of(rng: Random, of: tuple[str, ...] | list[str]) -> str:
    return of[int(rng.random() * len(of))]


def with_payload(rng: Random, text: str) -> str:
    if "X" not in text:
        return text
    return re.sub(r"(?<![\w-])X\b", lambda _: one_of(rng, PAYLOADS), text)


def option(rng: Random, program: str) -> str:
    """An option as programs accept it: bundled, attached, shortened, quoted."""
    options = OPTIONS.get(program) or ["-a"]
    chosen = one_of(rng, options)
    way = rng.random()
    if chosen.endswith("="):
        if way < 0.6:
            return chosen + one_of(rng, VALUES)
        chosen = chosen[:-1]
        if way < 0.75:
            return f"{chosen} {one_of(rng, VALUES)}"
    if chosen.startswith("--"):
        if way < 0.15:
            return chosen[: rng.randint(3, len(chosen))]
        if way < 0.3:
            return f"{chosen[: rng.randint(3, len(chosen))]}={one_of(rng, VALUES)}"
        if way < 0.4:
            return f"{chosen} {one_of(rng, VALUES)}"
        return chosen
    if way < 0.15:
        return chosen + one_of(rng, VALUES)
    if way < 0.35:
        return f"{chosen} {one_of(rng, VALUES)}"
    if way < 0.5:
        other = one_of(rng, options)
        if len(other) == 2:
            return chosen + other[1]
    if way < 0.55:
        return one_of(rng, ("'{}'", '"{}"', "\\{}", "{}''", "$'{}'")).format(chosen)
    return chosen


def operand(rng: Random) -> str:
    way = rng.random()
    if way < 0.62:
        return one_of(rng, OPERANDS)
    if way < 0.85:
        return one_of(rng, DENIED_WORDS)
    return with_payload(rng, one_of(rng, TRICKS))


def sed_script(rng: Random) -> str:
    """A script of sed, or pieces of scripts in any order."""
    if rng.random() < 0.5:
        return one_of(rng, SED)
    return "".join(one_of(rng, SED_PIECES) for _ in range(2 + int(rng.random() * 6)))


VERSIONED = ("make", "python3", "node", "npx", "pytest", "cargo", "yarn", "bash", "go", "rustc")


def program_words(rng: Random) -> str:
    """One command with options and operands in any order."""
    if rng.random() < 0.02:
        return one_of(rng, VERSIONED) + one_of(rng, (" version", " --version", " -V", " -v"))
    if rng.random() < 0.3:
        name = one_of(rng, SUBCOMMANDS)
        words = ["git", *(["--no-pager"] if rng.random() < 0.05 else []), name]
        table = f"git-{name}"
        if name == "remote" or name == "stash":
            words.append(one_of(rng, ("-v", "list", "show", "add", "update", "drop", "get-url")))
    else:
        name = table = one_of(rng, PROGRAMS)
        words = [name]
        if name == "sed" and rng.random() < 0.8:
            words.append(quoted(rng, sed_script(rng)))
        elif name == "awk":
            words.append(quoted(rng, one_of(rng, AWK)))
        elif name == "find":
            words.append(one_of(rng, (".", "src", "secrets", "-O3 .", "$PWD", "")))
        elif name in ("timeout", "nice", "env", "xargs"):
            return f"{one_of(rng, WRAPPERS)}{program_words(rng)}"
    for _ in range(int(rng.random() * 4)):
        words.append(option(rng, table) if rng.random() < 0.6 else operand(rng))
    if rng.random() < 0.5:
        words.append(operand(rng))
    if "-exec" in words or "-execdir" in words:
        words.append(one_of(rng, ("cat {} \\;", "npm {} \\;", "grep x {} +", "ls \\; -delete")))
    return " ".join(w for w in words if w)


def quoted(rng: Random, text: str) -> str:
    way = rng.random()
    if way < 0.7 and "'" not in text:
        return f"'{text}'"
    if way < 0.85 and not set(text) & set('"$`\\'):
        return f'"{text}"'
    if not set(text) & set("'\"$`\\;|&<>(){} \n*?[#!~"):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def command(rng: Random) -> str:
    text = program_words(rng)
    if rng.random() < 0.12:
        text = one_of(rng, ASSIGNMENTS) + text
    if rng.random() < 0.12:
        text = one_of(rng, WRAPPERS) + text
    if rng.random() < 0.2:
        text += one_of(rng, REDIRECTS)
    if rng.random() < 0.05:
        text = with_payload(rng, one_of(rng, TRICKS))
    return text


def line(rng: Random) -> str:
    text = command(rng)
    while rng.random() < 0.3:
        text += one_of(rng, JOINERS) + command(rng)
    return text


def insert_sign(rng: Random, text: str) -> str:
    at = rng.randint(0, len(text))
    return text[:at] + one_of(rng, list(ALPHABET)) + text[at:]


def drop_sign(rng: Random, text: str) -> str:
    if not text:
        return text
    at = rng.randrange(len(text))
    return text[:at] + text[at + 1 :]


def replace_sign(rng: Random, text: str) -> str:
    if not text:
        return text
    at = rng.randrange(len(text))
    return text[:at] + one_of(rng, list(ALPHABET)) + text[at + 1 :]


def insert_trick(rng: Random, text: str) -> str:
    at = word_start(rng, text) if rng.random() < 0.7 else rng.randint(0, len(text))
    blank = one_of(rng, (" ", "", " "))
    return text[:at] + with_payload(rng, one_of(rng, TRICKS)) + blank + text[at:]


def insert_continuation(rng: Random, text: str) -> str:
    at = rng.randint(0, len(text))
    return text[:at] + one_of(rng, ("\\\n", "\n\\\n", "\\\n\\\n", " \\\n", "\\\r\n")) + text[at:]


def word_start(rng: Random, text: str) -> int:
    places = [0, len(text), *(m.end() for m in re.finditer(r"[ \n]", text))]
    return places[rng.randrange(len(places))]


def words_of(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"[^ \n;|&<>()]+", text))


def swap_word(rng: Random, text: str) -> str:
    words = words_of(text)
    if not words:
        return text
    chosen = words[rng.randrange(len(words))]
    new = operand(rng)
    return text[: chosen.start()] + new + text[chosen.end() :]


def quote_word(rng: Random, text: str) -> str:
    words = words_of(text)
    if not words:
        return text
    chosen = words[rng.randrange(len(words))]
    word = chosen[0]
    cut = rng.randint(0, len(word))
    new = one_of(
        rng,
        [
            f"'{word}'",
            f'"{word}"',
            f"$'{word}'",
            f'$"{word}"',
            f"\\{word}",
            f"{word[:cut]}''{word[cut:]}",
            f'{word[:cut]}""{word[cut:]}',
            f"{word[:cut]}\\{word[cut:]}",
            f"{word[:cut]}'{word[cut:]}'",
            f"{{{word},{word}}}",
            f"{word[:cut]}*",
            f"{word[:cut]}?{word[cut + 1 :]}",
            f"[{word[:1]}]{word[1:]}",
            f"$(echo {word})",
            f"${{v:-{word}}}",
            f"~/{word}",
            f"$PWD/{word}",
        ],
    )
    return text[: chosen.start()] + new + text[chosen.end() :]


def add_option(rng: Random, text: str) -> str:
    """One more option for a program that the line names."""
    words = [m for m in words_of(text) if m[0] in OPTIONS or f"git-{m[0]}" in OPTIONS]
    if not words:
        return text
    chosen = words[rng.randrange(len(words))]
    name = chosen[0] if chosen[0] in OPTIONS else f"git-{chosen[0]}"
    end = chosen.end()
    if rng.random() < 0.5:
        rest = re.compile(r"[ \n]|$").search(text, min(end + 1, len(text)))
        end = rest.start() if rest else end
    return f"{text[:end]} {option(rng, name)}{text[end:]}"


def add_redirect(rng: Random, text: str) -> str:
    at = word_start(rng, text) if rng.random() < 0.5 else len(text)
    return text[:at] + one_of(rng, REDIRECTS) + " " + text[at:]


def add_front(rng: Random, text: str) -> str:
    starts = [0, *(m.end() for m in re.finditer(r"(?:[;|&\n]+|&&|\|\|) *", text))]
    at = starts[rng.randrange(len(starts))]
    return text[:at] + one_of(rng, WRAPPERS + ASSIGNMENTS) + text[at:]


def join_line(rng: Random, text: str) -> str:
    other = with_payload(rng, "X") if rng.random() < 0.5 else command(rng)
    if rng.random() < 0.3:
        return other + one_of(rng, JOINERS) + text
    return text + one_of(rng, JOINERS) + other


def enclose(rng: Random, text: str) -> str:
    way = one_of(
        rng,
        [
            "({})",
            "{{ {}; }}",
            "if {}; then ls; fi",
            "for f in a .env; do {}; done",
            "while read f; do {}; done < list.txt",
            "case a in a) {};; esac",
            "$({})",
            '"$({})"',
            "`{}`",
            "echo $({})",
            "[[ $({}) ]]",
            "f() {{ {}; }}; f",
            "{} &",
            "! {}",
            "time {}",
            "bash -c '{}'",
            "{} | while read f; do cat $f; done",
            "cd src && {}",
            "cd secrets; {}",
            "(cd secrets && {})",
            "{} | xargs cat",
            "{} | sh",
        ],
    )
    return (
        way.replace("{{", "\1")
        .replace("}}", "\2")
        .replace("{}", text, 1)
        .replace("\1", "{")
        .replace("\2", "}")
    )


def deny_word(rng: Random, text: str) -> str:
    words = words_of(text)
    if len(words) < 2:
        return f"{text} {one_of(rng, DENIED_WORDS)}"
    chosen = words[rng.randrange(1, len(words))]
    return text[: chosen.start()] + one_of(rng, DENIED_WORDS) + text[chosen.end() :]


MUTATIONS: tuple[tuple[str, Mutation], ...] = (
    ("sign", insert_sign),
    ("sign", drop_sign),
    ("sign", replace_sign),
    ("reading", insert_trick),
    ("reading", insert_trick),
    ("continuation", insert_continuation),
    ("word", swap_word),
    ("quoting", quote_word),
    ("option", add_option),
    ("option", add_option),
    ("option", add_option),
    ("redirect", add_redirect),
    ("front", add_front),
    ("join", join_line),
    ("join", join_line),
    ("compound", enclose),
    ("denied", deny_word),
    ("denied", deny_word),
)


def read_corpus(name: str) -> list[str]:
    """The lines of a corpus file. One that begins with `# ` and has no line break is a heading."""
    path = CORPUS / name
    if not path.exists():
        return []
    return [
        text.replace("⏎", "\n")
        for text in path.read_text("utf-8").split("\n")
        if text and not (text.startswith("# ") and "⏎" not in text)
    ]
