"""The public names of `clew`: the API reference, and the list that a gate keeps stable.

`python -m scripts.api_reference` prints docs/extending/api.md's generated part,
`python -m scripts.api_reference surface` the list in tests/gates/public_api.txt.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec

import clew
import clew.engine

# The sections of the reference, by the module that defines a name.
SECTIONS = {
    "fronts.sdk.client": "Sessions",
    "fronts.sdk.options": "Options",
    "permissions.request": "Options",
    "parts.mcp.functions": "Tools",
    "fronts.sdk.messages": "Messages",
    "fronts.sdk.stored_session": "Stored sessions",
    "fronts.sdk.sessions": "Stored sessions",
    "record.library.branches": "Stored sessions",
    "record.library.search": "Stored sessions",
    "record.transcript.check": "Stored sessions",
    "record.transcript.light": "Stored sessions",
    "core.ledger.ledger": "Stored sessions",
    "providers.base": "Providers and stores",
    "agent.compaction.strategy": "Providers and stores",
    "fronts.sdk.session_store": "Providers and stores",
    "parts.packages": "Parts",
    "fronts.headless.permission": "Errors",
    "core.messages.errors": "Errors",
    "version": "Version",
}
ORDER = list(dict.fromkeys(SECTIONS.values()))
# Docstrings of type aliases, which have none at run time.
ALIASES = {
    "Block": "A block of a message.",
    "Message": "What a session yields.",
    "Mode": "A permission mode.",
    "Effort": "How much the model thinks.",
    "ProviderFunction": "A program's own provider: a request in, the pieces of the answer out.",
    "CompactFunction": "A program's own compaction; None lets clew do it.",
    "PrepareFunction": "Changes the messages of each request.",
    "AnswerEvent": "What an `AnswerReader` says: a part of the answer, or a fault.",
    "CATALOG": "The models that clew knows, with their limits and prices.",
    "__version__": "The version of clew, as in its package.",
}


# Public by name, but for clew's own modules.
INTERNAL = ("as_options", "listed", "answer", "copy_sums")
# Types in public signatures that only clew's own modules need.
INTERNAL_TYPES = ("ServiceRow", "Reader")
# Public names that are neither types nor functions.
VALUES = ("__version__", "CATALOG")
# A field in a docstring's list.
FIELD = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.M)


def sections() -> Iterator[tuple[str, list[str]]]:
    names = {name: SECTIONS[home] for home, group in vars(clew)["_HOMES"].items() for name in group}
    for section in ORDER:
        yield section, [name for name in names if names[name] == section]
    yield "Engine", [name for name in clew.engine.__all__ if name not in names]


def find(name: str) -> Any:
    """Return a public object of `clew` or `clew.engine`."""
    return getattr(clew, name) if name in vars(clew)["__all__"] else getattr(clew.engine, name)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that clew defines for a class."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("clew.")]
    found = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    for name, value in found.items():
        is_member = isinstance(value, property | staticmethod) or inspect.isfunction(value)
        if is_member and not name.startswith("_") and name not in INTERNAL:
            yield name, value


def sign(name: str, value: Any) -> str:
    """Return a member's or function's signature without `self`."""
    if isinstance(value, property):
        (kind,) = (str(inspect.signature(get).return_annotation) for get in [value.fget] if get)
        return f"{name}: {shorten(kind)}"
    function = value.__func__ if isinstance(value, staticmethod) else value
    signature = str(inspect.signature(function))
    words = "async def " if inspect.iscoroutinefunction(function) else "def "
    return words + name + shorten(re.sub(r"\(self(, )?", "(", signature, count=1))


def shorten(kind: str) -> str:
    """Return an annotation without the modules of its names."""
    kind = re.sub(r"<class '([^']+)'>", r"\1", kind)
    kind = re.sub(r"(-> |: |^)'([^']+)'", r"\1\2", kind)
    kind = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", kind)
    return kind.replace("StoredSession", "Session")


def fields(cls: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of the fields of a class."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    described = dict(FIELD.findall(inspect.getdoc(cls) or ""))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if name.startswith("_"):
                continue
            above = node.lineno - 2
            comment: list[str] = []
            while lines[above].strip().startswith("#"):
                comment.insert(0, lines[above].strip(" #"))
                above -= 1
            kind = shorten(ast.unparse(node.annotation))
            default = "" if node.value is None else ast.unparse(node.value)
            meaning = " ".join(described.get(name, " ".join(comment)).split())
            yield name, kind, default, meaning


def has_fields(value: Any) -> bool:
    """Return whether this is a class with fields, or with attributes that it declares."""
    return isinstance(value, type) and (
        issubclass(value, msgspec.Struct)
        or hasattr(value, "__dataclass_fields__")
        or any(not name.startswith("_") for name in inspect.get_annotations(value))
    )


def find_attributes(cls: type) -> set[str]:
    """Return the public attributes that the methods of a class set on its instances."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and not node.attr.startswith("_")
    }


