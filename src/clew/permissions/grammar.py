"""Parse the part of bash whose meaning is certain; everything else is `Unread`.

Owns the command grammar: a line may run without asking only if the grammar accepts every byte of
it. The parser never recovers or guesses. Whatever has no rule below ends the parse: substitutions,
arithmetic, ANSI-C quotes, parameter operators, groups, loops, `[[`, braces, line continuations,
here-documents that expand, control characters and unusual whitespace. docs/using/permissions.md
lists what is accepted, and `make fuzz` compares this parser with bash itself.

Decision: docs/decisions/061-two-readings-of-a-command-line.md
"""

import re
from typing import NoReturn

from msgspec import Struct, structs

from clew.permissions.shell import (
    MAX_CHARACTERS,
    MAX_FOLDERS,
    ODD,
    SURROGATE,
    Assignment,
    Redirect,
    Script,
    Simple,
    find_entered_folders,
    find_next_folders,
)
from clew.permissions.words import KNOWN_FOLDERS, SHOWN_TEXT, Word, text_shown
from clew.permissions.wrappers import RESERVED

KEYWORDS = RESERVED | {"coproc"}
# These words change how the rest of a command is parsed, so a line that contains one is never sure.
UNSURE = KEYWORDS | {"time", "!", "declare", "export", "local", "readonly", "typeset", "unset"}

# An unquoted run of characters that are literal anywhere in a word.
PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,+@%=^-]+(?=[ \t\n;|&]|\Z)")
PLAIN = re.compile(r"[A-Za-z0-9_./:,+@%=^!#-]+")
SINGLE = re.compile(r"'([^']*)'")
# Literal text between double quotes. A lone `$` before the characters in the lookahead is literal.
DOUBLE = re.compile(r'[^"\\$`]+|\\[^\n`]|\$(?=["| ),])')
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|[?#])|\{([A-Za-z_][A-Za-z0-9_]*)\})")
ESCAPED = re.compile(r"\\([!-~ ])")
# `HEAD@{1}`, `HEAD^{tree}`: the shell keeps braces that contain neither a comma nor `..`.
REVISION = re.compile(r"(?<=[@^])\{[A-Za-z0-9_/+-]+(?:\.[A-Za-z0-9_/+-]+)*\}")
AFTER_REVISION = re.compile(r"[A-Za-z0-9_^~}@]")
LONE_DOLLAR = re.compile(r"\$(?=[ \t\n]|\Z)")

# A line that every shell splits in the same way: plain words separated by single spaces, plain
# quoted text, and operators between spaces. Atomic groups keep the matching time linear.
SURE_TEXT = r"[A-Za-z0-9_ ./:,+@%^=-]*+"
SURE_WORD = (
    r"(?:--?[A-Za-z0-9_./:,+@%^=-]++|[A-Za-z0-9_./:,+@%^-]++"
    rf"|'{SURE_TEXT}'|\"{SURE_TEXT}\")(?=[ ;]|\Z)"
)
SURE_COMMAND = rf"[A-Za-z0-9_./][A-Za-z0-9_./-]*+(?>(?: {SURE_WORD})*)(?>(?: 2>&1(?=[ ;]|\Z))?)"
SURE_LINE = re.compile(rf"{SURE_COMMAND}(?>(?:(?: (?:[|]|&&|[|][|])|;) {SURE_COMMAND})*)")

BLANKS = re.compile(r"[ \t]+")
COMMENT = re.compile(r"#[^\n]*")
OPERATOR = re.compile(r"&&|\|\||\|&|\||;(?!;)|\n")
REDIRECTION = re.compile(r"([0-9]*)(<<<|<<|>>|>\||>&|<|>)(?![<>&|(])|(&>>?)(?![<>&|(])")
# Redirections among the three standard streams. clew itself listens on other descriptors.
DUPLICATE = re.compile(r"[0-2]?[<>]&(?:[0-2]|-)(?=[ \t\n;|&]|\Z)")
DELIMITER = re.compile(r"[ \t]*(['\"])([A-Za-z_][A-Za-z0-9_]*)\1(?=[ \t\n;|&]|\Z)")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
OTHER_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\]\+?|\+)=")
WORD_ENDS = frozenset(" \t\n;|&<>")

