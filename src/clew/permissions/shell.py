"""Splits a command line into every simple command, redirection and assignment in it.

Owns the walk over the syntax tree, which goes everywhere: lists, pipes, subshells, substitutions,
here-documents, bodies of functions and loops. A text that the parser cannot read whole is a
`ShellProblem`, never a guess. The parser is loaded when the first command line comes.

Decision: docs/decisions/061-two-readings-of-a-command-line.md
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from clew.permissions.words import Word, read_word, source

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CHARACTERS = 20_000
MAX_FOLDERS = 8

# White space that is none to the shell, control characters, and signs that turn text around.
ODD = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
SURROGATE = re.compile("[\ud800-\udfff]")
GAP = re.compile(r"(?:[ \t\n]|\\\n)*")

PLAIN_EXPANSION = re.compile(
    r"\$\{(?:#?\w+(?:\[(?:\d+|[@*])\])?|#?[@*?$!#-])\}|\$\{\w+(?::?[-+?]|%%?|##?)[^}]*\}", re.S
)
# `[ -v NAME ]` evaluates the name's index; an element by its number is no more than a value.
PLAIN_INDEX = re.compile(r"\$\{#?\w+\[(?:\d+|@|\*)\]\}")
ASKS_FOR_NAME = re.compile(r"['\"\\]?-['\"\\]?[vR]['\"]?\s+(?!\w+\s*(?:\]|-[ao]\s|\Z))")
INDEX_PARTS = re.compile(r"[\[\\]|-[vR]")
NUMERIC_TEST = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})

# A substitution inside what the tree calls one sign; an escaped one is text.
HIDDEN = re.compile(rb"(?<!\\)(?:\\\\)*(?:`|[$<>]\(|\$\{|\$\[)")

SUBSTITUTION = re.compile(rb"`|[$<>]\(|\$[{\[]")

REPEATED = frozenset(
    {"while_statement", "for_statement", "c_style_for_statement", "function_definition"}
)
MOVING = frozenset({"cd", "pushd", "popd"})
LITERAL = frozenset({"raw_string", "ansi_c_string", "comment"})
HEREDOC = frozenset({"heredoc_body", "heredoc_content"})
REDIRECTIONS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
NO_WORDS = REDIRECTIONS | {"variable_assignment", "comment"}

# Nodes whose parts stand side by side without a blank; in all others that is a misreading.
GLUED = frozenset({
    "string", "translated_string", "concatenation", "expansion", "simple_expansion", "heredoc_body",
    "heredoc_redirect", "arithmetic_expansion", "brace_expression",
})  # fmt: skip
READING = frozenset({"<", "<&", "<>"})


class ShellProblem(Struct, frozen=True, kw_only=True):
    """A part nobody can vouch for. `syntax`: it cannot even be read."""

    text: str
    why: str
    syntax: bool = False


class Assignment(Struct, frozen=True, kw_only=True):
    name: str
    raw: str


class Redirect(Struct, frozen=True, kw_only=True):
    """A file the shell itself opens."""

    raw: str
    word: Word
    reads: bool
    writes: bool
    folders: tuple[str, ...]


class Simple(Struct, frozen=True, kw_only=True, dict=True):
    """One simple command of at least one word. `folders`: where it may run, relative to the start; empty if unknown.

    `outer` is the text of the command that starts this one (`sudo rm x` starts `rm x`), and
    `at` where this one's text begins in it, if it does.
    """

    words: tuple[Word, ...]
    raw: str
    assignments: tuple[Assignment, ...] = ()
    folders: tuple[str, ...] = (".",)
    outer: str | None = None
    at: int | None = None
    more_arguments: bool = False

    @property
    def name(self) -> str:
        return self.words[0].text

    @cached_property
    def text(self) -> str:
        return " ".join([word.shown for word in self.words])


class Script(Struct, frozen=True, kw_only=True):
    commands: tuple[Simple, ...]
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    problems: tuple[ShellProblem, ...] = ()


@cache
def parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def split(command: str, folders: tuple[str, ...] = (".",)) -> Script:
    """Everything a command line would run, in the order of its text."""
    if len(command) > MAX_CHARACTERS:
        return unreadable(command[:60], f"longer than {MAX_CHARACTERS} characters")
    odd = ODD.search(command)
    if odd is not None or SURROGATE.search(command):
        return unreadable(command[:60], "holds a control character or white space of another kind")
    data = command.encode("utf-8")
    root = parser().parse(data).root_node
    if root.has_error:
        return unreadable(command[:60], "the shell's grammar does not read it")
    walk = Walk(data, folders)
    walk.visit(root)
    if walk.lost:
        # A `cd` in a loop or a function: nothing can be said of where the others run.
        walk.commands = [structs.replace(c, folders=()) for c in walk.commands]
        walk.redirects = [structs.replace(r, folders=()) for r in walk.redirects]
    return Script(
        commands=tuple(walk.commands),
        redirects=tuple(walk.redirects),
        assignments=tuple(walk.assignments),
        problems=tuple(walk.problems),
    )


def unreadable(text: str, why: str) -> Script:
    return Script(commands=(), problems=(ShellProblem(text=text, why=why, syntax=True),))


class Walk:
    """Visits every node once, in the order of the text; also proves that no byte was passed over."""

    def __init__(self, data: bytes, folders: tuple[str, ...]) -> None:
        self.data = data
        self.folders = folders
        self.commands: list[Simple] = []
        self.redirects: list[Redirect] = []
        self.assignments: list[Assignment] = []
        self.problems: list[ShellProblem] = []
        self.end = 0
        # Whether any sign of the text can hold a substitution.
        self.may_hide = SUBSTITUTION.search(data) is not None
        self.literal_heredoc = False
        self.lost = False

    def visit(self, root: "Node") -> None:
        stack = [(root, False)]
        while stack:
            node, repeated = stack.pop()
            kind, children = node.type, node.children
            if not children:
                self.leaf(node, kind)
            elif kind not in GLUED:
                self.apart(node, children)
            handle = HANDLERS.get(kind)
            if handle is not None:
                handle(self, node)
            if repeated and kind == "command" and self.commands[-1].name in MOVING:
                self.lost = True
            repeated = repeated or kind in REPEATED
            for child in reversed(children):
                stack.append((child, repeated))
        self.gap(len(self.data))

    def apart(self, node: "Node", children: "Sequence[Node]") -> None:
        """`a'b'\\]` is one word to the shell; the grammar sometimes makes two signs of it."""
        for left_node, after in pairwise(children):
            if (
                left_node.end_byte == after.start_byte
                and after.type not in REDIRECTIONS
                # Between commands stand signs; inside of one, `==` is a word like any other.
                and (node.type == "command" or (left_node.is_named and after.is_named))
            ):
                self.problem(source(node), "words without a blank between them", syntax=True)

    def leaf(self, node: "Node", kind: str) -> None:
        start, end = node.start_byte, node.end_byte
        if start > self.end:
            self.gap(start)
        if end > self.end:
            self.end = end
        if kind in LITERAL or (kind in HEREDOC and self.literal_heredoc):
            return
        if kind == "heredoc_start":
            self.literal_heredoc = any(sign in source(node) for sign in "'\"\\")
        elif self.may_hide and node.is_named and HIDDEN.search(node.text or b""):
            why = "holds a substitution the parser did not take apart"
            self.problem(source(node), why, syntax=True)

    def gap(self, until: int) -> None:
        """Between two signs of the tree only blanks may stand."""
        if until > self.end:
            passed = self.data[self.end : until]
            between = "" if passed == b" " else passed.decode("utf-8", "replace")
            if not GAP.fullmatch(between) or set(between) == {"\\", "\n"}:
                # A backslash before a line's end and no blank: the shell joins the two words.
                self.problem(between.strip(), "the parser passed over this text", syntax=True)
            self.end = until

    def problem(self, text: str, why: str, *, syntax: bool = False) -> None:
        self.problems.append(ShellProblem(text=text[:60], why=why, syntax=syntax))


def on_command(walk: Walk, node: "Node") -> None:
    words, assignments = [], []
    for child in node.children:
        kind = child.type
        if kind not in NO_WORDS:
            words.append(read_word(child))
        elif kind == "variable_assignment":
            assignments.append(read_assignment(child))
    words += more_words(node)
    command = Simple(
        words=tuple(words),
        raw=" ".join([word.raw for word in words]),
        assignments=tuple(assignments),
        folders=walk.folders,
    )
    walk.commands.append(command)
    walk.folders = find_next_folders(command)


def more_words(node: "Node") -> list[Word]:
    """Arguments that stand after a redirection; the tree hangs them on the redirection."""
    outer = node.parent
    if outer is None or outer.type != "redirected_statement":
        return []
    words = []
    for redirect in outer.children:
        if redirect.type == "file_redirect":
            words += [read_word(n) for n in redirect.children_by_field_name("destination")[1:]]
        elif redirect.type == "heredoc_redirect":
            words += [read_word(n) for n in redirect.children_by_field_name("argument")]
    return words


def read_assignment(node: "Node") -> Assignment:
    raw = source(node)
    return Assignment(name=re.split(r"[=+\[]", raw, maxsplit=1)[0], raw=raw)


def find_next_folders(command: Simple) -> tuple[str, ...]:
    """Where the next command may run: where this one did, or where it went."""
    if command.name != "cd":
        # `builtin cd x`, `eval 'cd x'`: it moves, and nobody reads whereto.
        moves = command.name == "eval" or not MOVING.isdisjoint([w.text for w in command.words])
        return () if moves else command.folders
    if not command.folders:
        return ()
    entered = folders_of_target(command)
    after = {*command.folders, *entered}
    return tuple(sorted(after)) if entered and len(after) <= MAX_FOLDERS else ()


def find_entered_folders(command: Simple, after: tuple[str, ...]) -> tuple[str, ...]:
    """Where the next command runs if this one, a `cd`, went where it was told; else `after`."""
    return after if command.name != "cd" or not after else folders_of_target(command)


def folders_of_target(command: Simple) -> tuple[str, ...]:
    """The folders that a `cd` may lead to; none where they are unknown."""
    words = command.words[1:]
    while words and words[0].text in CD_OPTIONS:
        words = words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    elif words and words[0].text.startswith("-"):
        return ()
    if len(words) > 1:
        return ()
    target = words[0] if words else Word(raw="~", text="~", tilde=True)
    if target.dynamic or target.glob or target.text in ("", "-"):
        return ()
    folders: dict[str, None] = {}
    for folder in command.folders:
        path = join_words(folder, target.path)
        by_name = without_parents(path)
        if by_name is None:
            return ()
        folders |= dict.fromkeys((by_name, path))
    return tuple(folders) if len(folders) <= MAX_FOLDERS else ()


CD_OPTIONS = frozenset({"-L", "-P", "-e", "-Le", "-Pe", "-eL", "-eP"})


def without_parents(path: str) -> str | None:
    """A folder with its `..` taken away by name, as `cd` does; None above a home.

    After `cd link`, `cd ..` leads to where the link is, but `cat ../x` reads next to where it leads.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." not in parts:
        return path
    done: list[str] = []
    for part in parts:
        if part != ".." or (done[-1:] in ([], [".."]) and not path.startswith("/")):
            done.append(part)
        elif done[-1:] == ["~"] and path.startswith("~"):
            return None
        elif done:
            done.pop()
    return ("/" if path.startswith("/") else "") + "/".join(done) or "."


