"""Split a command line into its simple commands, redirections and assignments.

Owns the walk over the entire syntax tree: lists, pipes, subshells, substitutions, here-documents,
function bodies and loops. Text that the parser cannot read completely becomes a `ShellProblem`,
never a guess. The parser is loaded for the first command line.

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

# Characters that the shell does not treat as the whitespace they look like, control characters, and
# characters that change the text direction.
ODD = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
SURROGATE = re.compile("[\ud800-\udfff]")
GAP = re.compile(r"(?:[ \t\n]|\\\n)*")

PLAIN_EXPANSION = re.compile(
    r"\$\{(?:#?\w+(?:\[(?:\d+|[@*])\])?|#?[@*?$!#-])\}|\$\{\w+(?::?[-+?]|%%?|##?)[^}]*\}", re.S
)
# `[ -v NAME ]` evaluates an index in the name. An array element with a number as its index is an
# ordinary value.
PLAIN_INDEX = re.compile(r"\$\{#?\w+\[(?:\d+|@|\*)\]\}")
ASKS_FOR_NAME = re.compile(r"['\"\\]?-['\"\\]?[vR]['\"]?\s+(?!\w+\s*(?:\]|-[ao]\s|\Z))")
INDEX_PARTS = re.compile(r"[\[\\]|-[vR]")
NUMERIC_TEST = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})

# A substitution inside a leaf of the tree. An escaped one is plain text.
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

# Nodes whose children follow each other without whitespace. In any other node this is a misreading.
GLUED = frozenset({
    "string", "translated_string", "concatenation", "expansion", "simple_expansion", "heredoc_body",
    "heredoc_redirect", "arithmetic_expansion", "brace_expression",
})  # fmt: skip
READING = frozenset({"<", "<&", "<>"})


class ShellProblem(Struct, frozen=True, kw_only=True):
    """Text that clew cannot judge. `syntax` means that the text cannot be parsed."""

    text: str
    why: str
    syntax: bool = False


class Assignment(Struct, frozen=True, kw_only=True):
    name: str
    raw: str


class Redirect(Struct, frozen=True, kw_only=True):
    """A redirection of a command: the shell itself opens the file."""

    raw: str
    word: Word
    reads: bool
    writes: bool
    folders: tuple[str, ...]


class Simple(Struct, frozen=True, kw_only=True, dict=True):
    """A simple command of at least one word.

    `folders` are the folders in which the command may run, relative to the start; empty if unknown.
    `outer` is the text of the command that starts this one (`sudo rm x` starts `rm x`), and `at` is
    the offset of this command's text within `outer`, if it occurs there.
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
    """Return everything that a command line would run, in the order in which it is written."""
    if len(command) > MAX_CHARACTERS:
        return unreadable(command[:60], f"longer than {MAX_CHARACTERS} characters")
    odd = ODD.search(command)
    if odd is not None or SURROGATE.search(command):
        return unreadable(command[:60], "contains a control character or unusual whitespace")
    data = command.encode("utf-8")
    root = parser().parse(data).root_node
    if root.has_error:
        return unreadable(command[:60], "can't be parsed as a shell command")
    walk = Walk(data, folders)
    walk.visit(root)
    if walk.lost:
        # After a `cd` in a loop or a function, the folders of the other commands are unknown.
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
    """Visits every node of the tree once, in text order, and checks that no byte is skipped."""

    def __init__(self, data: bytes, folders: tuple[str, ...]) -> None:
        self.data = data
        self.folders = folders
        self.commands: list[Simple] = []
        self.redirects: list[Redirect] = []
        self.assignments: list[Assignment] = []
        self.problems: list[ShellProblem] = []
        self.end = 0
        # Whether the text contains a character sequence that can start a substitution.
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
        r"""Report adjacent nodes that have no whitespace between them.

        The shell reads `a'b'\]` as one word, but the parser sometimes reads two.
        """
        for left_node, after in pairwise(children):
            if (
                left_node.end_byte == after.start_byte
                and after.type not in REDIRECTIONS
                # Operators separate commands, but within a command even `==` is an ordinary word.
                and (node.type == "command" or (left_node.is_named and after.is_named))
            ):
                self.problem(source(node), "words without a space between them", syntax=True)

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
            why = "contains a substitution that the parser missed"
            self.problem(source(node), why, syntax=True)

    def gap(self, until: int) -> None:
        """Check that only whitespace was skipped between two leaves of the tree."""
        if until > self.end:
            passed = self.data[self.end : until]
            between = "" if passed == b" " else passed.decode("utf-8", "replace")
            if not GAP.fullmatch(between) or set(between) == {"\\", "\n"}:
                # At a backslash before a line end, without whitespace, the shell joins the two
                # words.
                self.problem(between.strip(), "the parser skipped this text", syntax=True)
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
    """Return the arguments after a redirection, which the tree attaches to the redirection."""
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
    """Return the folders in which the next command may run.

    They are the folders of this command, or the folders to which this command changed.
    """
    if command.name != "cd":
        # `builtin cd x` and `eval 'cd x'` change the folder, but clew does not parse the target.
        moves = command.name == "eval" or not MOVING.isdisjoint([w.text for w in command.words])
        return () if moves else command.folders
    if not command.folders:
        return ()
    entered = folders_of_target(command)
    after = {*command.folders, *entered}
    return tuple(sorted(after)) if entered and len(after) <= MAX_FOLDERS else ()