# What cannot follow `!`. The empty string represents the end of the line.
NO_COMMAND = frozenset(["", "!", "#", "\n", ";", "|", "&"])
CONTINUES = frozenset({"|", "|&", "&&", "||"})


# The names of unsupported syntax, by its first characters. Longer prefixes come first.
NAMES = (
    ("$((", "arithmetic"),
    ("$(", "a command substitution"),
    ("`", "a command substitution"),
    ("${", "a parameter expansion"),
    ("$'", "ANSI-C quoting"),
    ("$", "an expansion"),
    ("<(", "a process substitution"),
    (">(", "a process substitution"),
    ("((", "arithmetic"),
    ("(", "a subshell or a function"),
    ("{", "braces"),
    ("[[", "a conditional expression"),
    ("&", "a background job"),
    ("<<", "a here-document that is not literal"),
)
UNJUDGED = "uses {what}, which always requires approval"


class Unread(Struct, frozen=True, kw_only=True):
    """A line outside the grammar: the text at which the parser stopped, and why."""

    text: str
    why: str


class UnreadError(Exception):
    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def read_line(text: str) -> Script | Unread:
    """Return the simple commands, redirections and assignments of a line, or why it is refused."""
    if len(text) > MAX_CHARACTERS:
        return Unread(
            text=text[:60],
            why=f"is longer than {MAX_CHARACTERS} characters, so it requires approval",
        )
    odd = ODD.search(text) or SURROGATE.search(text)
    if odd is not None:
        return Unread(
            text=text[:60], why=UNJUDGED.format(what="a control character or unusual whitespace")
        )
    reader = LineReader(text)
    try:
        reader.read()
    except UnreadError as end:
        excerpt = text[end.at : end.at + 60].split("\n", 1)[0] or text[:60].split("\n", 1)[0]
        return Unread(text=excerpt, why=end.why)
    return Script(
        commands=tuple(reader.commands),
        redirects=tuple(reader.redirects),
        assignments=tuple(reader.assignments),
    )


