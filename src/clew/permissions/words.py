"""A word of a command line as the shell would read it: its text, and whether the text is certain.

Owns the removal of quotes from syntax nodes. A word is `dynamic` if its value is only known when
the shell runs (variables, substitutions, braces). Its text must not be trusted.
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node

# Variables with a known value at the start of a path, with the path that replaces them.
KNOWN_FOLDERS = {"HOME": "~", "PWD": "."}

SECRET_NAME = re.compile(
    r"(?i)key|token|secret|passw|credential|auth|_pwd|pgpass|dsn|_pat(?:_|\Z)|webhook|cookie"
    r"|database_url|conn(?:ection)?_?str"
)

SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")

# Characters that end a word or start other syntax. A plain word that contains one was misread.
META = frozenset(";|&<>()\"'`$\n")

# Text that needs no quotes. The plainest words need no further processing at all.
UNQUOTED = re.compile(r"[\w@%+=:,./~^{}\[\]-]+")
UNQUOTED_PATTERN = re.compile(r"[\w@%+=:,./~^{}\[\]*?!-]+")
PLAIN = re.compile(rb"[A-Za-z0-9_@%+=:,./-]+")

# Text from a here-document, the form in which models pass messages of several lines. It must not
# contain any character that some version of a shell interprets before the end of the text.
SHOWN_TEXT = re.compile(r"\$\(cat <<'([A-Za-z_]\w*)'\n((?:[^\"\\$`\n]*\n)*?)\1\n\)", re.A)

ANSI_C = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|c(.))",
    re.S,
)
ANSI_SIMPLE = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class Word(Struct, frozen=True, kw_only=True):
    """One word. `text` is what the program receives, as far as it is known.

    `tilde` means that the word begins with an unquoted `~`, which means a home folder. `glob`
    means that it contains unquoted characters that the shell expands to file names.
    """

    raw: str
    text: str
    dynamic: bool = False
    glob: bool = False
    tilde: bool = False
    variables: tuple[str, ...] = ()

    @property
    def begins_with_folder(self) -> bool:
        """Return whether the word is a path after a variable whose value is known: `"$HOME/x"`."""
        return (
            len(self.variables) == 1
            and self.variables[0] in KNOWN_FOLDERS
            and self.text[:1] in "~."
            and self.raw.lstrip("\"'").startswith("$")
        )

    @property
    def path(self) -> str:
        """The text as a path. A quoted `~` is part of a file name, not a home folder."""
        return f"./{self.text}" if self.text.startswith("~") and not self.tilde else self.text

    @property
    def shown(self) -> str:
        """The canonical spelling of the word, quoted only where needed."""
        if self.dynamic or (self.glob and UNQUOTED_PATTERN.fullmatch(self.text) is None):
            return self.raw
        if self.glob or UNQUOTED.fullmatch(self.text):
            return self.text
        return "'" + self.text.replace("'", "'\\''") + "'"


def without_system_folder(name: str) -> str:
    """Return the name of a program, without its path if it is in a system folder."""
    for folder in SYSTEM_FOLDERS:
        name = name.removeprefix(folder)
    return name


class Pieces:
    """A word under construction."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.dynamic = False
        self.glob = False
        self.tilde = False
        self.variables: list[str] = []
        self.unquoted: list[str] = []

    def literal(self, text: str) -> None:
        self.text.append(text)
        self.unquoted.append("_" * len(text))

    def unknown(self) -> None:
        self.dynamic = True
        self.unquoted.append("_")

    @property
    def is_first(self) -> bool:
        return not any(self.text) and not self.dynamic


def read_word(node: "Node") -> Word:
    data = node.text or b""
    if PLAIN.fullmatch(data):
        text = data.decode("ascii")
        return Word(raw=text, text=text)
    pieces = Pieces()
    add(node, pieces)
    raw = source(node)
    return Word(
        raw=raw,
        text="".join(pieces.text),
        dynamic=pieces.dynamic or ("{" in raw and has_braces("".join(pieces.unquoted))),
        glob=pieces.glob,
        tilde=pieces.tilde,
        variables=tuple(pieces.variables),
    )