def find_entered_folders(command: Simple, after: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders after this command if it is a successful `cd`, otherwise `after`."""
    return after if command.name != "cd" or not after else folders_of_target(command)


def folders_of_target(command: Simple) -> tuple[str, ...]:
    """Return the folders that a `cd` may lead to, or an empty tuple if they are unknown."""
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
    """Resolve each `..` in a folder by name, as `cd` does.

    Return None if the result would be above a home folder. After `cd link`, `cd ..` leads to the
    folder that contains the link, but `cat ../x` reads from the folder that contains its target.
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
        return  # `>&-` closes a stream.
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
        walk.problem(assignment.raw, "computes an array index")


def on_declaration(walk: Walk, node: "Node") -> None:
    """Record `export`, `declare` and similar builtins as commands with assignments."""
    words = tuple(
        raw_word(child) if child.type == "variable_assignment" else read_word(child)
        for child in node.children
    )
    raw = " ".join(word.raw for word in words)
    walk.commands.append(Simple(words=words, raw=raw, folders=walk.folders))
    for word in words[1:]:
        name, equals, _ = word.text.partition("=")
        if "[" in name and not re.fullmatch(r"\w+\[\d+\]\+?", name):
            walk.problem(word.raw, "computes an array index")
        if equals:  # `export 'PATH=.'` is a quoted assignment.
            walk.assignments.append(Assignment(name=name.rstrip("+"), raw=word.raw))


def on_for(walk: Walk, node: "Node") -> None:
    """Record the variable of a `for` loop as an assignment."""
    for variable in node.children_by_field_name("variable"):
        walk.assignments.append(Assignment(name=source(variable), raw=source(variable)))


def raw_word(node: "Node") -> Word:
    raw = source(node)
    return Word(raw=raw, text=raw)


def on_expansion(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if not PLAIN_EXPANSION.fullmatch(raw):
        walk.problem(raw, "this expansion may run a command or evaluate an expression")


def on_arithmetic(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if re.search(r"[A-Za-z_$`]", raw.strip("$([])")):
        walk.problem(raw, "arithmetic evaluates the values of variables")


def on_compound(walk: Walk, node: "Node") -> None:
    if node.children[0].type == "((":
        on_arithmetic(walk, node)


def computes_index(raw: str, assignments: list[Assignment]) -> bool:
    """Return whether a test such as `[ -v 'a[$(x)]' ]` could run code in an array index.

    Variables can also contain such an index.
    """
    inner = PLAIN_INDEX.sub("", raw[1:])
    if "[" in inner or ASKS_FOR_NAME.search(inner):
        return True
    indexed_assignments = [a for a in assignments if INDEX_PARTS.search(a.raw.partition("=")[2])]
    return bool(indexed_assignments) and "$" in inner


def on_test(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if not raw.startswith("[["):
        if computes_index(raw, walk.assignments):
            walk.problem(raw, "this test may compute an array index")
        return
    words = raw.split()
    for i, word in enumerate(words):
        if word in NUMERIC_TEST and not all(
            re.fullmatch(r"\d+|\"?\$[#?]\"?", side)
            for side in (words[i - 1], *words[i + 1 : i + 2])
        ):
            walk.problem(raw, "this test evaluates the values of variables")


def on_substitution(walk: Walk, node: "Node") -> None:
    raw = source(node)
    if raw.startswith("`") and "\\" in raw:
        walk.problem(raw, "a backslash inside backquotes is interpreted twice", syntax=True)


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