def join_words(folder: str, path: str) -> str:
    if path.startswith(("/", "~")) or folder == ".":
        return path
    return f"{folder.rstrip('/')}/{path}"


def on_redirect(walk: Walk, node: "Node") -> None:
    operator = next((c.type for c in node.children if not c.is_named), "")
    targets = node.children_by_field_name("destination")
    if len(targets) > 1 and not hangs_on_command(node):
        walk.problem(source(node), "words after a redirection", syntax=True)
    if not targets:
        return  # `>&-` closes
    word = read_word(targets[0])
    if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", word.text):
        return
    walk.redirects.append(
        Redirect(
            raw=source(node),
            word=word,
            reads=operator in READING,
            writes=operator not in ("<", "<&"),
            folders=walk.folders,
        )
    )


def hangs_on_command(node: "Node") -> bool:
    outer = node.parent
    return (
        outer is not None
        and outer.type == "redirected_statement"
        and outer.children[0].type == "command"
    )


def on_assignment(walk: Walk, node: "Node") -> None:
    assignment = read_assignment(node)
    walk.assignments.append(assignment)
    if "[" in assignment.raw.partition("=")[0] and not re.match(r"\w+\[\d+\]", assignment.raw):
        walk.problem(assignment.raw, "an index is computed")


def on_declaration(walk: Walk, node: "Node") -> None:
    """`export`, `declare` and their like are commands too."""
    words = tuple(
        raw_word(child) if child.type == "variable_assignment" else read_word(child)
        for child in node.children
    )
    raw = " ".join(word.raw for word in words)
    walk.commands.append(Simple(words=words, raw=raw, folders=walk.folders))
    for word in words[1:]:
        name, equals, _ = word.text.partition("=")
        if "[" in name and not re.fullmatch(r"\w+\[\d+\]\+?", name):
            walk.problem(word.raw, "an index is computed")
        if equals:  # `export 'PATH=.'` is an assignment in quotes
            walk.assignments.append(Assignment(name=name.rstrip("+"), raw=word.raw))