def source(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")


def has_braces(unquoted: str) -> bool:
    """Return whether braces would make the shell expand one word to several: `{a,b}`, `{1..9}`."""
    return re.search(r"\{[^{}]*(?:,|\.\.)|\{.*\{", unquoted, re.S) is not None


def add(node: "Node", pieces: Pieces) -> None:
    match node.type:
        case "command_name":
            for child in node.children:
                add(child, pieces)
        case "word" | "number" | "variable_name" if not node.child_count:
            add_plain(source(node), pieces)
        case "concatenation":
            add_joined(node, pieces)
        case "raw_string":
            pieces.literal(source(node)[1:-1])
        case "ansi_c_string":
            add_ansi_c(source(node)[2:-1], pieces)
        case "string":
            add_quoted(node, pieces)
        case "simple_expansion" | "expansion":
            add_variable(node, pieces)
        case _:
            pieces.unknown()


def add_joined(node: "Node", pieces: Pieces) -> None:
    """Add the parts of a word, which follow each other without whitespace."""
    for child in node.children:
        add(child, pieces)


def add_plain(raw: str, pieces: Pieces) -> None:
    """Add unquoted text.

    A backslash in it quotes the next character, and a leading `~` is a home folder.
    """
    if raw.startswith("~") and pieces.is_first:
        pieces.tilde = True
    i = 0
    while i < len(raw):
        char = raw[i]
        if char == "\\":
            pieces.literal(raw[i + 1 : i + 2])
            i += 2
            continue
        if char in META:
            pieces.unknown()
        if char in "*?[":
            pieces.glob = True
        pieces.text.append(char)
        pieces.unquoted.append(char)
        i += 1


def add_quoted(node: "Node", pieces: Pieces) -> None:
    """Add text between double quotes, including the expansions in it."""
    raw = node.text or b""
    place = 1
    for child in node.children:
        start, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
        if child.type in ('"', "string_content"):
            continue
        add_double(raw[place:start].decode("utf-8", "replace"), pieces)
        if child.type in ("simple_expansion", "expansion"):
            add_variable(child, pieces)
        elif match := SHOWN_TEXT.fullmatch(source(child)):
            add_shown(match, pieces)
        else:
            pieces.unknown()
        place = end
    add_double(raw[place:-1].decode("utf-8", "replace"), pieces)


def add_shown(match: re.Match[str], pieces: Pieces) -> None:
    text = text_shown(match)
    if text is None:
        pieces.unknown()
    else:
        pieces.literal(text)


def text_shown(match: re.Match[str]) -> str | None:
    """Return the text of the here-document that `SHOWN_TEXT` matched.

    Return None if an earlier line of the text may end the here-document.
    """
    delimiter, text = match[1], match[2]
    if any(line.lstrip().startswith(delimiter) for line in text.split("\n")):
        return None
    return text.rstrip("\n")


def add_double(text: str, pieces: Pieces) -> None:
    text = text.removeprefix('"')
    if text:
        pieces.literal(re.sub(r"\\([$`\"\\\n])", lambda m: m[1].strip("\n"), text))


def add_ansi_c(body: str, pieces: Pieces) -> None:
    def decode(match: re.Match[str]) -> str:
        simple, octal, *rest = match.groups()
        if simple:
            return ANSI_SIMPLE[simple]
        if octal:
            return chr(int(octal, 8) & 0xFF)
        control = rest.pop()
        if control:
            return chr(ord(control) & 0x1F)
        code = int(next(h for h in rest if h), 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"

    text = ANSI_C.sub(decode, body)
    if "\0" in text or "\ufffd" in text or not text.isascii():
        # Bytes and code points above ASCII depend on the locale; a NUL ends the word early.
        pieces.unknown()
    pieces.literal(text)


def add_variable(node: "Node", pieces: Pieces) -> None:
    raw = source(node)
    name = re.fullmatch(r"\$\{?(\w+|[@*#?$!-])\}?", raw)
    if name and name[1] in KNOWN_FOLDERS and pieces.is_first:
        folder = KNOWN_FOLDERS[name[1]]
        pieces.tilde = folder == "~"
        pieces.literal(folder)
        pieces.variables.append(name[1])
        return
    pieces.variables.append(name[1] if name else raw)
    pieces.unknown()