def find_types(value: Any) -> Iterator[type]:
    """Yield the classes of clew in the annotations of a public name."""
    targets: list[Any] = [value]
    if isinstance(value, type):
        targets += [
            member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            for _, member in members(value)
        ]
    for target in targets:
        is_alias = not isinstance(target, type) and not inspect.isfunction(target)
        kinds = [target] if is_alias else list(get_type_hints(target).values())
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, list | tuple):
                kinds += kind
            elif arguments := get_args(kind):
                kinds += arguments
            elif isinstance(kind, type) and kind.__module__.startswith("clew."):
                yield kind


def about(name: str) -> str:
    """Return the docstring of a public name, without its list of fields."""
    value = find(name)
    words = ALIASES.get(name) or inspect.getdoc(value) or ""
    return words.partition("\n\nFields:\n")[0]


def surface() -> Iterator[str]:
    """Yield one line for each public name, field, member and signature."""
    for _, names in sections():
        for name in names:
            value = find(name)
            if inspect.isfunction(value):
                yield sign(name, value)
            elif not isinstance(value, type):
                yield f"{name}" if name in VALUES else f"{name} = {shorten(str(value))}"
            else:
                yield f"class {name}"
                if has_fields(value):
                    yield from (
                        f"{name}.{field}: {kind}{f' = {default}' if default else ''}"
                        for field, kind, default, _ in fields(value)
                    )
                yield from (f"{name}.{sign(each, member)}" for each, member in members(value))


def reference() -> Iterator[str]:
    """Yield the lines of the API reference."""
    for section, names in sections():
        yield from (f"## {section}", "")
        if section == "Engine":
            yield from (*(clew.engine.__doc__ or "").splitlines(), "")
            yield from ("These names are in `clew.engine`.", "")
        for name in names:
            value = find(name)
            yield from (f"### {name}", "")
            if inspect.isfunction(value):
                yield from ("```text", sign(name, value), "```", "")
            elif not isinstance(value, type) and name not in VALUES:
                yield from ("```text", f"{name} = {shorten(str(value))}", "```", "")
            yield from (*about(name).splitlines(), "")
            if has_fields(value) and (rows := list(fields(value))):
                yield from ("| field | type | default | meaning |", "| --- | --- | --- | --- |")
                for row in rows:
                    texts = [f"`{cell(text)}`" if text else "" for text in row[:3]]
                    yield f"| {' | '.join([*texts, cell(row[3])])} |"
                yield ""
            if isinstance(value, type) and (own := list(members(value))):
                yield from ("| member | meaning |", "| --- | --- |")
                for each, member in own:
                    first = (inspect.getdoc(member) or "").split("\n\n")[0]
                    yield f"| `{cell(sign(each, member))}` | {cell(' '.join(first.split()))} |"
                yield ""


def cell(words: str) -> str:
    return words.replace("|", "\\|")


def main() -> int:
    lines = surface() if sys.argv[1:] == ["surface"] else reference()
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