def on_for(walk: Walk, node: "Node") -> None:
    """The variable of a loop is set as surely as by `=`."""
    for variable in node.children_by_field_name("variable"):
        walk.assignments.append(Assignment(name=source(variable), raw=source(variable)))


def raw_word(node: "Node") -> Word:
    raw = source(node)
    return Word(raw=raw, text=raw)


def on_expansion(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if not PLAIN_EXPANSION.fullmatch(raw):
        walk.problem(raw, "an expansion that may run or compute something")


def on_arithmetic(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if re.search(r"[A-Za-z_$`]", raw.strip("$([])")):
        walk.problem(raw, "arithmetic evaluates what variables hold")


def on_compound(walk: Walk, node: "Node") -> None:
    if node.children[0].type == "((":
        on_arithmetic(walk, node)


def computes_index(raw: str, assignments: list[Assignment]) -> bool:
    """Whether `[ -v 'a[$(x)]' ]` could run what stands in an index, also through variables."""
    inner = PLAIN_INDEX.sub("", raw[1:])
    if "[" in inner or ASKS_FOR_NAME.search(inner):
        return True
    indexed_assignments = [a for a in assignments if INDEX_PARTS.search(a.raw.partition("=")[2])]
    return bool(indexed_assignments) and "$" in inner


def on_test(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if not raw.startswith("[["):
        if computes_index(raw, walk.assignments):
            walk.problem(raw, "a test may compute an index")
        return
    words = raw.split()
    for i, word in enumerate(words):
        if word in NUMERIC_TEST and not all(
            re.fullmatch(r"\d+|\"?\$[#?]\"?", side)
            for side in (words[i - 1], *words[i + 1 : i + 2])
        ):
            walk.problem(raw, "a test evaluates what variables hold")


def on_substitution(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if raw.startswith("`") and "\\" in raw:
        walk.problem(raw, "a backslash between backquotes is read twice", syntax=True)


HANDLERS: dict[str, Callable[[Walk, "Node"], None]] = {
    "command": on_command,
    "file_redirect": on_redirect,
    "variable_assignment": on_assignment,
    "declaration_command": on_declaration,
    "unset_command": on_declaration,
    "for_statement": on_for,
    "expansion": on_expansion,
    "arithmetic_expansion": on_arithmetic,
    "c_style_for_statement": on_arithmetic,
    "compound_statement": on_compound,
    "test_command": on_test,
    "command_substitution": on_substitution,
}