class LineReader:
    """A parser that reads from left to right and never backtracks.

    `at` is its position in the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[Simple] = []
        self.redirects: list[Redirect] = []
        self.assignments: list[Assignment] = []
        # The programs that substitutions start in the words of the current command.
        self.inside: list[Word] = []
        # The folders where the next command may run, first if each `cd` succeeded, then if any
        # failed.
        self.folders: tuple[str, ...] = (".",)
        self.possible: tuple[str, ...] = (".",)
        # True while every command of the list so far must succeed for the next one to run.
        self.is_chain = True
        # The delimiter of the here-document that begins on the next line.
        self.here: str | None = None

    def refuse(self, what: str = "") -> NoReturn:
        """Stop parsing here. The reason names `what`, or the syntax found at this position."""
        rest = self.text[self.at : self.at + 3]
        name = next((name for head, name in NAMES if rest.startswith(head)), "shell syntax")
        raise UnreadError(self.at, UNJUDGED.format(what=what or name))

    def read(self) -> None:
        """Parse a list of commands. `&&`, `||`, `|` and `|&` must be followed by a command."""
        text = self.text
        waits = False
        while True:
            self.skip(lines=True)
            if self.at == len(text):
                break
            self.command()
            waits = False
            self.skip()
            if self.at == len(text):
                break
            match = OPERATOR.match(text, self.at)
            if match is None:
                self.refuse()
            self.follow(match[0])
            if match[0] == "\n":
                continue
            self.at = match.end()
            waits = match[0] in CONTINUES
        if waits:
            self.refuse("an incomplete command list")
        if self.here is not None:
            self.refuse("an unterminated here-document")

    def follow(self, operator: str) -> None:
        """Update the folders in which the next command may run.

        After `cd x &&`, the next command runs in x. After any other operator, it may also run in
        the folder from before the `cd`.
        """
        if operator != "&&" or not self.is_chain:
            self.folders = self.possible
        self.is_chain = operator in (";", "\n") or (operator == "&&" and self.is_chain)

    def skip(self, *, lines: bool = False) -> None:
        """Skip whitespace and comments, and optionally newlines.

        A comment may begin only where a word could.
        """
        text = self.text
        while self.at < len(text):
            sign = text[self.at]
            if sign in " \t":
                self.at += 1
            elif sign == "#":
                match = COMMENT.match(text, self.at)
                assert match is not None
                self.at = match.end()
            elif sign == "\n" and lines:
                self.at += 1
                if self.here is not None:
                    self.pass_here_document()
            else:
                return

    def pass_here_document(self) -> None:
        """Skip the text of a here-document with a quoted delimiter, which is only data."""
        end = f"{self.here}"
        while True:
            line_end = self.text.find("\n", self.at)
            line = self.text[self.at :] if line_end < 0 else self.text[self.at : line_end]
            self.at = len(self.text) if line_end < 0 else line_end + 1
            if line == end:
                self.here = None
                return
            if line_end < 0:
                self.refuse("an unterminated here-document")

    # -- one command

    def command(self) -> None:
        text = self.text
        words: list[Word] = []
        assignments: list[Assignment] = []
        folders = self.folders
        redirected = False
        while True:
            match = PLAIN_WORD.match(text, self.at)
            if match is not None and words:
                raw = match[0]
                self.at = match.end()
                words.append(Word(raw=raw, text=raw))
            elif not self.redirection():
                begin = self.at
                if begin == len(text) or text[begin] in "\n;|&":
                    break
                word = self.word()
                if not words:
                    if word.raw == "!" and not redirected and not assignments:
                        self.negated()
                        continue
                    match = ASSIGNMENT.match(word.raw)
                    if match is not None:
                        assignments.append(self.assignment(match[1], word, begin))
                        self.blanks()
                        continue
                    if word.raw in KEYWORDS or OTHER_ASSIGNMENT.match(word.raw):
                        self.at = begin
                        self.refuse()
                words.append(word)
            else:
                if words and words[0].raw == "time" and words[-1].raw in ("time", "-p"):
                    self.refuse("a redirection between `time` and its command")
                redirected = True
            self.blanks()
        if words:
            command = Simple(
                words=tuple(words),
                raw=" ".join([word.raw for word in words]),
                assignments=tuple(assignments),
                folders=self.folders,
            )
            self.commands.append(command)
            after = find_next_folders(command)
            self.folders = find_entered_folders(command, after)
            self.possible = merged(self.possible, after)
        elif not assignments and not redirected:
            self.refuse("an operator without a command")
        self.assignments += assignments
        for program in self.inside:
            self.commands.append(Simple(words=(program,), raw=program.raw, folders=folders))
        self.inside.clear()

    def blanks(self) -> None:
        match = BLANKS.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            if self.text.startswith("#", self.at):
                self.skip()

    def negated(self) -> None:
        """Parse `!`, which must be followed by a command.

        Since `!` inverts the result, the list continues if the negated command fails.
        """
        self.is_chain = False
        match = BLANKS.match(self.text, self.at)
        if match is None or self.text[match.end() : match.end() + 1] in NO_COMMAND:
            self.refuse("an operator without a command")
        self.at = match.end()

    def assignment(self, name: str, word: Word, begin: int) -> Assignment:
        if word.dynamic or word.glob or word.tilde:
            self.at = begin
            self.refuse("an assignment with a value that is only known at run time")
        return Assignment(name=name, raw=word.raw)

    def redirection(self) -> bool:
        """Parse a redirection at this position, and return whether there is one."""
        text = self.text
        match = DUPLICATE.match(text, self.at)
        if match is not None:
            self.at = match.end()
            return True
        match = REDIRECTION.match(text, self.at)
        if match is None:
            return False
        begin, operator = self.at, match[3] or match[2]
        if match[1] not in ("", None, "0", "1", "2"):
            self.refuse("a redirection of a stream other than 0, 1 and 2")
        self.at = match.end()
        if operator == "<<":
            self.begin_here_document()
            return True
        self.blanks_only()
        if self.at == len(text) or text[self.at] in "\n;|&<>#":
            self.refuse("a redirection without a target")
        word = self.word()
        if word.dynamic or (word.glob and operator != "<<<"):
            self.at = begin
            self.refuse("a redirection to an unknown file")
        if operator == "<<<":
            return True
        if operator == ">&" or (operator[0] == "&" and word.text != "/dev/null"):
            # Shells disagree on whether these operators redirect both streams or start a background
            # command.
            self.at = begin
            self.refuse("a redirection that shells interpret differently")
        self.redirects.append(
            Redirect(
                raw=text[begin : self.at],
                word=word,
                reads=operator == "<",
                writes=operator != "<",
                folders=self.folders,
            )
        )
        return True

    def blanks_only(self) -> None:
        match = BLANKS.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def begin_here_document(self) -> None:
        match = DELIMITER.match(self.text, self.at)
        if match is None or self.here is not None:
            self.refuse("a here-document that is not literal")
        self.at = match.end()
        self.here = match[2]

    # -- one word

    def word(self) -> Word:
        """Parse a word, which consists of literal text, quoted text and simple variables."""
        text, begin = self.text, self.at
        pieces: list[str] = []
        variables: list[str] = []
        glob = tilde = dynamic = in_brackets = False
        while self.at < len(text):
            sign = text[self.at]
            if sign in WORD_ENDS:
                break
            if in_brackets and sign in "'\"\\$":
                # What a bracket expression matches depends on the quoted characters in it.
                self.refuse("a bracket expression that contains quotes")
            match = PLAIN.match(text, self.at)
            if match is not None:
                pieces.append(match[0])
                self.at = match.end()
                continue
            match sign:
                case "'":
                    match = SINGLE.match(text, self.at)
                    if match is None:
                        self.refuse("an unterminated quote")
                    self.no_line_in_quotes(match[1])
                    pieces.append(match[1])
                    self.at = match.end()
                case '"':
                    dynamic |= self.double(pieces, variables)
                case "\\":
                    match = ESCAPED.match(text, self.at)
                    if match is None:
                        self.refuse("a backslash before a line end or an unusual character")
                    pieces.append(match[1])
                    self.at = match.end()
                case "$":
                    match = VARIABLE.match(text, self.at)
                    if match is not None:
                        dynamic |= self.variable(match, pieces, variables, begin, is_quoted=False)
                    elif LONE_DOLLAR.match(text, self.at):
                        pieces.append("$")
                        self.at += 1
                    else:
                        self.refuse("")
                case "*" | "?" | "[" | "]":
                    glob |= sign != "]"
                    in_brackets = sign == "[" or (in_brackets and sign != "]")
                    pieces.append(sign)
                    self.at += 1
                case "~":
                    tilde |= self.tilde(begin)
                    pieces.append("~")
                    self.at += 1
                case "{":
                    pieces.append(self.braces(begin))
                case _:
                    self.refuse()
        if self.at == begin:
            self.refuse()
        raw = text[begin : self.at]
        word = Word(
            raw=raw,
            text="".join(pieces),
            dynamic=dynamic,
            # A lone `[` is the `test` command.
            glob=glob and raw != "[",
            tilde=tilde,
            variables=tuple(variables),
        )
        is_home = variables[:1] == ["HOME"] and word.begins_with_folder
        return structs.replace(word, tilde=True) if is_home else word

    def no_line_in_quotes(self, quoted: str) -> None:
        """Refuse a line break in quotes before the text of a here-document.

        Shells disagree on where the text of the here-document begins in this case.
        """
        if self.here is not None and "\n" in quoted:
            self.refuse("a here-document that is not literal")

    def double(self, pieces: list[str], variables: list[str]) -> bool:
        """Parse text between double quotes, and return whether it contains a variable."""
        text, begin = self.text, self.at
        is_first = not any(pieces)
        if text.startswith('"$(cat ', begin):
            pieces.append(self.shown_text())
            return False
        dynamic = False
        self.at += 1
        while True:
            match = DOUBLE.match(text, self.at)
            if match is not None:
                part = match[0]
                self.no_line_in_quotes(part)
                if part[0] == "\\" and not text[self.at - 1].isascii():
                    # In some encodings, a backslash byte can be the second half of the preceding
                    # character.
                    self.refuse("a backslash after a non-ASCII letter")
                if part[0] == "\\" and part[1] in '$"\\':
                    part = part[1]
                pieces.append(part)
                self.at = match.end()
                is_first = False
                continue
            if text.startswith('"', self.at):
                self.at += 1
                return dynamic
            match = VARIABLE.match(text, self.at)
            if match is None:
                self.refuse("an unterminated quote" if self.at == len(text) else "")
            dynamic |= self.variable(
                match, pieces, variables, begin if is_first else -1, is_quoted=True
            )
            is_first = False

    def shown_text(self) -> str:
        """Parse `"$(cat <<'EOF' ...)"`, and return the text of its here-document.

        Its `cat` is judged as a command. Bash 3.2 treats a lone apostrophe in the text as the start
        of a quoted string. If no other apostrophe follows, Bash 3.2 reports a syntax error and runs
        nothing.
        """
        self.at += 1
        match = SHOWN_TEXT.match(self.text, self.at)
        if match is None or not self.text.startswith('"', match.end()):
            self.refuse()
        text = text_shown(match)
        if text is None or self.here is not None or "'" in self.text[match.end() :]:
            self.refuse()
        self.at = match.end() + 1
        self.inside.append(Word(raw="cat", text="cat"))
        return text

    def variable(
        self,
        match: re.Match[str],
        pieces: list[str],
        variables: list[str],
        begin: int,
        *,
        is_quoted: bool,
    ) -> bool:
        """Parse a variable, and return whether its value is unknown. A leading `$HOME` is known."""
        name = match[1] or match[2]
        self.at = match.end()
        variables.append(name)
        if name in KNOWN_FOLDERS and begin >= 0 and not any(pieces):
            pieces.append(KNOWN_FOLDERS[name])
            # Without quotes, the shell splits the value and expands patterns in it.
            return not is_quoted
        return True

    def tilde(self, begin: int) -> bool:
        """Parse `~`. In `~/x` it is the home folder; after a revision (`HEAD~2`) it is literal."""
        after = self.text[self.at + 1 : self.at + 2]
        if self.at == begin:
            if after in ("", "/", " ", "\t", "\n", ";", "|", "&"):
                return True
            self.refuse("another user's home folder")
        if not AFTER_REVISION.match(self.text, self.at - 1):
            self.refuse()
        return False

    def braces(self, begin: int) -> str:
        """Parse `{}` or the braces of a revision (`@{upstream}`), which are literal.

        All other braces may expand, so they are refused.
        """
        text = self.text
        if self.at == begin and text.startswith("{}", begin):
            self.at += 2
            if self.at == len(text) or text[self.at] in " \t\n;|&":
                return "{}"
            self.at = begin
        match = REVISION.match(text, self.at)
        if match is None:
            self.refuse("braces that the shell may expand")
        self.at = match.end()
        return match[0]


def merged(possible: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of both arguments, without duplicates.

    Return an empty tuple, which means unknown, if either argument is empty or there are too many
    folders.
    """
    if not possible or not after:
        return ()
    every = tuple(dict.fromkeys((*possible, *after)))
    return every if len(every) <= MAX_FOLDERS else ()


def words_of(script: Script, *, without: str = "") -> list[list[str]]:
    return [
        [word.text for word in command.words if word.text != without]
        for command in script.commands
        if command.name != "["  # The syntax tree has a separate node type for `[`.
    ]


def is_sure(text: str) -> bool:
    """Return whether all shells read a line alike, so that one reading is enough."""
    return SURE_LINE.fullmatch(text) is not None and UNSURE.isdisjoint(
        text.replace(";", " ").split()
    )


def is_same_reading(ours: Script, theirs: Script) -> bool:
    """Return whether two readings of a line contain the same commands, words and redirections."""
    # The syntax tree skips a lone dash before a here-document and reports it as a problem.
    passed = "-" if theirs.problems and all(p.text == "-" for p in theirs.problems) else ""
    return (
        (not theirs.problems or bool(passed))
        and words_of(ours, without=passed) == words_of(theirs, without=passed)
        and [(r.word.text, r.reads, r.writes) for r in ours.redirects]
        == [(r.word.text, r.reads, r.writes) for r in theirs.redirects]
        and [a.raw for a in ours.assignments] == [a.raw for a in theirs.assignments]
    )
